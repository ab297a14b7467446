//! Caveats that are a rule over the results of a pass, on both sides of their limit.

use std::path::Path;

use agent::caveats;
use lab::mounts::Mount;
use model::{
    Arrivals, Caveat, CaveatCode, Fill, Histogram, KindResult, OpKind, Pass, PassResult, RunSpec,
    Target, Workload,
};
use nfs_server::ServerConfig;

use crate::driven_agent::{DrivenAgent, metadata, nfs, server, stream};
use crate::mount::nfs_mount;

pub(crate) fn result() -> PassResult {
    PassResult {
        window_ns: 1_000_000_000,
        common_window_ns: 1_000_000_000,
        first_done_ns: 1_000_000_000,
        client_cpu_ns: 500_000_000,
        ..PassResult::new(Pass::Read)
    }
}

fn raises_code(spec: &RunSpec, result: &PassResult, code: CaveatCode) -> bool {
    let server = caveats::find_server(&spec.target, None);
    let raised = caveats::about_figures(spec, result, server.as_deref(), None);
    raised.iter().any(|caveat| caveat.code == code)
}

#[test]
fn a_short_pass_raises_a_caveat() {
    let spec = stream(Path::new("/"));
    for (window_ns, expected) in [(19_000_000, true), (20_000_000, false)] {
        let result = PassResult { window_ns, ..result() };
        assert_eq!(raises_code(&spec, &result, CaveatCode::TooShort), expected);
    }
    let directory = tempfile::tempdir().unwrap();
    let found = DrivenAgent::new().first_pass(&metadata(directory.path(), 1));
    assert!(found.contains(&CaveatCode::TooShort));
}

#[test]
fn requires_time_of_stonewall() {
    let raised = |phase, window_ns| {
        let result = PassResult { window_ns, ..result() };
        caveats::about_stonewall(phase, &result).map(|caveat| caveat.code)
    };
    let missed = Some(CaveatCode::StonewallMissed);
    assert_eq!(raised(Pass::MdtestEasyWrite, 299_999_999_999), missed);
    assert_eq!(raised(Pass::MdtestEasyWrite, 300_000_000_000), None);
    assert_eq!(raised(Pass::IorEasyRead, 1_000_000_000), None);
}

#[test]
fn raises_caveat_for_uneven_workers() {
    let spec = RunSpec { workers: 2, files: 2, ..stream(Path::new("/")) };
    for (common_window_ns, expected) in [(890_000_000, true), (910_000_000, false)] {
        let result = PassResult { common_window_ns, ..result() };
        assert_eq!(raises_code(&spec, &result, CaveatCode::Unsynchronised), expected);
        // A worker without files can't be late.
        let idle = RunSpec { workers: 4, files: 1, ..spec.clone() };
        let sequential = PassResult { pass: Pass::Write, ..result.clone() };
        assert!(!raises_code(&idle, &sequential, CaveatCode::Unsynchronised));
        // One worker is always in step with itself.
        assert!(!raises_code(&stream(Path::new("/")), &result, CaveatCode::Unsynchronised));
    }
}

#[test]
fn raises_client_saturated_only_for_nfs() {
    let server = server(ServerConfig::default());
    let busy = PassResult { client_cpu_ns: 960_000_000, ..result() };
    assert!(raises_code(&nfs(&server), &busy, CaveatCode::ClientSaturated));
    assert!(!raises_code(&nfs(&server), &result(), CaveatCode::ClientSaturated));
    assert!(!raises_code(&stream(Path::new("/")), &busy, CaveatCode::ClientSaturated));
}

#[test]
fn notes_server_on_same_host() {
    let server = server(ServerConfig::default());
    let near = nfs(&server);
    assert!(raises_code(&near, &result(), CaveatCode::SharedHost));
    let Target::Nfs(mut target) = near.target.clone() else { unreachable!() };
    target.host = "192.0.2.1".into();
    let far = RunSpec { target: Target::Nfs(target), ..near };
    assert!(!raises_code(&far, &result(), CaveatCode::SharedHost));
}

/// A second in which the given number of ops of each kind were done, of 4 KiB each.
fn done(pass: Pass, kinds: &[(OpKind, u64)]) -> PassResult {
    let kind = |(kind, ops): &(OpKind, u64)| KindResult {
        kind: *kind,
        issued: *ops,
        done: *ops,
        bytes: ops * 4_096,
        errors: Vec::new(),
        service_time: Histogram::new(),
        response_time: Histogram::new(),
    };
    PassResult { pass, kinds: kinds.iter().map(kind).collect(), ..result() }
}

fn has(caveats: &[Caveat], code: CaveatCode) -> bool {
    caveats.iter().any(|caveat| caveat.code == code)
}

#[test]
fn raises_caveat_for_unmet_load() {
    let mut spec = RunSpec { workload: Workload::Mixed, ..stream(Path::new("/")) };
    spec.read_percent = 100;
    spec.load.rate_per_s = 10_000;
    let below = |spec: &RunSpec, ops| {
        let result = done(Pass::Mix, &[(OpKind::Read, ops)]);
        has(&caveats::about_load(spec, &result), CaveatCode::BelowOffered)
    };
    // 95 % minus three standard deviations of 100 ops.
    assert!(below(&spec, 9_190) && !below(&spec, 9_210));
    spec.load.arrivals = Arrivals::Constant;
    assert!(below(&spec, 9_490) && !below(&spec, 9_500));
    spec.load.rate_per_s = 0;
    assert!(!below(&spec, 10));
}

