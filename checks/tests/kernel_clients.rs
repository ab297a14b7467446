//! File systems that recipes set up on virtual machines, since they need kernel clients or the
//! kernel's server: AFS, GFS2, CephFS with its kernel client, and CephFS re-exported.
//!
//! Needs the image `trixie-systems`, which is large: only `cargo xtask real kernel_clients` runs
//! it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use checks::check::{Fixture, wait_until};
use checks::durability::check_kept;
use checks::hosts::PATIENCE;
use checks::ours::{self, Ours};
use checks::proc::{self, Background};
use checks::repo::Profile;
use checks::vm::lab::{Lab, NewLab, TemporaryLab};
use checks::vm::machine::Suite;
use checks::vm::power;
use checks::{checks, vm};
use tempfile::TempDir;

const HOSTS: [&str; 3] = ["server", "client1", "client2"];
const SHARED_MIB: u32 = 512;
/// The data disk of the server.
const DISK: &str = "/dev/vdb";

/// A server and two clients, which share a disk.
static MACHINES: Fixture<TemporaryLab> = Fixture::new(|| {
    vm::prepare()?;
    let suite = Suite::TrixieSystems;
    let wanted =
        NewLab { server: suite, clients: vec![suite; 2], mtu: 1500, shared_mib: Some(SHARED_MIB) };
    Ok(TemporaryLab::new(Lab::boot(&vm::lab_folder("test-kernel-clients"), &wanted)?))
});

checks! {
    measures_afs_with_one_and_two_clients: 600 s, AFS.measure(MACHINES.get()?);
    afs_is_killed_and_cleaned: 600 s, AFS.kill_and_clean(MACHINES.get()?);
    remounts_afs_after_power_loss: 600 s, {
        // It does not sync by itself: the kernel does, after half a minute.
        AFS.lose_power(MACHINES.get()?, HOSTS[0], &["--allow-destroy", DISK, "--idle", "60s"])
    };
    gfs2_keeps_synced_data_without_power: 600 s, {
        GFS2.lose_power(MACHINES.get()?, HOSTS[1], &[])
    };
    measures_gfs2_with_one_and_two_nodes: 600 s, GFS2.measure(MACHINES.get()?);
    gfs2_is_killed_and_cleaned: 600 s, GFS2.kill_and_clean(MACHINES.get()?);
    gfs2_refuses_disk_in_use: 300 s, {
        let lab = MACHINES.get()?;
        for make in [FILE_SYSTEM, PARTITIONS] {
            lab.ssh(HOSTS[1], make)?;
            GFS2.is_refused(lab, "wipe it first")?;
            lab.ssh(HOSTS[1], "wipefs -a /dev/disk-shared")?;
        }
        Ok(())
    };
    gfs2_requires_disk_twice: 300 s, {
        let once = System { settings: "device = \"/dev/disk-shared\"", ..GFS2 };
        once.is_refused(MACHINES.get()?, "must both name the disk")
    };
    mounts_cephfs_by_kernel: 900 s, CEPHFS.measure(MACHINES.get()?);
    reexports_cephfs_by_kernel: 900 s, {
        let target = "access = \"re-export\"\ntmpfs_size = \"1GiB\"";
        System { target, ..CEPHFS }.measure(MACHINES.get()?)
    };
}

/// A system, and how a plan sets it up.
struct System {
    name: &'static str,
    /// Keys of its target.
    target: &'static str,
    settings: &'static str,
    /// Type of its mount on a client.
    mounted: &'static str,
}

const AFS: System = System {
    name: "afs",
    target: "devices = [\"/dev/vdb\"]",
    settings: "sync = \"onclose\"",
    mounted: "afs",
};
const GFS2: System = System {
    name: "gfs2",
    target: "",
    settings: "device = \"/dev/disk-shared\"\nallow_destroy = \"/dev/disk-shared\"",
    mounted: "gfs2",
};
const CEPHFS: System = System {
    name: "cephfs",
    target: "access = \"mount\"\ntmpfs_size = \"1GiB\"",
    settings: "store = \"memstore\"\nosds = 1\nosd_gib = 1",
    mounted: "ceph",
};

/// Something that others may have on the shared disk.
const FILE_SYSTEM: &str = "mkfs.ext4 -q -F /dev/disk-shared";
/// The signature of a master boot record is a table without partitions.
const PARTITIONS: &str =
    "printf '\\125\\252' | dd of=/dev/disk-shared bs=1 seek=510 conv=notrunc status=none && sync";

const PLAN: &str = r#"
name = "system"
host = [
    { name = "server", ssh = "server", ssh_config = "CONFIG", address = "10.77.0.1" },
    { name = "client1", ssh = "client1", ssh_config = "CONFIG", address = "10.77.0.11" },
    { name = "client2", ssh = "client2", ssh_config = "CONFIG", address = "10.77.0.12" },
]
[[target]]
name = "NAME"
server = "server"
clients = ["client1", "client2"]
system = "NAME"
TARGET
[target.settings]
SETTINGS
[factors]
client_hosts = CLIENTS
"#;

