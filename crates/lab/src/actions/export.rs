//! Exports of the kernel's NFS server.
//!
//! Only such that we made are ever taken back; a directory that somebody else exports is left
//! alone. **Source:** exportfs(8), exports(5).

use std::path::Path;

use model::EffectiveSettings;

use crate::commands::{Runner, SOON};
use crate::error::LabError;
use crate::findings::Findings;
use crate::safety;
use crate::step::Step;
use crate::undo::Undo;

const SOURCE: &str = "exportfs -v";
/// Options that exportfs leaves out of its list where they are on. **Source:** exports(5).
const NOT_LISTED: [&str; 5] = ["auth_nlm", "secure_locks", "acl", "nohide", "crossmnt"];

/// One line of the table of exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Path of the directory.
    pub directory: String,
    /// Who may mount it.
    pub clients: String,
    /// Options of the export.
    pub options: Vec<String>,
}

/// Exports a directory.
pub fn steps(directory: &Path, clients: &str, options: &[String]) -> Vec<Step> {
    let mut argv = vec!["exportfs".to_owned()];
    if !options.is_empty() {
        argv.extend(["-o".to_owned(), options.join(",")]);
    }
    argv.push("--".to_owned());
    argv.extend(names(directory, clients));
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
    let all = exports(runner)?;
    let is_ours = |client: &&str| all.iter().any(|it| is_to(it, directory, client));
    let ours: Vec<&str> = clients.split_whitespace().filter(is_ours).collect();
    if ours.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = names(directory, &ours.join(" ")).collect();
    let argv = ["exportfs", "-u", "--"].into_iter().chain(names.iter().map(String::as_str));
    runner.run(&argv.collect::<Vec<_>>(), SOON).map(drop)
}

/// Reads the export back.
///
/// # Errors
/// Where exportfs can't be requested.
pub fn check(
    directory: &Path,
    clients: &str,
    options: &[String],
) -> Result<EffectiveSettings, LabError> {
    let all = exports(&Runner::default())?;
    let mut findings = Findings::new("server");
    findings.fact("export", format!("{clients}:{}", directory.display()), SOURCE);
    let mut told: Vec<&[String]> = Vec::new();
    for client in clients.split_whitespace() {
        let nothing =
            || LabError::Unable(format!("{} is not exported to {client}", directory.display()));
        let found = all.iter().find(|it| is_to(it, directory, client)).ok_or_else(nothing)?;
        // The same for all, as a rule.
        if !told.contains(&found.options.as_slice()) {
            told.push(&found.options);
            compare(found, options, &mut findings);
        }
    }
    Ok(findings.done())
}

/// Holds an export against what was requested.
fn compare(export: &Export, options: &[String], findings: &mut Findings) {
    findings.fact("export options", export.options.join(","), SOURCE);
    for requested in options.iter().filter(|requested| !export.options.contains(requested)) {
        let name = requested.split('=').next().unwrap_or_default();
        if NOT_LISTED.contains(&name) {
            continue;
        }
        let same = |found: &&String| found.split('=').next() == Some(name);
        let found = export.options.iter().find(same).map_or("not listed", String::as_str);
        findings.differ(name, requested, found, SOURCE);
    }
}

/// Returns exportfs's names of an export, one for each of its clients.
fn names(directory: &Path, clients: &str) -> impl Iterator<Item = String> {
    let clients = clients.split_whitespace();
    clients.map(move |client| format!("{client}:{}", directory.display()))
}

fn exports(runner: &Runner) -> Result<Vec<Export>, LabError> {
    Ok(parse(&runner.run(&["exportfs", "-v"], SOON)?))
}

fn is_to(export: &Export, directory: &Path, client: &str) -> bool {
    is_of(export, directory) && export.clients == world(client)
}

fn is_of(export: &Export, directory: &Path) -> bool {
    Path::new(&export.directory) == directory
}

/// Returns exportfs's word for all clients.
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
