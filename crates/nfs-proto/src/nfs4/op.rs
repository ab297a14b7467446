//! The arguments of every supported operation of NFS v4.
//!
//! [`Op`] is a view: names, owners and payloads are not copied. The table below is both encoder and
//! decoder. A WRITE whose payload is sent separately is encoded by [`encode_write_header`].
//! **Source:** RFC 7530 section 16, RFC 8881 section 18, RFC 7862 section 15, RFC 8276 section 8.4.

use super::attributes::Fattr;
use super::bitmap::Bitmap;
use super::data::{CreateKind, NetLocation, XattrOption};
use super::layout::{DeviceError, DeviceId, IoInfo, LayoutIoMode, LayoutReturn, LayoutUpdate};
use super::opcode::OpCode;
use super::open::{Claim, OpenHow};
use super::session::{CallbackSecurity, ChannelAttributes, Implementation, StateProtection};
use super::types::{
    ClientId, ClientOwner, LockType, Locker, NetAddress, SessionId, StateOwner, Stateid, Time,
};
use crate::error::DecodeError;
use crate::limits::LAYOUT_REPORTS_MAX;
use crate::lists::List;
use crate::nfs3::{FileHandle, StableHow, Verifier};
use crate::wire::{Wire, by_code};
use crate::xdr::{Reader, Writer};

