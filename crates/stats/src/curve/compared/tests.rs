//! Tests with simulated queues: equal curves don't differ, and slower ones do.

use model::random::SplitMix64;

use super::*;
use crate::curve::{LoadPoint, tests::point};

const CURVES: u64 = 100;

/// Duration of each load point in seconds.
const SECONDS: f64 = 20.0;

fn curve(points: &[(u64, f64, u64)]) -> Curve {
    Curve::new(points.iter().map(|(requested, done, ns)| point(*requested, *done, *ns)).collect())
}

/// Returns an exponential variate with a mean of 1.
fn exponential(random: &mut SplitMix64) -> f64 {
    -((random.next() as f64 + 1.0) / (u64::MAX as f64 + 2.0)).ln()
}

/// Returns a load point of a server that executes one op at a time, with the given service time in
/// milliseconds.
fn queued(random: &mut SplitMix64, requested_per_s: u64, service_ms: f64) -> LoadPoint {
    let mut now = 0.0;
    let mut free = 0.0_f64;
    let mut waited = 0.0;
    let mut done = 0_u32;
    let mut scheduled = 0_u32;
    loop {
        now += exponential(random) / requested_per_s as f64;
        if now > SECONDS {
            break;
        }
        scheduled += 1;
        free = free.max(now) + service_ms / 1_000.0 * exponential(random);
        if free <= SECONDS {
            done += 1;
            waited += free - now;
        }
    }
    let mean_ns = (waited / f64::from(done.max(1)) * 1e9) as u64;
    let offered_per_s = f64::from(scheduled) / SECONDS;
    LoadPoint { offered_per_s, ..point(requested_per_s, f64::from(done) / SECONDS, mean_ns) }
}

/// Returns a curve of ten load points up to the heaviest.
fn simulated(seed: u64, heaviest: u64, service_ms: f64) -> Curve {
    let mut random = SplitMix64::new(seed);
    Curve::new((1..=10).map(|n| queued(&mut random, n * heaviest / 10, service_ms)).collect())
}

/// Returns how many pairs of curves have these outcomes for response time and peak.
fn count(heaviest: [u64; 2], service_ms: [f64; 2], is: impl Fn(Outcome, Outcome) -> bool) -> u64 {
    let differs = |seed: &u64| {
        let [before, after] = [0, 1].map(|side| {
            simulated(2 * seed + side, heaviest[side as usize], service_ms[side as usize])
        });
        let compared = CurvesCompared::new(&before, &after, 0.05);
        is(compared.time, compared.peak)
    };
    (0..CURVES).filter(differs).count() as u64
}

const fn differs(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Higher | Outcome::Lower)
}

#[test]
fn finds_same_server_equal() {
    for heaviest in [[300, 300], [300, 270]] {
        let wrong = count(heaviest, [4.0, 4.0], |time, peak| differs(time) || differs(peak));
        assert!(wrong * 50 <= CURVES, "{heaviest:?}: {wrong} of {CURVES}");
    }
}

#[test]
fn a_slower_server_is_found() {
    let slower = |time, peak| {
        assert!(time != Outcome::Lower && peak != Outcome::Higher);
        time == Outcome::Higher || peak == Outcome::Lower
    };
    for (service_ms, least) in [(5.0, 20), (6.0, 75), (8.0, 95)] {
        let found = count([300, 300], [4.0, service_ms], slower);
        assert!(found * 100 >= CURVES * least, "{service_ms}: {found} of {CURVES}");
    }
}

#[test]
fn pairs_equal_loads_with_interval() {
    let before =
        curve(&[(100, 100.0, 1_000_000), (200, 200.0, 2_000_000), (300, 300.0, 4_000_000)]);
    let after = curve(&[(100, 100.0, 2_000_000), (200, 200.0, 4_000_000), (300, 300.0, 8_000_000)]);
    let compared = CurvesCompared::new(&before, &after, 0.05);
    let ratio = compared.time_ratio.unwrap();
    assert!([ratio.at, ratio.low, ratio.high].iter().all(|r| (r - 2.0).abs() < 1e-9), "{ratio:?}");
    // (100 x 1.5 + 100 x 3) / 300.
    let (from, to) = compared.overall_ns.unwrap();
    assert!((from - 1.5e6).abs() < 1e-3 && (to.at - 3e6).abs() < 1e-3, "{from} {to:?}");
    assert_eq!(compared.time, Outcome::Higher);
    // It is unknown how much more they would have sustained.
    assert_eq!((compared.peak, compared.knee), (Outcome::Unclear, Outcome::Unclear));
    assert_eq!(CurvesCompared::new(&after, &before, 0.05).time, Outcome::Lower);
}

#[test]
fn interpolates_missing_load() {
    let before = curve(&[(100, 100.0, 1_000), (150, 150.0, 1_000), (400, 400.0, 9_000)]);
    let after = curve(&[(100, 100.0, 1_000), (200, 200.0, 3_000), (300, 200.0, 900_000)]);
    let compared = CurvesCompared::new(&before, &after, 0.05);
    let pair = |requested_per_s, other, is_between| TimePair {
        requested_per_s,
        mean_ns: [1_000.0, other],
        is_between,
    };
    assert_eq!(compared.pairs, [pair(100, 1_000.0, false), pair(150, 2_000.0, true)]);
    assert_eq!((compared.time_ratio, compared.time), (None, Outcome::Unclear));
}

#[test]
fn separates_peaks_by_sustained_loads() {
    let of = |sustained: u64, short: u64| {
        curve(&[(sustained, sustained as f64, 1), (short, sustained as f64, 900)])
    };
    let peak = |before: &Curve, after: &Curve| CurvesCompared::new(before, after, 0.05).peak;
    let low = of(100, 120);
    let high = of(140, 160);
    assert_eq!(peak(&low, &high), Outcome::Higher);
    assert_eq!(peak(&high, &low), Outcome::Lower);
    assert_eq!(peak(&low, &of(110, 130)), Outcome::Unclear);
    assert_eq!(peak(&low, &of(100, 110)), Outcome::Same);
    assert_eq!(peak(&low, &Curve::new(Vec::new())), Outcome::Unclear);
}
