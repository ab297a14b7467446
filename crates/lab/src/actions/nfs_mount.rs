//! Mounts an export with the kernel's client and reads back the options in effect.
//!
//! **Source:** nfs(5). In /proc/self/mountstats, `opts:` lists the options after negotiation with
//! the server, and there is an `xprt:` line for each connection.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::EffectiveSettings;
use model::action::NfsMount;
use model::options::{OptionError, check_clients, check_nfs_options, check_path};

use super::accept::{accept, check_point};
use super::{LabAction, Layer, folder_undo, mount_needs};
use crate::actions::findings::Findings;
use crate::actions::options::{self, RequestedOption};
use crate::actions::step::Step;
use crate::commands::packages;
use crate::error::LabError;
use crate::facts::disks;
use crate::host::safety;
use crate::mounts::mountstats;
use crate::undo::Undo;
use crate::{commands, mounts};

const STATS: &str = mountstats::PATH;
/// Time limit for mounting. A server in its grace period answers late.
const LIMIT: Duration = Duration::from_secs(150);

impl LabAction for NfsMount {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        check_point(&self.point)?;
        accept("export", check_source(&self.source))?;
        accept("mount_options", check_nfs_options(&self.options))
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        let mut argv: Vec<String> = ["mount", "-t", "nfs"].map(str::to_owned).to_vec();
        if !self.options.is_empty() {
            argv.extend(["-o".to_owned(), self.options.join(",")]);
        }
        argv.extend(["--".to_owned(), self.source.clone(), self.point.display().to_string()]);
        let mount = Step::MountNfs { argv, limit: LIMIT, options: self.options.clone() };
        vec![Step::Folder(self.point.clone()), mount]
    }

    /// Unmounts the export, and removes the mount point if we create it. Fails if something is
    /// already mounted there, or mount.nfs or a program that the options need is missing.
    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        if commands::find("mount.nfs").is_none() {
            return Err(packages::missing("mount.nfs"));
        }
        mount_needs::check_client(&self.options)?;
        safety::check_mount_point(&self.point)?;
        let mut undo = folder_undo(&self.point);
        undo.push(Undo::Unmount { point: self.point.clone(), file_system: "nfs".to_owned() });
        Ok(undo)
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let text = fs::read_to_string(STATS)
            .map_err(|error| LabError::file("read", Path::new(STATS), error))?;
        let Some(stats) = MountStats::find(&text, &self.point) else {
            let point = self.point.display();
            return Err(LabError::Unable(format!("{point} is not an NFS mount")));
        };
        let mut findings = Findings::new("target");
        if let Some(least) = self.trunk_connections {
            // The kernel lists the source and options of the first mount.
            compare_trunks(&mut findings, least, &self.source, stats.connections);
            return Ok(findings.finish());
        }
        findings.compare("export", &self.source, &stats.source, STATS);
        findings.fact("mount options", &stats.options, STATS);
        findings.fact("seconds since the mount", &stats.age_s, STATS);
        findings.fact("connections", stats.connections.to_string(), STATS);
        findings.fact("bytes read from the server", stats.server_read_bytes.to_string(), STATS);
        let requested = RequestedOption::nfs(&self.options);
        // Per-mount options such as noatime appear only in the list of all mounts.
        let mut of_point = String::new();
        if let Some(mount) = mounts::find_at(&self.point) {
            findings.extend(disks::facts("target", &mount));
            of_point = mount.options;
        }
        options::compare(&mut findings, &requested, &listed(&stats.options, &of_point), STATS);
        compare_connections(&mut findings, &requested, stats.connections);
        Ok(findings.finish())
    }

    fn layer(&self) -> Layer {
        Layer::Client
    }
}

/// Compares `nconnect` with the actual number of connections. The kernel reuses the connections of
/// an existing mount of the same server, no matter how many were requested.
fn compare_connections(findings: &mut Findings, requested: &[RequestedOption], connections: usize) {
    for option in requested {
        if option.name == "nconnect"
            && let Some(value) = &option.value
            && let Ok(wanted) = value.parse::<usize>()
            && wanted != connections
        {
            findings.add_difference("connections", value, connections.to_string(), STATS);
        }
    }
}

/// Compares the connections that a mount through a further address should add with those it has.
fn compare_trunks(findings: &mut Findings, least: u32, source: &str, connections: usize) {
    let found = connections.to_string();
    findings.fact("connections with trunking", &found, STATS);
    if connections < least as usize {
        let requested = format!("{least} with {source}");
        findings.add_difference("connections", requested, found, STATS);
    }
}

/// Checks a source of the form host:path. IPv6 addresses are in brackets. **Source:** nfs(5).
fn check_source(source: &str) -> Result<(), OptionError> {
    let bracketed = source.starts_with('[') && source.contains("]:");
    let split = if bracketed { source[1..].split_once("]:") } else { source.split_once(':') };
    let Some((host, path)) = split else { return check_clients("") };
    check_clients(host)?;
    // The root of all v4 exports, which is the export with `fsid=0`.
    if path == "/" { Ok(()) } else { check_path(Path::new(path)) }
}

