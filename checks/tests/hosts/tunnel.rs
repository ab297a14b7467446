//! A tunnel for packets: our client reaches our server over UDP and TCP, at addresses that only the
//! tunnel has.

use anyhow::{Context, Result, ensure};
use checks::hosts::Lab;
use checks::ours::exit;
use checks::proc;
use serde_json::Value;

use super::ladder;

/// The server's address in the tunnel, which no other interface has.
const SERVER: &str = "169.254.77.1";

const WORK: &str = r#"
[factors]
server_kind = "dfsbench"
data_path = "tunnel"
tunnel_forwards = "packets"
proto = ["udp", "tcp"]
nfsvers = 3
file_size = "1MiB"
workers = 1
[[workload]]
kind = "stream"
"#;

/// Measures over both transports; then both hosts are restored.
pub fn measured(lab: &Lab) -> Result<()> {
    let output = proc::capture_output(&mut ladder::command(lab, "run", WORK)?)?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(matches!(output.status.code(), Some(0 | exit::INVALID)), "{text}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let runs = report["runs"].as_array().context("no runs")?;
    ensure!(runs.len() == 2, "{} runs", runs.len());
    for run in runs {
        let trial = &run["trials"][0];
        ensure!(trial["state"] == "done", "{}", trial["state"]);
        let passes = trial["passes"].as_array().context("no passes")?;
        for pass in passes {
            ensure!(pass["bytes"] == 1 << 20, "{pass}");
        }
        let facts = trial["facts"].to_string();
        ensure!(facts.contains(&format!("packets from 169.254.77.2 to {SERVER}")), "{facts}");
    }
    for host in 0..2 {
        ladder::gone(lab, host)?;
        let links = lab.run_on(host, &["ip", "-o", "link"])?;
        ensure!(!links.contains(": tun"), "left on host {}: {links}", host + 1);
    }
    Ok(())
}
