//! Trials that several agents run at the same time, each a real one with its own clock: their
//! common counts, their start times, and the loss of an agent.

mod agent_threads;
mod loads;

use std::fs;
use std::time::Duration;

use fleet::Order;
use model::{Pass, TrialState};

use crate::shared_directory::{assert_counted, only, plan};
use agent_threads::run;

/// Returns true at the order at which an agent dies.
type DeathOrder = fn(&Order) -> bool;

/// Maximum time until a lost agent is noticed, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn reads_neighbors_files() {
    let target = tempfile::tempdir().unwrap();
    let mut plan = plan(
        target.path(),
        3,
        "[[workload]]\nkind = \"stream\"\nworkers = 2\nfiles = 7\nfile_size = \"1MiB\"\n\
         io_size = \"64KiB\"\nverify = true\n",
    );
    plan.runs[0].placement.neighbour = 1;
    let (campaign, _) = run(&plan, None);
    let trial = only(&campaign, 0);
    assert_eq!(trial.state, TrialState::Done);
    assert_eq!(trial.passes.len(), 2);
    for pass in &trial.passes {
        assert_counted(pass, 3);
        // Files 0 to 6 are dealt to workers 0 to 5 in order: the first worker has two.
        let mut bytes: Vec<u64> = pass.hosts.iter().map(|host| host.bytes >> 20).collect();
        if pass.pass == Pass::Read {
            // Each worker reads what the next one wrote.
            bytes.rotate_right(1);
        }
        assert_eq!((pass.bytes(), bytes), (7 << 20, vec![3, 2, 2]), "{}", pass.pass);
        // None starts before its time, except for the error of its clock.
        for host in &pass.hosts {
            assert!(host.start_ns >= -(host.error_ns.cast_signed()), "{host:?}");
        }
    }
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}

#[test]
fn restores_shards_of_next_host() {
    let target = tempfile::tempdir().unwrap();
    let mut plan = plan(
        target.path(),
        3,
        "[[workload]]\nkind = \"checkpoint\"\nworkers = 2\nfiles = 7\nfile_size = \"1MiB\"\n\
         io_size = \"64KiB\"\nverify = true\n",
    );
    plan.runs[0].placement.neighbour = 1;
    let (campaign, _) = run(&plan, None);
    let trial = only(&campaign, 0);
    assert_eq!(trial.state, TrialState::Done);
    assert_eq!(
        trial.passes.iter().map(|it| it.pass).collect::<Vec<_>>(),
        [Pass::Save, Pass::Restore]
    );
    for pass in &trial.passes {
        assert_counted(pass, 3);
        let mut bytes: Vec<u64> = pass.hosts.iter().map(|host| host.bytes >> 20).collect();
        if pass.pass == Pass::Restore {
            bytes.rotate_right(1);
        }
        assert_eq!((pass.bytes(), bytes), (7 << 20, vec![3, 2, 2]), "{}", pass.pass);
        // The slowest rank ends the pass, apart from the different pace of the hosts' clocks.
        let times = &pass.scope.rank_times_ns;
        let slowest_ns = *times.iter().max().unwrap();
        assert_eq!(times.len(), 6);
        assert!(slowest_ns.abs_diff(pass.window_ns) <= pass.window_ns / 100, "{slowest_ns}");
    }
}

#[test]
fn applies_shares_and_bounds_globally() {
    let target = tempfile::tempdir().unwrap();
    let workloads = "[[workload]]\nkind = \"stream\"\nworkers = 2\nsharing = \"shared\"\n\
                     files = 1\nfile_size = \"2MiB\"\nio_size = \"64KiB\"\n\
                     [[workload]]\nkind = \"metadata\"\nworkers = 2\nsmall_files = 50\n\
                     [[workload]]\nkind = \"mixed\"\nworkers = 2\nfiles = 4\n\
                     file_size = \"256KiB\"\nduration = \"300ms\"\n\
                     [[workload]]\nkind = \"mixed\"\nworkers = 1\nfiles = 4\n\
                     file_size = \"256KiB\"\nops = 101\n";
    let plan = plan(target.path(), 2, workloads);
    let (campaign, _) = run(&plan, None);
    assert_eq!(campaign.runs.len(), 4);
    for run in 0..campaign.runs.len() {
        let trial = only(&campaign, run);
        assert_eq!(trial.state, TrialState::Done, "run {run}");
        for pass in &trial.passes {
            assert_counted(pass, 2);
            assert!(!pass.cross_checks.is_empty(), "{}", pass.pass);
        }
    }
    // The limit applies to all hosts together.
    assert_eq!(only(&campaign, 3).passes[0].ops(), 101);
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}

#[test]
fn names_agent_lost_at_any_step() {
    let steps: [(&str, DeathOrder); 6] = [
        ("begin", |order| matches!(order, Order::Begin(_))),
        ("prepare", |order| matches!(order, Order::Prepare(_))),
        ("arm", |order| matches!(order, Order::Arm { .. })),
        ("go", |order| matches!(order, Order::Go { .. })),
        ("account", |order| matches!(order, Order::Account { .. })),
        ("end", |order| matches!(order, Order::End { .. })),
    ];
    for (step, dies) in steps {
        for lost in ["c1", "c2"] {
            let target = tempfile::tempdir().unwrap();
            let text = "[[workload]]\nkind = \"mixed\"\nworkers = 1\nfiles = 3\n\
                        file_size = \"64KiB\"\nduration = [\"30s\", \"200ms\"]\n";
            let mut plan = plan(target.path(), 3, text);
            if matches!(step, "account" | "end") {
                plan.runs[0].duration_ms = 200;
            }
            // Runs that don't need the lost agent continue.
            plan.runs[1].placement.hosts.retain(|host| host.name != lost);
            let (campaign, times) = run(&plan, Some((lost, dies)));
            let TrialState::Failed(why) = &only(&campaign, 0).state else {
                panic!("{step} {lost}: {:?}", only(&campaign, 0).state);
            };
            assert!(why.contains(&format!("host {lost}: ")), "{step}: {why}");
            assert!(why.contains("agent is gone"), "{step}: {why}");
            assert!(times[0] < SOON, "{step} {lost}: {:?}", times[0]);
            assert_eq!(only(&campaign, 1).state, TrialState::Done, "{step} {lost}");
            assert_counted(&only(&campaign, 1).passes[0], 2);
            let left: Vec<_> = fs::read_dir(target.path()).unwrap().collect();
            assert_eq!(left.len(), 0, "{step} {lost}: {left:?}");
        }
    }
}

#[test]
fn reads_clocks_while_workers_wait() {
    let target = tempfile::tempdir().unwrap();
    let text = "[[workload]]\nkind = \"mixed\"\nworkers = 1\nfiles = 2\n\
                file_size = \"64KiB\"\nduration = \"100ms\"\n";
    // When all agents are armed, the clock comparison is already too old.
    let slow: DeathOrder = |order| {
        if matches!(order, Order::Arm { .. }) {
            std::thread::park_timeout(Duration::from_millis(600));
        }
        false
    };
    let (campaign, _) = run(&plan(target.path(), 2, text), Some(("c2", slow)));
    let trial = only(&campaign, 0);
    assert_eq!(trial.state, TrialState::Done);
    assert_counted(&trial.passes[0], 2);
}
