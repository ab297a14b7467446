//! `cargo xtask dist --check`: uses the artifacts like a user would.
//!
//! The Debian package is installed into bare roots of Debian 12 and 13, used, and removed without a
//! trace; the RPM into an empty root; the image is started with runc. Times are printed but not
//! judged.
//!
//! **Source:** OCI runtime specification 1.0, config.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::bare_root::BareRoot;
use super::{Release, image, packages};
use crate::{proc, setup};

/// Debian 12 and 13.
const SUITES: [&str; 2] = ["bookworm", "trixie"];

/// A quick campaign, shortened.
const QUICK: [&str; 6] = ["run", "quick", "--scale", "5%", "--trials", "2"];

/// Prints the completions of `dfsbench ru`, loaded as in an interactive shell.
const COMPLETE: &str = r#"bash -c '
. /usr/share/bash-completion/bash_completion
_comp_load dfsbench 2>/dev/null || _completion_loader dfsbench || true
complete -p dfsbench >/dev/null
COMP_WORDS=(dfsbench ru); COMP_CWORD=1
_dfsbench dfsbench ru dfsbench
echo "${COMPREPLY[@]}"'"#;

/// Formats each page as for a reader, and prints groff's warnings.
const FORMAT_PAGES: &str = "\
for page in /usr/share/man/man1/dfsbench*; do man --warnings -l $page 2>&1 >/dev/null; done";

