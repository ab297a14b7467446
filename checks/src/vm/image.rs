//! Images of guests: Debian's own packages, made into a root disk, a kernel and an initramfs.
//!
//! Main type: [`Image`]. An image is identified by its suite and a fingerprint of `lab-image/`, so
//! only a changed recipe makes a new one. Images are below `$XDG_CACHE_HOME/dfsbench/vm` if that is
//! set, so that clones can share them, otherwise below `target/vm/images`. A second process waits
//! for the first to finish.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::machine::{Suite, compute_fingerprint};
use crate::{proc, repo};

/// Increased when the same recipe produces a different image.
const EDITION: u8 = 1;
/// Time limit for one attempt to make an image, including downloads, in seconds.
const BUILD_MAX_S: &str = "2400";
/// Number of attempts: package archives fail now and then.
const ATTEMPTS: u32 = 2;
const ARCHIVE: &str = "http://deb.debian.org/debian/";
/// Not part of the recipe.
const README: &str = "README.md";

/// A finished image.
#[derive(Clone, Debug)]
pub struct Image {
    /// Contains `root.img`, `vmlinuz` and `initrd`.
    pub folder: PathBuf,
}

/// Returns the image of a suite, building it if necessary.
///
/// # Errors
/// If it can't be built: no archive answers, or we aren't root.
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

/// Returns the directory in which images are kept.
pub(super) fn cache_folder() -> PathBuf {
    match env::var_os("XDG_CACHE_HOME") {
        Some(shared) if !shared.is_empty() => PathBuf::from(shared).join("dfsbench/vm"),
        _ => repo::target_folder().join("vm/images"),
    }
}

fn recipe_folder() -> PathBuf {
    repo::root().join("lab-image")
}

/// Returns a hash of the whole recipe, with names and contents.
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
    pieces.extend(files.iter().flat_map(|(name, content)| [&name[..], &content[..]]));
    Ok(compute_fingerprint(pieces))
}

/// Makes an image in a directory that doesn't exist, or has the remains of a failed attempt.
fn make_image(suite: Suite, folder: &Path) -> Result<()> {
    for attempt in 1.. {
        match make_once(suite, folder) {
            Err(error) if attempt < ATTEMPTS => eprintln!("vm: {error:#}\nvm: retrying"),
            result => {
                return result.with_context(|| format!("no image of {}", suite.name()));
            }
        }
    }
    Ok(())
}

fn make_once(suite: Suite, folder: &Path) -> Result<()> {
    remove_tree(folder)?;
    fs::create_dir_all(folder)?;
    let tree = folder.join("root");
    proc::capture_stdout(&mut bootstrap_command(suite, folder, &tree)?)?;
    let disk = folder.join("root.img");
    File::create(&disk)?.set_len(suite.root_disk_bytes())?;
    let mut format = Command::new("mke2fs");
    format.args(["-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d"]);
    proc::capture_stdout(format.arg(&tree).arg(&disk))?;
    remove_tree(&tree)
}

/// Removes a directory with its content, but nothing mounted in it.
///
/// An interrupted build leaves this machine's own /proc, /sys and /dev mounted in its tree: those
/// are unmounted first, since removal would descend into them.
///
/// # Errors
/// If something can't be unmounted: then nothing is removed.
fn remove_tree(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    // As written by the kernel: a cache may be reached through a link.
    let folder = folder.canonicalize()?;
    for point in mounts_below(&read_mounts()?, &folder) {
        proc::capture_stdout(Command::new("umount").arg("--").arg(&point))
            .with_context(|| format!("an earlier build left {} mounted", point.display()))?;
    }
    let left = mounts_below(&read_mounts()?, &folder);
    ensure!(left.is_empty(), "{} is not removed: mounted below it: {left:?}", folder.display());
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
}

fn read_mounts() -> Result<String> {
    fs::read_to_string("/proc/self/mountinfo").context("no list of mounts")
}

/// Lists the mounts below a directory, latest first, which is the order for unmounting.
///
/// **Source:** proc_pid_mountinfo(5): the fifth word is the mount point, with spaces in octal.
fn mounts_below(mountinfo: &str, folder: &Path) -> Vec<PathBuf> {
    let mut points = Vec::new();
    for line in mountinfo.lines().rev() {
        let Some(word) = line.split_whitespace().nth(4) else { continue };
        let mut point = word.to_owned();
        for (octal, letter) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
            point = point.replace(octal, letter);
        }
        let point = PathBuf::from(point);
        if point.starts_with(folder) {
            points.push(point);
        }
    }
    points
}

