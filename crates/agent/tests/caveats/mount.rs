//! Caveats about mounts of the kernel's NFS client, raised by its counters.

use agent::caveats::{
    IN_FLIGHT_MAX, SEGMENTS_AGAIN_MAX, about_listing, about_mount, about_segments,
    about_server_cache, find_server, sending_limits,
};
use engine::backend::TcpCounters;
use lab::mounts::Mount;
use model::testing::RunBuilder;
use model::{
    BackendKind, Histogram, KindResult, ListingWork, Metric, MetricKind, NfsTarget, OpKind, Pass,
    PassResult, Proto, RunSpec, Scope, Target, Telemetry, Workload,
};

/// Counters of the mount, with their increases.
pub fn telemetry(counters: &[(&str, u64)]) -> Telemetry {
    counted("nfs./mnt.", counters)
}

fn counted(prefix: &str, counters: &[(&str, u64)]) -> Telemetry {
    let metric = |(name, risen): &(&str, u64)| Metric {
        name: format!("{prefix}{name}"),
        kind: MetricKind::Counter,
        values: vec![5, 5 + risen],
    };
    Telemetry {
        host: "client".to_owned(),
        times_ns: vec![0, 1],
        metrics: counters.iter().map(metric).collect(),
    }
}

/// One op of a kind that moved some bytes.
pub fn done(kind: OpKind, bytes: u64) -> KindResult {
    KindResult {
        kind,
        issued: 1,
        done: 1,
        bytes,
        errors: Vec::new(),
        service_time: Histogram::new(),
        response_time: Histogram::new(),
    }
}

/// A mount of NFS by the kernel.
pub fn nfs_mount() -> Mount {
    Mount {
        file_system: "nfs4".to_owned(),
        source: "server:/export".to_owned(),
        mount_point: "/mnt".to_owned(),
        options: String::new(),
        device: "0:1".into(),
        compression: None,
        id: 1,
    }
}

/// Returns the codes about a pass with one op of a kind on a mount of NFS.
fn codes(pass: Pass, op: KindResult, counters: &[(&str, u64)]) -> Vec<&'static str> {
    let result = PassResult {
        pass,
        kinds: vec![op],
        telemetry: vec![telemetry(counters)],
        ..crate::figures::result()
    };
    let mount = nfs_mount();
    let local = Mount { file_system: "ext4".to_owned(), ..mount.clone() };
    let about = |mount| about_mount(&result, mount, None);
    assert!(about(Some(&local)).is_empty() && about(None).is_empty());
    about(Some(&mount)).iter().map(|caveat| caveat.code.code()).collect()
}

/// Returns the codes about a pass that read 100 bytes.
fn codes_of_read(counters: &[(&str, u64)]) -> Vec<&'static str> {
    codes(Pass::Read, done(OpKind::Read, 100), counters)
}

/// Returns the codes about a pass that made a stat.
fn codes_of_stat(counters: &[(&str, u64)]) -> Vec<&'static str> {
    codes(Pass::Stat, done(OpKind::Stat, 0), counters)
}

#[test]
fn reports_reads_missing_on_wire() {
    let wire = |bytes| [("server_read_bytes", bytes), ("READ.ops", 1)];
    assert_eq!(codes_of_read(&wire(100)), [""; 0]);
    assert_eq!(codes_of_read(&wire(89)), ["cached"]);
    assert_eq!(codes_of_read(&[]), ["cached"]);
    assert_eq!(codes_of_stat(&[("GETATTR.ops", 3)]), [""; 0]);
    assert_eq!(codes_of_stat(&[("READ.ops", 3)]), ["cached"]);
    // rsync of an unchanged tree.
    let codes_of_rsync = |counters| codes(Pass::SyncTree, done(OpKind::Stat, 0), counters);
    assert_eq!(codes_of_rsync(&[("LOOKUP.ops", 1)]), [""; 0]);
    assert_eq!(codes_of_rsync(&[]), ["cached"]);
    let codes_of_xattr = |counters| codes(Pass::GetXattr, done(OpKind::GetXattr, 0), counters);
    assert_eq!(codes_of_xattr(&[("GETXATTR.ops", 1)]), [""; 0]);
    assert_eq!(codes_of_xattr(&[("GETATTR.ops", 1)]), ["cached"]);
}

