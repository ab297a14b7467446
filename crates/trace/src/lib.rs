//! Traces of NFS traffic: captured from packets, described, kept in a file.
//!
//! [`Capture`] takes packets that a [`PacketReader`] reads and makes calls of them: IP fragments
//! and TCP streams are put together, RPC replies are matched with their calls, and each operation
//! becomes an [`Op`]. [`TraceWriter`] and [`TraceReader`] are the file format `.dfst`
//! (`docs/trace.md`), and [`Description`] is what a trace says about its load.
//!
//! Invariants: memory is bounded whatever the length of the input; no bytes make it panic; what was
//! not seen is counted, never guessed; no payload is kept, and no name, address or file handle
//! unless the user wants it. Must not open files or sockets, nor read a clock.

mod assembly;
mod capture;
mod connections;
mod counters;
mod decode;
mod describe;
mod error;
mod files;
mod format;
mod fragments;
mod matching;
mod message_head;
mod packet;
mod pcap;
mod record;
mod roots;
mod secret;
mod sparse;
mod stream;

pub use capture::{Capture, CaptureSettings};
pub use connections::{Connection, Names, Transport};
pub use counters::Counters;
pub use describe::{
    AccessDescription, ArrivalDescription, ClientDescription, Describer, Description, Dispersion,
    FileDescription, HotFile, KindDescription, Quantiles, TimeSlice,
};
pub use error::{CaptureError, TraceError};
pub use format::{End, Entry, Header, NameText, Section, TraceReader, TraceWriter};
pub use pcap::{Packet, PacketReader};
pub use record::{Call, Op, Version, call_flag, op_flag};
