//! One host's half: makes a target, runs passes on it, counts, raises caveats, and cleans up.
//!
//! [`serve`] obeys a controller until it is gone. After each pass the agent holds what the
//! recorder says against independent counts ([`accounting`]) and raises the caveats that only
//! this host can know ([`caveats`]). An agent whose controller is gone removes its target, and
//! undoes what it did to its host.

pub mod accounting;
pub mod caveats;
mod hang;
mod outside;
mod own_address;
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

/// Counts of calls, as backends and servers of ours keep them.
pub use engine::backend::Calls;
use engine::{Clock, Stop};
use fleet::in_process::AgentEnd;
use fleet::{ClockReading, Order, Report};
pub use hang::{GiveUp, is_stuck};
use hang::{HangGuard, LastResort, Watched};
use lab::telemetry::Watch;
use model::panicked;
use model::soak::FaultKind;
pub use processor_use::{ProcessorUse, ServerUse};
use workload::Pattern;

use this_host::ThisHost;
use trial::Trial;

/// Name of the agent's host in telemetry: only controllers know its real one.
const THIS_HOST: &str = "client";

/// How often telemetry is read.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The least time that clients have to remove their files on this host before its exports are
/// withdrawn.
const OTHERS_LEAVE_NS: u64 = 10_000_000_000;

/// The most time that they have while they are connected: dirty pages may have to be sent first.
const OTHERS_WRITE_NS: u64 = 60_000_000_000;

/// How often their connections are checked.
const LOOK_NS: u64 = 500_000_000;

/// The parts that an agent is given when it starts.
pub struct Agent {
    /// The clock of every worker.
    pub clock: Arc<dyn Clock>,
    /// Set by the caller to stop everything.
    pub stop: Arc<AtomicBool>,
    /// Directory of this host's undo log.
    pub state_dir: PathBuf,
    /// A server of ours in this process, where there is one.
    pub local_server: Option<LocalServer>,
    /// Ends this process where its threads never come back from a mount that doesn't answer, once
    /// the changes of its host are undone; only where it is a process of its own.
    pub give_up: Option<GiveUp>,
}

impl Agent {
    /// Tells what the clocks show.
    fn clocks(&self) -> Report {
        Report::Clock(read(&*self.clock))
    }

    /// Starts to read the telemetry of this host.
    fn watch(&self) -> Watch {
        let clock = Arc::clone(&self.clock);
        Watch::start(WATCH_INTERVAL, move || clock.now_ns())
    }
}

/// Reads the clocks of this host.
pub fn read(clock: &dyn Clock) -> ClockReading {
    ClockReading { mono_ns: clock.now_ns(), wall_ns: clock.calendar_ns() }
}

/// A server of ours in this process, whose counters are known.
pub struct LocalServer {
    /// Reads its counters.
    pub counts: Box<dyn Fn() -> ServerCounts + Send>,
    /// Kernel ids of its threads.
    pub thread_ids: Vec<u32>,
    /// Disturbs it for so many milliseconds; the agent itself never does.
    pub inject_fault: Option<Arc<FaultInjector>>,
}

/// Disturbs a server in this process, for so many milliseconds.
pub type FaultInjector = dyn Fn(FaultKind, u64) -> Result<(), String> + Send + Sync;

/// Counters of a server of ours since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Bytes of file data in answers to READ.
    pub read_bytes: u64,
    /// Bytes of file data that WRITE calls stored.
    pub write_bytes: u64,
    /// Calls answered, by procedure; those of version 4 under what it has: OPEN, CREATE (as MKDIR),
    /// REMOVE, READDIR, and no GETATTR.
    pub calls: Calls,
}

impl ServerCounts {
    /// Returns what was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes - before.read_bytes,
            write_bytes: self.write_bytes - before.write_bytes,
            calls: self.calls.since(&before.calls),
        }
    }
}

