//! Access patterns: sizes, and whether accesses are sequential.
//!
//! An access is sequential if it begins at the end of the client's last access to the same file in
//! the same direction, or at the start of a file that the client had not accessed in this
//! direction. The ends are kept for a limited number of files; the next access to any other file
//! counts as random unless it begins at 0.

use std::collections::HashMap;

use model::Histogram;
use serde::Serialize;

use super::Quantiles;
use crate::record::Op;

/// Maximum number of pairs of client and file whose last access is kept.
const ENDS_MAX: usize = 1 << 20;
/// Stability of a WRITE that must be on stable storage before its reply: 1 above the protocol
/// value.
const FILE_SYNC: u8 = 3;

/// Statistics of reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct AccessDescription {
    /// Number of accesses.
    pub ops: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Sequential accesses.
    pub sequential_ops: u64,
    /// Bytes of sequential accesses.
    pub(crate) sequential_bytes: u64,
    /// Writes for which durability before the reply was requested.
    pub stable_ops: u64,
    /// Requested sizes.
    pub sizes: Quantiles,
}

/// Accesses in one direction.
#[derive(Debug)]
pub(crate) struct Accesses {
    found: AccessDescription,
    sizes: Histogram,
    ends: HashMap<u64, u64>,
}

impl Default for Accesses {
    fn default() -> Self {
        let found = AccessDescription::default();
        Self { found, sizes: Histogram::sparse(), ends: HashMap::new() }
    }
}

impl Accesses {
    /// Adds an access of a client.
    pub(crate) fn add(&mut self, client: u32, op: &Op) {
        // If the reply was not seen, use the requested size.
        let bytes = if op.status.is_none() { op.length } else { op.count };
        if self.ends.len() >= ENDS_MAX {
            self.ends.clear();
        }
        let key = u64::from(client) << 32 | u64::from(op.file);
        let last_end = self.ends.insert(key, op.offset.saturating_add(bytes));
        let is_sequential = last_end.unwrap_or_default() == op.offset;
        let found = &mut self.found;
        found.ops += 1;
        found.bytes = found.bytes.saturating_add(bytes);
        if is_sequential {
            found.sequential_ops += 1;
            found.sequential_bytes = found.sequential_bytes.saturating_add(bytes);
        }
        found.stable_ops += u64::from(op.how == FILE_SYNC);
        self.sizes.record(op.length);
    }

    pub(crate) fn describe(&self) -> AccessDescription {
        AccessDescription { sizes: Quantiles::from_histogram(&self.sizes), ..self.found }
    }
}
