//! Tests of the buckets, exact statistics, the error bound of quantiles, exact merging, omitted
//! values, and invalid encodings.
//!
//! Samples come from proptest, which prints failing cases.

use super::*;
use proptest::prelude::*;

#[test]
fn rejects_minimum_above_maximum() {
    // Version, min, max, sum, then a bucket with its count.
    assert_eq!(Histogram::from_bytes(&[1, 33, 0, 0, 0, 1]), None);
    assert!(Histogram::from_bytes(&[1, 33, 34, 0, 0, 1]).is_some());
}

#[test]
fn covers_all_values_with_buckets() {
    assert_eq!(bucket_of::<SUB_BITS>(u64::MAX), BUCKETS - 1);
    for bucket in 1..BUCKETS {
        let lowest = lowest_of::<SUB_BITS>(bucket);
        assert_eq!(bucket_of::<SUB_BITS>(lowest), bucket);
        assert_eq!(bucket_of::<SUB_BITS>(lowest - 1), bucket - 1);
    }
}

#[test]
fn exact_figures_of_a_small_sample() {
    let mut h = Histogram::new();
    for v in [10, 20, 30, 40] {
        h.record(v);
    }
    assert_eq!((h.count(), h.min(), h.max(), h.mean()), (4, 10, 40, 25));
    assert_eq!((h.quantile(0.5), h.quantile(0.75), h.quantile(1.0)), (20, 30, 40));
    assert_eq!(Histogram::new().quantile(0.5), 0);
}

#[test]
fn allocates_only_used_buckets() {
    let mut h = Histogram::sparse();
    h.record(1_000_000);
    h.record(1_200_000);
    assert!(h.counts.len() <= 64, "{}", h.counts.len());
    let read = Histogram::from_bytes(&h.to_bytes()).unwrap();
    assert_eq!((read.counts.len(), read.packed.len() < 16, &read), (0, true, &h));
    assert_eq!((h.packed().packed, &h.packed()), (read.packed.clone(), &h));
    assert_eq!(Histogram::sparse(), Histogram::new());
}

#[test]
fn continues_counting_after_unpacking() {
    let mut h = Histogram::sparse();
    for value in [3, 70, 1_000, 1_000_000_000] {
        h.record_n(value, value);
    }
    let mut packed = h.packed();
    assert_eq!((packed.quantile(0.5), packed.to_bytes()), (h.quantile(0.5), h.to_bytes()));
    let mut merged = h.clone();
    merged.merge(&packed);
    packed.merge(&h);
    assert_eq!((packed.count(), &packed), (2 * h.count(), &merged));
    for values in [&mut packed, &mut merged] {
        values.record(5);
    }
    assert_eq!(packed, merged);
    let mut cleared = h.packed();
    cleared.clear();
    assert_eq!(cleared, Histogram::new());
    assert_eq!(Histogram::sparse().packed(), Histogram::new());
}

#[test]
fn rejects_duplicate_or_empty_buckets() {
    let of = |pairs: &[u8]| Histogram::from_bytes(&[&[1, 1, 9, 30], pairs].concat());
    assert!(of(&[0, 1, 2, 1]).is_some());
    assert!(of(&[1, 1, 0, 1]).is_none(), "a bucket again");
    assert!(of(&[1, 0]).is_none(), "a bucket without values");
}

#[test]
fn corrects_for_coordinated_omission() {
    // 900 ops of 1 ms and one of 100 ms: 98 more were scheduled, from 99 ms down to 2 ms and 1 ms.
    let mut h = Histogram::new();
    h.record_n(1_000_000, 900);
    h.record(100_000_000);
    let estimate = h.with_omitted(1_000_000);
    // The middle of the bucket of 100 ms is slightly above it, so the maximum is used.
    assert_eq!(estimate.count(), 901 + 99);
    assert_eq!((estimate.min(), estimate.max()), (1_000_000, 100_000_000));
    assert!(h.quantile(0.99) < 1_010_000 && estimate.quantile(0.99) > 89_000_000);
    assert_eq!(h.with_omitted(0), h);
    assert_eq!(h.with_omitted(u64::MAX), h);
    assert_eq!(Histogram::new().with_omitted(5), Histogram::new());
}

#[test]
fn keeps_error_bound_in_every_bucket() {
    for bucket in 0..BUCKETS {
        let lowest = lowest_of::<SUB_BITS>(bucket);
        let highest = match bucket + 1 {
            BUCKETS => u64::MAX,
            next => lowest_of::<SUB_BITS>(next) - 1,
        };
        let middle = middle_of::<SUB_BITS>(bucket);
        for value in [lowest, highest] {
            // In integers: 128 times the error is at most the value.
            let error = u128::from(middle.abs_diff(value));
            assert!(error * 128 <= u128::from(value), "{value} in bucket {bucket}");
        }
    }
    assert!((QUANTILE_ERROR_MAX - 1.0 / 128.0).abs() < f64::EPSILON);
}

