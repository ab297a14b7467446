//! How the hosts of a pass fared beside each other: who started late, who was slow, how even it
//! was.
//!
//! Each host's rate is its own work over its own time, so a host that ended early for want of files
//! is not slow. [`HostsCompared`] is the principal type; the two caveats are raised for each pass
//! as it is measured.

use std::collections::BTreeMap;

use model::units::{Nanos, three_digits};
use model::{Caveat, CaveatCode, Evidence, HostResult, Pass, PassResult};

use crate::fairness::jain_index;
use crate::rate::Rate;
use crate::summary::median;

/// Hosts that start farther apart than this, in nanoseconds, are reported: a tenth of the shortest
/// interval in which work is sampled is a hundred times as long.
pub const SKEW_MAX_NS: u64 = 1_000_000;

/// Round trips that may lie between two starts, where messages take long.
pub const SKEW_ROUND_TRIPS: u64 = 5;

/// A host below this share of the median rate of all holds the others up by more than what an
/// interval of the median usually hides.
pub const STRAGGLER_SHARE_MAX: f64 = 0.8;

/// Below this time a host's rate is a throw of dice, in nanoseconds: five scheduling slices of some
/// 4 ms.
pub const BUSY_MIN_NS: u64 = 20_000_000;

/// The work of one host, over all trials behind the figures.
#[derive(Clone, Debug, PartialEq)]
pub struct HostShare {
    /// Name of the host.
    pub host: String,
    /// Its rate while it worked: the median over the trials.
    pub rate: Rate,
    /// Ops that failed, in all trials.
    pub failed: u64,
    /// How long after the instant that was planned it started: the worst over the trials, in
    /// nanoseconds.
    pub start_ns: i64,
    /// The error that this start may have, in nanoseconds.
    pub error_ns: u64,
    /// The largest median of its service times in any trial, in nanoseconds.
    pub p50_ns: u64,
    /// The largest 99th percentile of its service times in any trial, in nanoseconds.
    pub p99_ns: u64,
    /// The longest of them, in nanoseconds.
    pub max_ns: u64,
    /// It was slow beside the others, over all trials.
    pub straggles: bool,
}

/// The hosts of a run beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct HostsCompared {
    /// Each host, in the order of their workers.
    pub hosts: Vec<HostShare>,
    /// The [`jain_index`] of their rates.
    pub index: Option<f64>,
    /// Time between the first and the last start of any host: the median over the trials, in
    /// nanoseconds.
    pub skew_ns: u64,
}

impl HostsCompared {
    /// Compares the hosts of some passes of the same kind; `None` where one host made them alone.
    pub fn of(passes: &[&PassResult]) -> Option<Self> {
        let mut passes = passes.to_vec();
        passes.retain(|pass| !pass.hosts.is_empty());
        let first = passes.first()?;
        let of_host = by_host(&passes);
        let (mut hosts, mut all, mut worked) = (Vec::new(), Vec::new(), Vec::new());
        for host in &first.hosts {
            let host = combine_passes(first.pass, &of_host[host.host.as_str()]);
            all.push(host.rate.per_s());
            // A host that did nothing would drag the median down, and hide stragglers.
            if host.rate.per_s() > 0.0 {
                worked.push(host.rate.per_s());
            }
            hosts.push(host);
        }
        let middle = median(&worked).unwrap_or(0.0);
        for host in &mut hosts {
            let per_s = host.rate.per_s();
            host.straggles = per_s > 0.0 && per_s < middle * STRAGGLER_SHARE_MAX;
        }
        let mut skews = Vec::with_capacity(passes.len());
        for pass in &passes {
            skews.push(skew_ns(&pass.hosts) as f64);
        }
        let skew_ns = median(&skews).unwrap_or(0.0) as u64;
        Some(Self { hosts, index: jain_index(&all), skew_ns })
    }

    /// Returns those that were slow beside the others, the slowest first.
    pub fn stragglers(&self) -> Vec<&HostShare> {
        let mut slow = Vec::new();
        for host in &self.hosts {
            if host.straggles {
                slow.push(host);
            }
        }
        slow.sort_by(|a, b| a.rate.per_s().total_cmp(&b.rate.per_s()));
        slow
    }

