//! Decides what must not be touched, from facts about a device or a path, before anything is done.
//!
//! Principal type: [`DeviceFacts`], what is known of a device; [`refuse`] decides over it and is
//! pure, so that every rule has its test without a device. A device is destroyed only where the
//! plan names it and the command line repeats it, and never where anything is on it or uses it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use model::Device;
use serde_json::Value;

use crate::commands::{Runner, SOON};
use crate::error::LabError;
use crate::mounts;

/// Facts about a device whose content would be lost.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Its node, as the plan names it.
    pub node: PathBuf,
    /// There is something of that name.
    pub exists: bool,
    /// The name is a link to another.
    pub is_link: bool,
    /// It is a block device.
    pub is_block: bool,
    /// Mount points of the device.
    pub mounted: Vec<String>,
    /// It is used to swap.
    pub swap: bool,
    /// Devices that are made of it, such as `md0` and `dm-1`.
    pub holders: Vec<String>,
    /// Names of its partitions.
    pub partitions: Vec<String>,
    /// Signatures on it: partition tables, file systems, members of arrays.
    pub signatures: Vec<String>,
    /// The kernel says that another has opened it for its use alone.
    pub is_claimed: bool,
}

/// Says why a device must not lose what is on it; `None` where it may.
///
/// `allowed` are the devices that the command line named.
pub fn refuse(facts: &DeviceFacts, allowed: &[PathBuf]) -> Option<String> {
    let node = facts.node.display();
    let why = if !facts.exists {
        "there is no such device".to_owned()
    } else if facts.is_link {
        "it is a link; name the device itself".to_owned()
    } else if !facts.is_block {
        "it is no block device".to_owned()
    } else if !allowed.contains(&facts.node) {
        format!("the command line doesn't say `--allow-destroy {node}`")
    } else if !facts.mounted.is_empty() {
        format!("it is mounted on {}", facts.mounted.join(", "))
    } else if facts.swap {
        "it is used to swap".to_owned()
    } else if !facts.holders.is_empty() {
        format!("{} is made of it", facts.holders.join(", "))
    } else if !facts.partitions.is_empty() {
        format!("it has partitions: {}", facts.partitions.join(", "))
    } else if !facts.signatures.is_empty() {
        let found = facts.signatures.join(", ");
        format!("there is something on it ({found}); if it may go: `wipefs --all {node}`")
    } else if facts.is_claimed {
        "another program or the kernel has opened it exclusively".to_owned()
    } else {
        return None;
    };
    Some(format!("{node} is left alone: {why}"))
}

/// Refuses to let devices of the user's lose what is on them, see [`refuse`]. Those that we made
/// of files or of devices are ours.
///
/// # Errors
/// Where one of them must be left alone.
pub fn may_destroy(
    devices: &[Device],
    nodes: &[PathBuf],
    allowed: &[PathBuf],
) -> Result<(), LabError> {
    for (device, node) in devices.iter().zip(nodes) {
        if let Device::Node(_) = device
            && let Some(why) = refuse(&look_at(node)?, allowed)
        {
            return Err(LabError::Refused(why));
        }
    }
    Ok(())
}

/// Refuses mount points that are used, or that others rely on.
///
/// # Errors
/// Where nothing may be mounted there.
pub fn may_mount_on(point: &Path) -> Result<(), LabError> {
    // The order matters: what may stand on a mount is looked at only once the path is plain.
    let why = if !point.is_absolute() || point.components().any(|part| part.as_os_str() == "..") {
        "it is no absolute path"
    } else if point.parent().is_none() {
        "it is the root of the host"
    } else if fs::read_link(point).is_ok() {
        "it is a link"
    } else if mounts::at(point).is_some() {
        "something is mounted there"
    } else if has_entries(point) {
        "files in it would vanish from sight"
    } else {
        return Ok(());
    };
    Err(LabError::Refused(format!("nothing is mounted on {}: {why}", point.display())))
}

fn has_entries(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => false,
    }
}

