//! Compares the paths that a program created, as seen by strace, with the table in
//! `docs/leftovers.md`.
//!
//! [`read`] takes the files of `strace -ff -y`, one per thread. Words in capitals in a path of the
//! table are placeholders; [`Table`] has the values of some of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// System calls that create a name.
pub const TRACED: &str = "trace=open,openat,creat,mkdir,mkdirat,symlink,symlinkat,link,linkat,\
    rename,renameat,renameat2,mknod,mknodat,bind";

/// Reads the paths created by a program that ran in `current`, leaving out the kernel's own file
/// systems.
pub fn read(folder: &Path, prefix: &str, current: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut paths = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        for line in fs::read_to_string(entry.path())?.lines() {
            paths.extend(made_by(line).map(|path| current.join(path)));
        }
    }
    paths.retain(|path| !["/dev", "/proc", "/sys"].iter().any(|top| path.starts_with(top)));
    Ok(paths)
}

/// The path that a call created; `None` if it failed or created none.
fn made_by(line: &str) -> Option<PathBuf> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    if result.starts_with('-') || result.starts_with('?') {
        return None;
    }
    match name {
        "open" | "openat" | "creat" => {
            let is_new = name == "creat" || arguments.contains("O_CREAT");
            if !is_new || arguments.contains("O_TMPFILE") {
                return None;
            }
            // strace prints the opened file next to its descriptor.
            let path = result.split_once('<')?.1.trim_end_matches('>');
            Some(PathBuf::from(path.trim_end_matches(" (deleted)")))
        }
        "bind" => {
            let path = arguments.split_once("sun_path=\"")?.1.split_once('"')?.0;
            path.starts_with('/').then(|| PathBuf::from(path))
        }
        // The last name in a call is the new one.
        _ => {
            let (before, rest) = arguments.rsplit_once('"')?.0.rsplit_once('"')?;
            let folder = before.rsplit_once('<').and_then(|(_, at)| at.split_once('>'));
            let folder = folder.map_or("", |(path, _)| path);
            Some(Path::new(folder).join(rest))
        }
    }
}

/// The paths of the table.
pub struct Table {
    patterns: Vec<String>,
    /// Paths of this machine with their placeholders, longest first.
    known: Vec<(String, String)>,
}

impl Table {
    /// Parses the table of a page; `known` has the placeholders for paths of this machine.
    pub fn parse(page: &str, known: &[(&str, &str)]) -> Result<Self> {
        let mut patterns = Vec::new();
        for line in page.lines() {
            let Some(path) = line.strip_prefix("| `").and_then(|rest| rest.split_once('`')) else {
                continue;
            };
            let mut pattern = path.0.to_owned();
            for (word, _) in known {
                pattern = pattern.replace(word, &marker(word));
            }
            patterns.push(pattern);
        }
        patterns.first().context("the page has no table of paths")?;
        let mut known: Vec<(String, String)> =
            known.iter().map(|(word, path)| ((*path).to_owned(), marker(word))).collect();
        known.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Ok(Self { patterns, known })
    }

    /// Returns the row of a path; `None` if there is none.
    pub fn find(&self, path: &Path) -> Option<&str> {
        let mut path = path.to_str()?.to_owned();
        for (known, marker) in &self.known {
            if let Some(rest) = path.strip_prefix(known.as_str()) {
                path = format!("{marker}{rest}");
                break;
            }
        }
        self.patterns.iter().map(String::as_str).find(|pattern| fits(pattern, &path))
    }
}

/// Returns the text that replaces a placeholder in patterns and paths; no real name contains it.
fn marker(word: &str) -> String {
    format!("<{}>", word.to_lowercase())
}

/// Returns true if a path matches a pattern: a word in capitals is any text without a slash, three
/// dots are anything.
fn fits(pattern: &str, path: &str) -> bool {
    if let Some(above) = pattern.strip_suffix("...") {
        let depth = above.matches('/').count();
        let Some((end, _)) = path.match_indices('/').nth(depth - 1) else { return false };
        return path.len() > end + 1 && fits(above, &path[..=end]);
    }
    let mut rest = path;
    let mut parts = pattern.split(|c: char| c.is_ascii_uppercase()).peekable();
    let Some(first) = parts.next() else { return false };
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    let mut is_word = false;
    for part in parts {
        is_word = true;
        if part.is_empty() {
            continue;
        }
        let Some(at) = rest.find(part) else { return false };
        if rest[..at].contains('/') || at == 0 {
            return false;
        }
        rest = &rest[at + part.len()..];
        is_word = false;
    }
    if is_word { !rest.is_empty() && !rest.contains('/') } else { rest.is_empty() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_calls_that_create_names() {
        let made = |line: &str| made_by(line).map(|path| path.display().to_string());
        let opened = "openat(4</w>, \"a\", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 5</w/a>";
        assert_eq!(made(opened).as_deref(), Some("/w/a"));
        assert_eq!(made("openat(4</w>, \"a\", O_RDWR) = 5</w/a>"), None);
        assert_eq!(made("openat(4</w>, \".\", O_RDWR|O_TMPFILE, 0600) = 5</w/#7 (deleted)>"), None);
        let directory = "mkdirat(5</w/x>, \"b\", 0777) = 0";
        assert_eq!(made(directory).as_deref(), Some("/w/x/b"));
        assert_eq!(made("mkdir(\"/w/c\", 0777) = 0").as_deref(), Some("/w/c"));
        assert_eq!(made("mkdir(\"/w/c\", 0777) = -1 EEXIST (File exists)"), None);
        let renamed = "renameat(5</w>, \"a\", 6</v>, \"d\") = 0";
        assert_eq!(made(renamed).as_deref(), Some("/v/d"));
        let bound = "bind(7<UNIX:[3]>, {sa_family=AF_UNIX, sun_path=\"/t/s\"}, 110) = 0";
        assert_eq!(made(bound).as_deref(), Some("/t/s"));
    }

    #[test]
    fn matches_wildcards_in_paths() {
        let page = "| path | what |\n|---|---|\n| `TARGET/.dfsbench-CAMPAIGN-N` | a |\n\
                    | `TARGET/.dfsbench-CAMPAIGN-N/...` | b |\n| `RESULTS-wal` | c |\n";
        let table = Table::parse(page, &[("TARGET", "/t"), ("RESULTS", "/r.db")]).unwrap();
        let row = |path: &str| table.find(Path::new(path));
        assert_eq!(row("/t/.dfsbench-ab-1"), Some("<target>/.dfsbench-CAMPAIGN-N"));
        assert_eq!(row("/t/.dfsbench-ab-1/f/g"), Some("<target>/.dfsbench-CAMPAIGN-N/..."));
        assert_eq!(row("/r.db-wal"), Some("<results>-wal"));
        for stranger in ["/t/x", "/t/.dfsbench-ab", "/t/.other-1/f", "/r.db-shm", "/r.db-wal2"] {
            assert_eq!(row(stranger), None, "{stranger}");
        }
        assert!(Table::parse("no table", &[]).is_err());
    }
}
