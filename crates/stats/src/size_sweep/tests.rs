//! Tests with known caches: one, two, none, a slope, noise, and the numbers of an old report.

use model::random::SplitMix64;

use super::*;

const MIB: f64 = 1_048_576.0;

/// Returns sizes from 64 MiB to 8 GiB.
fn sizes() -> Vec<f64> {
    (0..8).map(|power| 64.0 * MIB * f64::from(1 << power)).collect()
}

/// Returns an approximately normal variate with deviation 1: the sum of twelve draws minus six.
fn normal(random: &mut SplitMix64) -> f64 {
    (0..12).map(|_| random.next() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
}

/// Returns the given number of trials at each size, with the given noise.
fn planted(
    random: &mut SplitMix64,
    noise: f64,
    trials: usize,
    rate: impl Fn(f64) -> f64,
) -> Vec<SizePoint> {
    let mut points = Vec::new();
    for bytes in sizes() {
        let per_s: Vec<_> =
            (0..trials).map(|_| rate(bytes) * (noise * normal(random)).exp()).collect();
        points.push(SizePoint { bytes, per_s });
    }
    points
}

fn falls(sweep: SizeSweep) -> Vec<RateDrop> {
    match sweep {
        SizeSweep::Falls(falls) => falls,
        _ => Vec::new(),
    }
}

#[test]
fn finds_cache_between_sizes() {
    let mut random = SplitMix64::new(1);
    let cache = 1_400.0 * MIB;
    let mut found = 0;
    for _ in 0..500 {
        let step = |bytes: f64| if bytes <= cache { 1_000.0 } else { 80.0 };
        let falls = falls(size_sweep(&planted(&mut random, 0.05, 3, step)));
        let [fall] = falls.as_slice() else { continue };
        let is_there = fall.between_bytes == (1_024.0 * MIB, 2_048.0 * MIB);
        found += u32::from(is_there && !fall.is_gradual && fall.cache_bytes / cache < 1.1);
    }
    assert!(found >= 470, "{found} of 500");
}

#[test]
fn limits_false_alarms_in_sweeps() {
    let mut random = SplitMix64::new(2);
    for trials in [1, 3, 5] {
        let mut found = 0;
        for _ in 0..500 {
            let points = planted(&mut random, 0.15, trials, |_| 500.0);
            found += u32::from(size_sweep(&points) != SizeSweep::Level);
        }
        assert!(found <= 25 + 15, "{found} of 500 with {trials} trials");
    }
}

#[test]
fn finds_no_knee_in_even_fall() {
    let mut random = SplitMix64::new(3);
    let mut even = 0;
    for _ in 0..500 {
        let points = planted(&mut random, 0.02, 3, |bytes| 900.0 * (bytes / MIB).powf(-0.2));
        even += u32::from(size_sweep(&points) == SizeSweep::Even);
    }
    assert!(even >= 470, "{even} of 500");
    // A rate that rises has no drops, either.
    let rising = planted(&mut random, 0.02, 3, |bytes| 100.0 * (bytes / MIB).powf(0.2));
    assert!(falls(size_sweep(&rising)).is_empty());
}

#[test]
fn two_caches_are_two_falls() {
    let mut random = SplitMix64::new(4);
    let rate = |bytes: f64| match bytes / MIB {
        size if size <= 200.0 => 2_000.0,
        size if size <= 3_000.0 => 400.0,
        _ => 60.0,
    };
    let mut found = 0;
    for _ in 0..200 {
        let falls = falls(size_sweep(&planted(&mut random, 0.05, 3, rate)));
        let between: Vec<f64> = falls.iter().map(|fall| fall.between_bytes.0 / MIB).collect();
        found += u32::from(between == [128.0, 2_048.0]);
    }
    assert!(found >= 180, "{found} of 200");
}

#[test]
fn includes_cache_in_interval() {
    let mut random = SplitMix64::new(5);
    let cache = 300.0 * MIB;
    let rate = |bytes: f64| {
        let beyond = (1.0 - cache / bytes).max(0.0);
        1.0 / (1.0 / 1_000.0 + beyond / 100.0)
    };
    let mut held = 0;
    for _ in 0..200 {
        let falls = falls(size_sweep(&planted(&mut random, 0.03, 5, rate)));
        let [fall] = falls.as_slice() else { continue };
        let (lo, hi) = fall.interval_bytes;
        held += u32::from(fall.is_gradual && lo <= cache && cache <= hi && hi < 1.5 * lo);
    }
    assert!(held >= 170, "{held} of 200");
}

/// Block writes and block reads of Bonnie over NFS v2 from a client with 256 MB, in K/sec.
///
/// **Source:** Chan, "Distributed File System Benchmarking" (2001), "Large files vs Small files".
#[test]
fn finds_caches_of_old_report() {
    let table = [
        (10.0, 26_251.0, 177_147.0),
        (100.0, 26_336.0, 177_193.0),
        (250.0, 22_608.0, 15_379.0),
        (500.0, 17_783.0, 16_175.0),
        (1_000.0, 15_677.0, 15_798.0),
    ];
    let mut points = [Vec::new(), Vec::new()];
    for (mib, write, read) in table {
        points[0].push(SizePoint { bytes: mib * MIB, per_s: vec![write] });
        points[1].push(SizePoint { bytes: mib * MIB, per_s: vec![read] });
    }
    let reads = falls(size_sweep(&points[1]));
    assert_eq!(reads[0].between_bytes, (100.0 * MIB, 250.0 * MIB), "{reads:?}");
    let writes = falls(size_sweep(&points[0]));
    assert!(writes[0].is_gradual, "{writes:?}");
    assert!((150.0..=250.0).contains(&(writes[0].cache_bytes / MIB)), "{writes:?}");
}

#[test]
fn needs_three_sizes_and_trials() {
    let point = |mib: f64, rate| SizePoint { bytes: mib * MIB, per_s: vec![rate] };
    let two = [point(1.0, 9.0), point(2.0, 1.0)];
    assert_eq!(size_sweep(&two), SizeSweep::TooFew);
    let three = [point(1.0, 9.0), point(2.0, 9.0), point(4.0, 1.0)];
    assert_eq!(size_sweep(&three), SizeSweep::TooFew);
}
