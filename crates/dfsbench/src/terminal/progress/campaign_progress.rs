//! The state of a campaign as reported by its events, for display.
//!
//! [`CampaignProgress`] is the main type. It processes events and is independent of terminals.
//! Rates cover a tenth of a second each. Service times, CPU usage and retransmissions are only
//! known once a pass has finished, since workers are not interrupted before.

use std::collections::VecDeque;
use std::time::Duration;

use controller::Event;
use model::units::Nanos;
use model::{
    ClientResult, IntervalSample, Pass, PassResult, RunSpec, Telemetry, Trial, TrialState,
};
use plan::Plan;
use report::live::{CurrentPass, HostRate, Live, LiveRate, TrialRate, WorkNames};
use stats::{Rate, judge};

use super::caveats::ReportedCaveat;
use super::label::{Labels, RunLabel};

/// Maximum number of rates to keep: one minute.
const RATES_MAX: usize = 600;
/// Intervals shorter than this have no rate, in nanoseconds.
const INTERVAL_MIN_NS: u64 = 10_000_000;
/// Maximum number of finished trials to keep: more than a screen shows.
const ENDED_MAX: usize = 200;
/// Maximum number of failure reasons to remember.
const FAILURES_MAX: usize = 32;

/// The state of a campaign as reported so far.
#[derive(Debug, Default)]
pub(super) struct CampaignProgress {
    /// Name of the plan.
    pub name: String,
    /// Planned trials; 0 if the number is unknown.
    pub total: usize,
    /// Whether runs may get fewer trials than planned because they stop once they are accurate
    /// enough.
    pub may_end_early: bool,
    /// Position of the current or next trial in the order, from 0. Trials that are not needed, or
    /// that were run before a campaign was resumed, are skipped.
    pub position: usize,
    /// Trials finished by this process before the current one.
    pub made: usize,
    pub labels: Labels,
    /// Name of the current run.
    pub label: RunLabel,
    pub pass: Option<Pass>,
    /// Recent rates in the unit that matters for the pass, latest last.
    pub rates: VecDeque<f64>,
    /// Current ops and bytes per second.
    pub now: Option<LiveRate>,
    /// Current rate of each host, if there are several.
    pub hosts: Vec<HostProgress>,
    pub last: Option<FinishedPass>,
    /// Descriptions of the last finished trials.
    pub ended: VecDeque<String>,
    /// Number of failed trials.
    pub failed: usize,
    /// Why trials failed, once per reason.
    failures: Vec<FirstFailure>,
    /// Totals for metrics.
    totals: Totals,
    /// Caveats so far, once per code, in order of appearance.
    pub caveats: Vec<ReportedCaveat>,
    last_ns: u64,
}

/// Sums since the start and the latest results, for metrics.
#[derive(Debug, Default)]
struct Totals {
    /// Trials that succeeded.
    trials_done: usize,
    /// Trials that were interrupted.
    trials_interrupted: usize,
    /// Ops of all intervals.
    ops: u64,
    /// Bytes of all intervals.
    bytes: u64,
    /// Work of the current run.
    work: WorkNames,
    /// Passes of the last finished trial.
    last_trial: Vec<TrialRate>,
}

/// The first trial that failed for a given reason.
#[derive(Debug)]
struct FirstFailure {
    /// Number of the trial, from 1.
    number: usize,
    /// Work of its run.
    work: String,
    reason: String,
}

/// One of several hosts.
#[derive(Debug, Default)]
pub(super) struct HostProgress {
    pub host: String,
    /// Current rate; `None` before the first interval.
    pub now: Option<LiveRate>,
    last_ns: u64,
}

/// A finished pass.
#[derive(Debug)]
pub(super) struct FinishedPass {
    /// Label of the run and pass.
    pub what: String,
    /// Service times and resource usage: all hosts together first, then each host.
    pub hosts: Vec<Quantiles>,
    /// Description of its clients, if they were recorded separately.
    pub clients: Option<String>,
}

/// Service times of a pass, from sent to done, and the resources it used.
#[derive(Debug)]
pub(super) struct Quantiles {
    pub host: String,
    /// Median, p99 and maximum, in nanoseconds.
    pub times_ns: [u64; 3],
    /// CPU usage, in percent of all CPUs.
    pub busy_percent: Option<f64>,
    /// TCP segments that were retransmitted.
    pub retransmitted: Option<u64>,
}