/// Obeys the controller at the other end until it is gone, then leaves the host as it was.
///
/// What could not be restored is returned, a sentence each.
pub fn serve(agent: &Agent, end: &AgentEnd) -> Vec<String> {
    let host = ThisHost::new(&agent.state_dir, &agent.stop);
    let mut last_resort = None;
    if let Some(give_up) = agent.give_up {
        last_resort = Some(LastResort { give_up, changes: host.changes() });
    }
    let guard = HangGuard::start(last_resort);
    let mut held =
        Held { agent, trial: None, content: None, host, watch: None, guard, watched: None };
    while let Some(order) = end.next_order() {
        // A panic ends what was ordered and not the agent: it has to undo what it did before.
        let obeyed = panicked::catch(|| held.obey(order, end));
        let report = obeyed.unwrap_or_else(|panicked| Report::Failed(panicked.to_string()));
        let Some(why) = held.guard.release() else {
            end.report(report);
            continue;
        };
        // Its mount is gone, and what the controller believes of this host is wrong: it is left as
        // if it were lost, and restored.
        end.report(Report::Failed(why.clone()));
        let mut left = held.leave();
        left.push(why);
        return left;
    }
    held.leave()
}

/// State that is held for a controller.
struct Held<'a> {
    agent: &'a Agent,
    trial: Option<Trial<'a>>,
    /// The pattern that the last trial wrote, for the next one.
    content: Option<Pattern>,
    host: ThisHost<'a>,
    /// Runs while another host works.
    watch: Option<Watch>,
    guard: HangGuard,
    /// The waits of the trial that may hang.
    watched: Option<Watched>,
}

impl Held<'_> {
    fn obey(&mut self, order: Order, end: &AgentEnd) -> Report {
        match order {
            Order::Begin(assignment) => {
                // What was cancelled before has ended.
                end.cancelled().store(false, Relaxed);
                let stop = Stop::new(Arc::clone(&self.agent.stop), Arc::clone(end.cancelled()));
                let before = self.content.take();
                self.watched = Watched::of(&assignment, &stop);
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
                    None => Report::Failed("no trial has begun".to_owned()),
                }
            }
            Order::Go { .. } => Report::Failed("no workers wait to start".to_owned()),
            Order::Disarm => Report::Disarmed,
            Order::End { inherits } => {
                // The agent that made the directory is lost: this one removes it in its place.
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
            Order::Watch => {
                self.watch = Some(self.agent.watch());
                Report::Watching
            }
            Order::Unwatch => match self.watch.take() {
                Some(watch) => Report::Watched(Box::new(watch.stop(THIS_HOST))),
                None => Report::Failed("this host was not watched".to_owned()),
            },
            Order::Release => {
                self.guard.watch(self.watched.clone());
                if let Some(trial) = &mut self.trial {
                    trial.close_handles();
                }
                Report::Released
            }
            Order::Disturb(_) | Order::EndDisturbance => self.host.disturb(order),
            Order::Crash => Report::Failed("this very process is not to be killed".to_owned()),
            Order::Open(_)
            | Order::Apply(_)
            | Order::UndoLast
            | Order::UndoAll
            | Order::Invalidate { .. }
            | Order::Clean { .. } => self.host.obey(order),
        }
    }

    /// Ends the trial, and keeps the pattern that it wrote for the next one.
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

    /// Ends what the controller left.
    fn leave(mut self) -> Vec<String> {
        if self.trial.is_none() && self.host.is_changed() {
            // Another host may work on what this one serves, and is left alone just now, too.
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
            // The host is restored whatever becomes of the trial, a panic included.
            match panicked::catch(|| trial.end()) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => reasons.push(error.to_string()),
                Err(panicked) => reasons.push(panicked.to_string()),
            }
        }
        // What a change may take is bounded where it is made.
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

/// Obeys an order that is about a pass.
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
        other => return Report::Failed(format!("{} is not about a pass", other.name())),
    };
    done.unwrap_or_else(|error| Report::Failed(error.to_string()))
}
