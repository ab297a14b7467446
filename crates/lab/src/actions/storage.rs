//! Layers that files lie on: loop devices, md arrays, dm-crypt and file systems.
//!
//! A file system gets a UUID of ours when it is made, an array a name of ours: what is put back
//! later is known by it, whatever node it has then. **Source:** losetup(8), mdadm(8),
//! cryptsetup(8), mkfs.ext4(8), mkfs.xfs(8), mkfs.btrfs(8).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::options::{MkfsOption, parse_mkfs_options};
use model::{Device, EffectiveSettings, FileSystem, Raid};

use super::{Known, folder_undo};
use crate::commands::{LONG, Runner, SOON};
use crate::error::LabError;
use crate::findings::Findings;
use crate::processes;
use crate::step::Step;
use crate::trust;
use crate::undo::Undo;

/// How often a loop device is requested to go, and how long is waited where something holds it.
const DETACHES: u32 = 100;
const DETACH_PAUSE: Duration = Duration::from_millis(50);

/// The node of a device as it is now.
///
/// # Errors
/// Where it isn't there.
pub fn node(device: &Device) -> Result<PathBuf, LabError> {
    let gone = |what: String| LabError::Unable(format!("{what} isn't there (any more)"));
    match device {
        Device::Node(node) if node.symlink_metadata().is_ok() => Ok(node.clone()),
        Device::Node(node) => Err(gone(node.display().to_string())),
        Device::Loop(file) => {
            loop_node(file).ok_or_else(|| gone(format!("the loop device of {}", file.display())))
        }
        Device::Array(name) => array_node(name).ok_or_else(|| gone(format!("the array {name}"))),
        Device::Mapped(name) => {
            let node = Path::new("/dev/mapper").join(name);
            if node.exists() { Ok(node) } else { Err(gone(node.display().to_string())) }
        }
    }
}

/// Returns a dry run's name of a device.
pub fn placeholder(device: &Device) -> PathBuf {
    match device {
        Device::Node(node) => node.clone(),
        Device::Loop(_) => PathBuf::from("/dev/loopN"),
        Device::Array(name) => Path::new("/dev/md").join(name),
        Device::Mapped(name) => Path::new("/dev/mapper").join(name),
    }
}

/// A UUID that nobody else has; a fixed one where the kernel gives none.
pub fn new_uuid() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    text.trim().to_owned()
}

/// Makes a file and a loop device of it.
pub fn loop_steps(file: &Path, bytes: u64) -> Vec<Step> {
    let (size, name) = (bytes.to_string(), file.display().to_string());
    let folder = file.parent().unwrap_or(Path::new("/"));
    let load = !Path::new("/dev/loop-control").exists();
    let load = load.then(|| Step::run(["modprobe", "loop"])).into_iter();
    let make = [
        Step::Folder(folder.to_owned()),
        // All of it at once: holes would be filled while something is measured.
        Step::within(LONG, ["fallocate", "--length", &size, "--", &name]),
        Step::run(["losetup", "--find", "--", &name]),
    ];
    load.chain(make).collect()
}

/// Detaches the loop device and removes the file.
///
/// # Errors
/// Where the file is there already, or another user could exchange it.
pub fn loop_undo(file: &Path) -> Result<Vec<Undo>, LabError> {
    trust::check_path(file.parent().unwrap_or(file))?;
    if file.symlink_metadata().is_ok() {
        let file = file.display();
        return Err(LabError::Refused(format!("{file} is left alone: it is there already")));
    }
    let folder = file.parent().map(folder_undo).unwrap_or_default();
    let own = [Undo::File { path: file.to_owned() }, Undo::Loop { file: file.to_owned() }];
    Ok(folder.into_iter().chain(own).collect())
}

