//! NFS-Ganesha with one export, on the ports of the kernel's server.
//!
//! For NFS v3, rpcbind must be running: Ganesha exits if it cannot register. **Source:**
//! ganesha-core-config(8), ganesha-export-config(8), ganesha-vfs-config(8).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::action::Ganesha;
use model::lab::NFS_PORT;
use model::options::check_quotable_path;
use model::{EffectiveSettings, NfsVersion};

use super::accept::accept;
use super::rpcbind::Rpcbind;
use super::{LabAction, Layer, folder_undo, program_undo};
use crate::RUN;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::{RunAs, Runner, SOON};
use crate::error::LabError;
use crate::host::nfsd::MOUNT_PORT;
use crate::host::{processes, safety, servers};
use crate::undo::Undo;

const PROGRAM: &str = "ganesha.nfsd";
const PATIENCE: Duration = Duration::from_secs(30);
/// Descriptions for whether a version is served, indexed by a bool.
const SERVED: [&str; 2] = ["not served", "served"];
/// Minor versions of NFS v4 that it serves by default.
const ALL_OF_V4: [NfsVersion; 3] = [NfsVersion::V4_0, NfsVersion::V4_1, NfsVersion::V4_2];

impl LabAction for Ganesha {
    type Facts = Rpcbind;

    fn accept(&self) -> Result<(), LabError> {
        accept("directory", check_quotable_path(&self.directory))
    }

    fn look(&self) -> Result<Rpcbind, LabError> {
        Ok(Rpcbind::look())
    }

    fn assume(&self) -> Rpcbind {
        Rpcbind::Missing
    }

    fn steps(&self, rpcbind: &Rpcbind) -> Vec<Step> {
        let folder = folder();
        // Only v3 uses the portmapper; v4 has a well-known port.
        let mut steps = if offers(&self.versions, 3) { rpcbind.steps() } else { Vec::new() };
        let [config, log, pid] =
            ["ganesha.conf", "log", "pid"].map(|name| folder.join(name).display().to_string());
        let argv = [PROGRAM, "-F", "-N", "NIV_EVENT", "-f", &config, "-L", &log, "-p", &pid];
        let text = configuration(&self.directory, self.threads, &self.versions);
        steps.extend([
            Step::Folder(folder.join("recovery")),
            Step::File { path: folder.join("ganesha.conf"), text },
            Step::Start {
                link: folder.join(PROGRAM),
                argv: argv.map(str::to_owned).to_vec(),
                user: RunAs::Root,
            },
        ]);
        steps
    }

    /// Stops the server. Fails if its port is in use or the directory must not be exported.
    fn undo(&self, rpcbind: &Rpcbind, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        safety::may_export(&self.directory)?;
        port_is_free()?;
        let mut undo = rpcbind.undo();
        // Ganesha creates this folder itself.
        undo.extend(folder_undo(Path::new("/run/ganesha")));
        undo.extend(program_undo(&folder(), PROGRAM));
        Ok(undo)
    }

    /// Waits until the server is up and reads back its settings. On failure, the error contains the
    /// end of its log.
    fn check(&self, _rpcbind: &Rpcbind) -> Result<EffectiveSettings, LabError> {
        let folder = folder();
        let source = "NULL call to port 2049";
        let major = if offers(&self.versions, 4) { 4 } else { 3 };
        let link = folder.join(PROGRAM);
        servers::await_up("NFS-Ganesha", &link, &folder.join("log"), PATIENCE, || {
            servers::serves(NFS_PORT, major)
        })?;
        let mut findings = Findings::new("server");
        let version = Runner::default().run(&[PROGRAM, "-v"], SOON).unwrap_or_default();
        let version = version.lines().next().unwrap_or("unknown").to_owned();
        findings.fact("server", version, "ganesha.nfsd -v");
        findings.fact("export", self.directory.display().to_string(), "ganesha.conf");
        for major in [3, 4] {
            let requested = SERVED[usize::from(offers(&self.versions, major))];
            let found = SERVED[usize::from(servers::serves(NFS_PORT, major))];
            findings.compare(&format!("NFS v{major}"), requested, found, source);
        }
        if self.threads != 0 {
            findings.fact("requested threads of Ganesha", self.threads.to_string(), "ganesha.conf");
        }
        // Ganesha has other threads, too, so the number found cannot be compared with the requested
        // one.
        let pid = processes::pids_running(&link).first().copied().unwrap_or_default();
        let tasks = format!("/proc/{pid}/task");
        let count = match fs::read_dir(&tasks) {
            Ok(tasks) => tasks.count(),
            Err(_) => 0,
        };
        findings.fact("threads of Ganesha, all kinds", count.to_string(), tasks);
        Ok(findings.finish())
    }

