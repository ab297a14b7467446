//! Compares the hosts of a pass: late starts, slow hosts, and how even they were.
//!
//! A host's rate is its own work over its own time, so a host that finished early because it had
//! fewer files is not slow. Evenness is computed over the time in which all hosts were working,
//! since only then do they compete. [`HostsCompared`] summarizes several passes; the two caveats
//! are raised for each pass as it is measured.

use std::collections::BTreeMap;
use std::fmt;

use model::units::{Nanos, three_digits};
use model::{Caveat, CaveatCode, ClientTimes, Evidence, HostResult, Pass, PassResult};

use crate::fairness::jain_index;
use crate::rate::Rate;
use crate::summary::median;

/// Difference between the starts of hosts that is reported, in nanoseconds. A tenth of the shortest
/// sampling interval is a hundred times as long.
pub(crate) const SKEW_MAX_NS: u64 = 1_000_000;

/// Maximum number of round trips between two starts, if messages take long.
pub(crate) const SKEW_ROUND_TRIPS: u64 = 5;

/// Share of the median rate below which a host is a straggler. It holds the others up by more than
/// an interval of the median usually hides.
pub(crate) const STRAGGLER_SHARE_MAX: f64 = 0.8;

/// Minimum time for a host's rate to be meaningful, in nanoseconds: five scheduling slices of about
/// 4 ms.
pub(crate) const BUSY_MIN_NS: u64 = 20_000_000;

/// The work of one host, over all trials that count.
#[derive(Clone, Debug, PartialEq)]
pub struct HostShare {
    pub host: String,
    /// Rate while it was working, as the median over the trials.
    pub rate: Rate,
    /// Ops that failed, over all trials.
    pub failed: u64,
    /// Delay of its start relative to the plan: the worst over the trials, in nanoseconds.
    pub start_ns: i64,
    /// Error bound of this delay, in nanoseconds.
    pub error_ns: u64,
    /// Times from sending to completion.
    pub service_time: WorstTimes,
    /// Times from the scheduled start to completion.
    pub response_time: WorstTimes,
    /// It was slow compared with the others, over all trials.
    pub(crate) straggles: bool,
    /// Trials in which it had time to work but completed no op.
    pub stood_still: u32,
}

/// The worst quantiles of any trial, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorstTimes {
    /// The largest median.
    pub p50_ns: u64,
    /// The largest 99th percentile.
    pub p99_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}

impl WorstTimes {
    fn add(&mut self, times: &ClientTimes) {
        self.p50_ns = self.p50_ns.max(times.quantile(0.5));
        self.p99_ns = self.p99_ns.max(times.quantile(0.99));
        self.max_ns = self.max_ns.max(times.max());
    }
}

/// Comparison of the hosts of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct HostsCompared {
    /// The hosts, in the order of their workers.
    pub hosts: Vec<HostShare>,
    /// Jain's index of their rates while all of them were working, each as the median over
    /// the trials; `None` if there was no such time.
    pub index: Option<f64>,
    /// The time between the first and the last start of any host, as the median over the trials.
    pub skew: StartSkew,
    pub trials: u32,
}

/// The time between the first and the last start of any host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartSkew {
    /// The time according to their clocks, in nanoseconds.
    pub read_ns: u64,
    /// Error bound due to the clocks of both hosts, in nanoseconds.
    pub error_ns: u64,
}

impl StartSkew {
    fn from_hosts(hosts: &[HostResult]) -> Self {
        let first = hosts.iter().min_by_key(|host| host.start_ns);
        let last = hosts.iter().max_by_key(|host| host.start_ns);
        let (Some(first), Some(last)) = (first, last) else { return Self::default() };
        let error_ns = first.error_ns.saturating_add(last.error_ns);
        Self { read_ns: last.start_ns.abs_diff(first.start_ns), error_ns }
    }

