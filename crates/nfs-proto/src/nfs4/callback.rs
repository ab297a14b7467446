//! Calls from the server to the client: CB_NULL and CB_COMPOUND.
//!
//! A server encodes [`CallbackOp`]s and decodes [`CallbackResult`]s, a client the other way round.
//! The client in this crate answers the mandatory ones: [`CallbackOp`]s are decoded one by one,
//! like those of a compound. **Source:** RFC 7530 section 17, RFC 8881 sections 19 and 20.

use super::attributes::Fattr;
use super::bitmap::Bitmap;
use super::data::OffloadResult;
use super::layout::{DeviceNotice, LayoutIoMode, LayoutRecall};
use super::session::ReferringCalls;
use super::types::{SessionId, StateOwner, Stateid};
use crate::error::DecodeError;
use crate::limits::{COMPOUND_TAG_BYTES_MAX, LAYOUT_REPORTS_MAX};
use crate::lists::List;
use crate::nfs3::FileHandle;
use crate::status::Status;
use crate::wire::by_code;
use crate::xdr::{Reader, Writer};

/// The callback program number used by clients of this crate; clients may choose any transient one.
/// **Source:** RFC 7531, RFC 5531 section 8.
pub const CALLBACK_PROGRAM: u32 = 0x4000_0000;
/// The version of the callback program. **Source:** RFC 7531, RFC 5662.
pub const CALLBACK_VERSION: u32 = 1;

macro_rules! callback_codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $first:literal;)*) => {
        /// A callback operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum CallbackCode {
            $($(#[$doc])* $variant = $number,)*
        }

        impl CallbackCode {
            /// All callback operations.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the operation of this number.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            const fn is_in_minor(self, minor: u32) -> bool {
                match self {
                    $(Self::$variant => matches!(minor, $first..),)*
                }
            }
        }
    };
}

callback_codes! {
    /// Requests attributes of a file under a write delegation.
    Getattr = 3, 0;
    /// Recalls a delegation.
    Recall = 4, 0;
    /// Recalls a layout.
    LayoutRecall = 5, 1;
    /// Reports changes of a directory.
    Notify = 6, 1;
    /// Offers a delegation that was wanted.
    PushDelegation = 7, 1;
    /// Recalls some of all delegations.
    RecallAny = 8, 1;
    /// Announces that resources are available again.
    RecallableObjectAvailable = 9, 1;
    /// Recalls slots of a session.
    RecallSlot = 10, 1;
    /// Starts every callback of a session.
    Sequence = 11, 1;
    /// Cancels requests for delegations.
    WantsCancelled = 12, 1;
    /// Announces that a lock may be free.
    NotifyLock = 13, 1;
    /// Reports changes of pNFS devices.
    NotifyDeviceid = 14, 1;
    /// Reports that a copy has ended.
    Offload = 15, 2;
    /// Used in replies for a number that is not an operation.
    Illegal = 10044, 0;
}

by_code! {
    /// A callback operation with its arguments.
    pub enum CallbackOp<'a>: CallbackCode, code {
        /// Requests attributes of a file under a write delegation.
        Getattr { file: FileHandle, request: Bitmap },
        /// Recalls a delegation.
        Recall { stateid: Stateid, truncate: bool, file: FileHandle },
        /// Recalls layouts.
        LayoutRecall {
            layout_type: u32, iomode: LayoutIoMode, changed: bool, recall: LayoutRecall,
        },
        /// Recalls all but this number of delegations or layouts of these types; see
        /// [`super::recall_any`].
        RecallAny { objects_to_keep: u32, types: Bitmap },
        /// Asks the client to use no slot above this.
        RecallSlot { target_highest_slot: u32 },
        /// Starts every callback of a session.
        Sequence {
            session: SessionId,
            sequence: u32,
            slot: u32,
            highest_slot: u32,
            cache_this: bool,
            referring: List<'a, ReferringCalls<'a>>,
        },
        /// Announces that a lock may be free.
        NotifyLock { file: FileHandle, owner: StateOwner<'a> },
        /// Reports that a copy has ended, v4.2.
        Offload { file: FileHandle, stateid: Stateid, result: OffloadResult },
        /// Reports changes of pNFS devices.
        NotifyDeviceid { notices: List<'a, DeviceNotice<'a>> where len <= LAYOUT_REPORTS_MAX },
    }
}

by_code! {
    /// The results of a callback operation that succeeded.
    pub enum CallbackOk<'a>: CallbackCode, code {
        /// Attributes of the file.
        Getattr { attributes: Fattr<'a> },
        /// The result of RECALL, which is empty.
        Recall,
        /// The result of LAYOUTRECALL, which is empty.
        LayoutRecall,
        /// The result of RECALL_ANY, which is empty.
        RecallAny,
        /// The result of RECALL_SLOT, which is empty.
        RecallSlot,
        /// The slot's state.
        Sequence {
            session: SessionId,
            sequence: u32,
            slot: u32,
            highest_slot: u32,
            target_highest_slot: u32,
        },
        /// The result of NOTIFY_LOCK, which is empty.
        NotifyLock,
        /// The result of OFFLOAD, which is empty.
        Offload,
        /// The result of NOTIFY_DEVICEID, which is empty.
        NotifyDeviceid,
    }
}

impl CallbackOp<'_> {
    /// Appends number and arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.code() as u32);
        self.encode_body(writer);
    }
}