impl CampaignProgress {
    /// Creates the state of a campaign that has not started.
    pub(super) fn new(plan: &Plan) -> Self {
        let adapts = |run: &RunSpec| run.repetition.until_permille > 0;
        Self {
            total: controller::steps(plan).len(),
            may_end_early: plan.budget_ms > 0 || plan.runs.iter().any(adapts),
            labels: Labels::from_plan(plan),
            ..Self::with_total(&plan.name, 0)
        }
    }

    /// Creates the state of a campaign with this many trials; 0 if the number is unknown.
    pub(super) fn with_total(name: &str, total: usize) -> Self {
        Self { name: name.to_owned(), total, ..Self::default() }
    }

    /// Handles an event, and returns how many of the last caveats are new.
    pub(super) fn handle_event(&mut self, event: &Event<'_>) -> usize {
        let known = self.caveats.len();
        match event {
            Event::TrialBegun { position, spec } => {
                self.position = *position;
                self.label = self.labels.label(spec);
                self.pass = None;
                // Repetitions of disturbed trials come after the planned trials.
                if self.total > 0 {
                    self.total = self.total.max(position + 1);
                }
                self.totals.work = work_of(spec);
                self.clear_rates();
            }
            Event::PassBegun(pass) => {
                self.pass = Some(*pass);
                self.clear_rates();
            }
            Event::Progress(sample) => self.sample(sample),
            Event::HostProgress { host, sample } => self.host(host, sample),
            Event::PassEnded(result) => {
                self.last = Some(FinishedPass::from_result(&self.label, result));
                self.clear_rates();
            }
            Event::TrialEnded { spec, trial } => self.trial(spec, trial),
            Event::DirectoryBegun { .. }
            | Event::DirectoryEnded { .. }
            | Event::RunGivenUp(_)
            | Event::Left(_) => {}
        }
        self.caveats.len() - known
    }

    /// Describes the current run and pass.
    pub(super) fn describe_work(&self) -> String {
        match self.pass {
            Some(pass) => self.label.with_pass(pass),
            None => self.label.to_string(),
        }
    }

    /// Returns the maximum number of trials of this process; `None` if unknown. Skipped trials
    /// don't count, so it decreases as runs turn out to need fewer.
    pub(super) fn most_trials(&self) -> Option<usize> {
        let ahead = self.total.saturating_sub(self.position);
        if self.total == 0 { None } else { Some(self.made + ahead) }
    }

    /// Returns the number of the current trial, from 1, or of the last one if none follows.
    pub(super) fn number(&self) -> usize {
        let next = self.made + 1;
        self.most_trials().map_or(next, |most| next.min(most))
    }

    /// Describes the number of the current trial: `3/12`, `81 of at most 182` if runs may end
    /// early, or `3` if the number of trials is unknown.
    pub(super) fn place(&self) -> String {
        self.place_with(" of at most ")
    }

    /// Like [`place`](Self::place), but shorter: `81/≤182`.
    pub(super) fn short_place(&self) -> String {
        self.place_with("/≤")
    }

    fn place_with(&self, at_most: &str) -> String {
        let number = self.number();
        match self.most_trials() {
            None => number.to_string(),
            Some(most) if self.may_end_early => format!("{number}{at_most}{most}"),
            Some(most) => format!("{number}/{most}"),
        }
    }

    /// Returns the current rate with its unit.
    pub(super) fn rate(&self) -> Option<Rate> {
        let pass = self.pass?;
        let per_s = self.rates.back()?;
        Some(Rate::of_ops(pass, *per_s))
    }

    /// Copies the data for metrics.
    pub(super) fn live(&self, elapsed: Duration) -> Live {
        let mut hosts = Vec::new();
        for HostProgress { host, now, .. } in &self.hosts {
            hosts.push(HostRate { host: host.clone(), rate: now.unwrap_or(LiveRate::ZERO) });
        }
        let work = self.totals.work.clone();
        Live {
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            trials_planned: if self.total > 0 { Some(self.total) } else { None },
            trials_done: self.totals.trials_done,
            trials_failed: self.failed + self.totals.trials_interrupted,
            elapsed_s: elapsed.as_secs_f64(),
            ops: self.totals.ops,
            bytes: self.totals.bytes,
            current: self.pass.map(|pass| CurrentPass { work, pass, rate: self.now }),
            hosts,
            last_trial: self.totals.last_trial.clone(),
            caveats: self.caveats.iter().map(|seen| (seen.code, seen.passes)).collect(),
        }
    }

