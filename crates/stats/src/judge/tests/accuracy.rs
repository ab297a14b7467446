//! Tests of when outliers and drifts mark a result, and when they are only notes.

use model::random::SplitMix64;

use super::*;

/// Returns a run that may end when half its intervals are 9 % of the median.
fn requested(rates: &[u64]) -> Run {
    repeated(rates, Repetition { until_permille: 90, ..Repetition::default() })
}

fn severity_of(run: &Run, code: CaveatCode) -> Option<Severity> {
    let judged = pass(run, Pass::Write);
    judged.caveats.iter().find(|caveat| caveat.code == code).map(|caveat| caveat.severity)
}

/// Returns `n` rates of 1,000 MB/s with noise of the given deviation in percent.
fn noise(n: usize, percent: f64, random: &mut SplitMix64) -> Vec<u64> {
    let mut rates = Vec::with_capacity(n);
    for _ in 0..n {
        // The sum of twelve uniform numbers minus six is approximately normal.
        let mut sum = -6.0;
        for _ in 0..12 {
            sum += (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        }
        rates.push((1_000.0 * (1.0 + percent / 100.0 * sum)).round() as u64);
    }
    rates
}

#[test]
fn notes_single_extreme_of_many() {
    let mut rates = vec![1_000, 1_020, 990, 1_010, 980, 1_030, 1_000, 995, 1_005, 1_015, 985];
    rates.push(300);
    let judged = pass(&requested(&rates), Pass::Write);
    let outlier = &judged.caveats[0];
    assert_eq!((outlier.code, outlier.severity), (CaveatCode::Outlier, Severity::Note));
    assert!(outlier.is_minor() && judged.verdict == Verdict::Valid, "{judged:?}");
    insta::assert_snapshot!(outlier.evidence);
    // The same without a requested accuracy, where the smallest effect of 5 % counts.
    assert_eq!(severity_of(&writes(&rates), CaveatCode::Outlier), Some(Severity::Note));
}

#[test]
fn marks_row_for_harmful_outliers() {
    // With five trials, an outlier is one end of the interval.
    let few = [1_000, 1_010, 1_005, 995, 600];
    assert_eq!(severity_of(&requested(&few), CaveatCode::Outlier), Some(Severity::Degraded));
    // Three of ten agree, so the target has two modes.
    let two_ways = [1_000, 1_001, 999, 1_002, 998, 1_003, 997, 700, 701, 699];
    assert_eq!(severity_of(&requested(&two_ways), CaveatCode::Outlier), Some(Severity::Degraded));
    // Within the requested accuracy, but beyond the smallest effect.
    let near = [1_000, 1_001, 1_002, 1_003, 880];
    assert_eq!(severity_of(&writes(&near), CaveatCode::Outlier), Some(Severity::Degraded));
    assert_eq!(severity_of(&requested(&near), CaveatCode::Outlier), Some(Severity::Note));
}

#[test]
fn marks_drift_beyond_requested_accuracy() {
    let little = [1_000, 990, 970, 960, 940];
    assert_eq!(severity_of(&writes(&little), CaveatCode::Drift), Some(Severity::Degraded));
    assert_eq!(severity_of(&requested(&little), CaveatCode::Drift), Some(Severity::Note));
    assert_eq!(pass(&requested(&little), Pass::Write).verdict, Verdict::Valid);
    let much = [1_000, 970, 940, 910, 880];
    assert_eq!(severity_of(&requested(&much), CaveatCode::Drift), Some(Severity::Degraded));
    assert_eq!(pass(&requested(&much), Pass::Write).verdict, Verdict::Degraded);
}

#[test]
fn marks_row_for_rare_outlier() {
    for n in [5, 6, 9, 15, 25] {
        let mut random = SplitMix64::new(n as u64);
        let mut seen = 0;
        let mut marked = 0;
        for _ in 0..50 {
            let mut rates = noise(n, 1.0, &mut random);
            rates[n / 2] = 500;
            match severity_of(&requested(&rates), CaveatCode::Outlier) {
                Some(Severity::Note) => seen += 1,
                Some(_) => (seen, marked) = (seen + 1, marked + 1),
                None => {}
            }
        }
        assert!(seen >= 35, "{n} trials: seen in {seen} of 50");
        // With six and fewer, the lowest trial is part of the interval.
        let expected = if n <= 6 { seen } else { 0 };
        assert_eq!(marked, expected, "{n} trials, seen in {seen}");
    }
}

#[test]
fn marks_aging_target_for_any_count() {
    for n in [5, 8, 15, 25] {
        let mut random = SplitMix64::new(n as u64);
        let mut marked = 0;
        for _ in 0..50 {
            let mut rates = noise(n, 2.0, &mut random);
            for (at, rate) in rates.iter_mut().enumerate() {
                *rate = *rate * (1_000 - 300 * at as u64 / (n as u64 - 1)) / 1_000;
            }
            marked += u32::from(
                severity_of(&requested(&rates), CaveatCode::Drift) == Some(Severity::Degraded),
            );
        }
        assert!(marked >= 45, "{n} trials: {marked} of 50");
    }
}