/// Detaches every loop device of a file.
///
/// # Errors
/// Where losetup can't, or something holds one for long: the kernel detaches it only then.
pub fn detach(runner: &Runner, file: &Path) -> Result<(), LabError> {
    for _ in 0..DETACHES {
        let Some(node) = loop_node(file) else { return Ok(()) };
        let node = node.display().to_string();
        runner.run(&["losetup", "--detach", node.as_str()], SOON)?;
        if loop_node(file).is_some() {
            processes::pause(DETACH_PAUSE);
        }
    }
    let Some(node) = loop_node(file) else { return Ok(()) };
    Err(LabError::Unable(format!(
        "{} is in use still, and so keeps {}",
        node.display(),
        file.display()
    )))
}

/// Reads a loop device back.
///
/// # Errors
/// Where it isn't there.
pub fn check_loop(file: &Path, bytes: u64) -> Result<EffectiveSettings, LabError> {
    let node = node(&Device::Loop(file.to_owned()))?;
    let mut findings = Findings::new("server");
    findings.fact("loop device", node.display().to_string(), "/sys/block/*/loop/backing_file");
    findings.fact("loop file", file.display().to_string(), "/sys/block/*/loop/backing_file");
    let (size, source) = size_bytes(&node);
    // In whole sectors.
    let requested = (bytes / 512 * 512).to_string();
    findings.compare("bytes of the loop device", &requested, &size.to_string(), &source);
    Ok(findings.done())
}

/// Makes an array, and takes it for whole: building it up would disturb what is measured.
pub fn raid_steps(name: &str, level: Raid, known: &Known) -> Vec<Step> {
    let mut argv: Vec<String> =
        ["mdadm", "--create", &format!("/dev/md/{name}"), "--run"].map(str::to_owned).to_vec();
    argv.extend(["--quiet".to_owned(), format!("--name={name}"), "--metadata=1.2".to_owned()]);
    argv.extend([format!("--level={}", level.name())]);
    if level != Raid::Raid0 {
        argv.push("--assume-clean".to_owned());
    }
    argv.push(format!("--raid-devices={}", known.nodes.len()));
    // mdadm reads its arguments in order, `--` as well; a node is a whole path, never an option.
    argv.extend(known.nodes.iter().map(|node| node.display().to_string()));
    let module = match level {
        Raid::Raid5 | Raid::Raid6 => "raid456".to_owned(),
        other => format!("raid{}", other.name()),
    };
    vec![Step::run(["modprobe", module.as_str()]), Step::overwrite(argv, known)]
}

/// Stops the array and takes its marks from the devices.
///
/// # Errors
/// Where there is one of that name.
pub fn raid_undo(name: &str, known: &Known) -> Result<Vec<Undo>, LabError> {
    if array_node(name).is_some() {
        return Err(LabError::Refused(format!("there is an array /dev/md/{name} already")));
    }
    Ok(vec![Undo::Array { name: name.to_owned(), devices: known.nodes.clone() }])
}

/// Stops an array of ours and takes its marks from its devices.
///
/// # Errors
/// Where mdadm can't.
pub fn stop_array(runner: &Runner, name: &str, devices: &[PathBuf]) -> Result<(), LabError> {
    if let Some(node) = array_node(name) {
        let node = node.display().to_string();
        runner.run(&["mdadm", "--quiet", "--stop", node.as_str()], SOON)?;
    }
    for device in devices.iter().filter(|device| device.exists()) {
        let device = device.display().to_string();
        let argv = ["mdadm", "--examine", "--export", device.as_str()];
        let output = runner.output(&argv, SOON)?;
        let is_ours = |line: &str| {
            let of = line.strip_prefix("MD_NAME=");
            of.is_some_and(|of| of.rsplit(':').next() == Some(name))
        };
        if output.stdout.lines().any(is_ours) {
            let argv = ["mdadm", "--quiet", "--zero-superblock", device.as_str()];
            runner.run(&argv, SOON)?;
        }
    }
    Ok(())
}

