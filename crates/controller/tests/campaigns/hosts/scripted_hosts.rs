//! Hosts played by a script, and a campaign over them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use controller::{Event, Hosts, LocalClock};
use fleet::{
    ClockReading, HostPermissions, Order, PassEnd, PeerGone, QuietWait, Report, Transport,
    TrialAbort, Wakeup,
};
use model::action::SystemCommand;
use model::{
    Action, Campaign, Difference, EffectiveSettings, Fact, Host, LabSpec, Pass, PassResult, Span,
    Telemetry, Trial,
};
use plan::Plan;

use crate::campaign;

/// Failures to simulate; names of hosts and of actions.
#[derive(Default)]
pub struct Script {
    /// An action that fails the given number of times.
    pub refused: Vec<(&'static str, &'static str, u32)>,
    /// An action ends with a result other than the requested one.
    pub differing: Option<(&'static str, &'static str)>,
    /// A host is lost once a line is in the log.
    pub dies_at: Option<(&'static str, &'static str)>,
    /// It is reached again after it was tried this many times; without a number, never.
    pub returns_after: Option<u32>,
    /// A host has no agent.
    pub unreachable: Option<&'static str>,
    /// An action can't be undone.
    pub sticking: Option<(&'static str, &'static str)>,
    /// Number of attempts to undo everything after which that action can be undone.
    pub sticks_for: Option<usize>,
    /// A host with a clock that runs this many times as fast.
    pub clock: Option<(&'static str, u64)>,
    /// Telemetry of a host while it is observed.
    pub seen: Telemetry,
    /// A host answers an order of this name with a report that does not belong to it.
    pub wrong: Option<(&'static str, &'static str)>,
    /// Number of passes at whose start the controller panics.
    pub panics: u32,
    /// Stops the campaign once a line is in the log.
    pub stops_at: Option<&'static str>,
    /// Exit status and last line of each command of a recipe by its first word; the last result
    /// repeats.
    pub commands: BTreeMap<&'static str, VecDeque<(&'static str, &'static str)>>,
    /// Activity of hosts while the controller waits for them to be idle, and the plan's time limit.
    pub quiet: QuietWait,
    pub quiet_ms: u64,
}

/// All hosts together.
pub struct ScriptedHosts {
    world: Rc<World>,
    pub stop: Arc<AtomicBool>,
}

struct World {
    script: RefCell<Script>,
    log: RefCell<Vec<String>>,
    now_ns: Cell<u64>,
    /// How often an agent was requested on a host that had died.
    tries: Cell<u32>,
    stop: Arc<AtomicBool>,
}

impl LocalClock for World {
    fn read(&self) -> ClockReading {
        self.read_clock(1)
    }

    fn wait(&self, _: &Wakeup) {
        self.now_ns.set(self.now_ns.get() + 100_000_000);
    }
}

impl World {
    fn note(&self, line: String) {
        if self.script.borrow().stops_at == Some(line.as_str()) {
            self.stop.store(true, Relaxed);
        }
        self.log.borrow_mut().push(line);
    }

    /// Each reading of a clock advances time.
    fn read_clock(&self, rate: u64) -> ClockReading {
        self.now_ns.set(self.now_ns.get() + 1_000);
        let now_ns = self.now_ns.get();
        ClockReading { mono_ns: now_ns * rate, wall_ns: now_ns }
    }

    /// An attempt to reach a host that had died fails.
    fn tries_in_vain(&self, host: &str) -> bool {
        if !self.is_dead(host) {
            return false;
        }
        self.tries.set(self.tries.get() + 1);
        self.is_dead(host)
    }

    fn is_dead(&self, host: &str) -> bool {
        if self.script.borrow().returns_after.is_some_and(|tries| self.tries.get() > tries) {
            return false;
        }
        let script = self.script.borrow();
        script.dies_at.is_some_and(|(dead, line)| {
            dead == host && self.log.borrow().iter().any(|noted| noted == line)
        })
    }
}

impl ScriptedHosts {
    pub fn new(script: Script) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let world = World {
            script: RefCell::new(script),
            log: RefCell::default(),
            now_ns: Cell::new(1_000_000),
            tries: Cell::new(0),
            stop: Arc::clone(&stop),
        };
        Self { world: Rc::new(world), stop }
    }

    pub fn log(&self) -> Vec<String> {
        self.world.log.borrow().clone()
    }

    /// How often an agent was requested on a host that had died.
    pub fn tries(&self) -> u32 {
        self.world.tries.get()
    }

