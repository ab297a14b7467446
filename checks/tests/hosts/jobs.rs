//! Hosts that a scheduler lists in the environment of a job, and a host with a noisy shell.
//!
//! No PBS or LSF scheduler is available as a package: its list is planted, as documented in its
//! manual. The hosts in the list are real, and ssh reaches them with the user's own configuration.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use anyhow::{Result, ensure};
use checks::hosts::{LEAVING, Lab, OURS};
use checks::ours::exit;
use checks::proc;

/// Runs on the hosts of a job, whose scheduler sets a variable to this list.
fn run_job(lab: &Lab, words: &[&str], variable: &str, list: &str) -> Result<Output> {
    let at = |name: &str| lab.folder.path().join(name);
    let bin = at("bin");
    if !bin.exists() {
        // Don't use the ssh configuration of the user who runs the checks.
        fs::create_dir(&bin)?;
        let line = format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", at("config").display());
        fs::write(bin.join("ssh"), line)?;
        fs::set_permissions(bin.join("ssh"), fs::Permissions::from_mode(0o755))?;
    }
    let results = at("job.db");
    if results.exists() {
        fs::remove_file(&results)?;
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = lab.ours();
    command.env("PATH", path).env(variable, list);
    command.arg("run").arg(lab.shared.path()).args(["--workload", "stream", "--trials", "1"]);
    command.args(["--file-size", "1MiB", "--workers", "1", "--quiet", "--results"]).arg(&results);
    proc::capture_output(command.args(words))
}

/// The hosts of a job are measured, each once, or as often as requested.
pub fn listed(lab: &Lab) -> Result<()> {
    let file = lab.folder.path().join("nodes");
    fs::write(&file, "h1\nh1\nh2\nh2\n")?;
    let file = file.display().to_string();
    let two = ["--launcher", "lsf", "--agents-per-node", "2"];
    for (words, variable, list, agents) in [
        (&["--launcher", "pbs"][..], "PBS_NODEFILE", file.as_str(), &["h1", "h2"][..]),
        (&two, "LSB_MCPU_HOSTS", "h1 2 h2 2", &["h1", "h2", "h1:2", "h2:2"]),
    ] {
        let output = run_job(lab, words, variable, list)?;
        let is_measured = [Some(0), Some(exit::INVALID)].contains(&output.status.code());
        ensure!(is_measured, "{output:?}");
        let report = OURS.report(&lab.folder.path().join("job.db"), "json")?;
        let report: serde_json::Value = serde_json::from_slice(&report)?;
        let measured: Vec<_> = report["runs"][0]["trials"][0]["passes"][0]["hosts"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|host| host["host"].as_str().unwrap_or_default())
            .collect();
        ensure!(measured == agents, "{measured:?} for {words:?}");
        // The hosts are namespaces of this machine.
        ensure!(report.to_string().contains("are the same machine"), "no shared-host: {report}");
        for host in 0..2 {
            lab.await_nothing(host, LEAVING)?;
        }
    }
    let output = run_job(lab, &["--launcher", "pbs"], "PBS_NODEFILE", "/no/nodes")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(2), "{output:?}");
    ensure!(stderr.contains("PBS_NODEFILE, `/no/nodes`: No such file"), "{stderr}");
    Ok(())
}

/// A shell that prints 100 MB before each command is one error, and leaves nothing behind.
pub fn noisy(lab: &Lab) -> Result<()> {
    let noise = "echo 'echo MOTD; head -c 100000000 /dev/zero' >/run/home/.bashrc";
    lab.run_on(1, &["sh", "-c", noise])?;
    let output = run_job(lab, &["--launcher", "lsf"], "LSB_MCPU_HOSTS", "h2 1");
    lab.run_on(1, &["rm", "/run/home/.bashrc"])?;
    let output = output?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(exit::LAB), "{output:?}");
    let words = "host h2: its shell printed more than 64 KiB, starting with `MOTD`";
    ensure!(stderr.contains(words) && stderr.matches("error: ").count() == 1, "{stderr}");
    lab.await_nothing(1, LEAVING)
}