/// Reads an array back.
///
/// # Errors
/// Where it isn't there.
pub fn check_raid(name: &str, level: Raid, devices: usize) -> Result<EffectiveSettings, LabError> {
    let node = node(&Device::Array(name.to_owned()))?;
    let folder = sysfs(&node).join("md");
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
    let mut findings = Findings::new("server");
    let source = |file: &str| folder.join(file).display().to_string();
    let requested = format!("raid{}", level.name());
    findings.compare("RAID level", &requested, &read("level"), &source("level"));
    let requested = devices.to_string();
    findings.compare("disks of the array", &requested, &read("raid_disks"), &source("raid_disks"));
    let state = read("sync_action");
    if !state.is_empty() {
        findings.compare("what the array does", "idle", &state, &source("sync_action"));
    }
    Ok(findings.done())
}

/// Opens a device for dm-crypt with a key that nobody keeps; no mark is left on it.
pub fn crypt_steps(name: &str, known: &Known) -> Vec<Step> {
    let node = known.nodes.first().map(|node| node.display().to_string()).unwrap_or_default();
    vec![
        Step::run(["modprobe", "dm-crypt"]),
        Step::overwrite(
            [
                "cryptsetup",
                "open",
                "--type",
                "plain",
                "--cipher",
                "aes-xts-plain64",
                "--key-size",
                "512",
                "--key-file",
                "/dev/urandom",
                "--batch-mode",
                "--",
                &node,
                name,
            ],
            known,
        ),
    ]
}

/// Closes the mapping.
///
/// # Errors
/// Where there is one of that name.
pub fn crypt_undo(name: &str) -> Result<Vec<Undo>, LabError> {
    if Path::new("/dev/mapper").join(name).exists() {
        return Err(LabError::Refused(format!("there is a mapping /dev/mapper/{name} already")));
    }
    Ok(vec![Undo::Mapped { name: name.to_owned() }])
}

/// Closes a mapping of ours.
///
/// # Errors
/// Where cryptsetup can't.
pub fn close_mapped(runner: &Runner, name: &str) -> Result<(), LabError> {
    if Path::new("/dev/mapper").join(name).exists() {
        runner.run(&["cryptsetup", "close", "--", name], SOON)?;
    }
    Ok(())
}

/// Reads a mapping back.
///
/// # Errors
/// Where it isn't there.
pub fn check_crypt(name: &str) -> Result<EffectiveSettings, LabError> {
    let node = node(&Device::Mapped(name.to_owned()))?;
    let path = sysfs(&node).join("dm/uuid");
    let text = fs::read_to_string(&path).map_err(|error| LabError::file("read", &path, error))?;
    let mut findings = Findings::new("server");
    let requested = format!("CRYPT-PLAIN-{name}");
    findings.compare("mapping", &requested, &text, &path.display().to_string());
    Ok(findings.done())
}

/// Makes a file system.
pub fn format_steps(file_system: FileSystem, options: &[String], known: &Known) -> Vec<Step> {
    let node = known.nodes.first().map(|node| node.display().to_string()).unwrap_or_default();
    let program = match file_system {
        FileSystem::Ext4 => "mkfs.ext4",
        FileSystem::Xfs => "mkfs.xfs",
        FileSystem::Btrfs => "mkfs.btrfs",
        FileSystem::Tmpfs | FileSystem::Existing => return Vec::new(),
    };
    let parsed = match parse_mkfs_options(file_system, options) {
        Ok(parsed) => merge_extended(file_system, parsed),
        Err(error) => return vec![Step::Refuse(format!("format_options: {error}"))],
    };
    let mut argv = vec![program.to_owned(), "-q".to_owned()];
    match file_system {
        FileSystem::Xfs => argv.extend(["-m".to_owned(), format!("uuid={}", known.uuid)]),
        _ => argv.extend(["-U".to_owned(), known.uuid.clone()]),
    }
    for option in parsed {
        argv.push(option.flag);
        argv.extend(option.value);
    }
    argv.extend(["--".to_owned(), node]);
    vec![Step::overwrite(argv, known)]
}

