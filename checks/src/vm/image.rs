//! Images of guests: Debian's own packages, made into a root disk, a kernel and an initramfs.
//!
//! Principal type: [`Image`]. An image is known by its suite and a fingerprint of `lab-image/`, so
//! that a changed recipe makes a new one and nothing else does. Images lie below
//! `$XDG_CACHE_HOME/dfsbench/vm`, where that is set and so clones can share them, else below
//! `target/vm/images`. A second process waits for the first to finish.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::machine::{Suite, compute_fingerprint};
use crate::{proc, repo};

/// Rises where an image comes out otherwise from the same recipe.
const EDITION: u8 = 1;
/// How long one attempt at an image may take, downloads and all, in seconds.
const BUILD_MAX_S: &str = "600";
/// Attempts: package archives fail now and then.
const ATTEMPTS: u32 = 2;
/// Size of a guest's root disk; the file is sparse.
const ROOT_DISK_BYTES: u64 = 1 << 30;
const ARCHIVE: &str = "http://deb.debian.org/debian/";
/// Not part of the recipe.
const README: &str = "README.md";

/// A finished image.
#[derive(Clone, Debug)]
pub struct Image {
    /// Holds `root.img`, `vmlinuz` and `initrd`.
    pub folder: PathBuf,
}

/// Returns the image of a suite, and makes it where there is none.
///
/// # Errors
/// Where it can't be made: no archive answers, or we aren't root.
pub fn find_or_make(suite: Suite) -> Result<Image> {
    let cache = cache_folder();
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let recipe = fingerprint_of_recipe(&recipe_folder())?;
    let folder = cache.join(format!("{}-{recipe:016x}", suite.name()));
    let lock = File::create(cache.join(format!("{}.lock", suite.name())))?;
    lock.lock().context("cannot lock the folder of images")?;
    if !folder.exists() {
        eprintln!("vm: making {}", folder.display());
        let unfinished = cache.join(format!("{}-unfinished", suite.name()));
        make_image(suite, &unfinished)?;
        fs::rename(&unfinished, &folder)?;
    }
    Ok(Image { folder })
}

/// Returns the folder that images are kept in.
pub(super) fn cache_folder() -> PathBuf {
    match env::var_os("XDG_CACHE_HOME") {
        Some(shared) if !shared.is_empty() => PathBuf::from(shared).join("dfsbench/vm"),
        _ => repo::target_folder().join("vm/images"),
    }
}

fn recipe_folder() -> PathBuf {
    repo::root().join("lab-image")
}

/// Returns a number for the whole recipe, by name and content.
fn fingerprint_of_recipe(folder: &Path) -> Result<u64> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name != README {
            files.push((name.into_bytes(), fs::read(&path)?));
        }
    }
    files.sort_unstable();
    let edition: &[u8] = &[EDITION];
    let mut pieces = vec![edition];
    for (name, content) in &files {
        pieces.extend([&name[..], &content[..]]);
    }
    Ok(compute_fingerprint(pieces))
}

/// Makes an image in a folder that isn't there, or holds the rest of an attempt that failed.
fn make_image(suite: Suite, folder: &Path) -> Result<()> {
    for attempt in 1.. {
        match make_once(suite, folder) {
            Err(error) if attempt < ATTEMPTS => eprintln!("vm: {error:#}\nvm: again"),
            result => {
                return result.with_context(|| format!("no image of {}", suite.name()));
            }
        }
    }
    Ok(())
}

fn make_once(suite: Suite, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder)?;
    let tree = folder.join("root");
    proc::capture_stdout(&mut bootstrap_command(suite, folder, &tree)?)?;
    let disk = folder.join("root.img");
    File::create(&disk)?.set_len(ROOT_DISK_BYTES)?;
    let mut format = Command::new("mke2fs");
    format.args(["-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d"]);
    proc::capture_stdout(format.arg(&tree).arg(&disk))?;
    fs::remove_dir_all(&tree).with_context(|| format!("cannot remove {}", tree.display()))
}

/// Returns the command that makes the tree of files of a guest.
///
/// `timeout` passes its signal on to the whole family, so nothing is left of an attempt that
/// takes too long.
fn bootstrap_command(suite: Suite, folder: &Path, tree: &Path) -> Result<Command> {
    let recipe = recipe_folder();
    let list = fs::read_to_string(recipe.join("packages")).context("lab-image/packages")?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=20", BUILD_MAX_S, "mmdebstrap", "--quiet", "--mode=root"]);
    command.args(["--variant=minbase", "--aptopt=APT::Install-Recommends \"false\""]);
    command.args(["--aptopt=Acquire::Retries \"3\"", "--aptopt=Acquire::http::Timeout \"30\""]);
    for idle in ["doc", "man", "locale", "zoneinfo"] {
        command.arg(format!("--dpkgopt=path-exclude=/usr/share/{idle}/*"));
    }
    command.arg(format!("--include={}", read_packages(&list, suite).join(",")));
    let finish = recipe.join("finish-root.sh");
    command.arg(format!("--customize-hook={} \"$1\"", finish.display()));
    command.arg(suite.name()).arg(tree).arg(format!(
        "deb {} {} main",
        find_archive(),
        suite.name()
    ));
    command.env("LAB_IMAGE", &recipe).env("OUT", folder);
    Ok(command)
}

/// Returns the packages that a suite gets, of lines such as `openssl trixie bookworm`.
fn read_packages(list: &str, suite: Suite) -> Vec<&str> {
    let mut wanted = Vec::new();
    for line in list.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [package, suites @ ..] = words.as_slice() else { continue };
        let is_comment = package.starts_with('#');
        if !is_comment && (suites.is_empty() || suites.contains(&suite.name())) {
            wanted.push(*package);
        }
    }
    wanted
}

/// Returns the archive of Debian that this machine's apt uses, if it uses one.
///
/// **Source:** apt-get(8), `indextargets`.
fn find_archive() -> String {
    let mut ask = Command::new("apt-get");
    ask.args(["indextargets", "--format", "$(REPO_URI)", "Label: Debian", "Created-By: Packages"]);
    let text = proc::capture_text(&mut ask).unwrap_or_default();
    text.lines().next().map_or(ARCHIVE, str::trim).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_may_be_for_some_suites_only() {
        let list = "# comment\na\nb trixie bookworm\n\nc bullseye\n";
        assert_eq!(read_packages(list, Suite::Trixie), ["a", "b"]);
        assert_eq!(read_packages(list, Suite::Bullseye), ["a", "c"]);
    }

    #[test]
    fn a_changed_recipe_is_another_and_a_changed_readme_is_not() {
        let folder = tempfile::TempDir::new().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("packages", "a\n");
        let before = fingerprint_of_recipe(folder.path()).unwrap();
        write(README, "words");
        assert_eq!(fingerprint_of_recipe(folder.path()).unwrap(), before);
        write("packages", "b\n");
        assert_ne!(fingerprint_of_recipe(folder.path()).unwrap(), before);
    }
}
