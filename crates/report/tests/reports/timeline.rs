//! Reports on the timeline of a pass: time series, stalls, the common window, and the estimate of
//! the ops that a closed loop omitted.

use model::{
    BackendKind, Campaign, Histogram, IntervalSample, IntervalTimes, Stall, Stalls, Work, Workload,
};
use report::{Format, render};

use crate::campaigns::{self, made, spec};

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
        result.interval_times = (0..8)
            .map(|second| {
                let mut times = Histogram::sparse();
                for _ in 0..ops(second) {
                    times.record(1_000_000);
                }
                // One op of the stalled trial waited all the time.
                if stalls > 0 && second == 5 {
                    times.record(1_900_000_000);
                }
                IntervalTimes { at_ns: (second + 1) * SECOND, times: times.coarse() }
            })
            .collect();
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
fn draws_response_times_of_all_trials() {
    let mut campaign = stalled();
    let page = render(&campaign, Format::Html);
    let drawing = page.split("<svg class=\"series\"").nth(2).expect("a second track");
    let drawing = drawing.split("</svg>").next().unwrap();
    // p50, p99 and max, and the areas between them.
    assert_eq!(drawing.matches("class=\"line s").count(), 3, "{drawing}");
    assert_eq!(drawing.matches("class=\"fill s").count(), 2, "{drawing}");
    // Only the maximum rises in the sixth second. In the fourth, the other trial had ops.
    let shapes: Vec<&str> = drawing
        .split("class=\"line s")
        .skip(1)
        .map(|line| line.split(" d=\"").nth(1).unwrap().split('"').next().unwrap())
        .collect();
    assert_eq!(shapes[0], shapes[1], "{shapes:?}");
    let steps = shapes[0].split(' ').zip(shapes[2].split(' '));
    let raised: Vec<usize> =
        steps.enumerate().filter(|(_, (p50, max))| p50 != max).map(|(at, _)| at).collect();
    let end = shapes[2].split(' ').position(|step| step == "H750.0").unwrap();
    assert_eq!(raised, [end - 1], "{shapes:?}");
    let json: serde_json::Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
    let intervals = &json["runs"][0]["trials"][1]["passes"][0]["interval_times"];
    assert_eq!(
        (&intervals[5]["at_ns"], &intervals[5]["count"]),
        (&(6 * SECOND).into(), &5_601.into())
    );
    assert_eq!(
        (&intervals[5]["max_ns"], &intervals[4]["max_ns"]),
        (&1_900_000_000_u64.into(), &serde_json::Value::Null)
    );
    for trial in &mut campaign.runs[0].trials {
        trial.passes[0].interval_times.clear();
    }
    assert!(!render(&campaign, Format::Html).contains("class=\"fill s"));
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