    fn clear_rates(&mut self) {
        self.rates.clear();
        self.now = None;
        self.last_ns = 0;
        self.hosts.clear();
    }

    fn sample(&mut self, sample: &IntervalSample) {
        self.totals.ops = self.totals.ops.saturating_add(sample.ops);
        self.totals.bytes = self.totals.bytes.saturating_add(sample.bytes);
        let lasts_ns = sample.at_ns.saturating_sub(self.last_ns);
        self.last_ns = sample.at_ns;
        let Some(pass) = self.pass else { return };
        if lasts_ns < INTERVAL_MIN_NS {
            return;
        }
        let rate = per_s(sample, lasts_ns);
        self.now = Some(rate);
        if self.rates.len() == RATES_MAX {
            self.rates.pop_front();
        }
        self.rates.push_back(if pass.is_byte_rate() { rate.bytes_per_s } else { rate.ops_per_s });
    }

    fn host(&mut self, name: &str, sample: &IntervalSample) {
        let mut at = 0;
        while at < self.hosts.len() && self.hosts[at].host != name {
            at += 1;
        }
        if at == self.hosts.len() {
            self.hosts.push(HostProgress { host: name.to_owned(), ..HostProgress::default() });
        }
        let seen = &mut self.hosts[at];
        let lasts_ns = sample.at_ns.saturating_sub(seen.last_ns);
        seen.last_ns = sample.at_ns;
        if lasts_ns >= INTERVAL_MIN_NS {
            seen.now = Some(per_s(sample, lasts_ns));
        }
    }

    fn trial(&mut self, spec: &RunSpec, trial: &Trial) {
        self.clear_rates();
        let label = self.labels.label(spec);
        let figures = self.figures_of(label.work(), trial);
        self.made += 1;
        self.position += 1;
        match trial.state {
            TrialState::Done => self.totals.trials_done += 1,
            TrialState::Interrupted => self.totals.trials_interrupted += 1,
            TrialState::Failed(_) => self.failed += 1,
        }
        self.totals.last_trial = trial.passes.iter().map(|pass| trial_rate(spec, pass)).collect();
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(format!("{label}: {figures}"));
        let failure = match &trial.state {
            TrialState::Failed(reason) => reason,
            TrialState::Done | TrialState::Interrupted => "",
        };
        for pass in &trial.passes {
            for caveat in &pass.caveats {
                let known = self.caveats.iter_mut().find(|known| known.code == caveat.code);
                if let Some(known) = known {
                    known.passes += 1;
                    continue;
                }
                let place = label.with_pass(pass.pass);
                self.caveats.push(ReportedCaveat::new(caveat, place, &self.caveats, failure));
            }
        }
    }

    /// Describes the result of a trial. If an earlier trial failed for the same reason, that is not
    /// repeated: a dead server fails every trial in the same way.
    fn figures_of(&mut self, work: &str, trial: &Trial) -> String {
        let TrialState::Failed(reason) = &trial.state else { return trial_figures(trial) };
        for known in &self.failures {
            // Directory names and times differ from trial to trial, so ignore digits.
            let is_alike =
                known.work == work && without_digits(&known.reason) == without_digits(reason);
            if is_alike || known.reason == *reason {
                return format!("failed like trial {}", known.number);
            }
        }
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(FirstFailure {
                number: self.made + 1,
                work: work.to_owned(),
                reason: reason.clone(),
            });
        }
        trial_figures(trial)
    }
}

