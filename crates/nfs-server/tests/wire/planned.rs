//! Planned faults of the whole server and of replies: pace, shares, stalls and restarts.

use std::time::{Duration, Instant};

use nfs_proto::nfs3::{Call, FileHandle, Reply, StableHow, Verifier};
use nfs_server::{
    BandwidthCap, CallServiceTime, CappedBytes, DelayFault, FaultKind, FaultPlan, FaultedCalls,
    PartsPerMillion, ScheduledEvent, Server, ServerConfig, ServerEvent, ServiceTime,
};

use crate::client::{Client, start, until};

const MILLISECOND_NS: u64 = 1_000_000;

fn faulty(faults: FaultPlan) -> (Server, Client, FileHandle) {
    let server = start(ServerConfig { faults, ..ServerConfig::default() });
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    (server, client, root)
}

#[allow(clippy::disallowed_methods, reason = "measures delays")]
fn timed<T>(act: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let value = act();
    (start.elapsed(), value)
}

#[test]
fn sets_service_time_per_procedure() {
    let slow = ServiceTime::Fixed { time_ns: 80 * MILLISECOND_NS };
    let (_server, mut client, root) = faulty(FaultPlan {
        service_times: vec![CallServiceTime { calls: FaultedCalls::V3(6), time: slow }],
        ..FaultPlan::default()
    });
    let file = client.create(root, "f");
    assert!(timed(|| client.read(file, 0, 1).unwrap()).0 >= Duration::from_millis(80));
    let (took, ()) = timed(|| (0..20).for_each(|_| assert!(client.size(file).is_ok())));
    assert!(took < Duration::from_millis(80), "{took:?}");
}

#[test]
fn repeats_drawn_service_times_by_seed() {
    let order = |seed| {
        let (_server, mut client, root) = faulty(FaultPlan {
            seed,
            service_time: Some(ServiceTime::Uniform { min_ns: 0, max_ns: 300 * MILLISECOND_NS }),
            ..FaultPlan::default()
        });
        let first = client.xid + 1;
        (0..12).for_each(|_| client.send_nfs(Call::Getattr { file: &root }));
        (0..12).map(|_| client.receive(1).xid - first).collect::<Vec<_>>()
    };
    // Short calls overtake long ones.
    assert!(!order(3).is_sorted());
    assert_eq!(order(3)[..3], order(3)[..3]);
}

#[test]
fn caps_bandwidth_over_all_connections() {
    let cap =
        BandwidthCap { bytes_per_s: 10_000_000, counts: CappedBytes::Payload, burst_bytes: 0 };
    let (server, mut client, root) =
        faulty(FaultPlan { bandwidth: Some(cap), ..FaultPlan::default() });
    let file = client.create(root, "f");
    let mut other = Client::connect(&server);
    let (took, ()) = timed(|| {
        client.write(file, 0, &vec![1; 500_000]).unwrap();
        for _ in 0..5 {
            client.send_nfs(Call::Read { file: &file, offset: 0, count: 100_000 });
            other.send_nfs(Call::Read { file: &file, offset: 0, count: 100_000 });
        }
        for _ in 0..5 {
            client.receive(6);
            other.receive(6);
        }
    });
    // 1.5 MB at 10 MB/s.
    assert!(took >= Duration::from_millis(150), "{took:?}");
    assert!(took < Duration::from_millis(1500), "{took:?}");
    assert_eq!(server.counters().faults_of(FaultKind::Bandwidth), 11);
    // Calls without payload are not held back.
    assert!(timed(|| client.size(file)).0 < Duration::from_millis(50));
}

#[test]
fn caps_small_calls_on_wire() {
    let cap = BandwidthCap { bytes_per_s: 20_000, counts: CappedBytes::Wire, burst_bytes: 0 };
    let (server, mut client, root) =
        faulty(FaultPlan { bandwidth: Some(cap), ..FaultPlan::default() });
    let before = server.counters();
    let (took, ()) = timed(|| (0..10).for_each(|_| assert!(client.size(root).is_ok())));
    let after = server.counters();
    let bytes =
        after.wire_in_bytes - before.wire_in_bytes + after.wire_out_bytes - before.wire_out_bytes;
    // Marks are not counted: 8 bytes per call.
    let expected = Duration::from_nanos((bytes - 80) * 50_000);
    assert!(took >= expected, "{took:?} for {bytes} bytes");
}

