//! Power loss of the kernel's server: tests what `dfsbench durability` finds preserved.
//!
//! One export is set up by the recipe `knfsd`, which does all its steps again; the other by a
//! modified one, with a step that creates something once and fails the second time.
//!
//! The guest is reset by its kernel, as dfsbench does with a real host. The emulator keeps running:
//! everything the guest has written to its disks is preserved, and nothing in its memory.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::lab::Lab;
use super::peer::wrap_inside;
use crate::durability::{check_kept, check_lost};
use crate::ours::{Ours, exit};
use crate::proc;
use crate::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);
const HOST: &str = "server";

/// Frees the port, since the guest boots with a server that exports an empty directory; and keeps
/// NFS state off the root disk, which has no journal and does not survive a power loss.
const POWER_ON: &str = "until [ -e /run/lab-ready ]; do sleep 0.2; done; \
    rpc.nfsd 0; killall -q -w rpc.mountd; exportfs -au; exportfs -f; umount /export; \
    cd /var/lib/nfs && mount -t tmpfs tmpfs . && cd /var/lib/nfs && mkdir sm sm.bak v4recovery && \
    touch etab rmtab && umask 077; mkdir -p /var/lib/dfsbench; cd /var/lib/dfsbench; touch lock undo.jsonl; sync";

/// The kernel's server with both kinds of export, used by our own client on the controlling
/// machine. It formats the data disk for each.
const PLAN: &str = r#"
name = "power"
host = [
    { name = "server", ssh = "server", ssh_config = "CONFIG", address = "10.77.0.1" },
    { name = "here", address = "10.77.0.254" },
]
workload = [{ kind = "stream" }]
factors = { nfsvers = 4.1, file_system = "ext4" }
[[target]]
name = "sync"
server = "server"
client = "here"
system = "RECIPE"
backend = "nfs"
devices = ["/dev/vdb"]
settings = { export = "sync" }
[[target]]
name = "async"
server = "server"
client = "here"
system = "knfsd"
backend = "nfs"
devices = ["/dev/vdb"]
settings = { export = "async" }
"#;

/// Parts of the recipe `knfsd`, and their replacements in the one that keeps its creations.
const CHANGES: [[&str; 2]; 3] = [
    ["name = \"knfsd\"", "name = \"kept\""],
    ["restart = \"all-steps\"", "restart = \"on-state\"\nfolders = [\"{state}/made\"]"],
    ["[[step]]\nstart", "[[step]]\nrun = [\"mkdir\", \"{state}/made/once\"]\n\n[[step]]\nstart"],
];

/// Resets the host of each export while it is written to, and checks that the one with `sync` has
/// kept everything promised, the one with `async` has lost data acknowledged as safe, and that
/// dfsbench reports it.
///
/// # Errors
/// If it is otherwise, the guest doesn't start again, or something is left on it.
pub fn check(lab: &Lab) -> Result<()> {
    let folder = TempDir::new()?;
    let [plan, kept] = ["plan.toml", "kept.toml"].map(|name| folder.path().join(name));
    let text = PLAN.replace("CONFIG", &lab.ssh_config().display().to_string());
    fs::write(&plan, text.replace("RECIPE", &kept.display().to_string()))?;
    let mut recipe = proc::capture_text(OURS.command().args(["systems", "show", "knfsd"]))?;
    for [part, changed] in CHANGES {
        ensure!(recipe.contains(part), "the recipe knfsd has no `{part}`");
        recipe = recipe.replacen(part, changed, 1);
    }
    fs::write(kept, recipe)?;
    let (reports, code) = measure(lab, HOST, &plan, &["--allow-destroy", "/dev/vdb"])?;
    let [sync, unsafe_async] = reports.as_slice() else { bail!("{reports:?}") };
    check_kept(sync, &["sync", "osync"], "survives power loss")?;
    check_lost(unsafe_async, &["sync", "osync"], "none")?;
    ensure!(code == Some(exit::INVALID), "exit code {code:?}: {reports:?}");
    let left =
        lab.ssh(HOST, "grep dfsbench /proc/mounts; exportfs -s; find /run/dfsbench; true")?;
    ensure!(left.is_empty(), "left: {left}");
    let marks = lab.ssh(HOST, "blkid --probe /dev/vdb; true")?;
    ensure!(marks.is_empty(), "the file system is still there: {marks}");
    Ok(())
}

/// Measures how much of the data written while a host is reset, or before that, a plan's systems
/// keep, with these options; returns the report of each, and the exit code.
///
/// # Errors
/// If it can't be measured, or the guest doesn't start again.
pub fn measure(
    lab: &Lab,
    host: &str,
    plan: &Path,
    options: &[&str],
) -> Result<(Vec<Value>, Option<i32>)> {
    lab.allow_reset(host)?;
    lab.ssh(host, POWER_ON)?;
    // A shared connection would hang with the host.
    lab.close_connection(host);
    let config = lab.ssh_config();
    let power_on = format!("ssh -F '{}' -o ControlPath=none {host} '{POWER_ON}'", config.display());
    let mut command = wrap_inside(lab, &OURS.command());
    command.arg("durability").arg(plan).args(["--rounds", "2", "--crashes", "1"]);
    command.args(["--promise", "none,close,sync,osync", "--format", "json", "--quiet"]);
    command.args(options).args(["--power-cut", host, "--confirm-power-cut", host]);
    command.args(["--power-on-command", &power_on]);
    command.arg("--results").arg(plan.with_file_name("results.db"));
    let output = proc::capture_output(&mut command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let read = serde_json::from_str(&text);
    // A single report is not in an array.
    let reports = match read.with_context(|| format!("{}: {text}{errors}", output.status))? {
        Value::Array(reports) => reports,
        report => vec![report],
    };
    Ok((reports, output.status.code()))
}
