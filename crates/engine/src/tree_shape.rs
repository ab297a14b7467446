//! The shape of a directory tree: how many files there are, how large, how deep and how wide.
//!
//! [`describe_tree`] reads a tree without changing anything. It stays on one file system, doesn't
//! follow symbolic links, and needs memory only for one open directory per level, however many
//! files there are.

use std::path::Path;

use model::Histogram;
use model::file_sizes::{SizeShare, WHOLE};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use serde::Serialize;

/// Maximum number of levels below the top directory to enter.
const LEVELS_MAX: usize = 500;

/// Maximum number of failures to describe; all are counted.
const FAILURES_MAX: usize = 10;

/// The shape of a tree. Counts don't include the top directory itself.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TreeShape {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    /// Sockets, pipes and devices.
    pub others: u64,
    /// Sum of the sizes of all files.
    pub bytes: u64,
    /// Space that the file system reports for them.
    pub allocated_bytes: u64,
    /// Number of files with more than one name, once for each name below the top directory.
    pub hard_linked_names: u64,
    /// Directories that are mount points of other file systems and were not entered.
    pub mount_points: u64,
    /// Entries and directories that could not be read.
    pub failures: u64,
    /// The first of these failures.
    pub failure_examples: Vec<String>,
    /// Files by size, the smallest first: empty ones, then a class for each power of two.
    pub sizes: Vec<SizeClass>,
    /// Files and directories of each level; those of the top directory are level 0.
    pub levels: Vec<LevelCounts>,
    pub file_bytes: Quantiles,
    /// Entries of each directory, including the top one.
    pub entries_per_directory: Quantiles,
    /// Subdirectories of each directory that has any.
    pub subdirectories: Quantiles,
}

/// Files of similar size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SizeClass {
    /// Size of the smallest of them.
    pub min_bytes: u64,
    /// Size of the largest of them.
    pub max_bytes: u64,
    pub files: u64,
    pub bytes: u64,
}

/// What is in all directories of a level together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LevelCounts {
    pub files: u64,
    pub directories: u64,
}

/// Quantiles of a quantity; up to 0.8 % off, except for mean and maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    pub mean: f64,
    pub p10: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
}

impl Quantiles {
    fn new(values: &Histogram, sum: u64) -> Self {
        if values.count() == 0 {
            return Self::default();
        }
        Self {
            mean: sum as f64 / values.count() as f64,
            p10: values.quantile(0.1),
            p50: values.quantile(0.5),
            p90: values.quantile(0.9),
            p99: values.quantile(0.99),
            max: values.max(),
        }
    }
}

impl TreeShape {
    /// Returns the files whose size is in a range as a list of shares, with the same total size,
    /// and their number.
    pub fn shares(&self, sizes: std::ops::RangeInclusive<u64>) -> (Vec<SizeShare>, u64) {
        let within = |class: &&SizeClass| sizes.contains(&class.max_bytes);
        let classes: Vec<&SizeClass> = self.sizes.iter().filter(within).collect();
        let files: u64 = classes.iter().map(|class| class.files).sum();
        let mut shares = Vec::with_capacity(classes.len());
        // Cumulative counts are rounded, so that the shares add up exactly.
        let (mut counted, mut shared) = (0, 0);
        for class in classes {
            counted += class.files;
            let end = (u128::from(counted) * u128::from(WHOLE) / u128::from(files)) as u32;
            // Sizes are spread evenly around the mean, so that the total is right.
            let mean = class.bytes / class.files;
            let spread = (mean - class.min_bytes).min(class.max_bytes - mean);
            let share = end - shared;
            shared = end;
            if share > 0 {
                let (min_bytes, max_bytes) = (mean - spread, mean + spread);
                shares.push(SizeShare { min_bytes, max_bytes, share });
            }
        }
        (shares, files)
    }
}

/// Collects what is found.
struct Collector {
    shape: TreeShape,
    /// The device of the top directory.
    device: u64,
    classes: [SizeClass; 65],
    sizes: Histogram,
    entries: (Histogram, u64),
    subdirectories: (Histogram, u64),
}