fn without_digits(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

impl FinishedPass {
    fn from_result(label: &RunLabel, result: &PassResult) -> Self {
        let times = result.service_time();
        let times_ns = [times.quantile(0.5), times.quantile(0.99), times.max()];
        let mut all = Quantiles::new("all", times_ns, None);
        if result.hosts.is_empty() {
            // A single host does all the work, so its CPU usage is that of the pass.
            all.add_telemetry(result.telemetry.first());
        }
        let mut hosts = vec![all];
        for host in &result.hosts {
            let telemetry = result.telemetry.iter().find(|telemetry| telemetry.host == host.host);
            let times = &host.times;
            let times_ns = [times.quantile(0.5), times.quantile(0.99), times.max()];
            hosts.push(Quantiles::new(&host.host, times_ns, telemetry));
        }
        Self { what: label.with_pass(result.pass), hosts, clients: describe_clients(result) }
    }
}

impl Quantiles {
    fn new(host: &str, times_ns: [u64; 3], telemetry: Option<&Telemetry>) -> Self {
        let mut quantiles =
            Self { host: host.to_owned(), times_ns, busy_percent: None, retransmitted: None };
        quantiles.add_telemetry(telemetry);
        quantiles
    }

    fn add_telemetry(&mut self, telemetry: Option<&Telemetry>) {
        if let Some(telemetry) = telemetry {
            self.busy_percent = report::busy_percent(telemetry);
            self.retransmitted = Some(telemetry.increase("tcp.segments_retransmitted"));
        }
    }
}

/// Describes the slowest and fastest client of a pass, if clients were recorded separately.
fn describe_clients(result: &PassResult) -> Option<String> {
    let slowest = result.clients.iter().min_by_key(|client| work_done(client, result.pass))?;
    let fastest = result.clients.iter().max_by_key(|client| work_done(client, result.pass))?;
    let count = result.clients.len();
    let [slowest, fastest] = [slowest, fastest].map(|client| describe_client(client, result));
    Some(format!("{count} clients: slowest {slowest}; fastest {fastest}"))
}

/// Returns the bytes or ops of a client, depending on the unit of the pass.
const fn work_done(client: &ClientResult, pass: Pass) -> u64 {
    if pass.is_byte_rate() { client.bytes } else { client.ops }
}

fn describe_client(client: &ClientResult, result: &PassResult) -> String {
    let per_s = work_done(client, result.pass) as f64 * 1e9 / result.window_ns.max(1) as f64;
    let p99 = Nanos(client.times.quantile(0.99));
    format!("{} with {} (p99 {p99})", client.client, Rate::of_ops(result.pass, per_s))
}

fn per_s(sample: &IntervalSample, lasts_ns: u64) -> LiveRate {
    let seconds = lasts_ns as f64 / 1e9;
    LiveRate { ops_per_s: sample.ops as f64 / seconds, bytes_per_s: sample.bytes as f64 / seconds }
}

fn work_of(spec: &RunSpec) -> WorkNames {
    WorkNames {
        target: spec.target_name.clone(),
        backend: spec.backend.name(),
        workload: spec.workload.name(),
    }
}

fn trial_rate(spec: &RunSpec, pass: &PassResult) -> TrialRate {
    let seconds = pass.window_ns.max(1) as f64 / 1e9;
    let rate = LiveRate {
        ops_per_s: pass.ops() as f64 / seconds,
        bytes_per_s: pass.bytes() as f64 / seconds,
    };
    let service_time_p99_ns = pass.service_time().quantile(0.99);
    TrialRate { work: work_of(spec), pass: pass.pass, rate, service_time_p99_ns }
}

/// Describes the result of a trial: its rates, or why there are none.
pub(crate) fn trial_figures(trial: &Trial) -> String {
    match &trial.state {
        TrialState::Done => trial.passes.iter().map(pass_figure).collect::<Vec<_>>().join(", "),
        TrialState::Failed(reason) => format!("failed: {reason}"),
        TrialState::Interrupted => "interrupted".to_owned(),
    }
}

fn pass_figure(pass: &PassResult) -> String {
    format!("{} {}", pass.pass.name(), judge::trial_rate(pass))
}

/// Plots rates as a line of at most this many columns, scaled to the highest rate. Rates that share
/// a column are averaged.
pub(super) fn sparkline(
    rates: impl ExactSizeIterator<Item = f64> + Clone,
    columns: usize,
) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let together = rates.len().div_ceil(columns.max(1)).max(1);
    let all: Vec<f64> = rates.collect();
    let mut means = Vec::new();
    let mut highest = 0.0_f64;
    for part in all.chunks(together) {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        highest = highest.max(mean);
        means.push(mean);
    }
    let mut line = String::new();
    for mean in means {
        let share = if highest > 0.0 { mean / highest } else { 0.0 };
        // The maximum itself would be one past the last character.
        line.push(STEPS[((share * STEPS.len() as f64) as usize).min(STEPS.len() - 1)]);
    }
    line
}

