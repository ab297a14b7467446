//! The measured path against a server that answers in many fragments, and against servers that
//! fall silent or close.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use nfs_client::{Connection, ConnectionError, ConnectionOptions, Mount, Scratch};
use nfs_proto::client::{Data, Operation, Outcome, PayloadRange, StartError};
use nfs_proto::nfs3::StableHow;

use crate::common::{Behaviour, content, file, start};

const WAIT: Duration = Duration::from_secs(5);

fn open(mount: &Mount, slots: usize, keep_payload: Option<u32>) -> Connection {
    let write_pool = Arc::from(content(0, 1 << 20));
    let options = ConnectionOptions {
        slots,
        write_pool,
        keep_payload,
        reconnect: false,
        ..ConnectionOptions::default()
    };
    Connection::open(mount, &options).unwrap()
}

/// A clock that advances by one with each reading.
fn ticks() -> impl Fn() -> u64 {
    let now = Cell::new(0);
    move || {
        now.set(now.get() + 1);
        now.get()
    }
}

#[test]
fn reassembles_fragmented_reads() {
    for fragment_max in [7, 1000, 65_532, usize::MAX] {
        let mut options = start(Behaviour::Fragments(fragment_max));
        // Thousands of small fragments take a while on a busy machine.
        options.timeout = Duration::from_secs(20);
        let mount = Mount::connect(&options).unwrap();
        let mut connection = open(&mount, 4, Some(1 << 20));
        let clock = ticks();
        let mut scratch = Scratch::new();
        let counts: &[u32] = if fragment_max < 1000 {
            &[0, 1, 65_536]
        } else {
            &[0, 1, 2, 3, 4, 100, 4_095, 65_536, 524_288, 1 << 20]
        };
        let mut ended = 0;
        for (tag, count) in counts.iter().enumerate() {
            let offset = tag as u64 * 1_000_003;
            let call = Operation::Read { file: &file(), offset, count: *count };
            connection.start(clock(), tag as u32, &call).unwrap();
            while connection.free_slots() == 0 || (tag + 1 == counts.len() && ended < counts.len())
            {
                ended += connection
                    .wait(&mut scratch, &clock, WAIT, &mut |event| {
                        let count = counts[event.tag as usize];
                        assert_eq!(event.result, Ok(Outcome::Read { count, eof: false }));
                        let offset = u64::from(event.tag) * 1_000_003;
                        assert!(event.payload == content(offset, count as usize), "{count} bytes");
                        assert!(event.started_ns < event.sent_ns);
                        assert!(event.sent_ns < event.done_ns);
                    })
                    .unwrap();
            }
        }
        let counters = connection.counters();
        let payload: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        assert_eq!((counters.calls_sent, counters.replies), (ended as u64, ended as u64));
        assert_eq!(counters.payload_bytes_in, payload);
    }
}

#[test]
fn counts_discarded_payload() {
    let mount = Mount::connect(&start(Behaviour::Fragments(65_532))).unwrap();
    let mut connection = open(&mount, 8, None);
    let clock = ticks();
    let mut scratch = Scratch::new();
    let mut started = 0;
    let mut ended = 0;
    let mut bytes = 0;
    while ended < 200 {
        while started < 200 {
            let count = [4_096, 1 << 20, 17, 131_072][started as usize % 4];
            let call = Operation::Read { file: &file(), offset: 0, count };
            match connection.start(clock(), started, &call) {
                Ok(()) => started += 1,
                Err(StartError::Busy) => break,
                Err(error) => panic!("{error}"),
            }
        }
        ended += connection
            .wait(&mut scratch, &clock, WAIT, &mut |event| {
                let Ok(Outcome::Read { count, .. }) = event.result else { panic!("{event:?}") };
                assert_eq!(count, [4_096, 1 << 20, 17, 131_072][event.tag as usize % 4]);
                bytes += u64::from(count);
            })
            .unwrap();
    }
    assert_eq!(bytes, 50 * (4_096 + (1 << 20) + 17 + 131_072));
    assert_eq!(connection.counters().payload_bytes_in, bytes);
    assert_eq!(connection.counters().replies, 200);
    assert_eq!(connection.in_flight(), 0);
}