/// Refuses to export what no server should.
///
/// # Errors
/// Where the directory is the root of the host, or none.
pub fn may_export(directory: &Path) -> Result<(), LabError> {
    let real = match directory.canonicalize() {
        Ok(real) => real,
        Err(error) => return Err(LabError::file("export", directory, error)),
    };
    let why = if real.parent().is_none() {
        "it is the root of the host"
    } else if real != directory {
        "there is a link in its name"
    } else if !real.is_dir() {
        "it is no directory"
    } else {
        return Ok(());
    };
    Err(LabError::Refused(format!("{} is not exported: {why}", directory.display())))
}

/// A device that a program is about to overwrite, as it was when it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverwrittenDevice {
    /// Path of its node.
    pub node: PathBuf,
    /// Its number, which is what it is; `None` where the node is no block device.
    pub number: Option<u64>,
    /// The plan names it; else we made it.
    pub is_named_by_plan: bool,
}

impl OverwrittenDevice {
    /// Takes down what a node is now.
    pub fn of(device: &Device, node: &Path) -> Self {
        let is_named_by_plan = matches!(device, Device::Node(_));
        Self { node: node.to_owned(), number: block_number(node), is_named_by_plan }
    }
}

/// Looks at the final arguments of a program that overwrites devices, right before it runs.
///
/// Every block device that an argument or a part of one leads to must be one of `devices`, by its
/// number: neither another name of a device nor a node that was exchanged since passes. Each of
/// them must stand there as an argument of its own, and still be free.
///
/// # Errors
/// Where another device or a file would be touched, or one of them is in use by now.
pub fn check_final_arguments(
    argv: &[String],
    devices: &[OverwrittenDevice],
) -> Result<(), LabError> {
    if let Some(why) = refuse_arguments(&argv[1..], devices) {
        let command = crate::commands::show(argv);
        return Err(LabError::Refused(format!("`{command}` is not run: {why}")));
    }
    for device in devices {
        check_still_free(device)?;
    }
    Ok(())
}

/// Says why a program must not run with these arguments; `None` where it may.
fn refuse_arguments(arguments: &[String], devices: &[OverwrittenDevice]) -> Option<String> {
    if devices.is_empty() {
        return Some("no device was checked for it".to_owned());
    }
    for device in devices {
        let node = device.node.display();
        // A node is only a name: udev, or another user of the host, may have given it to another
        // device since. The number is the device.
        if device.number.is_none() || block_number(&device.node) != device.number {
            return Some(format!("{node} is no longer the block device that was checked"));
        }
        if !arguments.iter().any(|word| Path::new(word) == device.node) {
            return Some(format!("{node} is none of its arguments"));
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
            // mkfs would make its file system in it.
            if metadata.is_file() {
                return Some(format!("{path} is a file"));
            }
        }
    }
    None
}

/// Returns the parts of an argument that may be paths: the whole, what follows an option of one
/// letter, and what stands between `=`, `,`, `:` and blanks.
fn paths_in(word: &str) -> Vec<&str> {
    let mut found = vec![word];
    for (at, _) in word.match_indices('/') {
        // `-d/dev/vdb` has its path at 2. Too many are found rather than too few: what is no path
        // of a device or a file is passed over.
        let follows_sign = word[..at].ends_with(['=', ',', ':', ' ']);
        if follows_sign || (at == 2 && word.starts_with('-')) {
            let rest = &word[at..];
            found.extend([rest, rest.split([',', ' ']).next().unwrap_or(rest)]);
        }
    }
    found
}

/// Refuses a device that another has begun to use since it was checked.
fn check_still_free(device: &OverwrittenDevice) -> Result<(), LabError> {
    if device.is_named_by_plan {
        return match refuse(&look_at(&device.node)?, std::slice::from_ref(&device.node)) {
            Some(why) => Err(LabError::Refused(why)),
            None => Ok(()),
        };
    }
    check_unused(&device.node)
}

/// Refuses a device that is mounted, swapped to or part of another.
///
/// # Errors
/// Where it is in use.
pub fn check_unused(node: &Path) -> Result<(), LabError> {
    check_unused_but_by(node, None)
}

