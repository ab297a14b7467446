//! The Debian and RPM packages, made with the tools of their distributions.
//!
//! Neither has install or removal scripts, and neither depends on anything: exactly what was
//! installed is removed. The service is not enabled.
//!
//! **Source:** deb-control(5), dpkg-deb(1); rpm-spec(5), rpmbuild(8).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::contents::DOC;
use super::tree::Tree;
use super::{Release, read};
use crate::proc;

/// Directory where zsh looks, and the one where Debian's zsh does.
const ZSH: [&str; 2] = ["usr/share/zsh/site-functions/", "usr/share/zsh/vendor-completions/"];

/// Returns Debian's name for this machine's architecture.
pub fn debian_architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("releases are for x86_64 and aarch64, not for {other}"),
    }
}

/// Returns the name of the Debian package.
pub fn deb_name(release: &Release) -> Result<String> {
    Ok(format!("dfsbench_{}-1_{}.deb", release.version, debian_architecture()?))
}

pub fn rpm_name(release: &Release) -> String {
    format!("dfsbench-{}-1.{}.rpm", release.version, std::env::consts::ARCH)
}

/// Writes the Debian package.
pub fn write_deb(release: &Release, tree: &Tree, sources: &Path, folder: &Path) -> Result<()> {
    let mut tree = tree.clone();
    tree.move_files(ZSH[0], ZSH[1]);
    tree.add_file(&format!("{DOC}/copyright"), read(sources, "packaging/copyright")?);
    let bytes: usize = tree.files().map(|(_, bytes)| bytes.len()).sum();
    let mut control = fill_in(release, "control", &read(sources, "packaging/control")?)?;
    writeln!(control, "Installed-Size: {}", bytes.div_ceil(1024))?;

    let scratch = tempfile::tempdir()?;
    let root = scratch.path().join("root");
    tree.write_below(&root)?;
    let mut md5sum = Command::new("md5sum");
    md5sum.arg("--").args(tree.files().map(|(path, _)| path)).current_dir(&root);
    let sums = proc::capture_stdout(&mut md5sum)?;
    let mut about = Tree::default();
    about.add_file("DEBIAN/control", control);
    about.add_file("DEBIAN/md5sums", sums);
    about.write_below(&root)?;

    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "-z9", "--build"]).arg(&root);
    build.arg(folder.join(deb_name(release)?));
    // More threads would split the data differently.
    build.env("DPKG_DEB_THREADS_MAX", "1").env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    proc::capture_stdout(&mut build)?;
    Ok(())
}

/// Writes the RPM.
pub fn write_rpm(release: &Release, tree: &Tree, sources: &Path, folder: &Path) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let staged = scratch.path().join("staged");
    tree.write_below(&staged)?;
    let mut spec = fill_in(release, "dfsbench.spec", &read(sources, "packaging/dfsbench.spec")?)?;
    spec.push_str(&list_owned(tree));
    let at = scratch.path().join("dfsbench.spec");
    fs::write(&at, spec)?;

    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--quiet", "--target", std::env::consts::ARCH]).arg(&at);
    for definition in [
        format!("staged {}", staged.display()),
        format!("_topdir {}", scratch.path().join("top").display()),
        format!("_rpmdir {}", folder.display()),
        format!("_rpmfilename {}", rpm_name(release)),
        "_buildhost dfsbench".to_owned(),
        "use_source_date_epoch_as_buildtime 1".to_owned(),
        "clamp_mtime_to_source_date_epoch 1".to_owned(),
        "_binary_payload w19.zstdio".to_owned(),
    ] {
        build.arg("--define").arg(definition);
    }
    build.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    proc::capture_stdout(&mut build)?;
    Ok(())
}

/// Lists what the package owns: its files, and the directories named after it.
fn list_owned(tree: &Tree) -> String {
    let mut lines = BTreeSet::new();
    for (path, _) in tree.files() {
        lines.insert(format!("/{path}"));
        lines.extend(path.match_indices('/').filter_map(|(end, _)| {
            let folder = &path[..end];
            (folder.split('/').any(|name| name == "dfsbench")).then(|| format!("%dir /{folder}"))
        }));
    }
    let mut list = String::new();
    for line in lines {
        list.push_str(&line);
        list.push('\n');
    }
    list
}

/// Inserts version and architecture into a template.
fn fill_in(release: &Release, name: &str, template: &[u8]) -> Result<String> {
    let template = std::str::from_utf8(template).with_context(|| format!("packaging/{name}"))?;
    let filled = template.replace("@VERSION@", &release.version);
    Ok(filled.replace("@ARCHITECTURE@", debian_architecture()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owns_folders_named_after_package() {
        let mut tree = Tree::default();
        tree.add_program("usr/bin/dfsbench", "");
        tree.add_file("usr/share/dfsbench/presets/a.toml", "");
        let want = "%dir /usr/share/dfsbench\n%dir /usr/share/dfsbench/presets\n\
                    /usr/bin/dfsbench\n/usr/share/dfsbench/presets/a.toml\n";
        assert_eq!(list_owned(&tree), want);
    }

    #[test]
    fn fills_version_and_architecture() {
        let release = Release { version: "1.2.3".to_owned(), epoch: 0, commit: String::new() };
        let text = fill_in(&release, "it", b"V @VERSION@-1\nA @ARCHITECTURE@\n").unwrap();
        let architecture = debian_architecture().unwrap();
        assert_eq!(text, format!("V 1.2.3-1\nA {architecture}\n"));
        assert_eq!(deb_name(&release).unwrap(), format!("dfsbench_1.2.3-1_{architecture}.deb"));
        assert!(rpm_name(&release).starts_with("dfsbench-1.2.3-1."));
    }
}
