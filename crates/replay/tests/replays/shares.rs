//! A trace with clients that wait for one another, shared by two hosts: each finds the files that
//! the other creates, and nothing happens before its dependencies.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;

use engine::{Clock as _, SystemClock};
use nfs_client::Mount;
use nfs_client::proto::client::ProtocolVersion;
use nfs_client::proto::nfs3::StableHow;
use replay::{
    BatchSchedule, Clients, Division, Exchange, Files, Fill, HostShare, NoticeSender, Pace, Record,
    ReplayPlan, ReplaySettings, Replayer, ShareRecord, StepEnd, TargetKind,
};

use crate::common::{Recorded, Row, rows, whole_trace};

const VERSION: ProtocolVersion = ProtocolVersion::V3;
/// Rounds in which each client works on files that the other one created.
const ROUNDS: u64 = 30;

/// Two clients: one writes a file, then the other one reads and removes it.
fn captured() -> Vec<u8> {
    let origin = Recorded::start();
    let connect = || Mount::connect(&origin.options(VERSION)).unwrap();
    let mut mounts = [connect(), connect()];
    let dir = mounts[0].mkdir(mounts[0].root(), "shared").unwrap();
    for round in 0..ROUNDS {
        let name = format!("file{round}");
        let [one, other] = &mut mounts;
        let (maker, user) = if round % 2 == 0 { (one, other) } else { (other, one) };
        let made = maker.create(dir, &name).unwrap();
        maker.write(made, 0, &[7; 5000], StableHow::FileSync).unwrap();
        let found = user.lookup(dir, &name).unwrap();
        user.read(found, 0, 5000).unwrap();
        user.remove(dir, &name).unwrap();
        // It fails as long as the other client has not created the next one.
        assert!(user.lookup(dir, &format!("file{}", round + 1)).is_err());
    }
    origin.trace()
}

/// One host's share of a replay, ready to start.
struct Host {
    plan: ReplayPlan,
    files: Files,
    clients: Clients<'static>,
}

impl Host {
    fn open(replayer: &mut Replayer<'static>, trace: &[u8], built: &Files, host: u32) -> Self {
        let settings = whole_trace(TargetKind::Nfs(VERSION), replayer.transfer_bytes());
        let mut plan = ReplayPlan::read(trace, &settings).unwrap();
        let division = Division::new(&plan.batch, 2);
        plan.keep_share(&division, host);
        let clients = replayer.open_clients(&plan).unwrap();
        let files = Files::with_handles(&plan, &built.handles());
        Self { plan, files, clients }
    }

    fn replay(mut self, pace: Pace, begin_ns: u64, exchange: &Exchange) -> ShareRecord {
        let awaited = self.plan.awaited();
        let exchange = Some(exchange);
        let course = BatchSchedule { pace, begin_ns: Some(begin_ns), exchange, awaited };
        self.clients.replay(&self.plan, &mut self.files, course).unwrap()
    }
}

/// Replays the shares of two hosts, each on a thread, and forwards the notices between them.
fn replay_both(hosts: [Host; 2], pace: Pace, begin_ns: u64) -> Vec<ShareRecord> {
    let [one, other] = [(); 2].map(|()| Exchange::open().unwrap());
    let carry = |from: Receiver<StepEnd>, to: NoticeSender| {
        for end in from {
            to.send(end);
        }
    };
    let [host, other_host] = hosts;
    std::thread::scope(|scope| {
        scope.spawn(move || carry(one.outgoing, other.incoming));
        scope.spawn(move || carry(other.outgoing, one.incoming));
        let exchange = one.exchange;
        let other_exchange = other.exchange;
        let first = scope.spawn(move || host.replay(pace, begin_ns, &exchange));
        let second = scope.spawn(move || other_host.replay(pace, begin_ns, &other_exchange));
        vec![first.join().unwrap(), second.join().unwrap()]
    })
}

/// Returns the operations of each client, without those that build and remove the tree.
fn of_clients(trace: &[u8]) -> Vec<Vec<Row>> {
    let mut rows = rows(trace);
    rows.retain(|rows| rows.iter().any(|row| row.kind == "READ"));
    for rows in &mut rows {
        rows.retain(|row| matches!(row.kind, "CREATE" | "WRITE" | "READ" | "REMOVE"));
    }
    // The connections have no defined order.
    rows.sort_by_key(|rows| rows[0].kind);
    rows
}

fn check(pace: Pace) {
    let trace = captured();
    let target = Recorded::start();
    let clock: &'static SystemClock = Box::leak(Box::new(SystemClock::new()));
    let stop: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let mut replayer = Replayer::connect(&target.options(VERSION), clock, stop).unwrap();
    let settings = whole_trace(TargetKind::Nfs(VERSION), replayer.transfer_bytes());
    let mut plan = ReplayPlan::read(&trace[..], &settings).unwrap();
    let how = ReplaySettings { directory: "replayed".to_owned(), fill: Fill::Sparse };
    let built = replayer.prepare(&mut plan, &how).unwrap();
    let hosts = [0, 1].map(|host| Host::open(&mut replayer, &trace, &built, host));
    let shares = replay_both(hosts, pace, clock.now_ns() + 20_000_000);
    let named: Vec<_> = shares
        .into_iter()
        .zip(["h1", "h2"])
        .map(|(share, name)| HostShare { name: name.to_owned(), clock_error_ns: 0, share })
        .collect();
    let record = Record::from_shares(&plan, pace, TargetKind::Nfs(VERSION), named).unwrap();
    let outcome = record.outcome();
    for host in &outcome.hosts {
        // A host waits for each object that the other one creates or removes.
        assert!(host.clients == 1 && host.issued > ROUNDS && host.notices >= ROUNDS, "{host:?}");
    }
    assert!(outcome.is_faithful(), "{:?}", outcome.problems);
    assert_eq!((outcome.clients, outcome.ops), (2, plan.batch.steps.len() as u64));
    for kind in &outcome.kinds {
        assert_eq!(kind.missing_errors, 0, "{kind:?}");
    }
    replayer.remove("replayed").unwrap();
    replayer.disconnect().unwrap();
    assert!(of_clients(&target.trace()) == of_clients(&trace), "the traces differ");
}

#[test]
fn verifies_equal_plans_of_hosts() {
    let trace = captured();
    let settings = whole_trace(TargetKind::Nfs(VERSION), [1 << 20, 1 << 20]);
    let digest = |settings| ReplayPlan::read(&trace[..], &settings).unwrap().digest();
    assert_eq!(digest(settings), digest(settings));
    let other = whole_trace(TargetKind::Nfs(VERSION), [4096, 4096]);
    assert_ne!(digest(settings), digest(other));
}

#[test]
fn replays_turns_of_two_hosts() {
    check(Pace::Open { speed: 1.0 });
}

#[test]
fn keeps_order_across_two_hosts() {
    check(Pace::Closed);
}
