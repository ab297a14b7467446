//! The part of the benchmark that runs on one host: creates a target, runs passes on it, counts,
//! raises caveats, and cleans up.
//!
//! [`serve`] executes a controller's orders until it disconnects. After each pass, the agent
//! compares the recorder with independent counts ([`accounting`]) and raises the caveats that only
//! this host can detect ([`caveats`]). When its controller is gone, the agent removes its target
//! and undoes its changes to the host.
#![warn(unreachable_pub)]

pub mod accounting;
pub mod caveats;
mod external_pass;
mod hang;
mod own_address;
mod probe_file;
mod processor_use;
mod quiet;
pub mod sources;
mod surroundings;
mod this_host;
mod trial;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

pub use engine::backend::Calls;
use engine::{Clock, Stop};
use fleet::in_process::AgentEnd;
use fleet::{ClockReading, Order, Report};
pub(crate) use hang::EndAgent;
pub use hang::is_stuck;
use hang::{ForcedExit, HangGuard, HangWatch};
use lab::telemetry::Watch;
use model::panicked;
use model::soak::FaultKind;
pub use processor_use::ProcessorUse;
pub use processor_use::ServerUse;
use workload::Pattern;

use this_host::ThisHost;
use trial::Trial;

/// Name of the agent's host in telemetry. Only the controller knows its real name.
const THIS_HOST: &str = "client";

/// How often telemetry is read.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time for clients to remove their files on this host before its exports are withdrawn.
const OTHERS_LEAVE_NS: u64 = 10_000_000_000;

/// Maximum time for that while clients are connected; they may have to write back dirty pages
/// first.
const OTHERS_WRITE_NS: u64 = 60_000_000_000;

/// How often client connections are checked.
const LOOK_NS: u64 = 500_000_000;

/// Everything an agent needs.
pub struct Agent {
    /// Clock of all workers.
    pub clock: Arc<dyn Clock>,
    /// Set by the caller to stop everything.
    pub stop: Arc<AtomicBool>,
    /// Directory of this host's undo log.
    pub state_dir: PathBuf,
    /// Our server in this process, if there is one.
    pub local_server: Option<LocalServer>,
    /// Ends this process if its threads never return from a hung mount, after undoing the changes
    /// to its host. Only set if the agent has its own process.
    pub give_up: Option<EndAgent>,
}

impl Agent {
    /// Reports a reading of the clocks.
    fn clocks(&self) -> Report {
        Report::Clock(read(&*self.clock))
    }

    /// Starts to collect telemetry of this host.
    fn watch(&self) -> Watch {
        let clock = Arc::clone(&self.clock);
        Watch::start(WATCH_INTERVAL, move || clock.now_ns())
    }
}

/// Reads the clocks of this host.
pub fn read(clock: &dyn Clock) -> ClockReading {
    ClockReading { mono_ns: clock.now_ns(), wall_ns: clock.calendar_ns() }
}

/// Our server in this process, whose counters we can read.
pub struct LocalServer {
    /// Reads the server's counters.
    pub counts: Box<dyn Fn() -> ServerCounts + Send>,
    /// Kernel thread IDs.
    pub thread_ids: Vec<u32>,
    /// Injects faults for the controller; the agent itself never does.
    pub inject_fault: Option<Arc<FaultInjector>>,
}

/// Injects a fault into a server in this process, for a duration in milliseconds.
pub type FaultInjector = dyn Fn(FaultKind, u64) -> Result<(), String> + Send + Sync;

/// Counters of our server since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Bytes of file data in replies to READ.
    pub read_bytes: u64,
    /// Bytes of file data stored by WRITE calls.
    pub write_bytes: u64,
    /// Bytes of file data that the server copied or cloned by itself.
    pub copied_bytes: u64,
    /// Answered calls by procedure. NFSv4 operations are counted as OPEN, CREATE (as MKDIR), REMOVE
    /// and READDIR; GETATTR is not counted.
    pub calls: Calls,
}

impl ServerCounts {
    /// Returns the increase since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes - before.read_bytes,
            write_bytes: self.write_bytes - before.write_bytes,
            copied_bytes: self.copied_bytes - before.copied_bytes,
            calls: self.calls.since(&before.calls),
        }
    }
}

/// Executes the controller's orders until it disconnects, then restores the host.
///
/// Returns a sentence for each change that could not be undone.
pub fn serve(agent: &Agent, end: &AgentEnd) -> Vec<String> {
    let host = ThisHost::new(&agent.state_dir, &agent.stop);
    let mut last_resort = None;
    if let Some(give_up) = agent.give_up {
        last_resort = Some(ForcedExit { give_up, changes: host.changes() });
    }
    let guard = HangGuard::start(last_resort);
    let mut held =
        SessionState { agent, trial: None, content: None, host, watch: None, guard, watched: None };
    while let Some(order) = end.next_order() {
        // A panic ends the order but not the agent, which still has to undo earlier changes.
        let obeyed = panicked::catch(|| held.execute_order(order, end));
        let report = obeyed.unwrap_or_else(|panicked| Report::Failed(panicked.to_string()));
        let Some(why) = held.guard.release() else {
            end.report(report);
            continue;
        };
        // The mount is gone, so the controller's view of this host is wrong. End as if the
        // controller were gone, and restore the host.
        end.report(Report::Failed(why.clone()));
        let mut left = held.leave();
        left.push(why);
        return left;
    }
    held.leave()
}

