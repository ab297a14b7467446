//! A machine that slows down during a campaign: who detects it, and which run gets the blame under
//! each order.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use controller::{Event, Hosts, LaunchedAgent};
use engine::SystemClock;
use fleet::{ClockReading, HostPermissions, PeerGone};
use model::{CaveatCode, Host, Pass};
use nfs_server::{FaultPlan, Server, ServerConfig, ServiceTime};
use stats::{Outcome, compare, criteria, judge};

use crate::agent_thread;
use crate::campaign;

/// Share of its speed that the machine loses from the first trial to the last.
const DRIFT: f64 = 0.3;

/// Compares two runs that only differ in when they were measured.
fn verdict(order: &str, seed: u64) -> Outcome {
    let plan = campaign::plan(&format!(
        "name = \"t\"\nseed = {seed}\ntrials = 15\norder = \"{order}\"\n[[target]]\nname = \"n\"\n\
         null = true\n[[workload]]\nkind = \"mixed\"\nqueue_depth = [1, 2]\n"
    ));
    let steps = controller::steps(&plan);
    let speed = |at: usize| 1e9 * (1.0 - DRIFT * at as f64 / steps.len() as f64);
    let rates = |run| -> Vec<f64> {
        let made = steps.iter().enumerate().filter(|(_, step)| step.run == run);
        made.map(|(at, _)| speed(at)).collect()
    };
    let comparison = compare(&rates(0), &rates(1), criteria::EFFECT_MIN, seed);
    comparison.unwrap().outcome()
}

#[test]
fn separates_drift_from_effect_in_blocks() {
    for seed in 0..100 {
        assert_eq!(verdict("sequential", seed), Outcome::Lower, "seed {seed}");
        let in_blocks = verdict("blocks", seed);
        assert!(
            !matches!(in_blocks, Outcome::Lower | Outcome::Higher),
            "seed {seed}: {in_blocks:?}"
        );
    }
}

/// A server on this port, or on any, that takes the given time for each call.
fn server(port: u16, time_ns: u64) -> Server {
    let service_time = Some(ServiceTime::Fixed { time_ns });
    let faults = FaultPlan { service_time, ..FaultPlan::default() };
    Server::start(ServerConfig { port, faults, ..ServerConfig::default() }).unwrap()
}

/// Evidence of `drift` after five trials on a server that changes between them.
fn drift(times_ns: [u64; 5]) -> Option<String> {
    let mut times_ns = times_ns.into_iter();
    let first = server(0, times_ns.next()?);
    let port = first.address().port();
    let plan = campaign::plan(&format!(
        "name = \"t\"\nseed = 1\ntrials = 5\ninterference = \"keep\"\n[[target]]\nname = \"n\"\n\
         url = \"nfs://127.0.0.1:{port}/export?mountport={port}\"\n[[workload]]\n\
         kind = \"mixed\"\nread_percent = 100\nfile_size = \"64KiB\"\nops = 8\nqueue_depth = 1\n"
    ));
    let serving = RefCell::new(Some(first));
    // The server ages between two trials.
    let mut observe = |event: Event<'_>| {
        if matches!(event, Event::TrialEnded { .. })
            && let Some(time_ns) = times_ns.next()
        {
            serving.replace(None);
            serving.replace(Some(server(port, time_ns)));
        }
    };
    let clock = Arc::new(SystemClock::new());
    let (mut transport, serving_agent) = agent_thread::start(clock, Arc::default(), None);
    let folder = tempfile::tempdir().unwrap();
    let read_clocks = || ClockReading { mono_ns: 0, wall_ns: 0 };
    let mut launch = |hosts: &[&Host]| -> Vec<LaunchedAgent> {
        hosts.iter().map(|_| Err(PeerGone("no host was opened".to_owned()))).collect()
    };
    let opening =
        HostPermissions { campaign: controller::campaign_name(1), ..HostPermissions::default() };
    let hosts = Hosts::new(&mut launch, &read_clocks, opening).with_local_agent(&mut transport);
    let never = AtomicBool::new(false);
    let campaign = campaign::run(&plan, hosts, &never, &mut observe, folder.path()).unwrap();
    drop(transport);
    assert_eq!(serving_agent.join().unwrap(), [""; 0]);
    let judged = judge::pass(&campaign.runs[0], Pass::Mix);
    assert_eq!(judged.trials_used, 5, "{judged:?}");
    let drifts = judged.caveats.iter().find(|caveat| caveat.code == CaveatCode::Drift);
    drifts.map(judge::JudgedCaveat::evidence_line)
}

#[test]
fn detects_aging_server() {
    // On a busy machine, a trial may by chance be slower than the next one, or five trials may
    // happen to be in order, but not every time.
    let aging = || drift([1, 6, 12, 24, 48].map(|ms| ms * 1_000_000));
    let stated = (0..10).find_map(|_| aging()).expect("drift");
    assert!(stated.starts_with("5 trials fall by "), "{stated}");
    assert!((0..10).any(|_| drift([12_000_000; 5]).is_none()));
}
