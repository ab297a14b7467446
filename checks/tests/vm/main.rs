//! The Linux kernel's NFS server and clients, in virtual machines: with each other, and with ours.
//!
//! Kernels 6.12 and 6.1; `vm_v2` has 5.10 for NFSv2, `vm_lab` the lab's changes to a server, and
//! `vm_plans` plans with such machines as hosts. The machines are emulated, so nothing here is
//! judged by its speed: we check behavior, and the kernel's own counters.
#![allow(clippy::disallowed_methods, reason = "tests wait")]

mod delegations;
mod kernel;
mod options;
mod our_client;
mod replayed;
mod secured;
mod xattrs;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use checks::check::Fixture;
use checks::checks;
use checks::proc::Background;
use checks::vm::lab::Lab;
use checks::vm::stages::{FRESH_EXPORT, Machines, NEW, OLD, Stage};
use checks::vm::{self, peer};

/// Name of the laboratory of these machines.
const LAB: &str = "test";
/// How long clocks are compared.
const CLOCK_SPAN: Duration = Duration::from_secs(4);
/// Maximum error of a guest's clock, as a fraction: far less than that of a wrong calibration.
const CLOCK_ERROR_MAX: f64 = 0.2;

/// Our server, if a stage has it.
type StageServer = Option<Background>;

static MACHINES: Fixture<Machines<StageServer>> = Fixture::new(|| Machines::copy(LAB, 2));

/// The machines as booted.
static BOOTED: Stage<StageServer> = Stage { name: "booted", set_up: |_| Ok(None) };
/// The server and the client with kernel 6.1 export, also over UDP, and our server is reachable
/// from all.
static SERVERS: Stage<StageServer> = Stage { name: "servers", set_up: start_servers };
/// Server and client have TLS.
static TLS: Stage<StageServer> = Stage { name: "TLS", set_up: |lab| join_server(lab, "lab-tls") };
/// Server and client have Kerberos.
static KERBEROS: Stage<StageServer> =
    Stage { name: "Kerberos", set_up: |lab| join_server(lab, "lab-krb5") };

checks! {
    saves_resumes_and_rewinds_machines: 400 s, run_in(&BOOTED, saved);
    compares_clocks_of_guests: 200 s, run_in(&BOOTED, clocks);
}

fn run_in(
    stage: &Stage<StageServer>,
    check: impl FnOnce(&'static Lab) -> Result<()>,
) -> Result<()> {
    MACHINES.get()?.run_in(stage, |lab, _| check(lab))
}

/// Starts the kernel's servers, both at once, and ours.
fn start_servers(lab: &'static Lab) -> Result<StageServer> {
    thread::scope(|scope| {
        let old = scope.spawn(|| lab.ssh(OLD, "lab-nfsd 4 -u && lab-export tmpfs"));
        lab.ssh("server", "lab-export ext4 && lab-nfsd 8 -u")?;
        old.join().expect("a command does not panic")
    })?;
    peer::start_server(lab).map(Some)
}

/// Runs a script of the image that secures a new export, and makes the client join it.
fn join_server(lab: &'static Lab, script: &str) -> Result<StageServer> {
    lab.ssh("server", &format!("{FRESH_EXPORT} && {script} serve"))?;
    lab.ssh(NEW, &format!("{script} join"))?;
    Ok(None)
}

/// Compares the guests' clocks with ours, over a span bounded by two others.
fn clocks(lab: &Lab) -> Result<()> {
    let first = read_clocks(lab)?;
    thread::sleep(CLOCK_SPAN);
    for ((host, first), second) in lab.names().into_iter().zip(first).zip(read_clocks(lab)?) {
        let shortest = (second.before - first.after).as_secs_f64() * (1.0 - CLOCK_ERROR_MAX);
        let longest = (second.after - first.before).as_secs_f64() * (1.0 + CLOCK_ERROR_MAX);
        let guest = second.uptime_s - first.uptime_s;
        let is_right = (shortest..=longest).contains(&guest);
        ensure!(is_right, "{host}: {guest:.2} s, there are {shortest:.2} to {longest:.2} s here");
    }
    Ok(())
}

/// A guest's clock, and ours before and after reading it.
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

/// Saves the running machines and resumes them, twice: earlier writes are preserved, later ones are
/// gone.
fn saved(lab: &Lab) -> Result<()> {
    lab.ssh("server", "lab-export ext4 && echo before >/export/saved")?;
    lab.save()?;
    Lab::restore(&vm::lab_folder(LAB))?;
    lab.ssh("server", "echo after >/export/saved && sync")?;
    lab.rewind()?;
    let text = lab.ssh("server", "cat /export/saved")?;
    ensure!(text.trim() == "before", "the file holds {text:?}");
    let guest: u64 = lab.ssh(NEW, "date +%s")?.trim().parse()?;
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    ensure!(here.abs_diff(guest) < 30, "the resumed guest is {} s off", here.abs_diff(guest));
    Ok(())
}