    /// Returns the one with the lowest rate, of those that did anything.
    pub fn slowest(&self) -> Option<&HostShare> {
        self.worked().min_by(|a, b| a.rate.per_s().total_cmp(&b.rate.per_s()))
    }

    /// Returns the one with the highest rate.
    pub fn fastest(&self) -> Option<&HostShare> {
        self.worked().max_by(|a, b| a.rate.per_s().total_cmp(&b.rate.per_s()))
    }

    /// Returns the median of the hosts' rates, per second, of those that did anything.
    pub fn middle_per_s(&self) -> Option<f64> {
        let mut rates = Vec::new();
        for host in self.worked() {
            rates.push(host.rate.per_s());
        }
        median(&rates)
    }

    fn worked(&self) -> impl Iterator<Item = &HostShare> {
        self.hosts.iter().filter(|host| host.rate.per_s() > 0.0)
    }
}

/// Groups the results by the name of their host.
fn by_host<'a>(passes: &[&'a PassResult]) -> BTreeMap<&'a str, Vec<&'a HostResult>> {
    let mut all: BTreeMap<&str, Vec<&HostResult>> = BTreeMap::new();
    for pass in passes {
        for host in &pass.hosts {
            all.entry(&host.host).or_default().push(host);
        }
    }
    all
}

/// Combines the results of one host over all passes.
fn combine_passes(pass: Pass, own: &[&HostResult]) -> HostShare {
    let mut rates = Vec::with_capacity(own.len());
    for host in own {
        rates.push(host_rate(pass, host));
    }
    let mut share = HostShare {
        host: String::new(),
        rate: Rate::of_pass(pass, median(&rates).unwrap_or(0.0)),
        failed: 0,
        start_ns: 0,
        error_ns: 0,
        p50_ns: 0,
        p99_ns: 0,
        max_ns: 0,
        straggles: false,
    };
    for host in own {
        if share.host.is_empty() {
            share.host.clone_from(&host.host);
        }
        // The worst start, early or late, with its own error.
        if host.start_ns.unsigned_abs() >= share.start_ns.unsigned_abs() {
            (share.start_ns, share.error_ns) = (host.start_ns, host.error_ns);
        }
        share.failed += host.failed;
        share.p50_ns = share.p50_ns.max(host.times.quantile(0.5));
        share.p99_ns = share.p99_ns.max(host.times.quantile(0.99));
        share.max_ns = share.max_ns.max(host.times.max());
    }
    share
}

/// Returns the work of a host per second of its own time: bytes where the pass is measured in
/// bytes, else ops.
fn host_rate(pass: Pass, host: &HostResult) -> f64 {
    let amount = if pass.is_byte_rate() { host.bytes } else { host.ops };
    amount as f64 * 1e9 / host.busy_ns().max(1) as f64
}

/// Returns the time between the first and the last start of any host, in nanoseconds.
pub fn skew_ns(hosts: &[HostResult]) -> u64 {
    let Some(first) = hosts.first() else { return 0 };
    let (mut earliest, mut latest) = (first.start_ns, first.start_ns);
    for host in hosts {
        earliest = earliest.min(host.start_ns);
        latest = latest.max(host.start_ns);
    }
    latest.abs_diff(earliest)
}

/// Raises the caveat that hosts did not start together; `round_trip_ns` is the longest that a
/// message to one of them and back took.
pub fn skewed(hosts: &[HostResult], round_trip_ns: u64) -> Option<Caveat> {
    let first = hosts.iter().min_by_key(|host| host.start_ns)?;
    let last = hosts.iter().max_by_key(|host| host.start_ns)?;
    let most_ns = SKEW_MAX_NS.max(round_trip_ns.saturating_mul(SKEW_ROUND_TRIPS));
    let skew_ns = skew_ns(hosts);
    if skew_ns <= most_ns {
        return None;
    }
    let evidence = format!(
        "host {} started {} after host {}, at most {} wanted; clocks ± {}",
        last.host,
        Nanos(skew_ns),
        first.host,
        Nanos(most_ns),
        Nanos(first.error_ns.max(last.error_ns)),
    );
    let source = "first and last start of any host, by the controller's clock";
    let data = Evidence::nanos(skew_ns, most_ns, source);
    Some(CaveatCode::Skew.because(evidence).with_data(data))
}

