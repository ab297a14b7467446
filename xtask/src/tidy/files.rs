//! Finds the source files for the rules.
//!
//! Main type: [`SourceFile`]. Looks in `crates/`, `checks/`, `xtask/` and `fuzz/`; build output and
//! vendored code are never entered.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::source::Source;

const FOLDERS: [&str; 4] = ["crates", "checks", "xtask", "fuzz"];

/// Directories next to a manifest with build output, or with a fuzzer's findings.
const SKIPPED: [&str; 3] = ["target", "regressions", "artifacts"];

/// Directories that contain only test code.
const TESTS: [&str; 3] = ["tests", "benches", "fuzz_targets"];

/// One source file of the repository.
pub struct SourceFile {
    /// Path from the root, with `/`.
    pub path: String,
    /// The crate it belongs to.
    pub krate: String,
    /// Whether all of it is test code (`tests/`, `benches/`, `tests.rs` ...).
    pub is_test: bool,
    /// Its text, and which parts are code.
    pub source: Source,
}

impl SourceFile {
    /// Creates the file at `path` from a text.
    pub fn new(path: &str, text: &str) -> Self {
        let mut parts = path.split('/');
        let krate = match parts.next() {
            Some("crates") => parts.next().unwrap_or_default(),
            other => other.unwrap_or_default(),
        };
        let folder = path.split('/').any(|part| TESTS.contains(&part));
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_test = folder || name == "tests.rs" || name.ends_with("_tests.rs");
        let source = Source::new(text);
        Self { path: path.to_owned(), krate: krate.to_owned(), is_test, source }
    }
}

/// Returns all our `.rs` files, sorted by path.
pub fn sources(root: &Path) -> Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        collect(&root.join(folder), &mut paths)?;
    }
    let mut files = Vec::new();
    for path in paths {
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
        files.push(SourceFile::new(&name, &text));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Returns the files below `src` that aren't all tests, by crate.
pub fn product_code_by_crate(files: &[SourceFile]) -> BTreeMap<&str, Vec<&SourceFile>> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in files {
        if !file.is_test && file.path.contains("/src/") {
            crates.entry(&file.krate).or_default().push(file);
        }
    }
    crates
}

/// Returns the paths, from the root, of pages for people.
pub fn pages(root: &Path) -> Result<Vec<String>> {
    let mut pages = vec!["CONTRIBUTING.md".to_owned(), "README.md".to_owned()];
    for folder in ["docs", "docs/design", "docs/tutorial"] {
        for entry in fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            if path.extension() == Some("md".as_ref()) {
                pages.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// Collects the `.rs` files below a directory.
///
/// A directory with a name in [`SKIPPED`] is skipped only where cargo or a fuzzer creates it: at
/// the root of a package or workspace. Elsewhere it is a module, such as `target` in `engine`.
fn collect(folder: &Path, paths: &mut Vec<std::path::PathBuf>) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    let is_package = folder.join("Cargo.toml").exists();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let skipped = is_package && SKIPPED.contains(&name.to_str().unwrap_or_default());
        if entry.file_type()?.is_dir() {
            if !skipped {
                collect(&path, paths)?;
            }
        } else if path.extension() == Some("rs".as_ref()) {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{SourceFile, sources};

    #[test]
    fn skips_only_build_folders() {
        let root = tempfile::TempDir::new().unwrap();
        for (path, text) in [
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", ""),
            ("crates/a/src/target/nfs.rs", ""),
            ("crates/a/target/built.rs", ""),
            ("fuzz/Cargo.toml", ""),
            ("fuzz/regressions/a/found.rs", ""),
            ("fuzz/target/debug/build/out.rs", ""),
            ("fuzz/src/corpus/reader.rs", ""),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = sources(root.path()).unwrap();
        let paths: Vec<&str> = found.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            ["crates/a/src/lib.rs", "crates/a/src/target/nfs.rs", "fuzz/src/corpus/reader.rs"]
        );
    }

    #[test]
    fn classifies_crates_and_tests() {
        let file = SourceFile::new("crates/nfs-proto/src/rpc.rs", "");
        assert_eq!((file.krate.as_str(), file.is_test), ("nfs-proto", false));
        assert!(SourceFile::new("crates/plan/tests/golden.rs", "").is_test);
        assert!(SourceFile::new("crates/plan/src/matrix/tests.rs", "").is_test);
        assert_eq!(SourceFile::new("xtask/src/main.rs", "").krate, "xtask");
    }
}
