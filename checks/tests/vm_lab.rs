//! The checks of the crate `lab` that need the kernel's server, as a program on a machine.
//!
//! The program is built here and copied to the server, where it runs as root and changes the
//! exports. Each of its checks is a test here (`build.rs` makes the table). The same server also
//! loses its power, and `dfsbench durability` reports what it has kept.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use checks::check::{Fixture, wait_until};
use checks::hosts::PATIENCE;
use checks::ours::{self, Ours};
use checks::proc::Background;
use checks::repo::Profile;
use checks::vm::lab::Lab;
use checks::vm::power;
use checks::vm::stages::{FRESH_EXPORT, Machines, Stage};
use checks::{checks, lab_real, proc};
use tempfile::TempDir;

/// Time limit of a check, in seconds: up to 60 s on an otherwise idle machine.
const CHECK_MAX_S: u32 = 280;

static MACHINES: Fixture<Machines<()>> = Fixture::new(|| Machines::copy("test-lab", 0));
static STAGE: Stage<()> = Stage { name: "lab", set_up: copy_program };
/// The unchanged server.
static BOOTED: Stage<()> = Stage { name: "booted", set_up: |_| Ok(()) };
static PROGRAM: Fixture<PathBuf> = Fixture::new(lab_real::find);

include!(concat!(env!("OUT_DIR"), "/lab_kernel.rs"));

checks! {
    tests_every_kernel_lab_check: 300 s, {
        lab_real::compare_names(PROGRAM.get()?, "kernel", NAMES)
    };
    #[ignore = "takes two minutes: runs every night"]
    sets_up_smb_from_recipe: 200 s, measured(|lab| KSMBD.check(lab));
    #[ignore = "takes two minutes: runs every night"]
    sets_up_kernel_server_from_recipe: 200 s, measured(|lab| KNFSD.check(lab));
    #[ignore = "takes five minutes: runs every night"]
    loses_async_exports_without_power: 600 s, {
        measured(power::check)
    };
}

/// A kernel server that a plan sets up from a recipe, on the data disk.
struct InKernel {
    /// The keys of its target.
    target: &'static str,
    factors: &'static str,
    /// A command that succeeds while it is in use.
    is_used: &'static str,
    /// A command that lists everything the recipe could leave behind.
    left: &'static str,
}

const KNFSD: InKernel = InKernel {
    target: r#"system = "knfsd", settings = { export = ["sync", "async"] }"#,
    factors: "nfsvers = 4.1, ",
    is_used: "grep -qx 8 /proc/fs/nfsd/threads && exportfs -s | grep -q /run/dfsbench/storage",
    // Threads, exports, mounts, processes and files.
    left: "cat /proc/fs/nfsd/threads; exportfs -s; grep dfsbench /proc/mounts; \
           pidof rpc.mountd; find /run/dfsbench /var/lib/nfs | sort; true",
};
const KSMBD: InKernel = InKernel {
    target: r#"system = "ksmbd", settings = { cache = ["strict", "none"] }"#,
    factors: "",
    is_used: "ss -Htln 'sport = :445' | grep -q . && grep -q ' cifs ' /proc/mounts",
    left: "grep -E 'dfsbench|cifs' /proc/mounts; pidof ksmbd.mountd; ss -Htln 'sport = :445'; \
           find /run/dfsbench /run/ksmbd* | sort; true",
};
const PLAN: &str = r#"
name = "recipe"
host = [{ name = "server", ssh = "server", ssh_config = "CONFIG", address = "10.77.0.1" }]
target = [{ name = "recipe", server = "server", devices = ["/dev/vdb"], TARGET }]
workload = [{ WORK }]
factors = { FACTORSfile_system = "ext4" }
"#;
const SHORT: &str = "kind = \"stream\", file_size = \"1MiB\"";
/// The workload of a campaign that is ended early.
const LONG: &str = "kind = \"mixed\", file_size = \"1MiB\", duration = \"60s\"";

