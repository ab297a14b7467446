//! Settings of the kernel that are files: sysctls and the read-ahead of a mount.
//!
//! **Source:** proc_sys(5): dots of a name are slashes of a path; the kernel's
//! Documentation/ABI/testing/sysfs-class-bdi, `read_ahead_kb`.

use std::fs;
use std::path::{Path, PathBuf};

use model::EffectiveSettings;

use crate::error::LabError;
use crate::findings::Findings;
use crate::mounts;
use crate::step::Step;
use crate::undo::Undo;

/// Modules whose sysctls aren't there before them, by the beginning of the names.
const MODULES: [(&str, &str); 3] =
    [("sunrpc.", "sunrpc"), ("fs.nfs.", "nfs"), ("fs.lock", "lockd")];

/// Returns the path of a sysctl.
pub fn sysctl_path(name: &str) -> PathBuf {
    // A slash in a name stands for a dot, as in the name of an interface.
    let turned = name.chars().map(|c| match c {
        '.' => '/',
        '/' => '.',
        c => c,
    });
    Path::new("/proc/sys").join(turned.collect::<String>())
}

/// Loads the module where a sysctl has one, and sets it.
pub fn sysctl_steps(name: &str, value: &str) -> Vec<Step> {
    let path = sysctl_path(name);
    let module = MODULES.iter().find(|(start, _)| name.starts_with(start));
    let load = module.filter(|_| !path.exists());
    let mut steps: Vec<Step> =
        load.map(|(_, module)| Step::run(["modprobe", module])).into_iter().collect();
    steps.push(Step::write(path, value));
    steps
}

/// Keeps the old value.
///
/// # Errors
/// Where there is no such sysctl.
pub fn sysctl_undo(name: &str) -> Result<Vec<Undo>, LabError> {
    let path = sysctl_path(name);
    let harmless = path.starts_with("/proc/sys") && !name.contains("..") && !name.starts_with('/');
    if !harmless {
        return Err(LabError::Refused(format!("`{name}` is no name of a sysctl")));
    }
    match fs::read_to_string(&path) {
        Ok(text) => Ok(vec![Undo::Write { path, text: text.trim_end().to_owned() }]),
        // Its module brings it, with the default.
        Err(_) if !path.exists() && MODULES.iter().any(|(start, _)| name.starts_with(start)) => {
            Ok(Vec::new())
        }
        Err(error) => Err(LabError::file("read", &path, error)),
    }
}

/// Reads a sysctl back.
///
/// # Errors
/// Where it can't be read.
pub fn check_sysctl(name: &str, value: &str) -> Result<EffectiveSettings, LabError> {
    let path = sysctl_path(name);
    let text = fs::read_to_string(&path).map_err(|error| LabError::file("read", &path, error))?;
    let mut findings = Findings::new("host");
    findings.compare(name, value, &text, &path.display().to_string());
    Ok(findings.done())
}

/// Sets the read-ahead of what is mounted at a point.
pub fn read_ahead_steps(point: &Path, kib: u32) -> Vec<Step> {
    let path = read_ahead_path(point);
    let path = path.unwrap_or_else(|| PathBuf::from("/sys/class/bdi/MAJOR:MINOR/read_ahead_kb"));
    vec![Step::write(path, kib.to_string())]
}

/// Keeps the old read-ahead.
///
/// # Errors
/// Where nothing is mounted there, or its kind has none.
pub fn read_ahead_undo(point: &Path) -> Result<Vec<Undo>, LabError> {
    let path = of_mount(point)?;
    let text = fs::read_to_string(&path).map_err(|error| LabError::file("read", &path, error))?;
    Ok(vec![Undo::Write { path, text: text.trim().to_owned() }])
}

/// Reads the read-ahead back.
///
/// # Errors
/// Where it can't be read.
pub fn check_read_ahead(point: &Path, kib: u32) -> Result<EffectiveSettings, LabError> {
    let path = of_mount(point)?;
    let text = fs::read_to_string(&path).map_err(|error| LabError::file("read", &path, error))?;
    let mut findings = Findings::new("target");
    let source = path.display().to_string();
    findings.compare("read-ahead in KiB", &kib.to_string(), &text, &source);
    Ok(findings.done())
}

fn read_ahead_path(point: &Path) -> Option<PathBuf> {
    let device = mounts::at(point)?.device;
    Some(PathBuf::from(format!("/sys/class/bdi/{device}/read_ahead_kb")))
}

fn of_mount(point: &Path) -> Result<PathBuf, LabError> {
    let nothing = || LabError::Unable(format!("nothing is mounted on {}", point.display()));
    read_ahead_path(point).ok_or_else(nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sysctls_are_paths() {
        let path = |name| sysctl_path(name).display().to_string();
        assert_eq!(path("net.ipv4.tcp_rmem"), "/proc/sys/net/ipv4/tcp_rmem");
        assert_eq!(path("net.ipv4.conf.eth0/1.mtu"), "/proc/sys/net/ipv4/conf/eth0.1/mtu");
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in ["/etc/passwd", "../../etc/passwd", "////etc.passwd", "kernel./../x"] {
            assert!(sysctl_undo(name).is_err(), "{name}");
        }
    }

    #[test]
    fn lists_are_compared_by_their_words() {
        let path = sysctl_path("net.ipv4.tcp_rmem");
        let Ok(text) = fs::read_to_string(path) else { return };
        let spaced = text.split_whitespace().collect::<Vec<_>>().join("  ");
        let found = check_sysctl("net.ipv4.tcp_rmem", &spaced).unwrap();
        assert!(found.differences.is_empty(), "{found:?}");
        let found = check_sysctl("net.ipv4.tcp_rmem", "1 2 3").unwrap();
        assert_eq!(found.differences[0].requested, "1 2 3");
    }
}
