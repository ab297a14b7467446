//! Decides what must not be touched, based on facts about a device or path, before anything is
//! done.
//!
//! [`refuse`] makes the decision based on [`DeviceFacts`]. It is pure, so every rule can be tested
//! without a device. A device is overwritten only if the plan names it and the command line repeats
//! it, and never if anything is on it or uses it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use model::Device;
use serde_json::Value;

use crate::commands::{Runner, SOON};
use crate::error::LabError;
use crate::mounts;

/// Facts about a device that would be overwritten.
#[expect(clippy::struct_excessive_bools, reason = "the facts are independent")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceFacts {
    /// Its node, as named in the plan.
    pub node: PathBuf,
    /// Whether the path exists.
    pub exists: bool,
    /// Whether the path is, or contains, a symlink.
    pub(crate) is_link: bool,
    /// Whether it is a block device.
    pub(crate) is_block: bool,
    /// Its mount points.
    pub mounted: Vec<String>,
    /// Whether it is used as swap.
    pub swap: bool,
    /// Devices built on it, such as `md0` and `dm-1`.
    pub holders: Vec<String>,
    /// Names of its partitions.
    pub partitions: Vec<String>,
    /// Signatures on it: partition tables, file systems, RAID members.
    pub(crate) signatures: Vec<String>,
    /// Whether the kernel reports that someone has opened it exclusively.
    pub(crate) is_claimed: bool,
}

/// Returns why a device must not be overwritten, or `None` if it may.
///
/// `allowed` lists the devices named on the command line.
pub(crate) fn refuse(facts: &DeviceFacts, allowed: &[PathBuf]) -> Option<String> {
    let node = facts.node.display();
    let why = if !facts.exists {
        "there is no such device".to_owned()
    } else if facts.is_link {
        "it is a symlink; name the device itself".to_owned()
    } else if !facts.is_block {
        "it is not a block device".to_owned()
    } else if !allowed.contains(&facts.node) {
        format!(
            "its contents would be lost; `--allow-destroy {node}` on the command line permits that"
        )
    } else if !facts.mounted.is_empty() {
        format!("it is mounted on {}", facts.mounted.join(", "))
    } else if facts.swap {
        "it is used as swap".to_owned()
    } else if !facts.holders.is_empty() {
        format!("it is part of {}", facts.holders.join(", "))
    } else if !facts.partitions.is_empty() {
        format!("it has partitions: {}", facts.partitions.join(", "))
    } else if !facts.signatures.is_empty() {
        let found = facts.signatures.join(", ");
        format!("it is not empty ({found}); if its contents may be lost, run `wipefs --all {node}`")
    } else if facts.is_claimed {
        "another program or the kernel has opened it exclusively".to_owned()
    } else {
        return None;
    };
    Some(format!("refusing to overwrite {node}: {why}"))
}

/// Checks that the user's devices may be overwritten, see [`refuse`]. Devices we created ourselves
/// are always allowed.
///
/// # Errors
/// If one of them must be left alone.
pub(crate) fn may_destroy(
    devices: &[Device],
    nodes: &[PathBuf],
    allowed: &[PathBuf],
) -> Result<(), LabError> {
    for (device, node) in devices.iter().zip(nodes) {
        if let Device::Node(_) = device
            && let Some(why) = refuse(&inspect_device(node)?, allowed)
        {
            return Err(LabError::Refused(why));
        }
    }
    Ok(())
}

/// Rejects mount points that are in use or that others rely on.
///
/// # Errors
/// If nothing may be mounted there.
pub(crate) fn check_mount_point(point: &Path) -> Result<(), LabError> {
    // The order matters: access the path only after it is known to be plain.
    let why = if !point.is_absolute() || point.components().any(|part| part.as_os_str() == "..") {
        "it is not an absolute path"
    } else if point.parent().is_none() {
        "it is the root directory"
    } else if fs::read_link(point).is_ok() {
        "it is a symlink"
    } else if mounts::find_at(point).is_some() {
        "something is already mounted there"
    } else if has_entries(point) {
        "it contains files, which the mount would hide"
    } else {
        return Ok(());
    };
    Err(LabError::Refused(format!("refusing to mount on {}: {why}", point.display())))
}

