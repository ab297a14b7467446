//! Progress and cost of copying a program to a host.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use model::Fact;
use model::units::Size;

/// A step of a copy to some host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEvent {
    /// A copy to another host has started.
    Begun {
        /// Bytes that will be sent.
        wire_bytes: u64,
    },
    /// More bytes were sent.
    Sent {
        /// Bytes since the last event.
        bytes: u64,
    },
    /// A copy has finished or failed.
    Ended {
        /// True if the host has the program.
        worked: bool,
    },
}

/// Receives the events of all copies; called from several threads.
pub type CopyObserver = Arc<dyn Fn(CopyEvent) + Send + Sync>;

/// A program that was copied to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedProgram {
    /// Bytes that were sent.
    pub wire_bytes: u64,
    /// Size of the program on the host, in bytes.
    pub(crate) program_bytes: u64,
    /// Duration, including verification on the host.
    pub took: Duration,
}

impl CopiedProgram {
    /// Describes the copy as a fact about a host.
    pub(super) fn as_fact(self, host: &str) -> Fact {
        let value = format!(
            "{} sent in {:.1} s, {} there",
            Size(self.wire_bytes),
            self.took.as_secs_f64(),
            Size(self.program_bytes)
        );
        Fact::new(host, "agent copied", value, "ssh")
    }
}

/// A reader that reports how much was read from it.
pub(super) struct CountingReader<R> {
    reader: R,
    on_copy: CopyObserver,
}

impl<R: Read> CountingReader<R> {
    pub(super) fn new(reader: R, on_copy: CopyObserver) -> Self {
        Self { reader, on_copy }
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        if count > 0 {
            (self.on_copy)(CopyEvent::Sent { bytes: count as u64 });
        }
        Ok(count)
    }
}
