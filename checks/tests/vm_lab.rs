//! The checks of the crate `lab` that need the kernel's server, as a program on a machine.
//!
//! The program is built here and copied to the server, where it runs as root and changes what is
//! exported. Each of its checks is a test here (`build.rs` makes the table).

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use checks::check::Fixture;
use checks::ours::Ours;
use checks::repo::Profile;
use checks::vm::lab::Lab;
use checks::vm::peer;
use checks::vm::stages::{FRESH_EXPORT, Machines, Stage};
use checks::{checks, durability, lab_real, proc};
use tempfile::TempDir;

const OURS: Ours = Ours::new(Profile::Debug);
/// How long a check may take, in seconds: up to 60 s on a machine that does nothing else.
const CHECK_MAX_S: u32 = 280;

static MACHINES: Fixture<Machines<()>> = Fixture::new(|| Machines::copy("test-lab", 0));
static STAGE: Stage<()> = Stage { name: "lab", set_up: copy_program };
static PROGRAM: Fixture<PathBuf> = Fixture::new(lab_real::build);

include!(concat!(env!("OUT_DIR"), "/lab_kernel.rs"));

/// The server exports a file system of its data disk, and a folder of its root disk asynchronously.
static EXPORTS: Stage<()> = Stage { name: "durability", set_up: export_both };

checks! {
    a_loss_of_power_shows_what_sync_and_async_exports_keep: 280 s, {
        MACHINES.get()?.run_in(&EXPORTS, |lab, ()| cut_power(lab))
    };
    every_kernel_check_of_the_lab_is_a_test: 300 s, {
        lab_real::compare_names(PROGRAM.get()?, "kernel", NAMES)
    };
}

fn run_one(name: &str) -> Result<()> {
    MACHINES.get()?.run_in(&STAGE, |lab, ()| {
        lab.ssh_within("server", &format!("/root/lab_real {name}"), CHECK_MAX_S).map(drop)
    })
}

/// Copies the program of the lab's checks to the server; this machine's C library is the older one.
fn copy_program(machines: &'static Lab) -> Result<()> {
    let (config, folder) = (machines.ssh_config(), TempDir::new()?);
    let small = folder.path().join("lab_real");
    proc::run_command(Command::new("strip").arg("-o").arg(&small).arg(PROGRAM.get()?))?;
    let mut copy = Command::new("scp");
    copy.arg("-F").arg(&config).arg(&small).arg("server:/root/lab_real");
    proc::run_command(&mut copy)?;
    // By it the server's ssh leads to itself.
    let mut copy = Command::new("scp");
    copy.arg("-F").arg(&config).arg(config.with_file_name("id"));
    proc::run_command(copy.arg("server:/root/lab_key"))?;
    machines.ssh("server", FRESH_EXPORT)?;
    // libmount and mdadm make these at the first mount and the first array, and keep them.
    let line = "cd /run && mkdir -p mount mdadm && touch mdadm/map mount/utab \
                mount/utab.event mount/utab.lock";
    machines.ssh("server", line).map(drop)
}

/// Makes the two exports; periodic writing of dirty data is off, so that a slow machine has no more
/// time to write than a fast one.
fn export_both(machines: &'static Lab) -> Result<()> {
    machines.ssh("server", FRESH_EXPORT)?;
    let line = "mkdir -p /srv/async && chmod 777 /srv/async && \
                echo '/srv/async 10.77.0.0/24(rw,async,no_root_squash,insecure,fsid=2)' \
                >>/etc/exports && exportfs -ra && sync && \
                echo 0 >/proc/sys/vm/dirty_writeback_centisecs";
    machines.ssh("server", line).map(drop)
}

/// Measures both exports with one loss of power: the one that is `sync` keeps its promises, the one
/// that is `async` reports data as safe that is in memory only.
fn cut_power(machines: &Lab) -> Result<()> {
    const EXPORTS: [&str; 2] = ["nfs://10.77.0.1/export", "nfs://10.77.0.1/srv/async"];
    let folder = TempDir::new()?;
    let command = |number: usize, cut: &str| {
        let mut command = peer::wrap_inside(machines, &OURS.command());
        command.args(["durability", EXPORTS[number], "--rounds", "1"]);
        command.args(["--power-cut", "server", "--confirm-power-cut", "server"]);
        command.args(["--power-cut-command", cut, "--format", "json", "--quiet", "--results"]);
        command.arg(folder.path().join(format!("{number}.db")));
        command
    };
    let event = || {
        machines.cut_power("server")?;
        machines.ssh("server", "mount /dev/disk-data /export && exportfs -ra").map(drop)
    };
    let reports = durability::measure(folder.path(), EXPORTS.len(), &command, &event)?;
    durability::check_kept(&reports[0], &["sync", "osync"], "survives power loss")?;
    durability::check_lost(&reports[1], &["sync", "osync"])
}
