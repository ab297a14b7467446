//! Writes a trace file in one pass.
//!
//! [`TraceWriter`] writes one section after the other and never changes what was written, so a
//! trace can go to a pipe. Its buffers are reused for each block.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use serde::Serialize;

use super::block::{BlockWriter, Entry};
use super::{End, FORMAT, Header, MAGIC, NameText, kind};
use crate::connections::Connection;
use crate::error::TraceError;
use crate::record::Call;

#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    block: BlockWriter,
    raw: Vec<u8>,
    stored: Vec<u8>,
    bytes: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace.
    ///
    /// # Errors
    /// Returns [`TraceError::Write`] if the output fails.
    pub fn new(out: W, header: &Header) -> Result<Self, TraceError> {
        let mut writer = Self {
            out,
            block: BlockWriter::default(),
            raw: Vec::new(),
            stored: Vec::new(),
            bytes: 0,
        };
        let mut begin = MAGIC.to_vec();
        begin.extend_from_slice(&FORMAT.to_le_bytes());
        begin.extend_from_slice(&[0; 2]);
        writer.write(&begin)?;
        writer.json(kind::HEADER, header)?;
        Ok(writer)
    }

    /// Writes connections. Must be called before the first block with their calls.
    ///
    /// # Errors
    /// Returns [`TraceError::Write`] if the output fails.
    pub fn connections(&mut self, connections: &[Connection]) -> Result<(), TraceError> {
        self.json(kind::CONNECTIONS, &connections)
    }

    /// Writes names. Must be called before the first block with operations that use them.
    ///
    /// # Errors
    /// Returns [`TraceError::Write`] if the output fails.
    pub fn names(&mut self, names: &[NameText]) -> Result<(), TraceError> {
        self.json(kind::NAMES, &names)
    }

    /// Writes a block.
    ///
    /// # Errors
    /// Returns [`TraceError::Write`] if the output fails.
    pub fn block<'c>(
        &mut self,
        calls: impl Iterator<Item = &'c Call>,
        entries: &[Entry],
    ) -> Result<(), TraceError> {
        for call in calls {
            self.block.push(call);
        }
        for entry in entries {
            self.block.push_entry(entry);
        }
        if self.block.is_empty() {
            return Ok(());
        }
        self.block.finish(&mut self.raw);
        self.section(kind::BLOCK)
    }

    /// Ends the trace and returns its length in bytes.
    ///
    /// # Errors
    /// Returns [`TraceError::Write`] if the output fails.
    pub fn finish(mut self, end: &End) -> Result<u64, TraceError> {
        self.json(kind::END, end)?;
        self.out.flush().map_err(TraceError::Write)?;
        Ok(self.bytes)
    }

    fn json(&mut self, kind: u8, value: &impl Serialize) -> Result<(), TraceError> {
        self.raw.clear();
        serde_json::to_writer(&mut self.raw, value)
            .map_err(|error| TraceError::Write(error.into()))?;
        self.section(kind)
    }

    /// Compresses and writes a section.
    fn section(&mut self, kind: u8) -> Result<(), TraceError> {
        self.stored.clear();
        // Use the fastest level: the columns are already small numbers, and a better level gains
        // only 10 %.
        let mut encoder = ZlibEncoder::new(&mut self.stored, Compression::fast());
        encoder.write_all(&self.raw).map_err(TraceError::Write)?;
        encoder.finish().map_err(TraceError::Write)?;
        let mut head = vec![kind, 0, 0, 0];
        head.extend_from_slice(&(self.stored.len() as u32).to_le_bytes());
        head.extend_from_slice(&(self.raw.len() as u32).to_le_bytes());
        // The checksum covers the lengths, too.
        let mut crc = Crc::new();
        crc.update(&head);
        crc.update(&self.stored);
        head.extend_from_slice(&crc.sum().to_le_bytes());
        self.write(&head)?;
        let stored = std::mem::take(&mut self.stored);
        self.write(&stored)?;
        self.stored = stored;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(TraceError::Write)
    }
}
