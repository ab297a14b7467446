//! A small cluster on this machine: Slurm with four nodes, and the `mpirun` of both
//! implementations.
//!
//! Main type: [`Machine`], a network, mount and process namespace in which the daemons run. When it
//! is dropped, the first process of the namespace is killed, and with it all others. Its hosts
//! share one address, which is not loopback, with the name `cluster`.
//!
//! **Source:** slurm.conf(5), munged(8), unshare(1), nsenter(1).

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::guard::{self, Ticket};
use crate::proc::{self, Background};

/// Slurm node names of the cluster.
pub const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// How long the daemons may take until all nodes are idle, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A namespace with daemons.
pub struct Machine {
    folder: TempDir,
    first: Background,
    _ticket: Ticket,
}

impl Machine {
    /// Starts the machine.
    pub fn start() -> Result<Self> {
        let folder = TempDir::with_prefix("dfsbench-cluster-")?;
        let ticket = guard::remove_folder(folder.path());
        lay_out(folder.path())?;
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]);
        unshare.args(["--mount-proc", "sh", "-c", INSIDE, "sh"]).arg(folder.path());
        unshare.env("SLURM_CONF", folder.path().join("slurm.conf"));
        let (first, line) = Background::start_with_first_line(&mut unshare, PATIENCE)
            .with_context(|| last_words(folder.path()))?;
        ensure!(line == "ready", "the cluster printed `{line}`");
        Ok(Self { folder, first, _ticket: ticket })
    }

    /// Returns a path below the directory of this cluster.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a command for a program inside, in the directory of this cluster.
    pub fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        for (option, file) in [
            ("net", "net"),
            ("mount", "mnt"),
            ("uts", "uts"),
            ("ipc", "ipc"),
            ("pid", "pid_for_children"),
        ] {
            command.arg(format!("--{option}=/proc/{}/ns/{file}", self.first.id()));
        }
        command.arg(format!("--wd={}", self.folder.path().display())).arg("--").arg(program);
        command.env("SLURM_CONF", self.path("slurm.conf")).env("NO_COLOR", "1");
        // Open MPI requires this if run as root.
        command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        command
    }

    /// Returns the process ids, inside, of dfsbench processes with these first arguments.
    ///
    /// # Errors
    /// If the namespace is gone.
    pub fn find_processes(&self, words: &str) -> Result<Vec<String>> {
        let text = proc::capture_text(self.inside("sh").args(["-c", PROCESSES, "sh", words]))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Lists the agents inside.
    ///
    /// # Errors
    /// If the namespace is gone.
    pub fn list_agents(&self) -> Result<Vec<String>> {
        self.find_processes("agent --meet")
    }

    /// Kills a process inside.
    pub fn kill(&self, id: &str) -> Result<()> {
        proc::capture_stdout(self.inside("kill").args(["-9", id])).map(drop)
    }
}

fn last_words(folder: &Path) -> String {
    let logs = ["munge/out", "slurmctld.out", "n1.out"];
    let mut text = "the cluster did not start: ".to_owned();
    for log in logs {
        text += &fs::read_to_string(folder.join(log)).unwrap_or_default();
    }
    text
}

/// Writes the configuration of the daemons.
fn lay_out(folder: &Path) -> Result<()> {
    // Slurm's daemons and steps also run as other users.
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    for name in ["munge", "state", "target"] {
        fs::create_dir(folder.join(name))?;
    }
    let mut key = [0; 1024];
    fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    fs::write(folder.join("munge/key"), key)?;
    fs::set_permissions(folder.join("munge"), Permissions::from_mode(0o700))?;
    fs::set_permissions(folder.join("munge/key"), Permissions::from_mode(0o600))?;
    let names = NODES.join(" ");
    let hosts = format!("127.0.0.1 localhost\n10.79.9.2 cluster {names}\n");
    fs::write(folder.join("hosts"), hosts)?;
    fs::write(folder.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")?;
    let mut config = CONFIG.replace("FOLDER", &folder.display().to_string());
    for (index, node) in NODES.iter().enumerate() {
        // Writing to a string never fails.
        let _ = writeln!(
            config,
            "NodeName={node} NodeHostname=cluster NodeAddr=10.79.9.2 Port={} CPUs=4 \
             RealMemory=2000",
            17_001 + index
        );
    }
    let _ = writeln!(config, "PartitionName=main Nodes={} Default=YES State=UP", NODES.join(","));
    fs::write(folder.join("slurm.conf"), config)?;
    Ok(())
}

/// Script of the first process of the namespace; its argument is the directory.
const INSIDE: &str = r#"
set -e
cd "$1"
ip link set lo up
ip link add eth0 type veth peer name eth1
ip address add 10.79.9.2/24 dev eth0; ip link set eth0 up; ip link set eth1 up
hostname cluster
mount -t tmpfs tmpfs /run; mount --bind hosts /etc/hosts
/usr/sbin/munged --force --foreground --key-file="$1/munge/key" --socket="$1/munge/socket" \
  --pid-file="$1/munge/pid" --log-file="$1/munge/log" --seed-file="$1/munge/seed" \
  > munge/out 2>&1 &
while [ ! -S munge/socket ]; do sleep 0.05; done
/usr/sbin/slurmctld -D -c -f "$1/slurm.conf" > slurmctld.out 2>&1 &
for node in n1 n2 n3 n4; do
  mkdir "spool-$node"
  /usr/sbin/slurmd -D -N "$node" -f "$1/slurm.conf" > "$node.out" 2>&1 &
done
while [ "$(sinfo -h -o '%T %D' 2>/dev/null)" != 'idle 4' ]; do sleep 0.1; done
echo ready
wait
"#;

/// Lists our processes, except the shells and steps that start them.
const PROCESSES: &str = r#"
for place in /proc/[0-9]*; do
  line=$(tr '\0' ' ' < $place/cmdline 2>/dev/null) || continue
  case $line in /*/dfsbench\ "$1"*) echo "${place#/proc/}" ;; esac
done
"#;

const CONFIG: &str = "\
ClusterName=dfsbench
SlurmctldHost=cluster(10.79.9.2)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=FOLDER/munge/socket
CredType=cred/munge
StateSaveLocation=FOLDER/state
SlurmdSpoolDir=FOLDER/spool-%n
SlurmctldPidFile=FOLDER/slurmctld.pid
SlurmdPidFile=FOLDER/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
InactiveLimit=0
KillWait=2
";