    /// Runs a plan with one trial per lab. Returns the stored campaign, and leftovers on hosts.
    pub fn run(&self, labs: &[LabSpec]) -> (Campaign, Vec<String>) {
        let mut plan = plan_of(labs);
        plan.quiet_ms = self.world.script.borrow().quiet_ms;
        let folder = tempfile::tempdir().unwrap();
        let mut left = Vec::new();
        let mut observe = |event: Event<'_>| match event {
            Event::Left(sentence) => left.push(sentence.to_owned()),
            Event::PassBegun(pass) if self.world.script.borrow().panics > 0 => {
                self.world.script.borrow_mut().panics -= 1;
                panic!("no {} today", pass.name());
            }
            _ => {}
        };
        let mut launch =
            |hosts: &[&Host]| hosts.iter().map(|host| self.launch(host)).collect::<Vec<_>>();
        let hosts = Hosts::new(&mut launch, &*self.world, HostPermissions::default());
        let campaign =
            campaign::run(&plan, hosts, &self.stop, &mut observe, folder.path()).unwrap();
        (campaign, left)
    }

    fn launch(&self, host: &Host) -> Result<Box<dyn Transport>, PeerGone> {
        if self.world.script.borrow().unreachable == Some(host.name.as_str()) {
            return Err(PeerGone(format!(
                "host {}: cannot be reached: No route to host",
                host.name
            )));
        }
        if self.world.tries_in_vain(&host.name) {
            return Err(PeerGone(format!("host {}: the agent died", host.name)));
        }
        Ok(Box::new(ScriptedHost {
            world: Rc::clone(&self.world),
            host: host.name.clone(),
            applied: Vec::new(),
            answers: VecDeque::new(),
            pass: Pass::Write,
        }))
    }
}

struct ScriptedHost {
    world: Rc<World>,
    host: String,
    applied: Vec<String>,
    answers: VecDeque<Report>,
    pass: Pass,
}

impl ScriptedHost {
    fn is(&self, named: Option<(&'static str, &'static str)>, action: &str) -> bool {
        named.is_some_and(|(host, name)| host == self.host && name == action)
    }

    fn execute_order(&mut self, order: Order) -> Option<Report> {
        let host = self.host.clone();
        let note = |line: &str| self.world.note(format!("{host} {line}"));
        if self.is(self.world.script.borrow().wrong, &order.name()) {
            note(&format!("errs at {}", order.name()));
            return Some(if order == Order::Disarm { Report::Ended } else { Report::Disarmed });
        }
        Some(match order {
            Order::Open(_) => {
                note("open");
                Report::Opened
            }
            Order::Apply(action) => return Some(self.apply(&action)),
            Order::UndoLast => return Some(self.undo_last()),
            Order::UndoAll => {
                note("undo all");
                let line = format!("{host} undo all");
                let tries = self.world.log.borrow().iter().filter(|noted| **noted == line).count();
                if self.world.script.borrow().sticks_for.is_some_and(|limit| tries > limit) {
                    self.applied.clear();
                    return Some(Report::Undone);
                }
                let stuck = self.applied.last().cloned().unwrap_or_default();
                Report::Failed(format!("{stuck} is busy"))
            }
            Order::Release => {
                note("lets go");
                Report::Released
            }
            Order::Invalidate { how, directory } => {
                let of = directory.map_or(String::new(), |path| format!(" of {}", path.display()));
                note(&format!("forgets {how}{of}"));
                Report::Facts(vec![Fact::new("host", "page cache", "0", "/proc/meminfo")])
            }
            Order::Clock => {
                let clock = self.world.script.borrow().clock;
                let rate = clock.filter(|(fast, _)| *fast == self.host).map_or(1, |(_, rate)| rate);
                Report::Clock(self.world.read_clock(rate))
            }
            Order::Begin(_) => {
                note("trial");
                Report::Begun(fleet::TrialSetup::default())
            }
            Order::Prepare(_) => Report::Prepared,
            Order::Arm { pass, .. } => {
                self.pass = pass;
                Report::Armed
            }
            Order::Go { .. } => {
                self.world.now_ns.set(self.world.now_ns.get() + 10_000_000_000);
                let sample = model::IntervalSample { at_ns: 1, ops: 1, bytes: 1 };
                self.answers.push_back(Report::Progress(sample));
                Report::Worked { done: Vec::new(), is_broken: false }
            }
            Order::Account { .. } => {
                let broken = self.world.stop.load(Relaxed).then_some(TrialAbort::Stopped);
                Report::Ran(Box::new(PassEnd {
                    result: measured(self.pass),
                    facts: Vec::new(),
                    broken,
                    span: Span::default(),
                    timeline: Vec::new(),
                }))
            }
            Order::Disarm => Report::Disarmed,
            Order::End { .. } => Report::Ended,
            Order::AwaitQuiet { within_ms } => {
                note(&format!("rests within {within_ms}"));
                Report::Quiet(self.world.script.borrow().quiet.clone())
            }
            Order::WriteProbe { .. } => {
                note("writes probe");
                Report::Probed
            }
            Order::RemoveProbe { .. } => {
                note("removes probe");
                Report::Probed
            }
            Order::Watch => Report::Watching,
            Order::Unwatch => Report::Watched(Box::new(self.world.script.borrow().seen.clone())),
            Order::Facts => {
                Report::Facts(vec![Fact::new("host", "kernel", "Linux 6.12", "script")])
            }
            Order::Clean { .. } | Order::Disturb(_) | Order::EndDisturbance | Order::Crash => {
                return None;
            }
        })
    }

