//! Agents in processes of their own, one of which comes to harm.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fleet::{Bell, Gone, Order, Remote, Report, Transport};
use model::{Campaign, Host};
use plan::Plan;
use rustix::process::{Pid, Signal, kill_process};

use crate::walked::walked;

/// What happens to the process of an agent.
#[derive(Clone, Copy, Debug)]
pub enum Harm {
    /// It is killed.
    Kill,
    /// It is stopped, and never goes on.
    Stop,
    /// It is stopped for a while, then again and again for a shorter one, awake in between, until
    /// its pass has ended.
    Doze { first: Duration, then: Duration, awake: Duration },
}

/// One harm, once.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Whom it comes to.
    pub host: &'static str,
    /// It comes with the order that is this.
    pub at: fn(&Order) -> bool,
    /// So long after it is sent; a harm that comes at once comes right before it.
    pub after: Duration,
    pub harm: Harm,
}

/// Agents, and what is to happen to one of them.
pub struct Crew {
    fault: Option<Fault>,
    processes: Vec<u32>,
}

impl Crew {
    pub fn with(fault: Fault) -> Self {
        Self { fault: Some(fault), processes: Vec::new() }
    }

    /// Makes a campaign; what is stored, and how long each trial took.
    pub fn made(&mut self, plan: &Plan) -> (Campaign, Vec<Duration>) {
        let Self { fault, processes } = self;
        walked(plan, &mut |host: &Host| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_dfsbench"));
            command.args(["agent", "--stdio"]);
            let agent = Remote::start(&mut command, &host.name, Arc::default())?;
            processes.extend(agent.process_id());
            let is_ours = fault.is_some_and(|fault| fault.host == host.name);
            let fault = if is_ours { fault.take() } else { None };
            Ok(Box::new(Mortal { agent, fault, doing: None }))
        })
    }

    /// Sees that no agent is left.
    pub fn assert_left(&self) {
        for process in &self.processes {
            assert!(!Path::new(&format!("/proc/{process}")).exists(), "process {process} is left");
        }
    }
}

/// A way to an agent that may come to harm.
struct Mortal {
    agent: Remote,
    fault: Option<Fault>,
    /// What is being done to it, until it is over.
    doing: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Mortal {
    /// Does it harm, at once or in a while.
    fn harm(&mut self, fault: Fault) {
        let process = self.agent.process_id().expect("it was started here");
        if fault.after.is_zero() && !matches!(fault.harm, Harm::Doze { .. }) {
            return do_harm(process, fault.harm, &AtomicBool::new(true));
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            thread::park_timeout(fault.after);
            do_harm(process, fault.harm, &until);
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

fn do_harm(process: u32, harm: Harm, is_over: &AtomicBool) {
    match harm {
        Harm::Kill => signal(process, Signal::KILL),
        Harm::Stop => signal(process, Signal::STOP),
        Harm::Doze { first, then, awake } => {
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

fn signal(process: u32, signal: Signal) {
    // One that has gone already can't be harmed.
    let _ = kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal);
}

impl Transport for Mortal {
    fn send(&mut self, order: Order) -> Result<(), Gone> {
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

    fn receive(&mut self) -> Result<Report, Gone> {
        self.agent.receive()
    }

    fn try_receive(&mut self) -> Result<Option<Report>, Gone> {
        let received = self.agent.try_receive();
        if matches!(received, Ok(Some(Report::Worked { .. }))) {
            self.is_over();
        }
        received
    }

    fn ring(&mut self, bell: &Bell) {
        self.agent.ring(bell);
    }

    fn cancel(&mut self) {
        self.agent.cancel();
    }

    fn look(&mut self) -> Result<(), Gone> {
        self.agent.look()
    }

    fn leave(&mut self) {
        self.is_over();
        self.agent.leave();
    }
}
