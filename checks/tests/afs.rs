//! A cell of AFS on one virtual machine, which a plan mounts on two others by the kernel's client.

use std::fs;

use anyhow::{Result, ensure};
use checks::check::Fixture;
use checks::ours::{self, Ours};
use checks::repo::Profile;
use checks::vm::lab::{Ended, Lab, Wanted};
use checks::vm::machine::Suite;
use checks::{checks, vm};
use tempfile::TempDir;

const CLIENTS: [&str; 2] = ["client1", "client2"];
/// How long a command on a machine may take, in seconds.
const COMMAND_MAX_S: u32 = 120;

/// A server with a cell, and two clients that know where it is.
static MACHINES: Fixture<Ended> = Fixture::new(|| {
    vm::prepare()?;
    let suite = Suite::TrixieSystems;
    let wanted = Wanted { server: suite, clients: vec![suite; 2], mtu: 1500, shared_mib: None };
    let lab = Ended::new(Lab::up(&vm::lab_folder("test-afs"), &wanted)?);
    lab.ssh_within("server", "lab-afs serve", COMMAND_MAX_S)?;
    for client in CLIENTS {
        lab.ssh_within(client, "lab-afs join", COMMAND_MAX_S)?;
    }
    Ok(lab)
});

checks! {
    afs_is_mounted_by_one_client_and_by_two: 600 s, measured();
}

const PLAN: &str = r#"
name = "afs"
host = [
    { name = "server", ssh = "server", ssh_config = "CONFIG", address = "10.77.0.1" },
    { name = "client1", ssh = "client1", ssh_config = "CONFIG", address = "10.77.0.11" },
    { name = "client2", ssh = "client2", ssh_config = "CONFIG", address = "10.77.0.12" },
]
[[target]]
name = "afs"
server = "server"
clients = ["client1", "client2"]
mount = { type = "afs", source = "%lab.afs:root.cell." }
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

fn measured() -> Result<()> {
    let lab = MACHINES.get()?;
    let folder = TempDir::new()?;
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, PLAN.replace("CONFIG", &lab.ssh_config().display().to_string()))?;
    let mut run = Ours::new(Profile::Debug).command();
    run.arg("run").arg(plan).args(["--quiet", "--trials", "1", "--format", "csv", "--results"]);
    ours::measure_rows(run.arg(folder.path().join("results.db")), ROWS)?;
    for client in CLIENTS {
        let left =
            lab.ssh(client, "grep -E ' afs |dfsbench' /proc/mounts; ls /run/dfsbench; true")?;
        ensure!(left.is_empty(), "{client}: {left}");
    }
    Ok(())
}