/// Returns the command that creates a guest's file tree.
///
/// `timeout` passes its signal on to the whole process group, so nothing is left of an attempt that
/// takes too long.
fn bootstrap_command(suite: Suite, folder: &Path, tree: &Path) -> Result<Command> {
    let recipe = recipe_folder();
    let list = fs::read_to_string(recipe.join("packages")).context("lab-image/packages")?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=20", BUILD_MAX_S, "mmdebstrap", "--quiet", "--mode=root"]);
    command.args(["--variant=minbase", "--aptopt=APT::Install-Recommends \"false\""]);
    command.args(["--aptopt=Acquire::Retries \"3\"", "--aptopt=Acquire::http::Timeout \"30\""]);
    if suite == Suite::Forky {
        // Its lists expire after a week, and a mirror may be older. Signatures are still checked.
        command.arg("--aptopt=Acquire::Check-Valid-Until \"false\"");
    }
    for idle in ["doc", "man", "locale", "zoneinfo"] {
        command.arg(format!("--dpkgopt=path-exclude=/usr/share/{idle}/*"));
    }
    command.arg(format!("--include={}", read_packages(&list, suite).join(",")));
    let finish = recipe.join("finish-root.sh");
    command.arg(format!("--customize-hook={} \"$1\"", finish.display()));
    let source = format!("deb {} {} main", find_archive(), suite.archive());
    command.arg(suite.archive()).arg(tree).arg(source);
    command.env("LAB_IMAGE", &recipe).env("OUT", folder).env("SUITE", suite.name());
    Ok(command)
}

/// Returns the packages of a suite, from lines such as `openssl trixie bookworm`.
fn read_packages(list: &str, suite: Suite) -> Vec<&str> {
    let mut wanted = Vec::new();
    for line in list.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [package, suites @ ..] = words.as_slice() else { continue };
        let is_comment = package.starts_with('#');
        let is_named = suites.contains(&suite.name()) || suites.contains(&suite.archive());
        if !is_comment && (suites.is_empty() || is_named) {
            wanted.push(*package);
        }
    }
    wanted
}

/// Returns the Debian archive that this machine's apt uses, if any.
///
/// **Source:** apt-get(8), `indextargets`.
pub fn find_archive() -> String {
    let mut ask = Command::new("apt-get");
    ask.args(["indextargets", "--format", "$(REPO_URI)", "Label: Debian", "Created-By: Packages"]);
    let text = proc::capture_text(&mut ask).unwrap_or_default();
    text.lines().next().map_or(ARCHIVE, str::trim).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_packages_to_suites() {
        let list = "# comment\na\nb trixie bookworm\n\nc bullseye\nd trixie-systems\n";
        assert_eq!(read_packages(list, Suite::Trixie), ["a", "b"]);
        assert_eq!(read_packages(list, Suite::TrixieSystems), ["a", "b", "d"]);
        assert_eq!(read_packages(list, Suite::Bullseye), ["a", "c"]);
    }

    #[test]
    fn lists_nested_mounts_in_reverse() {
        let mountinfo = "22 1 0:5 / / rw - ext4 /dev/a rw\n\
            30 22 0:6 / /x/root/proc rw - proc proc rw\n\
            31 30 0:7 / /x/root/proc/a\\040b rw,nosuid shared:1 - tmpfs none rw\n\
            32 22 0:8 / /xy rw - tmpfs none rw\n";
        let found = mounts_below(mountinfo, Path::new("/x"));
        assert_eq!(found, [Path::new("/x/root/proc/a b"), Path::new("/x/root/proc")]);
    }

    #[test]
    fn unmounts_leftovers_of_interrupted_build() {
        let folder = tempfile::TempDir::new().unwrap();
        let tree = folder.path().join("unfinished");
        let outside = folder.path().join("outside");
        let point = tree.join("root/proc");
        fs::create_dir_all(&point).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "x").unwrap();
        let mut mount = Command::new("mount");
        mount.arg("--bind").arg(&outside).arg(&point);
        // Only root can set this up.
        if !mount.output().is_ok_and(|output| output.status.success()) {
            return;
        }
        assert!(point.join("precious").exists());
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert_eq!(fs::read_to_string(outside.join("precious")).unwrap(), "x");
    }

    #[test]
    fn rebuilds_image_for_changed_recipe() {
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
