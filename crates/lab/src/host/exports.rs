//! The export table of the kernel's NFS server. **Source:** exportfs(8), exports(5).

use std::path::Path;

use crate::commands::{Runner, SOON};
use crate::error::LabError;

/// One entry of the export table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    pub directory: String,
    /// Who may mount it.
    pub clients: String,
    pub options: Vec<String>,
}

impl Export {
    /// Returns true if this is an export of the directory to the given client.
    pub(crate) fn is_to(&self, directory: &Path, client: &str) -> bool {
        self.is_of(directory) && self.clients == translate_clients(client)
    }

    /// Returns true if this is an export of the directory.
    pub(crate) fn is_of(&self, directory: &Path) -> bool {
        Path::new(&self.directory) == directory
    }
}

/// Returns the names that exportfs uses for an export, one per client.
pub(crate) fn names(directory: &Path, clients: &str) -> Vec<String> {
    clients.split_whitespace().map(|client| format!("{client}:{}", directory.display())).collect()
}

/// Reads the export table.
///
/// # Errors
/// If exportfs fails.
pub(crate) fn list(runner: &Runner) -> Result<Vec<Export>, LabError> {
    Ok(parse(&runner.run(&["exportfs", "-v"], SOON)?))
}

/// Translates `*` to the word that exportfs prints for it.
fn translate_clients(clients: &str) -> &str {
    if clients == "*" { "<world>" } else { clients }
}

/// Parses `directory clients(options)`. A long directory is on a line of its own.
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
        let Some((clients, options)) = rest.split_once('(') else { continue };
        let Some(options) = options.strip_suffix(')') else { continue };
        let options = options.split(',').map(str::to_owned).collect();
        exports.push(Export {
            directory: directory.to_owned(),
            clients: clients.to_owned(),
            options,
        });
    }
    exports
}

/// Removes our export for all clients that still have it, and flushes the kernel's export cache.
///
/// # Errors
/// If exportfs fails.
pub(crate) fn withdraw(runner: &Runner, directory: &Path, clients: &str) -> Result<(), LabError> {
    let all = list(runner)?;
    let mut argv = vec!["exportfs".to_owned(), "-u".to_owned(), "--".to_owned()];
    let options = argv.len();
    // exportfs fails for clients whose export was already removed, perhaps by another program.
    for client in clients.split_whitespace() {
        if all.iter().any(|export| export.is_to(directory, client)) {
            argv.extend(names(directory, client));
        }
    }
    // `exportfs -u` needs at least one name, and there is nothing left to remove.
    if argv.len() == options {
        return Ok(());
    }
    runner.run(&argv, SOON)?;
    // Otherwise the kernel's cache, which a late answer from mountd may have refreshed, keeps the
    // file system busy for up to 30 s (seen with 5.10). Other exports are reloaded on demand.
    runner.run(&["exportfs", "-f"], SOON)?;
    Ok(())
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
        assert_eq!(found[1].clients, translate_clients("*"));
        assert_eq!(parse("garbage\n(\n)\n/x\n"), []);
    }
}