/// A directory that is being read.
struct OpenDirectory {
    handle: Dir,
    entries: u64,
    subdirectories: u64,
}

/// Describes the tree below a directory.
///
/// # Errors
/// If the top directory cannot be read. Failures below are counted.
pub fn describe_tree(top: &Path) -> std::io::Result<TreeShape> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::open(top, flags, Mode::empty())?;
    let mut collector = Collector {
        shape: TreeShape::default(),
        device: fstat(&handle)?.st_dev,
        classes: [SizeClass::default(); 65],
        sizes: Histogram::new(),
        entries: (Histogram::new(), 0),
        subdirectories: (Histogram::new(), 0),
    };
    let mut path = top.to_owned();
    let mut open = vec![OpenDirectory::new(Dir::new(handle)?)];
    while let Some(directory) = open.last_mut() {
        match directory.handle.read() {
            Some(Ok(entry)) => {
                if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                    continue;
                }
                let level = open.len() - 1;
                if let Some(below) = collector.note_entry(&mut open[level], &entry, level, &path) {
                    open.push(OpenDirectory::new(below));
                    path.push(name_of(&entry));
                }
            }
            end => {
                if let Some(Err(errno)) = end {
                    collector.note_failure(&path, errno);
                }
                collector.note_directory(directory);
                open.pop();
                path.pop();
            }
        }
    }
    Ok(collector.finish())
}

fn name_of(entry: &rustix::fs::DirEntry) -> &Path {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()))
}

impl OpenDirectory {
    const fn new(handle: Dir) -> Self {
        Self { handle, entries: 0, subdirectories: 0 }
    }
}

impl Collector {
    /// Counts an entry. Returns its handle if it is a directory to be entered.
    fn note_entry(
        &mut self,
        directory: &mut OpenDirectory,
        entry: &rustix::fs::DirEntry,
        level: usize,
        path: &Path,
    ) -> Option<Dir> {
        directory.entries += 1;
        let name = entry.file_name();
        let examined = directory
            .handle
            .fd()
            .and_then(|parent| statat(parent, name, AtFlags::SYMLINK_NOFOLLOW));
        let found = match examined {
            Ok(found) => found,
            Err(errno) => {
                self.note_failure(&path.join(name_of(entry)), errno);
                return None;
            }
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => self.note_file(&found, level),
            FileType::Symlink => self.shape.symlinks += 1,
            FileType::Directory => {
                self.shape.directories += 1;
                directory.subdirectories += 1;
                self.level(level).directories += 1;
                return self.enter(directory, entry, &found, level, path);
            }
            _ => self.shape.others += 1,
        }
        None
    }

