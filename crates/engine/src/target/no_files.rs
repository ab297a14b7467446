//! Targets that keep no files, each of which shows the cost of a part of the others.

use std::sync::Arc;
use std::time::Duration;

use model::TcpTarget;

use super::access::{TargetAccess, WorkerPass};
use super::{OpenedBackend, TargetError};
use crate::backend::memory::Memory;
use crate::backend::tcp::{self, Tcp};

/// Copies data within this host's memory, which shows the cost of copying on its own.
pub(super) struct MemoryAccess;

impl TargetAccess for MemoryAccess {
    fn open(&self, work: WorkerPass<'_>) -> Result<OpenedBackend, TargetError> {
        let WorkerPass { spec, config, .. } = work;
        let clock = Arc::clone(&config.clock);
        let depth = spec.queue_depth as usize;
        let io_size = spec.largest_op_bytes() as usize;
        let memory = Memory::new(clock, depth, io_size, spec.set_bytes());
        Ok(OpenedBackend::without_caveats(spec.queue_depth, Box::new(memory)))
    }
}

/// Accesses one of our servers over TCP without RPC, which shows what the network can do on its
/// own. Each worker has its own connection.
pub(super) struct TcpAccess(pub TcpTarget);

impl TargetAccess for TcpAccess {
    fn open(&self, work: WorkerPass<'_>) -> Result<OpenedBackend, TargetError> {
        let WorkerPass { spec, config, .. } = work;
        let timeout = Duration::from_millis(spec.timeout_ms);
        let stream = tcp::connect(&self.0, timeout).map_err(|error| TargetError::Io {
            what: "connect to",
            location: spec.target.to_string(),
            reason: error.to_string(),
        })?;
        let clock = Arc::clone(&config.clock);
        let depth = spec.queue_depth as usize;
        let io_size = spec.largest_op_bytes() as usize;
        let timeout_ns = spec.timeout_ms.saturating_mul(1_000_000);
        let backend = Tcp::new(stream, clock, depth, io_size, timeout_ns);
        Ok(OpenedBackend::without_caveats(spec.queue_depth, Box::new(backend)))
    }
}
