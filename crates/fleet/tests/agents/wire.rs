//! Messages as bytes: encoded and decoded, truncated anywhere, and any bytes from a hostile peer.

use std::io::{self, Cursor, Read};

use fleet::wire::{self, FRAME_BYTES_MAX, Greeting, Message, PROTOCOL, WireError};
use fleet::{Assignment, JournalLocation, KindTotals, Order, PassEnd, Report};
use model::{
    Action, CaveatCode, ClientRecord, Completion, Histogram, KindResult, NfsTarget, Op, OpError,
    OpKind, Outcome, Pass, PassResult, RunSpec, Share, Span, Target, Telemetry, TimelinePoint,
    Work, Workload, action,
};
use proptest::prelude::*;

/// Returns a few bytes at a time, like a pipe.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.1.min(buffer.len());
        self.0.read(&mut buffer[..len])
    }
}

fn bytes_of<T: serde::Serialize>(message: &Message<T>) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::write(&mut bytes, message).unwrap();
    bytes
}

fn a_trial() -> Order {
    let mut spec = RunSpec::null(Workload::Stream);
    spec.target = Target::Nfs(NfsTarget::new("server", "/export"));
    Order::Begin(Box::new(Assignment {
        spec,
        seed: 7,
        schedule_seed: 8,
        work_name: ".w".into(),
        keep: true,
        share: Share { first: 2, count: 2 },
        joins: true,
        journal: JournalLocation::default(),
    }))
}

fn a_pass(times: &[u64]) -> Report {
    let mut service_time = Histogram::new();
    let mut record = ClientRecord::default();
    for &time_ns in times {
        service_time.record(time_ns);
        let kind = OpKind::Write;
        let op = Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 10, file: 0, kind };
        let outcome = Outcome::Done(10);
        record.ended(&Completion { op, sent_ns: 0, done_ns: time_ns, outcome });
    }
    let done = times.len() as u64;
    let kind = KindResult {
        kind: OpKind::Write,
        issued: done + 1,
        done,
        bytes: 10 * done,
        errors: vec![(OpError::LOST, 1)],
        response_time: service_time.clone(),
        service_time,
    };
    let result = PassResult {
        window_ns: 1,
        common_window_ns: 2,
        first_done_ops: 3,
        first_done_bytes: 4,
        first_done_ns: 5,
        start_skew_ns: 6,
        client_cpu_ns: 7,
        server_cpu_ns: Some(8),
        kinds: vec![kind],
        clients: vec![record.finish(3)],
        telemetry: vec![Telemetry { host: "h".into(), times_ns: vec![0, 9], metrics: Vec::new() }],
        caveats: vec![CaveatCode::Errors.because("one")],
        ..PassResult::new(Pass::Write)
    };
    let at = |at_ns| TimelinePoint { at_ns, done: Work { ops: at_ns, bytes: at_ns } };
    Report::Ran(Box::new(PassEnd {
        result,
        facts: Vec::new(),
        broken: None,
        span: Span { first_start_ns: 1, last_start_ns: 2, first_end_ns: 3, last_end_ns: 4 },
        timeline: (0..5).map(at).collect(),
    }))
}

#[test]
fn delivers_specs_and_actions_unchanged() {
    let action = Action::Sysctl(action::Sysctl {
        name: "net.core.rmem_max".into(),
        value: "4 096\n".into(),
    });
    let share = Share { first: 3, count: 1 };
    let done = KindTotals { kind: OpKind::Write, ops: 1, bytes: 2, failed: 3 };
    let orders = [
        a_trial(),
        Order::Apply(Box::new(action)),
        Order::Arm { pass: Pass::Read, share },
        Order::Go { start_ns: 1 << 60 },
        Order::Account { others: vec![done] },
        Order::End { inherits: true },
    ];
    for order in orders {
        let bytes = bytes_of(&Message::Payload(order.clone()));
        let read = wire::read(&mut Cursor::new(bytes)).unwrap();
        assert_eq!(read, Some(Message::Payload(order)));
    }
}

