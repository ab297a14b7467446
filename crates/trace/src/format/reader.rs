//! Reads a trace file in one pass, with one section in memory.
//!
//! [`TraceReader`] verifies the checksum of each section before parsing it. A file without an end
//! section was truncated, which is reported as an error after the complete sections.

use std::io::{ErrorKind, Read};

use flate2::Crc;
use flate2::read::ZlibDecoder;
use serde::de::DeserializeOwned;

use super::block::{Block, read_block};
use super::{
    FILE_HEADER_BYTES, FORMAT, Header, MAGIC, SECTION_BYTES_MAX, SECTION_HEADER_BYTES, Section,
    kind,
};
use crate::error::TraceError;

/// Reads a trace.
#[derive(Debug)]
pub struct TraceReader<R> {
    source: R,
    header: Header,
    position: u64,
    calls: u64,
    is_at_end: bool,
    stored: Vec<u8>,
    raw: Vec<u8>,
}

/// A section as it is stored.
struct Stored {
    kind: u8,
    at: u64,
}

impl<R: Read> TraceReader<R> {
    /// Starts to read a trace.
    ///
    /// # Errors
    /// Returns [`TraceError`] if reading fails or the source is not a trace.
    pub fn new(source: R) -> Result<Self, TraceError> {
        let mut reader = Self {
            source,
            header: Header::default(),
            position: 0,
            calls: 0,
            is_at_end: false,
            stored: Vec::new(),
            raw: Vec::new(),
        };
        let mut begin = [0; FILE_HEADER_BYTES];
        let there = reader.fill(&mut begin)?;
        if there == 0 {
            return Err(TraceError::Empty);
        }
        // If the file ends within the magic number, it may or may not have been a trace.
        if begin[..there.min(MAGIC.len())] != MAGIC[..there.min(MAGIC.len())] {
            return Err(TraceError::Foreign);
        }
        if there < FILE_HEADER_BYTES {
            return Err(TraceError::Cut { at: 0, calls: 0 });
        }
        let found = u16::from_le_bytes([begin[8], begin[9]]);
        if found > FORMAT {
            return Err(TraceError::Version { found, known: FORMAT });
        }
        let section = reader.read_section()?;
        if section.kind != kind::HEADER {
            return Err(TraceError::Corrupt { at: section.at, what: "the header is missing" });
        }
        reader.header = reader.json(section.at)?;
        Ok(reader)
    }

    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the next section, or `None` after the end.
    ///
    /// # Errors
    /// Returns [`TraceError`] if reading fails, or the section is damaged or missing.
    pub fn next_section(&mut self) -> Result<Option<Section>, TraceError> {
        while !self.is_at_end {
            let Stored { kind, at } = self.read_section()?;
            let section = match kind {
                kind::CONNECTIONS => Section::Connections(self.json(at)?),
                kind::NAMES => Section::Names(self.json(at)?),
                kind::BLOCK => {
                    let Block { calls, entries } =
                        read_block(&self.raw).map_err(|what| TraceError::Corrupt { at, what })?;
                    self.calls += calls.len() as u64;
                    Section::Block { calls, entries }
                }
                kind::END => {
                    self.is_at_end = true;
                    Section::End(self.json(at)?)
                }
                // A section added by a later release, which can be skipped.
                _ => continue,
            };
            return Ok(Some(section));
        }
        Ok(None)
    }

    fn read_section(&mut self) -> Result<Stored, TraceError> {
        let at = self.position;
        let cut = TraceError::Cut { at, calls: self.calls };
        let mut head = [0; SECTION_HEADER_BYTES];
        if self.fill(&mut head)? < SECTION_HEADER_BYTES {
            return Err(cut);
        }
        let [stored_len, raw_len, sum] =
            [4, 8, 12].map(|from| u32::from_le_bytes([0, 1, 2, 3].map(|byte| head[from + byte])));
        let stored_len = stored_len as usize;
        let raw_len = raw_len as usize;
        if stored_len > SECTION_BYTES_MAX || raw_len > SECTION_BYTES_MAX {
            return Err(TraceError::Corrupt { at, what: "a section has an invalid length" });
        }
        // Allocate for the bytes that are really there, not for the claimed length.
        self.stored.clear();
        let mut stored = std::mem::take(&mut self.stored);
        let read = (&mut self.source).take(stored_len as u64).read_to_end(&mut stored);
        self.stored = stored;
        self.position += read.map_err(TraceError::Read)? as u64;
        if self.stored.len() < stored_len {
            return Err(cut);
        }
        let mut crc = Crc::new();
        crc.update(&head[..12]);
        crc.update(&self.stored);
        if crc.sum() != sum {
            return Err(TraceError::Corrupt { at, what: "a section has the wrong checksum" });
        }
        self.raw.clear();
        let unpacked =
            ZlibDecoder::new(&self.stored[..]).take(raw_len as u64 + 1).read_to_end(&mut self.raw);
        if unpacked.is_err() || self.raw.len() != raw_len {
            return Err(TraceError::Corrupt { at, what: "a section cannot be decompressed" });
        }
        Ok(Stored { kind: head[0], at })
    }

    fn json<T: DeserializeOwned>(&self, at: u64) -> Result<T, TraceError> {
        let corrupt = TraceError::Corrupt { at, what: "a section is not the expected JSON" };
        serde_json::from_slice(&self.raw).map_err(|_| corrupt)
    }

    /// Reads as many bytes as available, up to the length of the buffer.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, TraceError> {
        let mut there = 0;
        while there < buffer.len() {
            match self.source.read(&mut buffer[there..]) {
                Ok(0) => break,
                Ok(count) => there += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::Read(error)),
            }
        }
        self.position += there as u64;
        Ok(there)
    }
}