fn has_entries(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Rejects directories that must not be exported.
///
/// # Errors
/// If the path is the root of the host or isn't a directory.
pub(crate) fn may_export(directory: &Path) -> Result<(), LabError> {
    let real =
        directory.canonicalize().map_err(|error| LabError::file("export", directory, error))?;
    let why = if real.parent().is_none() {
        "it is the root directory"
    } else if real != directory {
        "its path contains a symlink"
    } else if !real.is_dir() {
        "it is not a directory"
    } else {
        return Ok(());
    };
    Err(LabError::Refused(format!("refusing to export {}: {why}", directory.display())))
}

/// A device that a program is about to overwrite, as it was when it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OverwrittenDevice {
    pub node: PathBuf,
    /// Its device number, which identifies it; `None` if the node isn't a block device.
    pub number: Option<u64>,
    /// Whether the plan names it, as opposed to a device that we created.
    pub(crate) is_named_by_plan: bool,
}

impl OverwrittenDevice {
    /// Records the current state of a node.
    pub(crate) fn new(device: &Device, node: &Path) -> Self {
        let is_named_by_plan = matches!(device, Device::Node(_));
        Self { node: node.to_owned(), number: block_number(node), is_named_by_plan }
    }
}

/// Checks the final arguments of a program that overwrites devices, right before it runs.
///
/// Every block device in an argument, or in part of one, must be one of `devices`, identified by
/// number. This rejects other names of a device as well as nodes that have been replaced since.
/// Each of the devices must be an argument by itself, and must still be unused.
///
/// # Errors
/// If another device or a file would be touched, or one of the devices is now in use.
pub(crate) fn check_final_arguments(
    argv: &[String],
    devices: &[OverwrittenDevice],
) -> Result<(), LabError> {
    if let Some(why) = refuse_arguments(&argv[1..], devices) {
        let command = crate::commands::show(argv);
        return Err(LabError::Refused(format!("refusing to run `{command}`: {why}")));
    }
    for device in devices {
        check_still_free(device)?;
    }
    Ok(())
}

/// Returns why a program must not run with these arguments, or `None` if it may.
fn refuse_arguments(arguments: &[String], devices: &[OverwrittenDevice]) -> Option<String> {
    if devices.is_empty() {
        return Some("none of its devices has been checked".to_owned());
    }
    for device in devices {
        let node = device.node.display();
        // A node is only a name, which udev or another user may have reassigned to another device
        // since. The number identifies the device.
        if device.number.is_none() || block_number(&device.node) != device.number {
            return Some(format!("{node} is no longer the block device that was checked"));
        }
        if !arguments.iter().any(|word| Path::new(word) == device.node) {
            return Some(format!("{node} is not among its arguments"));
        }
    }
    for word in arguments {
        for path in paths_in(word) {
            let Ok(metadata) = fs::metadata(path) else { continue };
            let number = block_number(Path::new(path));
            let is_checked = devices.iter().any(|device| device.number == number);
            if number.is_some() && !is_checked {
                return Some(format!("{path} is a device that was not checked"));
            }
            // mkfs would create its file system in this file.
            if metadata.is_file() {
                return Some(format!("{path} is a file"));
            }
        }
    }
    None
}

/// Returns the parts of an argument that may be paths: the whole argument, the rest after a
/// one-letter option, and anything between `=`, `,`, `:` and spaces.
fn paths_in(word: &str) -> Vec<&str> {
    let mut found = vec![word];
    for (at, _) in word.match_indices('/') {
        // In `-d/dev/vdb`, the path starts at 2. It doesn't hurt to find too many, since parts that
        // aren't paths of a device or file are skipped.
        let follows_sign = word[..at].ends_with(['=', ',', ':', ' ']);
        if follows_sign || (at == 2 && word.starts_with('-')) {
            let rest = &word[at..];
            found.extend([rest, rest.split([',', ' ']).next().unwrap_or(rest)]);
        }
    }
    found
}

/// Rejects a device that someone has started to use since it was checked.
fn check_still_free(device: &OverwrittenDevice) -> Result<(), LabError> {
    if device.is_named_by_plan {
        return match refuse(&inspect_device(&device.node)?, std::slice::from_ref(&device.node)) {
            Some(why) => Err(LabError::Refused(why)),
            None => Ok(()),
        };
    }
    check_unused(&device.node)
}

/// Checks that a device isn't mounted, used as swap, or part of another device.
///
/// # Errors
/// If it is in use.
pub(crate) fn check_unused(node: &Path) -> Result<(), LabError> {
    check_unused_but_by(node, None)
}

