//! Metrics of a running campaign: progress, rates of the last interval, and caveats.
//!
//! [`Live`] is a snapshot; [`Live::render`] writes it as OpenMetrics text. It only contains what
//! progress reports anyway, so nothing is measured for it, and the same state always gives the same
//! bytes. Metric families without samples still have a header, so that readers can discover all of
//! them at once.

use model::{CaveatCode, Pass};

use crate::export::prometheus_text::{Exposition, labels};

/// Snapshot of a running campaign.
#[derive(Debug, Default)]
pub struct Live {
    pub name: String,
    pub version: String,
    /// Number of planned trials; `None` if unknown.
    pub trials_planned: Option<usize>,
    /// Trials completed successfully.
    pub trials_done: usize,
    /// Trials that failed or were interrupted.
    pub trials_failed: usize,
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Ops in all intervals so far.
    pub ops: u64,
    /// Bytes in all intervals so far.
    pub bytes: u64,
    /// Pass that is running.
    pub current: Option<CurrentPass>,
    /// Current rate of each host, if there are several.
    pub hosts: Vec<HostRate>,
    /// Passes of the most recent trial.
    pub last_trial: Vec<TrialRate>,
    /// Caveats so far, with the number of passes that have each.
    pub caveats: Vec<(CaveatCode, usize)>,
}

/// Names that identify the work of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkNames {
    pub target: String,
    pub backend: &'static str,
    pub workload: &'static str,
}

/// Ops and bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveRate {
    pub ops_per_s: f64,
    pub bytes_per_s: f64,
}

impl LiveRate {
    /// Rate of an idle host.
    pub const ZERO: Self = Self { ops_per_s: 0.0, bytes_per_s: 0.0 };
}

/// Pass that is running.
#[derive(Clone, Debug)]
pub struct CurrentPass {
    pub work: WorkNames,
    pub pass: Pass,
    /// Rate of the last interval; `None` before the first.
    pub rate: Option<LiveRate>,
}

/// Current rate of a host.
#[derive(Clone, Debug)]
pub struct HostRate {
    pub host: String,
    /// Rate of its last interval.
    pub rate: LiveRate,
}

/// Pass of the most recent trial.
#[derive(Clone, Debug)]
pub struct TrialRate {
    pub work: WorkNames,
    pub pass: Pass,
    /// Rate over the whole window.
    pub rate: LiveRate,
    /// 99th percentile of the service times, in nanoseconds.
    pub service_time_p99_ns: u64,
}

impl Live {
    /// Renders the metrics, including the end marker.
    pub fn render(&self) -> String {
        let mut out = Exposition::default();
        let own = labels(&[("campaign_name", &self.name)]);
        self.write_progress(&mut out, &own);
        self.write_rates(&mut out, &own);
        self.write_last_trial(&mut out, &own);
        let name = "dfsbench_live_caveat_passes";
        out.family(name, "gauge", "", "Passes so far that have a caveat.");
        for (code, passes) in &self.caveats {
            let labels = labels(&[("caveat", code.code()), ("severity", code.severity().name())]);
            out.sample(name, &format!("{own},{labels}"), *passes as f64);
        }
        out.finish()
    }

    fn write_progress(&self, out: &mut Exposition, own: &str) {
        let name = "dfsbench_live_campaign";
        out.family(name, "gauge", "", "The running campaign; the value is always 1.");
        let version = labels(&[("version", &self.version)]);
        out.sample(name, &format!("{own},{version}"), 1.0);
        let name = "dfsbench_live_elapsed_seconds";
        out.family(name, "gauge", "seconds", "Time since the start of the campaign.");
        out.sample(name, own, self.elapsed_s);
        let name = "dfsbench_live_trials_planned";
        out.family(name, "gauge", "", "Maximum number of trials; absent if unknown.");
        if let Some(planned) = self.trials_planned {
            out.sample(name, own, planned as f64);
        }
        let name = "dfsbench_live_trials";
        out.family(name, "gauge", "", "Finished trials by state.");
        for (state, count) in [("done", self.trials_done), ("failed", self.trials_failed)] {
            out.sample(name, &format!("{own},state=\"{state}\""), count as f64);
        }
        let name = "dfsbench_live_ops";
        out.family(name, "counter", "", "Ops in all intervals since the start.");
        out.sample("dfsbench_live_ops_total", own, self.ops as f64);
        let name = "dfsbench_live_moved_bytes";
        out.family(name, "counter", "bytes", "Bytes in all intervals since the start.");
        out.sample("dfsbench_live_moved_bytes_total", own, self.bytes as f64);
    }

    /// Writes the rates of the last interval; absent while nothing is measured.
    fn write_rates(&self, out: &mut Exposition, own: &str) {
        let current = self.current.as_ref();
        let of_all = current.and_then(|current| current.rate);
        let of_pass = current.map(|current| work_labels(&current.work, current.pass));
        for figure in RATES {
            let name = format!("dfsbench_live_{}", figure.end);
            out.family(&name, "gauge", figure.end, figure.help);
            if let (Some(rate), Some(labels)) = (of_all, &of_pass) {
                out.sample(&name, &format!("{own},{labels}"), (figure.value)(rate));
            }
            let name = format!("dfsbench_live_host_{}", figure.end);
            out.family(&name, "gauge", figure.end, figure.help_of_host);
            for HostRate { host, rate } in &self.hosts {
                let labels = labels(&[("host", host)]);
                out.sample(&name, &format!("{own},{labels}"), (figure.value)(*rate));
            }
        }
    }

    fn write_last_trial(&self, out: &mut Exposition, own: &str) {
        for figure in RATES {
            let name = format!("dfsbench_live_last_trial_{}", figure.end);
            out.family(&name, "gauge", figure.end, figure.help_of_trial);
            for trial in &self.last_trial {
                let labels = work_labels(&trial.work, trial.pass);
                out.sample(&name, &format!("{own},{labels}"), (figure.value)(trial.rate));
            }
        }
        let name = "dfsbench_live_last_trial_service_time_p99_seconds";
        let help = "99th percentile of the service times of the last finished trial.";
        out.family(name, "gauge", "seconds", help);
        for trial in &self.last_trial {
            let labels = work_labels(&trial.work, trial.pass);
            let seconds = trial.service_time_p99_ns as f64 / 1e9;
            out.sample(name, &format!("{own},{labels}"), seconds);
        }
    }
}

/// Rate as a metric.
struct LiveMetric {
    end: &'static str,
    help: &'static str,
    help_of_host: &'static str,
    help_of_trial: &'static str,
    value: fn(LiveRate) -> f64,
}

const RATES: [LiveMetric; 2] = [
    LiveMetric {
        end: "bytes_per_second",
        help: "Bytes per second in the last interval of the current pass.",
        help_of_host: "Bytes per second of a host in its last interval.",
        help_of_trial: "Bytes per second over the whole window of the last finished trial.",
        value: |rate| rate.bytes_per_s,
    },
    LiveMetric {
        end: "ops_per_second",
        help: "Ops per second in the last interval of the current pass.",
        help_of_host: "Ops per second of a host in its last interval.",
        help_of_trial: "Ops per second over the whole window of the last finished trial.",
        value: |rate| rate.ops_per_s,
    },
];

fn work_labels(work: &WorkNames, pass: Pass) -> String {
    labels(&[
        ("target", &work.target),
        ("backend", work.backend),
        ("workload", work.workload),
        ("pass", pass.name()),
    ])
}