    fn apply(&mut self, action: &Action) -> Report {
        if let Action::SystemCommand(command) = action {
            return self.run(&command.run);
        }
        let name = name_of(action);
        let mut script = self.world.script.borrow_mut();
        let mine = |(host, refused, times): &&mut (&str, &str, u32)| {
            *host == self.host && *refused == name && *times > 0
        };
        if let Some((_, _, times)) = script.refused.iter_mut().find(mine) {
            *times -= 1;
            return Report::Failed(format!("no {name} today"));
        }
        let differs = self.is(script.differing, &name);
        drop(script);
        self.world.note(format!("{} + {name}", self.host));
        self.applied.push(name.clone());
        let difference = Difference {
            name: "threads".into(),
            requested: "8".into(),
            found: "4".into(),
            source: "/proc/fs/nfsd/threads".into(),
        };
        Report::Applied(EffectiveSettings {
            facts: vec![Fact::new("server", name, "as requested", "script")],
            differences: differs.then_some(difference).into_iter().collect(),
        })
    }

    fn run(&mut self, words: &[String]) -> Report {
        self.world.note(format!("{} runs {}", self.host, words.join(" ")));
        self.applied.push(String::new());
        let mut script = self.world.script.borrow_mut();
        let mut result = ("0", "");
        if let Some(results) = script.commands.get_mut(words[0].as_str()) {
            result = results[0];
            if results.len() > 1 {
                results.pop_front();
            }
        }
        let fact = |name: &str, value: &str| Fact::new("server", name, value, "script");
        let facts =
            vec![fact(SystemCommand::STATUS, result.0), fact(SystemCommand::PRINTED, result.1)];
        Report::Applied(EffectiveSettings { facts, differences: Vec::new() })
    }

    fn undo_last(&mut self) -> Report {
        let name = self.applied.last().cloned().unwrap_or_default();
        if self.is(self.world.script.borrow().sticking, &name) {
            self.world.note(format!("{} ! {name}", self.host));
            return Report::Failed(format!("{name} is busy"));
        }
        self.applied.pop();
        if name.is_empty() {
            return Report::Undone;
        }
        self.world.note(format!("{} - {name}", self.host));
        Report::Undone
    }
}

impl Transport for ScriptedHost {
    fn send(&mut self, order: Order) -> Result<(), PeerGone> {
        self.check_alive()?;
        let answer = self.execute_order(order).expect("every order has an answer");
        self.answers.push_back(answer);
        Ok(())
    }

    fn receive(&mut self) -> Result<Report, PeerGone> {
        self.check_alive()?;
        self.answers.pop_front().ok_or_else(|| PeerGone("there was no request".to_owned()))
    }

    fn try_receive(&mut self) -> Result<Option<Report>, PeerGone> {
        self.receive().map(Some)
    }

    fn check_alive(&mut self) -> Result<(), PeerGone> {
        let dead = self.world.is_dead(&self.host);
        if dead { Err(PeerGone(format!("host {}: the agent died", self.host))) } else { Ok(()) }
    }
}

impl Drop for ScriptedHost {
    fn drop(&mut self) {
        if !self.applied.is_empty() && !self.world.is_dead(&self.host) {
            self.world.note(format!("{} left", self.host));
        }
    }
}

/// Facts that a trial reported about a host.
pub fn reported<'a>(trial: &'a Trial, host: &str, name: &str) -> Option<&'a str> {
    let fact = trial.facts.iter().find(|fact| fact.scope == host && fact.name == name)?;
    Some(&fact.value)
}

/// Returns the stored name of an action.
fn name_of(action: &Action) -> String {
    let text = format!("{action:?}");
    let word = text.split('(').next().unwrap_or_default();
    let dashed = word.chars().enumerate().map(|(at, c)| match c {
        c if c.is_uppercase() && at > 0 => format!("-{}", c.to_lowercase()),
        c => c.to_lowercase().to_string(),
    });
    dashed.collect()
}

fn plan_of(labs: &[LabSpec]) -> Plan {
    let sizes: Vec<String> = (0..labs.len()).map(|run| format!("\"{}KiB\"", 4 << run)).collect();
    let text = format!(
        "name = \"t\"\ntrials = 1\nseed = 3\norder = \"sequential\"\n[[target]]\nname = \"d\"\n\
         path = \"/d\"\n[[workload]]\nkind = \"stream\"\nio_size = [{}]\n",
        sizes.join(",")
    );
    let mut plan = campaign::plan(&text);
    for (run, lab) in plan.runs.iter_mut().zip(labs) {
        run.lab = Some(Box::new(lab.clone()));
    }
    plan
}

fn measured(pass: Pass) -> PassResult {
    PassResult { window_ns: 1, common_window_ns: 1, first_done_ns: 1, ..PassResult::new(pass) }
}