/// Returns the codes about a pass that listed 2 directories with 1,000 entries.
fn codes_of_listing(file_system: &str, pass: Pass, counters: &[(&str, u64)]) -> Vec<&'static str> {
    let listing = ListingWork { directories: 2, entries: 1_000, ..ListingWork::default() };
    let result = PassResult {
        pass,
        kinds: vec![done(OpKind::List, 0)],
        telemetry: vec![telemetry(counters)],
        scope: Scope { listing: Some(listing), ..Scope::default() },
        ..crate::figures::result()
    };
    let mount = Mount { file_system: file_system.to_owned(), ..nfs_mount() };
    assert!(about_mount(&result, Some(&mount), None).is_empty());
    about_listing(&result, Some(&mount)).iter().map(|caveat| caveat.code.code()).collect()
}

#[test]
fn reports_listings_from_cache() {
    for version in ["nfs", "nfs4"] {
        let codes = |pass, counters: &[(&str, u64)]| codes_of_listing(version, pass, counters);
        for pass in [Pass::List, Pass::ListStat, Pass::Find] {
            assert_eq!(codes(pass, &[("GETATTR.ops", 2)]), ["cached"], "{pass}");
            assert_eq!(codes(pass, &[("READDIR.ops", 1)]), ["cached"], "one directory of two");
            let named = [("READDIR.ops", 2), ("GETATTR.ops", 900)];
            assert_eq!(codes(pass, &named), [""; 0], "{pass}");
            assert_eq!(codes(pass, &[("READDIRPLUS.ops", 2)]), [""; 0], "{pass}");
        }
    }
    // Without READDIRPLUS, version 3 needs a call for the attributes of each file.
    let named = [("READDIR.ops", 20), ("LOOKUP.ops", 899)];
    assert_eq!(codes_of_listing("nfs", Pass::ListStat, &named), ["cached"]);
    assert_eq!(codes_of_listing("nfs", Pass::List, &named), [""; 0]);
    assert_eq!(codes_of_listing("nfs4", Pass::ListStat, &named), [""; 0]);
}

#[test]
fn reports_retransmitted_calls() {
    let wire = ("server_read_bytes", 100);
    let sent = |again| [wire, ("READ.ops", 10), ("READ.transmissions", 10 + again)];
    assert_eq!(codes_of_read(&sent(IN_FLIGHT_MAX)), [""; 0]);
    assert_eq!(codes_of_read(&sent(IN_FLIGHT_MAX + 1)), ["retransmits"]);
    let timed_out = [wire, ("READ.ops", 10), ("READ.major_timeouts", 1)];
    assert_eq!(codes_of_read(&timed_out), ["retransmits"]);
}

#[test]
fn reports_short_reads_of_mounts() {
    let wire = ("server_read_bytes", 100);
    let short = |count| [wire, ("READ.ops", 1_000), ("short_reads", count)];
    assert_eq!(codes_of_read(&short(10)), [""; 0], "one in a hundred");
    assert_eq!(codes_of_read(&short(11)), ["short-transfers"]);
    let writes = [wire, ("READ.ops", 1), ("WRITE.ops", 10), ("short_writes", 1)];
    assert_eq!(codes_of_read(&writes), ["short-transfers"]);
}

/// A run over NFS, and one in a directory that is not a mount.
fn served_and_local() -> [RunSpec; 2] {
    let served = RunBuilder::new(Workload::Stream)
        .target(Target::Nfs(NfsTarget::new("server", "/export")))
        .backend(BackendKind::Nfs)
        .build();
    let local = RunBuilder::new(Workload::Stream).on_directory("/srv".as_ref()).build();
    [served, local]
}

