//! Soaks, curves and ramps with several hosts: they must measure the server's known limits.
//!
//! A server that takes [`SERVICE_MS`] for each read, with one call in flight from each of two
//! hosts, gives at most [`MOST_PER_S`] answers a second, however busy this machine is.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use checks::check::wait_until;
use checks::hosts::{LEAVING, Lab, OURS, ip};
use checks::proc::{self, Background};
use serde_json::Value;

/// Number of the lab's hosts that take part: the first ones.
const HOSTS: usize = 2;

/// How long one of them is cut off: less than the time after which it counts as lost.
const CUT: Duration = Duration::from_secs(1);

/// Minimum time of a read at the server.
const SERVICE_MS: u64 = 20;

/// The highest rate that two hosts with one call each can get from it.
const MOST_PER_S: f64 = 2.0 * 1_000.0 / SERVICE_MS as f64;

/// Number of connections that the server of a ramp answers. Each host has one in addition to those
/// of its clients.
const ANSWERED: u64 = 12;

/// Timeout until the server prints its address.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a command with a plan for the first hosts of a lab, whose last lines are `work`.
pub fn command(lab: &Lab, name: &str, work: &str, flags: &[&str]) -> Result<Command> {
    let at = |name: &str| lab.folder.path().join(name).display().to_string();
    let host = |(number, name): (usize, &str)| {
        format!(
            "[[host]]\nname = \"{name}\"\nssh = \"h{number}\"\naddress = \"10.79.0.{number}\"\n\
             interface = \"eth0\"\nssh_config = \"{}\"\n",
            at("config")
        )
    };
    let hosts: String = (1..).zip(["one", "two"]).map(host).collect();
    fs::write(at("load.toml"), format!("name = \"load\"\n{hosts}{work}"))?;
    let _ = fs::remove_file(at("load.db"));
    let mut command = lab.ours();
    command.args([name, &at("load.toml"), "--quiet", "--format", "json"]);
    command.args(["--results", &at("load.db")]).args(flags);
    Ok(command)
}

/// Checks the exit code and returns the findings.
fn found(command: &mut Command, code: i32) -> Result<Value> {
    let output = proc::capture_output(command)?;
    let stderr = || String::from_utf8_lossy(&output.stderr).into_owned();
    let json: Value = serde_json::from_slice(&output.stdout).with_context(stderr)?;
    ensure!(output.status.code() == Some(code), "{}: {}{}", output.status, json["found"], stderr());
    Ok(json["found"].clone())
}

