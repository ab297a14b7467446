//! What a laboratory has set up by itself, mounted by a plan on its two clients.

use std::fs;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::lab::Lab;
use crate::ours::{self, Ours};
use crate::repo::Profile;

const CLIENTS: [&str; 2] = ["client1", "client2"];

/// The server's host stands for the storage, which is watched.
const PLAN: &str = r#"
name = "mounted"
host = [
    { name = "server", ssh = "server", ssh_config = "CONFIG", address = "10.77.0.1" },
    { name = "client1", ssh = "client1", ssh_config = "CONFIG", address = "10.77.0.11" },
    { name = "client2", ssh = "client2", ssh_config = "CONFIG", address = "10.77.0.12" },
]
[[target]]
name = "mounted"
server = "server"
clients = ["client1", "client2"]
mount = MOUNT
[factors]
client_hosts = [1, 2]
[[workload]]
kind = "stream"
file_size = "1MiB"
verify = true
[[workload]]
kind = "metadata"
small_files = 50
"#;
/// A write and a read, a create, a stat and a remove, each by one host and by two.
const ROWS: usize = 10;

/// Measures what `mount` of a target names, whose type is `kind`, by one client and by both; and
/// looks whether either has it mounted afterwards.
///
/// # Errors
/// Where a row has no figure, or something is left.
pub fn measure(lab: &Lab, kind: &str, mount: &str) -> Result<()> {
    let folder = TempDir::new()?;
    let plan = folder.path().join("plan.toml");
    let config = lab.ssh_config().display().to_string();
    fs::write(&plan, PLAN.replace("CONFIG", &config).replace("MOUNT", mount))?;
    let mut run = Ours::new(Profile::Debug).command();
    run.arg("run").arg(plan).args(["--quiet", "--trials", "1", "--format", "csv", "--results"]);
    ours::measure_rows(run.arg(folder.path().join("results.db")), ROWS)?;
    for client in CLIENTS {
        let list = format!("grep -E ' {kind} |dfsbench' /proc/mounts; ls /run/dfsbench; true");
        let left = lab.ssh(client, &list)?;
        ensure!(left.is_empty(), "{client}: {left}");
    }
    Ok(())
}
