//! Metrics of a campaign while it runs: how far it is, the rate of the last interval, caveats.
//!
//! [`Live`] is what is known at an instant; [`Live::render`] writes it as OpenMetrics text. It
//! holds what progress has reported anyway: nothing is measured for it, and the same state gives
//! the same bytes. Families have a head also without a sample, so that a reader knows all of them
//! at once.

use model::{CaveatCode, Pass};

use crate::export::prometheus_text::{Exposition, labels};

/// A running campaign at an instant.
#[derive(Debug, Default)]
pub struct Live {
    /// Name of the plan.
    pub name: String,
    /// Version of dfsbench.
    pub version: String,
    /// Trials to make; `None` where their number isn't known.
    pub trials_planned: Option<usize>,
    /// Trials that ended well.
    pub trials_done: usize,
    /// Trials that failed or were interrupted.
    pub trials_failed: usize,
    /// Time since the start, in seconds.
    pub elapsed_s: f64,
    /// Ops of all intervals so far.
    pub ops: u64,
    /// Bytes of all intervals so far.
    pub bytes: u64,
    /// The pass that runs now.
    pub current: Option<CurrentPass>,
    /// The current rate of each host, where several work.
    pub hosts: Vec<HostRate>,
    /// Passes of the trial that ended last.
    pub last_trial: Vec<TrialRate>,
    /// Caveats so far, each with the number of passes that have it.
    pub caveats: Vec<(CaveatCode, usize)>,
}

/// The work of a run in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Name of the target.
    pub target: String,
    /// Name of the backend.
    pub backend: &'static str,
    /// Name of the workload.
    pub workload: &'static str,
}

/// Ops and bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveRate {
    /// Ops per second.
    pub ops_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

impl LiveRate {
    /// The rate of a host that does nothing.
    pub const ZERO: Self = Self { ops_per_s: 0.0, bytes_per_s: 0.0 };
}

/// A pass that runs now.
#[derive(Clone, Debug)]
pub struct CurrentPass {
    /// The work of its run.
    pub work: Work,
    /// Kind of the pass.
    pub pass: Pass,
    /// Rate of the last interval; `None` before the first.
    pub rate: Option<LiveRate>,
}

/// The current rate of a host.
#[derive(Clone, Debug)]
pub struct HostRate {
    /// Name of the host.
    pub host: String,
    /// Rate of its last interval.
    pub rate: LiveRate,
}

/// A pass of the trial that ended last.
#[derive(Clone, Debug)]
pub struct TrialRate {
    /// The work of its run.
    pub work: Work,
    /// Kind of the pass.
    pub pass: Pass,
    /// Rate over its whole window.
    pub rate: LiveRate,
    /// 99th percentile of its service times, in nanoseconds.
    pub service_time_p99_ns: u64,
}

impl Live {
    /// Writes the metrics, with the mark of the end.
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
        out.family(name, "gauge", "", "A campaign that runs; its value is always 1.");
        let version = labels(&[("version", &self.version)]);
        out.sample(name, &format!("{own},{version}"), 1.0);
        let name = "dfsbench_live_elapsed_seconds";
        out.family(name, "gauge", "seconds", "Time since the start of the campaign.");
        out.sample(name, own, self.elapsed_s);
        let name = "dfsbench_live_trials_planned";
        out.family(name, "gauge", "", "Trials to make, at most; none where it is not known.");
        if let Some(planned) = self.trials_planned {
            out.sample(name, own, planned as f64);
        }
        let name = "dfsbench_live_trials";
        out.family(name, "gauge", "", "Trials that have ended, by how they ended.");
        for (state, count) in [("done", self.trials_done), ("failed", self.trials_failed)] {
            out.sample(name, &format!("{own},state=\"{state}\""), count as f64);
        }
        let name = "dfsbench_live_ops";
        out.family(name, "counter", "", "Ops of all intervals since the start.");
        out.sample("dfsbench_live_ops_total", own, self.ops as f64);
        let name = "dfsbench_live_moved_bytes";
        out.family(name, "counter", "bytes", "Bytes of all intervals since the start.");
        out.sample("dfsbench_live_moved_bytes_total", own, self.bytes as f64);
    }

    /// Rates of the last interval; absent while nothing is measured.
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
        let help = "99th percentile of the service times of the trial that ended last.";
        out.family(name, "gauge", "seconds", help);
        for trial in &self.last_trial {
            let labels = work_labels(&trial.work, trial.pass);
            let seconds = trial.service_time_p99_ns as f64 / 1e9;
            out.sample(name, &format!("{own},{labels}"), seconds);
        }
    }
}

/// A rate as a metric.
struct Figure {
    end: &'static str,
    help: &'static str,
    help_of_host: &'static str,
    help_of_trial: &'static str,
    value: fn(LiveRate) -> f64,
}

const RATES: [Figure; 2] = [
    Figure {
        end: "bytes_per_second",
        help: "Bytes per second in the last interval of the current pass.",
        help_of_host: "Bytes per second of a host in its last interval.",
        help_of_trial: "Bytes per second over the whole window of the trial that ended last.",
        value: |rate| rate.bytes_per_s,
    },
    Figure {
        end: "ops_per_second",
        help: "Ops per second in the last interval of the current pass.",
        help_of_host: "Ops per second of a host in its last interval.",
        help_of_trial: "Ops per second over the whole window of the trial that ended last.",
        value: |rate| rate.ops_per_s,
    },
];

fn work_labels(work: &Work, pass: Pass) -> String {
    labels(&[
        ("target", &work.target),
        ("backend", work.backend),
        ("workload", work.workload),
        ("pass", pass.name()),
    ])
}
