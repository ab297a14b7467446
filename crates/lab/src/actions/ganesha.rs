//! NFS-Ganesha with one export, on the ports of the kernel's server.
//!
//! **Source:** ganesha-core-config(8), ganesha-export-config(8), ganesha-vfs-config(8). NFS v3
//! needs rpcbind: ganesha ends where it can't register there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::{EffectiveSettings, NfsVersion};

use super::nfsd::{MOUNT_PORT, rpcbind_steps, rpcbind_undo};
use super::{Known, folder_undo, program_undo};
use crate::commands::{Runner, SOON};
use crate::error::LabError;
use crate::findings::Findings;
use crate::step::Step;
use crate::undo::Undo;
use crate::{RUN, processes, safety, servers};

/// Port of NFS. **Source:** RFC 1813, 2.
pub const PORT: u16 = 2049;
const PROGRAM: &str = "ganesha.nfsd";
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes its configuration and starts it.
pub fn steps(directory: &Path, threads: u32, versions: &[NfsVersion], known: &Known) -> Vec<Step> {
    let folder = folder();
    let mut steps = if offers(versions, 3) { rpcbind_steps(known) } else { Vec::new() };
    let file = |name: &str| folder.join(name).display().to_string();
    let argv = [
        PROGRAM,
        "-F",
        "-N",
        "NIV_EVENT",
        "-f",
        &file("ganesha.conf"),
        "-L",
        &file("log"),
        "-p",
        &file("pid"),
    ];
    let text = configuration(directory, threads, versions);
    steps.extend([
        Step::Folder(folder.join("recovery")),
        Step::File { path: folder.join("ganesha.conf"), text },
        Step::Start {
            link: folder.join(PROGRAM),
            argv: argv.map(str::to_owned).to_vec(),
            as_root: true,
        },
    ]);
    steps
}

/// Ends the server.
///
/// # Errors
/// Where its port is taken, or the directory must not be exported.
pub fn undo(directory: &Path, known: &Known) -> Result<Vec<Undo>, LabError> {
    safety::may_export(directory)?;
    port_is_free()?;
    let mut undo = rpcbind_undo(known);
    // It makes this one itself.
    undo.extend(folder_undo(Path::new("/run/ganesha")));
    undo.extend(program_undo(&folder(), PROGRAM));
    Ok(undo)
}

/// Refuses to start a server where one answers.
///
/// # Errors
/// Where something answers on the port of NFS.
pub fn port_is_free() -> Result<(), LabError> {
    if servers::answers(PORT) {
        return Err(LabError::Refused(format!(
            "no server is started: something answers on port {PORT} already"
        )));
    }
    Ok(())
}

/// Waits until it serves, and reads it back.
///
/// # Errors
/// Where it doesn't come up, with the end of its log.
pub fn check(
    directory: &Path,
    threads: u32,
    versions: &[NfsVersion],
) -> Result<EffectiveSettings, LabError> {
    let (folder, source) = (folder(), "NULL call to port 2049");
    let major = if offers(versions, 4) { 4 } else { 3 };
    let link = folder.join(PROGRAM);
    let is_up = || servers::serves(PORT, major);
    servers::await_up("NFS-Ganesha", &link, &folder.join("log"), PATIENCE, is_up)?;
    let mut findings = Findings::new("server");
    let version = Runner::default().run(&[PROGRAM, "-v"], SOON).unwrap_or_default();
    let version = version.lines().next().unwrap_or("unknown").to_owned();
    findings.fact("server", version, "ganesha.nfsd -v");
    findings.fact("export", directory.display().to_string(), "ganesha.conf");
    for major in [3, 4] {
        let word = |yes: bool| if yes { "served" } else { "not served" };
        let (requested, found) = (offers(versions, major), servers::serves(PORT, major));
        findings.compare(&format!("NFS v{major}"), word(requested), word(found), source);
    }
    if threads != 0 {
        findings.fact("threads asked of Ganesha", threads.to_string(), "ganesha.conf");
    }
    let pid = processes::running_by(&link).first().copied().unwrap_or_default();
    let tasks = format!("/proc/{pid}/task");
    let count = fs::read_dir(&tasks).map_or(0, Iterator::count);
    findings.fact("threads of Ganesha, all kinds", count.to_string(), tasks);
    Ok(findings.done())
}

fn folder() -> PathBuf {
    Path::new(RUN).join("ganesha")
}

fn offers(versions: &[NfsVersion], major: u32) -> bool {
    versions.is_empty() || versions.iter().any(|version| version.major() == major)
}

fn configuration(directory: &Path, threads: u32, versions: &[NfsVersion]) -> String {
    let (folder, directory) = (folder(), directory.display());
    let folder = folder.display();
    let protocols: Vec<&str> = [(3, "3"), (4, "4")]
        .into_iter()
        .filter(|(major, _)| offers(versions, *major))
        .map(|(_, name)| name)
        .collect();
    let protocols = protocols.join(", ");
    let minor: Vec<u32> = if versions.is_empty() {
        vec![0, 1, 2]
    } else {
        versions.iter().filter_map(|version| version.minor()).collect()
    };
    let minor = minor.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let minor = if minor.is_empty() { String::new() } else { format!("Minor_Versions = {minor};") };
    let plugins =
        plugins().map_or_else(String::new, |path| format!("Plugins_Dir = \"{}\";", path.display()));
    let workers = if threads == 0 {
        String::new()
    } else {
        format!(
            "_9P {{ Nb_Worker = {threads}; }}\nNFS_CORE_PARAM {{ RPC_Ioq_ThrdMax = {threads}; }}\n"
        )
    };
    format!(
        r#"NFS_CORE_PARAM {{
  NFS_Port = {PORT}; MNT_Port = {MOUNT_PORT}; NFS_Protocols = {protocols};
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

/// Returns the folder of its plugins: its own default is no folder of Debian's.
fn plugins() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten().map(|folder| folder.path());
    let mut folders = folders.map(|folder| folder.join("ganesha"));
    folders.find(|folder| folder.join("libfsalvfs.so").exists())
}
