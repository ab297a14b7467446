//! Agents in their own processes, one of which is harmed.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fleet::{Order, PeerGone, Remote, Report, Transport, Wakeup};
use model::{Campaign, Host};
use plan::Plan;
use rustix::process::{Pid, Signal, kill_process};

use crate::shared_directory;

/// Harm done to the process of an agent.
#[derive(Clone, Copy, Debug)]
pub enum ProcessHarm {
    Kill,
    /// It is stopped, and never continues.
    Stop,
    /// Nothing reaches it or comes from it any more, as if a network were cut; it continues to
    /// work.
    Cut,
    /// Stop it once for a while, then repeatedly for shorter times with pauses in between, until
    /// its pass has ended.
    Doze {
        first: Duration,
        then: Duration,
        awake: Duration,
    },
    /// The function is called to harm its machine.
    ToMachine(fn()),
}

/// A single fault.
#[derive(Clone, Copy)]
pub struct Fault {
    /// The host that it happens to.
    pub host: &'static str,
    /// Returns true for the order at which it happens.
    pub at: fn(&Order) -> bool,
    /// The delay after the order is sent; without a delay it happens right before the order.
    pub after: Duration,
    pub harm: ProcessHarm,
}

/// An agent that is reached through two programs that forward the data, one for each direction; if
/// they stop, its host sees a cut.
const BY_WIRE: &str = "cat | \"$0\" agent --stdio | cat";

/// The most time that an agent may take to exit when its controller is gone: 5 s of silence, and
/// the work.
const LEAVING: Duration = Duration::from_secs(60);

/// Agents, and the fault planned for one of them.
pub struct AgentProcesses {
    fault: Option<Fault>,
    processes: Vec<u32>,
    /// The wires of an agent, which are stopped once they were cut.
    wires: Arc<Mutex<Vec<u32>>>,
}

impl AgentProcesses {
    pub fn with(fault: Fault) -> Self {
        Self { fault: Some(fault), processes: Vec::new(), wires: Arc::default() }
    }

    /// Runs a campaign. Returns the stored results, and the duration of each trial.
    pub fn run(&mut self, plan: &Plan) -> (Campaign, Vec<Duration>) {
        let Self { fault, processes, wires } = self;
        shared_directory::run(plan, &mut |host: &Host| {
            let program = env!("CARGO_BIN_EXE_dfsbench");
            let fault = fault.take_if(|fault| fault.host == host.name);
            let has_wires = fault.is_some_and(|fault| matches!(fault.harm, ProcessHarm::Cut));
            let mut command = Command::new(if has_wires { "sh" } else { program });
            if has_wires {
                command.args(["-c", BY_WIRE, program]);
            } else {
                command.args(["agent", "--stdio"]);
            }
            let agent = Remote::start(&mut command, &host.name, Arc::default())?;
            processes.extend(agent.process_id());
            Ok(Box::new(HarmedAgent { agent, fault, doing: None, wires: Arc::clone(wires) }))
        })
    }

    /// Waits until an agent that was cut off has exited by itself, and removes its wires.
    pub fn await_left(&self) {
        let wires = std::mem::take(&mut *self.wires.lock().unwrap());
        assert!(wires.len() == 3, "two wires and an agent: {wires:?}");
        let begun = Instant::now();
        while wires.iter().any(|process| name_of(*process) == AGENT) {
            assert!(begun.elapsed() < LEAVING, "the agent is still running");
            thread::park_timeout(Duration::from_millis(50));
        }
        for wire in wires {
            signal(wire, Signal::KILL);
        }
    }

    /// Asserts that no agent is left.
    pub fn assert_left(&self) {
        for process in &self.processes {
            assert!(
                !Path::new(&format!("/proc/{process}")).exists(),
                "process {process} is still running"
            );
        }
    }
}

