//! Minimal Debian systems for trying a package: no Rust, no compiler, no network.
//!
//! Main type: [`BareRoot`]. Its commands run in their own namespaces: whatever they mount and start
//! ends with them, and their only network is loopback.
//!
//! **Source:** mmdebstrap(1), unshare(1).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use checks::vm::image::find_archive;
use tempfile::TempDir;

use crate::proc;

/// Time limit for making a root; with other builds running it takes ten minutes.
const MAKE_MAX: Duration = Duration::from_secs(30 * 60);

/// Packages of every root: for reading pages, completing commands and checking units.
const INCLUDED: &str = "man-db,bash-completion,systemd";

/// Directories that dpkg, man, apt and systemd change with any package.
const NOT_COMPARED: [&str; 5] =
    ["/run/", "/var/cache/", "/var/log/", "/var/lib/apt/", "/var/lib/dpkg/triggers/"];

/// The root of a system without additional packages.
pub struct BareRoot {
    folder: TempDir,
}

impl BareRoot {
    /// Creates the root of a suite such as `trixie`.
    pub fn make(suite: &str) -> Result<Self> {
        let folder = TempDir::with_prefix(format!("dfsbench-{suite}-"))?;
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--mode=root", "--variant=minbase"]);
        make.args(["--aptopt=APT::Install-Recommends \"false\""]);
        make.args(["--aptopt=Acquire::Retries \"3\"", "--aptopt=Acquire::http::Timeout \"30\""]);
        make.arg(format!("--include={INCLUDED}")).arg(suite).arg(folder.path());
        make.arg(format!("deb {} {suite} main", find_archive()));
        proc::run_within(MAKE_MAX, &mut make)?;
        Ok(Self { folder })
    }

    /// Returns a path of the root on this machine.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs shell lines inside, and returns their output.
    ///
    /// # Errors
    /// If one of them fails; the message has the end of stderr.
    pub fn run(&self, what: &str, lines: &str) -> Result<String> {
        let mut command = enter(self.folder.path());
        command.args(["sh", "-euc", lines]);
        proc::capture_text(&mut command).with_context(|| format!("{what} fails"))
    }

    /// Lists the paths of the root, without those that every package changes.
    pub fn list(&self) -> Result<BTreeSet<String>> {
        let listed = self.run("find", "find / -xdev")?;
        let mut paths = BTreeSet::new();
        for path in listed.lines() {
            let is_compared = !NOT_COMPARED.iter().any(|folder| path.starts_with(folder));
            // `status-old` and the like: the state before the last change.
            if is_compared && !path.ends_with("-old") {
                paths.insert(path.to_owned());
            }
        }
        Ok(paths)
    }
}

/// Returns the command that enters a root, without the command to run there.
fn enter(root: &Path) -> Command {
    let inside = "ip link set lo up; mount -t proc proc \"$0/proc\"; \
                  mount --rbind /dev \"$0/dev\"; \
                  exec chroot \"$0\" env -i HOME=/root LC_ALL=C.UTF-8 \
                  PATH=/usr/sbin:/usr/bin:/sbin:/bin \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-euc", inside]);
    command.arg(root);
    command
}
