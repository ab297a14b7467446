//! Faults that break the protocol: endless listings, loops, handles and verifiers that change, and
//! replies that are damaged or trickle.
//!
//! Each test plants one fault and observes it on the wire.

use std::io::{ErrorKind, Read as _};
use std::time::{Duration, Instant};

use nfs_proto::nfs3::{Call, FileHandle, Reply, Sattr, StableHow, Status, Verifier};
use nfs_server::{
    ChangingVerifier, Damage, EndlessListing, FaultKind, FaultPlan, PartsPerMillion, Quirks,
    Server, ServerConfig, SlowFile,
};

use crate::client::{Client, start, until};

const ALWAYS: PartsPerMillion = PartsPerMillion(1_000_000);

fn faulty(faults: FaultPlan) -> (Server, Client, FileHandle) {
    let server = start(ServerConfig { faults, ..ServerConfig::default() });
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    (server, client, root)
}

fn with_quirks(quirks: Quirks) -> (Server, Client, FileHandle) {
    faulty(FaultPlan { quirks, ..FaultPlan::default() })
}

/// A page of a listing: its names, the last cookie, and whether it claims to be the last one.
fn page(client: &mut Client, dir: FileHandle, cookie: u64) -> (Vec<String>, u64, bool) {
    // The store's verifier is taken from the first page.
    let first = client.nfs(Call::Readdir {
        dir: &dir,
        cookie: 0,
        verifier: Verifier::default(),
        count: 512,
    });
    let Reply::Readdir { result, .. } = first.nfs3() else { unreachable!() };
    let verifier = result.unwrap().verifier;
    let answer = client.nfs(Call::Readdir { dir: &dir, cookie, verifier, count: 512 });
    let Reply::Readdir { result, .. } = answer.nfs3() else { unreachable!() };
    let page = result.unwrap();
    let entries = page.entries.iter();
    let names = entries.map(|entry| String::from_utf8(entry.name.to_vec()).unwrap());
    let last = page.entries.iter().last().map_or(cookie, |entry| entry.cookie);
    (names.collect(), last, page.eof)
}

fn mkdir(client: &mut Client, dir: FileHandle, name: &str) -> FileHandle {
    let attributes = Sattr::with_mode(0o755);
    let answer = client.nfs(Call::Mkdir { dir: &dir, name: name.as_bytes(), attributes });
    let Reply::Mkdir { result, .. } = answer.nfs3() else { unreachable!() };
    result.unwrap().file.unwrap()
}

#[test]
fn repeats_listing_cookies_forever() {
    let endless_listing = Some(EndlessListing::RepeatedCookies);
    let (_server, mut client, root) = with_quirks(Quirks { endless_listing, ..Quirks::default() });
    client.create(root, "f");
    let (names, last, eof) = page(&mut client, root, 0);
    assert_eq!((names.len(), eof), (3, false));
    assert_eq!(page(&mut client, root, last), (names, last, false));
}

#[test]
fn lists_invented_names_forever() {
    let endless_listing = Some(EndlessListing::InventedNames);
    let (_server, mut client, root) = with_quirks(Quirks { endless_listing, ..Quirks::default() });
    let mut cookie = 0;
    for _ in 0..5 {
        let (names, last, eof) = page(&mut client, root, cookie);
        assert!(!names.is_empty() && last > cookie && !eof, "{names:?}");
        cookie = last;
    }
}

#[test]
fn loops_directories_and_symlinks() {
    let (_server, mut client, root) =
        with_quirks(Quirks { directory_loops: true, ..Quirks::default() });
    mkdir(&mut client, root, "d");
    assert_eq!(client.lookup(root, "d"), Ok(root));
    let (_server, mut client, root) =
        with_quirks(Quirks { symlink_loops: true, ..Quirks::default() });
    mkdir(&mut client, root, "d");
    let link = client.lookup(root, "d").unwrap();
    assert_eq!(client.lookup(root, "loop"), Ok(link));
    let answer = client.nfs(Call::Readlink { file: &link });
    let Reply::Readlink { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result, Ok(&b"loop"[..]));
}

#[test]
fn makes_one_handle_stale() {
    let (_server, mut client, root) =
        with_quirks(Quirks { handle_calls: Some(8), ..Quirks::default() });
    let good = (0..20).take_while(|_| client.size(root).is_ok()).count();
    assert!((8..=16).contains(&good), "{good}");
    assert_eq!(client.size(root), Err(Status::Stale));
    let again = client.mount("/export");
    assert_ne!(again, root);
    assert!(client.size(again).is_ok());
}