/// Like [`check_unused`], but one device may be built on it.
///
/// # Errors
/// If anything else uses it.
pub(crate) fn check_unused_but_by(node: &Path, made_of_it: Option<&Path>) -> Result<(), LabError> {
    // Our nodes in /dev/md and /dev/mapper are symlinks created by udev.
    let node = node.canonicalize().map_err(|error| LabError::file("inspect", node, error))?;
    let mut facts = inspect_device(&node)?;
    if let Some(made_of_it) = made_of_it {
        facts.holders.retain(|holder| made_of_it.file_name() != Some(OsStr::new(holder)));
    }
    let why = if !facts.is_block {
        "it is not a block device".to_owned()
    } else if !facts.mounted.is_empty() {
        format!("it is mounted on {}", facts.mounted.join(", "))
    } else if facts.swap {
        "it is used as swap".to_owned()
    } else if !facts.holders.is_empty() {
        format!("it is part of {}", facts.holders.join(", "))
    } else {
        return Ok(());
    };
    Err(LabError::Refused(format!("refusing to overwrite {}: {why}", node.display())))
}

/// Returns the number of the block device that a path leads to.
fn block_number(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    if metadata.file_type().is_block_device() { Some(metadata.rdev()) } else { None }
}

/// Collects the facts about a device.
///
/// # Errors
/// If wipefs cannot examine it.
pub(crate) fn inspect_device(node: &Path) -> Result<DeviceFacts, LabError> {
    let mut facts = DeviceFacts { node: node.to_owned(), ..DeviceFacts::default() };
    let Ok(metadata) = node.symlink_metadata() else { return Ok(facts) };
    facts.exists = true;
    // Also catches `/dev/./vdb` and symlinks among the parent folders.
    facts.is_link = node.canonicalize().ok().as_deref() != Some(node);
    facts.is_block = metadata.file_type().is_block_device();
    if facts.is_link || !facts.is_block {
        return Ok(facts);
    }
    let number = metadata.rdev();
    let number = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let folder = PathBuf::from(format!("/sys/dev/block/{number}"));
    facts.mounted = mounts::points_of_device(&number, node);
    facts.swap = is_swap(metadata.rdev());
    // Arrays and mappings built on it. **Source:** the kernel's
    // Documentation/ABI/testing/sysfs-block, `holders`.
    facts.holders = names(&folder.join("holders"));
    // Each partition has its own folder within that of its disk, with a file called `partition`.
    let mut inner = names(&folder);
    inner.retain(|name| folder.join(name).join("partition").exists());
    facts.partitions = inner;
    facts.signatures = signatures(node)?;
    facts.is_claimed = is_claimed(node);
    Ok(facts)
}

/// Returns true if the kernel uses the device with this number as swap.
///
/// Compares numbers, because a device can have several nodes. **Source:** proc_swaps(5): a header
/// line, then one line per device that begins with its node.
fn is_swap(device: u64) -> bool {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    swaps
        .lines()
        .skip(1)
        .filter_map(|line| line.split(' ').next())
        .any(|node| block_number(Path::new(node)) == Some(device))
}

/// Lists the signatures on a device. **Source:** wipefs(8): `--no-act` changes nothing.
fn signatures(node: &Path) -> Result<Vec<String>, LabError> {
    let node = node.display().to_string();
    let argv = ["wipefs", "--no-act", "--json", "--", node.as_str()];
    let text = Runner::default().run(&argv, SOON)?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    // Output that isn't JSON contains no list and is handled below.
    let found: Value = serde_json::from_str(&text).unwrap_or_default();
    let Some(found) = found["signatures"].as_array() else {
        // If we don't understand the output, assume that there is something on the device.
        return Ok(vec!["unknown; the output of wipefs could not be parsed".to_owned()]);
    };
    Ok(found.iter().map(|one| one["type"].as_str().unwrap_or("unknown").to_owned()).collect())
}

