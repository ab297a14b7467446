//! One of our servers as a target, accessed over TCP without RPC.
//!
//! It shows what the network can do on its own. Each worker has its own connection.

use std::sync::Arc;
use std::time::Duration;

use model::TcpTarget;

use super::access::{TargetAccess, WorkerPass};
use super::{OpenedBackend, TargetError, largest_op};
use crate::backend::tcp::{self, Tcp};

/// The server to connect to.
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
        let io_size = largest_op(spec) as usize;
        let timeout_ns = spec.timeout_ms.saturating_mul(1_000_000);
        let backend = Tcp::new(stream, clock, depth, io_size, timeout_ns);
        Ok(OpenedBackend::without_caveats(spec.queue_depth, Box::new(backend)))
    }
}