#[test]
fn delays_and_duplicates_replies() {
    let (server, mut client, root) = faulty(FaultPlan {
        seed: 11,
        delay_reply: DelayFault { share: PartsPerMillion(100_000), delay_ns: 30 * MILLISECOND_NS },
        duplicate_reply: PartsPerMillion(200_000),
        ..FaultPlan::default()
    });
    let first = client.xid + 1;
    (0..500).for_each(|_| client.send_nfs(Call::Getattr { file: &root }));
    until(&server, |server| server.counters().calls[1] == 500);
    let counters = server.counters();
    let late = counters.faults_of(FaultKind::Delay);
    let twice = counters.faults_of(FaultKind::Duplicate);
    assert!((30..75).contains(&late), "{late}");
    assert!((70..135).contains(&twice), "{twice}");
    let mut seen = vec![0; 500];
    for _ in 0..500 + twice {
        seen[(client.receive(1).xid - first) as usize] += 1;
    }
    assert!(seen.iter().all(|count| (1..=2).contains(count)));
    assert!(client.is_silent());
}

#[test]
fn short_writes_say_what_they_took() {
    let (server, mut client, root) =
        faulty(FaultPlan { short_write: PartsPerMillion(1_000_000), ..FaultPlan::default() });
    let file = client.create(root, "f");
    assert_eq!(client.write(file, 0, &[1; 10_001]), Ok(5_000));
    assert_eq!(client.write(file, 5_000, &[2; 1]), Ok(1));
    assert_eq!(server.file_size("/export/f"), Some(5_001));
    assert_eq!(server.counters().faults_of(FaultKind::ShortWrite), 1);
}

#[test]
fn short_reads_bring_half() {
    let (server, mut client, root) =
        faulty(FaultPlan { short_read: PartsPerMillion(1_000_000), ..FaultPlan::default() });
    let file = client.create(root, "f");
    assert_eq!(client.write(file, 0, &[1; 10_001]), Ok(10_001));
    let read = |client: &mut Client, offset, count| {
        let (data, eof) = client.read(file, offset, count).unwrap();
        (data.len(), eof)
    };
    assert_eq!(read(&mut client, 0, 10_001), (5_000, false));
    assert_eq!(read(&mut client, 10_000, 1), (1, true));
    assert_eq!(server.counters().faults_of(FaultKind::ShortRead), 1);
}

#[test]
fn ignores_clients_beyond_limit() {
    let server = start(ServerConfig {
        faults: FaultPlan { hang_from_clients: Some(2), ..FaultPlan::default() },
        ..ServerConfig::default()
    });
    let mut first = Client::connect(&server);
    let mut second = Client::connect(&server);
    let root = first.mount("/export");
    assert!(second.size(root).is_ok());
    let mut third = Client::connect(&server);
    third.send_nfs(Call::Null);
    assert!(third.is_silent());
    assert!(first.size(root).is_ok());
    assert_eq!(server.counters().faults_of(FaultKind::Hang), 1);
}

#[test]
fn closes_only_idle_connection() {
    let (server, mut client, root) = faulty(FaultPlan {
        close_idle_after_ns: Some(100 * MILLISECOND_NS),
        ..FaultPlan::default()
    });
    let mut idle = Client::connect(&server);
    idle.nfs(Call::Null);
    while server.counters().faults_of(FaultKind::CloseIdle) == 0 {
        assert!(client.size(root).is_ok());
    }
    assert!(idle.try_receive(0).is_err());
    assert!(client.size(root).is_ok());
}

#[test]
fn answers_nobody_during_stall() {
    let (server, mut client, root) = faulty(FaultPlan::default());
    server.stall_now(Duration::from_millis(300));
    until(&server, |server| server.counters().faults_of(FaultKind::Stall) == 1);
    let (took, size) = timed(|| client.size(root));
    assert!(size.is_ok() && took >= Duration::from_millis(200), "{took:?}");
    assert!(timed(|| client.size(root)).0 < Duration::from_millis(200));
    // A stalled server can be stopped.
    server.stall_now(Duration::from_secs(3600));
    until(&server, |server| server.counters().faults_of(FaultKind::Stall) == 2);
    let (took, ()) = timed(|| server.shutdown());
    assert!(took < Duration::from_secs(5), "{took:?}");
}

fn commit(client: &mut Client, file: FileHandle) -> Verifier {
    let answer = client.nfs(Call::Commit { file: &file, offset: 0, count: 0 });
    let Reply::Commit { result, .. } = answer.nfs3() else { unreachable!() };
    result.unwrap()
}

