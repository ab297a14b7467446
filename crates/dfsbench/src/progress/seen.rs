//! The state of a campaign as its events report it, for display.
//!
//! [`Seen`] is the principal type: it takes events in and knows nothing of terminals. Rates are
//! those of each tenth of a second; service times, processors and retransmissions are known once a
//! pass has ended, since a worker is not interrupted before.

use std::collections::VecDeque;
use std::time::Duration;

use controller::Event;
use model::contender::contender_of;
use model::units::Nanos;
use model::{
    CaveatCode, ClientResult, IntervalSample, Pass, PassResult, RunSpec, Telemetry, Trial,
    TrialState,
};
use report::live::{CurrentPass, HostRate, Live, LiveRate, TrialRate, Work};
use stats::Rate;

/// So many rates are kept: a minute of them.
const RATES_MAX: usize = 600;
/// Intervals shorter than this have no rate, in nanoseconds.
const INTERVAL_MIN_NS: u64 = 10_000_000;
/// Number of ended trials that are listed.
const ENDED_MAX: usize = 4;

/// The state of a campaign as far as it was reported.
#[derive(Debug, Default)]
pub struct Seen {
    /// The name of the plan.
    pub name: String,
    /// Trials to make; 0 where it is not known.
    pub total: usize,
    /// The place of the one that is being made, from 0.
    pub position: usize,
    /// The label of the run.
    pub label: String,
    /// The current pass.
    pub pass: Option<Pass>,
    /// The rate that counts for the pass, from time to time, the latest last.
    pub rates: VecDeque<f64>,
    /// Ops and bytes per second, just now.
    pub now: Option<LiveRate>,
    /// The current activity of each host, where several work.
    pub hosts: Vec<HostSeen>,
    /// The pass that ended last.
    pub last: Option<Ended>,
    /// The last trials that ended, in words.
    pub ended: VecDeque<String>,
    /// Trials that failed.
    pub failed: usize,
    /// Totals for programs, beside all that.
    totals: Totals,
    /// The caveats so far, each code once, in order of appearance.
    pub caveats: Vec<CaveatSeen>,
    last_ns: u64,
}

/// Sums since the start, and the last results, for programs.
#[derive(Debug, Default)]
struct Totals {
    /// Trials that ended well.
    trials_done: usize,
    /// Trials that were interrupted.
    trials_interrupted: usize,
    /// Ops of all intervals.
    ops: u64,
    /// Bytes of all intervals.
    bytes: u64,
    /// The work of the current run.
    work: Work,
    /// Passes of the trial that ended last.
    last_trial: Vec<TrialRate>,
}

/// One of several hosts.
#[derive(Debug, Default)]
pub struct HostSeen {
    /// The name of the host.
    pub host: String,
    /// The rate just now; `None` before the first one.
    pub now: Option<LiveRate>,
    last_ns: u64,
}

/// A pass that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The label of the run and pass.
    pub what: String,
    /// Its service times and what was seen of the hosts: all together first, then each host.
    pub hosts: Vec<Quantiles>,
    /// How its clients lie, where they were recorded apart.
    pub clients: Option<String>,
}

/// How long ops of a pass took, from sent to done, and what that cost.
#[derive(Debug)]
pub struct Quantiles {
    /// The name of the host.
    pub host: String,
    /// p50, p99 and the largest, in nanoseconds.
    pub times_ns: [u64; 3],
    /// Processors that were busy, in percent of all.
    pub busy_percent: Option<f64>,
    /// TCP segments that were sent again.
    pub retransmitted: Option<u64>,
}

/// A caveat that was reported.
#[derive(Debug)]
pub struct CaveatSeen {
    /// The code of the caveat.
    pub code: CaveatCode,
    /// Passes that have it.
    pub passes: usize,
    /// The run and pass where it was reported first.
    pub place: String,
    /// The numbers that showed it there.
    pub evidence: String,
}

impl Seen {
    /// Makes the state of a campaign with so many trials; 0 where the number is unknown.
    pub fn of(name: &str, total: usize) -> Self {
        Self { name: name.to_owned(), total, ..Self::default() }
    }

