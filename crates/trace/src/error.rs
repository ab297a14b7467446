//! Errors when reading captures and traces, as seen by users.
//!
//! Each message explains what is wrong with the input and what to do; the caller adds the file
//! name.

use std::io;

/// Why a packet capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The system could not read it.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It has no bytes.
    #[error("is empty (hint: was the capture stopped before its first packet?)")]
    Empty,
    /// It starts like a compressed file.
    #[error(
        "is compressed (hint: decompress it first, for example with `zcat FILE | dfsbench capture \
         - -o OUT`)"
    )]
    Compressed,
    /// It doesn't start like a packet capture.
    #[error(
        "is not a packet capture: it starts with {0} (hint: use pcap or pcapng files, as written \
         by tcpdump -w and dumpcap)"
    )]
    Foreign(String),
    /// It ends within its first header.
    #[error("ends within its header: it has {left} of {needed} bytes")]
    CutHeader {
        /// Length of the header.
        needed: usize,
        /// Bytes available.
        left: usize,
    },
    /// It contains an implausible length or number.
    #[error("is damaged at byte {at}: {what} is {value}")]
    Corrupt {
        /// Offset of the damaged block or packet, in bytes.
        at: u64,
        /// The field that is wrong.
        what: &'static str,
        value: u64,
    },
}

/// Why a trace file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system could not read it.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// The system could not write it.
    #[error("cannot be written: {0}")]
    Write(io::Error),
    /// It has no bytes.
    #[error("is empty (hint: did `dfsbench capture` end with an error?)")]
    Empty,
    /// It doesn't start like a trace.
    #[error("is not a trace (hint: create one with `dfsbench capture FILE.pcap -o trace.dfst`)")]
    Foreign,
    /// It was written by a later release.
    #[error(
        "has format {found}, but this dfsbench only reads formats up to {known} (hint: use a newer \
         dfsbench)"
    )]
    Version {
        /// Format of the file.
        found: u16,
        /// The newest supported format.
        known: u16,
    },
    /// It ends before its end section.
    #[error(
        "is cut off at byte {at}, after {calls} calls (hint: capture or copy it again; its end \
         section is missing)"
    )]
    Cut {
        /// Offset of the incomplete section, in bytes.
        at: u64,
        /// Number of calls read before it.
        calls: u64,
    },
    /// A section was modified.
    #[error("is damaged at byte {at}: {what} (hint: copy it again from its original location)")]
    Corrupt {
        /// Offset of the section, in bytes.
        at: u64,
        /// The part that is wrong.
        what: &'static str,
    },
}
