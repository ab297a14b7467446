//! Runs trials with thousands of agents generated from a seed, and compares the reported results
//! with what the agents really did.
//!
//! Each agent has a clock, network delays and a pace of its own. No test waits: virtual time
//! advances when a message arrives.
#![allow(clippy::print_stdout, reason = "prints the seed that reproduces a failure")]

#[path = "../../../engine/tests/allocation_counts/mod.rs"]
mod allocation_counts;
#[path = "../campaign/mod.rs"]
mod campaign;
mod world;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use allocation_counts::counts;
use controller::{Hosts, LaunchedAgent};
use fleet::HostPermissions;
use model::{CaveatCode, Histogram, Host, PassResult, Trial, TrialState};
use rustix::time::{ClockId, clock_gettime};
use stats::HostsCompared;
use world::{CrossCheck, OP_BYTES, Simulated, World, WorldSettings};

/// Runs a campaign of one trial with all agents of a world. Returns its pass, and the work that was
/// really done.
fn made(nature: WorldSettings) -> (PassResult, Vec<CrossCheck>) {
    let (mut trial, cross_checks) = trial(nature);
    assert_eq!(trial.state, TrialState::Done);
    (trial.passes.remove(0), cross_checks)
}

/// Runs a campaign of one trial with all agents of a world. Returns everything stored, and the work
/// that was really done.
fn trial(nature: WorldSettings) -> (Trial, Vec<CrossCheck>) {
    println!("{nature:?}");
    let world = World::new(nature);
    let mut plan = campaign::plan(
        "name = \"t\"\nseed = 3\ntrials = 1\n[[target]]\nname = \"n\"\nnull = true\n\
         [[workload]]\nkind = \"mixed\"\nworkers = 1\nread_percent = 100\n",
    );
    plan.runs[0].placement.hosts =
        (0..nature.agents).map(|index| Host::local(format!("c{index}"))).collect();
    let launch_one = |host: &Host| -> LaunchedAgent {
        let index = host.name[1..].parse().unwrap();
        Ok(Box::new(Simulated { world: Rc::clone(&world), index }))
    };
    let mut launch = |hosts: &[&Host]| hosts.iter().map(|h| launch_one(h)).collect::<Vec<_>>();
    let folder = tempfile::tempdir().unwrap();
    let hosts = Hosts::new(&mut launch, &*world, HostPermissions::default());
    let never = AtomicBool::new(false);
    let mut campaign = campaign::run(&plan, hosts, &never, &mut |_| (), folder.path()).unwrap();
    (campaign.runs.remove(0).trials.remove(0), world.cross_checks())
}

/// Returns the CPU time that this thread has used so far.
fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The difference between the smallest and the largest.
fn spread(all: impl Iterator<Item = u64> + Clone) -> u64 {
    all.clone().max().unwrap() - all.min().unwrap()
}

/// Compares the report of a pass with the work that was done; clocks may be wrong by at most their
/// error bounds.
fn assert_true(pass: &PassResult, cross_checks: &[CrossCheck]) {
    assert_eq!(pass.hosts.len(), cross_checks.len());
    // Counts must add up exactly.
    let ops: u64 = cross_checks.iter().map(|cross_check| cross_check.ops).sum();
    assert_eq!((pass.ops(), pass.bytes()), (ops, ops * OP_BYTES));
    let mut times = Histogram::sparse();
    for cross_check in cross_checks {
        times.record_n(cross_check.op_ns, cross_check.ops);
    }
    assert_eq!(pass.service_time(), times);
    // Times must be right within their stated error. One clock drifts from another by at most 200
    // ppm between two samples a few seconds apart, and linearly, so only rounding errors remain.
    let error_ns = pass.hosts.iter().map(|host| host.error_ns).max().unwrap();
    assert!(error_ns < 5_000_000, "{error_ns} ns");
    let first = &pass.hosts[0];
    let first_true = &cross_checks[0];
    for (host, cross_check) in pass.hosts.iter().zip(cross_checks) {
        let reported = host.start_ns - first.start_ns;
        let really = cross_check.start_ns.cast_signed() - first_true.start_ns.cast_signed();
        let bound_ns = host.error_ns + first.error_ns + 1_000;
        assert!(reported.abs_diff(really) <= bound_ns, "{}: {reported} ns, {really} ns", host.host);
        let took = cross_check.end_ns - cross_check.start_ns;
        assert!(host.busy_ns().abs_diff(took) <= 2 * host.error_ns + 1_000, "{}", host.host);
        assert_eq!((host.ops, host.failed), (cross_check.ops, 0));
    }
    let near = |reported: u64, really: u64| reported.abs_diff(really) <= 2 * error_ns + 1_000;
    let skew_ns = spread(cross_checks.iter().map(|cross_check| cross_check.start_ns));
    assert!(near(pass.start_skew_ns, skew_ns), "{} ns, {skew_ns} ns", pass.start_skew_ns);
    let ends = || cross_checks.iter().map(|cross_check| cross_check.end_ns);
    let starts = || cross_checks.iter().map(|cross_check| cross_check.start_ns);
    assert!(near(pass.window_ns, ends().max().unwrap() - starts().min().unwrap()));
    let last_start_ns = starts().max().unwrap();
    let first_end_ns = ends().min().unwrap();
    assert!(near(pass.common_window_ns, first_end_ns.saturating_sub(last_start_ns)));
    // Work done when the first agent finished, op by op: interpolation loses at most one op.
    let done = |cross_check: &CrossCheck| {
        (first_end_ns.saturating_sub(cross_check.start_ns) / cross_check.op_ns).min(cross_check.ops)
    };
    let at_first_end: u64 = cross_checks.iter().map(done).sum();
    let unsure = cross_checks.len() as u64 * (2 + 2 * error_ns / 1_000_000);
    assert!(pass.first_done_ops.abs_diff(at_first_end) <= unsure, "{}", pass.first_done_ops);
}

