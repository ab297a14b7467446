//! Trials that several agents make at one moment, each a real one with a clock of its own: what
//! they count together, and when they start.

#[path = "../planned/mod.rs"]
mod planned;
mod rig;

use std::fs;

use model::{Pass, TrialState};

use rig::{assert_counted, made, only, plan};

#[test]
fn every_byte_is_written_once_and_neighbours_read_it() {
    let target = tempfile::tempdir().unwrap();
    let mut plan = plan(
        target.path(),
        3,
        "[[workload]]\nkind = \"stream\"\nworkers = 2\nfiles = 7\nfile_size = \"1MiB\"\n\
         io_size = \"64KiB\"\nverify = true\n",
    );
    plan.runs[0].placement.neighbour = 1;
    let (campaign, _) = made(&plan);
    let trial = only(&campaign, 0);
    assert_eq!(trial.state, TrialState::Done);
    assert_eq!(trial.passes.len(), 2);
    for pass in &trial.passes {
        assert_counted(pass, 3);
        // Files 0 to 6 belong to workers 0 to 5 in turn: the first worker has two.
        let mut bytes: Vec<u64> = pass.hosts.iter().map(|host| host.bytes >> 20).collect();
        if pass.pass == Pass::Read {
            // Each reads what the next one wrote.
            bytes.rotate_right(1);
        }
        assert_eq!((pass.bytes(), bytes), (7 << 20, vec![3, 2, 2]), "{}", pass.pass);
        let starts: Vec<i64> = pass.hosts.iter().map(|host| host.start_ns).collect();
        println!("{}: starts {starts:?} ns, skew {} ns", pass.pass, pass.start_skew_ns);
        // None starts before its time, but for what its clock may be wrong by.
        for host in &pass.hosts {
            assert!(host.start_ns >= -(host.error_ns.cast_signed()), "{host:?}");
        }
    }
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}

#[test]
fn shared_files_names_and_mixes_add_up_and_bounds_hold_over_all() {
    let target = tempfile::tempdir().unwrap();
    let workloads = "[[workload]]\nkind = \"stream\"\nworkers = 2\nsharing = \"shared\"\n\
                     files = 1\nfile_size = \"2MiB\"\nio_size = \"64KiB\"\n\
                     [[workload]]\nkind = \"metadata\"\nworkers = 2\nsmall_files = 50\n\
                     [[workload]]\nkind = \"mixed\"\nworkers = 2\nfiles = 4\n\
                     file_size = \"256KiB\"\nduration = \"300ms\"\n\
                     [[workload]]\nkind = \"mixed\"\nworkers = 1\nfiles = 4\n\
                     file_size = \"256KiB\"\nops = 101\n";
    let plan = plan(target.path(), 2, workloads);
    let (campaign, _) = made(&plan);
    assert_eq!(campaign.runs.len(), 4);
    for run in 0..campaign.runs.len() {
        let trial = only(&campaign, run);
        assert_eq!(trial.state, TrialState::Done, "run {run}");
        for pass in &trial.passes {
            assert_counted(pass, 2);
            assert!(!pass.truths.is_empty(), "{}", pass.pass);
        }
    }
    // The bound is one of all hosts together.
    assert_eq!(only(&campaign, 3).passes[0].ops(), 101);
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}
