//! The files of a package, at the paths where distributions look for them.
//!
//! Packages, image and archive are made from one [`Tree`]. Each kind of package adds the files that
//! only it has.
//!
//! **Source:** Filesystem Hierarchy Standard 3.0; Debian Policy 4.7, chapter 12.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::linked::LinkedCode;
use super::program::Program;
use super::tree::{Tree, gzip, xz};
use super::{Release, list_files, notices, read, sbom};

/// Directory of the documentation other than manual pages.
pub const DOC: &str = "usr/share/doc/dfsbench";
/// The systemd unit of the server.
const UNIT: &str = "dfsbench-serve.service";
/// Directories of plans and similar files that are installed unchanged, if the repository has them.
const DATA: [&str; 2] = ["presets", "systems"];

/// Puts every file in its place.
pub fn stage(
    release: &Release,
    program: &Program,
    linked: &LinkedCode,
    sources: &Path,
) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.add_program("usr/bin/dfsbench", program.stripped.clone());
    for (name, page) in &program.pages {
        tree.add_file(&format!("usr/share/man/man1/{name}.gz"), gzip(page)?);
    }
    for (shell, script) in &program.completions {
        tree.add_file(completion_path(shell), script.clone());
    }
    for folder in DATA {
        let from = sources.join(folder);
        if from.is_dir() {
            for path in list_files(&from)? {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                tree.add_file(&format!("usr/share/dfsbench/{folder}/{name}"), fs::read(&path)?);
            }
        }
    }
    let unit = read(sources, &format!("packaging/{UNIT}"))?;
    tree.add_file(&format!("usr/lib/systemd/system/{UNIT}"), unit);
    for name in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        tree.add_file(&format!("{DOC}/{name}"), read(sources, name)?);
    }
    // The name used by Debian, which apt and other tools expect.
    tree.add_file(&format!("{DOC}/changelog.gz"), gzip(&read(sources, "CHANGELOG.md")?)?);
    let text = notices::render(linked, sources)?;
    tree.add_file(&format!("{DOC}/THIRD-PARTY.txt.gz"), gzip(text.as_bytes())?);
    let bill = sbom::render(release, linked)?;
    tree.add_file(&format!("{DOC}/dfsbench.cdx.json.gz"), gzip(bill.as_bytes())?);
    Ok(tree)
}

fn completion_path(shell: &str) -> &'static str {
    match shell {
        "bash" => "usr/share/bash-completion/completions/dfsbench",
        "fish" => "usr/share/fish/vendor_completions.d/dfsbench.fish",
        // Where zsh itself looks; Debian's zsh looks there, too.
        _ => "usr/share/zsh/site-functions/_dfsbench",
    }
}

/// Writes the archive for systems without packages.
pub fn write_archive(release: &Release, tree: &Tree, folder: &Path) -> Result<()> {
    let archive = archive(release, tree)?;
    fs::write(folder.join(format!("{}.tar.xz", release.stem())), archive)?;
    Ok(())
}

/// Packs the same files for systems without packages, to be unpacked at `/usr/local` or anywhere.
fn archive(release: &Release, tree: &Tree) -> Result<Vec<u8>> {
    let mut archive = Tree::default();
    for (path, bytes) in tree.files() {
        let below = path.strip_prefix("usr/").unwrap_or(path);
        let path = format!("{}/{below}", release.stem());
        if below == "bin/dfsbench" {
            archive.add_program(&path, bytes);
        } else {
            archive.add_file(&path, bytes);
        }
    }
    xz(&archive.to_tar(release.epoch)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    #[test]
    fn has_place_for_every_file() {
        let release =
            Release { version: "1.2.3".to_owned(), epoch: 86_400, commit: "0".repeat(40) };
        let program = Program {
            stripped: b"program".to_vec(),
            pages: vec![("dfsbench-run.1".to_owned(), b".TH".to_vec())],
            completions: vec![("bash", b"b".to_vec()), ("fish", b"f".to_vec()), ("zsh", vec![])],
        };
        let tree = stage(&release, &program, &LinkedCode::default(), &repo::root()).unwrap();
        let paths: Vec<&str> = tree.files().map(|(path, _)| path).collect();
        for path in [
            "usr/bin/dfsbench",
            "usr/lib/systemd/system/dfsbench-serve.service",
            "usr/share/bash-completion/completions/dfsbench",
            "usr/share/dfsbench/presets/quick.toml",
            "usr/share/doc/dfsbench/LICENSE-MIT",
            "usr/share/doc/dfsbench/THIRD-PARTY.txt.gz",
            "usr/share/doc/dfsbench/changelog.gz",
            "usr/share/doc/dfsbench/dfsbench.cdx.json.gz",
            "usr/share/fish/vendor_completions.d/dfsbench.fish",
            "usr/share/man/man1/dfsbench-run.1.gz",
            "usr/share/zsh/site-functions/_dfsbench",
        ] {
            assert!(paths.contains(&path), "{path} is missing among {paths:?}");
        }
        let unpacked = archive(&release, &tree).unwrap();
        assert_eq!(unpacked, archive(&release, &tree).unwrap());
    }
}
