//! Limits on results whose values are known.

use model::{BackendKind, Campaign, Histogram, Workload};
use report::{Format, RequirementOutcome, render, requirement_outcome};
use serde_json::Value;

use crate::campaigns::{made, programs, quick, spec};

/// One row of stream on `nfs` with five trials, whose reads took 8, 9, 10, 11 and 12 ms in each
/// trial and whose rates differ.
fn campaign() -> Campaign {
    let mut campaign = made(vec![(spec("nfs", BackendKind::Nfs, Workload::Stream), 10, 5)]);
    for (number, trial) in campaign.runs[0].trials.iter_mut().enumerate() {
        let read = trial.passes.last_mut().unwrap();
        read.window_ns = read.window_ns * (98 + number as u64) / 100;
        let mut times = Histogram::sparse();
        times.record_n((8 + number as u64) * 1_000_000, 1_000);
        read.kinds[0].response_time = times;
    }
    campaign
}

fn with_limits(mut campaign: Campaign, limits: &[&str]) -> Campaign {
    let tables = limits.iter().map(|limit| format!("[[require]]\nlimit = \"{limit}\"\n"));
    campaign.plan_toml = format!("name = \"x\"\n{}", tables.collect::<String>());
    campaign
}

fn checked(campaign: Campaign, limit: &str) -> Value {
    let json = render(&with_limits(campaign, &[limit]), Format::Json);
    let json: Value = serde_json::from_str(&json).unwrap();
    json["requirements"][0].clone()
}

fn outcome(campaign: Campaign, limit: &str) -> String {
    checked(campaign, limit)["outcome"].as_str().unwrap().to_owned()
}

/// The rate of the read with the ends of its interval, in bytes per second.
fn read_rates() -> [f64; 3] {
    let json = render(&campaign(), Format::Json);
    let json: Value = serde_json::from_str(&json).unwrap();
    let rate = &json["figures"][1]["rate"];
    ["interval_lo", "median", "interval_hi"].map(|end| rate[end].as_f64().unwrap())
}

#[test]
fn decides_by_whole_interval() {
    let [lo, median, hi] = read_rates();
    assert!(lo < median && median < hi, "{lo} {median} {hi}");
    for (limit, expected) in [(lo * 0.999, "met"), (median, "undecided"), (hi * 1.001, "missed")] {
        assert_eq!(outcome(campaign(), &format!("read.rate >= {}B/s", limit as u64)), expected);
    }
    for (limit, expected) in [(lo * 0.999, "missed"), (median, "undecided"), (hi * 1.001, "met")] {
        assert_eq!(outcome(campaign(), &format!("read.rate < {}B/s", limit as u64)), expected);
    }
}

#[test]
fn decides_percentiles_of_trials() {
    for quantile in ["p50", "p99", "p99.9", "max"] {
        for (limit, expected) in [("20ms", "met"), ("10ms", "undecided"), ("7ms", "missed")] {
            assert_eq!(outcome(campaign(), &format!("read.{quantile} < {limit}")), expected);
        }
    }
}

#[test]
fn limits_wall_time_of_commands() {
    for (limit, expected) in [("14s", "met"), ("12.3s", "undecided"), ("11s", "missed")] {
        assert_eq!(outcome(programs(), &format!("app.time <= {limit}")), expected);
    }
}

#[test]
fn counts_failed_ops_and_trials() {
    for (limit, expected) in [
        ("metadata.errors == 0", "met"),
        ("mixed.errors == 0", "missed"),
        ("mixed.errors <= 3", "met"),
        // The trials of one target failed.
        ("stream.errors == 0", "missed"),
    ] {
        assert_eq!(outcome(quick(), limit), expected, "{limit}");
    }
}

#[test]
fn cached_results_meet_nothing() {
    let requirement = checked(quick(), "read.rate >= 1MB/s");
    let results = requirement["results"].as_array().unwrap();
    let of = |target: &str| {
        results.iter().find(|one| one["row"].as_str().unwrap().starts_with(target)).unwrap()
    };
    assert_eq!(of("nfs")["outcome"], "met");
    assert_eq!(of("posix")["outcome"], "undecided");
    assert!(of("posix")["why"].as_str().unwrap().contains("`cached`"));
    // A limit that even the cache misses is missed.
    let missed = checked(quick(), "read.rate >= 900GB/s");
    assert_eq!(missed["results"][1]["outcome"], "missed");
}

#[test]
fn needs_three_trials() {
    let mut short = campaign();
    short.runs[0].trials.truncate(2);
    assert_eq!(outcome(short, "read.p99 < 20ms"), "undecided");
}

#[test]
fn worst_outcome_counts() {
    let worst = |limits: &[&str]| requirement_outcome(&with_limits(campaign(), limits));
    assert_eq!(worst(&[]), None);
    assert_eq!(worst(&["errors == 0"]), Some(RequirementOutcome::Met));
    let undecided = ["errors == 0", "read.p99 < 10ms"];
    assert_eq!(worst(&undecided), Some(RequirementOutcome::Undecided));
    let missed = ["read.p99 < 7ms", "read.p99 < 10ms", "errors == 0"];
    assert_eq!(worst(&missed), Some(RequirementOutcome::Missed));
}

#[test]
fn covers_runs_with_conditions() {
    let mut campaign = campaign();
    let plan = |condition: &str| {
        format!("[[require]]\nlimit = \"read.p99 < 20ms\"\nwhere = {{ {condition} }}\n")
    };
    for (condition, expected) in [
        ("workers = [\"2\"]", Some(RequirementOutcome::Met)),
        ("workers = [\"9\"]", Some(RequirementOutcome::Undecided)),
    ] {
        campaign.plan_toml = plan(condition);
        assert_eq!(requirement_outcome(&campaign), expected, "{condition}");
    }
}

#[test]
fn shows_requirements_in_every_format() {
    let limits = ["read.p99 < 20ms", "read.p99 < 10ms", "write.rate >= 900GB/s", "errors == 0"];
    let campaign = with_limits(campaign(), &limits);
    let text = render(&campaign, Format::Table);
    insta::assert_snapshot!("requirements_text", text);
    insta::assert_snapshot!("requirements_junit", render(&campaign, Format::Junit));
    let page = render(&campaign, Format::Html);
    assert_eq!(page.matches("id=\"requirements\"").count(), 1);
    for limit in limits {
        let escaped = limit.replace('<', "&lt;").replace('>', "&gt;");
        assert!(page.contains(&escaped), "{limit}");
    }
}
