//! Checks what the undo log wants to write, remove, unmount or stop before it is undone.
//!
//! The log is a text file. [`crate::host::trust`] rejects a log that another user could have
//! written. In addition, its contents are compared here with what dfsbench writes: kernel settings,
//! our own names, paths below /run/dfsbench, and files whose paths contain no symlinks. **Source:**
//! proc_sys(5).

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use model::options::{OptionError, check_clients, check_interface, check_object_name, check_path};
use model::system::may_leave;

use crate::error::LabError;
use crate::host::{devices, kernel_settings, nfsd, safety, trust};
use crate::mounts::unmount::ANY;
use crate::undo::Undo;
use crate::{NFSD_FOLDER, RUN};

/// Rejects entries that dfsbench would never have written.
///
/// # Errors
/// If the log names something that isn't ours. The error names it.
pub(crate) fn check(undo: &Undo) -> Result<(), LabError> {
    inspect(undo).map_err(|error| explain("not undone, although it is in the undo log", error))
}

/// Rejects a change that [`check`] would not allow to be undone.
///
/// # Errors
/// If it couldn't be undone. The error contains the reason.
pub(crate) fn check_before_change(undo: &Undo) -> Result<(), LabError> {
    inspect(undo).map_err(|error| explain("not started, since it could not be undone", error))
}

fn explain(consequence: &str, error: LabError) -> LabError {
    match error {
        LabError::Refused(why) => LabError::Refused(format!("{consequence}: {why}")),
        error => error,
    }
}

fn inspect(undo: &Undo) -> Result<(), LabError> {
    match undo {
        Undo::Write { path, text } => {
            if text.contains(['\n', '\0']) {
                return Err(refuse(path, "has an old value with several lines"));
            }
            check_noted_setting(path)
        }
        Undo::Mtu { interface, .. } | Undo::Shape { interface } => {
            parsed(Path::new(interface), check_interface(interface))
        }
        Undo::Unmount { point, file_system } => {
            // The server's own file system, which is always mounted in the same place.
            if file_system == "nfsd" && point == Path::new(NFSD_FOLDER) {
                return Ok(());
            }
            let known = ["ext4", "ext3", "ext2", "xfs", "btrfs", "tmpfs", "nfs", ANY];
            if !known.contains(&file_system.as_str()) {
                return Err(refuse(point, "has a type of file system that dfsbench never mounts"));
            }
            check_below_run(point)
        }
        Undo::Tree { path } => check_below_run(path),
        Undo::End { program } => {
            parsed(program, check_path(program))?;
            // The path is only compared with those of running processes, never opened.
            if program.starts_with(RUN) {
                Ok(())
            } else {
                Err(refuse(program, "does not belong to dfsbench"))
            }
        }
        // The mark is only compared with those of running processes, never opened.
        Undo::EndMarked { mark, .. } => check_below_run(mark),
        Undo::Additions { path, .. } => {
            if !may_leave(&path.to_string_lossy()) {
                return Err(refuse(path, "is not a place where a system may leave files"));
            }
            check_no_link_on_the_way(path)
        }
        Undo::Folder { path } => check_without_links(path),
        // If there is a symlink in its place, the symlink itself is removed.
        Undo::File { path } if nfsd::RPCBIND_FILES.iter().any(|file| path == Path::new(file)) => {
            match path.parent() {
                Some(folder) => check_no_link_on_the_way(folder),
                None => Ok(()),
            }
        }
        // In our mounts, clients may create hard links and make the folder writable for everyone.
        // That is fine, because only this name is removed.
        Undo::File { path } if path.starts_with(RUN) => check_below_run(path),
        Undo::File { path } => {
            check_without_links(path)?;
            check_removable_file(path)
        }
        Undo::Loop { file } => parsed(file, check_path(file)),
        Undo::Array { name, devices: members } => {
            parsed(Path::new(name), check_object_name(name))?;
            // The only permitted user of the devices is the array itself, as long as it exists.
            let array = devices::array_node(name);
            for device in members {
                check_device(device, array.as_deref())?;
            }
            Ok(())
        }
        Undo::Mapped { name } => parsed(Path::new(name), check_object_name(name)),
        Undo::Wipe { device, .. } => check_device(device, None),
        Undo::Works { directory, campaign } => {
            // Directories to remove are found by this prefix. An empty one would match everything.
            if campaign.is_empty() || campaign.contains(is_no_letter_of_names) {
                return Err(refuse(directory, "belongs to a campaign with an invalid name"));
            }
            check_no_link_on_the_way(directory)
        }
        Undo::Export { directory, clients } => {
            parsed(directory, check_path(directory))?;
            parsed(Path::new(clients), check_clients(clients))
        }
        Undo::Nfsd { .. } | Undo::Calendar { .. } => Ok(()),
    }
}

