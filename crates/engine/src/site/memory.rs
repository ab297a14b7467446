//! Memory of this host as a target: data is copied, and kept nowhere.
//!
//! It shows what copying alone takes, below any file system and any network.

use std::sync::Arc;

use model::{Pass, RunSpec};

use super::place::Place;
use super::{Opened, SiteConfig, SiteError};
use crate::backend::memory::Memory;

/// Copies within memory.
pub(super) struct MemorySite;

impl Place for MemorySite {
    fn open(
        &self,
        spec: &RunSpec,
        _pass: Pass,
        _worker: u32,
        config: &SiteConfig,
    ) -> Result<Opened, SiteError> {
        let clock = Arc::clone(&config.clock);
        let (depth, io_size) = (spec.queue_depth as usize, spec.io_size_bytes as usize);
        let memory = Memory::new(clock, depth, io_size, spec.set_bytes());
        Ok(Opened::plain(spec, Box::new(memory)))
    }
}
