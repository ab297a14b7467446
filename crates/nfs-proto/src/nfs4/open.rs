//! Arguments and results of OPEN: how to create, what to claim, which delegation was granted.
//!
//! **Source:** RFC 7530 section 16.16, RFC 8881 section 18.16.

use super::attributes::Fattr;
use super::types::Stateid;
use crate::error::DecodeError;
use crate::nfs3::Verifier;
use crate::wire::{Wire, wire_choice, wire_enum, wire_struct};
use crate::xdr::{Reader, Writer};

/// Bits of `share_access` and `share_deny`. **Source:** RFC 7531, RFC 5662.
pub mod share {
    /// Denies nothing to others.
    pub const NONE: u32 = 0;
    /// Reads, or denies reading.
    pub const READ: u32 = 1;
    /// Writes, or denies writing.
    pub const WRITE: u32 = 2;
    /// Both of them.
    pub const BOTH: u32 = 3;
    /// The bits for the wanted delegation, since v4.1.
    pub const WANT_MASK: u32 = 0xff00;
    /// A read delegation is wanted, since v4.1.
    pub const WANT_READ_DELEGATION: u32 = 0x0100;
    /// A delegation of any type is wanted, since v4.1.
    pub const WANT_ANY_DELEGATION: u32 = 0x0300;
    /// No delegation is wanted, since v4.1.
    pub const WANT_NO_DELEGATION: u32 = 0x0400;
}

/// The type of a read delegation. **Source:** RFC 7531, OPEN_DELEGATE_READ.
pub const DELEGATE_READ: u32 = 1;

/// Bits of the flags that OPEN returns. **Source:** RFC 7531, RFC 5662.
pub mod open_result {
    /// OPEN_CONFIRM must follow, v4.0.
    pub const CONFIRM: u32 = 0x2;
    /// The server's locks behave like POSIX locks.
    pub const LOCKTYPE_POSIX: u32 = 0x4;
    /// The server keeps a file that is removed while open, since v4.1.
    pub const PRESERVE_UNLINKED: u32 = 0x8;
    /// The server may send CB_NOTIFY_LOCK, since v4.1.
    pub const MAY_NOTIFY_LOCK: u32 = 0x20;
}