#[cfg(test)]
mod tests {
    use model::{BackendKind, Caveat, CaveatCode, Histogram, KindResult, OpKind, Workload};

    use super::*;
    use model::testing::RunBuilder;

    fn sample(at_ms: u64, ops: u64) -> IntervalSample {
        IntervalSample { at_ns: at_ms * 1_000_000, ops, bytes: ops * 1_000_000 }
    }

    fn spec() -> RunSpec {
        RunBuilder::new(Workload::Stream).backend(BackendKind::Null).build()
    }

    fn trial(caveats: Vec<Caveat>) -> Trial {
        let pass = PassResult { window_ns: 1_000_000_000, caveats, ..PassResult::new(Pass::Read) };
        let state = TrialState::Done;
        Trial {
            index: 0,
            position: 0,
            started_unix_ms: 0,
            state,
            passes: vec![pass],
            facts: Vec::new(),
        }
    }

    #[test]
    fn restarts_rates_with_each_pass() {
        let mut seen = CampaignProgress::with_total("quick", 3);
        seen.handle_event(&Event::PassBegun(Pass::Read));
        for (at_ms, ops) in [(100, 10), (200, 20), (200, 5), (300, 5)] {
            seen.handle_event(&Event::Progress(sample(at_ms, ops)));
        }
        assert_eq!(seen.rates, [100e6, 200e6, 50e6]);
        assert_eq!(seen.now, Some(LiveRate { ops_per_s: 50.0, bytes_per_s: 50e6 }));
        assert_eq!(seen.rate().unwrap().to_string(), "50.0 MB/s");
        let host = Event::HostProgress { host: "c1", sample: sample(500, 10) };
        seen.handle_event(&host);
        assert_eq!(seen.hosts[0].now, Some(LiveRate { ops_per_s: 20.0, bytes_per_s: 20e6 }));
        seen.handle_event(&Event::PassBegun(Pass::Write));
        assert!(seen.rates.is_empty() && seen.hosts.is_empty() && seen.rate().is_none());
    }

    #[test]
    fn shows_time_of_whole_passes() {
        let mut seen = CampaignProgress::with_total("developer", 3);
        seen.handle_event(&Event::PassBegun(Pass::Unpack));
        for (at_ms, ops) in [(100, 10), (200, 20)] {
            seen.handle_event(&Event::Progress(sample(at_ms, ops)));
        }
        assert_eq!(seen.rate().unwrap().to_string(), "200 op/s");
        let mut trial = trial(Vec::new());
        trial.passes[0].pass = Pass::Unpack;
        trial.passes[0].kinds.push(KindResult {
            kind: OpKind::Create,
            issued: 400,
            done: 400,
            bytes: 0,
            errors: Vec::new(),
            service_time: Histogram::sparse(),
            response_time: Histogram::sparse(),
        });
        assert_eq!(trial_figures(&trial), "unpack 1.00 s");
    }

