//! Telemetry of hosts: counters and gauges before, every second during, and after a pass.
//!
//! A metric's name contains the quantity, the object and the unit: `cpu.user_ns`,
//! `disk.vda.read_bytes`, `nfs./mnt.READ.ops`. Counters are stored as read, so that any difference
//! can be computed. Metrics that didn't change during the whole pass are omitted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The telemetry of one host during one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Telemetry {
    /// Name of the host.
    pub host: String,
    /// Times of the readings, in nanoseconds since the first one.
    pub times_ns: Vec<u64>,
    /// The metrics, with a value for each time.
    pub metrics: Vec<Metric>,
}

/// One series of readings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Its name, unit last.
    pub name: String,
    /// How to interpret the values.
    pub kind: MetricKind,
    /// One value for each reading.
    pub values: Vec<u64>,
}

/// How to interpret the values of a metric.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// It only increases, so differences matter.
    Counter,
    /// The value itself matters.
    Gauge,
}

impl MetricKind {
    /// Returns the name used in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

impl Metric {
    /// Returns the increase of a counter from the first reading to the last.
    ///
    /// A counter that is reset, for example by a new mount, continues from zero.
    pub fn increase(&self) -> u64 {
        let mut risen = 0;
        for pair in self.values.windows(2) {
            // A counter that decreased was reset, so its value is the increase since then.
            risen += if pair[1] < pair[0] { pair[1] } else { pair[1] - pair[0] };
        }
        risen
    }
}

impl Telemetry {
    /// Finds a metric by name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Returns the increase of a counter, or 0 if it didn't change and is therefore missing.
    pub fn increase(&self, name: &str) -> u64 {
        self.metric(name).map_or(0, Metric::increase)
    }

    /// Returns the time from the first reading to the last, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.times_ns.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_on_after_counter_reset() {
        let metric = |values: &[u64]| Metric {
            name: "n".to_owned(),
            kind: MetricKind::Counter,
            values: values.to_vec(),
        };
        assert_eq!(metric(&[5, 7, 9]).increase(), 4);
        assert_eq!(metric(&[100, 3, 4]).increase(), 4);
        assert_eq!((metric(&[5]).increase(), metric(&[]).increase()), (0, 0));
        let telemetry = Telemetry { metrics: vec![metric(&[1, 2])], ..Telemetry::default() };
        assert_eq!(
            (telemetry.increase("n"), telemetry.increase("none"), telemetry.span_ns()),
            (1, 0, 0)
        );
    }
}

/// A busy disk or network of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusyDevice {
    /// Kind and name, such as `disk vda`.
    pub name: String,
    /// Bytes per second in both directions.
    pub bytes_per_s: u64,
}

impl BusyDevice {
    /// Maximum rate of an idle disk or network, in bytes per second. This is less than a hundredth
    /// of the rate of any busy one, but more than logs and ssh cause.
    pub const QUIET_BYTES_PER_S: u64 = 1_000_000;
}