#[test]
fn slows_down_one_file() {
    let slow_file = Some(SlowFile { number: 7, time_ns: 1 });
    let (server, mut client, root) = with_quirks(Quirks { slow_file, ..Quirks::default() });
    let files = ["f00000007", "f00000017", "f"].map(|name| client.create(root, name));
    for file in files {
        client.write(file, 0, b"data").unwrap();
        client.read(file, 0, 4).unwrap();
        client.size(file).unwrap();
    }
    // Only the WRITE and the READ of the first one.
    assert_eq!(server.counters().faults_of(FaultKind::ServiceTime), 2);
}

/// The verifiers of two WRITEs and two COMMITs, in order.
fn verifiers(changing_verifier: Option<ChangingVerifier>) -> [Verifier; 4] {
    let (_server, mut client, root) =
        faulty(FaultPlan { changing_verifier, ..FaultPlan::default() });
    let file = client.create(root, "f");
    std::array::from_fn(|turn| {
        if turn % 2 == 1 {
            let answer = client.nfs(Call::Commit { file: &file, offset: 0, count: 0 });
            let Reply::Commit { result, .. } = answer.nfs3() else { unreachable!() };
            return result.unwrap();
        }
        let answer = client.nfs(Call::Write {
            file: &file,
            offset: 0,
            stable: StableHow::Unstable,
            data: &b"x"[..],
        });
        let Reply::Write { result, .. } = answer.nfs3() else { unreachable!() };
        result.unwrap().verifier
    })
}

#[test]
fn changes_write_verifier_on_schedule() {
    let [write, commit, again, last] = verifiers(None);
    assert!(write == commit && commit == again && again == last);
    let [write, commit, again, last] = verifiers(Some(ChangingVerifier::EveryCommit));
    assert!(write != commit && commit == again && again != last);
    let [write, commit, again, last] = verifiers(Some(ChangingVerifier::EveryWrite));
    assert!(write != commit && commit != again && again != last);
}

/// Sends a NULL call and returns the bytes received until silence or the end.
fn raw_reply(faults: FaultPlan, wanted: usize) -> (Server, Client, Vec<u8>, Option<ErrorKind>) {
    let server = start(ServerConfig { faults, ..ServerConfig::default() });
    let mut client = Client::connect(&server);
    client.send_nfs(Call::Null);
    let mut bytes = vec![0; wanted];
    client.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let read = client.stream.read_exact(&mut bytes).map_err(|error| error.kind());
    (server, client, bytes, read.err())
}

fn damaged(damage: Damage) -> FaultPlan {
    FaultPlan { damage, ..FaultPlan::default() }
}

/// Bytes of a reply to NULL: mark, xid, direction, state, empty verifier, status.
const NULL_REPLY_BYTES: usize = 4 + 24;

#[test]
fn a_reply_bears_another_xid() {
    let plan = damaged(Damage { wrong_xid: ALWAYS, ..Damage::default() });
    let (server, client, bytes, _) = raw_reply(plan, NULL_REPLY_BYTES);
    assert_ne!(bytes[4..8], client.xid.to_be_bytes());
    assert_eq!(server.counters().faults_of(FaultKind::WrongXid), 1);
}

#[test]
fn truncates_reply_or_closes() {
    let cut = Damage { cut: ALWAYS, ..Damage::default() };
    let (_server, _client, bytes, _) = raw_reply(damaged(cut), 4 + 12);
    assert_eq!(bytes[..4], [0x80, 0, 0, 12]);
    let closing = Damage { cut_closes: true, ..cut };
    let (server, mut client, bytes, _) = raw_reply(damaged(closing), 4 + 12);
    assert_eq!(bytes[..4], [0x80, 0, 0, 24]);
    assert_eq!(client.stream.read(&mut [0; 1]).unwrap(), 0, "the connection should be closed");
    until(&server, |server| server.counters().connections_open == 0);
}

#[test]
fn announces_oversized_record() {
    let plan = damaged(Damage { oversized: ALWAYS, ..Damage::default() });
    let (_server, _client, bytes, _) = raw_reply(plan, 4);
    assert_eq!(bytes, [0xff; 4]);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "measures a rate")]
fn a_reply_trickles() {
    let begun = Instant::now();
    let plan = FaultPlan { trickle_bytes_per_s: Some(50), ..FaultPlan::default() };
    let (server, client, bytes, _) = raw_reply(plan, NULL_REPLY_BYTES);
    // Five bytes every tenth of a second, so the last of six drops takes more than half a second.
    assert!(begun.elapsed() >= Duration::from_millis(550), "{:?}", begun.elapsed());
    assert_eq!(bytes[4..8], client.xid.to_be_bytes());
    assert_eq!(server.counters().faults_of(FaultKind::Trickle), 1);
}