#[test]
fn changes_only_verifier_at_restart() {
    let server = start(ServerConfig { threads: 2, ..ServerConfig::default() });
    let mut clients: Vec<_> = (0..4).map(|_| Client::connect(&server)).collect();
    let root = clients[0].mount("/export");
    let file = clients[0].create(root, "f");
    clients[0].write(file, 0, b"unstable").unwrap();
    let before = commit(&mut clients[0], file);
    server.restart_now();
    assert!(clients.iter_mut().all(|client| client.try_receive(0).is_err()));
    let mut client = Client::connect(&server);
    // Handle and data are unchanged.
    assert_eq!(client.read(file, 0, 100).unwrap().0, b"unstable");
    let after = commit(&mut client, file);
    assert_ne!(before, after);
    assert_eq!(after.0, server.write_verifier());
    server.restart_now();
    let third = commit(&mut Client::connect(&server), file);
    assert!(third != before && third != after);
    assert_eq!(server.counters().faults_of(FaultKind::Restart), 2);
}

#[test]
fn loses_uncommitted_data_if_planned() {
    let (server, mut client, root) =
        faulty(FaultPlan { lose_unstable: true, ..FaultPlan::default() });
    let file = client.create(root, "f");
    let mut write = |offset, stable, data: &[u8]| {
        client.nfs(Call::Write { file: &file, offset, stable, data });
    };
    write(0, StableHow::FileSync, b"stable");
    write(6, StableHow::Unstable, b" committed");
    commit(&mut client, file);
    client.write(file, 0, b"lost").unwrap();
    client.write(file, 100_000, b"lost").unwrap();
    server.restart_now();
    assert_eq!(server.read_file("/export/f").unwrap(), b"stable committed");
    assert_eq!(Client::connect(&server).size(file), Ok(16));
}

#[test]
fn restart_loses_planned_last_writes() {
    let (server, mut client, root) =
        faulty(FaultPlan { lose_last_writes: 2, ..FaultPlan::default() });
    let first = client.create(root, "first");
    let second = client.create(root, "second");
    let mut write = |file: FileHandle, offset, data: &[u8]| {
        let stable = StableHow::FileSync;
        client.nfs(Call::Write { file: &file, offset, stable, data });
    };
    write(first, 0, b"kept");
    write(second, 0, b"kept, too");
    write(first, 0, b"lost");
    write(second, 9, b"lost");
    server.restart_now();
    assert_eq!(server.read_file("/export/first").unwrap(), b"kept");
    assert_eq!(server.read_file("/export/second").unwrap(), b"kept, too");
    // Only once: they are no longer the last ones.
    server.restart_now();
    assert_eq!(server.read_file("/export/second").unwrap(), b"kept, too");
}

#[test]
fn acknowledges_but_loses_write() {
    let (server, mut client, root) =
        faulty(FaultPlan { lose_write: PartsPerMillion(1_000_000), ..FaultPlan::default() });
    let file = client.create(root, "f");
    client.write(file, 0, b"kept").unwrap();
    client.write(file, 0, b"lost").unwrap();
    client.write(file, 4, b", too").unwrap();
    assert_eq!(server.read_file("/export/f").unwrap(), b"kept, too");
    assert_eq!(server.counters().faults_of(FaultKind::LostWrite), 1);
}

#[test]
fn scheduled_events_start_at_their_time() {
    let event =
        |after_ms: u64, event| ScheduledEvent { after_ns: after_ms * MILLISECOND_NS, event };
    let stall = ServerEvent::Stall { duration_ns: 100 * MILLISECOND_NS };
    let (server, mut client, root) = faulty(FaultPlan {
        schedule: vec![event(600, ServerEvent::Restart), event(300, stall)],
        ..FaultPlan::default()
    });
    let verifier = server.write_verifier();
    let mut longest = Duration::ZERO;
    let closed = loop {
        client.send_nfs(Call::Getattr { file: &root });
        let (took, answer) = timed(|| client.try_receive(1));
        longest = longest.max(took);
        if answer.is_err() {
            break true;
        }
    };
    assert!(closed && longest >= Duration::from_millis(60), "{longest:?}");
    until(&server, |server| server.write_verifier() != verifier);
    let counters = server.counters();
    assert_eq!(counters.faults_of(FaultKind::Stall), 1);
    assert_eq!(counters.faults_of(FaultKind::Restart), 1);
    assert!(Client::connect(&server).size(root).is_ok());
}