/// Checks a device as [`check_unused`] does, but one device may be made of it.
///
/// # Errors
/// Where anything else uses it.
pub fn check_unused_but_by(node: &Path, made_of_it: Option<&Path>) -> Result<(), LabError> {
    // Nodes of ours in /dev/md and /dev/mapper are links of udev's.
    let node = node.canonicalize().map_err(|error| LabError::file("look at", node, error))?;
    let mut facts = look_at(&node)?;
    if let Some(made_of_it) = made_of_it {
        facts.holders.retain(|holder| made_of_it.file_name() != Some(OsStr::new(holder)));
    }
    let why = if !facts.is_block {
        "it is no block device".to_owned()
    } else if !facts.mounted.is_empty() {
        format!("it is mounted on {}", facts.mounted.join(", "))
    } else if facts.swap {
        "it is used to swap".to_owned()
    } else if !facts.holders.is_empty() {
        format!("{} is made of it", facts.holders.join(", "))
    } else {
        return Ok(());
    };
    Err(LabError::Refused(format!("{} is left alone: {why}", node.display())))
}

/// The number of a block device that a path leads to.
fn block_number(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    if metadata.file_type().is_block_device() { Some(metadata.rdev()) } else { None }
}

/// Finds out what is known of a device.
///
/// # Errors
/// Where wipefs can't look at it.
pub fn look_at(node: &Path) -> Result<DeviceFacts, LabError> {
    let mut facts = DeviceFacts { node: node.to_owned(), ..DeviceFacts::default() };
    let Ok(metadata) = node.symlink_metadata() else { return Ok(facts) };
    facts.exists = true;
    // `/dev/./vdb` and links of folders on the way lead elsewhere, too.
    facts.is_link = node.canonicalize().ok().as_deref() != Some(node);
    facts.is_block = metadata.file_type().is_block_device();
    if facts.is_link || !facts.is_block {
        return Ok(facts);
    }
    let number = metadata.rdev();
    let number = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let folder = PathBuf::from(format!("/sys/dev/block/{number}"));
    facts.mounted = mounts::of_device(&number, node);
    facts.swap = is_swap(metadata.rdev());
    // Arrays and mappings that are made of it. **Source:** the kernel's
    // Documentation/ABI/testing/sysfs-block, `holders`.
    facts.holders = names(&folder.join("holders"));
    // A partition has a folder of its own with a file `partition` in that of its disk.
    let mut inner = names(&folder);
    inner.retain(|name| folder.join(name).join("partition").exists());
    facts.partitions = inner;
    facts.signatures = signatures(node)?;
    facts.is_claimed = is_claimed(node);
    Ok(facts)
}

/// Says whether the kernel swaps to the device of this number.
///
/// By its number: another node of the same device is the same device. **Source:** proc_swaps(5):
/// a line of headings, then one for each, which begins with its node.
fn is_swap(device: u64) -> bool {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    for line in swaps.lines().skip(1) {
        let node = line.split(' ').next().unwrap_or_default();
        if block_number(Path::new(node)) == Some(device) {
            return true;
        }
    }
    false
}

/// Lists the signatures on a device. **Source:** wipefs(8): `--no-act` changes nothing.
fn signatures(node: &Path) -> Result<Vec<String>, LabError> {
    let node = node.display().to_string();
    let argv = ["wipefs", "--no-act", "--json", "--", node.as_str()];
    let text = Runner::default().run(&argv, SOON)?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    // What isn't JSON has no list either.
    let found: Value = serde_json::from_str(&text).unwrap_or_default();
    let Some(found) = found["signatures"].as_array() else {
        // What can't be understood is something.
        return Ok(vec!["what wipefs says of it can't be understood".to_owned()]);
    };
    let mut kinds = Vec::new();
    for one in found {
        kinds.push(one["type"].as_str().unwrap_or("unknown").to_owned());
    }
    Ok(kinds)
}

