//! GFS2 on a disk that two virtual machines share, which a plan mounts on both.

use std::fs;
use std::thread;

use anyhow::{Result, ensure};
use checks::check::Fixture;
use checks::ours::{self, Ours};
use checks::repo::Profile;
use checks::vm::lab::{Ended, Lab, Wanted};
use checks::vm::machine::Suite;
use checks::{checks, vm};
use tempfile::TempDir;

const NODES: [&str; 2] = ["client1", "client2"];
/// How long a command on a machine may take, in seconds.
const COMMAND_MAX_S: u32 = 120;

/// Two nodes of a cluster with a file system that neither has mounted.
static MACHINES: Fixture<Ended> = Fixture::new(|| {
    vm::prepare()?;
    let suite = Suite::TrixieSystems;
    let wanted =
        Wanted { server: suite, clients: vec![suite, suite], mtu: 1500, shared_mib: Some(512) };
    let lab = Ended::new(Lab::up(&vm::lab_folder("test-gfs2"), &wanted)?);
    // Each waits until the other one is there.
    let join = |node| lab.ssh_within(node, "lab-gfs2 join client1 client2", COMMAND_MAX_S);
    thread::scope(|scope| -> Result<()> {
        let other = scope.spawn(|| join(NODES[1]));
        join(NODES[0])?;
        other.join().expect("no panic")?;
        Ok(())
    })?;
    lab.ssh_within(NODES[0], "lab-gfs2 format 2", COMMAND_MAX_S)?;
    Ok(lab)
});

checks! {
    gfs2_is_mounted_by_one_machine_and_by_two: 600 s, measured();
}

/// The server's host only stands for the storage, which is watched.
const PLAN: &str = r#"
name = "gfs2"
host = [
    { name = "server", ssh = "server", ssh_config = "CONFIG", address = "10.77.0.1" },
    { name = "client1", ssh = "client1", ssh_config = "CONFIG", address = "10.77.0.11" },
    { name = "client2", ssh = "client2", ssh_config = "CONFIG", address = "10.77.0.12" },
]
[[target]]
name = "gfs2"
server = "server"
clients = ["client1", "client2"]
mount = { type = "gfs2", source = "/dev/disk-shared", options = ["noatime"] }
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
    for node in NODES {
        let left =
            lab.ssh(node, "grep -E 'gfs2 |dfsbench' /proc/mounts; ls /run/dfsbench; true")?;
        ensure!(left.is_empty(), "{node}: {left}");
    }
    Ok(())
}
