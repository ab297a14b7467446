//! Loss of power of the kernel's server: what `dfsbench durability` finds that it has kept.
//!
//! The guest is reset by its kernel, as dfsbench does to a real host. The emulator goes on running:
//! all that the guest has written to its disks is there, and nothing that was in its memory.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::lab::Lab;
use super::peer::wrap_inside;
use crate::ours::{Ours, exit};
use crate::proc;
use crate::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);
const HOST: &str = "server";
/// NFSv3 needs no grace period after a restart.
const TARGET: &str = "nfs://10.77.0.1/export?version=3";
/// Serves the file system again that was there before the reset: the guest mounts none by itself.
///
/// It boots with a server that exports the empty folder. That server is ended first, since the
/// kernel could keep an answer for a client that asks while the file system is mounted.
const POWER_ON: &str = "until [ -e /run/lab-ready ]; do sleep 0.2; done; \
    rpc.nfsd 0 && exportfs -au && exportfs -f && mount /dev/disk-data /export && lab-nfsd 8";

/// Findings of a measurement, and its exit code.
pub struct Measured {
    /// The report, as JSON.
    pub report: Value,
    /// The exit code of dfsbench.
    pub code: Option<i32>,
}

/// Exports a fresh ext4 with this option, `sync` or `async`, and measures what is left of it when
/// its host is reset while it is written to.
///
/// # Errors
/// Where the guest doesn't start again, or dfsbench finds nothing.
pub fn measure(lab: &Lab, option: &str) -> Result<Measured> {
    lab.allow_reset(HOST)?;
    // What is exported must outlive the reset, too.
    lab.ssh(HOST, &format!("lab-nfsd 8 && lab-export ext4 {option} && sync"))?;
    let shown = lab.ssh(HOST, "exportfs -s")?;
    let is_effective = shown.split([',', '(']).any(|word| word == option);
    ensure!(is_effective, "{option} isn't effective: {shown}");
    // A connection that is shared would hang with the host.
    lab.close_connection(HOST);
    let config = lab.ssh_config();
    let power_on = format!("ssh -F '{}' -o ControlPath=none {HOST} '{POWER_ON}'", config.display());
    let folder = TempDir::new()?;
    let mut command = wrap_inside(lab, &OURS.command());
    command.args(["durability", TARGET, "--rounds", "2", "--format", "json", "--quiet"]);
    command.args(["--power-cut", HOST, "--confirm-power-cut", HOST]);
    command.args(["--power-on-command", &power_on]).arg("--ssh-config").arg(&config);
    command.arg("--results").arg(folder.path().join("results.db"));
    let output = proc::capture_output(&mut command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report = serde_json::from_str(&text).with_context(|| {
        format!("{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(Measured { report, code: output.status.code() })
}

/// Checks that an export with `sync` has kept all that was promised.
///
/// # Errors
/// Where it hasn't, or can't be measured.
pub fn check_sync(lab: &Lab) -> Result<()> {
    let measured = measure(lab, "sync")?;
    let report = &measured.report;
    crate::durability::check_kept(report, &["sync", "osync"], "survives power loss")?;
    ensure!(measured.code == Some(0), "exit code {:?}: {report}", measured.code);
    Ok(())
}

/// Checks that an export with `async` has lost what it had acknowledged as safe, and that dfsbench
/// says so.
///
/// # Errors
/// Where it hasn't, or can't be measured.
pub fn check_async(lab: &Lab) -> Result<()> {
    let measured = measure(lab, "async")?;
    let report = &measured.report;
    crate::durability::check_lost(report, &["sync", "osync"], "none")?;
    ensure!(measured.code == Some(exit::INVALID), "exit code {:?}: {report}", measured.code);
    Ok(())
}
