//! Local clocks and clock samples of other hosts.
//!
//! Clocks keep drifting after a sample, so they are read again if the last sample is too old.

use std::time::Duration;

use fleet::clock::{self, Drift, Exchanges, Sample};
use fleet::{ClockReading, Wakeup, request};

use super::Hosts;

/// Maximum time to wait for agents before the stop flag and silent agents are checked again.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// The clocks of the controller's host. Tests simulate them, and the time that passes while the
/// controller waits.
pub trait LocalClock {
    fn read(&self) -> ClockReading;

    /// Waits until the wakeup signals that an agent may have sent something, for at most 100 ms.
    fn wait(&self, wakeup: &Wakeup) {
        wakeup.wait(WAIT_MAX);
    }
}

impl<F: Fn() -> ClockReading> LocalClock for F {
    fn read(&self) -> ClockReading {
        self()
    }
}

impl Hosts<'_> {
    /// Returns the local monotonic clock, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.read().mono_ns
    }

    /// Reads the local clocks.
    pub(crate) fn read(&self) -> ClockReading {
        self.clock.read()
    }

    /// Returns the wall-clock time in milliseconds since 1970 UTC.
    pub(crate) fn now_unix_ms(&self) -> u64 {
        self.read().wall_ns / 1_000_000
    }

    /// Returns the latest sample of a host's clocks.
    pub(crate) fn latest_clock(&self, host: &str) -> Option<Sample> {
        Some(self.clocks.get(host)?.last())
    }

    /// Starts the exchanges for a host's next sample.
    pub(crate) fn exchanges(&self, host: &str) -> Exchanges {
        Exchanges::with(self.clocks.get(host))
    }

    /// Records a sample of a host's clocks.
    pub(crate) fn note_clock(&mut self, host: &str, sample: Sample) {
        let drift = self.clocks.entry(host.to_owned()).or_insert_with(|| Drift::begin(sample));
        drift.add_sample(sample);
    }

    /// Returns the drift of a host's clock, taking a new sample if the last one is too old.
    pub(crate) fn drift(&mut self, host: &str) -> Result<Drift, String> {
        let oldest_ns = self.now_ns().saturating_sub(clock::FRESH_NS);
        if let Some(drift) = self.clocks.get(host)
            && drift.is_known_since(oldest_ns)
        {
            return Ok(*drift);
        }
        let sample = self.sample_clock(host)?;
        self.note_clock(host, sample);
        Ok(self.clocks[host])
    }

    /// Takes a sample of a host's clocks.
    fn sample_clock(&mut self, host: &str) -> Result<Sample, String> {
        let mut exchanges = self.exchanges(host);
        loop {
            let sent = self.read();
            let there = self.ask(host, request::clock())?;
            let is_enough = exchanges.add(Sample::new(sent, there, self.read()));
            if is_enough && let Some(best) = exchanges.best() {
                return Ok(best);
            }
        }
    }
}