/// Raises the caveat that the slowest host held the others up.
pub fn straggling(pass: Pass, hosts: &[HostResult]) -> Option<Caveat> {
    let mut rates = Vec::new();
    let mut slowest: Option<(&HostResult, f64)> = None;
    for host in hosts {
        if host.ops == 0 || host.busy_ns() < BUSY_MIN_NS {
            continue;
        }
        let per_s = host_rate(pass, host);
        rates.push(per_s);
        if slowest.is_none_or(|(_, least)| per_s < least) {
            slowest = Some((host, per_s));
        }
    }
    let middle = median(&rates)?;
    let (slowest, least) = slowest?;
    if least >= middle * STRAGGLER_SHARE_MAX {
        return None;
    }
    let evidence = format!(
        "host {} did {} where the median of {} hosts is {} ({} %)",
        slowest.host,
        Rate::of_pass(pass, least),
        rates.len(),
        Rate::of_pass(pass, middle),
        three_digits(least / middle * 100.0),
    );
    let source = "rate of the slowest host over its own time, of the median of all hosts";
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
    fn hosts_that_start_apart_are_doubted_beyond_a_millisecond_or_five_round_trips() {
        let hosts = [host("a", 1, (0, 9)), host("b", 1, (-MS / 2, 9)), host("c", 1, (MS, 9))];
        let caveat = skewed(&hosts, 100_000).unwrap();
        assert_eq!(caveat.code, CaveatCode::Skew);
        let evidence =
            "host c started 1.50 ms after host b, at most 1.00 ms wanted; clocks ± 20.0 µs";
        assert_eq!(caveat.evidence, evidence);
        assert_eq!(skewed(&hosts, 300_000), None);
        assert_eq!(skewed(&hosts[..2], 0), None);
        assert_eq!((skewed(&[], 0), skew_ns(&[])), (None, 0));
    }

    #[test]
    fn the_slowest_host_is_named_by_its_own_time() {
        let second = (0, 1_000 * MS);
        // Half of the work in half of the time is as fast.
        let hosts = [host("a", 100, second), host("b", 50, (0, 500 * MS)), host("c", 90, second)];
        assert_eq!(straggling(Pass::Create, &hosts), None);
        let late =
            [host("a", 100, second), host("b", 100, second), host("c", 100, (0, 2_000 * MS))];
        let caveat = straggling(Pass::Write, &late).unwrap();
        assert_eq!(caveat.code, CaveatCode::Straggler);
        let evidence = "host c did 50.0 kB/s where the median of 3 hosts is 100 kB/s (50.0 %)";
        assert_eq!(caveat.evidence, evidence);
        // Who had nothing to do, or a moment only, is not slow.
        let idle = [host("a", 100, second), host("b", 0, second), host("c", 1, (0, 10 * MS))];
        assert_eq!(straggling(Pass::Create, &idle), None);
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
        let compared = HostsCompared::of(&all).unwrap();
        let rates: Vec<f64> = compared.hosts.iter().map(|host| host.rate.per_s()).collect();
        assert_eq!((rates, compared.skew_ns), (vec![90.0, 20.0], 6));
        let named: Vec<_> = compared.hosts.iter().map(|h| (h.start_ns, h.straggles)).collect();
        assert_eq!(named, [(0, false), (-7, true)]);
        let slow: Vec<&str> = compared.stragglers().iter().map(|h| h.host.as_str()).collect();
        let ends = (compared.slowest().unwrap(), compared.fastest().unwrap());
        assert_eq!((slow, ends.0.host.as_str(), ends.1.host.as_str()), (vec!["b"], "b", "a"));
        assert_eq!(compared.middle_per_s(), Some(55.0));
        // 110^2 / (2 (90^2 + 20^2)).
        assert!((compared.index.unwrap() - 12_100.0 / 17_000.0).abs() < 1e-12);
        assert_eq!(HostsCompared::of(&[&alone]), None);
    }
}