#[test]
fn sends_pass_compactly() {
    let times: Vec<u64> = (1..100_000).collect();
    let bytes = bytes_of(&Message::Payload(a_pass(&times)));
    assert!(bytes.len() < 8_192, "{} bytes", bytes.len());
}

#[test]
fn rejects_frame_of_4_gib() {
    // The following bytes would be read if the length were trusted.
    let mut input = Cursor::new([0xff_u8; 64]);
    insta::assert_snapshot!(
        wire::read::<Order>(&mut input).unwrap_err(),
        @"received a message of 4294967295 bytes; the limit is 67108864"
    );
    assert_eq!(input.position(), 4);
    // The longest allowed frame ends where the bytes end.
    let mut bytes = FRAME_BYTES_MAX.to_be_bytes().to_vec();
    bytes.extend([0; 9]);
    insta::assert_snapshot!(
        wire::read::<Order>(&mut Cursor::new(bytes)).unwrap_err(),
        @"the connection was closed in the middle of a message"
    );
}

#[test]
fn names_versions_and_quotes_strangers() {
    let greet = |bytes: &[u8]| Greeting::expect(&mut Pieces(bytes, 1));
    assert!(greet(&Greeting::own().to_bytes()).is_ok());
    let theirs = Greeting { protocol: PROTOCOL + 1, version: "9.9.9".into() };
    let ours = Greeting::own();
    let message = greet(&theirs.to_bytes()).unwrap_err().to_string();
    let message = message.replace(&theirs.to_string(), "[theirs]");
    insta::assert_snapshot!(
        message.replace(&ours.to_string(), "[ours]"),
        @"it runs dfsbench [theirs], but this is dfsbench [ours]"
    );
    // A version that only looks the same when printed is a different one, too.
    let mut alike = ours.to_bytes();
    let dot = alike.iter().rposition(|byte| *byte == b'.').unwrap();
    alike[dot] = 0x0e;
    assert!(matches!(greet(&alike), Err(WireError::Version { .. })));
    let of_text = |text: &str| Greeting::expect(&mut text.as_bytes()).unwrap_err();
    let welcome = of_text("DFSB welcomes you\nDFSBENCH");
    assert!(
        matches!(&welcome, WireError::NotDfsbench(message) if message == "DFSB welcomes you"),
        "{welcome}"
    );
    let cut = of_text("DFS");
    assert!(matches!(&cut, WireError::NotDfsbench(message) if message == "DFS"), "{cut}");
    assert!(matches!(of_text(""), WireError::Io(_)));
}

proptest! {
    #[test]
    fn frames_may_be_cut_anywhere(
        times in prop::collection::vec(any::<u64>(), 0..40),
        piece in 1_usize..40,
        whole in 0.0_f64..1.0,
    ) {
        let sent = [Message::Payload(a_pass(&times)), Message::Heartbeat, Message::Stop];
        let bytes: Vec<u8> = sent.iter().flat_map(bytes_of).collect();
        let mut input = Pieces(&bytes, piece);
        for message in sent {
            prop_assert_eq!(wire::read(&mut input).unwrap(), Some(message));
        }
        prop_assert_eq!(wire::read::<Report>(&mut input).unwrap(), None);
        // A stream that ends anywhere results in an end or an error, never in a message that wasn't
        // sent.
        let cut = (bytes.len() as f64 * whole) as usize;
        let mut input = Pieces(&bytes[..cut], piece);
        let read = std::iter::from_fn(|| wire::read::<Report>(&mut input).ok().flatten()).count();
        prop_assert!(read < 3);
    }

    #[test]
    fn any_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Greeting::expect(&mut bytes.as_slice());
        let _ = wire::read::<Report>(&mut bytes.as_slice());
        // As the body of a frame, and as the rest of a known message.
        let mut frame = (bytes.len() as u32).to_be_bytes().to_vec();
        frame.append(&mut bytes);
        let _ = wire::read::<Report>(&mut frame.as_slice());
        let _ = wire::read::<Order>(&mut frame.as_slice());
        frame[4..].iter_mut().take(1).for_each(|byte| *byte = 2);
        let _ = wire::read::<Report>(&mut frame.as_slice());
        let _ = wire::read::<Order>(&mut frame.as_slice());
    }
}
