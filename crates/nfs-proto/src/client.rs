//! The client's side of a connection: from operations to bytes, from bytes to events.
//!
//! [`Session`] has a fixed number of slots, each for one call in flight; the low bits of an xid are
//! the slot's number, the high bits its generation, so that a late reply can be told from a current
//! one. An [`Operation`] is encoded for the session's [`ProtocolVersion`] by its dialect, and its
//! [`Outcome`] is the same for all versions. Times and bytes are passed in as arguments; the
//! payload of a WRITE is only referenced, never held, and the payload of a READ can be received
//! bypassing the session. Once warm, nothing is allocated. **Source:** RFC 5531 sections 9 and 11.

mod callback;
mod congestion;
mod contents;
mod copies;
mod dialect;
mod event;
mod file;
mod file_attributes;
mod listing;
mod operation;
mod receive;
mod recovery;
mod resume;
mod sending;
mod session;
mod slot;
mod types;

pub use crate::version::{ProtocolVersion, UnknownVersion};
pub use copies::{Copies, CopyBoard, CopyCounts, EndedCopy, TimedResult};
pub use event::{Attributes, Event, Outcome};
pub use file::{File, Stateid};
pub use listing::{Entry, EntryIter, Listing};
pub use operation::{
    Cursor, Data, Kind, OpenAccess, Operation, OperationKind, PayloadRange, SeekWhat,
};
pub use resume::is_unbound;
pub use session::Session;
pub use types::{
    Binding, Chunk, Config, CopyReport, Counters, Framing, PayloadMode, PayloadWant, Pending,
    Recall, Retry, SessionSlot, SlotShare, StartError, UdpWindow, WantedDelegation,
};