/// Returns true if someone has the device open exclusively. **Source:** open(2): `O_EXCL` without
/// `O_CREAT` fails if a block device is in use.
fn is_claimed(node: &Path) -> bool {
    use rustix::fs::{Mode, OFlags, open};
    let opened = open(node, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
    matches!(opened, Err(rustix::io::Errno::BUSY))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(entries) = fs::read_dir(folder) {
        names.extend(entries.flatten().flat_map(|entry| entry.file_name().into_string()));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank() -> DeviceFacts {
        DeviceFacts {
            node: PathBuf::from("/dev/vdb"),
            exists: true,
            is_block: true,
            ..DeviceFacts::default()
        }
    }

    fn why(change: impl FnOnce(&mut DeviceFacts)) -> Option<String> {
        let mut facts = blank();
        change(&mut facts);
        refuse(&facts, &[PathBuf::from("/dev/vdb")])
    }

    type Rule = fn(&mut DeviceFacts);

    #[test]
    fn destroys_only_allowed_blank_device() {
        assert_eq!(why(|_| ()), None);
        let one = || vec!["x".to_owned()];
        let rules: [(&str, Rule); 5] = [
            ("no such device", |facts| facts.exists = false),
            ("it is a symlink", |facts| facts.is_link = true),
            ("not a block device", |facts| facts.is_block = false),
            ("used as swap", |facts| facts.swap = true),
            ("opened it exclusively", |facts| facts.is_claimed = true),
        ];
        for (says, rule) in rules {
            assert!(why(rule).unwrap().contains(says), "{says}");
        }
        assert!(why(|facts| facts.mounted = one()).unwrap().contains("mounted on x"));
        assert!(why(|facts| facts.holders = one()).unwrap().contains("part of x"));
        assert!(why(|facts| facts.partitions = one()).unwrap().contains("partitions: x"));
        assert!(why(|facts| facts.signatures = one()).unwrap().contains("wipefs --all /dev/vdb"));
    }

    #[test]
    fn ignores_unnamed_device() {
        for allowed in [vec![], vec![PathBuf::from("/dev/vdc")], vec![PathBuf::from("/dev/vdb1")]] {
            let why = refuse(&blank(), &allowed).unwrap();
            assert!(why.contains("--allow-destroy /dev/vdb"), "{why}");
        }
    }

    /// Creates a device node for a test. It is never opened.
    fn make_node(path: &Path, minor: u32) {
        use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, path, FileType::BlockDevice, mode, makedev(7, minor)).unwrap();
    }

    #[test]
    fn resolves_arguments_to_checked_device() {
        if !crate::commands::is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let node = path("node");
        let other = path("other");
        let link = path("link");
        let file = path("file");
        make_node(Path::new(&node), 250);
        make_node(Path::new(&other), 251);
        std::os::unix::fs::symlink(&other, &link).unwrap();
        fs::write(&file, "precious").unwrap();
        let checked = OverwrittenDevice::new(&Device::Node(node.clone().into()), Path::new(&node));
        let why = |words: &[&str], devices: &[OverwrittenDevice]| {
            let argv = ["mkfs.x"].iter().chain(words).map(|word| (*word).to_owned());
            check_final_arguments(&argv.collect::<Vec<_>>(), devices).unwrap_err().to_string()
        };
        let one = std::slice::from_ref(&checked);
        let mut reasons = [
            other.clone(),
            link.clone(),
            format!("-d{other}"),
            format!("-l logdev={other}"),
            format!("size=1,logdev={other},x=1"),
            format!("--journal={link}"),
        ]
        .map(|planted| why(&[&planted, "--", &node], one))
        .to_vec();
        reasons.push(why(&[&format!("-p{file}"), &node], one));
        reasons.push(why(&["-q"], one));
        reasons.push(why(&[&node], &[]));
        // Another device has replaced the node.
        fs::remove_file(&node).unwrap();
        make_node(Path::new(&node), 251);
        reasons.push(why(&[&node], one));
        let reasons = reasons.join("\n").replace(&folder.path().display().to_string(), "[folder]");
        insta::assert_snapshot!(reasons);
    }

    #[test]
    fn links_and_files_are_no_devices() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert!(inspect_device(&link).unwrap().is_link);
        assert!(!inspect_device(Path::new("/dev/null")).unwrap().is_block);
        assert!(!inspect_device(Path::new("/dev/no-such-device")).unwrap().exists);
        let through = Path::new("/dev/../dev/null");
        assert!(inspect_device(through).unwrap().is_link);
    }

    #[test]
    fn protects_root_of_host() {
        for path in ["/", "/proc/..", "/usr/../"] {
            assert!(may_export(Path::new(path)).is_err(), "{path}");
            assert!(check_mount_point(Path::new(path)).is_err(), "{path}");
        }
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert!(may_export(&link).is_err());
        assert!(check_mount_point(&link).is_err());
        may_export(folder.path()).unwrap();
    }

    #[test]
    fn refuses_mount_over_content() {
        let folder = tempfile::tempdir().unwrap();
        check_mount_point(folder.path()).unwrap();
        fs::write(folder.path().join("file"), "precious").unwrap();
        assert!(check_mount_point(folder.path()).is_err());
        assert!(check_mount_point(Path::new("/proc")).is_err());
        assert!(check_mount_point(Path::new("relative")).is_err());
    }
}