/// State of a controller's session.
struct SessionState<'a> {
    agent: &'a Agent,
    trial: Option<Trial<'a>>,
    /// Content pattern of the last trial, for reuse by the next one.
    content: Option<Pattern>,
    host: ThisHost<'a>,
    /// Telemetry collection while another host works.
    watch: Option<Watch>,
    guard: HangGuard,
    /// What to watch for hangs during the trial.
    watched: Option<HangWatch>,
}

impl SessionState<'_> {
    fn execute_order(&mut self, order: Order, end: &AgentEnd) -> Report {
        match order {
            Order::Begin(assignment) => {
                // An earlier cancellation no longer applies.
                end.cancelled().store(false, Relaxed);
                let stop = Stop::new(Arc::clone(&self.agent.stop), Arc::clone(end.cancelled()));
                let before = self.content.take();
                self.watched = HangWatch::for_trial(&assignment, &stop);
                self.guard.watch(self.watched.clone());
                match Trial::begin(self.agent, *assignment, stop, before.as_ref()) {
                    Ok(begun) => Report::Begun(self.trial.insert(begun).begun()),
                    Err(error) => Report::Failed(error.to_string()),
                }
            }
            Order::Prepare(_) | Order::Arm { .. } | Order::Account { .. } => {
                self.guard.watch(self.watched.clone());
                match &mut self.trial {
                    Some(trial) => in_trial(trial, order, end, &mut self.host),
                    None => Report::Failed("no trial is running".to_owned()),
                }
            }
            Order::Go { .. } => Report::Failed("no workers are waiting to start".to_owned()),
            Order::Disarm => Report::Disarmed,
            Order::End { inherits } => {
                // The agent that created the directory is lost, so this one removes it.
                if inherits && let Some(trial) = &mut self.trial {
                    trial.inherit();
                }
                self.end_trial()
            }
            Order::Facts => Report::Facts(this_host::facts()),
            Order::Clock => self.agent.clocks(),
            Order::AwaitQuiet { within_ms } => {
                end.cancelled().store(false, Relaxed);
                let stop = Stop::new(Arc::clone(&self.agent.stop), Arc::clone(end.cancelled()));
                let within_ns = within_ms.saturating_mul(1_000_000);
                Report::Quiet(quiet::await_quiet(&*self.agent.clock, &stop, within_ns))
            }
            Order::WriteProbe { target, folder } => {
                probe_file::write(&target, &folder).map_or_else(Report::Failed, |()| Report::Probed)
            }
            Order::RemoveProbe { target, folder } => probe_file::remove(&target, &folder)
                .map_or_else(Report::Failed, |()| Report::Probed),
            Order::Watch => {
                self.watch = Some(self.agent.watch());
                Report::Watching
            }
            Order::Unwatch => match self.watch.take() {
                Some(watch) => Report::Watched(Box::new(watch.stop(THIS_HOST))),
                None => Report::Failed("this host is not being watched".to_owned()),
            },
            Order::Release => {
                self.guard.watch(self.watched.clone());
                if let Some(trial) = &mut self.trial {
                    trial.close_handles();
                }
                Report::Released
            }
            Order::Disturb(_) | Order::EndDisturbance => self.host.disturb(order),
            Order::Crash => {
                Report::Failed("the agent in the controller's process cannot be killed".to_owned())
            }
            Order::Open(_)
            | Order::Apply(_)
            | Order::UndoLast
            | Order::UndoAll
            | Order::Invalidate { .. }
            | Order::Clean { .. } => self.host.execute_order(order),
        }
    }

    /// Ends the trial and keeps its content pattern for the next one.
    fn end_trial(&mut self) -> Report {
        self.guard.watch(self.watched.clone());
        self.content = None;
        let Some(trial) = self.trial.take() else { return Report::Ended };
        self.content = Some(trial.target().content().clone());
        match trial.end() {
            Ok(()) => Report::Ended,
            Err(error) => Report::Failed(error.to_string()),
        }
    }

    /// Cleans up after the controller is gone.
    fn leave(mut self) -> Vec<String> {
        if self.trial.is_none() && self.host.is_changed() {
            // Other hosts may be using what this host exports, and may have just lost their
            // controller, too.
            let clock = &self.agent.clock;
            let begun_ns = clock.now_ns();
            clock.sleep_until(begun_ns + OTHERS_LEAVE_NS);
            while lab::is_serving_clients() && clock.now_ns() < begun_ns + OTHERS_WRITE_NS {
                clock.sleep_until(clock.now_ns() + LOOK_NS);
            }
        }
        if self.trial.is_some() {
            self.guard.watch(self.watched.clone());
        }
        let mut reasons = Vec::new();
        if let Some(trial) = self.trial.take() {
            // The host is restored whatever happens to the trial, even a panic.
            match panicked::catch(|| trial.end()) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => reasons.push(error.to_string()),
                Err(panicked) => reasons.push(panicked.to_string()),
            }
        }
        // Undoing changes has time limits of its own.
        let _ = self.guard.release();
        let host = self.host;
        match panicked::catch(|| host.leave()) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => reasons.push(why),
            Err(panicked) => reasons.push(panicked.to_string()),
        }
        reasons
    }
}

/// Executes an order that belongs to a pass.
fn in_trial(
    trial: &mut Trial<'_>,
    order: Order,
    end: &AgentEnd,
    host: &mut ThisHost<'_>,
) -> Report {
    let done = match order {
        Order::Prepare(pass) => trial.prepare(pass).map(|()| Report::Prepared),
        Order::Arm { pass, share } => trial.work(pass, share, end, host),
        Order::Account { others } => Ok(trial.account(&others)),
        other => return Report::Failed(format!("{} does not apply to a pass", other.name())),
    };
    done.unwrap_or_else(|error| Report::Failed(error.to_string()))
}