    fn served(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn layer(&self) -> Layer {
        Layer::Server
    }
}

/// Checks that no other server is using the NFS port.
///
/// # Errors
/// If a program answers on the port.
pub(crate) fn port_is_free() -> Result<(), LabError> {
    if servers::answers(NFS_PORT) {
        return Err(LabError::Refused(format!(
            "cannot start a server: port {NFS_PORT} is already in use"
        )));
    }
    Ok(())
}

fn folder() -> PathBuf {
    Path::new(RUN).join("ganesha")
}

fn offers(versions: &[NfsVersion], major: u32) -> bool {
    versions.is_empty() || versions.iter().any(|version| version.major() == major)
}

fn configuration(directory: &Path, threads: u32, versions: &[NfsVersion]) -> String {
    let folder = folder();
    let directory = directory.display();
    let folder = folder.display();
    let protocols: Vec<_> = [3, 4]
        .into_iter()
        .filter(|major| offers(versions, *major))
        .map(|major| major.to_string())
        .collect();
    let protocols = protocols.join(", ");
    let mut minors = Vec::new();
    for version in if versions.is_empty() { &ALL_OF_V4 } else { versions } {
        if let Some(minor) = version.minor() {
            minors.push(minor.to_string());
        }
    }
    let minors = minors.join(", ");
    // If there are none, leave out the key, because an empty list is an error.
    let minor =
        if minors.is_empty() { String::new() } else { format!("Minor_Versions = {minors};") };
    let plugins = match plugins() {
        Some(path) => format!("Plugins_Dir = \"{}\";", path.display()),
        None => String::new(),
    };
    let workers = if threads == 0 {
        String::new()
    } else {
        format!(
            "_9P {{ Nb_Worker = {threads}; }}\nNFS_CORE_PARAM {{ RPC_Ioq_ThrdMax = {threads}; }}\n"
        )
    };
    // No grace period: a fresh server has no clients with state to reclaim, and the wait would be
    // measured. NLM and RQUOTA are disabled because they need ports and daemons of their own.
    format!(
        r#"NFS_CORE_PARAM {{
  NFS_Port = {NFS_PORT}; MNT_Port = {MOUNT_PORT}; NFS_Protocols = {protocols};
  Enable_NLM = false; Enable_RQUOTA = false; mount_path_pseudo = true; {plugins}
}}
NFSV4 {{
  Graceless = true; RecoveryBackend = "fs"; RecoveryRoot = "{folder}/recovery";
  Only_Numeric_Owners = true; {minor}
}}
{workers}EXPORT {{
  Export_Id = 1; Path = "{directory}"; Pseudo = "{directory}"; Filesystem_id = 3573.1;
  Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = {protocols};
  Transports = TCP, UDP;
  FSAL {{ Name = VFS; }}
}}
"#
    )
}

/// Returns the folder of Ganesha's plugins. Its built-in default doesn't exist on Debian.
fn plugins() -> Option<PathBuf> {
    fs::read_dir("/usr/lib")
        .ok()?
        .flatten()
        .map(|entry| entry.path().join("ganesha"))
        .find(|folder| folder.join("libfsalvfs.so").exists())
}
