//! One kind of work with the figure of each contender, and how figures compare.
//!
//! Work is a pass with all factors but the system, and but for what differs between the contenders
//! and is no factor of any: that is named once, and keeps no figures apart.

use model::contender::{ContenderDifference, contender_of};
use model::{PassResult, RunSpec};

use crate::row::Row;
use crate::sheet::Sheet;

/// Beginnings of the names of disks that lie on others, whose bytes would be counted twice.
const ON_OTHERS: [&str; 5] = ["disk.loop", "disk.dm-", "disk.md", "disk.ram", "disk.zram"];

/// A pass with its factors, and the row of each contender.
pub struct Work<'a> {
    /// Name of the pass: `stream write`.
    pub pass: String,
    /// The factors beside the system: `workers 4`; often empty.
    pub factors: String,
    /// The row of each contender, in their order.
    pub rows: Vec<Option<&'a Row<'a>>>,
}

/// How a figure stands beside that of the baseline.
pub enum Standing {
    /// It is that of the baseline.
    Baseline,
    /// The ratio of the medians, and whether the 95 % intervals are apart.
    Ratio {
        /// Median of the contender divided by that of the baseline.
        ratio: f64,
        /// Whether both have three trials at least, and intervals that don't overlap.
        is_apart: bool,
        /// Whether both figures may be quoted.
        counts: bool,
    },
    /// One of the two has no figure.
    Missing,
}

/// Arranges the rows of a sheet by work and contender.
pub fn arrange<'a>(
    sheet: &'a Sheet<'a>,
    names: &[String],
    differences: &[ContenderDifference],
) -> Vec<Work<'a>> {
    let mut omitted = vec!["system_settings"];
    for difference in differences {
        if difference.is_single() {
            omitted.push(&difference.what);
        }
    }
    let mut works: Vec<Work<'a>> = Vec::new();
    for row in &sheet.rows {
        let (pass, factors) = (row.pass_name(), sheet.factors_without(row, &omitted));
        let name = contender_of(&row.run.spec);
        let Some(number) = names.iter().position(|known| *known == name) else { continue };
        let known = works.iter().position(|work| work.pass == pass && work.factors == factors);
        let at = known.unwrap_or(works.len());
        if known.is_none() {
            works.push(Work { pass, factors, rows: vec![None; names.len()] });
        }
        works[at].rows[number].get_or_insert(row);
    }
    works
}

impl Work<'_> {
    /// Its whole name: `stream write, workers 4`.
    pub fn name(&self) -> String {
        let comma = if self.factors.is_empty() { "" } else { ", " };
        format!("{}{comma}{}", self.pass, self.factors)
    }

    /// Compares the figure of a contender with that of the baseline.
    pub fn standing(&self, number: usize, baseline: usize) -> Standing {
        let (Some(own), Some(other)) = (self.rows[number], self.rows[baseline]) else {
            return Standing::Missing;
        };
        let (Some(rate), Some(base)) = (&own.judged.rate, &other.judged.rate) else {
            return Standing::Missing;
        };
        if number == baseline {
            return Standing::Baseline;
        }
        if base.median <= 0.0 {
            return Standing::Missing;
        }
        let is_apart = match (rate.confidence_interval(), base.confidence_interval()) {
            (Some((low, high)), Some((base_low, base_high))) => low > base_high || high < base_low,
            _ => false,
        };
        let ratio = rate.median / base.median;
        Standing::Ratio { ratio, is_apart, counts: own.counts() && other.counts() }
    }
}

/// Bytes that the server's host wrote to its disks for each byte of the user, over all trials;
/// `None` for passes that write no data, and where no disk of the host was watched.
pub fn written_per_byte(row: &Row<'_>) -> Option<f64> {
    let spec = &row.run.spec;
    if !row.judged.pass.writes_every_block() {
        return None;
    }
    let (mut user_bytes, mut disk_bytes, mut has_disk) = (0, 0, false);
    for pass in row.run.trials.iter().flat_map(|trial| &trial.passes) {
        if pass.pass != row.judged.pass {
            continue;
        }
        if let Some(written) = written_by_server(spec, pass) {
            has_disk = true;
            disk_bytes += written;
            user_bytes += pass.kinds.iter().map(|kind| kind.bytes).sum::<u64>();
        }
    }
    if has_disk && user_bytes > 0 { Some(disk_bytes as f64 / user_bytes as f64) } else { None }
}

/// Bytes that the disks of the server's host wrote during a pass.
fn written_by_server(spec: &RunSpec, pass: &PassResult) -> Option<u64> {
    let server = &spec.lab.as_ref()?.server.name;
    let telemetry = pass.telemetry.iter().find(|telemetry| telemetry.host == *server)?;
    let mut written = None;
    for metric in &telemetry.metrics {
        let is_real = !ON_OTHERS.iter().any(|start| metric.name.starts_with(start));
        if is_real && metric.name.starts_with("disk.") && metric.name.ends_with(".write_bytes") {
            written = Some(written.unwrap_or(0) + metric.risen());
        }
    }
    written
}
