//! Data that reached a server without calls, from counters of mounts as the kernel writes them.

use agent::caveats::about_mount;
use lab::mounts::Mount;
use lab::telemetry;
use model::{CaveatCode, Evidence, KindResult, OpKind, Pass, PassResult};

use crate::mount::{done, nfs_mount};

const V3: &str = include_str!("mountstats/v3.txt");
const V4: &str = include_str!("mountstats/v4.txt");

const MIB: u64 = 1 << 20;

/// Work of a pass on a mount: bytes read from the server and written to it, and calls.
#[derive(Clone, Copy, Default)]
struct MountTraffic {
    read_bytes: u64,
    written_bytes: u64,
    read_calls: u64,
    write_calls: u64,
    /// Calls READ_PLUS of NFS 4.2.
    read_plus_calls: u64,
}

/// Returns the text of mountstats after a pass.
fn after(before: &str, moved: MountTraffic) -> String {
    let mut text = String::new();
    for line in before.lines() {
        let row =
            |calls: u64| format!("{calls} {calls} 0 {} {} 5 10 16 0", 140 * calls, 120 * calls);
        let (name, _) = line.split_once(':').unwrap_or_default();
        let line = match name.trim() {
            "bytes" => {
                let MountTraffic { read_bytes: read, written_bytes: written, .. } = moved;
                format!("\tbytes:\t0 0 {read} {written} {read} {written} 0 0 ")
            }
            "READ" => format!("\tREAD: {}", row(moved.read_calls)),
            "WRITE" => format!("\tWRITE: {}", row(moved.write_calls)),
            "READ_PLUS" => format!("\tREAD_PLUS: {}", row(moved.read_plus_calls)),
            _ => line.to_owned(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The mount of the recorded texts.
fn recorded_mount() -> Mount {
    Mount { options: "rw,rsize=262144,wsize=262144,addr=127.0.0.1".to_owned(), ..nfs_mount() }
}

/// Returns the caveats about a pass between two texts.
fn caveats(pass: Pass, op: KindResult, before: &str, after: &str) -> Vec<model::Caveat> {
    caveats_if_requested(None, pass, op, before, after)
}

/// Returns the caveats about a pass whose run requests something of LOCALIO.
fn caveats_if_requested(
    localio: Option<bool>,
    pass: Pass,
    op: KindResult,
    before: &str,
    after: &str,
) -> Vec<model::Caveat> {
    let telemetry = vec![telemetry::parse_mountstats(&[before, after])];
    let result = PassResult { pass, kinds: vec![op], telemetry, ..crate::figures::result() };
    about_mount(&result, Some(&recorded_mount()), localio)
}

fn codes_of_read(before: &str, moved: MountTraffic) -> Vec<CaveatCode> {
    let found = caveats(Pass::Read, done(OpKind::Read, 16 * MIB), before, &after(before, moved));
    found.into_iter().map(|caveat| caveat.code).collect()
}

#[test]
fn names_reads_and_writes_without_calls() {
    // Linux 6.12 counted no call at all with LOCALIO.
    let local = MountTraffic {
        read_bytes: 31_064_064,
        written_bytes: 19_791_872,
        ..MountTraffic::default()
    };
    for before in [V3, V4] {
        let found =
            caveats(Pass::Read, done(OpKind::Read, 16 * MIB), before, &after(before, local));
        let [caveat] = &found[..] else { panic!("{found:?}") };
        assert_eq!(caveat.code, CaveatCode::Localio);
        assert!(caveat.evidence.starts_with("29.6 MiB were read"), "{caveat:?}");
        assert!(caveat.evidence.contains(" 0 READ calls"), "{caveat:?}");
        let data = Evidence::shares(0.0, 0.9, "/proc/self/mountstats");
        assert_eq!(caveat.data, Some(data));
        let written = MountTraffic { read_bytes: 0, ..local };
        let text = after(before, written);
        let found = caveats(Pass::Write, done(OpKind::Write, 16 * MIB), before, &text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].evidence.contains(" 0 WRITE calls"), "{found:?}");
    }
    // The client detected that the server is on its host only after the first calls.
    let late = MountTraffic { read_bytes: 16 * MIB, read_calls: 50, ..MountTraffic::default() };
    assert_eq!(codes_of_read(V4, late), [CaveatCode::Localio]);
}

#[test]
fn is_silent_about_data_in_calls() {
    let wire = MountTraffic {
        read_bytes: 16 * MIB,
        written_bytes: 16 * MIB,
        read_calls: 64,
        write_calls: 64,
        ..MountTraffic::default()
    };
    let plus = MountTraffic { read_calls: 0, read_plus_calls: 64, ..wire };
    for (before, moved) in [(V3, wire), (V4, wire), (V4, plus)] {
        assert_eq!(codes_of_read(before, moved), []);
    }
    // A read that the page cache answered brought nothing from the server.
    assert_eq!(codes_of_read(V4, MountTraffic::default()), [CaveatCode::Cached]);
}

#[test]
fn notes_data_sent_by_layouts() {
    let flexfiles = V4.replace("pnfs=not configured", "pnfs=LAYOUT_FLEX_FILES");
    let elsewhere = MountTraffic { read_bytes: 16 * MIB, ..MountTraffic::default() };
    assert_eq!(codes_of_read(V4, elsewhere), [CaveatCode::Localio]);
    assert_eq!(codes_of_read(&flexfiles, elsewhere), [CaveatCode::Pnfs]);
    let read = done(OpKind::Read, 16 * MIB);
    let after = after(&flexfiles, elsewhere).replace("LAYOUTGET: 0 0", "LAYOUTGET: 3 3");
    let [caveat] = &caveats(Pass::Read, read, &flexfiles, &after)[..] else { panic!() };
    assert!(caveat.evidence.ends_with("which gave 3 layouts (LAYOUTGET)"), "{}", caveat.evidence);
}

#[test]
fn notes_layouts_of_counted_calls() {
    // As Linux 7.2 counts reads from data servers: the layout comes with the OPEN.
    let flexfiles = V4.replace("pnfs=not configured", "pnfs=LAYOUT_FLEX_FILES");
    let wire = MountTraffic { read_bytes: 16 * MIB, read_calls: 64, ..MountTraffic::default() };
    let after = after(&flexfiles, wire).replace("GETDEVICEINFO: 0 0", "GETDEVICEINFO: 1 1");
    let read = done(OpKind::Read, 16 * MIB);
    let [caveat] = &caveats(Pass::Read, read, &flexfiles, &after)[..] else { panic!() };
    assert_eq!(caveat.code, CaveatCode::Pnfs);
    assert!(caveat.evidence.starts_with("16 MiB were moved with layouts"), "{}", caveat.evidence);
}

#[test]
fn is_silent_about_unused_layouts() {
    let flexfiles = V4.replace("pnfs=not configured", "pnfs=LAYOUT_FLEX_FILES");
    let wire = MountTraffic { read_bytes: 16 * MIB, read_calls: 64, ..MountTraffic::default() };
    assert_eq!(codes_of_read(&flexfiles, wire), []);
}

#[test]
fn compares_calls_with_requested_localio() {
    let local = MountTraffic { read_bytes: 16 * MIB, ..MountTraffic::default() };
    let wire = MountTraffic { read_calls: 64, ..local };
    let plus = MountTraffic { read_plus_calls: 64, ..local };
    let raised = |requested, moved| {
        let read = done(OpKind::Read, 16 * MIB);
        let found = caveats_if_requested(Some(requested), Pass::Read, read, V4, &after(V4, moved));
        found.into_iter().map(|caveat| (caveat.code, caveat.evidence)).collect::<Vec<_>>()
    };
    // What was requested is no reservation.
    assert_eq!(raised(true, local), []);
    assert_eq!(raised(false, wire), []);
    let [(code, _)] = &raised(false, local)[..] else { panic!("{:?}", raised(false, local)) };
    assert_eq!(*code, CaveatCode::Localio);
    for moved in [wire, plus] {
        let [(code, evidence)] = &raised(true, moved)[..] else {
            panic!("{:?}", raised(true, moved))
        };
        assert_eq!(*code, CaveatCode::OptionNotEffective);
        let begin = "localio true, but 16 MiB were read from the server of /mnt in 64 READ calls";
        assert!(evidence.starts_with(begin), "{evidence}");
    }
    // Nothing was transferred, so there is nothing to compare.
    let read = done(OpKind::Read, 16 * MIB);
    let found =
        caveats_if_requested(Some(true), Pass::Read, read, V4, &after(V4, MountTraffic::default()));
    assert!(found.iter().all(|caveat| caveat.code == CaveatCode::Cached), "{found:?}");
}
