//! Others against our server, and our client against a server that dies.
//!
//! libnfs is the independent client; the server dies by SIGKILL in the middle of a run, and what
//! was measured until then must be in the results.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::Checks;
use super::libnfs::{self, Export};
use super::ours::{Ours, Run, exit};
use crate::noise;
use crate::proc::{self, Background};
use crate::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);
/// Not a multiple of any transfer size.
const FILE_BYTES: usize = (5 << 20) + 12_345;
/// How long after its start the run loses its server, and how long it may take to say so.
const UNTIL_DEATH: Duration = Duration::from_secs(3);
const UNTIL_SAID: Duration = Duration::from_secs(120);

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    let Some(server) = checks.get("starts and says where", || OURS.serve("64MiB", &[])) else {
        return;
    };
    let content = noise::bytes(FILE_BYTES);
    checks.run("libnfs reads and lists what libnfs wrote", || by_libnfs(&server.export, &content));
    checks.run("we read what libnfs wrote", || {
        libnfs::same("noise", &OURS.cat(&server.export, "noise")?, &content)
    });
    drop(server);
    checks.run("dies in the middle of a run: exit code and results", dies);
    checks.run("is measured by somebody without any right", as_nobody);
}

fn by_libnfs(export: &Export, content: &[u8]) -> Result<()> {
    let folder = TempDir::new()?;
    let local = folder.path().join("noise");
    fs::write(&local, content)?;
    libnfs::copy(&local, export, "noise")?;
    libnfs::same("noise", &libnfs::cat(export, "noise")?, content)?;
    let names = libnfs::list(export)?;
    ensure!(names.iter().any(|name| name == "noise"), "nfs-ls shows {names:?}");
    Ok(())
}

/// Runs the embedded campaign as a user who may not even choose a congestion control.
fn as_nobody() -> Result<()> {
    let folder = TempDir::new()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
    let program = folder.path().join("dfsbench");
    fs::copy(OURS.command().get_program(), &program)?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
    command.args(["run", "embedded", "--trials", "1", "--file-size", "8MiB", "--quiet"]);
    let said = proc::text(command.current_dir(folder.path()))?;
    ensure!(said.contains("stream read") && !said.contains("failed"), "it says:\n{said}");
    Ok(())
}

fn dies() -> Result<()> {
    let mut server = OURS.serve("64MiB", &[])?;
    let folder = TempDir::new()?;
    let results = folder.path().join("results.db");
    #[rustfmt::skip]
    let flags = [
        "--workload", "mixed", "--file-size", "8MiB", "--io-size", "4KiB",
        "--duration", "20s", "--trials", "1",
    ];
    let target = server.export.for_us("");
    let mut command = OURS.run_command(&Run { target: &target, results: &results, flags: &flags });
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = Background::start(&mut command)?;
    thread::sleep(UNTIL_DEATH);
    server.process.kill();
    let code = run.await_end(UNTIL_SAID)?;
    let expected = [Some(exit::LAB), Some(exit::INVALID)];
    ensure!(expected.contains(&code), "exit {code:?}, none of {expected:?}");
    let report: Value = serde_json::from_slice(&OURS.report(&results, "json")?)?;
    let trial = report.pointer("/runs/0/trials/0").context("the trial isn't in the results")?;
    let state = trial.get("state").and_then(Value::as_str);
    ensure!(state == Some("failed"), "the trial is {state:?} in the results, not failed");
    let reason = trial.get("reason").and_then(Value::as_str).unwrap_or_default();
    ensure!(!reason.is_empty(), "the results don't say why the trial failed");
    Ok(())
}
