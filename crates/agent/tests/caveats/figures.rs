//! Doubts that are a rule over the figures of a pass, at both sides of their bound.

use std::path::Path;

use agent::doubts;
use model::{CaveatCode, Pass, PassResult, RunSpec, Target};
use nfs_server::ServerConfig;

use crate::rig::{Rig, metadata, nfs, server, stream};

fn result() -> PassResult {
    PassResult {
        pass: Pass::Read,
        window_ns: 1_000_000_000,
        common_window_ns: 1_000_000_000,
        first_done_ops: 0,
        first_done_bytes: 0,
        first_done_ns: 1_000_000_000,
        start_skew_ns: 0,
        client_cpu_ns: 500_000_000,
        server_cpu_ns: None,
        storage_read_bytes: None,
        truths: Vec::new(),
        samples: Vec::new(),
        kinds: Vec::new(),
        clients: Vec::new(),
        caveats: Vec::new(),
    }
}

fn doubted(spec: &RunSpec, result: &PassResult, code: CaveatCode) -> bool {
    doubts::about_figures(spec, result).iter().any(|caveat| caveat.code == code)
}

#[test]
fn a_short_pass_is_doubted() {
    let spec = stream(Path::new("/"));
    for (window_ns, expected) in [(19_000_000, true), (20_000_000, false)] {
        let result = PassResult { window_ns, ..result() };
        assert_eq!(doubted(&spec, &result, CaveatCode::TooShort), expected);
    }
    let directory = tempfile::tempdir().unwrap();
    let found = Rig::new().first_pass(&metadata(directory.path(), 1));
    assert!(found.contains(&CaveatCode::TooShort));
}

#[test]
fn workers_out_of_step_are_doubted() {
    let spec = RunSpec { workers: 2, ..stream(Path::new("/")) };
    for (common_window_ns, expected) in [(890_000_000, true), (910_000_000, false)] {
        let result = PassResult { common_window_ns, ..result() };
        assert_eq!(doubted(&spec, &result, CaveatCode::Unsynchronised), expected);
        // One worker is always in step with itself.
        assert!(!doubted(&stream(Path::new("/")), &result, CaveatCode::Unsynchronised));
    }
}

#[test]
fn a_worker_with_twice_the_files_is_a_straggler() {
    let directory = tempfile::tempdir().unwrap();
    let spec = RunSpec { workers: 2, files: 3, ..stream(directory.path()) };
    let spec = RunSpec { file_size_bytes: 16 << 20, ..spec };
    assert!(Rig::new().first_pass(&spec).contains(&CaveatCode::Unsynchronised));
}

#[test]
fn a_client_without_time_left_is_doubted_on_nfs_only() {
    let server = server(ServerConfig::default());
    let busy = PassResult { client_cpu_ns: 960_000_000, ..result() };
    assert!(doubted(&nfs(&server), &busy, CaveatCode::ClientSaturated));
    assert!(!doubted(&nfs(&server), &result(), CaveatCode::ClientSaturated));
    assert!(!doubted(&stream(Path::new("/")), &busy, CaveatCode::ClientSaturated));
}

#[test]
fn a_server_on_this_host_is_noted() {
    let server = server(ServerConfig::default());
    let near = nfs(&server);
    assert!(doubted(&near, &result(), CaveatCode::SharedHost));
    let Target::Nfs(mut target) = near.target.clone() else { unreachable!() };
    target.host = "192.0.2.1".into();
    let far = RunSpec { target: Target::Nfs(target), ..near };
    assert!(!doubted(&far, &result(), CaveatCode::SharedHost));
}
