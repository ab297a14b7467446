//! A trace whose clients work on the same files, replayed by two hosts together, one of which is
//! killed in the middle.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use checks::check::wait_until;
use checks::hosts::{LEAVING, Lab, OURS, PATIENCE};
use checks::ours::exit;
use checks::proc::{self, Background};
use serde_json::Value;

use super::load;

/// The network of the hosts, as the controller sees it.
const BRIDGE: &str = "br0";

/// Two hosts that read, write, create and remove the files of one set.
const MIX: &str = r#"
[[workload]]
kind = "op_mix"
set_per_rate = "8KiB"
rate = 300
duration = "1s"
workers = 1
"#;

/// Both hosts replay their traffic; then each is restored.
pub fn replayed(lab: &Lab) -> Result<()> {
    let trace = captured(lab)?;
    let (_server, url) = serve(lab)?;
    let output = proc::capture_output(&mut replay(lab, &trace, &url, &["--closed"]))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(0), "{text}");
    let replay: Value = serde_json::from_slice(&output.stdout)?;
    let outcome = &replay["outcomes"][0];
    let ops = outcome["ops"].as_u64().context("no operations")?;
    ensure!(ops > 100 && outcome["issued"] == ops && outcome["accounted"] == ops, "{outcome}");
    ensure!(outcome["clients"] == 2 && outcome["problems"] == Value::Array(vec![]), "{outcome}");
    let hosts = outcome["hosts"].as_array().context("no hosts")?;
    let mut issued = 0;
    let mut notices = 0;
    for host in hosts {
        ensure!(host["clients"] == 1, "{host}");
        issued += host["issued"].as_u64().context("no count")?;
        notices += host["notices"].as_u64().context("no count")?;
        println!("  {host}");
    }
    // They used the same files, so some had to wait for the other host.
    ensure!(hosts.len() == 2 && issued == ops && notices > 0, "{hosts:?}");
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

/// Without one of the hosts its share would be missing: the replay ends and reports which.
pub fn killed(lab: &Lab) -> Result<()> {
    let trace = captured(lab)?;
    let (_server, url) = serve(lab)?;
    let mut command = replay(lab, &trace, &url, &["--speed", "0.05"]);
    let stderr = lab.folder.path().join("stderr");
    command.stdout(Stdio::null()).stderr(fs::File::create(&stderr)?);
    let mut running = Background::start(&mut command)?;
    let words = || fs::read_to_string(&stderr).unwrap_or_default();
    wait_until(PATIENCE, "the replay", || words().contains("replaying"))?;
    std::thread::sleep(Duration::from_millis(500));
    ensure!(lab.kill_agents(&[1])? == 1, "no agent: {}", words());
    let code = running.await_end(PATIENCE)?;
    ensure!(
        code == Some(exit::LAB) && words().contains("error: host h2: "),
        "{code:?} {}",
        words()
    );
    ensure!(!words().contains("warning"), "{}", words());
    let left = proc::capture_text(lab.ours().args(["clean", "--results"]).arg(results(lab)))?;
    ensure!(!left.contains("replay"), "{left}");
    lab.await_nothing(0, LEAVING)?;
    // A killed agent leaves its program, which the controller removes.
    lab.await_nothing(1, LEAVING)
}

fn results(lab: &Lab) -> PathBuf {
    lab.folder.path().join("load.db")
}

fn replay(lab: &Lab, trace: &PathBuf, url: &str, flags: &[&str]) -> Command {
    let mut command = lab.ours();
    command.arg("replay").arg(trace).arg(url).args(flags).args(["--format", "json"]);
    command.args(["--hosts", "h1,h2", "--ssh-config"]).arg(lab.folder.path().join("config"));
    command
}

fn serve(lab: &Lab) -> Result<(Background, String)> {
    let program = OURS.command().get_program().to_string_lossy().into_owned();
    let mut serve = lab.near(&program);
    serve.args(["serve", "--listen", "10.79.0.254", "--allow", "10.79.0.0/24"]);
    Background::start_with_first_line(serve.stderr(Stdio::null()), PATIENCE)
}

/// Captures the traffic of two hosts to our server.
fn captured(lab: &Lab) -> Result<PathBuf> {
    let trace = lab.folder.path().join("two.dfst");
    let (_server, work) = load::served_at(lab, "10.79.0.254", MIX, &[])?;
    let mut capture = lab.ours();
    capture.args(["capture", "--quiet", "--interface", BRIDGE, "-o"]).arg(&trace);
    let mut capture = Background::start(capture.stderr(Stdio::null()))?;
    wait_until(PATIENCE, "a packet socket", || {
        let sockets = proc::capture_text(lab.near("cat").arg("/proc/net/packet"));
        sockets.is_ok_and(|sockets| sockets.lines().count() > 1)
    })?;
    let output = proc::capture_output(&mut load::command(lab, "run", &work, &["--trials", "1"])?)?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(0 | exit::INVALID)), "{text}");
    let code = capture.interrupt(PATIENCE)?;
    ensure!(code == Some(0), "the capture exited with {code:?}");
    Ok(trace)
}
