//! The client's side of a connection: from calls to stream bytes, from stream bytes to events.
//!
//! [`Session`] has a fixed number of slots, each one call in flight; the low bits of an xid name
//! the slot, the high bits its generation, so that a late reply is told from a current one.
//! Instants and bytes come in as arguments; the payload of a WRITE is named, never held, and the
//! payload of a READ can be received past the session. Once warm, nothing is allocated.
//! **Source:** RFC 5531 sections 9 and 11, RFC 1813.

mod event;
mod receive;
mod session;
mod slot;
mod types;

pub use event::{Event, Kind, Outcome};
pub use session::Session;
pub use types::{
    Chunk, Config, Counters, ExternalWrite, PayloadMode, PayloadRange, PayloadWant, Pending,
    StartError,
};