    /// Returns the skew rounded to the precision of its error, in nanoseconds.
    pub(crate) fn rounded_ns(self) -> u64 {
        let step = 10_u64.pow(self.error_ns.max(1).ilog10());
        self.read_ns.saturating_add(step / 2) / step * step
    }
}

impl fmt::Display for StartSkew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.read_ns <= self.error_ns {
            return write!(f, "up to {}, the error of their clocks", Nanos(self.error_ns));
        }
        write!(f, "{} ± {}", Nanos(self.rounded_ns()), Nanos(self.error_ns))
    }
}

impl HostsCompared {
    /// Compares the hosts of passes of the same kind, or returns `None` if there was only one host.
    pub fn from_passes(passes: &[&PassResult]) -> Option<Self> {
        let mut passes = passes.to_vec();
        passes.retain(|pass| !pass.hosts.is_empty());
        let first = passes.first()?;
        let of_host = by_host(&passes);
        let mut hosts = Vec::new();
        let mut worked = Vec::new();
        for host in &first.hosts {
            let host = combine_passes(first.pass, &of_host[host.host.as_str()]);
            // A host that did nothing would lower the median and hide stragglers.
            if host.rate.per_s() > 0.0 {
                worked.push(host.rate.per_s());
            }
            hosts.push(host);
        }
        let middle = median(&worked).unwrap_or(0.0);
        for host in &mut hosts {
            let per_s = host.rate.per_s();
            host.straggles = host.stood_still > 0 && per_s == 0.0
                || per_s > 0.0 && per_s < middle * STRAGGLER_SHARE_MAX;
        }
        let mut skews = Vec::new();
        let mut errors = Vec::new();
        for pass in &passes {
            let skew = StartSkew::from_hosts(&pass.hosts);
            skews.push(skew.read_ns as f64);
            errors.push(skew.error_ns as f64);
        }
        let skew = StartSkew {
            read_ns: median(&skews).unwrap_or(0.0) as u64,
            error_ns: median(&errors).unwrap_or(0.0) as u64,
        };
        let trials = passes.len() as u32;
        Some(Self { hosts, index: common_index(&passes), skew, trials })
    }

    /// Returns the slow hosts, slowest first.
    pub fn stragglers(&self) -> Vec<&HostShare> {
        let mut slow: Vec<_> = self.hosts.iter().filter(|host| host.straggles).collect();
        slow.sort_by(|a, b| a.rate.per_s().total_cmp(&b.rate.per_s()));
        slow
    }

    /// Returns the host with the lowest rate among those that did anything.
    pub fn slowest(&self) -> Option<&HostShare> {
        self.working_hosts().min_by(|a, b| a.rate.per_s().total_cmp(&b.rate.per_s()))
    }

    /// Returns the host with the highest rate.
    pub fn fastest(&self) -> Option<&HostShare> {
        self.working_hosts().max_by(|a, b| a.rate.per_s().total_cmp(&b.rate.per_s()))
    }

    /// Returns the median of the rates per second of hosts that did anything.
    pub(crate) fn middle_per_s(&self) -> Option<f64> {
        let rates: Vec<_> = self.working_hosts().map(|host| host.rate.per_s()).collect();
        median(&rates)
    }

    /// Returns the rate of the slowest host relative to the median.
    pub(crate) fn slowest_share(&self) -> Option<Evidence> {
        let slow = self.stragglers();
        let share = slow.first()?.rate.per_s() / self.middle_per_s()?;
        let source =
            "rate of the slowest host while it was active, relative to the median of all hosts";
        Some(Evidence::shares(share, STRAGGLER_SHARE_MAX, source))
    }

    /// Describes how slow each slow host was, slowest first.
    pub fn describe_stragglers(&self) -> Vec<String> {
        let Some(middle) = self.middle_per_s() else { return Vec::new() };
        let mut sentences = Vec::new();
        for host in self.stragglers() {
            sentences.push(if host.rate.per_s() == 0.0 {
                format!("{} did nothing", host.host)
            } else {
                let percent = three_digits(host.rate.per_s() / middle * 100.0);
                format!("{} at {percent} % of the median host", host.host)
            });
        }
        sentences
    }