fn is_no_letter_of_names(letter: char) -> bool {
    !letter.is_ascii_alphanumeric() && !"-_.".contains(letter)
}

/// Checks that the path is a setting both as written and after following the kernel's symlinks.
fn check_noted_setting(path: &Path) -> Result<(), LabError> {
    parsed(path, check_path(path))?;
    if !kernel_settings::contains(path) {
        return Err(refuse(path, "is not a kernel setting"));
    }
    match path.canonicalize() {
        Ok(real) if kernel_settings::contains(&real) => Ok(()),
        Ok(_) => Err(refuse(path, "does not lead to a kernel setting")),
        // Settings of a mount or an interface disappear along with it.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error)
            if error.kind() == ErrorKind::PermissionDenied && kernel_settings::is_private(path) =>
        {
            Ok(())
        }
        Err(error) => Err(LabError::file("inspect", path, error)),
    }
}

/// Checks that a path is below /run/dfsbench and contains no symlinks.
fn check_below_run(path: &Path) -> Result<(), LabError> {
    parsed(path, check_path(path))?;
    if path == Path::new(RUN) || !path.starts_with(RUN) {
        return Err(refuse(path, "does not belong to dfsbench"));
    }
    check_no_link_on_the_way(path)
}

/// Checks that no part of the path is a symlink or belongs to another user.
fn check_without_links(path: &Path) -> Result<(), LabError> {
    check_no_link_on_the_way(path)?;
    match path.parent() {
        Some(folder) => trust::check_path(folder),
        None => Ok(()),
    }
}

/// Uses readlink(2), which doesn't ask a file system for attributes. A mount whose server is gone
/// would never answer, but must still be unmounted.
fn check_no_link_on_the_way(path: &Path) -> Result<(), LabError> {
    parsed(path, check_path(path))?;
    let parts: Vec<&Path> = path.ancestors().collect();
    for part in parts.into_iter().rev() {
        match fs::read_link(part) {
            Ok(_) => return Err(refuse(path, &describe_link(path, part))),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            // Not a symlink.
            Err(_) => {}
        }
    }
    Ok(())
}

fn describe_link(path: &Path, link: &Path) -> String {
    let mut text = format!("contains the symlink {}", link.display());
    if let (Ok(real), Ok(rest)) = (link.canonicalize(), path.strip_prefix(link)) {
        let real = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        // Writing to a string never fails.
        let _ = write!(text, "; without it, the path is {}", real.display());
    }
    text
}

/// Checks that a file is a regular one without other hard links, like those we create.
fn check_removable_file(path: &Path) -> Result<(), LabError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if metadata.is_file() && metadata.nlink() == 1 {
        return Ok(());
    }
    Err(refuse(path, "is not a file that dfsbench created"))
}

/// Checks that a device to be wiped is used by nothing except `made_of_it`. A missing device is
/// fine.
fn check_device(device: &Path, made_of_it: Option<&Path>) -> Result<(), LabError> {
    parsed(device, check_path(device))?;
    if !device.starts_with("/dev") {
        return Err(refuse(device, "is not a device"));
    }
    if device.exists() { safety::check_unused_but_by(device, made_of_it) } else { Ok(()) }
}

fn parsed(named: &Path, checked: Result<(), OptionError>) -> Result<(), LabError> {
    checked.map_err(|error| refuse(named, &format!("is not valid: {error}")))
}