/// Joins every `-E` of mkfs.ext4 with ours, which leave no lazy work that would go on after mkfs,
/// while something is measured: of several `-E` mkfs.ext4 uses the last alone. Of two suboptions
/// of one name the last counts, so that the plan's wins.
fn merge_extended(file_system: FileSystem, options: Vec<MkfsOption>) -> Vec<MkfsOption> {
    if file_system != FileSystem::Ext4 {
        return options;
    }
    let mut extended = vec!["lazy_itable_init=0,lazy_journal_init=0".to_owned()];
    let mut others = Vec::new();
    for option in options {
        match option.value {
            Some(value) if option.flag == "-E" => extended.push(value),
            value => others.push(MkfsOption { flag: option.flag, value }),
        }
    }
    let merged = MkfsOption { flag: "-E".to_owned(), value: Some(extended.join(",")) };
    std::iter::once(merged).chain(others).collect()
}

/// Takes the marks of the file system away.
pub fn format_undo(known: &Known) -> Vec<Undo> {
    let device = known.nodes.first().cloned();
    device.map(|device| Undo::Wipe { device, uuid: known.uuid.clone() }).into_iter().collect()
}

/// Takes the marks of a file system from a device, if it is the one of this UUID.
///
/// # Errors
/// Where wipefs can't, such as when it is mounted.
pub fn wipe(runner: &Runner, device: &Path, uuid: &str) -> Result<(), LabError> {
    if !device.exists() || uuid.is_empty() || probe(runner, device, "UUID")? != uuid {
        return Ok(());
    }
    let device = device.display().to_string();
    runner.run(&["wipefs", "--all", "--quiet", "--", device.as_str()], SOON)?;
    Ok(())
}

/// Reads a file system back.
///
/// # Errors
/// Where blkid can't look at it.
pub fn check_format(file_system: FileSystem, known: &Known) -> Result<EffectiveSettings, LabError> {
    let mut findings = Findings::new("server");
    if let Some(node) = known.nodes.first() {
        let found = probe(&Runner::default(), node, "TYPE")?;
        findings.compare("file system made", file_system.name(), &found, "blkid --probe");
        let (size, source) = size_bytes(node);
        findings.fact("bytes of the device", size.to_string(), source);
    }
    Ok(findings.done())
}

/// One value of what is on a device; empty where there is none. **Source:** blkid(8), exit code 2.
fn probe(runner: &Runner, device: &Path, tag: &str) -> Result<String, LabError> {
    let device = device.display().to_string();
    let argv = ["blkid", "--probe", "--match-tag", tag, "--output", "value", "--", device.as_str()];
    Ok(runner.output(&argv, SOON)?.stdout.trim().to_owned())
}

fn loop_node(file: &Path) -> Option<PathBuf> {
    let wanted = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let entries = fs::read_dir("/sys/block").ok()?;
    let found = entries.flatten().find(|entry| {
        let text = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        let text = text.trim_end();
        // A file that was removed first is still named.
        Path::new(text.strip_suffix(" (deleted)").unwrap_or(text)) == wanted
    });
    found.map(|entry| Path::new("/dev").join(entry.file_name()))
}

/// The array of this name: by its link where udev runs, by its marks where not.
pub fn array_node(name: &str) -> Option<PathBuf> {
    let link = Path::new("/dev/md").join(name);
    if let Ok(node) = link.canonicalize() {
        return Some(node);
    }
    let entries = fs::read_dir("/sys/block").ok()?;
    let mut arrays = entries.flatten().map(|entry| entry.path());
    let found = arrays.find(|path| {
        let is_array = path.join("md/array_state").exists();
        is_array && path.file_name().is_some_and(|it| it.to_string_lossy() == format!("md_{name}"))
    });
    found.and_then(|path| Some(Path::new("/dev").join(path.file_name()?)))
}

/// The folder of a device in sysfs, by its number: nodes have other names where no udev runs.
fn sysfs(node: &Path) -> PathBuf {
    let number = rustix::fs::stat(node).map(|stat| stat.st_rdev).unwrap_or_default();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

fn size_bytes(node: &Path) -> (u64, String) {
    let path = sysfs(node).join("size");
    let text = fs::read_to_string(&path).unwrap_or_default();
    // In sectors of 512 bytes, whatever the device has.
    let sectors: u64 = text.trim().parse().unwrap_or(0);
    (sectors.saturating_mul(512), path.display().to_string())
}