    #[test]
    fn reports_sums_rate_and_last_trial() {
        let mut seen = CampaignProgress::with_total("quick", 3);
        let spec = spec();
        let trial = trial(vec![CaveatCode::Cached.because("50 %.")]);
        let idle = seen.live(Duration::from_secs(2)).render();
        assert!(idle.contains("trials_planned{campaign_name=\"quick\"} 3\n"), "{idle}");
        assert!(!idle.contains("dfsbench_live_bytes_per_second{"), "{idle}");
        seen.handle_event(&Event::TrialBegun { position: 0, spec: &spec });
        seen.handle_event(&Event::PassBegun(Pass::Read));
        for (at_ms, ops) in [(100, 10), (200, 20)] {
            seen.handle_event(&Event::Progress(sample(at_ms, ops)));
        }
        let now = seen.live(Duration::from_secs(3)).render();
        let labels = "campaign_name=\"quick\",target=\"null\",backend=\"null\",\
                      workload=\"stream\",pass=\"read\"";
        for line in [
            "dfsbench_live_ops_total{campaign_name=\"quick\"} 30\n".to_owned(),
            format!("dfsbench_live_bytes_per_second{{{labels}}} 200000000\n"),
            format!("dfsbench_live_ops_per_second{{{labels}}} 200\n"),
        ] {
            assert!(now.contains(&line), "{line} not in {now}");
        }
        seen.handle_event(&Event::TrialEnded { spec: &spec, trial: &trial });
        let ended = seen.live(Duration::from_secs(4)).render();
        for line in [
            "dfsbench_live_trials{campaign_name=\"quick\",state=\"done\"} 1\n",
            "dfsbench_live_caveat_passes{campaign_name=\"quick\",caveat=\"cached\",\
             severity=\"degraded\"} 1\n",
            &format!("dfsbench_live_last_trial_ops_per_second{{{labels}}} 0\n"),
        ] {
            assert!(ended.contains(line), "{line} not in {ended}");
        }
    }

    fn fail(seen: &mut CampaignProgress, reason: &str) -> String {
        let state = TrialState::Failed(reason.to_owned());
        let trial = Trial { state, passes: Vec::new(), ..trial(Vec::new()) };
        seen.handle_event(&Event::TrialEnded { spec: &spec(), trial: &trial });
        seen.ended.back().unwrap().clone()
    }

    #[test]
    fn gives_the_reason_of_failures_once() {
        let mut seen = CampaignProgress::with_total("quick", 3);
        let reason = "127.0.0.1:2049: refused after 10 ms";
        assert_eq!(fail(&mut seen, reason), format!("null stream: failed: {reason}"));
        let again = fail(&mut seen, "127.0.0.1:2049: refused after 11 ms");
        assert_eq!(again, "null stream: failed like trial 1");
        assert_eq!(fail(&mut seen, "no space"), "null stream: failed: no space");
        assert_eq!((seen.failed, seen.made), (3, 3));
    }

    #[test]
    fn counts_trials_that_are_made() {
        let mut seen = CampaignProgress::with_total("quick", 12);
        let spec = spec();
        let trial = trial(Vec::new());
        // The third and fourth trial were not needed.
        for (position, place) in [(0, "1/12"), (1, "2/12"), (4, "3/10"), (11, "4/4")] {
            seen.handle_event(&Event::TrialBegun { position, spec: &spec });
            assert_eq!(seen.place(), place);
            seen.handle_event(&Event::TrialEnded { spec: &spec, trial: &trial });
        }
        seen.may_end_early = true;
        seen.handle_event(&Event::TrialBegun { position: 11, spec: &spec });
        assert_eq!([seen.place(), seen.short_place()], ["5 of at most 5", "5/≤5"]);
        seen.handle_event(&Event::TrialEnded { spec: &spec, trial: &trial });
        assert_eq!(seen.place(), "5 of at most 5");
        seen.total = 0;
        assert_eq!(seen.place(), "6");
    }

    #[test]
    fn each_caveat_is_new_once() {
        let mut seen = CampaignProgress::with_total("quick", 3);
        let caveats =
            vec![CaveatCode::Cached.because("50 %."), CaveatCode::Errors.because("2 ops")];
        let spec = spec();
        let trial = trial(caveats);
        let ended = Event::TrialEnded { spec: &spec, trial: &trial };
        assert_eq!([seen.handle_event(&ended), seen.handle_event(&ended)], [2, 0]);
        assert_eq!(seen.caveats[0].passes, 2);
        assert_eq!(seen.caveats[0].line(), "! cached: 50 % (null stream read)");
    }

    #[test]
    fn a_sparkline_shows_means_and_fits() {
        let line = |rates: &[f64], columns| sparkline(rates.iter().copied(), columns);
        assert_eq!(line(&[0.0, 1.0, 2.0, 4.0], 8), "▁▃▅█");
        assert_eq!(line(&[0.0, 2.0, 4.0, 4.0], 2), "▃█");
        assert_eq!(line(&[0.0, 0.0], 8), "▁▁");
        assert_eq!(line(&[], 8), "");
        assert_eq!(line(&[5.0; 1_000], 20).chars().count(), 20);
    }
}
