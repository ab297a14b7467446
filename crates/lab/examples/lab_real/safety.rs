//! Attempts to make the lab harm things that aren't ours.

use std::path::{Path, PathBuf};

use lab::Lab;
use model::{Action, Device, FileSystem, action};

use crate::{Check, Host, run};

/// Every check of this file.
pub(crate) const CHECKS: &[Check] = checks![
    formats_only_confirmed_devices,
    refuses_devices_in_use,
    no_option_formats_another_device,
    ignores_undo_log_of_others,
    keeps_foreign_file_system,
    keeps_foreign_files_and_mounts,
];

/// A loop device created by another program, removed when this value is dropped.
struct Theirs(PathBuf);

impl Theirs {
    fn new(host: &Host) -> Self {
        Self::called(host, "theirs")
    }

    fn called(host: &Host, name: &str) -> Self {
        let file = host.path(name).display().to_string();
        run(&["fallocate", "--length", "128M", file.as_str()]);
        Self(PathBuf::from(run(&["losetup", "--find", "--show", file.as_str()]).trim()))
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        run(&["losetup", "--detach", self.name()]);
    }
}

fn format(node: &Path) -> Action {
    Action::Format(action::Format {
        device: Device::Node(node.to_owned()),
        file_system: FileSystem::Ext4,
        options: Vec::new(),
    })
}

/// Checks that the device is refused for this reason, and that its content is unchanged.
fn refused(lab: &mut Lab, node: &Path, reason: &str) {
    let content = || run(&["sha256sum", node.canonicalize().unwrap().to_str().unwrap()]);
    let before = content();
    let error = lab.apply(&format(node)).unwrap_err().to_string();
    assert!(error.contains("refusing to overwrite") && error.contains(reason), "{reason}: {error}");
    assert!(content() == before, "{reason}: the device was written to");
    assert_eq!(lab.height(), 0);
}

fn formats_only_confirmed_devices() {
    let host = Host::new();
    let theirs = Theirs::new(&host);
    refused(&mut host.lab(), &theirs.0, "--allow-destroy");
    let host = host.allowing(&theirs.0);
    let mut lab = host.lab();
    let before = run(&["wipefs", "--no-act", theirs.name()]);
    let found = lab.apply(&format(&theirs.0)).unwrap();
    assert_eq!(found.differences, []);
    assert!(run(&["wipefs", "--no-act", theirs.name()]).contains("ext4"));
    lab.undo_all().unwrap();
    assert_eq!(run(&["wipefs", "--no-act", theirs.name()]), before);
}

