//! unfs3, a user-space NFS v3 server, with one export.
//!
//! **Source:** unfsd(8): `-d` keeps it in the foreground, `-e` names the exports file, `-p`
//! disables registration with rpcbind, and `-n` and `-m` set the ports.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::EffectiveSettings;
use model::action::Unfs3;
use model::lab::NFS_PORT;
use model::options::{check_clients, check_quotable_path};

use super::accept::accept;
use super::ganesha::port_is_free;
use super::rpcbind::Rpcbind;
use super::{LabAction, Layer, program_undo};
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::{RunAs, packages};
use crate::error::LabError;
use crate::host::nfsd::MOUNT_PORT;
use crate::host::{safety, servers};
use crate::undo::Undo;
use crate::{RUN, commands};

const PROGRAM: &str = "unfsd";
const PATIENCE: Duration = Duration::from_secs(20);

impl LabAction for Unfs3 {
    type Facts = Rpcbind;

    fn accept(&self) -> Result<(), LabError> {
        accept("directory", check_quotable_path(&self.directory))?;
        accept("clients", check_clients(&self.clients))
    }

    fn look(&self) -> Result<Rpcbind, LabError> {
        Ok(Rpcbind::look())
    }

    fn assume(&self) -> Rpcbind {
        Rpcbind::Missing
    }

    fn steps(&self, rpcbind: &Rpcbind) -> Vec<Step> {
        let folder = folder();
        let exports = folder.join("exports");
        let mut text = format!("\"{}\"", self.directory.display());
        for client in self.clients.split_whitespace() {
            text.extend([" ", client, "(rw,no_root_squash,insecure)"]);
        }
        text.push('\n');
        let port = NFS_PORT.to_string();
        let mount_port = MOUNT_PORT.to_string();
        let exports_name = exports.display().to_string();
        let argv = [PROGRAM, "-d", "-e", &exports_name, "-n", &port, "-m", &mount_port];
        let mut steps = rpcbind.steps();
        steps.extend([
            Step::Folder(folder.clone()),
            Step::File { path: exports, text },
            Step::Start {
                link: folder.join(PROGRAM),
                argv: argv.map(str::to_owned).to_vec(),
                user: RunAs::Root,
            },
        ]);
        steps
    }

    /// Stops the server. Fails if its port is in use, it isn't installed, or the directory must not
    /// be exported.
    fn undo(&self, rpcbind: &Rpcbind, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        if commands::find(PROGRAM).is_none() {
            return Err(packages::missing(PROGRAM));
        }
        safety::may_export(&self.directory)?;
        port_is_free()?;
        let mut undo = rpcbind.undo();
        undo.extend(program_undo(&folder(), PROGRAM));
        Ok(undo)
    }

    /// Waits until the server is up. On failure, the error contains the end of its log.
    fn check(&self, _rpcbind: &Rpcbind) -> Result<EffectiveSettings, LabError> {
        let folder = folder();
        let link = folder.join(PROGRAM);
        servers::await_up("unfs3", &link, &folder.join("log"), PATIENCE, || {
            servers::serves(NFS_PORT, 3)
        })?;
        let mut findings = Findings::new("server");
        findings.fact("server", "unfs3", "unfsd");
        let exports = folder.join("exports").display().to_string();
        findings.fact("export", self.directory.display().to_string(), exports);
        findings.fact("NFS v3", "served", "NULL call to port 2049");
        Ok(findings.finish())
    }

    fn served(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn layer(&self) -> Layer {
        Layer::Server
    }
}

fn folder() -> PathBuf {
    Path::new(RUN).join("unfs3")
}
