//! Counters of where reads come from, for file systems whose storage reads the kernel doesn't
//! attribute to this process: FUSE, overlays, and network file systems other than NFS.
//!
//! They are read before and after a pass and evaluated by [`crate::caveats::about_memory`].

use lab::mounts::Mount;
use lab::telemetry::counters;
use lab::telemetry::fuse::{FuseReads, FuseServers};

/// Where the bytes read by a pass came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSources {
    /// Bytes that storage read for this process or the external program.
    pub own_stored_bytes: u64,
    /// The programs that serve the mount, or may do so, through FUSE; `None` on other file systems.
    pub fuse: Option<FuseReads>,
}

/// Readings from before a pass.
pub(crate) struct SourceWatch {
    own_stored_bytes: Option<u64>,
    fuse: Option<FuseServers>,
    /// Device number of the mount.
    device: String,
}

impl SourceWatch {
    /// Reads the counters. Returns `None` if other counters cover the mount's reads.
    pub(crate) fn begin(mount: Option<&Mount>) -> Option<Self> {
        let mount = mount?;
        if mount.counts_storage_reads() || mount.is_nfs() {
            return None;
        }
        let own_stored_bytes = counters::storage_read_bytes();
        let fuse = mount.is_fuse().then(|| FuseServers::find(&mount.device));
        Some(Self { own_stored_bytes, fuse, device: mount.device.clone() })
    }

    /// Returns the increase of the counters.
    pub(crate) fn end(self) -> ReadSources {
        let own = difference(self.own_stored_bytes, counters::storage_read_bytes());
        ReadSources {
            own_stored_bytes: own.unwrap_or(0),
            fuse: self.fuse.map(|before| FuseServers::find(&self.device).since(&before)),
        }
    }
}

/// Returns the increase of a counter, or `None` if either reading failed.
pub(crate) fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}