impl InKernel {
    /// Sets it up with a plan for each of its settings, and checks for leftovers; then kills
    /// controller and agent while it is in use, and restores the host with `clean`.
    fn check(&self, lab: &Lab) -> Result<()> {
        // The server running since boot would keep the port and the disk.
        lab.ssh("server", "rpc.nfsd 0 && killall -w rpc.mountd; umount /export; true")?;
        let before = lab.ssh("server", self.left)?;
        let folder = TempDir::new()?;
        self.measure(lab, &folder)?;
        let after = lab.ssh("server", self.left)?;
        ensure!(after == before, "before:\n{before}after:\n{after}");
        self.kill_and_clean(lab, &folder, &before)
    }

    /// Returns the command of a campaign.
    fn run(&self, lab: &Lab, folder: &TempDir, work: &str) -> Result<Command> {
        let path = folder.path().join("plan.toml");
        let plan = PLAN
            .replace("CONFIG", &lab.ssh_config().display().to_string())
            .replace("TARGET", self.target)
            .replace("FACTORS", self.factors)
            .replace("WORK", work);
        fs::write(&path, plan)?;
        let mut run = Ours::new(Profile::Debug).command();
        run.arg("run").arg(path).args(["--quiet", "--trials", "1", "--format", "csv"]);
        run.args(["--allow-destroy", "/dev/vdb", "--results"]);
        run.arg(folder.path().join("results.db"));
        Ok(run)
    }

    fn measure(&self, lab: &Lab, folder: &TempDir) -> Result<()> {
        // A write pass and a read pass, with each of two settings.
        ours::measure_rows(&mut self.run(lab, folder, SHORT)?, 4)
    }

    fn kill_and_clean(&self, lab: &Lab, folder: &TempDir, before: &str) -> Result<()> {
        let at = |name: &str| folder.path().join(name).display().to_string();
        let mut run = self.run(lab, folder, LONG)?;
        run.stdout(fs::File::create(at("stdout"))?).stderr(fs::File::create(at("stderr"))?);
        let mut campaign = Background::start(&mut run)?;
        let is_used = || lab.ssh("server", self.is_used).is_ok();
        let errors = || {
            fs::read_to_string(at("stderr")).unwrap_or_default()
                + &fs::read_to_string(at("stdout")).unwrap_or_default()
        };
        wait_until(PATIENCE, "the server in the kernel", is_used).with_context(errors)?;
        lab.kill_agents("server")?;
        campaign.kill();
        ensure!(is_used(), "nothing was left to restore");
        let mut clean = Ours::new(Profile::Debug).command();
        let text = proc::capture_text(clean.args(["clean", &at("plan.toml")]))?;
        ensure!(text.contains("server: restored: "), "{text}");
        let after = lab.ssh("server", self.left)?;
        ensure!(after == before, "before:\n{before}after:\n{after}{text}");
        Ok(())
    }
}

fn measured(check: fn(&Lab) -> Result<()>) -> Result<()> {
    MACHINES.get()?.run_in(&BOOTED, |lab, ()| check(lab))
}

fn run_one(name: &str) -> Result<()> {
    MACHINES.get()?.run_in(&STAGE, |lab, ()| {
        lab.ssh_within("server", &format!("/root/lab_real {name}"), CHECK_MAX_S).map(drop)
    })
}

/// Copies the program of the lab's checks to the server; this machine's C library is the older one.
fn copy_program(machines: &'static Lab) -> Result<()> {
    let config = machines.ssh_config();
    let folder = TempDir::new()?;
    let small = folder.path().join("lab_real");
    proc::run_command(Command::new("strip").arg("-o").arg(&small).arg(PROGRAM.get()?))?;
    let mut copy = Command::new("scp");
    copy.arg("-F").arg(&config).arg(&small).arg("server:/root/lab_real");
    proc::run_command(&mut copy)?;
    // It lets the server's ssh reach the server itself.
    let mut copy = Command::new("scp");
    copy.arg("-F").arg(&config).arg(config.with_file_name("id"));
    proc::run_command(copy.arg("server:/root/lab_key"))?;
    machines.ssh("server", FRESH_EXPORT)?;
    // libmount and mdadm create these with the first mount and the first array, and keep them.
    let line = "cd /run && mkdir -p mount mdadm && touch mdadm/map mount/utab \
                mount/utab.event mount/utab.lock";
    machines.ssh("server", line).map(drop)
}
