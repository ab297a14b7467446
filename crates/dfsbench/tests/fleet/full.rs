//! Fills the disk during each step of a trial.
//!
//! Needs a separate small file system, which [`PLACE`] names: `cargo xtask real disk` mounts one.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use fleet::Order;
use model::{CaveatCode, Trial, TrialState};

use crate::agent_processes::{AgentProcesses, Fault, ProcessHarm};
use crate::shared_directory::{only, plan};
use crate::{FaultOrder, STEPS};

/// Names the directory on the small file system.
const PLACE: &str = "DFSBENCH_SMALL_DISK";

/// Reads and writes of existing data.
const MIX: &str = "[[workload]]\nkind = \"mixed\"\nworkers = 1\nfiles = 3\n\
                   file_size = \"64KiB\"\nduration = \"500ms\"\n";

/// Writes the files that do not exist yet, one per agent.
const STREAM: &str = "[[workload]]\nkind = \"stream\"\nworkers = 1\nfiles = 3\n\
                      file_size = \"1MiB\"\npasses = [\"write\"]\n";

fn place() -> PathBuf {
    PathBuf::from(std::env::var_os(PLACE).expect("a small file system is named"))
}

fn hog() -> PathBuf {
    place().join("hog")
}

/// Fills all free space.
fn fill() {
    let mut hog = File::create(hog()).unwrap();
    let block = vec![1; 1 << 16];
    let error = loop {
        if let Err(error) = hog.write_all(&block) {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
}

/// The first trial of a campaign of three agents, with a disk that is full from a step on.
fn made(text: &str, at: FaultOrder, after_ms: u64) -> Trial {
    let target = place().join("work");
    fs::create_dir(&target).unwrap();
    let after = Duration::from_millis(after_ms);
    let harm = ProcessHarm::ToMachine(fill);
    let mut agents = AgentProcesses::with(Fault { host: "c2", at, after, harm });
    let (campaign, _) = agents.run(&plan(&target, 3, text));
    assert!(hog().exists(), "the disk was never full");
    fs::remove_file(hog()).unwrap();
    agents.assert_left();
    // Created files can be removed without any free space.
    fs::remove_dir(&target).unwrap();
    only(&campaign, 0).clone()
}

#[test]
#[ignore = "`cargo xtask real disk` runs it, with a small file system"]
fn leaves_nothing_on_full_disk() {
    for (step, at, after_ms) in STEPS {
        let trial = made(MIX, at, after_ms);
        if !matches!(step, "begin" | "prepare") {
            assert_eq!(trial.state, TrialState::Done, "{step}");
            continue;
        }
        let TrialState::Failed(message) = &trial.state else { panic!("{step}: {:?}", trial.state) };
        let is_full = ["not enough space", "No space left"].iter().any(|it| message.contains(it));
        assert!(is_full && message.contains("host c"), "{step}: {message}");
    }
    let to_write: [(&str, FaultOrder); 2] = [
        ("arm to write", |order| matches!(order, Order::Arm { .. })),
        ("write", |order| matches!(order, Order::Go { .. })),
    ];
    for (step, at) in to_write {
        let trial = made(STREAM, at, 0);
        let caveats = &trial.passes[0].caveats;
        let errors = caveats.iter().find(|caveat| caveat.code == CaveatCode::Errors);
        let message = &errors.unwrap_or_else(|| panic!("{step}: {caveats:?}")).evidence;
        // The agents may be working when the disk fills up, and a write may be partly done.
        let is_full =
            ["ENOSPC on write", "short transfer on write"].iter().any(|it| message.contains(it));
        assert!(is_full, "{step}: {message}");
    }
}
