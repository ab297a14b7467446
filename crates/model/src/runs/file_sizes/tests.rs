//! Checks texts, shapes, limits and totals of distributions.

use super::*;

fn parsed(text: &str) -> SizeDistribution {
    text.parse().unwrap()
}

/// Returns the sizes of `count` files in ascending order.
fn sorted(text: &str, count: u64, seed: u64) -> Vec<u64> {
    let files = FileSizes::new(parsed(text), count, seed);
    let mut sizes: Vec<u64> = (0..count).map(|file| files.size(file)).collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn writes_what_was_read() {
    for text in [
        "64KiB",
        "0B",
        "1.5GiB",
        "1TiB",
        "uniform 500B 10kB",
        "normal 1MiB 200KiB",
        "normal 146600628B 68341808B max 1GiB",
        "lognormal 64KiB 2.0",
        "lognormal 64KiB 0.125 max 512GiB",
        "list 4KiB:100",
        "list 0B:12.5 1B-4KiB:60 64KiB:27.4999999 1TiB:0.0000001",
    ] {
        assert_eq!(parsed(text).to_string(), text);
        let json = serde_json::to_string(&parsed(text)).unwrap();
        assert_eq!(json, format!("{text:?}"));
        assert_eq!(serde_json::from_str::<SizeDistribution>(&json).unwrap(), parsed(text));
    }
    assert_eq!(parsed(" fixed  4096 "), SizeDistribution::Fixed(4096));
    assert_eq!(parsed("list 4k:60% 8k:40%").to_string(), "list 4KiB:60 8KiB:40");
}

#[test]
fn refuses_bad_distributions() {
    for text in [
        "",
        "big",
        "4KiB 8KiB",
        "fixed",
        "uniform 4KiB",
        "uniform 8KiB 4KiB",
        "uniform 4KiB 8KiB 9KiB",
        "normal 4KiB",
        "normal 4KiB big",
        "normal 4KiB 1KiB max",
        "normal 4KiB 1KiB max 0",
        "lognormal 4KiB",
        "lognormal 4KiB -1",
        "lognormal 4KiB 11",
        "lognormal 4KiB 1.2345",
        "lognormal 4KiB 2 min 1KiB",
        "list",
        "list 4KiB",
        "list 4KiB:",
        "list 4KiB:x",
        "list 4KiB:101",
        "list 8KiB-4KiB:100",
        "list 4KiB:100 8KiB:100 9KiB:100 10KiB:100 11KiB:100",
        "2TiB",
    ] {
        assert!(text.parse::<SizeDistribution>().is_err(), "{text}");
    }
    let error = "list 4KiB:60 1MiB:30".parse::<SizeDistribution>().unwrap_err();
    assert_eq!(error.what, "the shares in `list 4KiB:60 1MiB:30` add up to 90 %, not to 100 %");
}

#[test]
fn seeds_only_change_the_order() {
    let text = "lognormal 64KiB 2.0";
    let order = |seed| {
        let files = FileSizes::new(parsed(text), 1000, seed);
        (0..1000).map(|file| files.size(file)).collect::<Vec<_>>()
    };
    assert_ne!(order(1), order(2));
    assert_eq!(order(1), order(1));
    assert_eq!(sorted(text, 1000, 1), sorted(text, 1000, 2));
    let files = FileSizes::new(parsed(text), 1000, 1);
    assert_eq!(files.size(1007), files.size(7));
}

#[test]
fn sizes_have_their_distribution() {
    let uniform = sorted("uniform 0B 99B", 100, 1);
    assert!(uniform.iter().copied().eq(0..100));
    // A normal distribution has 68.27 % within one deviation, and 95.45 % within two.
    let normal = sorted("normal 1MB 10kB", 10_000, 1);
    let within =
        |range: u64| normal.iter().filter(|size| size.abs_diff(1_000_000) <= range).count();
    assert_eq!((within(10_000), within(20_000)), (6_828, 9_546));
    // The median of a lognormal one is exact, and its mean is larger by e^(sigma²/2).
    let lognormal = sorted("lognormal 64KiB 1.0", 10_001, 1);
    assert_eq!(lognormal[5_000], 65_536);
    let mean = lognormal.iter().sum::<u64>() as f64 / 10_001.0;
    assert!((mean / 65_536.0 / 0.5_f64.exp() - 1.0).abs() < 2e-3, "{mean}");
    let list = sorted("list 8KiB:25 0B:25 1MiB-2MiB:50", 1_000, 1);
    assert_eq!((list[249], list[250], list[499]), (0, 8_192, 8_192));
    let upper = &list[500..];
    assert!(upper[0] >= 1 << 20 && upper[499] <= 2 << 20);
    assert_eq!(upper[250].abs_diff(3 << 19) >> 10, 1);
}

#[test]
fn limits_hold_and_total_is_exact() {
    for text in [
        "7B",
        "uniform 3B 90KiB",
        "normal 10KiB 20KiB",
        "lognormal 4KiB 4.0 max 1MiB",
        "list 4KiB:99.5 1GiB-2GiB:0.5",
    ] {
        for count in [1, 2, 77, 1_000] {
            let sizes = sorted(text, count, 5);
            let distribution = parsed(text);
            assert_eq!(distribution.total(count), sizes.iter().sum::<u64>(), "{text}");
            assert!(sizes[sizes.len() - 1] <= distribution.largest(count), "{text}");
        }
    }
    assert_eq!(sorted("lognormal 4KiB 4.0 max 1MiB", 1_000, 1)[999], 1 << 20);
    assert_eq!(sorted("normal 10KiB 20KiB", 100, 1)[0], 1);
}

#[test]
fn totals_of_many_files_fit() {
    let many = parsed("lognormal 64KiB 2.0");
    let million = many.total(1 << 20);
    // Ten times as many files have ten times the bytes, as the estimate multiplies slices.
    assert_eq!(many.total(10 << 20), 10 * million);
    assert_eq!(parsed("1TiB").total(10_000_000), 10_000_000 << 40);
    assert_eq!(parsed("uniform 1TiB 1TiB").total(20_000_000), u64::MAX);
    assert_eq!(parsed("uniform 0B 1TiB").mean(10_000_000), 1 << 39);
}

/// A host with another processor or library must compute the same sizes, so these never change.
#[test]
fn sizes_are_the_same_everywhere() {
    let distribution = parsed("lognormal 64KiB 2.0");
    let files = FileSizes::new(distribution.clone(), 1_000_000, 7);
    let sizes: Vec<u64> = (0..4).map(|file| files.size(file)).collect();
    assert_eq!(sizes, [98_333, 234_206, 2_181, 2_067_357]);
    assert_eq!(distribution.largest(1_000_000), 1_162_259_569);
}
