//! This host's memory as a target: data is copied but not kept.
//!
//! It shows the cost of copying on its own, without a file system or network.

use std::sync::Arc;

use super::access::{TargetAccess, WorkerPass};
use super::{OpenedBackend, TargetError, largest_op};
use crate::backend::memory::Memory;

/// Copies within memory.
pub(super) struct MemoryAccess;

impl TargetAccess for MemoryAccess {
    fn open(&self, work: WorkerPass<'_>) -> Result<OpenedBackend, TargetError> {
        let WorkerPass { spec, config, .. } = work;
        let clock = Arc::clone(&config.clock);
        let depth = spec.queue_depth as usize;
        let io_size = largest_op(spec) as usize;
        let memory = Memory::new(clock, depth, io_size, spec.set_bytes());
        Ok(OpenedBackend::without_caveats(spec.queue_depth, Box::new(memory)))
    }
}
