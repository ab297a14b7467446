//! Traces of NFS traffic: captured from packets, described, and stored in files.
//!
//! [`Capture`] converts packets from a [`PacketReader`] to calls. It reassembles IP fragments and
//! TCP streams, matches RPC replies with their calls, and turns each operation into an [`Op`].
//! [`TraceWriter`] and [`TraceReader`] implement the file format `.dfst`
//! (`docs/design/trace-format.md`), and a [`Description`] summarizes the load in a trace.
//!
//! Invariants: memory is limited regardless of the length of the input; no input causes a panic;
//! what was not seen is counted and never guessed; payload is never stored, and neither are names,
//! addresses or file handles unless the user wants that. This crate must not open files or sockets,
//! nor read a clock.
#![warn(unreachable_pub)]

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
mod import;
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
    AccessDescription, Describer, Description, KindDescription, Quantiles, TimeSlice,
};
pub use describe::{ArrivalDescription, ClientDescription, FileDescription};
pub use describe::{Dispersion, HotFile};
pub use error::{CaptureError, TraceError};
pub use format::{End, Entry, Header, NameText, Section, TraceReader, TraceWriter};
pub use import::{ImportError, ImportSettings, ImportSource, ImportSummary, import};
pub use pcap::{Packet, PacketReader};
pub use record::{Call, Op, Version, call_flag, op_flag};
