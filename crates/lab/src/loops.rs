//! Loop devices below a mount: disks that are files, and what these files lie on.
//!
//! Principal function: [`below`]. A loop device without direct I/O reads its file through the page
//! cache of this host, whatever the file system on it does: `O_DIRECT` bypasses only the cache
//! above it. The counters of the device below tell how much came from there.
//!
//! **Source:** losetup(8); drivers/block/loop.c of Linux (`backing_file` and `dio` in sysfs);
//! Documentation/ABI/stable/sysfs-block.

use std::path::Path;

use crate::disks::{self, device_name};
use crate::hardware::line;
use crate::mounts::Mount;

/// A loop device, and where its data comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDevice {
    /// Name in sysfs.
    pub name: String,
    /// Path of the file, as the kernel writes it.
    pub backing_file: String,
    /// The file is read through the page cache of this host.
    pub is_buffered: bool,
    /// What the file lies on.
    pub below: Below,
}

/// What the file of a loop device lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Below {
    /// A block device, by its name in sysfs.
    Device(String),
    /// A file system in memory, such as tmpfs.
    Memory(String),
    /// A file system whose device is not known, such as overlay or NFS.
    Unknown(String),
}

/// Lists the loop devices below a mount, from the top down; a file of one may lie on another one.
pub fn below(mount: &Mount) -> Vec<LoopDevice> {
    let mut chain = Chain {
        block: Path::new(disks::BLOCK),
        lies_on: &|file| lies_on(file),
        found: Vec::new(),
        seen: Vec::new(),
    };
    if let Some(name) = device_name(mount) {
        chain.walk(&name);
    }
    chain.found
}

/// Finds what a file lies on; of a removed one the folder tells.
fn lies_on(file: &Path) -> Below {
    let mount = Mount::of(file).or_else(|| Mount::of(file.parent()?));
    let Some(mount) = mount else { return Below::Unknown("an unknown file system".to_owned()) };
    if mount.is_memory() {
        return Below::Memory(mount.file_system);
    }
    match device_name(&mount) {
        Some(name) => Below::Device(name),
        None => Below::Unknown(mount.file_system),
    }
}

struct Chain<'a> {
    /// The folder of all block devices in sysfs.
    block: &'a Path,
    lies_on: &'a dyn Fn(&Path) -> Below,
    found: Vec<LoopDevice>,
    seen: Vec<String>,
}

impl Chain<'_> {
    /// Adds the loop devices from a device on downwards.
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
        // Kernels without the file have no direct I/O.
        let is_buffered = line(&folder.join("loop/dio")).is_none_or(|dio| dio == "0");
        let next = if let Below::Device(name) = &below { Some(name.clone()) } else { None };
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
    use crate::hardware::testing::plant;

    fn found(block: &Path, name: &str) -> Vec<(String, bool, Below)> {
        let lies_on = |file: &Path| match file.to_str().unwrap() {
            "/srv/inner.img" => Below::Device("loop0".to_owned()),
            "/srv/outer.img" => Below::Device("vda1".to_owned()),
            _ => Below::Memory("tmpfs".to_owned()),
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
        let device = |name: &str| Below::Device(name.to_owned());
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
        let memory = || Below::Memory("tmpfs".to_owned());
        let expected = [("loop0".into(), true, memory()), ("loop1".into(), true, memory())];
        assert_eq!(found(block, "md0"), expected);
    }
}