#[test]
fn writes_leave_from_the_pool() {
    let mount = Mount::connect(&start(Behaviour::Fragments(100))).unwrap();
    let mut connection = open(&mount, 16, None);
    let clock = ticks();
    let mut scratch = Scratch::new();
    let mut started = 0_u32;
    let mut ended = 0;
    let mut bytes = 0_u64;
    while ended < 100 {
        while started < 100 {
            // The server has the same bytes at an offset as the pool.
            let payload = PayloadRange { start: started as usize * 1_009, len: started * 8_191 };
            let payload = PayloadRange { len: payload.len % 500_000, ..payload };
            let offset = payload.start as u64;
            let stable = StableHow::Unstable;
            let data = Data::Pool(payload);
            let write = Operation::Write { file: &file(), offset, stable, data };
            match connection.start(clock(), started, &write) {
                Ok(()) => (started, bytes) = (started + 1, bytes + u64::from(payload.len)),
                Err(StartError::Busy) => break,
                Err(error) => panic!("{error}"),
            }
        }
        ended += connection
            .wait(&mut scratch, &clock, WAIT, &mut |event| {
                let expected = event.tag * 8_191 % 500_000;
                let written = matches!(
                    event.result, Ok(Outcome::Written { count, .. }) if count == expected
                );
                assert!(written, "{event:?}");
            })
            .unwrap();
    }
    assert_eq!(connection.counters().payload_bytes_out, bytes);
    assert_eq!(connection.counters().calls_sent, 100);
}

#[test]
fn names_pending_calls_on_timeout() {
    let mount = Mount::connect(&start(Behaviour::SilentOnRead)).unwrap();
    let mut connection = open(&mount, 4, None);
    let clock = ticks();
    let mut scratch = Scratch::new();
    for tag in [7, 8] {
        let call = Operation::Read { file: &file(), offset: 0, count: 4_096 };
        connection.start(clock(), tag, &call).unwrap();
    }
    let ended =
        connection.wait(&mut scratch, &clock, Duration::from_millis(50), &mut |_| {}).unwrap();
    assert_eq!(ended, 0);
    assert!(connection.check_timeout(1_000, 1_000_000_000).is_ok());
    let error = connection.check_timeout(2_000_000_000, 1_000_000_000).unwrap_err();
    assert!(matches!(error, ConnectionError::CallTimedOut { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains(&mount.server().to_string()), "{message}");
    assert!(message.contains("READ (tag 7), READ (tag 8)"), "{message}");
    assert_eq!(error.pending().len(), 2);
}

#[test]
fn loses_server_closing_mid_reply() {
    for keep_payload in [None, Some(1 << 20)] {
        let mount = Mount::connect(&start(Behaviour::CloseInRead)).unwrap();
        let mut connection = open(&mount, 4, keep_payload);
        let clock = ticks();
        let mut scratch = Scratch::new();
        let call = Operation::Read { file: &file(), offset: 0, count: 1 << 20 };
        connection.start(clock(), 9, &call).unwrap();
        let error = loop {
            match connection.wait(&mut scratch, &clock, WAIT, &mut |event| panic!("{event:?}")) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ConnectionError::ConnectionLost { .. }), "{error}");
        assert!(error.to_string().contains("READ (tag 9)"), "{error}");
    }
}

#[test]
fn endless_empty_fragments_break_the_connection() {
    let mount = Mount::connect(&start(Behaviour::EmptyFragments)).unwrap();
    let mut connection = open(&mount, 4, None);
    let clock = ticks();
    let mut scratch = Scratch::new();
    let call = Operation::Read { file: &file(), offset: 0, count: 4_096 };
    connection.start(clock(), 9, &call).unwrap();
    let error = loop {
        match connection.wait(&mut scratch, &clock, WAIT, &mut |event| panic!("{event:?}")) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ConnectionError::Garbage { .. }), "{error}");
    assert!(connection.counters().fragments_in < 100, "{:?}", connection.counters());
}

#[test]
fn survives_flood_of_stray_replies() {
    let mount = Mount::connect(&start(Behaviour::EmptyRecords)).unwrap();
    let mut connection = open(&mount, 4, None);
    let clock = ticks();
    let mut scratch = Scratch::new();
    let call = Operation::Read { file: &file(), offset: 0, count: 4_096 };
    connection.start(clock(), 9, &call).unwrap();
    // Each wait returns although the socket never runs empty, and the timeout is detected.
    let mut before = 0;
    for _ in 0..2 {
        let ended = connection.wait(&mut scratch, &clock, WAIT, &mut |_| panic!("no reply"));
        assert_eq!(ended.unwrap(), 0);
        let strays = connection.counters().late_replies;
        assert!(strays > before, "{strays} after {before}");
        before = strays;
    }
    let error = connection.check_timeout(u64::MAX, 1_000_000_000).unwrap_err();
    assert!(matches!(error, ConnectionError::CallTimedOut { strays, .. } if strays > 0), "{error}");
}

#[test]
fn rejects_read_larger_than_slot() {
    let mount = Mount::connect(&start(Behaviour::Fragments(100))).unwrap();
    let mut connection = open(&mount, 1, Some(4_096));
    let call = Operation::Read { file: &file(), offset: 0, count: 4_097 };
    let error = connection.start(0, 0, &call).unwrap_err();
    assert_eq!(error, StartError::TooLarge { bytes: 4_097, max: 4_096 });
}
