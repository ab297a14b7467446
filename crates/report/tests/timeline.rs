//! Reports on the timeline of a pass: time series, stalls, the common window, and the estimate of
//! the ops that a closed loop omitted.

mod campaigns;

use campaigns::{made, spec};
use model::{BackendKind, Campaign, IntervalSample, Stall, Stalls, Work, Workload};
use report::{Format, render};

const SECOND: u64 = 1_000_000_000;

/// A mix of two trials of eight seconds each, one of which stalled.
fn stalled() -> Campaign {
    let mut campaign = made(vec![(spec("nfs", BackendKind::Nfs, Workload::Mixed), 1, 2)]);
    let trials = campaign.runs[0].trials.iter_mut();
    for (trial, stalls) in trials.zip([0_u32, 1]) {
        let result = &mut trial.passes[0];
        let ops = |second: u64| if stalls > 0 && (3..5).contains(&second) { 0 } else { 5_600 };
        let sample = |second: u64| IntervalSample {
            at_ns: (second + 1) * SECOND,
            ops: ops(second),
            bytes: 0,
        };
        result.samples = (0..8).map(sample).collect();
        let longest = Stall { at_ns: 3 * SECOND, lasts_ns: SECOND * 3 / 2, workers: 2 };
        result.scope.stalls = Some(Stalls { count: stalls, longest });
        result.common_window_ns = SECOND;
        result.scope.common = Some(Work { ops: 6_000, bytes: 0 });
        result.scope.slots = 2;
    }
    campaign
}

#[test]
fn draws_rate_and_stalls() {
    let page = render(&stalled(), Format::Html);
    assert!(page.contains("0.00 op/s to 5.60 kop/s"), "{page}");
    let drawing = page.split("<svg class=\"series\"").nth(1).expect("a time series");
    let drawing = drawing.split("</svg>").next().unwrap();
    assert_eq!(drawing.matches("<path").count(), 2, "{drawing}");
    assert_eq!(drawing.matches("class=\"stall\"").count(), 1, "{drawing}");
    assert!(drawing.contains("no op completed for 1.50 s"), "{drawing}");
    // Drops to zero at the end of the third second, and rises again after the fifth.
    assert!(drawing.contains("H375.0 V80.0 H500.0 V80.0 H625.0 V4.0 "), "{drawing}");
}

#[test]
fn draws_no_series_of_one_interval() {
    let page = render(&campaigns::quick(), Format::Html);
    assert!(!page.contains("Time series") && !page.contains("estimated response time"));
}

#[test]
fn shows_estimate_and_common_window() {
    let json = render(&stalled(), Format::Json);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let figure = &json["figures"][0];
    assert_eq!(figure["rate_common_window"]["median"], 6_000.0);
    for more in ["count", "mean_ns"] {
        let of = |times: &str| figure[times][more].as_u64().unwrap();
        assert!(of("estimated_response_time") > of("service_time"), "{more}");
    }
    let pass = &json["runs"][0]["trials"][1]["passes"][0];
    assert_eq!(pass["stalls"]["count"], 1);
    assert_eq!(pass["stalls"]["longest"]["lasts_ns"], SECOND * 3 / 2);
    assert_eq!(pass["common_window"]["ops"], 6_000);
    assert!(render(&stalled(), Format::Html).contains("estimated response time "));
    // An estimate is not a result in the table.
    assert!(!render(&stalled(), Format::Table).contains("estimated"));
}
