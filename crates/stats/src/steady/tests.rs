//! Both sides of each limit, with rates made up for it.

use model::testing::RunBuilder;
use model::{KindResult, OpKind, Pass, Sampling, Workload};

use super::*;

const SECOND: u64 = 1_000_000_000;

fn spec(interval_ms: u64) -> RunSpec {
    let sampling = Sampling { interval_ms, ..Sampling::default() };
    RunBuilder::new(Workload::Mixed).sampling(sampling).build()
}

/// A mix whose intervals of a second had these many ops each.
fn mix(ops: &[u64]) -> PassResult {
    let sample = |(number, ops): (usize, &u64)| IntervalSample {
        at_ns: (number as u64 + 1) * SECOND,
        ops: *ops,
        bytes: ops * 4096,
    };
    let window_ns = ops.len() as u64 * SECOND;
    let done = ops.iter().sum::<u64>() * 1_000_000;
    PassResult {
        window_ns,
        common_window_ns: window_ns,
        first_done_ns: window_ns,
        samples: ops.iter().enumerate().map(sample).collect(),
        ..crate::judge::tests::result(Pass::Mix, OpKind::Read, done)
    }
}

fn is_steady(ops: &[u64]) -> Option<bool> {
    let rounds = cut_rounds(&spec(1_000), &mix(ops))?;
    Steadiness::of(&rounds.rates).map(Steadiness::is_steady)
}

#[test]
fn numbers_are_those_worked_out_by_hand() {
    let found = Steadiness::of(&[100.0, 110.0, 90.0, 105.0, 95.0]).unwrap();
    assert!((found.range - 0.2).abs() < 1e-12);
    // Sum of x·y: -200 - 110 + 0 + 105 + 190 = -15; of x²: 10; over four steps, of 100.
    assert!((found.slope + 0.06).abs() < 1e-12, "{found:?}");
    assert_eq!(Steadiness::of(&[1.0]), None);
    assert_eq!(Steadiness::of(&[0.0; 5]), None);
    assert_eq!(Steadiness::of(&[]), None);
}

#[test]
fn a_range_of_a_fifth_and_a_slope_of_a_tenth_are_allowed() {
    assert_eq!(is_steady(&[1000, 1100, 900, 1100, 900]), Some(true));
    assert_eq!(is_steady(&[1000, 1101, 900, 1101, 899]), Some(false));
    assert_eq!(is_steady(&[950, 975, 1000, 1025, 1050]), Some(true));
    assert_eq!(is_steady(&[949, 974, 1000, 1026, 1052]), Some(false));
}

#[test]
fn a_stall_and_a_slow_start_are_not_steady() {
    assert_eq!(is_steady(&[1000, 1000, 1000, 0, 1000]), Some(false));
    assert_eq!(is_steady(&[400, 1000, 1000, 1000, 1000, 1000, 1000]), Some(false));
}

#[test]
fn rounds_of_longer_passes_are_longer() {
    let even: Vec<u64> = (0..13).map(|second| 1000 + second % 2 * 300).collect();
    let found = cut_rounds(&spec(1_000), &mix(&even)).unwrap();
    assert_eq!(found.shortest_ns, 2 * SECOND);
    assert_eq!(found.rates[0].to_bits(), 1150_f64.to_bits());
    assert_eq!(is_steady(&even), Some(true));
}

#[test]
fn passes_that_are_too_short_or_have_too_few_ops_are_not_judged() {
    assert_eq!(is_steady(&[1000; 4]), None);
    assert_eq!(is_steady(&[99; 5]), None);
    assert_eq!(is_steady(&[100; 5]), Some(true));
    let mut open = spec(1_000);
    open.load.rate_per_s = 499;
    assert_eq!(cut_rounds(&open, &mix(&[499; 5])), None);
    assert!(cut_rounds(&open, &mix(&[500; 5])).is_some());
    // A round of less than a second shows the scheduler.
    let mut short = mix(&[1000; 8]);
    for sample in &mut short.samples {
        sample.at_ns /= 10;
    }
    short.first_done_ns /= 10;
    assert_eq!(cut_rounds(&spec(100), &short), None);
}

#[test]
fn what_follows_the_first_end_or_comes_before_the_last_start_is_left_out() {
    let mut tail = mix(&[1000, 1000, 1000, 1000, 1000, 100]);
    let rates = cut_rounds(&spec(1_000), &tail).unwrap().rates;
    assert!(!Steadiness::of(&rates).unwrap().is_steady(), "{rates:?}");
    tail.first_done_ns = 5 * SECOND;
    let rates = cut_rounds(&spec(1_000), &tail).unwrap().rates;
    assert!(Steadiness::of(&rates).unwrap().is_steady());
    tail.start_skew_ns = SECOND / 2;
    assert_eq!(cut_rounds(&spec(1_000), &tail), None, "four are left");
}

#[test]
fn what_ends_by_its_files_is_judged_where_it_moves_them_without_syncs() {
    let of = |pass, syncs: u64| {
        let mut result = PassResult { pass, ..mix(&[1000, 1000, 1000, 0, 1000]) };
        let sync = KindResult { kind: OpKind::Sync, done: syncs, ..result.kinds[0].clone() };
        result.kinds.push(sync);
        cut_rounds(&spec(1_000), &result).is_some()
    };
    assert!(of(Pass::Read, 0) && of(Pass::Write, 0) && of(Pass::OpMix, 3));
    assert!(!of(Pass::Write, 1) && !of(Pass::Create, 0) && !of(Pass::Stat, 0));
}