/// Joins the options of the NFS client with those of the mount point, which the client doesn't
/// list.
///
/// **Source:** fs/namespace.c of Linux (`mnt_opts`) versus fs/nfs/super.c (`nfs_show_stats`).
fn listed(of_client: &str, of_point: &str) -> String {
    format!("{of_client},{of_point}")
}

/// The kernel's counters for one NFS mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MountStats {
    pub source: String,
    /// Options in effect.
    pub options: String,
    /// Seconds since it was mounted, as printed by the kernel.
    pub(crate) age_s: String,
    /// Number of connections to the server.
    pub connections: usize,
    /// Bytes read from the server since then.
    pub server_read_bytes: u64,
}

impl MountStats {
    /// Finds a mount in the text of /proc/self/mountstats. If several match, the last one is used.
    pub(crate) fn find(text: &str, point: &Path) -> Option<Self> {
        let mount = mountstats::find(text, point)?;
        let mut stats = Self { source: mount.source.to_owned(), ..Self::default() };
        for (name, rest) in mount.lines {
            stats.read_line(name, rest);
        }
        Some(stats)
    }

    fn read_line(&mut self, name: &str, rest: &str) {
        match name {
            "opts" => rest.clone_into(&mut self.options),
            "age" => rest.clone_into(&mut self.age_s),
            "xprt" => self.connections += 1,
            // normalread normalwrite directread directwrite serverread serverwrite ...
            "bytes" => {
                let read = rest.split_ascii_whitespace().nth(4).unwrap_or_default();
                self.server_read_bytes = read.parse().unwrap_or(0);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
device proc mounted on /proc with fstype proc
device server:/export mounted on /run/dfsbench/mount with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=65536,wsize=65536,hard,proto=tcp,nconnect=2,sec=sys,local_lock=none
\tage:\t12
\tcaps:\tcaps=0x3ffbffff,wtmult=512
\tevents:\t0 0 0
\tbytes:\t10 20 30 40 50 60 70 80
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 0 0 2 0 0
\txprt:\ttcp 0 0 2 0 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
device tmpfs mounted on /tmp with fstype tmpfs
";

    #[test]
    fn finds_mount_with_connections() {
        let stats = MountStats::find(TEXT, Path::new("/run/dfsbench/mount")).unwrap();
        assert_eq!((stats.source.as_str(), stats.age_s.as_str()), ("server:/export", "12"));
        assert_eq!((stats.connections, stats.server_read_bytes), (2, 50));
        assert!(stats.options.starts_with("rw,vers=4.2"));
        assert_eq!(MountStats::find(TEXT, Path::new("/tmp")), None);
    }

    fn differences(requested: &str, of_point: &str) -> Vec<String> {
        let mut findings = Findings::new("target");
        let of_client = MountStats::find(TEXT, Path::new("/run/dfsbench/mount")).unwrap().options;
        let requested = RequestedOption::nfs(&[requested.to_owned()]);
        options::compare(&mut findings, &requested, &listed(&of_client, of_point), STATS);
        compare_connections(&mut findings, &requested, 2);
        findings.finish().differences.into_iter().map(|one| one.name).collect()
    }

    #[test]
    fn accepts_unlisted_mount_options() {
        assert!(differences("noatime,nosuid,nconnect=2", "rw,nosuid,noatime").is_empty());
        // Options that are not in effect are still reported.
        assert!(differences("port=2049", "rw").is_empty(), "the kernel lists no default");
        assert_eq!(differences("port=2050", "rw"), ["port"]);
        assert_eq!(differences("noatime", "rw,relatime"), ["noatime"]);
        assert_eq!(differences("hard,soft", "rw"), ["soft"]);
        assert_eq!(differences("nconnect=4", "rw"), ["nconnect", "connections"]);
    }

    #[test]
    fn names_missing_trunks() {
        let count = |least, connections| {
            let mut findings = Findings::new("target");
            compare_trunks(&mut findings, least, "10.0.1.1:/e", connections);
            findings.finish().differences.len()
        };
        // The kernel may have added more, as after a reboot of the server.
        assert_eq!([(2, 2), (2, 3), (2, 1), (3, 2)].map(|(a, b)| count(a, b)), [0, 0, 1, 1]);
    }

    #[test]
    fn accepts_export_root_as_source() {
        for source in ["10.0.0.1:/", "10.0.0.1:/export", "[fe80::1]:/"] {
            check_source(source).unwrap();
        }
        for source in ["10.0.0.1:", "10.0.0.1:/a/", "10.0.0.1:a", "10.0.0.1://", "-o:/"] {
            assert!(check_source(source).is_err(), "{source}");
        }
    }

    #[test]
    fn no_text_makes_it_fail() {
        for end in 0..TEXT.len() {
            let _ = MountStats::find(&TEXT[..end], Path::new("/run/dfsbench/mount"));
        }
    }
}
