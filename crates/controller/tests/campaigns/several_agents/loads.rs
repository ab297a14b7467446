//! Loads that run alone and together, on a directory and on our server: their counts, what a
//! bandwidth cap makes them cost each other, and a load that ends early.

use std::fs;

use model::{Campaign, CaveatCode, Run, Trial, TrialState};
use nfs_server::{BandwidthCap, CappedBytes, FaultPlan, Server, ServerConfig};

use super::agent_threads::run;
use crate::campaign;

/// A reader and a writer, each for half a second.
const READER: &str = "[[load]]\nname = \"reader\"\nkind = \"mixed\"\nread_percent = 100\n";
const WRITER: &str = "[[load]]\nname = \"writer\"\nkind = \"mixed\"\nread_percent = 0\n";

fn run_loads(target: &str, factors: &str, loads: [&str; 2]) -> Campaign {
    let [first, second] = loads;
    let plan = campaign::plan(&format!(
        "name = \"t\"\nseed = 3\ntrials = 1\n[[target]]\nname = \"d\"\n{target}\n\
         [factors]\nfile_size = \"256KiB\"\nio_size = \"16KiB\"\n{factors}{first}{second}"
    ));
    run(&plan, None).0
}

/// The run of a load alone, or beside the other one.
fn find<'c>(campaign: &'c Campaign, name: &str, is_alone: bool) -> &'c Run {
    let is_wanted = |run: &&Run| {
        let load = run.spec.named_load.as_ref().unwrap();
        load.name == name && load.beside.is_empty() == is_alone
    };
    campaign.runs.iter().find(is_wanted).unwrap()
}

/// Its only trial, whose counts are right.
fn trial<'c>(campaign: &'c Campaign, name: &str, is_alone: bool) -> &'c Trial {
    let trial = &find(campaign, name, is_alone).trials[0];
    assert_eq!(trial.state, TrialState::Done, "{name}");
    assert!(!has(trial, CaveatCode::Accounting), "{:?}", trial.passes[0].caveats);
    for check in &trial.passes[0].cross_checks {
        assert_eq!(check.expected, check.found, "{name}: {}", check.source);
    }
    trial
}

fn ops(campaign: &Campaign, name: &str, is_alone: bool) -> u64 {
    trial(campaign, name, is_alone).passes[0].ops()
}

fn has(trial: &Trial, code: CaveatCode) -> bool {
    trial.passes[0].caveats.iter().any(|caveat| caveat.code == code)
}

#[test]
fn counts_loads_on_directory() {
    let target = tempfile::tempdir().unwrap();
    let path = format!("path = \"{}\"", target.path().display());
    let campaign = run_loads(&path, "duration = \"200ms\"\n", [READER, WRITER]);
    assert_eq!(campaign.runs.len(), 4);
    let mut positions = Vec::new();
    for name in ["reader", "writer"] {
        for is_alone in [true, false] {
            let trial = trial(&campaign, name, is_alone);
            assert!(trial.passes[0].ops() > 0);
            assert_eq!(has(trial, CaveatCode::SharedHost), !is_alone);
            positions.push(trial.position);
        }
    }
    // Both were made in one step.
    assert_eq!(positions[1] + 1, positions[3]);
    positions.sort_unstable();
    assert_eq!(positions, [0, 1, 2, 3]);
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
}

#[test]
fn names_loads_left_alone() {
    let target = tempfile::tempdir().unwrap();
    let path = format!("path = \"{}\"", target.path().display());
    let short = format!("{WRITER}start = \"150ms\"\nend = \"250ms\"\n");
    let long = format!("{READER}end = \"500ms\"\n");
    let campaign = run_loads(&path, "", [&long, &short]);
    assert!(has(trial(&campaign, "reader", false), CaveatCode::PartlyAlone));
    assert!(!has(trial(&campaign, "reader", true), CaveatCode::PartlyAlone));
    assert!(!has(trial(&campaign, "writer", false), CaveatCode::PartlyAlone));
}

/// A server whose clients share this many bytes per second.
fn serve(bandwidth: Option<u64>) -> (Server, String) {
    let cap = bandwidth.map(|bytes_per_s| BandwidthCap {
        bytes_per_s,
        counts: CappedBytes::Payload,
        burst_bytes: 0,
    });
    let faults = FaultPlan { bandwidth: cap, ..FaultPlan::default() };
    let server = Server::start(ServerConfig { faults, ..ServerConfig::default() }).unwrap();
    let port = server.address().port();
    let url = format!("url = \"nfs://127.0.0.1:{port}/export?mountport={port}\"");
    (server, url)
}

#[test]
fn capped_loads_share_bandwidth() {
    // Each load alone uses up the cap, so together each gets about half.
    let (_server, url) = serve(Some(8 << 20));
    let campaign = run_loads(&url, "duration = \"500ms\"\n", [READER, WRITER]);
    for name in ["reader", "writer"] {
        let alone = ops(&campaign, name, true);
        let together = ops(&campaign, name, false);
        assert!(together * 4 < alone * 3, "{name}: {alone} alone, {together} together");
    }
}

#[test]
fn slow_loads_cost_nothing() {
    let (_server, url) = serve(Some(100 << 20));
    let factors = "duration = \"500ms\"\nrate = 40\narrivals = \"constant\"\n";
    let campaign = run_loads(&url, factors, [READER, WRITER]);
    for name in ["reader", "writer"] {
        assert_eq!(ops(&campaign, name, true), ops(&campaign, name, false), "{name}");
    }
}
