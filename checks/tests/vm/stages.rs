//! The machines of these tests, and the states that tests of one kind need.
//!
//! Principal function: [`run_in`]. The machines are booted and saved once. A test names the
//! [`Stage`] that it needs; if the machines are in another one, or a test has failed in it, they
//! are resumed as they were saved and the stage is set up. So tests depend neither on their order
//! nor on each other.

use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use checks::check::{self, Fixture};
use checks::proc::Background;
use checks::vm;
use checks::vm::lab::{Ended, Lab, Wanted};
use checks::vm::machine::Suite;
use checks::vm::peer;

use super::plans::Plans;
use super::{FRESH_EXPORT, NEW, OLD, lab_checks};

/// Folder of the laboratory of kernels 6.12 and 6.1.
pub const FOLDER: &str = "test";
/// Shows the state of a machine: its programs, what hangs in its kernel and where, what is mounted
/// and served, and the last messages of the kernel.
const STATE_OF_A_MACHINE: &str = "\
    cat /proc/uptime; ps -e -o pid= -o stat= -o wchan:30= -o args= | grep -v '\\[.*\\]$'; \
    for id in $(ps -e -o pid= -o stat= -o comm= | \
        awk '$2 ~ /D/ || $3 ~ /nfs|lockd|mount|lab_real/ { print $1 }'); do \
        echo \"-- $id $(cat /proc/$id/comm)\"; cat /proc/$id/stack; done; \
    grep -E 'nfs|dfsbench|export' /proc/mounts; cd /proc/fs/nfsd && \
    grep . threads versions v4_end_grace nfsv4gracetime clients/*/info clients/*/states; \
    exportfs -s; dmesg | tail -n 20; true";

/// A state of the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// As they were booted.
    Booted,
    /// The server and the client of kernel 6.1 export.
    Exports,
    /// Our server listens to them.
    OurServer,
    /// The kernel's servers offer UDP, too.
    Udp,
    /// Server and client have TLS.
    Tls,
    /// Server and client have Kerberos.
    Kerberos,
    /// The plans can be run.
    Plans,
    /// The server has the program with the checks of the lab.
    LabChecks,
}

/// The booted machines.
pub struct Machines {
    pub lab: Ended,
    state: Mutex<State>,
}

/// The state of the machines; without a stage they must be resumed first.
#[derive(Default)]
struct State {
    stage: Option<Stage>,
    our_server: Option<Background>,
    plans: Option<Plans<'static>>,
}

static MACHINES: Fixture<Machines> = Fixture::new(|| {
    vm::prepare()?;
    let clients = vec![Suite::Trixie, Suite::Bookworm];
    let wanted = Wanted { server: Suite::Trixie, clients, mtu: 1500, shared_mib: None };
    let lab = Ended::new(Lab::up(&vm::lab_folder(FOLDER), &wanted)?);
    lab.save()?;
    Lab::restore(&vm::lab_folder(FOLDER))?;
    let state = State { stage: Some(Stage::Booted), ..State::default() };
    Ok(Machines { lab, state: Mutex::new(state) })
});

/// Runs a check in a stage of the machines.
pub fn run_in(stage: Stage, check: impl FnOnce(&'static Lab) -> Result<()>) -> Result<()> {
    run_with_state(stage, |lab, _| check(lab))
}

/// Runs a check with the plans.
pub fn run_plan(check: impl FnOnce(&Plans<'static>) -> Result<()>) -> Result<()> {
    run_with_state(Stage::Plans, |_, state| {
        check(state.plans.as_ref().expect("the stage has them"))
    })
}

fn run_with_state(
    stage: Stage,
    check: impl FnOnce(&'static Lab, &State) -> Result<()>,
) -> Result<()> {
    let machines = MACHINES.get()?;
    // A check that panicked has left them in no stage.
    let mut state = machines.state.lock().unwrap_or_else(PoisonError::into_inner);
    if state.stage != Some(stage) {
        check::set_up(|| enter(machines, &mut state, stage))?;
    }
    // Whatever ends the check early, the next one finds no stage.
    state.stage = None;
    let outcome = check(&machines.lab, &state);
    if outcome.is_ok() {
        state.stage = Some(stage);
    } else {
        print_states(&machines.lab);
    }
    outcome
}

/// Resumes the machines as they were saved and sets a stage up.
fn enter(machines: &'static Machines, state: &mut State, stage: Stage) -> Result<()> {
    *state = State::default();
    let lab: &'static Lab = &machines.lab;
    lab.rewind()?;
    match stage {
        Stage::Booted => {}
        Stage::Exports => {
            lab.ssh("server", "lab-export ext4")?;
            lab.ssh(OLD, "lab-nfsd 4 && lab-export tmpfs")?;
        }
        Stage::OurServer => state.our_server = Some(peer::start_server(lab)?),
        Stage::Udp => {
            lab.ssh(OLD, "lab-nfsd 4 -u && lab-export tmpfs")?;
            lab.ssh("server", "lab-export ext4 && lab-nfsd 8 -u")?;
        }
        Stage::Tls => {
            lab.ssh("server", &format!("{FRESH_EXPORT} && lab-tls serve"))?;
            lab.ssh(NEW, "lab-tls join")?;
        }
        Stage::Kerberos => {
            lab.ssh("server", &format!("{FRESH_EXPORT} && lab-krb5 serve"))?;
            lab.ssh(NEW, "lab-krb5 join")?;
        }
        Stage::Plans => state.plans = Some(Plans::new(lab)?),
        Stage::LabChecks => lab_checks::copy_program(lab)?,
    }
    state.stage = Some(stage);
    Ok(())
}

fn print_states(lab: &Lab) {
    for host in lab.names() {
        let state = lab.ssh(host, STATE_OF_A_MACHINE);
        println!("{host}:\n{}", state.unwrap_or_else(|error| format!("{error:#}")));
    }
}