#[test]
fn raises_caveat_for_wrong_shares() {
    let mut spec = RunSpec { workload: Workload::OpMix, ..stream(Path::new("/")) };
    spec.op_mix.shares = vec![(OpKind::Read, 5_000), (OpKind::Lookup, 5_000)];
    let off = |spec: &RunSpec, pass, reads, lookups| {
        let result = done(pass, &[(OpKind::Read, reads), (OpKind::Lookup, lookups)]);
        has(&caveats::about_load(spec, &result), CaveatCode::MixShares)
    };
    // With a million ops, chance accounts for 0.15 points.
    assert!(off(&spec, Pass::OpMix, 517_000, 483_000));
    assert!(!off(&spec, Pass::OpMix, 516_000, 484_000));
    // 15 of a hundred, compared with which 10 are nothing.
    assert!(!off(&spec, Pass::OpMix, 60, 40));
    spec.read_percent = 70;
    assert!(off(&spec, Pass::Mix, 600_000, 400_000));
    assert!(!off(&spec, Pass::Mix, 700_000, 300_000));
}

fn mount(file_system: &str) -> Mount {
    Mount { file_system: file_system.to_owned(), ..nfs_mount() }
}

fn compressing() -> Mount {
    let compression = Some("btrfs compresses in this directory".to_owned());
    Mount { compression, ..mount("btrfs") }
}

#[test]
fn compression_is_no_cache() {
    let read = |stored| PassResult {
        storage_read_bytes: Some(stored),
        kinds: vec![crate::mount::done(OpKind::Read, 3_200)],
        ..PassResult { pass: Pass::Read, ..result() }
    };
    let random = stream(Path::new("/"));
    let mut zeros = random.clone();
    zeros.data.fill = Fill::Zeros;
    let mut smaller = random.clone();
    smaller.data.compress_percent = 30;
    smaller.data.dedup_percent = 20;
    let is_cached = |spec: &RunSpec, mount: &Mount, stored| {
        caveats::about_cache(spec, &read(stored), Some(mount)).is_some()
    };
    // 90 % of the compressed size: all of random data, half, and a block of 32.
    for (spec, least) in [(&random, 2_880), (&smaller, 1_440), (&zeros, 90)] {
        assert!(is_cached(spec, &compressing(), least - 1), "{least}");
        assert!(!is_cached(spec, &compressing(), least), "{least}");
        assert!(
            is_cached(spec, &mount("btrfs"), 2_879) && !is_cached(spec, &mount("btrfs"), 2_880)
        );
    }
    let dd = RunSpec { workload: Workload::Dd, ..random };
    assert!(is_cached(&dd, &compressing(), 89) && !is_cached(&dd, &compressing(), 90));
}

#[test]
fn content_of_programs_may_be_compressed() {
    let written = done(Pass::Write, &[(OpKind::Write, 10)]);
    let dd = RunSpec { workload: Workload::Dd, ..stream(Path::new("/")) };
    let raised = |mount: &Mount| caveats::about_data(&dd, &written, Some(mount)).is_some();
    assert!(raised(&compressing()));
    // Data that they write over NFS is not judged.
    assert!(!raised(&mount("btrfs")) && !raised(&mount("nfs4")));
}

#[test]
fn raises_caveat_for_compressible_data() {
    let written = done(Pass::Write, &[(OpKind::Write, 10)]);
    let random = stream(Path::new("/"));
    let mut zeros = random.clone();
    zeros.data.fill = Fill::Zeros;
    let mut half = random.clone();
    half.data.compress_percent = 50;
    let raises_compressible =
        |spec: &RunSpec, mount: &Mount| caveats::about_data(spec, &written, Some(mount)).is_some();
    for (mount, expected) in [
        (compressing(), true),
        (mount("btrfs"), false),
        (mount("zfs"), true),
        (mount("nfs4"), true),
        (mount("ext4"), false),
        (mount("tmpfs"), false),
    ] {
        assert_eq!(raises_compressible(&zeros, &mount), expected, "{mount:?}");
        assert_eq!(raises_compressible(&half, &mount), expected, "{mount:?}");
        assert!(!raises_compressible(&random, &mount), "{mount:?}");
    }
    let server = server(ServerConfig::default());
    let over_nfs = RunSpec { data: zeros.data, ..nfs(&server) };
    let raised = caveats::about_data(&over_nfs, &written, None).unwrap();
    assert!(raised.evidence.starts_with("all data is zeros"), "{raised:?}");
    assert!(caveats::about_data(&nfs(&server), &written, None).is_none());
}

#[test]
fn raises_caveat_on_emulated_cpu() {
    let caveat = caveats::about_host(Some("QEMU Virtual CPU")).unwrap();
    assert_eq!(caveat.code, CaveatCode::Emulated);
    assert!(caveat.evidence.contains("QEMU Virtual CPU"));
    assert_eq!(caveats::about_host(None), None);
}