/// A connection to an agent that may be harmed.
struct HarmedAgent {
    agent: Remote,
    fault: Option<Fault>,
    /// The harm in progress: a flag that ends it, and its thread.
    doing: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
    /// The stopped wires that cut it off.
    wires: Arc<Mutex<Vec<u32>>>,
}

impl HarmedAgent {
    /// Harms it, immediately or after a delay.
    fn harm(&mut self, fault: Fault) {
        let process = self.agent.process_id().expect("it was started here");
        if fault.after.is_zero() && !matches!(fault.harm, ProcessHarm::Doze { .. }) {
            return do_harm(process, fault.harm, &AtomicBool::new(true), &self.wires);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let wires = Arc::clone(&self.wires);
        let thread = thread::spawn(move || {
            thread::park_timeout(fault.after);
            do_harm(process, fault.harm, &until, &wires);
        });
        self.doing = Some((is_over, thread));
    }

    fn is_over(&mut self) {
        if let Some((is_over, thread)) = self.doing.take() {
            is_over.store(true, Relaxed);
            thread.join().unwrap();
        }
    }
}

fn do_harm(process: u32, harm: ProcessHarm, is_over: &AtomicBool, wires: &Mutex<Vec<u32>>) {
    match harm {
        ProcessHarm::Cut => {
            let all = children(process);
            for wire in all.iter().filter(|child| name_of(**child) == "cat") {
                signal(*wire, Signal::STOP);
            }
            *wires.lock().unwrap() = all;
        }
        ProcessHarm::Kill => signal(process, Signal::KILL),
        ProcessHarm::Stop => signal(process, Signal::STOP),
        ProcessHarm::ToMachine(come) => come(),
        ProcessHarm::Doze { first, then, awake } => {
            doze(process, first);
            let begun = Instant::now();
            while !is_over.load(Relaxed) && begun.elapsed() < Duration::from_secs(60) {
                thread::park_timeout(awake);
                doze(process, then);
            }
        }
    }
}

fn doze(process: u32, nap: Duration) {
    signal(process, Signal::STOP);
    let begun = Instant::now();
    while begun.elapsed() < nap {
        thread::park_timeout(nap.saturating_sub(begun.elapsed()));
    }
    signal(process, Signal::CONT);
}

/// The kernel's name for the program of an agent.
const AGENT: &str = "dfsbench";

fn children(process: u32) -> Vec<u32> {
    let ids = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    ids.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

/// The name of a process; nothing once it is gone, or only an entry in a table.
fn name_of(process: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let Some((_, named)) = stat.split_once('(') else { return String::new() };
    let Some((name, state)) = named.rsplit_once(") ") else { return String::new() };
    if state.starts_with('Z') { String::new() } else { name.to_owned() }
}

fn signal(process: u32, signal: Signal) {
    // The process may already be gone.
    let _ = kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal);
}

impl Transport for HarmedAgent {
    fn send(&mut self, order: Order) -> Result<(), PeerGone> {
        let comes = self.fault.is_some_and(|fault| (fault.at)(&order));
        let Some(fault) = self.fault.take_if(|_| comes) else { return self.agent.send(order) };
        if fault.after.is_zero() {
            self.harm(fault);
            return self.agent.send(order);
        }
        self.agent.send(order)?;
        self.harm(fault);
        Ok(())
    }

    fn receive(&mut self) -> Result<Report, PeerGone> {
        self.agent.receive()
    }

    fn try_receive(&mut self) -> Result<Option<Report>, PeerGone> {
        let received = self.agent.try_receive();
        if matches!(received, Ok(Some(Report::Worked { .. }))) {
            self.is_over();
        }
        received
    }

    fn set_wakeup(&mut self, wakeup: &Wakeup) {
        self.agent.set_wakeup(wakeup);
    }

    fn cancel(&mut self) {
        self.agent.cancel();
    }

    fn check_alive(&mut self) -> Result<(), PeerGone> {
        self.agent.check_alive()
    }

    fn leave(&mut self) {
        self.is_over();
        self.agent.leave();
    }
}