/// Files that are written and read back, and metadata operations: with one client, and with two.
const SHORT: &str = r#"
[[workload]]
kind = "stream"
file_size = "1MiB"
verify = true
[[workload]]
kind = "metadata"
small_files = 50
"#;
/// A write and a read, a create, a stat and a remove, each with one host and with two.
const ROWS: usize = 10;

/// A mix that is ended early.
const LONG: &str = r#"
[[workload]]
kind = "mixed"
file_size = "1MiB"
duration = "120s"
"#;

/// Lists everything that a system could leave behind: mounts, exports, marked processes and files.
const LEFT: &str = r"
exportfs -s
grep -E ' (afs|gfs2|ceph) |dfsbench|/etc/kafs' /proc/mounts
grep -la DFSBENCH_SERVICE=/run/dfsbench /proc/[0-9]*/environ 2>/dev/null
find /run/dfsbench /run/ceph /run/dlm_controld /var/lib/ceph /var/log/ceph /var/lib/corosync \
    /var/log/dlm_controld /var/lib/openafs /var/log/openafs 2>/dev/null | sort
blkid -p /dev/disk-shared
true
";

impl System {
    fn write_plan(
        &self,
        lab: &Lab,
        folder: &TempDir,
        work: &str,
        clients: &str,
    ) -> Result<PathBuf> {
        let plan = folder.path().join("plan.toml");
        let text = PLAN
            .replace("CONFIG", &lab.ssh_config().display().to_string())
            .replace("NAME", self.name)
            .replace("TARGET", self.target)
            .replace("SETTINGS", self.settings)
            .replace("CLIENTS", clients);
        fs::write(&plan, text + work)?;
        Ok(plan)
    }

    fn command(&self, lab: &Lab, folder: &TempDir, work: &str, clients: &str) -> Result<Command> {
        let plan = self.write_plan(lab, folder, work, clients)?;
        let mut command = Ours::new(Profile::Debug).command();
        command.arg("run").arg(plan).args(["--quiet", "--trials", "1", "--format", "csv"]);
        if self.target.contains(DISK) {
            command.args(["--allow-destroy", DISK]);
        }
        command.arg("--results").arg(folder.path().join("results.db"));
        Ok(command)
    }

    /// Measures it with one client and with both, and checks that the machines are restored.
    fn measure(&self, lab: &Lab) -> Result<()> {
        let before = list_left(lab)?;
        let folder = TempDir::new()?;
        ours::measure_rows(&mut self.command(lab, &folder, SHORT, "[1, 2]")?, ROWS)?;
        compare_left(lab, &before)
    }

    /// Kills controller and agents during the measurement, cleans up, and checks that the machines
    /// are restored.
    fn kill_and_clean(&self, lab: &Lab) -> Result<()> {
        let before = list_left(lab)?;
        let folder = TempDir::new()?;
        let out = |name: &str| fs::File::create(folder.path().join(name));
        let mut command = self.command(lab, &folder, LONG, "2")?;
        let mut campaign =
            Background::start(command.stdout(out("stdout")?).stderr(out("stderr")?))?;
        let is_used = format!("grep -q ' {} ' /proc/mounts", self.mounted);
        wait_until(PATIENCE, "the mounts", || {
            HOSTS[1..].iter().all(|client| lab.ssh(client, &is_used).is_ok())
        })?;
        campaign.kill();
        for host in HOSTS {
            lab.kill_agents(host)?;
        }
        ensure!(list_left(lab)? != before, "nothing was left to restore");
        let mut clean = Ours::new(Profile::Debug).command();
        clean.arg("clean").arg(folder.path().join("plan.toml"));
        clean.arg("--results").arg(folder.path().join("results.db"));
        proc::capture_text(&mut clean)?;
        compare_left(lab, &before)
    }

    /// Resets a host while one client writes, or after it has written, and checks that all synced
    /// data is preserved, and that the machines are restored.
    fn lose_power(&self, lab: &Lab, host: &str, options: &[&str]) -> Result<()> {
        let before = list_left(lab)?;
        let folder = TempDir::new()?;
        let plan = self.write_plan(lab, &folder, SHORT, "1")?;
        let (reports, code) = power::measure(lab, host, &plan, options)?;
        check_kept(&reports[0], &["sync", "osync"], "survives power loss")?;
        ensure!(code == Some(0), "exit code {code:?}: {reports:?}");
        compare_left(lab, &before)
    }

    /// Checks that no row has a result, for a reason that contains `why`, and that nothing is left.
    fn is_refused(&self, lab: &Lab, why: &str) -> Result<()> {
        let before = list_left(lab)?;
        let folder = TempDir::new()?;
        let output = proc::capture_output(&mut self.command(lab, &folder, SHORT, "1")?)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success(), "{text}{errors}");
        ensure!(text.contains(why) || errors.contains(why), "{text}{errors}");
        compare_left(lab, &before)
    }
}

fn list_left(lab: &Lab) -> Result<Vec<String>> {
    HOSTS.iter().map(|host| lab.ssh(host, LEFT)).collect()
}

fn compare_left(lab: &Lab, before: &[String]) -> Result<()> {
    let after = list_left(lab)?;
    ensure!(after == before, "left: {after:?}, before: {before:?}");
    Ok(())
}
