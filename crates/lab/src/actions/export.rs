//! An export of the kernel's NFS server. **Source:** exportfs(8), exports(5).
//!
//! We only ever unexport our own exports. A directory that is already exported is left alone.

use std::path::{Path, PathBuf};

use model::EffectiveSettings;
use model::action::Export;
use model::options::{check_clients, check_export_options, check_path};

use super::accept::accept;
use super::{LabAction, Layer, mount_needs};
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::commands::Runner;
use crate::error::LabError;
use crate::host::{exports, safety};
use crate::undo::Undo;

const SOURCE: &str = "exportfs -v";
/// Options that exportfs doesn't list when they are on. **Source:** exports(5).
const NOT_LISTED: [&str; 5] = ["auth_nlm", "secure_locks", "acl", "nohide", "crossmnt"];

impl LabAction for Export {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        accept("directory", check_path(&self.directory))?;
        accept("clients", check_clients(&self.clients))?;
        accept("export_options", check_export_options(&self.options))
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        let mut argv = vec!["exportfs".to_owned()];
        if !self.options.is_empty() {
            argv.extend(["-o".to_owned(), self.options.join(",")]);
        }
        argv.push("--".to_owned());
        argv.extend(exports::names(&self.directory, &self.clients));
        vec![Step::run(argv)]
    }

    /// Removes the export. Fails if the directory must not be exported or already is, or a program
    /// that the options need is missing.
    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        safety::may_export(&self.directory)?;
        mount_needs::check_server(&self.options)?;
        for export in exports::list(&Runner::default())? {
            if export.is_of(&self.directory) {
                let directory = self.directory.display();
                let clients = &export.clients;
                return Err(LabError::Refused(format!(
                    "{directory} is already exported to {clients}, and not by dfsbench"
                )));
            }
        }
        Ok(vec![Undo::Export { directory: self.directory.clone(), clients: self.clients.clone() }])
    }

    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let directory = self.directory.display();
        let all = exports::list(&Runner::default())?;
        let mut findings = Findings::new("server");
        findings.fact("export", format!("{}:{directory}", self.clients), SOURCE);
        // All clients usually have the same options, so report each distinct set only once.
        let mut compared: Vec<&[String]> = Vec::new();
        for client in self.clients.split_whitespace() {
            let Some(found) = all.iter().find(|it| it.is_to(&self.directory, client)) else {
                return Err(LabError::Unable(format!("{directory} is not exported to {client}")));
            };
            if !compared.contains(&found.options.as_slice()) {
                compared.push(&found.options);
                compare(&found.options, &self.options, &mut findings);
            }
        }
        Ok(findings.finish())
    }

    fn served(&self) -> Option<&Path> {
        Some(&self.directory)
    }

    fn layer(&self) -> Layer {
        Layer::Export
    }
}

/// Compares the listed options of an export with the requested ones.
fn compare(listed: &[String], requested: &[String], findings: &mut Findings) {
    findings.fact("export options", listed.join(","), SOURCE);
    for option in requested {
        let name = name_of(option);
        if listed.contains(option) || NOT_LISTED.contains(&name) {
            continue;
        }
        let same = listed.iter().find(|listed| name_of(listed) == name);
        let found = if let Some(same) = same { same.as_str() } else { "not listed" };
        findings.add_difference(name, option, found, SOURCE);
    }
}

fn name_of(option: &str) -> &str {
    option.split('=').next().unwrap_or_default()
}
