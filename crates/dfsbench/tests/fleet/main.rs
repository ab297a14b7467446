//! Trials that several agent processes run together, with one of them killed, stopped, cut off or
//! out of space at each step of a trial.
#![allow(clippy::disallowed_methods, reason = "tests time what they wait for")]
#![allow(clippy::print_stdout, reason = "what many agents took is printed where that fails")]

mod agent_processes;
#[path = "../../../controller/tests/campaign/mod.rs"]
mod campaign;
#[path = "../command/cli.rs"]
#[allow(dead_code, reason = "what is served is for the tests of commands")]
mod command;
mod full;
mod many;
#[path = "../../../controller/tests/campaign/shared_directory.rs"]
mod shared_directory;

use std::path::Path;
use std::time::Duration;

use agent_processes::{AgentProcesses, Fault, ProcessHarm};
use fleet::{Order, remote};
use model::{CaveatCode, Pass, TrialState};
use shared_directory::{assert_counted, only, plan};

/// Returns true for the order at which a fault happens.
type FaultOrder = fn(&Order) -> bool;

/// Steps of a trial: a name, the order that triggers the fault, and the delay after it in
/// milliseconds.
const STEPS: [(&str, FaultOrder, u64); 7] = [
    ("begin", |order| matches!(order, Order::Begin(_)), 0),
    ("prepare", |order| matches!(order, Order::Prepare(_)), 0),
    ("arm", |order| matches!(order, Order::Arm { .. }), 0),
    ("barrier", |order| matches!(order, Order::Arm { .. }), 10),
    ("measure", |order| matches!(order, Order::Go { .. }), 200),
    ("account", |order| matches!(order, Order::Account { .. }), 0),
    ("end", |order| matches!(order, Order::End { .. }), 0),
];

/// Time that a busy machine may add until a lost agent is noticed.
const BUSY: Duration = Duration::from_secs(12);

/// Two runs of a mix: one needs all three agents, the other can do without the lost one.
fn two_runs(directory: &Path, step: &str) -> plan::Plan {
    let text = "[[workload]]\nkind = \"mixed\"\nworkers = 1\nfiles = 3\nfile_size = \"64KiB\"\n\
                duration = [\"60s\", \"200ms\"]\n";
    let mut plan = plan(directory, 3, text);
    if matches!(step, "account" | "end") {
        plan.runs[0].duration_ms = 200;
    }
    plan
}

/// A fault at each step: the trial soon reports why it failed; the next one is made without the
/// lost agent, and nothing is left.
fn lost_at_each_step(harm: ProcessHarm, within: Duration, why: &str) {
    let mut harmed = Vec::new();
    for (step, at, after_ms) in STEPS {
        let target = tempfile::tempdir().unwrap();
        let mut plan = two_runs(target.path(), step);
        plan.runs[1].placement.hosts.retain(|host| host.name != "c2");
        let after = Duration::from_millis(after_ms);
        let mut agents = AgentProcesses::with(Fault { host: "c2", at, after, harm });
        let (campaign, times) = agents.run(&plan);
        let TrialState::Failed(message) = &only(&campaign, 0).state else {
            panic!("{step}: {:?}", only(&campaign, 0).state);
        };
        assert!(message.contains(&format!("host c2: {why}")), "{step}: {message}");
        let work = Duration::from_millis(after_ms + 200);
        assert!(times[0] < work + within + BUSY, "{step}: {:?}", times[0]);
        assert_eq!(only(&campaign, 1).state, TrialState::Done, "{step}");
        assert_counted(&only(&campaign, 1).passes[0], 2);
        agents.assert_left();
        harmed.push((step, agents, target));
    }
    for (step, agents, target) in harmed {
        if matches!(harm, ProcessHarm::Cut) {
            agents.await_left();
        }
        let left: Vec<_> = std::fs::read_dir(target.path()).unwrap().collect();
        assert_eq!(left.len(), 0, "{step}: {left:?}");
    }
}

#[test]
fn names_killed_agent_at_once() {
    lost_at_each_step(ProcessHarm::Kill, Duration::ZERO, "the agent is gone");
}

#[test]
fn names_frozen_agent_within_seconds() {
    lost_at_each_step(ProcessHarm::Stop, remote::LOST_AFTER, "the agent has been silent for 3 s");
}

#[test]
fn names_disconnected_agent_within_seconds() {
    lost_at_each_step(ProcessHarm::Cut, remote::LOST_AFTER, "the agent has been silent for 3 s");
}

#[test]
fn waits_for_lost_agent_if_planned() {
    let target = tempfile::tempdir().unwrap();
    let mut plan = two_runs(target.path(), "measure");
    for run in &mut plan.runs {
        run.placement.lost_wait_ms = Some(60_000);
    }
    let at: FaultOrder = |order| matches!(order, Order::Go { .. });
    let after = Duration::from_millis(100);
    let mut agents = AgentProcesses::with(Fault { host: "c3", at, after, harm: ProcessHarm::Kill });
    let (campaign, _) = agents.run(&plan);
    assert!(matches!(only(&campaign, 0).state, TrialState::Failed(_)));
    assert_eq!(only(&campaign, 1).state, TrialState::Done);
    assert_counted(&only(&campaign, 1).passes[0], 3);
    agents.assert_left();
}

#[test]
fn raises_caveats_for_slow_agent() {
    let target = tempfile::tempdir().unwrap();
    let text = "[[workload]]\nkind = \"mixed\"\nworkers = 1\nfiles = 3\nfile_size = \"64KiB\"\n\
                duration = \"2s\"\n";
    let plan = plan(target.path(), 3, text);
    // It sleeps from before the start until after it, and so misses a good part of the pass.
    // Afterwards it works at a different pace, because it is stopped again and again. A start is
    // late by more than five round trips, which take 100 ms and more on a busy machine; after three
    // seconds of silence an agent would be lost.
    let at: FaultOrder = |order| matches!(order, Order::Go { .. });
    let then = Duration::from_millis(100);
    let harm = ProcessHarm::Doze { first: Duration::from_millis(1_200), then, awake: then / 6 };
    let mut agents = AgentProcesses::with(Fault { host: "c2", at, after: Duration::ZERO, harm });
    let (campaign, _) = agents.run(&plan);
    let trial = only(&campaign, 0);
    assert_eq!(trial.state, TrialState::Done);
    let pass = trial.passes.iter().find(|pass| pass.pass == Pass::Mix).unwrap();
    assert_counted(pass, 3);
    let message = |code| {
        let found = pass.caveats.iter().find(|caveat| caveat.code == code);
        found.unwrap_or_else(|| panic!("no {code}: {:?}", pass.caveats)).evidence.clone()
    };
    assert!(
        message(CaveatCode::Skew).starts_with("host c2 started "),
        "{}",
        message(CaveatCode::Skew)
    );
    let straggler = message(CaveatCode::Straggler);
    assert!(straggler.starts_with("host c2 reached "), "{straggler}");
}