    /// Handles an event; returns how many caveats, the last ones, are new.
    pub fn hear(&mut self, event: &Event<'_>) -> usize {
        let known = self.caveats.len();
        match event {
            Event::TrialBegun { position, spec } => {
                (self.position, self.label, self.pass) = (*position, label(spec), None);
                // Trials in place of disturbed ones come after those that are planned.
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
                self.last = Some(Ended::of(&self.label, result));
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

    /// Describes the current activity: the run and its pass.
    pub fn doing(&self) -> String {
        match self.pass {
            Some(pass) => format!("{} {}", self.label, pass.name()),
            None => self.label.clone(),
        }
    }

    /// The rate that counts just now, with its unit.
    pub fn rate(&self) -> Option<Rate> {
        let (pass, per_s) = (self.pass?, self.rates.back()?);
        Some(Rate::of_pass(pass, *per_s))
    }

    /// Copies what metrics are made of.
    pub fn live(&self, elapsed: Duration) -> Live {
        let mut hosts = Vec::new();
        for HostSeen { host, now, .. } in &self.hosts {
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
        (self.now, self.last_ns) = (None, 0);
        self.hosts.clear();
    }

    fn sample(&mut self, sample: &IntervalSample) {
        self.totals.ops = self.totals.ops.saturating_add(sample.ops);
        self.totals.bytes = self.totals.bytes.saturating_add(sample.bytes);
        let lasts_ns = sample.at_ns.saturating_sub(self.last_ns);
        self.last_ns = sample.at_ns;
        let (Some(pass), true) = (self.pass, lasts_ns >= INTERVAL_MIN_NS) else { return };
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
            self.hosts.push(HostSeen { host: name.to_owned(), ..HostSeen::default() });
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
        match trial.state {
            TrialState::Done => self.totals.trials_done += 1,
            TrialState::Interrupted => self.totals.trials_interrupted += 1,
            TrialState::Failed(_) => self.failed += 1,
        }
        self.totals.last_trial = trial.passes.iter().map(|pass| trial_rate(spec, pass)).collect();
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(format!("{}: {}", label(spec), trial_figures(trial)));
        for pass in &trial.passes {
            for caveat in &pass.caveats {
                match self.caveats.iter_mut().find(|known| known.code == caveat.code) {
                    Some(known) => known.passes += 1,
                    None => self.caveats.push(CaveatSeen {
                        code: caveat.code,
                        passes: 1,
                        place: format!("{} {}", label(spec), pass.pass.name()),
                        evidence: caveat.evidence.clone(),
                    }),
                }
            }
        }
    }
}

impl CaveatSeen {
    /// Formats the caveat as a line: `! cached: 50 % of the pages (dir posix stream read)`.
    pub fn line(&self) -> String {
        let mark = match self.code.severity() {
            model::Severity::Invalid => "x",
            model::Severity::Degraded => "!",
            model::Severity::Note => "i",
        };
        format!("{mark} {}: {} ({})", self.code, self.evidence.trim_end_matches('.'), self.place)
    }
}

impl Ended {
    fn of(label: &str, result: &PassResult) -> Self {
        let times = result.service_time();
        let times_ns = [times.quantile(0.5), times.quantile(0.99), times.max()];
        let mut all = Quantiles::of("all", times_ns, None);
        if result.hosts.is_empty() {
            // One host does all of it, so that its processors are those of the pass.
            all.add_telemetry(result.telemetry.first());
        }
        let mut hosts = vec![all];
        for host in &result.hosts {
            let telemetry = result.telemetry.iter().find(|telemetry| telemetry.host == host.host);
            let times = &host.times;
            let times_ns = [times.quantile(0.5), times.quantile(0.99), times.max()];
            hosts.push(Quantiles::of(&host.host, times_ns, telemetry));
        }
        Self {
            what: format!("{label} {}", result.pass.name()),
            hosts,
            clients: describe_clients(result),
        }
    }
}

impl Quantiles {
    fn of(host: &str, times_ns: [u64; 3], telemetry: Option<&Telemetry>) -> Self {
        let mut quantiles =
            Self { host: host.to_owned(), times_ns, busy_percent: None, retransmitted: None };
        quantiles.add_telemetry(telemetry);
        quantiles
    }

    fn add_telemetry(&mut self, telemetry: Option<&Telemetry>) {
        if let Some(telemetry) = telemetry {
            self.busy_percent = report::busy_percent(telemetry);
            self.retransmitted = Some(telemetry.risen("tcp.segments_retransmitted"));
        }
    }
}

/// The slowest and the fastest client of a pass, where they were recorded apart.
fn describe_clients(result: &PassResult) -> Option<String> {
    let slowest = result.clients.iter().min_by_key(|client| work_done(client, result.pass))?;
    let fastest = result.clients.iter().max_by_key(|client| work_done(client, result.pass))?;
    let count = result.clients.len();
    let [slowest, fastest] = [slowest, fastest].map(|client| describe_client(client, result));
    Some(format!("{count} clients: slowest {slowest}; fastest {fastest}"))
}

/// The bytes or ops of a client, by what counts for the pass.
const fn work_done(client: &ClientResult, pass: Pass) -> u64 {
    if pass.is_byte_rate() { client.bytes } else { client.ops }
}

fn describe_client(client: &ClientResult, result: &PassResult) -> String {
    let per_s = work_done(client, result.pass) as f64 * 1e9 / result.window_ns.max(1) as f64;
    let p99 = Nanos(client.times.quantile(0.99));
    format!("{} with {} (p99 {p99})", client.client, Rate::of_pass(result.pass, per_s))
}

fn per_s(sample: &IntervalSample, lasts_ns: u64) -> LiveRate {
    let seconds = lasts_ns as f64 / 1e9;
    LiveRate { ops_per_s: sample.ops as f64 / seconds, bytes_per_s: sample.bytes as f64 / seconds }
}

fn work_of(spec: &RunSpec) -> Work {
    Work {
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

/// A run in a few words: its contender, how it is worked on, and its workload.
pub fn label(spec: &RunSpec) -> String {
    let (contender, workload) = (contender_of(spec), spec.workload.name());
    if contender == spec.backend.name() {
        return format!("{contender} {workload}");
    }
    format!("{contender} {} {workload}", spec.backend.name())
}

/// Describes the result of a trial: its figures, or why there are none.
pub fn trial_figures(trial: &Trial) -> String {
    match &trial.state {
        TrialState::Done => trial.passes.iter().map(pass_figure).collect::<Vec<_>>().join(", "),
        TrialState::Failed(reason) => format!("failed: {reason}"),
        TrialState::Interrupted => "interrupted".to_owned(),
    }
}

fn pass_figure(pass: &PassResult) -> String {
    let seconds = pass.window_ns.max(1) as f64 / 1e9;
    let amount = if pass.pass.is_byte_rate() { pass.bytes() } else { pass.ops() };
    format!("{} {}", pass.pass.name(), Rate::of_pass(pass.pass, amount as f64 / seconds))
}

/// Rates as a line of at most so many columns, the highest as high as a letter; the mean of those
/// that share a column.
pub fn sparkline(rates: impl ExactSizeIterator<Item = f64> + Clone, columns: usize) -> String {
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
        // The highest itself would be one step past the last letter.
        line.push(STEPS[((share * STEPS.len() as f64) as usize).min(STEPS.len() - 1)]);
    }
    line
}

#[cfg(test)]
mod tests {
    use model::{BackendKind, Caveat, Workload};

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
        let (passes, facts) = (vec![pass], Vec::new());
        Trial { index: 0, position: 0, started_unix_ms: 0, state, passes, facts }
    }

    #[test]
    fn rates_are_those_of_each_interval_and_begin_again_with_a_pass() {
        let mut seen = Seen::of("quick", 3);
        seen.hear(&Event::PassBegun(Pass::Read));
        for (at_ms, ops) in [(100, 10), (200, 20), (200, 5), (300, 5)] {
            seen.hear(&Event::Progress(sample(at_ms, ops)));
        }
        assert_eq!(seen.rates, [100e6, 200e6, 50e6]);
        assert_eq!(seen.now, Some(LiveRate { ops_per_s: 50.0, bytes_per_s: 50e6 }));
        assert_eq!(seen.rate().unwrap().to_string(), "50.0 MB/s");
        let host = Event::HostProgress { host: "c1", sample: sample(500, 10) };
        seen.hear(&host);
        assert_eq!(seen.hosts[0].now, Some(LiveRate { ops_per_s: 20.0, bytes_per_s: 20e6 }));
        seen.hear(&Event::PassBegun(Pass::Write));
        assert!(seen.rates.is_empty() && seen.hosts.is_empty() && seen.rate().is_none());
    }

    #[test]
    fn labels_of_one_system_differ_by_its_settings() {
        let mut spec = spec();
        assert_eq!(label(&spec), "null stream");
        "gluster".clone_into(&mut spec.target_name);
        assert_eq!(label(&spec), "gluster null stream");
        let host = |name: &str| model::Host::here(name);
        let mut lab = model::LabSpec::new(host("server"), host("client"));
        lab.system = Some(Box::default());
        lab.system_settings = vec![("layout".to_owned(), "replica".to_owned())];
        spec.lab = Some(Box::new(lab));
        assert_eq!(label(&spec), "gluster layout=replica null stream");
    }

    #[test]
    fn metrics_have_sums_the_current_rate_and_the_last_trial() {
        let mut seen = Seen::of("quick", 3);
        let (spec, trial) = (spec(), trial(vec![CaveatCode::Cached.because("50 %.")]));
        let idle = seen.live(Duration::from_secs(2)).render();
        assert!(idle.contains("trials_planned{campaign_name=\"quick\"} 3\n"), "{idle}");
        assert!(!idle.contains("dfsbench_live_bytes_per_second{"), "{idle}");
        seen.hear(&Event::TrialBegun { position: 0, spec: &spec });
        seen.hear(&Event::PassBegun(Pass::Read));
        for (at_ms, ops) in [(100, 10), (200, 20)] {
            seen.hear(&Event::Progress(sample(at_ms, ops)));
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
        seen.hear(&Event::TrialEnded { spec: &spec, trial: &trial });
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

    #[test]
    fn each_caveat_is_new_once() {
        let mut seen = Seen::of("quick", 3);
        let caveats =
            vec![CaveatCode::Cached.because("50 %."), CaveatCode::Errors.because("2 ops")];
        let (spec, trial) = (spec(), trial(caveats));
        let ended = Event::TrialEnded { spec: &spec, trial: &trial };
        assert_eq!([seen.hear(&ended), seen.hear(&ended)], [2, 0]);
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
