//! NFS version 4.0, 4.1 and 4.2: compounds and their operations, in both directions.
//!
//! [`Op`] and [`OpResult`] are views, decoded one by one from a [`Compound`] and a
//! [`CompoundReply`]; builders write them straight into the send buffer. Operations of directory
//! delegations are known by number only. WRITE arguments and READ results can be encoded without
//! their payload. **Source:** RFC 7530 and 7531 (v4.0), RFC 8881 and 5662 (v4.1), RFC 7862, 7863
//! and 8276 (v4.2), RFC 8435 (flexible files).

mod attributes;
mod bitmap;
mod callback;
mod compound;
mod data;
mod directory;
mod files_layout;
mod flex_files;
mod layout;
mod op;
mod opcode;
mod open;
mod owner;
mod prefix;
mod result;
mod session;
mod types;

pub use attributes::{Attributes, Fattr, attribute};
pub use bitmap::Bitmap;
pub use callback::{
    CALLBACK_PROGRAM, CALLBACK_VERSION, CallbackCode, CallbackCompound, CallbackOk, CallbackOp,
    CallbackOps, CallbackResult, decode_callback_reply, encode_callback, encode_callback_reply,
};
pub use compound::{BadOp, Compound, CompoundBuilder, CompoundReply, Ops, ReplyBuilder, Results};
pub use data::{
    CopiedData, CreateKind, GssInfo, NetLocation, OffloadResult, SecurityFlavor, Segment,
    XattrOption, content, xattr_access,
};
pub use directory::{Entries, Entry, Iter, NewEntry, page_of};
pub use files_layout::{FilesDevice, FilesLayout};
pub use flex_files::{
    FlexDataServer, FlexDevice, FlexDeviceVersion, FlexIoError, FlexIoLatency, FlexIoStats,
    FlexLayout, FlexLayoutReturn, FlexLayoutUpdate, FlexMirror, flex_flags,
};
pub use layout::{
    DeviceChange, DeviceError, DeviceId, DeviceNotice, FileRecall, IoInfo, Layout, LayoutIoMode,
    LayoutRecall, LayoutReturn, LayoutUpdate, decode_body, layout_type, recall_any,
};
pub use op::{Op, encode_write_header};
pub use opcode::OpCode;
pub use open::{
    Ace, Claim, DELEGATE_READ, Delegation, NoDelegation, OpenHow, SpaceLimit, open_result, share,
};
pub use owner::{NumericOwner, owner_number};
pub use prefix::{ReadPrefix, read_prefix};
pub use result::{OpOk, OpResult, encode_getattr_ok, encode_read_header};
pub use session::{
    CallbackSecurity, ChannelAttributes, Implementation, ProtectedOps, ReferringCall,
    ReferringCalls, StateProtection, StateProtectionReply, create_session, direction, exchange,
    sequence_status,
};
pub use types::{
    ChangeInfo, ClientId, ClientOwner, Denied, Fsid, LockType, Locker, NetAddress, SessionId,
    SetTime, StateOwner, Stateid, Time,
};

pub use crate::lists::List;
pub use crate::nfs3::{Device, FileHandle, FileType, StableHow, Verifier, access};
pub use crate::wire::Wire;

use crate::error::DecodeError;
use crate::xdr::{Reader, Writer};

/// The program number of NFS. **Source:** RFC 7531.
pub const PROGRAM: u32 = 100_003;
/// The version of NFS in this module; the minor version is in each compound. **Source:** RFC 7531.
pub const VERSION: u32 = 4;

/// A call of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// Does nothing at all.
    Null,
    /// Executes operations.
    Compound(Compound<'a>),
}

impl<'a> Call<'a> {
    /// Returns the procedure's number.
    pub const fn procedure(&self) -> u32 {
        match self {
            Self::Null => 0,
            Self::Compound(_) => 1,
        }
    }

    /// Decodes the arguments of a procedure, or returns `None` for an unknown one.
    ///
    /// # Errors
    /// [`DecodeError`]; the server answers GARBAGE_ARGS.
    pub fn decode(procedure: u32, reader: Reader<'a>) -> Result<Option<Self>, DecodeError> {
        match procedure {
            0 => reader.finish().map(|()| Some(Self::Null)),
            1 => Compound::decode(reader).map(|compound| Some(Self::Compound(compound))),
            _ => Ok(None),
        }
    }

    /// Appends the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null => {}
            Self::Compound(compound) => compound.encode(writer),
        }
    }
}

/// A reply of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The reply of NULL.
    Null,
    /// The reply of COMPOUND.
    Compound(CompoundReply<'a>),
}

impl Reply<'_> {
    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null => {}
            Self::Compound(reply) => reply.encode(writer),
        }
    }
}
