//! A sysctl. **Source:** proc_sys(5): dots in the name are slashes in the path.

use std::fs;
use std::path::{Path, PathBuf};

use model::EffectiveSettings;
use model::action::Sysctl;
use model::options::check_sysctl;

use super::LabAction;
use super::accept::accept;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::undo::Undo;

/// A module whose sysctls only exist once it is loaded.
struct Module {
    /// Common prefix of their names.
    prefix: &'static str,
    name: &'static str,
}

const MODULES: [Module; 3] = [
    Module { prefix: "sunrpc.", name: "sunrpc" },
    Module { prefix: "fs.nfs.", name: "nfs" },
    Module { prefix: "fs.lock", name: "lockd" },
];

impl LabAction for Sysctl {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        accept("sysctl", check_sysctl(&self.name, &self.value))
    }

    /// Sets the sysctl, after loading its module if necessary.
    fn steps(&self, (): &()) -> Vec<Step> {
        let path = path_of(&self.name);
        let mut steps = Vec::new();
        if let Some(module) = module_of(&self.name)
            && !path.exists()
        {
            steps.push(Step::run(["modprobe", module.name]));
        }
        steps.push(Step::write(path, self.value.as_str()));
        steps
    }

    /// Restores the old value. Fails if there is no such sysctl.
    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        let name = &self.name;
        let path = path_of(name);
        let is_inside = path.starts_with("/proc/sys");
        if !is_inside || name.contains("..") || name.starts_with('/') {
            return Err(LabError::Refused(format!("`{name}` is not the name of a sysctl")));
        }
        match fs::read_to_string(&path) {
            Ok(text) => Ok(vec![Undo::Write { path, text: text.trim_end().to_owned() }]),
            // Loading the module creates it with the default value, so there is no old value to
            // restore.
            Err(_) if !path.exists() && module_of(name).is_some() => Ok(Vec::new()),
            Err(error) => Err(LabError::file("read", &path, error)),
        }
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let path = path_of(&self.name);
        let text =
            fs::read_to_string(&path).map_err(|error| LabError::file("read", &path, error))?;
        let mut findings = Findings::new("host");
        findings.compare(&self.name, &self.value, &text, &path.display().to_string());
        Ok(findings.finish())
    }
}

fn module_of(sysctl: &str) -> Option<&'static Module> {
    MODULES.iter().find(|module| sysctl.starts_with(module.prefix))
}

fn path_of(name: &str) -> PathBuf {
    let mut path = String::with_capacity(name.len());
    for char in name.chars() {
        // A slash in the name stands for a literal dot, for example in an interface name.
        path.push(match char {
            '.' => '/',
            '/' => '.',
            other => other,
        });
    }
    Path::new("/proc/sys").join(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysctl(name: &str, value: &str) -> Sysctl {
        Sysctl { name: name.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn names_of_sysctls_are_paths() {
        let path = |name| path_of(name).display().to_string();
        assert_eq!(path("net.ipv4.tcp_rmem"), "/proc/sys/net/ipv4/tcp_rmem");
        assert_eq!(path("net.ipv4.conf.eth0/1.mtu"), "/proc/sys/net/ipv4/conf/eth0.1/mtu");
    }

    #[test]
    fn rejects_name_that_leads_elsewhere() {
        for name in ["/etc/passwd", "../../etc/passwd", "////etc.passwd", "kernel./../x"] {
            assert!(sysctl(name, "1").undo(&(), &[]).is_err(), "{name}");
        }
    }

    #[test]
    fn lists_are_compared_by_their_words() {
        let name = "net.ipv4.tcp_rmem";
        let Ok(text) = fs::read_to_string(path_of(name)) else { return };
        let spaced = text.split_whitespace().collect::<Vec<_>>().join("  ");
        let found = sysctl(name, &spaced).check(&()).unwrap();
        assert!(found.differences.is_empty(), "{found:?}");
        let found = sysctl(name, "1 2 3").check(&()).unwrap();
        assert_eq!(found.differences[0].requested, "1 2 3");
    }
}
