//! Doubts about mounts of the kernel's NFS client, from counters as it keeps them.

use agent::doubts::{IN_FLIGHT_MAX, about_mount};
use lab::mounts::Mount;
use model::{Histogram, KindResult, Metric, MetricKind, OpKind, Pass, PassResult, Telemetry};

fn telemetry(counters: &[(&str, u64)]) -> Telemetry {
    let metric = |(name, risen): &(&str, u64)| Metric {
        name: format!("nfs./mnt.{name}"),
        kind: MetricKind::Counter,
        values: vec![5, 5 + risen],
    };
    Telemetry {
        host: "client".to_owned(),
        times_ns: vec![0, 1],
        metrics: counters.iter().map(metric).collect(),
    }
}

fn codes((pass, kind): (Pass, OpKind), bytes: u64, counters: &[(&str, u64)]) -> Vec<&'static str> {
    let done = KindResult {
        kind,
        issued: 1,
        done: 1,
        bytes,
        errors: Vec::new(),
        service_time: Histogram::new(),
        response_time: Histogram::new(),
    };
    let result = PassResult {
        pass,
        kinds: vec![done],
        telemetry: vec![telemetry(counters)],
        ..crate::figures::result()
    };
    let mount = Mount {
        file_system: "nfs4".to_owned(),
        source: "server:/export".to_owned(),
        mount_point: "/mnt".to_owned(),
        options: String::new(),
        device: "0:1".into(),
        id: 1,
    };
    let local = Mount { file_system: "ext4".to_owned(), ..mount.clone() };
    assert!(about_mount(&result, Some(&local)).is_empty() && about_mount(&result, None).is_empty());
    about_mount(&result, Some(&mount)).iter().map(|caveat| caveat.code.code()).collect()
}

const READ: (Pass, OpKind) = (Pass::Read, OpKind::Read);
const STAT: (Pass, OpKind) = (Pass::Stat, OpKind::Stat);

#[test]
fn what_did_not_come_over_the_wire_was_cached() {
    assert_eq!(codes(READ, 100, &[("server_read_bytes", 100)]), [""; 0]);
    assert_eq!(codes(READ, 100, &[("server_read_bytes", 89)]), ["cached"]);
    assert_eq!(codes(READ, 100, &[]), ["cached"]);
    assert_eq!(codes(STAT, 0, &[("GETATTR.ops", 3)]), [""; 0]);
    assert_eq!(codes(STAT, 0, &[("READ.ops", 3)]), ["cached"]);
}

#[test]
fn calls_that_were_sent_again_are_told() {
    let wire = ("server_read_bytes", 100);
    let sent = |again| [wire, ("READ.ops", 10), ("READ.transmissions", 10 + again)];
    assert_eq!(codes(READ, 100, &sent(IN_FLIGHT_MAX)), [""; 0]);
    assert_eq!(codes(READ, 100, &sent(IN_FLIGHT_MAX + 1)), ["retransmits"]);
    let timed_out = [wire, ("READ.ops", 10), ("READ.major_timeouts", 1)];
    assert_eq!(codes(READ, 100, &timed_out), ["retransmits"]);
}