fn refuses_devices_in_use() {
    let host = Host::new();
    let theirs = Theirs::new(&host);
    let link = host.path("link");
    std::os::unix::fs::symlink(&theirs.0, &link).unwrap();
    let host = host.allowing(&theirs.0).allowing(&link);
    let mut lab = host.lab();
    refused(&mut lab, &link, "it is a symlink");
    run(&["mkfs.ext4", "-q", theirs.name()]);
    refused(&mut lab, &theirs.0, "it is not empty (ext4)");
    let point = host.path("point");
    std::fs::create_dir(&point).unwrap();
    // Otherwise the kernel writes to it itself.
    run(&["mount", "--read-only", theirs.name(), point.to_str().unwrap()]);
    refused(&mut lab, &theirs.0, "it is mounted on");
    run(&["umount", point.to_str().unwrap()]);
    run(&["wipefs", "--all", "--quiet", theirs.name()]);
    run(&["mkswap", theirs.name()]);
    refused(&mut lab, &theirs.0, "it is not empty (swap)");
    run(&["wipefs", "--all", "--quiet", theirs.name()]);
    // Signature of an old partition table: type 0x83 from sector 2048 on.
    let mut sector = [0_u8; 512];
    sector[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 2, 0, 0, 8, 0, 0, 0, 16, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(&theirs.0, sector).unwrap();
    refused(&mut lab, &theirs.0, "it is not empty (dos)");
    run(&["wipefs", "--all", "--quiet", theirs.name()]);
    lab.apply(&format(&theirs.0)).unwrap();
    lab.undo_all().unwrap();
}

/// An ext4 on a device that the command line didn't allow survives any options of mkfs.
fn no_option_formats_another_device() {
    let host = Host::new();
    let named = Theirs::called(&host, "named");
    let other = Theirs::called(&host, "other");
    run(&["mkfs.ext4", "-q", other.name()]);
    let content = || run(&["sha256sum", other.name()]);
    let before = content();
    let host = host.allowing(&named.0);
    let mut lab = host.lab();
    let planted = [
        (FileSystem::Btrfs, format!("-f {}", other.name())),
        (FileSystem::Btrfs, other.name().to_owned()),
        (FileSystem::Btrfs, format!("-d single {}", other.name())),
        (FileSystem::Xfs, format!("-l logdev={}", other.name())),
        (FileSystem::Xfs, format!("-d name={}", other.name())),
        (FileSystem::Ext4, format!("-J device={}", other.name())),
        (FileSystem::Ext4, format!("-- {}", other.name())),
    ];
    for (file_system, option) in planted {
        for options in [vec![option.clone()], option.split(' ').map(str::to_owned).collect()] {
            let device = Device::Node(named.0.clone());
            let error = lab
                .apply(&Action::Format(action::Format { device, file_system, options }))
                .unwrap_err();
            assert!(error.to_string().contains("format_options"), "{option}: {error}");
            assert!(content() == before, "{option}: the other device was written to");
        }
    }
    assert_eq!(lab.height(), 0);
    // Allowed options are passed on unchanged.
    let device = Device::Node(named.0.clone());
    let options = vec!["-b".to_owned(), "1024".to_owned(), "-E".to_owned(), "stride=4".to_owned()];
    lab.apply(&Action::Format(action::Format { device, file_system: FileSystem::Ext4, options }))
        .unwrap();
    let made = run(&["dumpe2fs", "-h", named.name()]);
    assert!(made.contains("RAID stride:              4"), "{made}");
    lab.undo_all().unwrap();
    assert!(content() == before);
}

fn ignores_undo_log_of_others() {
    let host = Host::new();
    let precious = host.path("precious");
    std::fs::write(&precious, "precious").unwrap();
    std::fs::create_dir(host.state()).unwrap();
    let log = host.state().join("undo.jsonl");
    let undo = format!("{{\"undo\":\"file\",\"path\":\"{}\"}}", precious.display());
    let names = format!("\"campaign\":\"c\",\"boot\":\"{}\",\"what\":\"w\"", lab::boot_id());
    let entry = format!("{{\"begin\":{{\"id\":0,{names},\"undo\":[{undo}]}}}}\n");
    std::fs::write(&log, entry).unwrap();
    run(&["chown", "nobody", log.to_str().unwrap()]);
    let error = lab::clean(&host.state()).unwrap_err().to_string();
    assert!(error.contains("belongs to user"), "{error}");
    run(&["chown", "root", log.to_str().unwrap()]);
    run(&["chmod", "777", host.state().to_str().unwrap()]);
    let error = lab::clean(&host.state()).unwrap_err().to_string();
    assert!(error.contains("is writable by all users"), "{error}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    run(&["chmod", "700", host.state().to_str().unwrap()]);
    assert!(lab::clean(&host.state()).unwrap()[0].outcome.is_ok());
    assert!(!precious.exists());
}

fn keeps_foreign_file_system() {
    let host = Host::new();
    let theirs = Theirs::new(&host);
    let host = host.allowing(&theirs.0);
    let mut lab = host.lab();
    lab.apply(&format(&theirs.0)).unwrap();
    run(&["wipefs", "--all", "--quiet", theirs.name()]);
    run(&["mkfs.ext4", "-q", theirs.name()]);
    lab.undo_all().unwrap();
    assert!(run(&["wipefs", "--no-act", theirs.name()]).contains("ext4"));
}

fn keeps_foreign_files_and_mounts() {
    let host = Host::new();
    let file = host.path("precious");
    std::fs::write(&file, "precious").unwrap();
    let mut lab = host.lab();
    let error = lab
        .apply(&Action::LoopFile(action::LoopFile { file: file.clone(), bytes: 1 << 20 }))
        .unwrap_err();
    assert!(error.to_string().contains(": it already exists"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    let mount = |point: &Path| {
        Action::Mount(action::Mount {
            device: None,
            file_system: FileSystem::Tmpfs,
            point: point.to_owned(),
            options: Vec::new(),
        })
    };
    for point in [Path::new("/"), Path::new("/run"), host.folder.path(), Path::new("/proc")] {
        let error = lab.apply(&mount(point)).unwrap_err().to_string();
        assert!(error.contains("refusing to mount on"), "{error}");
    }
    assert_eq!(lab.height(), 0);
}
