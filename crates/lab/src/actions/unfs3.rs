//! unfs3, an NFS v3 server in user space, with one export.
//!
//! **Source:** unfsd(8): `-d` stays in the foreground, `-e` names the exports, `-p` doesn't
//! register with rpcbind, `-n` and `-m` are the ports.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::EffectiveSettings;

use super::ganesha::{PORT, port_is_free};
use super::nfsd::{MOUNT_PORT, rpcbind_steps, rpcbind_undo};
use super::{Known, program_undo};
use crate::error::LabError;
use crate::findings::Findings;
use crate::step::Step;
use crate::undo::Undo;
use crate::{RUN, commands, packages, safety, servers};

const PROGRAM: &str = "unfsd";
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes its exports and starts it.
pub fn steps(directory: &Path, clients: &str, known: &Known) -> Vec<Step> {
    let folder = folder();
    let exports = folder.join("exports");
    let each = |client: &str| format!(" {client}(rw,no_root_squash,insecure)");
    let clients: String = clients.split_whitespace().map(each).collect();
    let text = format!("\"{}\"{clients}\n", directory.display());
    let (port, mount_port) = (PORT.to_string(), MOUNT_PORT.to_string());
    let exports_name = exports.display().to_string();
    let argv = [PROGRAM, "-d", "-e", &exports_name, "-n", &port, "-m", &mount_port];
    let mut steps = rpcbind_steps(known);
    steps.extend([
        Step::Folder(folder.clone()),
        Step::File { path: exports, text },
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
/// Where its port is taken, it is missing, or the directory must not be exported.
pub fn undo(directory: &Path, known: &Known) -> Result<Vec<Undo>, LabError> {
    if commands::find(PROGRAM).is_none() {
        return Err(packages::missing(PROGRAM));
    }
    safety::may_export(directory)?;
    port_is_free()?;
    let mut undo = rpcbind_undo(known);
    undo.extend(program_undo(&folder(), PROGRAM));
    Ok(undo)
}

/// Waits until it serves.
///
/// # Errors
/// Where it doesn't come up.
pub fn check(directory: &Path) -> Result<EffectiveSettings, LabError> {
    let folder = folder();
    let link = folder.join(PROGRAM);
    let is_up = || servers::serves(PORT, 3);
    servers::await_up("unfs3", &link, &folder.join("log"), PATIENCE, is_up)?;
    let mut findings = Findings::new("server");
    findings.fact("server", "unfs3", "unfsd");
    findings.fact(
        "export",
        directory.display().to_string(),
        folder.join("exports").display().to_string(),
    );
    findings.fact("NFS v3", "served", "NULL call to port 2049");
    Ok(findings.done())
}

fn folder() -> PathBuf {
    Path::new(RUN).join("unfs3")
}
