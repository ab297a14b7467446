//! Block devices: finding their nodes, and undoing loop devices, arrays, mappings and file systems.
//!
//! When undoing, a file system is identified by the UUID and an array by the name that we gave it,
//! since their nodes may have changed. **Source:** losetup(8), mdadm(8), cryptsetup(8), wipefs(8),
//! blkid(8).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Device;

use crate::commands::{Runner, SOON};
use crate::error::LabError;
use crate::host::processes;

/// Number of attempts to detach a loop device, and the pause between them.
const DETACHES: u32 = 100;
const DETACH_PAUSE: Duration = Duration::from_millis(50);

/// Returns the current node of a device.
///
/// # Errors
/// If it doesn't exist.
pub(crate) fn node(device: &Device) -> Result<PathBuf, LabError> {
    let found = match device {
        // Check the entry itself: a dangling symlink is rejected later, with a better message.
        Device::Node(node) if node.symlink_metadata().is_ok() => Some(node.clone()),
        Device::Node(_) => None,
        Device::Loop(file) => loop_node(file),
        Device::Array(name) => array_node(name),
        Device::Mapped(name) => if_exists(Path::new("/dev/mapper").join(name)),
    };
    let Some(node) = found else {
        let what = match device {
            Device::Node(node) => node.display().to_string(),
            Device::Loop(file) => format!("the loop device of {}", file.display()),
            Device::Array(name) => format!("the array {name}"),
            Device::Mapped(name) => format!("/dev/mapper/{name}"),
        };
        return Err(LabError::Unable(format!("{what} does not exist (any more)")));
    };
    Ok(node)
}

fn if_exists(node: PathBuf) -> Option<PathBuf> {
    if node.exists() { Some(node) } else { None }
}

/// Returns the name that a dry run shows for a device.
pub(crate) fn placeholder(device: &Device) -> PathBuf {
    match device {
        Device::Node(node) => node.clone(),
        Device::Loop(_) => PathBuf::from("/dev/loopN"),
        Device::Array(name) => Path::new("/dev/md").join(name),
        Device::Mapped(name) => Path::new("/dev/mapper").join(name),
    }
}

/// Detaches all loop devices of a file.
///
/// # Errors
/// If losetup fails, or something keeps a device open for too long.
pub(crate) fn detach(runner: &Runner, file: &Path) -> Result<(), LabError> {
    let mut found = loop_node(file);
    for _ in 0..DETACHES {
        let Some(node) = &found else { return Ok(()) };
        let node = node.display().to_string();
        // If the device is in use, losetup succeeds, but the kernel only detaches it after the last
        // user has closed it. **Source:** drivers/block/loop.c (`loop_clr_fd`).
        let detached = runner.run(&["losetup", "--detach", node.as_str()], SOON);
        found = loop_node(file);
        // If it has been detached in the meantime, the error no longer matters.
        if found.is_some() {
            detached?;
        }
        if found.is_some() {
            processes::pause(DETACH_PAUSE);
            found = loop_node(file);
        }
    }
    let Some(node) = found else { return Ok(()) };
    Err(LabError::Unable(format!(
        "{} is still in use, so {} cannot be detached from it",
        node.display(),
        file.display()
    )))
}

/// Stops one of our arrays and wipes its superblock from its devices.
///
/// # Errors
/// If mdadm fails.
pub(crate) fn stop_array(runner: &Runner, name: &str, devices: &[PathBuf]) -> Result<(), LabError> {
    if let Some(node) = array_node(name) {
        let node = node.display().to_string();
        runner.run(&["mdadm", "--quiet", "--stop", node.as_str()], SOON)?;
    }
    for device in devices {
        if !device.exists() {
            continue;
        }
        let device = device.display().to_string();
        let argv = ["mdadm", "--examine", "--export", device.as_str()];
        // mdadm fails if a device has no superblock. In that case there is nothing to wipe.
        let output = runner.output(&argv, SOON)?;
        if output.stdout.lines().any(|line| is_name_of_array(line, name)) {
            let argv = ["mdadm", "--quiet", "--zero-superblock", device.as_str()];
            runner.run(&argv, SOON)?;
        }
    }
    Ok(())
}

/// Returns true if a line of `mdadm --examine --export` contains the name of an array, as
/// `MD_NAME=host:name` or `MD_NAME=name`.
fn is_name_of_array(line: &str, name: &str) -> bool {
    line.strip_prefix("MD_NAME=").is_some_and(|full| full.rsplit(':').next() == Some(name))
}