/// Returns the evidence about the given number of segments, of which some were sent again.
fn segments(spec: &RunSpec, sent: u64, again: u64) -> Option<String> {
    segments_arrived(spec, sent, again, 0)
}

/// Returns the evidence if some of the segments that were sent again arrived twice.
fn segments_arrived(spec: &RunSpec, sent: u64, again: u64, twice: u64) -> Option<String> {
    let counters = [
        ("segments_sent", sent),
        ("segments_retransmitted", again),
        ("segments_arrived_twice", twice),
    ];
    let telemetry = vec![counted("tcp.", &counters)];
    let result = PassResult { telemetry, ..crate::figures::result() };
    about_segments(spec, &result, None, &TcpCounters::default()).map(|caveat| {
        assert_eq!(caveat.code.code(), "tcp-retransmits");
        caveat.evidence
    })
}

#[test]
fn reports_tcp_retransmits() {
    let [served, _] = served_and_local();
    // Counts of a run over a shaped link that had no caveat before.
    let reported = segments(&served, 1_200_000, 115_191).expect("tcp-retransmits");
    insta::assert_snapshot!(reported);
    assert!(segments(&served, 10_000, SEGMENTS_AGAIN_MAX + 1).is_some());
}

#[test]
fn ignores_foreign_tcp_retransmits() {
    let [served, local] = served_and_local();
    // A few by chance, or a share without cost.
    assert_eq!(segments(&served, 10_000, SEGMENTS_AGAIN_MAX), None);
    assert_eq!(segments(&served, 1_200_000, 1_200), None);
    // Tail loss probes on loopback (66 of 4,264 were observed), all of which arrived twice.
    assert!(segments_arrived(&served, 4_264, 66, 0).is_some());
    assert_eq!(segments_arrived(&served, 4_264, 66, 66), None);
    // A client that does not use TCP is not slowed down by it.
    assert_eq!(segments(&local, 1_200_000, 115_191), None);
    let mut over_udp = served;
    over_udp.target.nfs_mut().unwrap().settings.proto = Proto::Udp;
    assert_eq!(segments(&over_udp, 1_200_000, 115_191), None);
}

/// Returns the evidence of a pass over our own connections while the host retransmitted a lot.
fn own_segments(spec: &RunSpec, tcp: TcpCounters) -> Option<String> {
    let metric = |name: &str, risen: u64| Metric {
        name: name.to_owned(),
        kind: MetricKind::Counter,
        values: vec![5, 5 + risen],
    };
    let of_host = Telemetry {
        host: "client".to_owned(),
        times_ns: vec![0, 1],
        metrics: vec![
            metric("tcp.segments_sent", 1_200_000),
            metric("tcp.segments_retransmitted", 115_191),
        ],
    };
    let result = PassResult { telemetry: vec![of_host], ..crate::figures::result() };
    about_segments(spec, &result, None, &tcp).map(|caveat| {
        assert_eq!(caveat.code.code(), "tcp-retransmits");
        caveat.evidence
    })
}

#[test]
fn reports_own_retransmitted_segments() {
    let [served, _] = served_and_local();
    let tcp = TcpCounters {
        connections: 2,
        segments_sent: 10_000,
        segments_retransmitted: SEGMENTS_AGAIN_MAX + 4,
        segments_arrived_twice: 3,
        ..TcpCounters::default()
    };
    let counted = own_segments(&served, tcp).expect("tcp-retransmits");
    let uncounted = own_segments(&served, TcpCounters { uncounted: 1, ..tcp }).unwrap();
    insta::assert_snapshot!([counted, uncounted].join("\n"));
}

#[test]
fn does_not_blame_own_connections() {
    let [served, _] = served_and_local();
    let clean = TcpCounters { connections: 1, segments_sent: 1_200_000, ..TcpCounters::default() };
    assert_eq!(own_segments(&served, clean), None);
    let few = TcpCounters { segments_retransmitted: 1_200, ..clean };
    assert_eq!(own_segments(&served, few), None);
    let by_chance =
        TcpCounters { segments_sent: 10_000, segments_retransmitted: SEGMENTS_AGAIN_MAX, ..clean };
    assert_eq!(own_segments(&served, by_chance), None);
    // Without counters of a connection, only those of the host are available.
    let uncounted = TcpCounters { connections: 0, uncounted: 1, ..clean };
    assert!(own_segments(&served, uncounted).unwrap().contains("all connections of this host"));
}

