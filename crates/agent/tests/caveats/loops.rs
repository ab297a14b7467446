//! Caveats about loop devices, from counters of disks as they would be.

use agent::caveats::{about_loops, about_uncounted_loops};
use lab::facts::loops::{BackingStorage, LoopDevice};
use lab::facts::memory::Memory;
use model::{Caveat, CaveatCode, Metric, MetricKind, OpKind, Pass, PassResult, RunSpec, Telemetry};

use crate::driven_agent::stream;
use crate::mount::done;

/// Counters of disks that read this many sectors.
fn telemetry(sectors: &[(&str, u64)]) -> Telemetry {
    let metrics = sectors.iter().map(|(name, sectors)| Metric {
        name: format!("disk.{name}.read_bytes"),
        kind: MetricKind::Counter,
        values: vec![7, 7 + sectors * 512],
    });
    Telemetry { host: "client".to_owned(), times_ns: vec![0, 1], metrics: metrics.collect() }
}

fn device(name: &str, is_buffered: bool, below: BackingStorage) -> LoopDevice {
    let backing_file = format!("/srv/{name}.img");
    LoopDevice { name: name.to_owned(), backing_file, is_buffered, below }
}

fn on(name: &str) -> BackingStorage {
    BackingStorage::Device(name.to_owned())
}

fn pass(pass: Pass, kind: OpKind, bytes: u64) -> PassResult {
    PassResult { pass, kinds: vec![done(kind, bytes)], ..crate::figures::result() }
}

fn read() -> PassResult {
    pass(Pass::Read, OpKind::Read, 4096)
}

fn found(loops: &[LoopDevice], sectors: &[(&str, u64)]) -> Option<Caveat> {
    let caveat = about_loops(&read(), Some(&telemetry(sectors)), loops)?;
    assert_eq!(caveat.code, CaveatCode::Cached);
    Some(caveat)
}

#[test]
fn names_loop_device_and_counts() {
    let loops = [device("loop0", true, on("vda1"))];
    assert_eq!(found(&loops, &[("loop0", 1_000), ("vda1", 900)]), None);
    let caveat = found(&loops, &[("loop0", 1_000), ("vda1", 130)]).unwrap();
    insta::assert_snapshot!(caveat.evidence);
    // A counter that doesn't move is not kept.
    assert!(found(&loops, &[("loop0", 1_000)]).is_some());
    assert_eq!(found(&loops, &[("vda1", 1_000)]), None);
    assert_eq!(about_loops(&read(), None, &loops), None);
}

#[test]
fn trusts_direct_loop_devices() {
    let loops = [device("loop0", false, on("vda1"))];
    assert_eq!(found(&loops, &[("loop0", 1_000), ("vda1", 130)]), None);
}

#[test]
fn finds_cached_device_in_chain() {
    let inner = device("loop1", false, on("loop0"));
    let outer = device("loop0", true, on("vda1"));
    let sectors = [("loop1", 1_000), ("loop0", 1_000), ("vda1", 10)];
    let caveat = found(&[inner, outer], &sectors).unwrap();
    assert!(caveat.evidence.starts_with("loop0 delivered"), "{}", caveat.evidence);
}

#[test]
fn adds_loop_devices_on_same_disk() {
    let loops = [device("loop0", true, on("vda1")), device("loop1", true, on("vda1"))];
    let sectors = |disk| [("loop0", 500), ("loop1", 500), ("vda1", disk)];
    assert!(found(&loops, &sectors(899)).is_some());
    assert_eq!(found(&loops, &sectors(900)), None);
}

#[test]
fn treats_file_in_tmpfs_as_memory() {
    let loops = [device("loop0", false, BackingStorage::Memory("tmpfs".to_owned()))];
    let caveat = found(&loops, &[("loop0", 1_000), ("vda1", 9_000)]).unwrap();
    assert!(caveat.evidence.contains("which is on tmpfs"), "{}", caveat.evidence);
}

#[test]
fn judges_only_passes_that_read() {
    let loops = [device("loop0", true, on("vda1"))];
    let is_cached = |result: &PassResult, disk| {
        let telemetry = telemetry(&[("loop0", 1_000), ("vda1", disk)]);
        about_loops(result, Some(&telemetry), &loops).is_some()
    };
    assert!(!is_cached(&pass(Pass::Write, OpKind::Write, 4096), 0));
    let stats = pass(Pass::Stat, OpKind::Stat, 0);
    assert!(is_cached(&stats, 0) && !is_cached(&stats, 1));
}

#[test]
fn notes_loop_devices_that_nothing_counts() {
    let spec = RunSpec { direct: true, ..stream(std::path::Path::new("/")) };
    let noted = |is_buffered, below, memory| {
        let loops = [device("loop0", is_buffered, below)];
        about_uncounted_loops(&spec, &read(), &loops, Some(&Memory::from_host(memory)))
    };
    let overlay = || BackingStorage::Unknown("overlay".to_owned());
    let caveat = noted(true, overlay(), spec.set_bytes() + 1).unwrap();
    assert_eq!(caveat.code, CaveatCode::FitsMemory);
    assert!(caveat.evidence.contains("/srv/loop0.img on overlay"), "{caveat:?}");
    assert_eq!(noted(true, overlay(), spec.set_bytes()), None);
    assert_eq!(noted(false, overlay(), 1 << 40), None);
    assert_eq!(noted(true, on("vda1"), 1 << 40), None);
}
