//! The Linux kernel's NFS server and clients, in virtual machines: with each other, and with ours.
//!
//! Two laboratories at once, both the tests' own (`target/vm/test` and `test-v2`): kernels 6.12 and
//! 6.1, and 5.10 for NFSv2. They end with the checks. The machines are emulated, so nothing here is
//! held to a speed: what is checked is behaviour, and what the kernel's own counters say.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Checks;
use crate::vm;
use crate::vm::lab::{Ended, Lab, Wanted};
use crate::vm::machine::Suite;

mod guest;
mod hung;
mod kernel;
mod lab_checks;
mod mountstats;
mod options;
mod ours;
mod plans;
mod questions;
mod secured;

/// Folder of the laboratory of kernels 6.12 and 6.1.
const TWO_KERNELS: &str = "test";
/// Client of kernel 6.12.
const NEW: &str = "client1";
/// Client of kernel 6.1.
const OLD: &str = "client2";
/// A server that is started anew forgets what clients of v4 still have open: a run of ours that
/// keeps its files ends without closing them, and the file system would stay busy.
const FRESH_EXPORT: &str = "lab-nfsd 8 && lab-export ext4";
/// Tells what a machine is at: its programs, what hangs in its kernel and where, what is mounted
/// and served, and what the kernel said last.
const STATE_OF_A_MACHINE: &str = "\
    cat /proc/uptime; ps -e -o pid= -o stat= -o wchan:30= -o args= | grep -v '\\[.*\\]$'; \
    for id in $(ps -e -o pid= -o stat= -o comm= | \
        awk '$2 ~ /D/ || $3 ~ /nfs|lockd|mount|lab_real/ { print $1 }'); do \
        echo \"-- $id $(cat /proc/$id/comm)\"; cat /proc/$id/stack; done; \
    grep -E 'nfs|dfsbench|export' /proc/mounts; cd /proc/fs/nfsd && \
    grep . threads versions v4_end_grace nfsv4gracetime clients/*/info clients/*/states; \
    exportfs -s; dmesg | tail -n 20; true";
/// For how long clocks are compared.
const CLOCK_SPAN: Duration = Duration::from_secs(4);
/// How far a guest's clock may be off, as a share: far less than a wrong calibration is.
const CLOCK_ERROR_MAX: f64 = 0.2;

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    if checks.get("machines can run here", vm::prepare).is_some() {
        checks.beside(two_kernels, nfs2);
    }
}

fn two_kernels(checks: &mut Checks) {
    let clients = [Suite::Trixie, Suite::Bookworm];
    let booted =
        checks.get("kernels 6.12 and 6.1 boot", || boot(TWO_KERNELS, Suite::Trixie, &clients));
    let Some(lab) = booted else { return };
    checks.run("their clocks run like ours", || clocks(&lab));
    kernel::run(checks, &lab);
    options::run(checks, &lab);
    ours::run(checks, &lab);
    secured::run(checks, &lab);
    // What follows changes machines, and is begun anew from here where one of it fails.
    let plans = checks.get("a client can reach its server by ssh", || plans::Plans::new(&lab));
    let names = checks.get("the lab's checks are brought in", || lab_checks::bring(&lab));
    if checks.get("machines are saved, resumed and rewound", || saved(&lab)).is_some() {
        if let Some(plans) = plans {
            run_plans(checks, &lab, &plans);
        }
        lab_checks::run(checks, &lab, &names.unwrap_or_default());
    }
}

/// Runs the checks of plans, from machines that were saved after [`plans::Plans::new`].
fn run_plans(checks: &mut Checks, lab: &Lab, plans: &plans::Plans<'_>) {
    let mut run = |name, check: &dyn Fn() -> Result<()>| run_apart(checks, lab, name, check);
    run("a plan of data paths on real kernels", &|| plans.data_paths());
    run("what server and client have in memory is told, unless they mount anew", &|| {
        plans.cached()
    });
    run("a setting of a mount is in force, or the run is failed", &|| plans.in_force());
    run("two clients of one server at one moment", &|| plans.scaling());
    run("two kernels of the client are one factor", &|| plans.kernels());
    run("a ladder has every layer on real kernels", &|| questions::ladder(plans));
    run("a soak stops, cuts off, fills and sets machines, and undoes it", &|| {
        questions::soak(plans)
    });
    run("a signal ends a campaign whose mount does not answer", &|| hung::signalled(plans));
    run("machines of a controller that was killed put themselves back", &|| plans.killed());
}