/// **Source:** open(2): `O_EXCL` without `O_CREAT` fails where a block device is in use.
fn is_claimed(node: &Path) -> bool {
    use rustix::fs::{Mode, OFlags, open};
    let opened = open(node, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty());
    matches!(opened, Err(rustix::io::Errno::BUSY))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(entries) = fs::read_dir(folder) {
        for entry in entries.flatten() {
            names.extend(entry.file_name().into_string());
        }
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
    fn only_a_blank_device_that_was_allowed_is_destroyed() {
        assert_eq!(why(|_| ()), None);
        let one = || vec!["x".to_owned()];
        let rules: [(&str, Rule); 5] = [
            ("no such device", |facts| facts.exists = false),
            ("it is a link", |facts| facts.is_link = true),
            ("no block device", |facts| facts.is_block = false),
            ("used to swap", |facts| facts.swap = true),
            ("opened it exclusively", |facts| facts.is_claimed = true),
        ];
        for (says, rule) in rules {
            assert!(why(rule).unwrap().contains(says), "{says}");
        }
        assert!(why(|facts| facts.mounted = one()).unwrap().contains("mounted on x"));
        assert!(why(|facts| facts.holders = one()).unwrap().contains("x is made of it"));
        assert!(why(|facts| facts.partitions = one()).unwrap().contains("partitions: x"));
        assert!(why(|facts| facts.signatures = one()).unwrap().contains("wipefs --all /dev/vdb"));
    }

    #[test]
    fn a_device_that_the_command_line_does_not_name_is_left_alone() {
        for allowed in [vec![], vec![PathBuf::from("/dev/vdc")], vec![PathBuf::from("/dev/vdb1")]] {
            let why = refuse(&blank(), &allowed).unwrap();
            assert!(why.contains("--allow-destroy /dev/vdb"), "{why}");
        }
    }

    /// Nodes of devices of the tests, which are never opened.
    fn make_node(path: &Path, minor: u32) {
        use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, path, FileType::BlockDevice, mode, makedev(7, minor)).unwrap();
    }

    #[test]
    fn final_arguments_lead_to_the_checked_device_and_no_other() {
        if !crate::commands::is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (node, other, link, file) = (path("node"), path("other"), path("link"), path("file"));
        make_node(Path::new(&node), 250);
        make_node(Path::new(&other), 251);
        std::os::unix::fs::symlink(&other, &link).unwrap();
        fs::write(&file, "precious").unwrap();
        let checked = OverwrittenDevice::of(&Device::Node(node.clone().into()), Path::new(&node));
        let why = |words: &[&str], devices: &[OverwrittenDevice]| {
            let argv = ["mkfs.x"].iter().chain(words).map(|word| (*word).to_owned());
            check_final_arguments(&argv.collect::<Vec<_>>(), devices).unwrap_err().to_string()
        };
        let one = std::slice::from_ref(&checked);
        for planted in [
            other.clone(),
            link.clone(),
            format!("-d{other}"),
            format!("-l logdev={other}"),
            format!("size=1,logdev={other},x=1"),
            format!("--journal={link}"),
        ] {
            let why = why(&[&planted, "--", &node], one);
            assert!(why.contains("is a device that was not checked"), "{planted}: {why}");
        }
        assert!(why(&[&format!("-p{file}"), &node], one).contains("is a file"));
        assert!(why(&["-q"], one).contains("none of its arguments"));
        assert!(why(&[&node], &[]).contains("no device was checked"));
        // Another device has taken the place of the node since.
        fs::remove_file(&node).unwrap();
        make_node(Path::new(&node), 251);
        assert!(why(&[&node], one).contains("no longer the block device that was checked"));
    }

    #[test]
    fn links_and_files_are_no_devices() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert!(look_at(&link).unwrap().is_link);
        assert!(!look_at(Path::new("/dev/null")).unwrap().is_block);
        assert!(!look_at(Path::new("/dev/no-such-device")).unwrap().exists);
        let through = Path::new("/dev/../dev/null");
        assert!(look_at(through).unwrap().is_link);
    }

    #[test]
    fn the_root_of_the_host_is_neither_exported_nor_mounted_on() {
        for path in ["/", "/proc/..", "/usr/../"] {
            assert!(may_export(Path::new(path)).is_err(), "{path}");
            assert!(may_mount_on(Path::new(path)).is_err(), "{path}");
        }
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/", &link).unwrap();
        assert!(may_export(&link).is_err());
        assert!(may_mount_on(&link).is_err());
        may_export(folder.path()).unwrap();
    }

    #[test]
    fn nothing_is_mounted_over_files_or_mounts() {
        let folder = tempfile::tempdir().unwrap();
        may_mount_on(folder.path()).unwrap();
        fs::write(folder.path().join("file"), "precious").unwrap();
        assert!(may_mount_on(folder.path()).is_err());
        assert!(may_mount_on(Path::new("/proc")).is_err());
        assert!(may_mount_on(Path::new("relative")).is_err());
    }
}
