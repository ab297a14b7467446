//! Turns readings, one row per time, into one series per metric.
//!
//! A metric that is missing in any reading, for example because an interface was added later, gets
//! no series, since a gap would look like zero.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Telemetry;
use model::telemetry::{Metric, MetricKind};

use super::Readings;

/// Series under construction.
#[derive(Default)]
pub(super) struct Record {
    times_ns: Vec<u64>,
    series: BTreeMap<String, (MetricKind, Vec<u64>)>,
}

impl Record {
    /// Adds a reading.
    pub(super) fn add(&mut self, at: Duration, readings: Readings) {
        self.times_ns.push(at.as_nanos() as u64);
        let rows = self.times_ns.len();
        for reading in readings.0 {
            let series = self.series.entry(reading.name);
            let (_, values) = series.or_insert_with(|| (reading.kind, Vec::new()));
            // If a name occurs twice, for example for two mounts on one point, the last value is
            // used.
            values.truncate(rows - 1);
            values.push(reading.value);
        }
    }

    /// Keeps complete series. Counters that never changed are dropped.
    pub(super) fn into_telemetry(self, host: &str) -> Telemetry {
        let rows = self.times_ns.len();
        let mut metrics = Vec::new();
        for (name, (kind, values)) in self.series {
            let has_moved = values.iter().any(|value| *value != values[0]);
            // A constant gauge is still informative; a constant counter isn't.
            if values.len() == rows && (has_moved || kind == MetricKind::Gauge) {
                metrics.push(Metric { name, kind, values });
            }
        }
        Telemetry { host: host.to_owned(), metrics, times_ns: self.times_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omits_idle_counters_from_series() {
        let mut record = Record::default();
        let rows = [(1, 7, 3, Some(1)), (2, 7, 3, None), (4, 7, 3, Some(1))];
        for (at, (moving, still, gauge, late)) in rows.into_iter().enumerate() {
            let mut readings = Readings::default();
            readings.counter("moving", moving);
            readings.counter("still", still);
            readings.gauge("gauge", gauge);
            if let Some(late) = late {
                readings.gauge("gap", late);
            }
            record.add(Duration::from_nanos(at as u64), readings);
        }
        let telemetry = record.into_telemetry("h");
        let names: Vec<&str> = telemetry.metrics.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["gauge", "moving"]);
        assert_eq!((telemetry.increase("moving"), telemetry.times_ns), (3, vec![0, 1, 2]));
    }
}
