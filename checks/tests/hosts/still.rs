//! A host that completes nothing while others work: it is reported, and the others are not compared
//! with it.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use checks::check::wait_until;
use checks::hosts::{LEAVING, Lab, PATIENCE, ip};
use checks::proc::Background;
use serde_json::Value;

use super::load;

/// An address of the server only: ssh reaches the controller by another one, so that a host that
/// can't reach the server does not count as lost.
const ADDRESS: &str = "10.79.0.253";

/// The host that will be stalled: its index in the lab.
const STILL: usize = 1;

/// The warm-up is long, because the network must be cut during it.
const WORK: &str = r#"
[factors]
file_size = "256KiB"
warmup = "5s"
duration = "1s"
[[workload]]
kind = "mixed"
workers = 1
read_percent = 100
"#;

/// Number of bytes that only a host in its warm-up has read: preparing reads no data.
const READ_BYTES: u64 = 2 << 20;

/// How long the network is cut: until the pass is over, on every host.
const CLOSED: Duration = Duration::from_secs(8);

/// Cuts a host off its server during the warm-up of a pass, until the pass is over.
pub fn named(lab: &Lab) -> Result<()> {
    ip(&["-n", &lab.bridge, "addr", "replace", &format!("{ADDRESS}/24"), "dev", "br0"])?;
    let (_server, work) = load::served_at(lab, ADDRESS, WORK, &[])?;
    let mut run = load::command(lab, "run", &work, &["--trials", "1"])?;
    let out = |name: &str| std::fs::File::create(lab.folder.path().join(name));
    run.stdout(out("stdout")?).stderr(out("stderr")?);
    let mut run = Background::start(&mut run)?;
    wait_until(PATIENCE, "reads of a host", || {
        read_bytes(lab).is_ok_and(|bytes| bytes >= READ_BYTES)
    })?;
    let route = format!("{ADDRESS}/32");
    lab.run_on(STILL, &["ip", "route", "add", "blackhole", &route])?;
    thread::sleep(CLOSED);
    lab.run_on(STILL, &["ip", "route", "del", "blackhole", &route])?;
    ensure!(run.await_end(PATIENCE)?.is_some(), "{}", lab.output_text()?);
    let report: Value = serde_json::from_str(&lab.output_text()?)?;
    check_report(&report).with_context(|| report.to_string())?;
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

/// Returns the number of bytes that the host has received from the server so far.
fn read_bytes(lab: &Lab) -> Result<u64> {
    let text = lab.run_on(STILL, &["ss", "-tinH", "dst", ADDRESS])?;
    let mut bytes = 0;
    for word in text.split_whitespace() {
        if let Some(received) = word.strip_prefix("bytes_received:") {
            bytes += received.parse::<u64>()?;
        }
    }
    Ok(bytes)
}

fn check_report(report: &Value) -> Result<()> {
    let hosts = &report["figures"][0]["hosts"];
    ensure!(hosts["stragglers"] == serde_json::json!(["two"]), "stragglers: {hosts}");
    let still: Vec<_> =
        hosts["hosts"].as_array().context("no hosts")?.iter().map(still_trials).collect();
    ensure!(still == [Some(0), Some(1)], "trials in which hosts stood still: {still:?}");
    Ok(())
}

fn still_trials(host: &Value) -> Option<u64> {
    host["trials_stood_still"].as_u64()
}
