//! Counters of where reads come from, on file systems whose reads from storage the kernel does not
//! count for this process: FUSE, overlays, network file systems other than NFS.
//!
//! They are read before a pass and after it; [`crate::caveats::about_memory`] judges them.

use lab::counters;
use lab::fuse::{FuseReads, FuseServers};
use lab::mounts::Mount;

/// Counters of where the bytes that a pass read came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSources {
    /// Bytes that storage read for this process itself, or for the program that it ran.
    pub own_stored_bytes: u64,
    /// The programs that serve the mount, or may do so, by FUSE; `None` on other file systems.
    pub fuse: Option<FuseReads>,
}

/// Readings from before a pass.
pub(crate) struct SourceWatch {
    own_stored_bytes: Option<u64>,
    fuse: Option<FuseServers>,
    /// Number of the mount's device.
    device: String,
}

impl SourceWatch {
    /// Reads the counters; `None` if others tell what the mount reads.
    pub(crate) fn begin(mount: Option<&Mount>) -> Option<Self> {
        let mount = mount?;
        if mount.counts_storage_reads() || mount.is_nfs() {
            return None;
        }
        let own_stored_bytes = counters::storage_read_bytes();
        let fuse = mount.is_fuse().then(|| FuseServers::find(&mount.device));
        Some(Self { own_stored_bytes, fuse, device: mount.device.clone() })
    }

    /// Returns by how much they have risen.
    pub(crate) fn end(self) -> ReadSources {
        let own = difference(self.own_stored_bytes, counters::storage_read_bytes());
        ReadSources {
            own_stored_bytes: own.unwrap_or(0),
            fuse: self.fuse.map(|before| FuseServers::find(&self.device).since(&before)),
        }
    }
}

/// Returns by how much a counter has risen; `None` where it could not be read both times.
pub(crate) fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}