/// Whether OPEN creates. **Source:** RFC 7531 openflag4, RFC 5662 createhow4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenHow<'a> {
    /// The file must exist.
    NoCreate,
    /// It may exist.
    Unchecked(Fattr<'a>),
    /// It must not exist.
    Guarded(Fattr<'a>),
    /// It must not exist, unless it was created with the same verifier.
    Exclusive(Verifier),
    /// The same with attributes, since v4.1.
    ExclusiveWith(Verifier, Fattr<'a>),
}

impl<'a> Wire<'a> for OpenHow<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        // Two nested discriminants: whether OPEN creates, and how. NoCreate has no body at all.
        match reader.u32()? {
            0 => return Ok(Self::NoCreate),
            1 => {}
            value => return Err(DecodeError::BadValue { what: "opentype4", value }),
        }
        Ok(match reader.u32()? {
            0 => Self::Unchecked(Fattr::decode(reader)?),
            1 => Self::Guarded(Fattr::decode(reader)?),
            2 => Self::Exclusive(Verifier::decode(reader)?),
            3 => Self::ExclusiveWith(Verifier::decode(reader)?, Fattr::decode(reader)?),
            value => return Err(DecodeError::BadValue { what: "createmode4", value }),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        let mode = match self {
            Self::NoCreate => return writer.u32(0),
            Self::Unchecked(_) => 0,
            Self::Guarded(_) => 1,
            Self::Exclusive(_) => 2,
            Self::ExclusiveWith(..) => 3,
        };
        writer.u32(1);
        writer.u32(mode);
        match self {
            Self::NoCreate => {}
            Self::Unchecked(attributes) | Self::Guarded(attributes) => attributes.encode(writer),
            Self::Exclusive(verifier) => verifier.encode(writer),
            Self::ExclusiveWith(verifier, attributes) => {
                verifier.encode(writer);
                attributes.encode(writer);
            }
        }
    }
}

wire_choice! {
    /// The file to open. **Source:** RFC 7531 open_claim4, RFC 5662.
    pub enum Claim<'a>("open_claim_type4") {
        /// A name in the current directory.
        0 => Name(name: &'a [u8]),
        /// The current file, as it was open before the server restarted, with this delegation type.
        1 => Previous(delegation: u32),
        /// A name in the current directory, under a delegation that the client holds.
        2 => DelegateCurrent(stateid: Stateid, name: &'a [u8]),
        /// A name in the current directory, under a delegation from before the client restarted.
        3 => DelegatePrevious(name: &'a [u8]),
        /// The current file, since v4.1.
        4 => Current,
        /// The current file, under a delegation that the client holds, since v4.1.
        5 => DelegateCurrentFile(stateid: Stateid),
        /// The current file, under a delegation from before the client restarted, since v4.1.
        6 => DelegatePreviousFile,
    }
}

wire_struct! {
    /// An entry of an access control list. **Source:** RFC 7530 section 6.2.1, nfsace4.
    pub struct Ace<'a> {
        /// Allow, deny, audit or alarm.
        ace_type: u32,
        /// How it is inherited.
        flags: u32,
        /// The rights of the entry.
        access: u32,
        /// Whom it applies to.
        who: &'a [u8],
    }
}

wire_enum! {
    /// Why there is no delegation. **Source:** RFC 5662, why_no_delegation4.
    pub enum NoDelegation("why_no_delegation4") {
        /// None was wanted.
        NotWanted = 0,
        /// Others use the file.
        Contention = 1,
        /// The server lacks a resource.
        Resource = 2,
        /// The file system does not support it.
        NotSupportedType = 3,
        /// A write delegation is already held.
        WriteDelegated = 4,
        /// A delegation can't be upgraded.
        NotUpgraded = 5,
        /// A delegation can't be downgraded.
        NotDowngraded = 6,
        /// The request was withdrawn.
        Cancelled = 7,
        /// It is a directory.
        IsDirectory = 8,
    }
}

wire_choice! {
    /// How much may be written under a delegation before contacting the server. **Source:** RFC
    /// 7531, nfs_space_limit4.
    pub enum SpaceLimit("limit_by4") {
        /// Up to this file size, in bytes.
        1 => Size(bytes: u64),
        /// This number of blocks of this size.
        2 => Blocks(blocks: u32, bytes: u32),
    }
}

/// The delegation that OPEN granted. **Source:** RFC 7531 open_delegation4, RFC 5662.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegation<'a> {
    /// No delegation at all.
    None,
    /// A read delegation.
    Read {
        /// Stateid of the delegation.
        stateid: Stateid,
        /// Whether it is already being recalled.
        recall: bool,
        /// Who may open without contacting the server.
        permissions: Ace<'a>,
    },
    /// A write delegation.
    Write {
        /// Stateid of the delegation.
        stateid: Stateid,
        /// Whether it is already being recalled.
        recall: bool,
        /// How much may be written.
        limit: SpaceLimit,
        /// Who may open without contacting the server.
        permissions: Ace<'a>,
    },
    /// None, with the reason, since v4.1; for contention the flag means that the server will push
    /// one, for lack of resources that it will announce when there are some.
    NoneExt(NoDelegation, bool),
}

impl<'a> Wire<'a> for Delegation<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let kind = reader.u32()?;
        Ok(match kind {
            0 => Self::None,
            1 => Self::Read {
                stateid: Stateid::decode(reader)?,
                recall: reader.bool("recall")?,
                permissions: Ace::decode(reader)?,
            },
            2 => Self::Write {
                stateid: Stateid::decode(reader)?,
                recall: reader.bool("recall")?,
                limit: SpaceLimit::decode(reader)?,
                permissions: Ace::decode(reader)?,
            },
            3 => {
                // Only two of the reasons are followed by a flag: whether the server will push a
                // delegation later (contention), or signal when it has resources again. RFC 8881
                // section 18.16.3.
                let why = NoDelegation::decode(reader)?;
                let flagged = matches!(why, NoDelegation::Contention | NoDelegation::Resource);
                Self::NoneExt(why, flagged && reader.bool("server_will")?)
            }
            value => return Err(DecodeError::BadValue { what: "open_delegation_type4", value }),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::None => writer.u32(0),
            Self::Read { stateid, recall, permissions } => {
                writer.u32(1);
                stateid.encode(writer);
                writer.bool(*recall);
                permissions.encode(writer);
            }
            Self::Write { stateid, recall, limit, permissions } => {
                writer.u32(2);
                stateid.encode(writer);
                writer.bool(*recall);
                limit.encode(writer);
                permissions.encode(writer);
            }
            Self::NoneExt(why, will) => {
                writer.u32(3);
                why.encode(writer);
                if matches!(why, NoDelegation::Contention | NoDelegation::Resource) {
                    writer.bool(*will);
                }
            }
        }
    }
}
