//! Loop devices below a mount, and the storage of their backing files.
//!
//! Without direct I/O, a loop device reads its file through this host's page cache no matter what
//! the file system on top of it does: `O_DIRECT` only bypasses the upper cache. The counters of the
//! device below show how much was read from there. The main function is [`below`].
//!
//! **Source:** losetup(8); drivers/block/loop.c of Linux (`backing_file` and `dio` in sysfs);
//! Documentation/ABI/stable/sysfs-block.

use std::path::Path;

use crate::facts::disks::{self, device_name};
use crate::facts::hardware::line;
use crate::mounts::Mount;

/// A loop device and its backing storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDevice {
    /// Name in sysfs.
    pub name: String,
    /// Path of the file, as reported by the kernel.
    pub backing_file: String,
    /// The file is accessed through this host's page cache.
    pub is_buffered: bool,
    /// Storage of the file.
    pub below: BackingStorage,
}

/// Storage of a loop device's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackingStorage {
    /// A block device, by its name in sysfs.
    Device(String),
    /// An in-memory file system, such as tmpfs.
    Memory(String),
    /// A file system whose device isn't known, such as overlay or NFS.
    Unknown(String),
}

/// Lists the loop devices below a mount, top down. The file of one may be on another one.
pub fn below(mount: &Mount) -> Vec<LoopDevice> {
    let mut chain = Chain {
        block: Path::new(disks::BLOCK),
        lies_on: &|file| find_backing(file),
        found: Vec::new(),
        seen: Vec::new(),
    };
    if let Some(name) = device_name(mount) {
        chain.walk(&name);
    }
    chain.found
}

/// Finds the storage of a file. For a deleted file, uses its folder.
fn find_backing(file: &Path) -> BackingStorage {
    let mount = Mount::find_containing(file).or_else(|| Mount::find_containing(file.parent()?));
    let Some(mount) = mount else {
        return BackingStorage::Unknown("an unknown file system".to_owned());
    };
    if mount.is_memory() {
        return BackingStorage::Memory(mount.file_system);
    }
    match device_name(&mount) {
        Some(name) => BackingStorage::Device(name),
        None => BackingStorage::Unknown(mount.file_system),
    }
}

struct Chain<'a> {
    /// The sysfs folder of all block devices.
    block: &'a Path,
    lies_on: &'a dyn Fn(&Path) -> BackingStorage,
    found: Vec<LoopDevice>,
    seen: Vec<String>,
}

impl Chain<'_> {
    /// Adds the loop devices at and below a device.
    fn walk(&mut self, name: &str) {
        if self.seen.iter().any(|seen| seen == name) {
            return;
        }
        self.seen.push(name.to_owned());
        let folder = self.block.join(name);
        let Some(file) = line(&folder.join("loop/backing_file")) else {
            for name in disks::devices_below(&folder) {
                self.walk(&name);
            }
            return;
        };
        let file = file.strip_suffix(" (deleted)").unwrap_or(&file).to_owned();
        let below = (self.lies_on)(Path::new(&file));
        // Kernels without this file don't support direct I/O.
        let is_buffered = line(&folder.join("loop/dio")).is_none_or(|dio| dio == "0");
        let next =
            if let BackingStorage::Device(name) = &below { Some(name.clone()) } else { None };
        self.found.push(LoopDevice {
            name: name.to_owned(),
            backing_file: file,
            is_buffered,
            below,
        });
        if let Some(next) = next {
            self.walk(&next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::hardware::testing::plant;

    fn found(block: &Path, name: &str) -> Vec<(String, bool, BackingStorage)> {
        let lies_on = |file: &Path| match file.to_str().unwrap() {
            "/srv/inner.img" => BackingStorage::Device("loop0".to_owned()),
            "/srv/outer.img" => BackingStorage::Device("vda1".to_owned()),
            _ => BackingStorage::Memory("tmpfs".to_owned()),
        };
        let mut chain = Chain { block, lies_on: &lies_on, found: Vec::new(), seen: Vec::new() };
        chain.walk(name);
        let found = chain.found.into_iter();
        found.map(|device| (device.name, device.is_buffered, device.below)).collect()
    }

    #[test]
    fn follows_a_loop_device_on_another() {
        let folder = tempfile::tempdir().unwrap();
        let block = folder.path();
        plant(
            block,
            &[
                ("loop1/loop/backing_file", "/srv/inner.img\n"),
                ("loop1/loop/dio", "1\n"),
                ("loop0/loop/backing_file", "/srv/outer.img (deleted)\n"),
                ("loop0/loop/dio", "0\n"),
                ("vda1/size", "1\n"),
            ],
        );
        let device = |name: &str| BackingStorage::Device(name.to_owned());
        let expected =
            [("loop1".into(), false, device("loop0")), ("loop0".into(), true, device("vda1"))];
        assert_eq!(found(block, "loop1"), expected);
        assert_eq!(found(block, "vda1"), []);
    }

    #[test]
    fn finds_loop_devices_below_an_array() {
        let folder = tempfile::tempdir().unwrap();
        let block = folder.path();
        plant(
            block,
            &[
                ("md0/slaves/loop0/x", ""),
                ("md0/slaves/loop1/x", ""),
                ("loop0/loop/backing_file", "/dev/shm/a\n"),
                ("loop1/loop/backing_file", "/dev/shm/b\n"),
                ("loop1/loop/dio", "0\n"),
            ],
        );
        let memory = || BackingStorage::Memory("tmpfs".to_owned());
        let expected = [("loop0".into(), true, memory()), ("loop1".into(), true, memory())];
        assert_eq!(found(block, "md0"), expected);
    }
}
