//! The results of every supported operation of NFS v4.
//!
//! [`OpOk`] is what follows a status of success; the table below is both encoder and decoder.
//! [`OpResult`] adds the failures, a few of which contain more than their status. A READ whose
//! payload is sent separately is encoded by [`encode_read_header`]. **Source:** RFC 7530 section
//! 16, RFC 8881 section 18, RFC 7862 section 15, RFC 8276 section 8.4.

use super::attributes::{Attributes, Fattr};
use super::bitmap::Bitmap;
use super::data::{SecurityFlavor, Segment};
use super::directory::Entries;
use super::layout::Layout;
use super::opcode::OpCode;
use super::open::Delegation;
use super::session::{ChannelAttributes, Implementation, StateProtectionReply};
use super::types::{ChangeInfo, ClientId, Denied, NetAddress, SessionId, Stateid};
use crate::error::DecodeError;
use crate::limits::LAYOUTS_MAX;
use crate::lists::List;
use crate::nfs3::{FileHandle, StableHow, Verifier};
use crate::status::Status;
use crate::wire::{Wire, by_code};
use crate::xdr::{Reader, Writer};

by_code! {
    /// The results of an operation that succeeded.
    pub enum OpOk<'a>: OpCode, code {
        /// Supported rights, and which of them are granted.
        Access { supported: u32, access: u32 },
        /// The stateid, which is no longer valid.
        Close { stateid: Stateid },
        /// Compare it with that of the WRITEs.
        Commit { verifier: Verifier },
        /// The directory's change, and which attributes were set.
        Create { change: ChangeInfo, set: Bitmap },
        /// The result of DELEGPURGE, which is empty.
        Delegpurge,
        /// The result of DELEGRETURN, which is empty.
        Delegreturn,
        /// Attributes of the file.
        Getattr { attributes: Fattr<'a> },
        /// The current handle.
        Getfh { file: FileHandle },
        /// The directory's change.
        Link { change: ChangeInfo },
        /// Stateid of the lock.
        Lock { stateid: Stateid },
        /// The lock would be granted.
        Lockt,
        /// Stateid of the remaining locks.
        Locku { stateid: Stateid },
        /// The result of LOOKUP, which is empty.
        Lookup,
        /// The result of LOOKUPP, which is empty.
        Lookupp,
        /// The attributes differ.
        Nverify,
        /// Stateid of the open; the flags are those of [`super::open_result`].
        Open {
            stateid: Stateid,
            change: ChangeInfo,
            flags: u32,
            set: Bitmap,
            delegation: Delegation<'a>,
        },
        /// The result of OPENATTR, which is empty.
        Openattr,
        /// The open's next stateid.
        OpenConfirm { stateid: Stateid },
        /// The open's next stateid.
        OpenDowngrade { stateid: Stateid },
        /// The result of PUTFH, which is empty.
        Putfh,
        /// The result of PUTPUBFH, which is empty.
        Putpubfh,
        /// The result of PUTROOTFH, which is empty.
        Putrootfh,
        /// The data that was read.
        Read { eof: bool, data: &'a [u8] },
        /// A part of the directory.
        Readdir { verifier: Verifier, entries: Entries<'a>, eof: bool },
        /// Target of the link.
        Readlink { target: &'a [u8] },
        /// The directory's change.
        Remove { change: ChangeInfo },
        /// Both directories' change.
        Rename { from: ChangeInfo, to: ChangeInfo },
        /// The result of RENEW, which is empty.
        Renew,
        /// The result of RESTOREFH, which is empty.
        Restorefh,
        /// The result of SAVEFH, which is empty.
        Savefh,
        /// The flavors, best first.
        Secinfo { flavors: List<'a, SecurityFlavor<'a>> },
        /// Attributes that were set.
        Setattr { set: Bitmap },
        /// The client id, and the verifier that confirms it.
        Setclientid { client: ClientId, confirm: Verifier },
        /// The result of SETCLIENTID_CONFIRM, which is empty.
        SetclientidConfirm,
        /// The attributes are the same.
        Verify,
        /// How much was written, and how stable it is.
        Write { count: u32, committed: StableHow, verifier: Verifier },
        /// The result of RELEASE_LOCKOWNER, which is empty.
        ReleaseLockowner,
        /// The result of BACKCHANNEL_CTL, which is empty.
        BackchannelCtl,
        /// How the connection was bound.
        BindConnToSession { session: SessionId, direction: u32, rdma: bool },
        /// The client id, and the server's identity.
        ExchangeId {
            client: ClientId,
            sequence: u32,
            flags: u32,
            protection: StateProtectionReply,
            server_minor_id: u64,
            server_major_id: &'a [u8],
            scope: &'a [u8],
            implementation: Option<Implementation<'a>>,
        },
        /// The session with its limits.
        CreateSession {
            session: SessionId,
            sequence: u32,
            flags: u32,
            fore: ChannelAttributes,
            back: ChannelAttributes,
        },
        /// The result of DESTROY_SESSION, which is empty.
        DestroySession,
        /// The result of FREE_STATEID, which is empty.
        FreeStateid,
        /// The device's addresses, as defined by the type of layout, and the notifications that
        /// the server will send.
        Getdeviceinfo { layout_type: u32, body: &'a [u8], notify: Bitmap },
        /// The file's size if it changed.
        Layoutcommit { size: Option<u64> },
        /// The layouts, and whether they are returned by the last CLOSE of the file.
        Layoutget {
            return_on_close: bool,
            stateid: Stateid,
            layouts: List<'a, Layout<'a>> where len <= LAYOUTS_MAX,
        },
        /// The stateid of the layouts that are left.
        Layoutreturn { stateid: Option<Stateid> },
        /// The flavors, best first.
        SecinfoNoName { flavors: List<'a, SecurityFlavor<'a>> },
        /// The slot's state; the flags are those of [`super::sequence_status`].
        Sequence {
            session: SessionId,
            sequence: u32,
            slot: u32,
            highest_slot: u32,
            target_highest_slot: u32,
            flags: u32,
        },
        /// A status for each stateid.
        TestStateid { statuses: List<'a, Status> },
        /// The result of DESTROY_CLIENTID, which is empty.
        DestroyClientid,
        /// The result of RECLAIM_COMPLETE, which is empty.
        ReclaimComplete,
        /// The result of ALLOCATE, which is empty.
        Allocate,
        /// Number of bytes copied; a callback id if the copy continues after the reply.
        Copy {
            callback_id: Option<Stateid>,
            count: u64,
            committed: StableHow,
            verifier: Verifier,
            consecutive: bool,
            synchronous: bool,
        },
        /// The result of DEALLOCATE, which is empty.
        Deallocate,
        /// Accepted hints.
        IoAdvise { hints: Bitmap },
        /// The result of LAYOUTERROR, which is empty.
        Layouterror,
        /// The result of LAYOUTSTATS, which is empty.
        Layoutstats,
        /// The result of OFFLOAD_CANCEL, which is empty.
        OffloadCancel,
        /// Bytes copied, and the final status if there is one.
        OffloadStatus { count: u64, complete: Option<Status> },
        /// Data and holes.
        ReadPlus { eof: bool, segments: List<'a, Segment<'a>> },
        /// Offset of the next data or hole.
        Seek { eof: bool, offset: u64 },
        /// The result of CLONE, which is empty.
        Clone,
        /// The value of the extended attribute.
        Getxattr { value: &'a [u8] },
        /// The object's change.
        Setxattr { change: ChangeInfo },
        /// Names of extended attributes, and the cookie for continuing the listing.
        Listxattrs { cookie: u64, names: List<'a, &'a [u8]>, eof: bool },
        /// The object's change.
        Removexattr { change: ChangeInfo },
    }
}

/// The result of an operation. A failure's status is never [`Status::Ok`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpResult<'a> {
    /// The operation succeeded.
    Ok(OpOk<'a>),
    /// It failed, without further information.
    Failed(OpCode, Status),
    /// LOCK or LOCKT failed because of this lock.
    Denied(OpCode, Denied<'a>),
    /// SETATTR failed after setting these.
    SetattrFailed(Status, Bitmap),
    /// SETCLIENTID found the client id in use, from this address.
    ClientInUse(NetAddress<'a>),
    /// COPY could not be consecutive, or not synchronous.
    CopyRequirementsNotMet {
        /// Whether the server can copy consecutively.
        consecutive: bool,
        /// Whether the server can copy synchronously.
        synchronous: bool,
    },
    /// GETDEVICEINFO needs at least this `maxcount`.
    DeviceTooSmall(u32),
    /// LAYOUTGET should be tried later; true if the server will signal when.
    LayoutTryLater(bool),
}

impl<'a> OpResult<'a> {
    /// Returns the code of the operation.
    pub const fn code(&self) -> OpCode {
        match self {
            Self::Ok(ok) => ok.code(),
            Self::Failed(code, _) | Self::Denied(code, _) => *code,
            Self::SetattrFailed(..) => OpCode::Setattr,
            Self::ClientInUse(_) => OpCode::Setclientid,
            Self::CopyRequirementsNotMet { .. } => OpCode::Copy,
            Self::DeviceTooSmall(_) => OpCode::Getdeviceinfo,
            Self::LayoutTryLater(_) => OpCode::Layoutget,
        }
    }

    /// Returns the status.
    pub const fn status(&self) -> Status {
        match self {
            Self::Ok(_) => Status::Ok,
            Self::Failed(_, status) | Self::SetattrFailed(status, _) => *status,
            Self::Denied(..) => Status::Denied,
            Self::ClientInUse(_) => Status::ClidInUse,
            Self::CopyRequirementsNotMet { .. } => Status::OffloadNoReqs,
            Self::DeviceTooSmall(_) => Status::TooSmall,
            Self::LayoutTryLater(_) => Status::LayoutTryLater,
        }
    }

    /// Returns the results of success.
    ///
    /// # Errors
    /// The status of a failure.
    pub fn ok(self) -> Result<OpOk<'a>, Status> {
        match self {
            Self::Ok(ok) => Ok(ok),
            failed => Err(failed.status()),
        }
    }

    /// Decodes number, status and results.
    ///
    /// # Errors
    /// [`DecodeError`] if they are incomplete or the operation is not understood.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let number = reader.u32()?;
        let unknown = DecodeError::BadValue { what: "the operation of a result", value: number };
        let code = OpCode::from_number(number).ok_or(unknown)?;
        // Most failures are only a status. These few contain more: the conflicting lock, the
        // attributes that were set before the failure, who else uses the client id, which
        // requirements of a COPY can't be met, how large a device is, and whether the server will
        // signal that there are layouts again.
        let status = Status::decode(reader)?;
        Ok(match (code, status) {
            (_, Status::Ok) => Self::Ok(OpOk::decode_body(code, reader)?.ok_or(unknown)?),
            (OpCode::Lock | OpCode::Lockt, Status::Denied) => {
                Self::Denied(code, Denied::decode(reader)?)
            }
            (OpCode::Setattr, status) => Self::SetattrFailed(status, Bitmap::decode(reader)?),
            (OpCode::Setclientid, Status::ClidInUse) => {
                Self::ClientInUse(NetAddress::decode(reader)?)
            }
            (OpCode::Copy, Status::OffloadNoReqs) => Self::CopyRequirementsNotMet {
                consecutive: reader.bool("consecutive")?,
                synchronous: reader.bool("synchronous")?,
            },
            (OpCode::Getdeviceinfo, Status::TooSmall) => Self::DeviceTooSmall(reader.u32()?),
            (OpCode::Layoutget, Status::LayoutTryLater) => {
                Self::LayoutTryLater(reader.bool("will_signal_layout_avail")?)
            }
            (code, status) => Self::Failed(code, status),
        })
    }

    /// Appends number, status and results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.code().number());
        writer.u32(self.status().number());
        match self {
            Self::Ok(ok) => ok.encode_body(writer),
            // SETATTR always returns which attributes it has set.
            Self::Failed(OpCode::Setattr, _) => Bitmap::EMPTY.encode(writer),
            Self::Failed(OpCode::Getdeviceinfo, Status::TooSmall) => writer.u32(0),
            Self::Failed(OpCode::Layoutget, Status::LayoutTryLater) => writer.bool(false),
            Self::Failed(..) => {}
            Self::Denied(_, denied) => denied.encode(writer),
            Self::SetattrFailed(_, set) => set.encode(writer),
            Self::ClientInUse(address) => address.encode(writer),
            Self::CopyRequirementsNotMet { consecutive, synchronous } => {
                writer.bool(*consecutive);
                writer.bool(*synchronous);
            }
            Self::DeviceTooSmall(bytes) => writer.u32(*bytes),
            Self::LayoutTryLater(will_signal) => writer.bool(*will_signal),
        }
    }
}

/// Appends the result of a successful GETATTR: the `requested` attributes that are present.
pub fn encode_getattr_ok(writer: &mut Writer<'_>, attributes: &Attributes<'_>, requested: Bitmap) {
    writer.u32(OpCode::Getattr.number());
    writer.u32(Status::Ok.number());
    attributes.encode(requested, writer);
}

/// Appends the result of a successful READ up to its payload; the caller sends the `len` payload
/// bytes and [`crate::xdr::pad_len`] zero bytes after them, before the next result if there is one.
pub fn encode_read_header(writer: &mut Writer<'_>, eof: bool, len: u32) {
    writer.u32(OpCode::Read.number());
    writer.u32(Status::Ok.number());
    writer.bool(eof);
    writer.u32(len);
}
