//! Where the data of a file is if it is on data servers.
//!
//! A [`Placement`] belongs to an inode and is dropped with it; that is how the control threads
//! learn that the data files can be removed. It never changes, except for the users that may access
//! the data files (they are fenced by changing them) and the mirrors that have become stale.
//!
//! **Source:** RFC 8435 sections 2.2 and 6; RFC 8881 section 13.4.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nfs_proto::nfs3::FileHandle;

/// First of the synthetic user ids; each data file has two: its owner may write, a member of its
/// group may read.
const USERS_START: u32 = 0x2000_0000;

/// A file on a data server with a part of the data of one of our files.
#[derive(Debug)]
pub(crate) struct DataFile {
    /// Index of the data server.
    pub(crate) server: usize,
    /// Number in its name.
    pub(crate) number: u64,
    pub(crate) handle: FileHandle,
    /// Decides which user and group may access it.
    pub(crate) fence: AtomicU32,
}

impl DataFile {
    /// The user that may write it, and the group that may read it.
    pub(crate) fn owner(&self) -> (u32, u32) {
        owner_of(self.fence.load(Ordering::Acquire))
    }

    /// A user that has no other right than that of the group.
    pub(crate) fn reader(&self) -> u32 {
        self.owner().0 + 1
    }
}

/// The owner and group of a data file with this fence.
pub(crate) fn owner_of(fence: u32) -> (u32, u32) {
    let user = USERS_START + fence % (1 << 27) * 2;
    (user, user)
}

/// Gets the data files of a file that is gone.
pub(crate) trait ReleaseDataFiles: Debug + Send + Sync {
    fn release(&self, files: Vec<DataFile>);
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Placement {
    /// Data files by mirror, then by stripe.
    pub(crate) files: Vec<DataFile>,
    /// Number of mirrors.
    pub(crate) mirrors: usize,
    pub(crate) stripe_unit: u64,
    /// Bits of mirrors that miss writes.
    stale: AtomicU32,
    servers: Arc<dyn ReleaseDataFiles>,
}

impl Placement {
    pub(crate) fn new(
        files: Vec<DataFile>,
        mirrors: usize,
        stripe_unit: u64,
        servers: Arc<dyn ReleaseDataFiles>,
    ) -> Self {
        Self { files, mirrors, stripe_unit, stale: AtomicU32::new(0), servers }
    }

    /// Number of data files that a mirror consists of.
    pub(crate) fn stripes(&self) -> usize {
        self.files.len() / self.mirrors
    }

    /// The data files of a mirror.
    pub(crate) fn mirror(&self, mirror: usize) -> &[DataFile] {
        let stripes = self.stripes();
        &self.files[mirror * stripes..(mirror + 1) * stripes]
    }

    /// The mirrors that have all data.
    pub(crate) fn current_mirrors(&self) -> impl Iterator<Item = usize> {
        let stale = self.stale.load(Ordering::Acquire);
        (0..self.mirrors).filter(move |mirror| stale & 1 << mirror == 0)
    }

    /// Records that a mirror misses writes; the last one that has everything stays.
    pub(crate) fn set_stale(&self, mirror: usize) {
        let order = Ordering::AcqRel;
        let all = (1_u32 << self.mirrors) - 1;
        let _ = self.stale.fetch_update(order, Ordering::Acquire, |stale| {
            let next = stale | 1 << mirror;
            (next != all).then_some(next)
        });
    }

    /// The parts of a range in one mirror, as stripe, offset and length; offsets are the same in
    /// the data file as in the file.
    pub(crate) fn split(&self, offset: u64, length: u64) -> Vec<(usize, u64, u64)> {
        let end = offset.saturating_add(length);
        let stripes = self.stripes() as u64;
        let mut parts = Vec::new();
        let mut position = offset;
        while position < end {
            let next = match stripes {
                1 => end,
                _ => end.min((position / self.stripe_unit + 1) * self.stripe_unit),
            };
            let stripe = if stripes == 1 { 0 } else { position / self.stripe_unit % stripes };
            parts.push((stripe as usize, position, next - position));
            position = next;
        }
        parts
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        self.servers.release(std::mem::take(&mut self.files));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Debug, Default)]
    struct Released(Mutex<Vec<u64>>);

    impl ReleaseDataFiles for Released {
        fn release(&self, files: Vec<DataFile>) {
            self.0.lock().unwrap().extend(files.iter().map(|file| file.number));
        }
    }

    fn placement(files: u64, mirrors: usize) -> Placement {
        let file = |number| DataFile {
            server: number as usize,
            number,
            handle: FileHandle::from_slice(b"h").unwrap(),
            fence: AtomicU32::new(0),
        };
        Placement::new((0..files).map(file).collect(), mirrors, 10, Arc::new(Released::default()))
    }

    #[test]
    fn splits_ranges_at_stripe_units() {
        let striped = placement(3, 1);
        assert_eq!(striped.split(5, 27), [(0, 5, 5), (1, 10, 10), (2, 20, 10), (0, 30, 2)]);
        assert_eq!(striped.split(7, 0), []);
        assert_eq!(placement(2, 2).split(5, 27), [(0, 5, 27)]);
    }

    #[test]
    fn keeps_last_current_mirror() {
        let mirrored = placement(4, 2);
        assert_eq!((mirrored.stripes(), mirrored.mirror(1)[0].number), (2, 2));
        mirrored.set_stale(0);
        mirrored.set_stale(1);
        assert_eq!(mirrored.current_mirrors().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn hands_over_data_files_when_dropped() {
        let released = Arc::new(Released::default());
        let files = std::mem::take(&mut placement(3, 1).files);
        drop(Placement::new(files, 1, 10, Arc::clone(&released) as _));
        assert_eq!(*released.0.lock().unwrap(), [0, 1, 2]);
    }
}
