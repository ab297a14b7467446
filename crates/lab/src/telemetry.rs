//! Collects this host's telemetry: reads its counters before a pass, every second, and after it.
//!
//! A [`Watch`] is a separate thread that sleeps between readings. It doesn't take any lock used by
//! the measured loop. A test checks its cost.

pub mod activity;
pub mod counters;
pub mod fuse;
mod host;
mod nfs;
pub mod processors;
mod record;
mod systems;

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use model::Telemetry;
use model::telemetry::MetricKind;

use record::Record;
use systems::Processes;

/// One value at the time of a reading.
pub(crate) struct Reading {
    pub(crate) name: String,
    pub(crate) kind: MetricKind,
    pub(crate) value: u64,
}

/// The values of a reading, in the order of their sources.
#[derive(Default)]
pub(crate) struct Readings(pub(crate) Vec<Reading>);

impl Readings {
    pub(crate) fn counter(&mut self, name: impl Into<String>, value: u64) {
        self.0.push(Reading { name: name.into(), kind: MetricKind::Counter, value });
    }

    pub(crate) fn gauge(&mut self, name: impl Into<String>, value: u64) {
        self.0.push(Reading { name: name.into(), kind: MetricKind::Gauge, value });
    }
}

/// Reads all counters of this host. Those it doesn't have are left out.
fn read_all(processes: &mut Processes) -> Readings {
    let mut readings = Readings::default();
    host::read(&mut readings);
    nfs::read(&mut readings);
    processes.read(&mut readings);
    readings
}

/// Computes the telemetry of NFS mounts from recorded texts of `/proc/self/mountstats`, taken one
/// second apart, oldest first.
pub fn parse_mountstats(texts: &[&str]) -> Telemetry {
    parse_texts(texts, nfs::read_mounts)
}

/// Computes the telemetry of the kernel's TLS like [`parse_mountstats`], from recorded texts of
/// `/proc/net/tls_stat`.
pub fn parse_tls_stat(texts: &[&str]) -> Telemetry {
    parse_texts(texts, nfs::read_tls)
}

fn parse_texts(texts: &[&str], read: fn(&mut Readings, &str)) -> Telemetry {
    let mut record = Record::default();
    for (second, text) in (0..).zip(texts) {
        let mut readings = Readings::default();
        read(&mut readings, text);
        record.add(Duration::from_secs(second), readings);
    }
    record.into_telemetry("")
}

/// A running telemetry thread.
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<Record>,
}

impl Watch {
    /// Takes the first reading and continues with one per `interval`. `now_ns` returns the current
    /// time.
    pub fn start(interval: Duration, now_ns: impl Fn() -> u64 + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        let started_ns = now_ns();
        let mut record = Record::default();
        let mut processes = Processes::find();
        record.add(Duration::ZERO, read_all(&mut processes));
        let thread = std::thread::spawn(move || {
            let mut scheduled = interval;
            loop {
                // Nothing is ever sent: the channel is closed to stop the thread.
                let pause = scheduled.saturating_sub(since(started_ns, now_ns()));
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
                record.add(since(started_ns, now_ns()), read_all(&mut processes));
                // Don't try to catch up after a late reading.
                scheduled = since(started_ns, now_ns()).max(scheduled) + interval;
            }
            record.add(since(started_ns, now_ns()), read_all(&mut processes));
            record
        });
        Self { stop, thread }
    }

    /// Takes the last reading and stops.
    ///
    /// # Panics
    /// If the reading thread panicked, which is a bug in this crate.
    pub fn stop(self, host: &str) -> Telemetry {
        drop(self.stop);
        match self.thread.join() {
            Ok(record) => {
                let mut telemetry = record.into_telemetry(host);
                let readings = telemetry.times_ns.len();
                telemetry.metrics.extend(nfs::read_delegations(readings));
                telemetry
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn since(started_ns: u64, now_ns: u64) -> Duration {
    Duration::from_nanos(now_ns.saturating_sub(started_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::counters;

    fn now_ns() -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[test]
    fn work_shows_up_each_interval() {
        let watch = Watch::start(Duration::from_millis(50), now_ns);
        let end_ns = now_ns() + 400_000_000;
        let mut x = 1_u64;
        while now_ns() < end_ns {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        std::hint::black_box(x);
        let seen = watch.stop("here");
        assert_eq!(seen.host, "here");
        assert!(seen.times_ns.len() >= 4, "{:?}", seen.times_ns);
        assert!(seen.times_ns.is_sorted() && seen.span_ns() >= 400_000_000);
        // 400 ms of one CPU, counted in ticks of 10 ms and shared with other programs. If the tests
        // run at a lower priority, the kernel counts it as `nice`.
        let user = seen.increase("cpu.user_ns") + seen.increase("cpu.nice_ns");
        let busy = user + seen.increase("cpu.system_ns");
        assert!(busy >= 100_000_000, "{busy}");
        assert!(seen.increase("kernel.context_switches") > 0);
        assert!(seen.metric("memory.available_bytes").is_some_and(|m| m.values[0] > 1 << 20));
        assert!(seen.metrics.iter().all(|metric| metric.values.len() == seen.times_ns.len()));
    }

    #[test]
    fn reads_within_half_percent_of_core() {
        let thread_id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut processes = Processes::find();
        read_all(&mut processes);
        let before = counters::thread_cpu_ns(thread_id).unwrap();
        for _ in 0..20 {
            std::hint::black_box(read_all(&mut processes).0.len());
        }
        let each_ns = (counters::thread_cpu_ns(thread_id).unwrap() - before) / 20;
        // At one reading per second, 5 ms is 0.5 % of a core. Unoptimized code is slower.
        let limit_ns = if cfg!(debug_assertions) { 20_000_000 } else { 5_000_000 };
        assert!(each_ns < limit_ns, "{each_ns} ns");
    }
}
