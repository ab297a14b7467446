//! A network that drops large frames: the bridge has 1500 bytes, the hosts are set to 9000.
//!
//! Small packets pass, including those of ssh and the agents, so that only full-size packets reveal
//! it.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use checks::hosts::{LEAVING, Lab};
use checks::ours::exit;
use checks::proc;

/// A run over both hosts, with packets that the bridge drops.
fn command(lab: &Lab) -> Result<Command> {
    let at = |name: &str| lab.folder.path().join(name).display().to_string();
    fs::write(at("network.toml"), PLAN.replace("CONFIG", &at("config")))?;
    let mut command = lab.ours();
    command.args(["run", &at("network.toml"), "--quiet", "--format", "csv", "--results"]);
    command.arg(at("network.db"));
    Ok(command)
}

/// The row contains both hosts, the size that is lost and the one that passes; hosts are restored.
pub fn large_frames_dropped(lab: &Lab) -> Result<()> {
    let output = proc::capture_output(&mut command(lab)?)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.code() == Some(exit::INVALID), "{output:?}");
    for (from, to, address) in [("client", "server", 1), ("server", "client", 2)] {
        let lost = format!(
            "host {from}: packets of 9000 bytes to {to} (10.79.0.{address}) are lost (1500 bytes \
             get through)"
        );
        ensure!(text.contains(&lost), "{lost}:\n{text}");
    }
    for host in 0..2 {
        lab.await_nothing(host, LEAVING)?;
        let link = lab.run_on(host, &["ip", "link", "show", "eth0"])?;
        ensure!(link.contains("mtu 1500 "), "{link}");
    }
    Ok(())
}

const PLAN: &str = r#"
name = "network"
trials = 1
[[host]]
name = "server"
ssh = "h1"
address = "10.79.0.1"
interface = "eth0"
ssh_config = "CONFIG"
[[host]]
name = "client"
ssh = "h2"
address = "10.79.0.2"
interface = "eth0"
ssh_config = "CONFIG"
[[target]]
name = "nfs"
server = "server"
client = "client"
backend = "nfs"
[factors]
server_kind = "dfsbench"
mtu = 9000
file_size = "4MiB"
[[workload]]
kind = "stream"
"#;