proptest! {
    #[test]
    fn quantiles_stay_within_the_stated_bound(
        mut values in prop::collection::vec(
            (0_u64..=u64::MAX, 0_u32..64).prop_map(|(bits, shift)| bits >> shift), 1..300),
        q in 0.0_f64..1.0,
    ) {
        let mut h = Histogram::new();
        for v in &values {
            h.record(*v);
        }
        values.sort_unstable();
        let rank = ((q * values.len() as f64).ceil() as usize).max(1);
        let exact = values[rank - 1] as f64;
        let error = (h.quantile(q) as f64 - exact).abs();
        prop_assert!(error <= exact * QUANTILE_ERROR_MAX + 0.5, "{error} of {exact}");
    }

    #[test]
    fn merging_equals_recording_together(
        a in prop::collection::vec(any::<u64>(), 0..50),
        b in prop::collection::vec(any::<u64>(), 0..50),
    ) {
        let of = |values: &[u64]| {
            let mut h = Histogram::new();
            for v in values {
                h.record(*v);
            }
            h
        };
        let mut merged = of(&a);
        merged.merge(&of(&b));
        let mut sparse = Histogram::sparse();
        sparse.merge(&of(&b));
        for value in &a {
            sparse.record(*value);
        }
        prop_assert_eq!(&merged, &sparse);
        prop_assert_eq!(merged.quantile(0.7), sparse.quantile(0.7));
        let both: Vec<u64> = a.iter().chain(&b).copied().collect();
        prop_assert_eq!(&merged, &of(&both));
        prop_assert_eq!(Histogram::from_bytes(&merged.to_bytes()), Some(merged));
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Some(histogram) = Histogram::from_bytes(&bytes) {
            let _ = histogram.with_omitted(bytes.len() as u64);
        }
    }

    #[test]
    fn omits_what_definition_says(
        values in prop::collection::vec(0_u64..50_000, 0..40),
        pace in 1_u64..20_000,
    ) {
        let mut h = Histogram::new();
        let mut exact = Histogram::new();
        for v in &values {
            h.record(*v);
        }
        exact.merge(&h);
        for (bucket, count) in h.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let value = middle_of::<SUB_BITS>(bucket).clamp(h.min, h.max);
            let mut missing = value.saturating_sub(pace);
            while missing >= pace {
                exact.record_n(missing, *count);
                missing -= pace;
            }
        }
        prop_assert_eq!(h.with_omitted(pace), exact);
    }
}

#[test]
fn coarse_copy_takes_less_space() {
    let mut h = Histogram::sparse();
    for value in 0..4_000 {
        h.record(100_000 + value * 100);
    }
    let coarse = h.coarse();
    assert_eq!((coarse.count(), coarse.min(), coarse.max()), (4_000, h.min(), h.max()));
    assert_eq!(coarse.mean(), h.mean());
    let [fine_bytes, coarse_bytes] = [&h, &coarse].map(|h| h.to_bytes().len());
    assert!(coarse_bytes * 3 < fine_bytes, "{coarse_bytes} B of {fine_bytes} B");
    assert_eq!(coarse.coarse(), coarse);
}

#[test]
fn counts_of_buckets_make_a_histogram() {
    let mut h = Histogram::new();
    for value in [3, 70, 1_000, 1_000_000] {
        h.record_n(value, value);
    }
    let mut counts = vec![0; Histogram::BUCKETS];
    for (bucket, count) in h.non_empty_buckets() {
        counts[bucket] = count;
    }
    assert_eq!(Histogram::from_counts(&counts, h.sum, h.min()..=h.max()), h);
    let close = Histogram::from_buckets(&counts);
    assert_eq!((close.count(), close.quantile(0.0)), (h.count(), 3));
    assert!(close.max().abs_diff(h.max()) <= h.max() / 128);
    counts.fill(0);
    assert_eq!(Histogram::from_buckets(&counts), Histogram::new());
}

proptest! {
    #[test]
    fn coarse_quantiles_are_close(
        values in prop::collection::vec(any::<u64>(), 1..200),
        q in 0.0..=1.0_f64,
    ) {
        let mut h = Histogram::sparse();
        for value in &values {
            h.record(*value);
        }
        let mut sorted = values;
        sorted.sort_unstable();
        let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
        let exact = sorted[rank - 1];
        let found = h.coarse().quantile(q);
        prop_assert!(found.abs_diff(exact) <= exact / 128 * 5 + 5, "{found} for {exact}");
    }
}