    fn working_hosts(&self) -> impl Iterator<Item = &HostShare> {
        self.hosts.iter().filter(|host| host.rate.per_s() > 0.0)
    }
}

/// Groups the results by host name.
fn by_host<'a>(passes: &[&'a PassResult]) -> BTreeMap<&'a str, Vec<&'a HostResult>> {
    let mut all: BTreeMap<&str, Vec<&HostResult>> = BTreeMap::new();
    for pass in passes {
        for host in &pass.hosts {
            all.entry(&host.host).or_default().push(host);
        }
    }
    all
}

/// Returns how even the hosts were while all of them were working, using each host's median over
/// the passes.
fn common_index(passes: &[&PassResult]) -> Option<f64> {
    let mut of_host: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for pass in passes {
        if pass.common_window_ns == 0 {
            continue;
        }
        for host in &pass.hosts {
            let is_bytes = pass.pass.is_byte_rate();
            let amount = if is_bytes { host.common.bytes } else { host.common.ops };
            let per_s = amount as f64 * 1e9 / pass.common_window_ns as f64;
            of_host.entry(&host.host).or_default().push(per_s);
        }
    }
    let rates: Vec<_> = of_host.values().filter_map(|all| median(all)).collect();
    jain_index(&rates)
}

/// Combines the results of one host over all passes.
fn combine_passes(pass: Pass, own: &[&HostResult]) -> HostShare {
    let rates: Vec<_> = own.iter().map(|host| host_rate(pass, host)).collect();
    let mut share = HostShare {
        host: String::new(),
        rate: Rate::of_ops(pass, median(&rates).unwrap_or(0.0)),
        failed: 0,
        start_ns: 0,
        error_ns: 0,
        service_time: WorstTimes::default(),
        response_time: WorstTimes::default(),
        straggles: false,
        stood_still: 0,
    };
    for host in own {
        if share.host.is_empty() {
            share.host.clone_from(&host.host);
        }
        // Keep the worst start, early or late, with its own error.
        if host.start_ns.unsigned_abs() >= share.start_ns.unsigned_abs() {
            share.start_ns = host.start_ns;
            share.error_ns = host.error_ns;
        }
        share.failed += host.failed;
        share.service_time.add(&host.times);
        share.response_time.add(&host.response_times);
        share.stood_still += u32::from(stood_still(host));
    }
    share
}

/// Returns true if a host completed nothing although it had time. A host without any files finishes
/// at once and had no time.
fn stood_still(host: &HostResult) -> bool {
    host.ops == 0 && host.busy_ns() >= BUSY_MIN_NS
}

/// Returns the work of a host per second of its own time: bytes if the pass is measured in bytes,
/// otherwise ops.
fn host_rate(pass: Pass, host: &HostResult) -> f64 {
    let amount = if pass.is_byte_rate() { host.bytes } else { host.ops };
    amount as f64 * 1e9 / host.busy_ns().max(1) as f64
}

/// Raises a caveat if hosts did not start together. `round_trip_ns` is the longest round trip of a
/// message to any of them.
pub fn skewed(hosts: &[HostResult], round_trip_ns: u64) -> Option<Caveat> {
    let first = hosts.iter().min_by_key(|host| host.start_ns)?;
    let last = hosts.iter().max_by_key(|host| host.start_ns)?;
    let most_ns = SKEW_MAX_NS.max(round_trip_ns.saturating_mul(SKEW_ROUND_TRIPS));
    let skew = StartSkew::from_hosts(hosts);
    if skew.read_ns <= most_ns {
        return None;
    }
    let evidence = format!(
        "host {} started {skew} after host {} (limit {})",
        last.host,
        first.host,
        Nanos(most_ns),
    );
    let source = "first and last start of any host, by the controller's clock";
    let data = Evidence::nanos(skew.rounded_ns(), most_ns, source);
    Some(CaveatCode::Skew.because(evidence).with_data(data))
}

