//! A ladder on hosts that are set up: our own server is started on the server's host for it.
//!
//! The server in question is nfs-ganesha, and our client reaches it through a tunnel; a kernel
//! client takes part only in virtual machines.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use checks::check::wait_until;
use checks::hosts::{LEAVING, Lab, PATIENCE, SERVER_AND_CLIENT};
use checks::ours::exit;
use checks::proc::{self, Background};
use serde_json::Value;

/// The server's host and the client's.
const HOSTS: [usize; 2] = [0, 1];

/// Returns a command with a plan for the first two hosts of a lab, whose last lines are `work`.
pub fn command(lab: &Lab, name: &str, work: &str) -> Result<Command> {
    let at = |name: &str| lab.folder.path().join(name).display().to_string();
    let plan = PLAN.replace("HOSTS", SERVER_AND_CLIENT).replace("CONFIG", &at("config"));
    fs::write(at("ladder.toml"), plan.replace("WORK", work))?;
    let _ = fs::remove_file(at("ladder.db"));
    let mut command = lab.ours();
    command.args([name, &at("ladder.toml"), "--quiet", "--format", "json"]);
    command.args(["--results", &at("ladder.db"), "--trials", "1"]);
    Ok(command)
}

/// Every layer has its result, and the hosts are restored.
pub fn measured(lab: &Lab) -> Result<()> {
    let output = proc::capture_output(&mut command(lab, "ladder", LADDER)?)?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(matches!(output.status.code(), Some(0 | exit::INVALID)), "{text}");
    let json: Value = serde_json::from_slice(&output.stdout)?;
    let found = &json["found"]["figures"];
    ensure!(found["missing"].as_array().is_some_and(Vec::is_empty), "{}", found["missing"]);
    let passes = found["passes"].as_array().context("a ladder without passes")?;
    ensure!(passes.len() == 3, "{} passes", passes.len());
    for pass in passes {
        let calls = pass["pass"] == "op_mix";
        let expected = if calls { &CALLS[..] } else { &BYTES[..] };
        let layers = pass["layers"].as_array().context("no layers")?;
        let with_figures = layers.iter().filter(|layer| layer["per_s"].is_number());
        let names: Vec<&str> = with_figures.filter_map(|layer| layer["layer"].as_str()).collect();
        ensure!(names == expected, "{}: {names:?} of {}", pass["pass"], json["found"]);
    }
    HOSTS.into_iter().try_for_each(|host| gone(lab, host))
}

/// No agent is left to end our server, so `clean` must do it.
pub fn cleaned(lab: &Lab) -> Result<()> {
    let mut campaign = busy(lab)?;
    ensure!(lab.kill_agents(&[0, 1])? > 0, "no agent");
    campaign.kill();
    ensure!(serves(lab)?, "nothing was left to restore");
    let mut clean = lab.ours();
    clean.args(["clean", &lab.folder.path().join("ladder.toml").display().to_string()]);
    let text = proc::capture_text(&mut clean)?;
    ensure!(text.contains("server: restored: ") && text.contains(" serve --port "), "{text}");
    HOSTS.into_iter().try_for_each(|host| gone(lab, host))
}

/// Starts a campaign on our server, and waits until our server runs.
fn busy(lab: &Lab) -> Result<Background> {
    let out = |name: &str| fs::File::create(lab.folder.path().join(name));
    let mut command = command(lab, "run", LONG)?;
    let campaign = Background::start(command.stdout(out("stdout")?).stderr(out("stderr")?))?;
    wait_until(PATIENCE, "a server of ours", || serves(lab).unwrap_or(false))?;
    Ok(campaign)
}

/// Returns true if our server is running on its host.
fn serves(lab: &Lab) -> Result<bool> {
    Ok(lab.run_on(0, &["ss", "-Hltn"])?.contains(":20492 "))
}

/// Waits until a host has nothing left of a campaign or a server of ours.
pub fn gone(lab: &Lab, host: usize) -> Result<()> {
    lab.await_nothing(host, LEAVING)?;
    ensure!(!serves(lab)?, "a server of ours is left");
    let left = lab.run_on(host, &["find", "/run/dfsbench", "-mindepth", "1"]).unwrap_or_default();
    ensure!(left.is_empty(), "left on host {}: {left}", host + 1);
    // The ssh of a tunnel was asked to end, and may take a moment.
    thread::sleep(Duration::from_millis(50));
    Ok(())
}

/// The layers that move bytes.
const BYTES: [&str; 7] = ["null", "memory", "disk", "tcp", "own", "server", "tunnel"];

/// Those that have calls.
const CALLS: [&str; 5] = ["null", "tcp", "own", "server", "tunnel"];

const PLAN: &str = r#"
name = "ladder"
HOSTS
[[target]]
name = "nfs"
server = "server"
client = "client"
backend = "nfs"
WORK
"#;

/// A stream to an external server, through a tunnel.
const LADDER: &str = r#"
directory = "/srv/data"
[factors]
server_kind = "ganesha"
data_path = "tunnel"
file_size = "4MiB"
workers = 1
[[workload]]
kind = "stream"
"#;

/// A mix on our own server that is ended early.
const LONG: &str = r#"
[factors]
server_kind = "dfsbench"
file_size = "4MiB"
duration = "20s"
[[workload]]
kind = "mixed"
"#;