fn refuse(named: &Path, why: &str) -> LabError {
    LabError::Refused(format!("`{}` {why}", named.display().to_string().escape_debug()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;
    use crate::commands::Runner;

    /// Returns entries of every kind that must never be executed.
    fn planted(folder: &Path) -> Vec<Undo> {
        let file = |name: &str| folder.join(name);
        let name = |name: &str| name.to_owned();
        let written = |path: PathBuf| Undo::Write { path, text: name("1") };
        let unmount = |point: &str, file_system: &str| Undo::Unmount {
            point: point.into(),
            file_system: file_system.to_owned(),
        };
        vec![
            written(file("precious")),
            written("/proc/sys/../../etc/passwd".into()),
            written("/sys/../etc/passwd".into()),
            written("/proc/self/oom_score_adj".into()),
            written("/proc/sysrq-trigger".into()),
            written("/proc/sys".into()),
            written("proc/sys/vm/swappiness".into()),
            Undo::Write { path: "/proc/sys/vm/swappiness".into(), text: name("1\n2") },
            Undo::Mtu { interface: name("-x"), bytes: 1 },
            Undo::Shape { interface: name("lo root; x") },
            unmount("/", "ext4"),
            unmount("/home", "ext4"),
            unmount("/run/dfsbench/../../home", "ext4"),
            unmount("/run/dfsbench/storage", ""),
            unmount("/home", "nfsd"),
            Undo::Folder { path: file("link/inner") },
            Undo::Folder { path: file("x/../inner") },
            Undo::Tree { path: RUN.into() },
            Undo::Tree { path: folder.to_owned() },
            Undo::Tree { path: "/run/dfsbench/../x".into() },
            Undo::File { path: file("link/precious") },
            Undo::File { path: file("to-precious") },
            Undo::File { path: file("../precious") },
            Undo::File { path: name("precious").into() },
            Undo::File { path: file("second-name") },
            Undo::Loop { file: "/a/../b".into() },
            Undo::Array { name: name("x y"), devices: vec![] },
            Undo::Array { name: name("dfsbench"), devices: vec![file("precious")] },
            Undo::Mapped { name: name("root") },
            Undo::Mapped { name: name("--all") },
            Undo::Wipe { device: file("precious"), uuid: name("u") },
            Undo::Wipe { device: "/dev/../etc/passwd".into(), uuid: name("u") },
            Undo::Wipe { device: "/dev/null".into(), uuid: name("u") },
            Undo::End { program: "/usr/sbin/sshd".into() },
            Undo::End { program: "/run/dfsbench/../../usr/sbin/sshd".into() },
            Undo::EndMarked { mark: "/usr".into(), within_s: 1 },
            Undo::EndMarked { mark: RUN.into(), within_s: 1 },
            Undo::Additions { path: "/etc".into(), before: None },
            Undo::Additions { path: "/var/lib/../x".into(), before: None },
            Undo::Additions { path: folder.to_owned(), before: None },
            Undo::Works { directory: file("link"), campaign: name("c") },
            Undo::Works { directory: folder.to_owned(), campaign: name("") },
            Undo::Works { directory: folder.to_owned(), campaign: name("*/..") },
            Undo::Works { directory: "/".into(), campaign: name("c") },
            Undo::Export { directory: "/a".into(), clients: name("-a") },
            Undo::Export { directory: "/a/../b".into(), clients: name("h") },
        ]
    }

    #[test]
    fn ignores_log_with_foreign_paths() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::create_dir_all(file("real/inner")).unwrap();
        fs::create_dir_all(file("real/.dfsbench-c-1")).unwrap();
        for name in ["precious", "real/precious", "first-name"] {
            fs::write(file(name), "precious").unwrap();
        }
        symlink(file("real"), file("link")).unwrap();
        symlink(file("precious"), file("to-precious")).unwrap();
        fs::hard_link(file("first-name"), file("second-name")).unwrap();
        for undo in planted(folder.path()) {
            let error = crate::undo::restore::restore(&undo, &mut Runner::default())
                .unwrap_err()
                .to_string();
            assert!(error.contains("not undone"), "{undo:?}: {error}");
        }
        for name in ["precious", "real/precious", "first-name", "second-name"] {
            assert_eq!(fs::read_to_string(file(name)).unwrap(), "precious");
        }
        assert!(file("real/inner").exists() && file("real/.dfsbench-c-1").exists());
    }

    #[test]
    fn what_dfsbench_notes_itself_passes() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        fs::write(file("disk"), "x").unwrap();
        let swappiness = "/proc/sys/vm/swappiness";
        let gone = "/sys/class/bdi/9:9/read_ahead_kb";
        let name = |name: &str| name.to_owned();
        for undo in [
            Undo::Write { path: swappiness.into(), text: name("60") },
            Undo::Write { path: gone.into(), text: name("128") },
            Undo::File { path: file("disk") },
            Undo::File { path: nfsd::RPCBIND_FILES[0].into() },
            Undo::Unmount { point: NFSD_FOLDER.into(), file_system: name("nfsd") },
            Undo::Folder { path: file("gone") },
            Undo::Tree { path: Path::new(RUN).join("ganesha") },
            Undo::End { program: Path::new(RUN).join("ganesha/ganesha.nfsd") },
            Undo::Unmount { point: Path::new(RUN).join("mount"), file_system: name("nfs") },
            Undo::Unmount { point: Path::new(RUN).join("mount"), file_system: name(ANY) },
            Undo::EndMarked { mark: Path::new(RUN).join("systems/x"), within_s: 1 },
            Undo::Additions { path: "/var/lib/no-such-system".into(), before: None },
            Undo::Array { name: name("dfsbench"), devices: vec!["/dev/no-such".into()] },
            Undo::Works { directory: folder.path().to_owned(), campaign: name("mounts-1") },
            Undo::Export { directory: file("x y"), clients: name("10.0.0.1 fd00::1") },
        ] {
            check(&undo).unwrap();
        }
    }
}
