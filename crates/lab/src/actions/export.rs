//! Exports of the kernel's NFS server.
//!
//! Only such that we made are ever taken back; a directory that somebody else exports is left
//! alone. **Source:** exportfs(8), exports(5).

use std::path::Path;

use model::InForce;

use crate::commands::{Runner, SOON};
use crate::error::LabError;
use crate::inforce::Findings;
use crate::safety;
use crate::step::Step;
use crate::undo::Undo;

const SOURCE: &str = "exportfs -v";
/// Options that exportfs leaves out of its list where they are on. **Source:** exports(5).
const NOT_LISTED: [&str; 5] = ["auth_nlm", "secure_locks", "acl", "nohide", "crossmnt"];

/// One line of the table of exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The directory.
    pub directory: String,
    /// Who may mount it.
    pub clients: String,
    /// Its options.
    pub options: Vec<String>,
}

/// Exports a directory.
pub fn steps(directory: &Path, clients: &str, options: &[String]) -> Vec<Step> {
    let mut argv = vec!["exportfs".to_owned()];
    if !options.is_empty() {
        argv.extend(["-o".to_owned(), options.join(",")]);
    }
    argv.push(format!("{clients}:{}", directory.display()));
    vec![Step::run(argv)]
}

/// Takes the export back.
///
/// # Errors
/// Where the directory must not be exported, or somebody exports it already.
pub fn undo(directory: &Path, clients: &str) -> Result<Vec<Undo>, LabError> {
    safety::may_export(directory)?;
    if let Some(export) = exports(&Runner::default())?.iter().find(|it| is_of(it, directory)) {
        let (directory, clients) = (directory.display(), &export.clients);
        return Err(LabError::Refused(format!(
            "{directory} is exported to {clients} already, and not by us"
        )));
    }
    let (directory, clients) = (directory.to_owned(), clients.to_owned());
    Ok(vec![Undo::Export { directory, clients }])
}

/// Takes an export of ours back.
///
/// # Errors
/// Where exportfs can't.
pub fn take_back(runner: &Runner, directory: &Path, clients: &str) -> Result<(), LabError> {
    let ours = |export: &Export| is_of(export, directory) && export.clients == world(clients);
    if exports(runner)?.iter().any(ours) {
        let name = format!("{clients}:{}", directory.display());
        runner.run(&["exportfs", "-u", name.as_str()], SOON)?;
    }
    Ok(())
}

/// Reads the export back.
///
/// # Errors
/// Where exportfs can't be asked.
pub fn check(directory: &Path, clients: &str, options: &[String]) -> Result<InForce, LabError> {
    let all = exports(&Runner::default())?;
    let found = all.iter().find(|it| is_of(it, directory) && it.clients == world(clients));
    let nothing =
        || LabError::Unable(format!("{} is not exported to {clients}", directory.display()));
    let export = found.ok_or_else(nothing)?;
    let mut findings = Findings::new("server");
    findings.fact("export", format!("{clients}:{}", export.directory), SOURCE);
    findings.fact("export options", export.options.join(","), SOURCE);
    for asked in options.iter().filter(|asked| !export.options.contains(asked)) {
        let name = asked.split('=').next().unwrap_or_default();
        if NOT_LISTED.contains(&name) {
            continue;
        }
        let same = |found: &&String| found.split('=').next() == Some(name);
        let found = export.options.iter().find(same).map_or("not listed", String::as_str);
        findings.differ(name, asked, found, SOURCE);
    }
    Ok(findings.done())
}

fn exports(runner: &Runner) -> Result<Vec<Export>, LabError> {
    Ok(parse(&runner.run(&["exportfs", "-v"], SOON)?))
}

fn is_of(export: &Export, directory: &Path) -> bool {
    Path::new(&export.directory) == directory
}

/// What exportfs calls everybody.
fn world(clients: &str) -> &str {
    if clients == "*" { "<world>" } else { clients }
}

/// Reads `directory clients(options)`; a long directory stands on a line of its own.
fn parse(text: &str) -> Vec<Export> {
    let mut exports = Vec::new();
    let mut directory = "";
    for line in text.lines() {
        let mut rest = line;
        if line.starts_with('/') {
            let end = line.find(['\t', ' ']).unwrap_or(line.len());
            (directory, rest) = line.split_at(end);
        }
        let rest = rest.trim();
        let Some((clients, options)) = rest.strip_suffix(')').and_then(|it| it.split_once('('))
        else {
            continue;
        };
        let options = options.split(',').map(str::to_owned).collect();
        let (directory, clients) = (directory.to_owned(), clients.to_owned());
        exports.push(Export { directory, clients, options });
    }
    exports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_exports_is_read() {
        let text = "/srv/a        \t10.0.0.0/24(sync,wdelay,hide,rw,root_squash)\n\
                    /srv/a/very/long/name\n\t\t<world>(async,wdelay,fsid=7,ro)\n";
        let found = parse(text);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].directory.as_str(), found[0].clients.as_str()),
            ("/srv/a", "10.0.0.0/24")
        );
        assert_eq!(found[0].options, ["sync", "wdelay", "hide", "rw", "root_squash"]);
        assert_eq!(found[1].directory, "/srv/a/very/long/name");
        assert_eq!(found[1].clients, world("*"));
        assert_eq!(parse("garbage\n(\n)\n/x\n"), []);
    }
}
