//! What is seen of a program that is copied to a host: its progress, and what it took.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use model::Fact;
use model::units::Size;

/// A step of a copy to some host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEvent {
    /// So many bytes are to be sent to one more host.
    Begun {
        /// Bytes, as they are sent.
        wire_bytes: u64,
    },
    /// So many more bytes were sent.
    Sent {
        /// Bytes since the last event.
        bytes: u64,
    },
    /// A host has the program, or refused it.
    Ended {
        /// It has it.
        worked: bool,
    },
}

/// A receiver of the steps of all copies; several threads call it.
pub type CopyObserver = Arc<dyn Fn(CopyEvent) + Send + Sync>;

/// A program that was copied to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Bytes that were sent.
    pub wire_bytes: u64,
    /// Bytes of the program on the host.
    pub program_bytes: u64,
    /// How long it took, with its check there.
    pub took: Duration,
}

impl Copied {
    /// Describes it as a fact of a host.
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

/// A reader that reports how much was read.
pub(super) struct Counted<R> {
    reader: R,
    on_copy: CopyObserver,
}

impl<R: Read> Counted<R> {
    /// Reports what is read from a reader.
    pub(super) fn new(reader: R, on_copy: CopyObserver) -> Self {
        Self { reader, on_copy }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        if count > 0 {
            (self.on_copy)(CopyEvent::Sent { bytes: count as u64 });
        }
        Ok(count)
    }
}