/// The caveats about hosts that were not synchronized.
fn skewed(pass: &PassResult) -> Vec<&str> {
    let skewed = pass.caveats.iter().filter(|caveat| caveat.code == CaveatCode::Skew);
    skewed.map(|caveat| caveat.evidence.as_str()).collect()
}

#[test]
fn adds_up_ten_thousand_agents() {
    let nature = WorldSettings {
        seed: 7,
        agents: 10_000,
        lost_one_in: 0,
        slow_one_in: 1_000,
        never_ends: None,
    };
    let before_ns = processor_ns();
    let (pass, cross_checks) = made(nature);
    let each_us = (processor_ns() - before_ns) / 1_000 / nature.agents as u64;
    println!("{each_us} µs of CPU time per agent, including its simulation");
    assert_true(&pass, &cross_checks);
    // A round trip takes at least 0.2 ms, and at most five of them are made.
    let skew_ns = spread(cross_checks.iter().map(|cross_check| cross_check.start_ns));
    assert!(skew_ns < 1_000_000, "{skew_ns} ns");
    assert_eq!(skewed(&pass), [""; 0]);
    let compared = HostsCompared::from_passes(&[&pass]).unwrap();
    let named: BTreeSet<String> =
        compared.stragglers().iter().map(|host| host.host.clone()).collect();
    let slow = cross_checks.iter().enumerate().filter(|(_, cross_check)| cross_check.is_slow);
    assert_eq!(named, slow.map(|(index, _)| format!("c{index}")).collect());
    assert_eq!(named.len(), 10);
    assert!(pass.caveats.iter().any(|caveat| caveat.code == CaveatCode::Straggler));
}

#[test]
fn scales_controller_cost_linearly() {
    let allocations_each = |agents: usize| {
        let (before, _) = counts();
        made(WorldSettings {
            seed: 7,
            agents,
            lost_one_in: 0,
            slow_one_in: 1_000,
            never_ends: None,
        });
        (counts().0 - before) / agents as u64
    };
    let few = allocations_each(250);
    let many = allocations_each(2_000);
    // A step that examines all agents for each agent would need eight times as many.
    assert!(many < few * 3 / 2, "allocations per agent: {few} with 250, {many} with 2000");
}

#[test]
fn names_agent_that_started_late() {
    let mut late = 0;
    for seed in 1..=20 {
        let nature = WorldSettings {
            seed,
            agents: 300,
            lost_one_in: 1_000,
            slow_one_in: 100,
            never_ends: None,
        };
        let (pass, cross_checks) = made(nature);
        assert_true(&pass, &cross_checks);
        let last = cross_checks
            .iter()
            .enumerate()
            .max_by_key(|(_, cross_check)| cross_check.start_ns)
            .unwrap();
        let skew_ns = spread(cross_checks.iter().map(|cross_check| cross_check.start_ns));
        let stated = skewed(&pass);
        if skew_ns > 100_000_000 {
            late += 1;
            assert!(stated[0].starts_with(&format!("host c{} started ", last.0)), "{stated:?}");
        } else {
            assert!(skew_ns < 5_000_000 && stated.is_empty(), "{skew_ns} ns, {stated:?}");
        }
    }
    assert!(late > 0, "no simulation lost an order to start");
}

#[test]
fn removes_directory_for_stuck_agent() {
    let nature = WorldSettings {
        seed: 5,
        agents: 20,
        lost_one_in: 0,
        slow_one_in: 100,
        never_ends: Some(7),
    };
    let (trial, _) = trial(nature);
    let TrialState::Failed(why) = &trial.state else { panic!("{:?}", trial.state) };
    let stated = "cleanup: host c7 is still removing its files after 1800 s; its agent was left to \
                  finish on its own";
    assert_eq!(why, stated);
    // Measured results are kept.
    assert_eq!(trial.passes[0].hosts.len(), 20);
}
