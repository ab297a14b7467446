//! The small types of NFS v4: stateids, sessions, clients, times, owners.
//!
//! All are `Copy`; names are not copied. **Source:** RFC 7530 sections 2 and 9, RFC 8881 sections
//! 3.3 and 8.2.

use crate::error::DecodeError;
use crate::nfs3;
use crate::wire::{Wire, wire_choice, wire_enum, wire_struct};
use crate::xdr::{Reader, Writer};

wire_struct! {
    /// Identifies a state (open, lock, delegation) and its generation. **Source:** RFC 8881 section
    /// 3.3.12.
    #[derive(Hash, Default)]
    pub struct Stateid {
        /// Increases with every change of the state; 0 means the current one, in v4.1.
        seqid: u32,
        /// Identifies the state.
        other: [u8; 12],
    }
}

impl Stateid {
    /// Bytes on the wire.
    pub const WIRE_BYTES: usize = 16;
    /// No state: I/O that respects other owners' locks. **Source:** RFC 8881 section 8.2.3.
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; 12] };
    /// No state, and READ bypasses other owners' locks. **Source:** RFC 8881 section 8.2.3.
    pub const READ_BYPASS: Self = Self { seqid: u32::MAX, other: [0xff; 12] };
    /// The stateid of an earlier operation of the compound, since v4.1. **Source:** RFC 8881
    /// section 16.2.3.1.2.
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };
    /// Never valid, since v4.1. **Source:** RFC 8881 section 8.2.3.
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };

    /// Returns true if this is one of the special stateids that refer to no state.
    pub fn is_special(&self) -> bool {
        self.other == [0; 12] || self.other == [0xff; 12]
    }
}

/// Identifies a session of v4.1. **Source:** RFC 8881 section 2.10.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SessionId(pub [u8; 16]);

impl Wire<'_> for SessionId {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Wire::decode(reader).map(Self)
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}

/// The server's short identifier of a client. **Source:** RFC 7530 section 9.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct ClientId(pub u64);

impl Wire<'_> for ClientId {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.u64().map(Self)
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.0);
    }
}

/// An instant of the server's clock. **Source:** RFC 7530 section 2.2.1, nfstime4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Time {
    /// Seconds since 1970-01-01 UTC; negative before.
    pub seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

impl Wire<'_> for Time {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { seconds: reader.u64()?.cast_signed(), nanos: reader.u32()? })
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u64(self.seconds.cast_unsigned());
        writer.u32(self.nanos);
    }
}

impl From<nfs3::Time> for Time {
    fn from(time: nfs3::Time) -> Self {
        Self { seconds: i64::from(time.seconds), nanos: time.nanos }
    }
}

impl From<Time> for nfs3::Time {
    /// Converts to the nearest time with 32-bit seconds.
    fn from(time: Time) -> Self {
        let seconds = time.seconds.clamp(0, i64::from(u32::MAX)) as u32;
        Self { seconds, nanos: time.nanos }
    }
}

wire_choice! {
    /// How a time is set. **Source:** RFC 7530 section 2.2.2, settime4.
    pub enum SetTime("time_how4") {
        /// Set to the server's clock.
        0 => Server,
        /// Set to this instant.
        1 => Client(time: Time),
    }
}

wire_struct! {
    /// Id of a file system. **Source:** RFC 7530 section 2.2.5, fsid4.
    #[derive(Default, Hash)]
    pub struct Fsid {
        /// The more significant half.
        major: u64,
        /// The less significant half.
        minor: u64,
    }
}

// A client that knows the value from before, and sees that the change was atomic, may keep its
// cache of the directory and just adopt the value from after: RFC 7530 section 2.2.3.
wire_struct! {
    /// A directory's change attribute around an operation. **Source:** RFC 7530 section 2.2.3.
    #[derive(Default)]
    pub struct ChangeInfo {
        /// Whether no other change happened between the two values.
        atomic: bool,
        /// Value from before.
        before: u64,
        /// Value from after.
        after: u64,
    }
}

wire_struct! {
    /// The owner of an open or lock. **Source:** RFC 7531, open_owner4 and lock_owner4.
    pub struct StateOwner<'a> {
        /// Id of the client.
        client: ClientId,
        /// The owner within the client, opaque.
        owner: &'a [u8],
    }
}

wire_struct! {
    /// A client's name for itself. **Source:** RFC 7531 nfs_client_id4, RFC 5662 client_owner4.
    pub struct ClientOwner<'a> {
        /// Changes when the client restarts.
        verifier: nfs3::Verifier,
        /// Stays the same when the client restarts.
        id: &'a [u8],
    }
}

wire_struct! {
    /// An address in universal form. **Source:** RFC 7531 clientaddr4, RFC 5665.
    pub struct NetAddress<'a> {
        /// Such as `tcp` or `tcp6`.
        netid: &'a [u8],
        /// Such as `127.0.0.1.8.1`.
        address: &'a [u8],
    }
}

wire_enum! {
    /// The kind of a lock, and whether to wait for it. **Source:** RFC 7531, nfs_lock_type4.
    pub enum LockType("nfs_lock_type4") {
        /// Shared, refused at once.
        Read = 1,
        /// Exclusive, refused at once.
        Write = 2,
        /// Shared, the client will ask again.
        ReadBlocking = 3,
        /// Exclusive, the client will ask again.
        WriteBlocking = 4,
    }
}

// An owner's first lock ties it to an open, so that a server can order its locks after that open;
// further ones contain only the lock stateid. The sequence numbers order them in v4.0, and are 0 in
// a session, whose slots do that. RFC 7530 section 9.1.7, RFC 8881 section 8.8.
wire_choice! {
    /// The owner of a lock: one new to the file, or one with a lock stateid. **Source:** RFC 7531,
    /// locker4.
    pub enum Locker<'a>("new_lock_owner") {
        /// The first lock of this owner on this file.
        1 => New {
            /// Sequence number of the open owner, v4.0.
            open_seqid: u32,
            /// Stateid of the open.
            open: Stateid,
            /// First sequence number of the lock owner, v4.0.
            lock_seqid: u32,
            /// The lock owner.
            owner: StateOwner<'a>,
        },
        /// A further lock.
        0 => Existing {
            /// Stateid of the lock.
            lock: Stateid,
            /// Sequence number of the lock owner, v4.0.
            lock_seqid: u32,
        },
    }
}

wire_struct! {
    /// The conflicting lock. **Source:** RFC 7531, LOCK4denied.
    pub struct Denied<'a> {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes; all ones means to the end.
        length: u64,
        /// Type of the lock.
        lock_type: LockType,
        /// Owner of the lock.
        owner: StateOwner<'a>,
    }
}