/// Closes one of our mappings.
///
/// # Errors
/// If cryptsetup fails.
pub(crate) fn close_mapped(runner: &Runner, name: &str) -> Result<(), LabError> {
    if Path::new("/dev/mapper").join(name).exists() {
        runner.run(&["cryptsetup", "close", "--", name], SOON)?;
    }
    Ok(())
}

/// Wipes a file system's signatures from a device if it has this UUID.
///
/// # Errors
/// If wipefs fails, for example because the file system is mounted.
pub(crate) fn wipe(runner: &Runner, device: &Path, uuid: &str) -> Result<(), LabError> {
    if !device.exists() || uuid.is_empty() || probe(runner, device, "UUID")? != uuid {
        return Ok(());
    }
    let device = device.display().to_string();
    runner.run(&["wipefs", "--all", "--quiet", "--", device.as_str()], SOON)?;
    Ok(())
}

/// Returns the value of a blkid tag for a device, or an empty string. **Source:** blkid(8), exit
/// code 2.
///
/// # Errors
/// If blkid cannot be run.
pub(crate) fn probe(runner: &Runner, device: &Path, tag: &str) -> Result<String, LabError> {
    let device = device.display().to_string();
    let argv = ["blkid", "--probe", "--match-tag", tag, "--output", "value", "--", device.as_str()];
    Ok(runner.output(&argv, SOON)?.stdout.trim().to_owned())
}

/// Finds the loop device of a file.
///
/// Loop devices of containers show paths in the container's own file system, which may look the
/// same as ours. So an existing file is identified by its inode, and only a deleted one by its
/// path.
fn loop_node(file: &Path) -> Option<PathBuf> {
    let wanted = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let inode = fs::metadata(&wanted).ok().map(|of_file| {
        let major = rustix::fs::major(of_file.dev());
        let minor = rustix::fs::minor(of_file.dev());
        format!("{major}:{minor} {}", of_file.ino())
    });
    for entry in fs::read_dir("/sys/block").ok()?.flatten() {
        let text = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        let node = Path::new("/dev").join(entry.file_name());
        let text = text.trim_end();
        let is_ours = match (&inode, text.strip_suffix(" (deleted)")) {
            (Some(inode), None) => Path::new(text) == wanted && inode_of_loop(&node) == *inode,
            (None, Some(removed)) => Path::new(removed) == wanted,
            _ => false,
        };
        if is_ours {
            return Some(node);
        }
    }
    None
}

/// Returns the device number and inode of a loop device's file as printed by losetup, or an empty
/// string if that fails.
fn inode_of_loop(node: &Path) -> String {
    let node = node.display().to_string();
    let columns = "BACK-MAJ:MIN,BACK-INO";
    let argv = ["losetup", "--list", "--noheadings", "--output", columns, node.as_str()];
    match Runner::default().output(&argv, SOON) {
        // losetup pads its columns.
        Ok(output) => output.stdout.split_whitespace().collect::<Vec<_>>().join(" "),
        Err(_) => String::new(),
    }
}

/// Returns the array with this name: through udev's symlink if there is one, or else by its node
/// name.
pub(crate) fn array_node(name: &str) -> Option<PathBuf> {
    let link = Path::new("/dev/md").join(name);
    if let Ok(node) = link.canonicalize() {
        return Some(node);
    }
    // For a name that isn't a number, mdadm creates the device `md_NAME`.
    let node_name = format!("md_{name}");
    let is_array = Path::new("/sys/block").join(&node_name).join("md/array_state").exists();
    if is_array { Some(Path::new("/dev").join(node_name)) } else { None }
}

/// Returns the sysfs folder of a device. Looks it up by number, since nodes have other names if
/// udev isn't running.
pub(crate) fn sysfs(node: &Path) -> PathBuf {
    let number = match fs::metadata(node) {
        Ok(metadata) => metadata.rdev(),
        Err(_) => 0,
    };
    let major = rustix::fs::major(number);
    let minor = rustix::fs::minor(number);
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

/// Returns the size of a device in bytes, and the file it was read from.
pub(crate) fn size_bytes(node: &Path) -> (u64, String) {
    let path = sysfs(node).join("size");
    let text = fs::read_to_string(&path).unwrap_or_default();
    // In sectors of 512 bytes, regardless of the device's sector size.
    let sectors: u64 = text.trim().parse().unwrap_or(0);
    (sectors.saturating_mul(512), path.display().to_string())
}

/// Returns whether a loop device bypasses the page cache below it (`on` or `off`), and the file
/// this was read from.
pub(crate) fn direct_io(node: &Path) -> (&'static str, String) {
    let path = sysfs(node).join("loop/dio");
    let is_direct = fs::read_to_string(&path).is_ok_and(|text| text.trim() == "1");
    (if is_direct { "on" } else { "off" }, path.display().to_string())
}
