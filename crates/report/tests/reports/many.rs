//! Campaigns with thousands of runs: all reports can be rendered, and pages remain small.

use std::fs;

use model::Workload;
use report::{FactorEffects, Format, render};

use crate::campaigns::{many, matrix};

/// The size of a page that browsers open without delay.
const PAGE_BYTES_MAX: usize = 5_000_000;

#[test]
fn keeps_page_of_many_runs_small() {
    let page = render(&many(10_000, Workload::Mixed, 3), Format::Html);
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    let data = page.split("<script type=\"application/json\">").nth(1).unwrap();
    let data: serde_json::Value =
        serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    assert_eq!(data["rows"].as_array().unwrap().len(), 10_000);
    assert!(page.contains("6 lowest of 10000 rows"));
    assert!(page.contains("more runs: see JSON"));
    // Opened by the browser tests.
    fs::write(format!("{}/ten-thousand.html", env!("CARGO_TARGET_TMPDIR")), page).unwrap();
}

#[test]
fn keeps_matrix_page_small() {
    let page = render(&matrix(), Format::Html);
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    // One cell for each pair of levels of each map, named by all of its settings.
    let cells: Vec<&str> = page.split("<g class=\"pick\"><title>").skip(1).collect();
    assert_eq!(cells.len(), 2 * 5 * 4);
    for cell in cells {
        let name = cell.split("</title>").next().unwrap();
        for part in ["stream ", "io_size ", "workers ", "durability ", "MB/s", "the best of 12"] {
            assert!(name.contains(part), "{part} is not in {name}");
        }
    }
    assert_dominant_factors_make_the_panels(&page);
    // Each result of both passes is a point, and each trial is counted.
    let scatter = page.split("<h2 id=\"scatter\">").nth(1).unwrap();
    let scatter = scatter.split("</section>").next().unwrap();
    assert_eq!(scatter.matches(", p99 ").count(), 480);
    assert_eq!(page.matches(">80 % of 360 trials<").count(), 4);
    for id in ["answer", "explore", "scatter", "spread", "maps", "figures", "trials"] {
        assert!(page.contains(&format!("<li><a href=\"#{id}\">")), "{id} is not in the contents");
    }
    // Opened by the browser tests.
    fs::write(format!("{}/matrix.html", env!("CARGO_TARGET_TMPDIR")), page).unwrap();
}

#[test]
fn a_small_matrix_to_look_at() {
    let mut campaign = matrix();
    // All kinds of pictures, with few enough rows for a browser to check them in seconds.
    campaign.runs.retain(|run| run.spec.queue_depth == 8 && run.spec.io_size_bytes >= 64 << 10);
    let path = format!("{}/panels.html", env!("CARGO_TARGET_TMPDIR"));
    fs::write(path, render(&campaign, Format::Html)).unwrap();
}

/// Checks that the panels of each pass use the two settings that explain most of its variance.
fn assert_dominant_factors_make_the_panels(page: &str) {
    for pass in FactorEffects::from_campaign(&matrix()).passes {
        let effects = pass.found.as_ref().unwrap_or_else(|_| panic!("{}: no effects", pass.name));
        let mut dominant: Vec<_> = effects
            .factors
            .iter()
            .map(|effect| pass.factors[effect.factor].name.as_str())
            .collect();
        dominant.retain(|name| *name != "target");
        dominant[..2].sort_by_key(|name| *name == "durability");
        let panels = format!(
            "data-pass=\"{}\" data-x=\"workers\" data-colour=\"target\" data-columns=\"{}\" \
             data-rows=\"{}\"",
            pass.name, dominant[0], dominant[1]
        );
        assert!(page.contains(&panels), "no {panels}");
    }
    assert_eq!(page.matches("<figcaption>durability sync, io_size 64 KiB<").count(), 2);
}

#[test]
fn one_factor_makes_no_panels() {
    let page = render(&many(10, Workload::Mixed, 3), Format::Html);
    for id in ["explore", "scatter", "spread", "maps"] {
        assert!(!page.contains(&format!("<h2 id=\"{id}\"")), "{id} is in the page");
    }
}

#[test]
#[ignore = "takes a minute of CPU time: runs every night"]
fn reports_more_runs_than_page_lists() {
    let campaign = many(31_000, Workload::Mixed, 1);
    let page = render(&campaign, Format::Html);
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    assert!(page.contains("The first 30000 of 31000 rows"));
    assert_eq!(render(&campaign, Format::Csv).lines().count(), 31_001);
    let rows = |text: String| text.lines().filter(|line| line.contains("mixed")).count();
    assert!(rows(render(&campaign, Format::Table)) >= 31_000);
}