/// Raises a caveat if the slowest host held the others up.
pub fn straggling(pass: Pass, hosts: &[HostResult]) -> Option<Caveat> {
    let mut rates = Vec::new();
    let mut slowest: Option<(&HostResult, f64)> = None;
    for host in hosts {
        if host.busy_ns() < BUSY_MIN_NS {
            continue;
        }
        let per_s = host_rate(pass, host);
        if host.ops > 0 {
            rates.push(per_s);
        }
        if slowest.is_none_or(|(_, least)| per_s < least) {
            slowest = Some((host, per_s));
        }
    }
    let middle = median(&rates)?;
    let (slowest, least) = slowest?;
    if least >= middle * STRAGGLER_SHARE_MAX {
        return None;
    }
    let name = &slowest.host;
    let of = rates.len();
    let middle_rate = Rate::for_pass(pass, middle);
    let evidence = if slowest.ops == 0 {
        format!("host {name} did nothing; the median of {of} others is {middle_rate}")
    } else {
        let percent = three_digits(least / middle * 100.0);
        let rate = Rate::for_pass(pass, least);
        format!(
            "host {name} reached {rate}, {percent} % of the median of {of} hosts ({middle_rate})"
        )
    };
    let source =
        "rate of the slowest host while it was active, relative to the median of all hosts";
    let data = Evidence::shares(least / middle, STRAGGLER_SHARE_MAX, source);
    Some(CaveatCode::Straggler.because(evidence).with_data(data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Work;

    const MS: i64 = 1_000_000;

    fn host(name: &str, ops: u64, (start_ns, end_ns): (i64, i64)) -> HostResult {
        let common = Work { ops: ops / 2, bytes: 0 };
        HostResult {
            host: name.to_owned(),
            workers: 1,
            ops,
            bytes: ops * 1_000,
            common,
            start_ns,
            end_ns,
            error_ns: 20_000,
            ..HostResult::default()
        }
    }

    #[test]
    fn doubts_hosts_that_start_apart() {
        let hosts = [host("a", 1, (0, 9)), host("b", 1, (-MS / 2, 9)), host("c", 1, (MS, 9))];
        let caveat = skewed(&hosts, 100_000).unwrap();
        assert_eq!(caveat.code, CaveatCode::Skew);
        insta::assert_snapshot!(
            caveat.evidence,
            @"host c started 1.50 ms ± 40.0 µs after host b (limit 1.00 ms)"
        );
        assert_eq!(skewed(&hosts, 300_000), None);
        assert_eq!(skewed(&hosts[..2], 0), None);
        assert_eq!((skewed(&[], 0), StartSkew::from_hosts(&[])), (None, StartSkew::default()));
    }

    #[test]
    fn rounds_skew_to_clock_accuracy() {
        let shown = [(293_412, 88_000), (1_523_412, 40_000), (60_000, 88_000), (5, 0)]
            .map(|(read_ns, error_ns)| StartSkew { read_ns, error_ns }.to_string());
        insta::assert_snapshot!(shown.join("\n"), @"
        290 µs ± 88.0 µs
        1.52 ms ± 40.0 µs
        up to 88.0 µs, the error of their clocks
        5 ns ± 0 ns
        ");
    }

    #[test]
    fn names_slowest_host_by_own_time() {
        let second = (0, 1_000 * MS);
        // Half of the work in half of the time is as fast.
        let hosts = [host("a", 100, second), host("b", 50, (0, 500 * MS)), host("c", 90, second)];
        assert_eq!(straggling(Pass::Create, &hosts), None);
        let late =
            [host("a", 100, second), host("b", 100, second), host("c", 100, (0, 2_000 * MS))];
        let caveat = straggling(Pass::Write, &late).unwrap();
        assert_eq!(caveat.code, CaveatCode::Straggler);
        insta::assert_snapshot!(
            caveat.evidence,
            @"host c reached 50.0 kB/s, 50.0 % of the median of 3 hosts (100 kB/s)"
        );
        // A host with nothing to do, or only for a moment, is not slow.
        let idle = [host("a", 100, second), host("b", 0, (0, MS)), host("c", 1, (0, 10 * MS))];
        assert_eq!(straggling(Pass::Create, &idle), None);
        // A host that had time but did nothing stood still.
        let still = [host("a", 100, second), host("b", 0, second), host("c", 90, second)];
        let caveat = straggling(Pass::Create, &still).unwrap();
        insta::assert_snapshot!(
            caveat.evidence,
            @"host b did nothing; the median of 2 others is 95.0 op/s"
        );
        assert_eq!(straggling(Pass::Create, &[]), None);
    }

    #[test]
    fn hosts_are_compared_over_all_trials() {
        let pass = |a: u64, b: u64, late: i64| PassResult {
            hosts: vec![host("a", a, (0, 1_000 * MS)), host("b", b, (late, 1_000 * MS + late))],
            ..PassResult::new(Pass::Create)
        };
        let passes = [pass(100, 20, 5), pass(80, 30, -7), pass(90, 10, 6)];
        let alone = PassResult::new(Pass::Create);
        let all: Vec<&PassResult> = passes.iter().chain([&alone]).collect();
        let compared = HostsCompared::from_passes(&all).unwrap();
        let rates: Vec<f64> = compared.hosts.iter().map(|host| host.rate.per_s()).collect();
        let skew = StartSkew { read_ns: 6, error_ns: 40_000 };
        assert_eq!((rates, compared.skew, compared.trials), (vec![90.0, 20.0], skew, 3));
        let named: Vec<_> = compared.hosts.iter().map(|h| (h.start_ns, h.straggles)).collect();
        assert_eq!(named, [(0, false), (-7, true)]);
        let slow: Vec<&str> = compared.stragglers().iter().map(|h| h.host.as_str()).collect();
        let ends = (compared.slowest().unwrap(), compared.fastest().unwrap());
        assert_eq!((slow, ends.0.host.as_str(), ends.1.host.as_str()), (vec!["b"], "b", "a"));
        assert_eq!(compared.middle_per_s(), Some(55.0));
        // There is no time in which both worked.
        assert_eq!(compared.index, None);
        assert_eq!(HostsCompared::from_passes(&[&alone]), None);
    }

    #[test]
    fn measures_evenness_in_common_window() {
        // The rates are equal, but the second host finished early because it had fewer files.
        let mut early = vec![host("a", 100, (0, 1_000 * MS)), host("b", 55, (0, 500 * MS))];
        early[0].common = Work { ops: 50, bytes: 0 };
        early[1].common = Work { ops: 50, bytes: 0 };
        let common_window_ns = 500_000_000;
        let pass = PassResult { hosts: early, common_window_ns, ..PassResult::new(Pass::Create) };
        assert_eq!(HostsCompared::from_passes(&[&pass]).unwrap().index, Some(1.0));
    }

    #[test]
    fn marks_idle_host_as_slowest() {
        let second = (0, 1_000 * MS);
        let hosts = vec![host("a", 100, second), host("b", 0, second), host("c", 30, second)];
        let pass = PassResult { hosts, ..PassResult::new(Pass::Create) };
        let compared = HostsCompared::from_passes(&[&pass, &pass]).unwrap();
        assert_eq!(compared.hosts[1].stood_still, 2);
        insta::assert_snapshot!(compared.describe_stragglers().join("\n"), @"
        b did nothing
        c at 46.2 % of the median host
        ");
    }
}