/// Uses all artifacts in a directory.
///
/// # Errors
/// If one doesn't work; the message names the step.
pub fn run(release: &Release, folder: &Path) -> Result<()> {
    let begun = Instant::now();
    setup::install_packages(&["mmdebstrap", "debian-archive-keyring", "iproute2", "runc"])?;
    let deb = folder.join(packages::deb_name(release)?);
    thread::scope(|scope| -> Result<()> {
        let mut roots = Vec::new();
        for suite in SUITES {
            let deb = &deb;
            roots.push(scope.spawn(move || try_deb(release, deb, suite)));
        }
        try_rpm(&folder.join(packages::rpm_name(release)))?;
        try_image(&folder.join(image::name(release)))?;
        for root in roots {
            match root.join() {
                Ok(outcome) => outcome?,
                Err(_) => bail!("a check panicked"),
            }
        }
        Ok(())
    })?;
    println!("dist: checked in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Installs, uses and removes the Debian package in a bare root.
fn try_deb(release: &Release, deb: &Path, suite: &str) -> Result<()> {
    let begun = Instant::now();
    let root = BareRoot::make(suite)?;
    let made = begun.elapsed().as_secs_f64();
    let before = root.list()?;
    fs::copy(deb, root.path("tmp/dfsbench.deb"))?;
    let context = || format!("{suite}: the package");
    root.run("dpkg -i", "dpkg -i /tmp/dfsbench.deb; rm /tmp/dfsbench.deb").with_context(context)?;
    use_installed(release, &root).with_context(context)?;
    root.run("dpkg -V", "dpkg -V dfsbench").with_context(context)?;
    root.run("dpkg --purge", "dpkg --purge dfsbench").with_context(context)?;
    compare_lists(&before, &root.list()?).with_context(context)?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("dist: {suite}: installed, used, removed; {seconds:.1} s ({made:.1} s for the root)");
    Ok(())
}

/// Uses an installed package: the program, its pages, completions, and its unit.
fn use_installed(release: &Release, root: &BareRoot) -> Result<()> {
    let version = root.run("dfsbench --version", "dfsbench --version")?;
    ensure!(version.contains(&release.version), "the program is `{version}`");
    let quick = format!("mkdir /tmp/use; cd /tmp/use; dfsbench {}", QUICK.join(" "));
    let report = root.run("a quick campaign", &format!("{quick}; rm -r /tmp/use"))?;
    check_report(&report)?;
    let page = root.run("man dfsbench", "man -P cat dfsbench")?;
    ensure!(page.contains("SYNOPSIS") && page.contains("EXIT STATUS"), "the page is:\n{page}");
    let warnings = root.run("man -l", FORMAT_PAGES)?;
    ensure!(warnings.is_empty(), "pages of the manual have errors:\n{warnings}");
    let words = root.run("completion", COMPLETE)?;
    ensure!(words.split_whitespace().any(|word| word == "run"), "`ru` is completed to `{words}`");
    let unit = "/usr/lib/systemd/system/dfsbench-serve.service";
    let verified =
        root.run("systemd-analyze verify", &format!("systemd-analyze verify {unit} 2>&1"))?;
    ensure!(!verified.contains("dfsbench"), "the unit has errors:\n{verified}");
    // 0 is a service that may do nothing, 10 one that may do everything.
    let exposure = "systemd-analyze security --offline=true --threshold=20";
    root.run(exposure, &format!("{exposure} {unit}"))?;
    Ok(())
}

fn check_report(report: &str) -> Result<()> {
    let is_whole = report.contains("quick: complete") && report.contains("stream read");
    ensure!(is_whole, "the quick campaign printed:\n{report}");
    Ok(())
}

/// Fails if a path is left over or missing.
fn compare_lists(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Result<()> {
    let left: Vec<&str> = after.difference(before).map(String::as_str).collect();
    let lost: Vec<&str> = before.difference(after).map(String::as_str).collect();
    ensure!(left.is_empty(), "left after its removal: {}", left.join(" "));
    ensure!(lost.is_empty(), "its removal also removed: {}", lost.join(" "));
    Ok(())
}

/// Installs the RPM into an empty root, runs its program, and removes it.
fn try_rpm(package: &Path) -> Result<()> {
    let begun = Instant::now();
    let root = TempDir::with_prefix("dfsbench-rpm-")?;
    let rpm = |words: &[&str]| -> Result<String> {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(root.path()).args(words);
        proc::capture_text(&mut command)
    };
    let file = package.to_str().context("the path of the package")?;
    // The root may be empty: the package requires nothing beyond a basic system.
    rpm(&["--install", "--nodeps", "--nosignature", file])?;
    rpm(&["--verify", "--nodeps", "dfsbench"])?;
    let mut version = Command::new("chroot");
    version.arg(root.path()).args(["/usr/bin/dfsbench", "--version"]);
    proc::capture_text(&mut version)?;
    rpm(&["--erase", "dfsbench"])?;
    let usr = root.path().join("usr");
    if usr.exists() {
        // Directories that other packages would own may stay, and so may the package database.
        let mut find = Command::new("find");
        find.args([".", "-not", "-type", "d", "-or", "-name", "dfsbench*"]).current_dir(&usr);
        let left = proc::capture_text(&mut find)?;
        let is_left = left.lines().any(|path| !path.contains("/rpm/"));
        ensure!(!is_left, "left after the removal of the rpm:\n{left}");
    }
    println!("dist: rpm: installed, used, removed; {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Starts the image as a container, and runs a quick campaign in it.
fn try_image(archive: &Path) -> Result<()> {
    let begun = Instant::now();
    let scratch = TempDir::with_prefix("dfsbench-image-")?;
    let layout = scratch.path().join("layout");
    let bundle = scratch.path().join("bundle");
    tar::Archive::new(fs::File::open(archive)?).unpack(&layout)?;
    let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json"))?)?;
    let manifest = image::read_blob(&layout, &index["manifests"][0])?;
    let manifest: Value = serde_json::from_slice(&manifest)?;
    let config: Value = serde_json::from_slice(&image::read_blob(&layout, &manifest["config"])?)?;
    let layer = image::read_blob(&layout, &manifest["layers"][0])?;
    let mut layer = tar::Archive::new(zstd::Decoder::new(layer.as_slice())?);
    layer.set_preserve_permissions(true);
    // With the permissions in the archive, not those of new files of this process.
    layer.set_mask(0);
    layer.unpack(bundle.join("rootfs"))?;
    let container = describe_container(&config["config"]);
    fs::write(bundle.join("config.json"), serde_json::to_vec(&container)?)?;
    let mut runc = Command::new("runc");
    runc.arg("--root").arg(scratch.path().join("state"));
    runc.args(["run", "--bundle"]).arg(&bundle).arg(format!("dfsbench-{}", std::process::id()));
    check_report(&proc::capture_text(&mut runc)?)?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("dist: image: a quick campaign in a container of runc; {seconds:.1} s");
    Ok(())
}

/// Describes a container without privileges or network that runs a quick campaign.
fn describe_container(config: &Value) -> Value {
    let mut args = config["Entrypoint"].as_array().cloned().unwrap_or_default();
    args.extend(QUICK.map(Value::from));
    let namespaces: Vec<_> = ["pid", "network", "ipc", "uts", "mount"]
        .into_iter()
        .map(|kind| json!({ "type": kind }))
        .collect();
    json!({
        "ociVersion": "1.0.2",
        "root": { "path": "rootfs" },
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": args,
            "env": config["Env"],
            "cwd": config["WorkingDir"],
            "noNewPrivileges": true,
        },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs" },
        ],
        "linux": { "namespaces": namespaces },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn names_leftover_and_lost_files() {
        let before = list(&["/a", "/b"]);
        compare_lists(&before, &before).unwrap();
        let left = compare_lists(&before, &list(&["/a", "/b", "/c"])).unwrap_err().to_string();
        assert_eq!(left, "left after its removal: /c");
        let lost = compare_lists(&before, &list(&["/a"])).unwrap_err().to_string();
        assert_eq!(lost, "its removal also removed: /b");
    }

    #[test]
    fn runs_program_of_image() {
        let config = json!({ "Entrypoint": ["/usr/bin/dfsbench"], "WorkingDir": "/results" });
        let container = describe_container(&config);
        assert_eq!(container["process"]["args"][0], "/usr/bin/dfsbench");
        assert_eq!(container["process"]["args"][2], "quick");
        assert_eq!(container["process"]["cwd"], "/results");
    }
}