#[test]
fn records_send_limit_as_fact() {
    let window_ns = 1_000_000_000;
    let result = PassResult { pass: Pass::Write, window_ns, ..crate::figures::result() };
    let tcp = TcpCounters {
        connections: 2,
        busy_us: 1_000_000,
        receiver_limited_us: 900_000,
        send_buffer_limited_us: 50_000,
        bytes_retransmitted: 4_096,
        ..TcpCounters::default()
    };
    let fact = sending_limits(&result, &tcp).expect("a fact");
    assert_eq!(fact.name, "write: TCP sending");
    insta::assert_snapshot!(fact.value);
    assert!(fact.source.starts_with("TCP_INFO "), "{}", fact.source);
    // Requests to read are small, and without connections nothing was sent.
    assert_eq!(sending_limits(&result, &TcpCounters { busy_us: 199_000, ..tcp }), None);
    assert_eq!(sending_limits(&result, &TcpCounters::default()), None);
    assert_eq!(sending_limits(&PassResult { window_ns: 0, ..result }, &tcp).map(drop), None);
}

const MIB: u64 = 1 << 20;

/// Returns the caveats of a pass that read a set of 64 MiB, on a host with the given MiB of memory.
fn read_back(spec: &RunSpec, host_mib: u64) -> Option<String> {
    let spec = RunSpec { file_size_bytes: 64 * MIB, files: 1, ..spec.clone() };
    let read = KindResult {
        kind: OpKind::Read,
        issued: 64,
        done: 64,
        bytes: 64 * MIB,
        errors: Vec::new(),
        service_time: Histogram::new(),
        response_time: Histogram::new(),
    };
    let result = PassResult { pass: Pass::Read, kinds: vec![read], ..crate::figures::result() };
    let written = PassResult { kinds: Vec::new(), ..result.clone() };
    let server = find_server(&spec.target, None);
    let server = server.as_deref();
    assert_eq!(about_server_cache(&spec, &written, None, server, Some(host_mib * MIB)), None);
    let reported = about_server_cache(&spec, &result, None, server, Some(host_mib * MIB));
    reported.map(|caveat| caveat.evidence)
}

#[test]
fn notes_possible_server_cache() {
    let [served, _] = served_and_local();
    let unknown = read_back(&served, 1).unwrap();
    let reported = RunSpec { server_memory_bytes: 65 * MIB, ..served };
    let known = read_back(&reported, 1).unwrap();
    // A server on this host shares its memory.
    let mut here = reported;
    here.server_memory_bytes = 0;
    here.target = Target::Nfs(NfsTarget::new("127.0.0.1", "/export"));
    let shared = read_back(&here, 1_000).unwrap();
    insta::assert_snapshot!([unknown, known, shared].join("\n"), @"
    the files are 64 MiB, and the server's memory size is not known
    the files are 64 MiB, but the server has 65 MiB of memory
    the files are 64 MiB, but the server has 1000 MiB of memory
    ");
}

#[test]
fn trusts_server_with_small_memory() {
    let [served, local] = served_and_local();
    let reported = RunSpec { server_memory_bytes: 64 * MIB, ..served.clone() };
    assert_eq!(read_back(&reported, 1_000), None);
    let mut here = served.clone();
    here.target = Target::Nfs(NfsTarget::new("127.0.0.1", "/export"));
    assert_eq!(read_back(&here, 64), None);
    // A local directory has no server, and our own server keeps all data in memory by design.
    assert_eq!(read_back(&local, 1_000), None);
    let mut embedded = served;
    embedded.target.nfs_mut().unwrap().embedded = true;
    assert_eq!(read_back(&embedded, 1_000), None);
}
