//! Loop devices, file systems and mounts.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use model::{Action, Device, FileSystem, Invalidation, action};

use crate::{Check, Host, apply_all, fact, run};

/// Every check of this file.
pub(crate) const CHECKS: &[Check] = checks![
    mounts_and_removes_tmpfs,
    creates_and_removes_every_file_system,
    cleans_up_after_refused_option,
    names_process_on_busy_mount,
    fills_and_empties_disk,
    releases_loop_device_after_use,
    keeps_loop_device_of_container,
    restores_rest_after_lost_device,
    dropped_caches_are_counted_not_assumed,
];

pub(crate) const POINT: &str = "/run/dfsbench/storage";
/// Minimum size for XFS.
const BYTES: u64 = 320 << 20;

fn memory(options: &[&str]) -> Action {
    Action::Mount(action::Mount {
        device: None,
        file_system: FileSystem::Tmpfs,
        point: POINT.into(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
    })
}

pub(crate) fn stack(file: PathBuf, file_system: FileSystem, bytes: u64) -> [Action; 3] {
    let device = Device::Loop(file.clone());
    [
        Action::LoopFile(action::LoopFile { file, bytes }),
        Action::Format(action::Format { device: device.clone(), file_system, options: Vec::new() }),
        Action::Mount(action::Mount {
            device: Some(device),
            file_system,
            point: POINT.into(),
            options: vec!["noatime".to_owned()],
        }),
    ]
}

fn mounts_and_removes_tmpfs() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    apply_all(&mut lab, &[memory(&["size=64m", "noatime", "mode=700"])]);
    fs::write(format!("{POINT}/file"), "something").unwrap();
    assert!(
        lab.apply(&memory(&[])).unwrap_err().to_string().contains("something is already mounted")
    );
    lab.undo_all().unwrap();
    host.assert_as_before(&before);
}

fn creates_and_removes_every_file_system() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        apply_all(&mut lab, &stack(host.path("disks/disk"), file_system, BYTES));
        let found = run(&["findmnt", "--noheadings", "--output", "FSTYPE,OPTIONS", POINT]);
        assert!(found.starts_with(file_system.name()) && found.contains("noatime"), "{found}");
        assert_eq!(lab.height(), 3);
        lab.undo_all().unwrap();
        host.assert_as_before(&before);
    }
}

fn fills_and_empties_disk() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    apply_all(
        &mut lab,
        &[memory(&["size=16m"]), Action::Fill(action::Fill { point: POINT.into() })],
    );
    let file = format!("{POINT}/file");
    let error = fs::write(&file, vec![1; 2 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    fs::remove_file(&file).unwrap();
    assert!(
        lab.apply(&Action::Fill(action::Fill { point: POINT.into() })).is_err(),
        "it is already full"
    );
    lab.undo_last().unwrap();
    fs::write(&file, vec![1; 2 << 20]).unwrap();
    lab.undo_all().unwrap();
    host.assert_as_before(&before);
}

fn cleans_up_after_refused_option() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    let error = lab.apply(&memory(&["mode=9"])).unwrap_err().to_string();
    assert!(error.contains("mount -t tmpfs -o mode=9"), "{error}");
    assert_eq!(lab.height(), 0);
    host.assert_as_before(&before);
    apply_all(&mut lab, &[memory(&["size=1m"])]);
    lab.undo_all().unwrap();
}

fn names_process_on_busy_mount() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    apply_all(&mut lab, &[memory(&[])]);
    let mut sleeper =
        Command::new("sleep").arg("600").current_dir(POINT).stdin(Stdio::null()).spawn().unwrap();
    let error = lab.undo_all().unwrap_err().to_string();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(error.contains(&format!("sleep (pid {})", sleeper.id())), "{error}");
    assert_eq!(lab.height(), 1);
    lab.undo_all().unwrap();
    host.assert_as_before(&before);
}

fn releases_loop_device_after_use() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    let [file, format, _] = stack(host.path("disk"), FileSystem::Ext4, 64 << 20);
    let found = lab.apply(&file).unwrap();
    let node = fact(&found, "loop device").to_owned();
    assert_eq!(fact(&found, "direct I/O of the loop device"), "on");
    lab.apply(&format).unwrap();
    let elsewhere = host.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let elsewhere = elsewhere.display().to_string();
    run(&["mount", &node, &elsewhere]);
    let error = lab.undo_all().unwrap_err().to_string();
    run(&["umount", &elsewhere]);
    assert!(error.contains(&format!("{node} is still in use")), "{error}");
    lab.undo_all().unwrap();
    fs::remove_dir(&elsewhere).unwrap();
    host.assert_as_before(&before);
}

fn keeps_loop_device_of_container() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    let folder = host.path("disks").display().to_string();
    fs::create_dir(&folder).unwrap();
    // A mount namespace like a container's: it prints the node, and detaches it when it ends.
    let script = "mount -t tmpfs tmpfs $1; truncate -s 1M $1/disk; losetup --find --show $1/disk; \
                  read line || true; losetup --detach $(losetup --noheadings --output NAME -j $1/disk)";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", script, "sh", &folder]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut container = command.spawn().unwrap();
    let mut others = String::new();
    BufReader::new(container.stdout.as_mut().unwrap()).read_line(&mut others).unwrap();
    let others = others.trim_end();
    let backing_file = format!("/sys/block/{}/loop/backing_file", &others["/dev/".len()..]);
    let [file, format, _] = stack(host.path("disks/disk"), FileSystem::Ext4, 64 << 20);
    let found = lab.apply(&file).unwrap();
    let node = fact(&found, "loop device").to_owned();
    lab.apply(&format).unwrap();
    let same_name = fs::read_to_string(&backing_file).unwrap();
    lab.undo_all().unwrap();
    let is_left = fs::exists(&backing_file).unwrap();
    drop(container.stdin.take());
    assert!(container.wait().unwrap().success());
    assert_eq!(same_name.trim_end(), host.path("disks/disk").display().to_string());
    assert!(node != others && is_left, "{node}, {others}");
    fs::remove_dir(&folder).unwrap();
    host.assert_as_before(&before);
}

fn restores_rest_after_lost_device() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    let [file, format, mount] = stack(host.path("disk"), FileSystem::Ext4, 64 << 20);
    let found = lab.apply(&file).unwrap();
    run(&["losetup", "--detach", fact(&found, "loop device")]);
    for action in [format, mount] {
        let error = lab.apply(&action).unwrap_err().to_string();
        assert!(error.contains("does not exist (any more)"), "{error}");
    }
    lab.undo_all().unwrap();
    host.assert_as_before(&before);
}

fn dropped_caches_are_counted_not_assumed() {
    let host = Host::new();
    let mut lab = host.lab();
    apply_all(&mut lab, &stack(host.path("disk"), FileSystem::Ext4, 64 << 20));
    fs::write(format!("{POINT}/file"), vec![7; 8 << 20]).unwrap();
    let found = lab.invalidate(Invalidation::Caches, Some(POINT.as_ref())).unwrap();
    let bytes = |name: &str| -> u64 {
        let fact = found.iter().find(|fact| fact.name == name).unwrap();
        fact.value.parse().unwrap()
    };
    assert_eq!((bytes("files cached before"), bytes("files cached after")), (8 << 20, 0));
    assert!(bytes("page cache before") > 8 << 20);
    lab.undo_all().unwrap();
}