/// Runs a check that changes machines. After one that fails all machines are as they were saved,
/// so that the next one meets nothing of it.
fn run_apart(checks: &mut Checks, lab: &Lab, name: &str, check: impl Fn() -> Result<()>) {
    checks.get_restoring(name, check, || {
        for host in lab.names() {
            let said = lab.ssh(host, STATE_OF_A_MACHINE);
            println!("{host}:\n{}", said.unwrap_or_else(|error| format!("{error:#}")));
        }
        if let Err(error) = lab.rewind() {
            println!("the machines can't be rewound: {error:#}");
        }
    });
}

/// Kernel 5.10 is the last of Debian's whose server speaks v2.
fn nfs2(checks: &mut Checks) {
    let suite = Suite::Bullseye;
    let booted = checks.get("kernel 5.10 boots", || boot("test-v2", suite, &[suite]));
    let Some(lab) = booted else { return };
    let started = checks.get("its server speaks v2", || {
        lab.ssh("server", "lab-nfsd 8 -V 2 && lab-export ext4 && cat /proc/fs/nfsd/versions")
            .and_then(|said| {
                ensure!(said.contains("+2"), "it speaks {said:?}");
                Ok(())
            })
    });
    if started.is_some() {
        kernel::nfs2(checks, &lab);
        ours::nfs2(checks, &lab);
    }
}

fn boot(folder: &str, server: Suite, clients: &[Suite]) -> Result<Ended> {
    let wanted = Wanted { server, clients: clients.to_vec(), mtu: 1500, shared_mib: None };
    Ok(Ended::new(Lab::up(&vm::folder(folder), &wanted)?))
}

/// Compares the guests' clocks with ours, over a span that is known to lie between two others.
fn clocks(lab: &Lab) -> Result<()> {
    let read = |host: &str| -> Result<(Instant, f64, Instant)> {
        let before = Instant::now();
        let said = lab.ssh(host, "cut -d' ' -f1 /proc/uptime")?;
        Ok((before, said.trim().parse().context("no time")?, Instant::now()))
    };
    let all = || lab.names().into_iter().map(read).collect::<Result<Vec<_>>>();
    let first = all()?;
    std::thread::sleep(CLOCK_SPAN);
    for ((host, first), second) in lab.names().into_iter().zip(first).zip(all()?) {
        let shortest = (second.0 - first.2).as_secs_f64() * (1.0 - CLOCK_ERROR_MAX);
        let longest = (second.2 - first.0).as_secs_f64() * (1.0 + CLOCK_ERROR_MAX);
        let guest = second.1 - first.1;
        let is_right = (shortest..=longest).contains(&guest);
        ensure!(is_right, "{host}: {guest:.2} s, there are {shortest:.2} to {longest:.2} s here");
    }
    Ok(())
}

/// Saves what runs and resumes it, twice: what was before is there, what came afterwards is gone.
fn saved(lab: &Lab) -> Result<()> {
    lab.ssh("server", "echo before >/export/saved")?;
    lab.save()?;
    Lab::restore(&vm::folder(TWO_KERNELS))?;
    lab.ssh("server", "echo after >/export/saved && sync")?;
    lab.rewind()?;
    let said = lab.ssh("server", "cat /export/saved")?;
    ensure!(said.trim() == "before", "the file holds {said:?}");
    let guest: u64 = lab.ssh(NEW, "date +%s")?.trim().parse()?;
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    ensure!(here.abs_diff(guest) < 30, "the resumed guest is {} s off", here.abs_diff(guest));
    Ok(())
}
