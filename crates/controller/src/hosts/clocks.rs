//! Local clocks and clock samples of other hosts.
//!
//! Clocks keep drifting after a sample, so they are read again if the last sample is too old.

use fleet::clock::{self, Drift, Exchanges, Sample};
use fleet::{ClockReading, request};

use super::Hosts;

impl Hosts<'_> {
    /// Returns the local monotonic clock, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.read().mono_ns
    }

    /// Reads the local clocks.
    pub(crate) fn read(&self) -> ClockReading {
        (self.read_clocks)()
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
        drift.go_on(sample);
    }

    /// Returns the drift of a host's clock, taking a new sample if the last one is too old.
    ///
    /// # Errors
    /// If the host is lost.
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
    ///
    /// # Errors
    /// If the host is lost.
    fn sample_clock(&mut self, host: &str) -> Result<Sample, String> {
        let mut exchanges = self.exchanges(host);
        loop {
            let sent = (self.read_clocks)();
            let there = self.ask(host, request::clock())?;
            let is_enough = exchanges.add(Sample::of(sent, there, (self.read_clocks)()));
            if is_enough && let Some(best) = exchanges.best() {
                return Ok(best);
            }
        }
    }
}
