//! An agent sends little while it works, however much it has to report.
#![allow(clippy::disallowed_methods, reason = "counts bytes over real time")]

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use fleet::wire::{self, Greeting, Message};
use fleet::{ClockReading, Report, stdio};
use model::IntervalSample;

/// Maximum traffic of both sides together, in bytes per second.
const BYTES_PER_S_MAX: u64 = 1_024;

/// A connection that counts its bytes.
struct CountingConnection(UnixStream, Arc<AtomicU64>);

impl Write for CountingConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.fetch_add(bytes.len() as u64, Relaxed);
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for CountingConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[test]
fn sends_progress_seldom_but_completely() {
    let (agent, mut controller) = UnixStream::pair().unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let output = CountingConnection(agent.try_clone().unwrap(), Arc::clone(&sent));
    let clocks = || ClockReading { mono_ns: 0, wall_ns: 0 };
    let end = stdio::agent_end(agent, output, clocks, <_>::default());
    controller.write_all(&Greeting::own().to_bytes()).unwrap();
    let seconds = 3;
    let working = thread::spawn(move || {
        // As often as a pass reports it, on a host that does a million ops between two reports.
        let begun = Instant::now();
        let mut ticks = 0;
        while begun.elapsed() < Duration::from_secs(seconds) {
            ticks += 1;
            let ops = 1_000_000;
            let bytes = 4_096_000_000;
            let at_ns = begun.elapsed().as_nanos() as u64;
            end.report(Report::Progress(IntervalSample { at_ns, ops, bytes }));
            thread::sleep(Duration::from_millis(100));
        }
        end.report(Report::Worked { done: Vec::new(), is_broken: false });
        (end, ticks)
    });
    let mut input = controller.try_clone().unwrap();
    Greeting::expect(&mut input).unwrap();
    let mut received = 0;
    let mut ops = 0;
    loop {
        match wire::read::<Report>(&mut input).unwrap() {
            Some(Message::Payload(Report::Progress(sample))) => {
                received += 1;
                ops += sample.ops;
            }
            Some(Message::Payload(report)) => {
                assert_eq!(report, Report::Worked { done: Vec::new(), is_broken: false });
                break;
            }
            Some(Message::Heartbeat) => {}
            other => panic!("{other:?}"),
        }
    }
    let (_end, ticks) = working.join().unwrap();
    // Nothing is omitted, and nothing follows the answer.
    assert_eq!(ops, ticks * 1_000_000);
    let most = seconds * 1_000 / stdio::PROGRESS_EVERY.as_millis() as u64 + 1;
    assert!(received <= most, "{received} times in {seconds} s");
    let bytes = sent.load(Relaxed);
    assert!(bytes < seconds * BYTES_PER_S_MAX / 4, "{bytes} bytes in {seconds} s");
}