/// Two hosts soak a server. One is cut off for a while and recovers. The agent of the other is
/// killed; a new agent takes over its journal and reads back the written data.
pub fn soaked(lab: &Lab) -> Result<()> {
    let (_server, work) = served(lab, SOAKED, &[])?;
    let kill = ["--disturb", "client-kill on two at 2s", "--interval", "100ms"];
    let times = ["--duration", "8s", "--segment", "8s", "--rate", "200"];
    let mut soak = command(lab, "soak", &work, &[&kill[..], &times].concat())?;
    let out = |name: &str| fs::File::create(lab.folder.path().join(name));
    soak.stdout(out("stdout")?).stderr(out("stderr")?);
    let mut soak = Background::start(&mut soak)?;
    wait_until(checks::hosts::PATIENCE, "an agent", || {
        lab.agents(1).is_ok_and(|agents| !agents.is_empty())
    })?;
    wait_until(checks::hosts::PATIENCE, "its end", || {
        lab.agents(1).is_ok_and(|agents| agents.is_empty())
    })?;
    let link = |state| ip(&["-n", &lab.bridge, "link", "set", "v1", state]);
    link("down")?;
    thread::sleep(CUT);
    link("up")?;
    let code = soak.await_end(checks::hosts::PATIENCE)?;
    let json: Value = serde_json::from_str(&lab.output_text()?)?;
    let found = &json["found"];
    let figures = &found["figures"];
    ensure!(code == Some(0) && figures["verdict"] == "survives", "{code:?}: {found}");
    let kept = &figures["kept"];
    // All blocks of both clients were journaled, and read back.
    ensure!(kept["blocks"] == 4 * 64 && kept["lost"] == 0, "{kept}");
    ensure!(figures["segments_read_back"] == 1, "{figures}");
    let killed = &figures["disturbances"][0];
    ensure!(killed["fault"] == "client-kill" && killed["host"] == "two", "{killed}");
    ensure!(killed["failed"].is_null() && killed["noticed_ns"].is_u64(), "{killed}");
    // Two of the four files are its own.
    ensure!(killed["read_back_ops"].as_u64().is_some_and(|ops| ops >= 2 * 64), "{killed}");
    // There was no client during the time that the first host was cut off; only whole intervals
    // count.
    ensure!(killed["stall_ns"].as_u64().is_some_and(|ns| ns >= 500_000_000), "{killed}");
    (0..HOSTS).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

/// The curve of a server with a known limit.
pub fn curved(lab: &Lab) -> Result<()> {
    let (_server, work) =
        served(lab, SLOW, &["--fault", &format!("service_time {SERVICE_MS}ms on READ")])?;
    let flags = ["--max-load", "200", "--warmup", "0s", "--duration", "800ms", "--seed", "5"];
    let found = found(&mut command(lab, "curve", &work, &flags)?, 0)?;
    println!("  {}", found["sentences"][0].as_str().unwrap_or_default());
    let curve = &found["figures"]["curves"][0];
    let points = curve["load_points"].as_array().context("no load points")?;
    ensure!(points.len() == 10, "{} load points", points.len());
    for point in points {
        let requested = point["asked_ops_per_s"].as_f64().context("no load")?;
        let standing = point["standing"].as_str().context("no standing")?;
        // A short load point may get more or fewer ops by chance than requested.
        ensure!(requested < 1.4 * MOST_PER_S || standing == "not sustained", "{point}");
        let mean_ns = point["response_time_mean_ns"].as_f64().context("no mean")?;
        ensure!(mean_ns >= SERVICE_MS as f64 * 1e6, "{point}");
    }
    let peak = curve["peak_ops_per_s"].as_f64().with_context(|| found.to_string())?;
    // How much of it a busy machine achieves is left open.
    ensure!(peak > 0.0 && peak <= 1.05 * MOST_PER_S, "{found}");
    (0..HOSTS).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

/// Finds how many clients, distributed over two hosts, make a server hang; it serves again when
/// they are gone.
pub fn ramped(lab: &Lab) -> Result<()> {
    let hang = format!("hang_from_clients {ANSWERED}");
    let slow = format!("service_time {SERVICE_MS}ms on READ");
    let (_server, work) = served(lab, SLOW, &["--fault", &hang, "--fault", &slow])?;
    let most = (2 * ANSWERED).to_string();
    let flags = ["--raise", "clients", "--max", &most, "--duration", "300ms", "--timeout", "1s"];
    let mut ramp = command(lab, "ramp", &work, &[&flags[..], &["--recovery", "20s"]].concat())?;
    let found = found(&mut ramp, 0)?;
    println!("  {}", found["sentences"][0].as_str().unwrap_or_default());
    let search = &found["figures"]["searches"][0];
    ensure!(search["way"] == "hangs" && search["is_known"] == true, "{search}");
    let borne = ANSWERED - HOSTS as u64;
    ensure!(search["borne"] == borne && search["gave_in_at"] == borne + 1, "{search}");
    ensure!(search["recovery"]["kind"] == "recovered", "{search}");
    (0..HOSTS).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

/// Starts our server next to the hosts; returns it with the end of a plan for it, whose last lines
/// are `work`.
fn served(lab: &Lab, work: &str, flags: &[&str]) -> Result<(Background, String)> {
    served_at(lab, "10.79.0.254", work, flags)
}

/// Same as [`served`], at an address of its own.
pub fn served_at(
    lab: &Lab,
    address: &str,
    work: &str,
    flags: &[&str],
) -> Result<(Background, String)> {
    let program = OURS.command().get_program().to_string_lossy().into_owned();
    let mut serve = lab.near(&program);
    serve.args(["serve", "--listen", address, "--allow", "10.79.0.0/24"]);
    serve.args(flags).stderr(Stdio::null());
    let (server, url) = Background::start_with_first_line(&mut serve, PATIENCE)?;
    Ok((server, TARGET.replace("URL", &url) + work))
}

/// Two clients of a server that no plan sets up.
const TARGET: &str = r#"
[[target]]
name = "nfs"
url = "URL"
hosts = ["one", "two"]
"#;

/// Blocks that are written and read back.
const SOAKED: &str = r#"
[factors]
files = 4
file_size = "256KiB"
[[workload]]
kind = "mixed"
workers = 1
"#;

/// The same, each with one call at a time.
const SLOW: &str = r#"
[factors]
file_size = "256KiB"
[[workload]]
kind = "mixed"
workers = 1
queue_depth = 1
read_percent = 100
"#;
