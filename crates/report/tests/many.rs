//! Campaigns of thousands of runs: every report of them is made, and a page stays small.

mod campaigns;

use std::fs;

use campaigns::{made, spec};
use model::{BackendKind, Campaign, Durability, Histogram, Workload};
use report::{Format, render};

/// A page that browsers open at once.
const PAGE_BYTES_MAX: usize = 5_000_000;

/// So many runs of one workload, none with the settings of another.
fn many(runs: u32, workload: Workload, trials: u32) -> Campaign {
    let run = |index: u32| {
        let mut spec = spec("nfs", BackendKind::Nfs, workload);
        spec.workers = 1 + index % 10;
        spec.queue_depth = 1 + index / 10 % 10;
        spec.io_size_bytes = 4_096 << (index / 100 % 10);
        spec.file_size_bytes = (64 << 20) << (index / 1_000 % 10);
        spec.durability = [Durability::None, Durability::Sync][(index / 10_000 % 2) as usize];
        spec.read_percent = index / 20_000;
        (spec, 10 + u64::from(index % 97), trials)
    };
    let mut campaign = made((0..runs).map(run).collect());
    let trials = campaign.runs.iter_mut().flat_map(|run| &mut run.trials);
    for kind in trials.flat_map(|trial| &mut trial.passes).flat_map(|pass| &mut pass.kinds) {
        let mut times = Histogram::sparse();
        times.record_n(kind.service_time.quantile(0.5), kind.done);
        (kind.service_time, kind.response_time) = (times.clone(), times);
    }
    campaign
}

#[test]
fn a_page_of_ten_thousand_runs_is_small_and_has_them_all() {
    let page = render(&many(10_000, Workload::Mixed, 3), Format::Html);
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    let data = page.split("<script type=\"application/json\">").nth(1).unwrap();
    let data: serde_json::Value =
        serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    assert_eq!(data["rows"].as_array().unwrap().len(), 10_000);
    assert!(page.contains("10 highest and the 10 lowest of 10000 rows"));
    assert!(page.contains("more runs: see JSON and the results file."));
    // The browser group opens it.
    fs::write(format!("{}/ten-thousand.html", env!("CARGO_TARGET_TMPDIR")), page).unwrap();
}

#[test]
fn a_hundred_thousand_runs_are_reported() {
    let campaign = many(100_000, Workload::Mixed, 1);
    let page = render(&campaign, Format::Html);
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    assert!(page.contains("The first 30000 of 100000 rows"));
    assert_eq!(render(&campaign, Format::Csv).lines().count(), 100_001);
}
