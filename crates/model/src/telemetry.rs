//! The telemetry of hosts during a pass: counters and gauges, before, each second and after.
//!
//! A metric's name says what it is, of what, and its unit: `cpu.user_ns`, `disk.vda.read_bytes`,
//! `nfs./mnt.READ.ops`. Counters are kept as they were read, so that any difference can be taken
//! from them; what did not move in the whole pass is left out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The telemetry of one host during one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Telemetry {
    /// Name of the host.
    pub host: String,
    /// When it was read, in nanoseconds since the first reading.
    pub times_ns: Vec<u64>,
    /// The metrics, with a value for each time.
    pub metrics: Vec<Metric>,
}

/// One series of readings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Its name, unit last.
    pub name: String,
    /// How values are read.
    pub kind: MetricKind,
    /// One for each time.
    pub values: Vec<u64>,
}

/// How the values of a metric are read.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// It only rises: differences count.
    Counter,
    /// It is what it is.
    Gauge,
}

impl MetricKind {
    /// Names it as exports do.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

impl Metric {
    /// By how much a counter rose from the first reading to the last.
    ///
    /// One that was set back, as by a new mount, counts from zero again.
    pub fn risen(&self) -> u64 {
        let mut risen = 0;
        for pair in self.values.windows(2) {
            // A counter that fell began again: what it shows then is what it rose since.
            risen += if pair[1] < pair[0] { pair[1] } else { pair[1] - pair[0] };
        }
        risen
    }
}

impl Telemetry {
    /// Finds a metric by its name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// By how much a counter rose; 0 for one that did not move, which is not kept.
    pub fn risen(&self, name: &str) -> u64 {
        match self.metric(name) {
            Some(metric) => metric.risen(),
            None => 0,
        }
    }

    /// From the first reading to the last, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.times_ns.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_set_back_counts_on() {
        let metric = |values: &[u64]| Metric {
            name: "n".to_owned(),
            kind: MetricKind::Counter,
            values: values.to_vec(),
        };
        assert_eq!(metric(&[5, 7, 9]).risen(), 4);
        assert_eq!(metric(&[100, 3, 4]).risen(), 4);
        assert_eq!((metric(&[5]).risen(), metric(&[]).risen()), (0, 0));
        let telemetry = Telemetry { metrics: vec![metric(&[1, 2])], ..Telemetry::default() };
        assert_eq!((telemetry.risen("n"), telemetry.risen("none"), telemetry.span_ns()), (1, 0, 0));
    }
}

/// A disk or network of a host that was at work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusyDevice {
    /// Its kind and name, such as `disk vda`.
    pub name: String,
    /// Bytes that it moved each second, in both directions.
    pub bytes_per_s: u64,
}

impl BusyDevice {
    /// The most that a disk or network may move to count as quiet, in bytes a second: less than a
    /// hundredth of what any does at work, more than logs and ssh.
    pub const QUIET_BYTES_PER_S: u64 = 1_000_000;
}
