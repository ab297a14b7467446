//! Errors of reading captures and traces, as the user sees them.
//!
//! Each says what is wrong with the input and what to do; the caller adds the name of the file.

use std::io;

/// Tells why a packet capture can't be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The system could not read it.
    #[error("can't be read: {0}")]
    Read(#[from] io::Error),
    /// There is not one byte.
    #[error("is empty (hint: was the capture ended before its first packet?)")]
    Empty,
    /// It begins as a compressed file does.
    #[error(
        "is compressed (hint: unpack it on the way, such as \
         `zcat FILE | dfsbench capture - -o OUT`)"
    )]
    Compressed,
    /// It begins as no packet capture does.
    #[error(
        "is no packet capture: it begins with {0} (hint: pcap and pcapng are read, as tcpdump -w \
         and dumpcap write them)"
    )]
    Foreign(String),
    /// It ends before its first header does.
    #[error("ends within its header of {needed} bytes: {left} are there")]
    CutHeader {
        /// Bytes of the header.
        needed: usize,
        /// Bytes that are there.
        left: usize,
    },
    /// A length or a number in it can't be right.
    #[error("is damaged at byte {at}: {what} is {value}")]
    Corrupt {
        /// Offset of the damaged block or packet, in bytes.
        at: u64,
        /// The field that is wrong.
        what: &'static str,
        /// Value of the field.
        value: u64,
    },
}

/// Tells why a trace file can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system could not read it.
    #[error("can't be read: {0}")]
    Read(io::Error),
    /// The system could not write it.
    #[error("can't be written: {0}")]
    Write(io::Error),
    /// There is not one byte.
    #[error("is empty (hint: did `dfsbench capture` end with an error?)")]
    Empty,
    /// It begins as no trace does.
    #[error("is no trace (hint: `dfsbench capture FILE.pcap -o trace.dfst` makes one)")]
    Foreign,
    /// A later release has written it.
    #[error("has format {found}; this release reads up to {known} (hint: use a newer dfsbench)")]
    Version {
        /// The format that was found.
        found: u16,
        /// The newest that is known here.
        known: u16,
    },
    /// It ends before its end section.
    #[error(
        "is cut off at byte {at}, after {calls} calls (hint: capture or copy it again; it has no \
         end section)"
    )]
    Cut {
        /// Offset of the section that is not whole, in bytes.
        at: u64,
        /// Calls that were read before.
        calls: u64,
    },
    /// A section is not as it was written.
    #[error("is damaged at byte {at}: {what} (hint: copy it again from where it was made)")]
    Corrupt {
        /// Offset of the section, in bytes.
        at: u64,
        /// The part that is wrong.
        what: &'static str,
    },
}
