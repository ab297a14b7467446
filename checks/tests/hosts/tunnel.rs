//! A tunnel that carries packets: our client speaks to a server of ours over UDP and TCP, by
//! addresses that only the tunnel has.

use std::fs;

use anyhow::{Context, Result, ensure};
use checks::hosts::{LEAVING, Lab, SERVER_AND_CLIENT};
use checks::ours::exit;
use checks::proc;
use serde_json::Value;

/// The address of the server within the tunnel, which no other interface has.
const SERVER: &str = "169.254.77.1";

const WORK: &str = r#"
[[target]]
name = "nfs"
server = "server"
client = "client"
backend = "nfs"
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

/// Measures over both transports; then both hosts are as before.
pub fn measured(lab: &Lab) -> Result<()> {
    let at = |name: &str| lab.folder.path().join(name).display().to_string();
    let hosts = SERVER_AND_CLIENT.replace("CONFIG", &at("config"));
    fs::write(at("tunnel.toml"), format!("name = \"tunnel\"\ntrials = 1\n{hosts}{WORK}"))?;
    let mut run = lab.ours();
    run.args(["run", &at("tunnel.toml"), "--quiet", "--format", "json"]);
    let output = proc::capture_output(run.args(["--results", &at("tunnel.db")]))?;
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
        lab.await_nothing(host, LEAVING)?;
        let links = lab.run_on(host, &["ip", "-o", "link"])?;
        ensure!(!links.contains(": tun"), "left on host {}: {links}", host + 1);
    }
    Ok(())
}
