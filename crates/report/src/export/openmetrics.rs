//! Report as OpenMetrics text, for Prometheus and its textfile collector.
//!
//! There is one sample per row and metric. Labels name campaign, target, workload, pass, run and
//! factors. Times are in seconds and sizes in bytes, since the specification asks for base units.
//! Invalid results are left out; the verdict of their row says why. Only gauges and summaries are
//! used, which readers of the older Prometheus text format also understand.
//!
//! **Source:** OpenMetrics 1.0 (draft-richih-opsawg-openmetrics-00), 4.1 to 5.

use model::{Campaign, Histogram, TrialState, Verdict};

use super::prometheus_text::{Exposition, escape_label, labels, push_label};
use crate::table::{Row, Sheet};

/// Quantiles of the summaries; 1 is the maximum.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 1.0];

/// Gauge with one sample per row; `None` leaves the row out.
struct Gauge {
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    value: fn(&Row<'_>) -> Option<f64>,
}

/// Summary of times with quantiles for each row.
struct Times {
    name: &'static str,
    help: &'static str,
    times: for<'r> fn(&'r Row<'_>) -> &'r Histogram,
}

const GAUGES: [Gauge; 10] = [
    Gauge {
        name: "dfsbench_throughput_bytes_per_second",
        unit: "bytes_per_second",
        help: "Bytes moved per second over the whole window: median of the trials.",
        value: |row| Some(row.judged.bytes_per_s.as_ref()?.median),
    },
    Gauge {
        name: "dfsbench_throughput_low_bytes_per_second",
        unit: "bytes_per_second",
        help: "Lower end of the 95 % interval of the throughput.",
        value: |row| Some(row.judged.bytes_per_s.as_ref()?.confidence_interval()?.0),
    },
    Gauge {
        name: "dfsbench_throughput_high_bytes_per_second",
        unit: "bytes_per_second",
        help: "Upper end of the 95 % interval of the throughput.",
        value: |row| Some(row.judged.bytes_per_s.as_ref()?.confidence_interval()?.1),
    },
    Gauge {
        name: "dfsbench_rate_ops_per_second",
        unit: "ops_per_second",
        help: "Ops completed per second over the whole window: median of the trials.",
        value: |row| Some(row.judged.ops_per_s.as_ref()?.median),
    },
    Gauge {
        name: "dfsbench_rate_low_ops_per_second",
        unit: "ops_per_second",
        help: "Lower end of the 95 % interval of the rate.",
        value: |row| Some(row.judged.ops_per_s.as_ref()?.confidence_interval()?.0),
    },
    Gauge {
        name: "dfsbench_rate_high_ops_per_second",
        unit: "ops_per_second",
        help: "Upper end of the 95 % interval of the rate.",
        value: |row| Some(row.judged.ops_per_s.as_ref()?.confidence_interval()?.1),
    },
    Gauge {
        name: "dfsbench_offered_ops_per_second",
        unit: "ops_per_second",
        help: "Ops scheduled per second in an open loop: median of the trials.",
        value: |row| row.judged.offered_per_s,
    },
    Gauge {
        name: "dfsbench_client_cpu_ratio",
        unit: "ratio",
        help: "CPU time of the client divided by wall time; 1 is one core.",
        value: |row| Some(row.judged.cpu_percent? / 100.0),
    },
    Gauge {
        name: "dfsbench_common_window_ratio",
        unit: "ratio",
        help: "Share of the window in which all workers were busy: median of the trials.",
        value: |row| row.judged.common_window_share,
    },
    Gauge {
        name: "dfsbench_trials_behind_figures",
        unit: "",
        help: "Trials used for the figures.",
        value: |row| Some(f64::from(row.judged.trials_used)),
    },
];

const SUMMARIES: [Times; 2] = [
    Times {
        name: "dfsbench_service_time_seconds",
        help: "From sending an op to its completion, over all trials used for the figures.",
        times: |row| &row.judged.service_time,
    },
    Times {
        name: "dfsbench_response_time_seconds",
        help: "From the scheduled start of an op to its completion.",
        times: |row| &row.judged.response_time,
    },
];

/// Renders all families and the end marker.
pub(crate) fn render(sheet: &Sheet<'_>) -> String {
    let mut out = Exposition::default();
    write_campaign(&mut out, sheet);
    // The format requires all samples of a metric to be together, so iterate over the rows once for
    // each metric.
    let mut rows = Vec::new();
    let mut usable = Vec::new();
    for row in &sheet.rows {
        let labels = row_labels(sheet, row);
        if row.counts() {
            usable.push((row, labels.clone()));
        }
        rows.push((row, labels));
    }
    for gauge in &GAUGES {
        out.family(gauge.name, "gauge", gauge.unit, gauge.help);
        for (row, labels) in &usable {
            if let Some(value) = (gauge.value)(row) {
                out.sample(gauge.name, labels, value);
            }
        }
    }
    for summary in &SUMMARIES {
        out.family(summary.name, "summary", "seconds", summary.help);
        for (row, labels) in &usable {
            let times = (summary.times)(row);
            if times.count() == 0 {
                continue;
            }
            for q in QUANTILES {
                let labels = format!("{labels},quantile=\"{q:?}\"");
                let ns = if q < 1.0 { times.quantile(q) } else { times.max() };
                out.sample(summary.name, &labels, ns as f64 / 1e9);
            }
            out.sample(&format!("{}_count", summary.name), labels, times.count() as f64);
        }
    }
    write_caveats(&mut out, &rows);
    out.finish()
}

/// Writes the metrics of the campaign itself.
fn write_campaign(out: &mut Exposition, sheet: &Sheet<'_>) {
    let campaign = sheet.campaign;
    let state = campaign.state.name();
    let own = labels(&[("campaign", &campaign.id.to_string()), ("name", &campaign.name)]);
    out.family("dfsbench_campaign", "gauge", "", "A campaign; the value is always 1.");
    let version = escape_label(&campaign.tool_version);
    let seed = campaign.seed;
    let labels = format!("{own},state=\"{state}\",version=\"{version}\",seed=\"{seed}\"");
    out.sample("dfsbench_campaign", &labels, 1.0);
    let name = "dfsbench_campaign_started_seconds";
    out.family(name, "gauge", "seconds", "Start of the campaign, since 1970 UTC.");
    out.sample(name, &own, campaign.started_unix_ms as f64 / 1e3);
    write_trials(out, campaign, &own);
}

/// Counts trials by outcome; while a campaign is running, those stored so far.
fn write_trials(out: &mut Exposition, campaign: &Campaign, own: &str) {
    let [mut done, mut failed, mut interrupted] = [0_u32; 3];
    for run in &campaign.runs {
        for trial in &run.trials {
            match trial.state {
                TrialState::Done => done += 1,
                TrialState::Failed(_) => failed += 1,
                TrialState::Interrupted => interrupted += 1,
            }
        }
    }
    let name = "dfsbench_campaign_trials";
    out.family(name, "gauge", "", "Finished trials by state.");
    for (state, count) in [("done", done), ("failed", failed), ("interrupted", interrupted)] {
        out.sample(name, &format!("{own},state=\"{state}\""), f64::from(count));
    }
    let name = "dfsbench_campaign_runs";
    out.family(name, "gauge", "", "Runs with at least one trial.");
    out.sample(name, own, campaign.runs.iter().filter(|run| !run.trials.is_empty()).count() as f64);
}

/// Writes verdicts and caveats, including those of rows without a result.
fn write_caveats(out: &mut Exposition, rows: &[(&Row<'_>, String)]) {
    let name = "dfsbench_verdict";
    out.family(name, "gauge", "", "1 for the verdict of a row, 0 for the others.");
    for (row, labels) in rows {
        for verdict in [Verdict::Valid, Verdict::Degraded, Verdict::Invalid] {
            let labels = format!("{labels},verdict=\"{}\"", verdict.name());
            out.sample(name, &labels, f64::from(u8::from(row.judged.verdict == verdict)));
        }
    }
    let name = "dfsbench_caveat";
    out.family(name, "gauge", "", "1 for each caveat of a row.");
    for (row, labels) in rows {
        for caveat in &row.judged.caveats {
            if caveat.is_minor() {
                continue;
            }
            let labels = format!("{labels},caveat=\"{}\"", caveat.code.code());
            out.sample(name, &labels, 1.0);
        }
    }
}

/// Formats the labels that identify a row.
fn row_labels(sheet: &Sheet<'_>, row: &Row<'_>) -> String {
    let mut labels = String::new();
    for (name, value) in sheet.identify(row) {
        push_label(&mut labels, &label_name(&name), &value);
    }
    labels
}

/// Converts a name to a valid label name of letters, digits and underscores.
fn label_name(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}
