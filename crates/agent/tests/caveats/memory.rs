//! Caveats about reads on file systems whose reads from storage are not counted for this process.

use std::path::Path;

use agent::caveats::about_memory;
use agent::sources::ReadSources;
use lab::facts::memory::Memory;
use lab::mounts::Mount;
use lab::telemetry::fuse::FuseReads;
use model::{Metric, MetricKind, OpKind, Pass, PassResult, RunSpec, Telemetry};

use crate::driven_agent::stream;
use crate::mount::done;

const READ: u64 = 192 << 20;
const MEMORY: u64 = 1 << 40;

fn mount(file_system: &str) -> Mount {
    Mount {
        file_system: file_system.into(),
        source: "s".into(),
        mount_point: "/m".into(),
        options: "rw".into(),
        compression: None,
        device: "0:1".into(),
        id: 1,
    }
}

/// A pass that read all of [`READ`] while these counters of the host rose.
fn read_pass(counters: &[(&str, u64)]) -> PassResult {
    let metric = |(name, risen): &(&str, u64)| Metric {
        name: (*name).to_owned(),
        kind: MetricKind::Counter,
        values: vec![5, 5 + risen],
    };
    let telemetry = Telemetry {
        host: "client".to_owned(),
        times_ns: vec![0, 1],
        metrics: counters.iter().map(metric).collect(),
    };
    PassResult {
        pass: Pass::Read,
        kinds: vec![done(OpKind::Read, READ)],
        telemetry: vec![telemetry],
        ..crate::figures::result()
    }
}

/// One program that serves FUSE mounts, for which storage read the given amount.
fn served(stored_bytes: u64) -> ReadSources {
    let fuse = FuseReads { names: vec!["bindfs (7)".to_owned()], stored_bytes, is_complete: true };
    ReadSources { own_stored_bytes: 0, fuse: Some(fuse) }
}

fn direct(is_direct: bool) -> RunSpec {
    RunSpec { direct: is_direct, file_size_bytes: READ, ..stream(Path::new("/")) }
}

/// Returns the code, if any, and its evidence.
fn raised(
    spec: &RunSpec,
    file_system: &str,
    counters: &[(&str, u64)],
    sources: Option<&ReadSources>,
) -> (&'static str, String) {
    let result = read_pass(counters);
    let memory = Memory::from_host(MEMORY);
    match about_memory(spec, &result, Some(&mount(file_system)), Some(&memory), sources) {
        Some(caveat) => (caveat.code.code(), caveat.evidence),
        None => ("", String::new()),
    }
}

#[test]
fn names_reads_from_daemon_memory() {
    for is_direct in [true, false] {
        let (code, evidence) = raised(&direct(is_direct), "fuse.bindfs", &[], Some(&served(4_096)));
        assert_eq!(code, "cached", "{evidence}");
        for words in ["192 MiB were read", "bindfs (7)", "4 KiB"] {
            assert!(evidence.contains(words), "`{words}` is not in {evidence}");
        }
    }
}

#[test]
fn does_not_suspect_storage_daemon() {
    for file_system in ["fuse", "fuse.bindfs", "fuseblk"] {
        let code = |stored| raised(&direct(true), file_system, &[], Some(&served(stored))).0;
        assert_eq!(code(READ * 9 / 10 + 1), "");
        assert_eq!(code(READ * 9 / 10), "cached");
    }
}

#[test]
fn does_not_suspect_network_daemon() {
    let code =
        |counter| raised(&direct(true), "fuse.sshfs", &[(counter, READ)], Some(&served(0))).0;
    assert_eq!(code("net.eth0.received_bytes"), "");
    // It came from a server, or from storage, on this very host: from its memory or not.
    assert_eq!(code("net.lo.received_bytes"), "fits-memory");
    assert_eq!(code("disk.vda.read_bytes"), "fits-memory");
    assert_eq!(code("disk.vda.write_bytes"), "cached");
}

#[test]
fn notes_hidden_daemons() {
    let mut hidden = served(0);
    if let Some(fuse) = &mut hidden.fuse {
        fuse.is_complete = false;
    }
    assert_eq!(raised(&direct(true), "fuse.bindfs", &[], Some(&hidden)).0, "fits-memory");
    assert_eq!(raised(&direct(true), "fuse.bindfs", &[], None).0, "fits-memory");
}

#[test]
fn direct_alone_excuses_nothing() {
    let stored = |own_stored_bytes| ReadSources { own_stored_bytes, fuse: None };
    for file_system in ["overlay", "cifs", "9p"] {
        let code = |sources: Option<ReadSources>| {
            raised(&direct(true), file_system, &[], sources.as_ref()).0
        };
        assert_eq!(code(Some(stored(0))), "fits-memory");
        assert_eq!(code(Some(stored(READ))), "");
        assert_eq!(code(None), "fits-memory");
    }
    let wire = [("net.eth0.received_bytes", READ)];
    assert_eq!(raised(&direct(true), "cifs", &wire, Some(&stored(0))).0, "");
}

#[test]
fn ignores_other_counters_and_large_files() {
    for counted in ["ext4", "nfs4"] {
        assert_eq!(raised(&direct(false), counted, &[], None).0, "");
    }
    let result = read_pass(&[]);
    let noted = |bytes| {
        let memory = Memory { bytes, source: "memory.max".to_owned() };
        about_memory(&direct(false), &result, Some(&mount("overlay")), Some(&memory), None)
    };
    assert_eq!(noted(READ), None);
    assert!(noted(READ + 1).unwrap().evidence.contains(" of memory (memory.max)"));
}