/// The result of a callback operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackResult<'a> {
    /// The operation succeeded.
    Ok(CallbackOk<'a>),
    /// It failed with a status other than [`Status::Ok`].
    Failed(CallbackCode, Status),
}

impl<'a> CallbackResult<'a> {
    /// Returns the status.
    pub const fn status(&self) -> Status {
        match self {
            Self::Ok(_) => Status::Ok,
            Self::Failed(_, status) => *status,
        }
    }

    /// Decodes number, status and results.
    ///
    /// # Errors
    /// [`DecodeError`] if they are incomplete or the operation is not understood.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let number = reader.u32()?;
        let unknown = DecodeError::BadValue { what: "the operation of a result", value: number };
        let code = CallbackCode::from_number(number).ok_or(unknown)?;
        match Status::from_number(reader.u32()?) {
            Status::Ok => CallbackOk::decode_body(code, reader)?.map(Self::Ok).ok_or(unknown),
            status => Ok(Self::Failed(code, status)),
        }
    }

    /// Appends number, status and results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Ok(ok) => {
                writer.u32(ok.code() as u32);
                writer.u32(Status::Ok.number());
                ok.encode_body(writer);
            }
            Self::Failed(code, status) => {
                writer.u32(*code as u32);
                writer.u32(status.number());
            }
        }
    }
}

/// A list of callback operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallbackCompound<'a> {
    /// Returned in the reply.
    pub tag: &'a [u8],
    /// The minor version.
    pub minor: u32,
    /// The client's number for its callback channel, v4.0.
    pub ident: u32,
    count: u32,
    ops: &'a [u8],
}

impl<'a> CallbackCompound<'a> {
    /// Decodes a callback compound, which must be all that is left.
    ///
    /// # Errors
    /// [`DecodeError`]; the client answers GARBAGE_ARGS.
    pub fn decode(mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let tag = reader.opaque(COMPOUND_TAG_BYTES_MAX)?;
        let minor = reader.u32()?;
        let ident = reader.u32()?;
        let count = reader.u32()?;
        // A count that does not fit the rest of the message is refused before anything is executed,
        // as for a compound.
        let needed = (count as usize).saturating_mul(4);
        let left = reader.remaining();
        if needed > left {
            return Err(DecodeError::Truncated { needed, left });
        }
        Ok(Self { tag, minor, ident, count, ops: reader.rest() })
    }

    /// Iterates over the operations.
    pub const fn ops(&self) -> CallbackOps<'a> {
        CallbackOps { minor: self.minor, left: self.count, reader: Reader::new(self.ops) }
    }
}

/// Iterates over the operations of a callback; an error is the answer to send, and ends the
/// iteration.
#[derive(Debug, Clone)]
pub struct CallbackOps<'a> {
    minor: u32,
    left: u32,
    reader: Reader<'a>,
}

impl<'a> Iterator for CallbackOps<'a> {
    type Item = Result<CallbackOp<'a>, (CallbackCode, Status)>;

    fn next(&mut self) -> Option<Self::Item> {
        // As in a compound, the first bad operation ends the callback: the start of the next one is
        // unknown.
        self.left = self.left.checked_sub(1)?;
        let code = self.reader.u32().ok().and_then(CallbackCode::from_number);
        let in_minor = |code: &CallbackCode| code.is_in_minor(self.minor);
        let known = code.filter(in_minor).filter(|code| *code != CallbackCode::Illegal);
        let error = match known {
            None => (CallbackCode::Illegal, Status::OpIllegal),
            Some(code) => match CallbackOp::decode_body(code, &mut self.reader) {
                Ok(Some(op)) => return Some(Ok(op)),
                Ok(None) => (code, Status::NotSupp),
                Err(_) => (code, Status::BadXdr),
            },
        };
        self.left = 0;
        Some(Err(error))
    }
}

/// Appends a callback compound of these operations.
pub fn encode_callback(writer: &mut Writer<'_>, minor: u32, ident: u32, ops: &[CallbackOp<'_>]) {
    writer.opaque(b"");
    writer.u32(minor);
    writer.u32(ident);
    writer.u32(ops.len() as u32);
    for op in ops {
        op.encode(writer);
    }
}

/// Appends the reply to a callback compound.
pub fn encode_callback_reply<'a>(
    writer: &mut Writer<'_>,
    tag: &[u8],
    results: impl Iterator<Item = CallbackResult<'a>>,
) {
    let status_at = writer.position();
    writer.u32(Status::Ok.number());
    writer.opaque(tag);
    let count_at = writer.position();
    writer.u32(0);
    let mut count = 0;
    let mut status = Status::Ok;
    for result in results {
        result.encode(writer);
        count += 1;
        status = result.status();
    }
    writer.set_u32(status_at, status.number());
    writer.set_u32(count_at, count);
}

/// Decodes the reply to a callback compound up to its results, and returns its status and the
/// number of [`CallbackResult`]s that follow.
///
/// # Errors
/// [`DecodeError`] if it is malformed.
pub fn decode_callback_reply(reader: &mut Reader<'_>) -> Result<(Status, u32), DecodeError> {
    let status = Status::from_number(reader.u32()?);
    reader.opaque(COMPOUND_TAG_BYTES_MAX)?;
    Ok((status, reader.u32()?))
}