by_code! {
    /// An operation with its arguments.
    pub enum Op<'a>: OpCode, code {
        /// Queries which bits of [`crate::nfs3::access`] are granted on the current object.
        Access { access: u32 },
        /// Closes an open of the current file.
        Close { seqid: u32, stateid: Stateid },
        /// Makes `count` bytes from `offset` durable; a count of 0 means to the end.
        Commit { offset: u64, count: u32 },
        /// Creates an object in the current directory and makes it current.
        Create { kind: CreateKind<'a>, name: &'a [u8], attributes: Fattr<'a> },
        /// Gives up delegations that wait for recovery.
        Delegpurge { client: ClientId },
        /// Returns the delegation of the current file.
        Delegreturn { stateid: Stateid },
        /// Gets attributes of the current object.
        Getattr { request: Bitmap },
        /// Gets the current handle.
        Getfh,
        /// Adds a name in the current directory to the saved file.
        Link { name: &'a [u8] },
        /// Locks a range of the current file.
        Lock {
            lock_type: LockType, reclaim: bool, offset: u64, length: u64, locker: Locker<'a>,
        },
        /// Tests whether a lock on the current file would be granted.
        Lockt { lock_type: LockType, offset: u64, length: u64, owner: StateOwner<'a> },
        /// Unlocks a range of the current file.
        Locku { lock_type: LockType, seqid: u32, stateid: Stateid, offset: u64, length: u64 },
        /// Makes the object of this name in the current directory current.
        Lookup { name: &'a [u8] },
        /// Makes the parent of the current directory current.
        Lookupp,
        /// Continues if the attributes differ.
        Nverify { attributes: Fattr<'a> },
        /// Opens a regular file and makes it current.
        Open {
            seqid: u32,
            share_access: u32,
            share_deny: u32,
            owner: StateOwner<'a>,
            how: OpenHow<'a>,
            claim: Claim<'a>,
        },
        /// Makes the current object's directory of named attributes current.
        Openattr { create_dir: bool },
        /// Confirms an owner's first open, v4.0.
        OpenConfirm { stateid: Stateid, seqid: u32 },
        /// Gives up part of an open.
        OpenDowngrade { stateid: Stateid, seqid: u32, share_access: u32, share_deny: u32 },
        /// Makes this handle current.
        Putfh { file: FileHandle },
        /// Makes the public handle current.
        Putpubfh,
        /// Makes the root current.
        Putrootfh,
        /// Reads `count` bytes from `offset`.
        Read { stateid: Stateid, offset: u64, count: u32 },
        /// Lists the current directory: at most `dircount` bytes of names, `maxcount` in total.
        Readdir {
            cookie: u64, verifier: Verifier, dircount: u32, maxcount: u32, request: Bitmap,
        },
        /// Reads the current symbolic link.
        Readlink,
        /// Removes a name from the current directory.
        Remove { name: &'a [u8] },
        /// Renames an entry of the saved directory to one in the current directory.
        Rename { from: &'a [u8], to: &'a [u8] },
        /// Renews a lease, v4.0.
        Renew { client: ClientId },
        /// Makes the saved handle current.
        Restorefh,
        /// Saves the current handle.
        Savefh,
        /// Requests the security flavors of a name in the current directory.
        Secinfo { name: &'a [u8] },
        /// Sets attributes of the current object.
        Setattr { stateid: Stateid, attributes: Fattr<'a> },
        /// Registers a client, v4.0.
        Setclientid {
            owner: ClientOwner<'a>,
            callback_program: u32,
            callback_address: NetAddress<'a>,
            callback_ident: u32,
        },
        /// Confirms a client, v4.0.
        SetclientidConfirm { client: ClientId, confirm: Verifier },
        /// Continues if the attributes are the same.
        Verify { attributes: Fattr<'a> },
        /// Writes `data` at `offset`.
        Write { stateid: Stateid, offset: u64, stable: StableHow, data: &'a [u8] },
        /// Forgets a lock owner, v4.0.
        ReleaseLockowner { owner: StateOwner<'a> },
        /// Changes the backchannel's security.
        BackchannelCtl { callback_program: u32, security: List<'a, CallbackSecurity<'a>> },
        /// Binds the connection to a session, in a [`super::direction`].
        BindConnToSession { session: SessionId, direction: u32, rdma: bool },
        /// Registers a client; the flags are those of [`super::exchange`].
        ExchangeId {
            owner: ClientOwner<'a>,
            flags: u32,
            protection: StateProtection,
            implementation: Option<Implementation<'a>>,
        },
        /// Creates a session; the flags are those of [`super::create_session`].
        CreateSession {
            client: ClientId,
            sequence: u32,
            flags: u32,
            fore: ChannelAttributes,
            back: ChannelAttributes,
            callback_program: u32,
            security: List<'a, CallbackSecurity<'a>>,
        },
        /// Destroys a session.
        DestroySession { session: SessionId },
        /// Frees a stateid without locks.
        FreeStateid { stateid: Stateid },
        /// Gets the addresses of a pNFS device in a result of at most `maxcount` bytes, and asks to
        /// be notified of its [`super::DeviceChange`]s.
        Getdeviceinfo { device: DeviceId, layout_type: u32, maxcount: u32, notify: Bitmap },
        /// Publishes what was written to data servers of the current file.
        Layoutcommit {
            offset: u64,
            length: u64,
            reclaim: bool,
            stateid: Stateid,
            last_write_offset: Option<u64>,
            modified: Option<Time>,
            update: LayoutUpdate<'a>,
        },
        /// Gets a layout of the current file that covers at least `min_length` bytes, in a result
        /// of at most `maxcount` bytes; see [`super::layout_type`].
        Layoutget {
            signal_available: bool,
            layout_type: u32,
            iomode: LayoutIoMode,
            offset: u64,
            length: u64,
            min_length: u64,
            stateid: Stateid,
            maxcount: u32,
        },
        /// Returns layouts.
        Layoutreturn {
            reclaim: bool, layout_type: u32, iomode: LayoutIoMode, layouts: LayoutReturn<'a>,
        },
        /// Requests the security flavors of the current object (0) or its parent (1).
        SecinfoNoName { style: u32 },
        /// Starts every compound of a session.
        Sequence {
            session: SessionId, sequence: u32, slot: u32, highest_slot: u32, cache_this: bool,
        },
        /// Tests whether stateids are valid.
        TestStateid { stateids: List<'a, Stateid> },
        /// Destroys a client id.
        DestroyClientid { client: ClientId },
        /// Reports that nothing is left to reclaim.
        ReclaimComplete { one_fs: bool },
        /// Reserves space, v4.2.
        Allocate { stateid: Stateid, offset: u64, length: u64 },
        /// Copies from the saved file to the current one, v4.2; a count of 0 means to the end.
        Copy {
            source: Stateid,
            destination: Stateid,
            source_offset: u64,
            destination_offset: u64,
            count: u64,
            consecutive: bool,
            synchronous: bool,
            servers: List<'a, NetLocation<'a>>,
        },
        /// Punches a hole, v4.2.
        Deallocate { stateid: Stateid, offset: u64, length: u64 },
        /// Announces how a range will be used, v4.2.
        IoAdvise { stateid: Stateid, offset: u64, count: u64, hints: Bitmap },
        /// Reports errors of data servers, v4.2.
        Layouterror {
            offset: u64,
            length: u64,
            stateid: Stateid,
            errors: List<'a, DeviceError> where len <= LAYOUT_REPORTS_MAX,
        },
        /// Reports how much a layout was used, v4.2; the update of flexible files is a
        /// [`super::FlexLayoutUpdate`].
        Layoutstats {
            offset: u64,
            length: u64,
            stateid: Stateid,
            read: IoInfo,
            write: IoInfo,
            device: DeviceId,
            update: LayoutUpdate<'a>,
        },
        /// Cancels a copy, v4.2.
        OffloadCancel { stateid: Stateid },
        /// Queries the progress of a copy, v4.2.
        OffloadStatus { stateid: Stateid },
        /// Reads data and holes, v4.2.
        ReadPlus { stateid: Stateid, offset: u64, count: u32 },
        /// Finds the next data or hole, v4.2; see [`super::content`].
        Seek { stateid: Stateid, offset: u64, what: u32 },
        /// Shares the blocks of a range of the saved file with the current one, v4.2.
        Clone {
            source: Stateid,
            destination: Stateid,
            source_offset: u64,
            destination_offset: u64,
            count: u64,
        },
        /// Gets the value of an extended attribute of the current object, v4.2. Names have no
        /// prefix such as `user.` on the wire.
        Getxattr { name: &'a [u8] },
        /// Sets an extended attribute of the current object, v4.2.
        Setxattr { option: XattrOption, name: &'a [u8], value: &'a [u8] },
        /// Lists the names of extended attributes after `cookie` in a result of at most `maxcount`
        /// bytes, v4.2; a cookie of 0 begins.
        Listxattrs { cookie: u64, maxcount: u32 },
        /// Removes an extended attribute of the current object, v4.2.
        Removexattr { name: &'a [u8] },
    }
}

impl<'a> Op<'a> {
    /// Decodes the arguments of an operation, or returns `None` if it is not supported.
    ///
    /// # Errors
    /// [`DecodeError`]; the server answers NFS4ERR_BADXDR.
    pub fn decode(code: OpCode, reader: &mut Reader<'a>) -> Result<Option<Self>, DecodeError> {
        Self::decode_body(code, reader)
    }

    /// Appends number and arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.code().number());
        self.encode_body(writer);
    }
}

/// Appends a WRITE up to its payload; the caller sends the `len` payload bytes and
/// [`crate::xdr::pad_len`] zero bytes after them, so it has to be the last operation.
pub fn encode_write_header(
    writer: &mut Writer<'_>,
    stateid: &Stateid,
    offset: u64,
    stable: StableHow,
    len: u32,
) {
    writer.u32(OpCode::Write.number());
    stateid.encode(writer);
    writer.u64(offset);
    writer.u32(stable.number());
    writer.u32(len);
}
