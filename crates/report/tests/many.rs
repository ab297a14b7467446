//! Campaigns of thousands of runs: every report of them is made, and a page remains small.

mod campaigns;

use std::fs;

use campaigns::{many, matrix};
use model::Workload;
use report::{Format, render};

/// A page that browsers open at once.
const PAGE_BYTES_MAX: usize = 5_000_000;

#[test]
fn a_page_of_ten_thousand_runs_is_small_and_has_them_all() {
    let page = render(&many(10_000, Workload::Mixed, 3), Format::Html);
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    let data = page.split("<script type=\"application/json\">").nth(1).unwrap();
    let data: serde_json::Value =
        serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    assert_eq!(data["rows"].as_array().unwrap().len(), 10_000);
    assert!(page.contains("6 highest and the 6 lowest of 10000 rows"));
    assert!(page.contains("more runs: see JSON and the results file."));
    // The browser group opens it.
    fs::write(format!("{}/ten-thousand.html", env!("CARGO_TARGET_TMPDIR")), page).unwrap();
}

#[test]
fn a_page_of_a_matrix_is_small() {
    let page = render(&matrix(), Format::Html);
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    // A cell for each pair of levels of each map, named by all its settings.
    let cells: Vec<&str> = page.split("<g class=\"pick\"><title>").skip(1).collect();
    assert_eq!(cells.len(), 2 * 5 * 4);
    for cell in cells {
        let name = cell.split("</title>").next().unwrap();
        for part in ["stream ", "io_size ", "workers ", "durability ", "MB/s", "the best of 12"] {
            assert!(name.contains(part), "{part} is not in {name}");
        }
    }
    for id in ["answer", "maps", "figures", "trials"] {
        assert!(page.contains(&format!("<li><a href=\"#{id}\">")), "{id} is not in the contents");
    }
    // The browser group opens it.
    fs::write(format!("{}/matrix.html", env!("CARGO_TARGET_TMPDIR")), page).unwrap();
}

#[test]
fn a_hundred_thousand_runs_are_reported() {
    let campaign = many(100_000, Workload::Mixed, 1);
    let page = render(&campaign, Format::Html);
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    assert!(page.contains("The first 30000 of 100000 rows"));
    assert_eq!(render(&campaign, Format::Csv).lines().count(), 100_001);
    let rows = |text: String| text.lines().filter(|line| line.contains("mixed")).count();
    assert!(rows(render(&campaign, Format::Table)) >= 100_000);
}