    fn enter(
        &mut self,
        directory: &OpenDirectory,
        entry: &rustix::fs::DirEntry,
        found: &Stat,
        level: usize,
        path: &Path,
    ) -> Option<Dir> {
        if found.st_dev != self.device {
            self.shape.mount_points += 1;
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = if level >= LEVELS_MAX {
            Err(Errno::NAMETOOLONG)
        } else {
            let parent = directory.handle.fd();
            parent.and_then(|parent| openat(parent, entry.file_name(), flags, Mode::empty()))
        };
        match opened.and_then(Dir::new) {
            Ok(below) => Some(below),
            Err(errno) => {
                self.note_failure(&path.join(name_of(entry)), errno);
                None
            }
        }
    }

    fn note_file(&mut self, found: &Stat, level: usize) {
        let bytes = found.st_size.cast_unsigned();
        self.shape.files += 1;
        self.shape.bytes = self.shape.bytes.saturating_add(bytes);
        let allocated = found.st_blocks.cast_unsigned().saturating_mul(512);
        self.shape.allocated_bytes = self.shape.allocated_bytes.saturating_add(allocated);
        self.shape.hard_linked_names += u64::from(found.st_nlink > 1);
        self.level(level).files += 1;
        self.sizes.record(bytes);
        // Empty files, then a class for each number of bits.
        let class = &mut self.classes[(u64::BITS - bytes.leading_zeros()) as usize];
        let smallest = if class.files == 0 { bytes } else { class.min_bytes.min(bytes) };
        class.min_bytes = smallest;
        class.max_bytes = class.max_bytes.max(bytes);
        class.files += 1;
        class.bytes = class.bytes.saturating_add(bytes);
    }

    fn note_directory(&mut self, directory: &OpenDirectory) {
        self.entries.0.record(directory.entries);
        self.entries.1 += directory.entries;
        if directory.subdirectories > 0 {
            self.subdirectories.0.record(directory.subdirectories);
            self.subdirectories.1 += directory.subdirectories;
        }
    }

    fn level(&mut self, level: usize) -> &mut LevelCounts {
        let levels = &mut self.shape.levels;
        if levels.len() <= level {
            levels.resize(level + 1, LevelCounts::default());
        }
        &mut levels[level]
    }

    fn note_failure(&mut self, path: &Path, errno: Errno) {
        self.shape.failures += 1;
        if self.shape.failure_examples.len() < FAILURES_MAX {
            let reason = std::io::Error::from(errno);
            self.shape.failure_examples.push(format!("{}: {reason}", path.display()));
        }
    }

    fn finish(self) -> TreeShape {
        let Self { mut shape, classes, sizes, entries, subdirectories, .. } = self;
        shape.sizes = classes.into_iter().filter(|class| class.files > 0).collect();
        shape.file_bytes = Quantiles::new(&sizes, shape.bytes);
        shape.entries_per_directory = Quantiles::new(&entries.0, entries.1);
        shape.subdirectories = Quantiles::new(&subdirectories.0, subdirectories.1);
        shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn counts_files_levels_and_failures() {
        let top = tempfile::tempdir().unwrap();
        let below = top.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        for (name, bytes) in [("a/one", 1), ("a/three", 3), ("a/b/none", 0), ("a/b/big", 5_000)] {
            fs::write(top.path().join(name), vec![7; bytes]).unwrap();
        }
        fs::hard_link(below.join("big"), top.path().join("again")).unwrap();
        // Links are counted, not followed, even in a circle.
        std::os::unix::fs::symlink(top.path(), below.join("up")).unwrap();
        let shape = describe_tree(top.path()).unwrap();
        assert_eq!((shape.files, shape.directories, shape.symlinks), (5, 2, 1));
        assert_eq!((shape.bytes, shape.hard_linked_names), (10_004, 2));
        assert_eq!((shape.failures, shape.mount_points, shape.others), (0, 0, 0));
        let levels: Vec<_> = shape.levels.iter().map(|one| (one.files, one.directories)).collect();
        assert_eq!(levels, [(1, 1), (2, 1), (2, 0)]);
        assert_eq!((shape.entries_per_directory.max, shape.subdirectories.max), (3, 1));
        let sizes: Vec<_> = shape.sizes.iter().map(|one| (one.max_bytes, one.files)).collect();
        assert_eq!(sizes, [(0, 1), (1, 1), (3, 1), (5_000, 2)]);
        assert!(describe_tree(&top.path().join("missing")).is_err());
    }

    #[test]
    fn shares_have_number_and_total() {
        let top = tempfile::tempdir().unwrap();
        let mut bytes = 0;
        for number in 0..97_u64 {
            let size = number * number * 13 % 70_000;
            bytes += size;
            fs::write(top.path().join(number.to_string()), vec![0; size as usize]).unwrap();
        }
        let shape = describe_tree(top.path()).unwrap();
        let (shares, files) = shape.shares(0..=u64::MAX);
        assert_eq!((files, shape.bytes), (97, bytes));
        assert_eq!(shares.iter().map(|item| item.share).sum::<u32>(), WHOLE);
        let total = model::SizeDistribution::List(shares).total(97);
        assert!(total.abs_diff(bytes) * 100 <= bytes, "{total} {bytes}");
        let (large, files) = shape.shares(32_769..=u64::MAX);
        assert_eq!(large.iter().map(|item| item.share).sum::<u32>(), WHOLE);
        assert!(files > 0 && large.iter().all(|item| item.min_bytes > 32_768));
    }
}
