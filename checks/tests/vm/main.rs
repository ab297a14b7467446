//! The Linux kernel's NFS server and clients, in virtual machines: with each other, and with ours.
//!
//! Kernels 6.12 and 6.1; `vm_v2` has 5.10 for NFSv2. The machines are emulated, so nothing here is
//! held to a speed: what is checked is behaviour, and the kernel's own counters.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print states")]

mod delegations;
mod hung;
mod kernel;
mod lab_checks;
mod options;
mod our_client;
mod plans;
mod questions;
mod secured;
mod stages;
mod xattrs;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use checks::checks;
use checks::vm;
use checks::vm::lab::Lab;

use stages::{Stage, run_in, run_plan};

/// Client of kernel 6.12.
const NEW: &str = "client1";
/// Client of kernel 6.1.
const OLD: &str = "client2";
/// A server that is started again forgets what clients of v4 still have open: a run of ours that
/// keeps its files ends without closing them, and the file system would stay busy.
const FRESH_EXPORT: &str = "lab-nfsd 8 && lab-export ext4";
/// For how long clocks are compared.
const CLOCK_SPAN: Duration = Duration::from_secs(4);
/// How far a guest's clock may be off, as a share: far less than a wrong calibration is.
const CLOCK_ERROR_MAX: f64 = 0.2;

checks! {
    clocks_of_guests_run_like_ours: 200 s, run_in(Stage::Booted, clocks);
    machines_are_saved_resumed_and_rewound: 400 s, run_in(Stage::Booted, saved);
    plan_of_data_paths: 900 s, run_plan(plans::Plans::data_paths);
    plan_with_caches_that_are_reported_unless_remounted: 900 s, run_plan(plans::Plans::cached);
    plan_whose_mount_option_is_not_effective_fails_the_run: 900 s, {
        run_plan(plans::Plans::effective)
    };
    plan_of_two_clients_of_one_server_at_one_moment: 900 s, run_plan(plans::Plans::scaling);
    plan_whose_factor_is_the_kernel_of_the_client: 900 s, run_plan(plans::Plans::kernels);
    plan_of_a_ladder_has_every_layer: 900 s, run_plan(questions::ladder);
    plan_of_a_soak_injects_and_removes_faults: 900 s, run_plan(questions::soak);
    plan_whose_mount_does_not_answer_is_ended_by_a_signal: 600 s, run_plan(hung::signalled);
    plan_whose_controller_is_killed_restores_the_machines: 600 s, run_plan(plans::Plans::killed);
}

/// Compares the guests' clocks with ours, over a span that is known to lie between two others.
fn clocks(lab: &Lab) -> Result<()> {
    let first = read_clocks(lab)?;
    std::thread::sleep(CLOCK_SPAN);
    for ((host, first), second) in lab.names().into_iter().zip(first).zip(read_clocks(lab)?) {
        let shortest = (second.before - first.after).as_secs_f64() * (1.0 - CLOCK_ERROR_MAX);
        let longest = (second.after - first.before).as_secs_f64() * (1.0 + CLOCK_ERROR_MAX);
        let guest = second.uptime_s - first.uptime_s;
        let is_right = (shortest..=longest).contains(&guest);
        ensure!(is_right, "{host}: {guest:.2} s, there are {shortest:.2} to {longest:.2} s here");
    }
    Ok(())
}

/// A guest's clock, and ours before and after it was read.
struct Reading {
    before: Instant,
    uptime_s: f64,
    after: Instant,
}

fn read_clocks(lab: &Lab) -> Result<Vec<Reading>> {
    let mut readings = Vec::new();
    for host in lab.names() {
        let before = Instant::now();
        let text = lab.ssh(host, "cut -d' ' -f1 /proc/uptime")?;
        let uptime_s = text.trim().parse().context("no time")?;
        readings.push(Reading { before, uptime_s, after: Instant::now() });
    }
    Ok(readings)
}

/// Saves the running machines and resumes them, twice: what was written before is there,
/// what was written afterwards is gone.
fn saved(lab: &Lab) -> Result<()> {
    lab.ssh("server", "lab-export ext4 && echo before >/export/saved")?;
    lab.save()?;
    Lab::restore(&vm::lab_folder(stages::FOLDER))?;
    lab.ssh("server", "echo after >/export/saved && sync")?;
    lab.rewind()?;
    let text = lab.ssh("server", "cat /export/saved")?;
    ensure!(text.trim() == "before", "the file holds {text:?}");
    let guest: u64 = lab.ssh(NEW, "date +%s")?.trim().parse()?;
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    ensure!(here.abs_diff(guest) < 30, "the resumed guest is {} s off", here.abs_diff(guest));
    Ok(())
}
