//! Clusters of data servers: how rates grow with them, how even they are, and a slow one by name.

use model::testing::RunBuilder;
use model::{BackendKind, Campaign, Histogram, Pass, PathWork, PnfsWork, Workload};
use report::{Format, render};
use serde_json::Value;

use crate::campaigns::{made, spec};

const MIB: u64 = 1 << 20;

/// Work of data servers that each moved this many MiB, with 100 calls per MiB of this duration.
fn work(servers: &[(u64, u64)], metadata_bytes: u64) -> PnfsWork {
    let server = |(number, (mib, ns)): (usize, &(u64, u64))| {
        let mut times = Histogram::new();
        times.record_n(*ns, mib * 100);
        let address = format!("10.0.0.{}:2049", number + 1);
        let (ops, bytes) = (mib * 100, mib * MIB);
        PathWork { address, connections: 1, ops, bytes, times, ..PathWork::default() }
    };
    PnfsWork { data_servers: servers.iter().enumerate().map(server).collect(), metadata_bytes }
}

/// A target for each number of data servers, with its speed.
fn clusters(speeds: &[(u32, u64)]) -> Campaign {
    let run = |(servers, speed): &(u32, u64)| {
        let name = format!("cluster{servers}");
        let spec = spec(&name, BackendKind::Nfs, Workload::Stream);
        (RunBuilder::from(spec).build(), *speed, 5)
    };
    let mut campaign = made(speeds.iter().map(run).collect());
    for (run, (servers, _)) in campaign.runs.iter_mut().zip(speeds) {
        let even = vec![(4, 100_000); *servers as usize];
        for pass in run.trials.iter_mut().flat_map(|trial| &mut trial.passes) {
            pass.scope.pnfs = (*servers > 0).then(|| work(&even, 0));
        }
    }
    campaign
}

/// Lines of a section in Markdown, from its heading to the next one.
fn section(campaign: &Campaign, heading: &str) -> Option<String> {
    let markdown = render(campaign, Format::Markdown);
    let begin = markdown.find(&format!("## {heading}\n"))?;
    let lines = markdown[begin..].lines();
    let end = lines.clone().skip(1).position(|line| line.starts_with("## "));
    Some(lines.take(end.map_or(usize::MAX, |end| end + 1)).collect::<Vec<_>>().join("\n"))
}

fn json(campaign: &Campaign) -> Value {
    serde_json::from_str(&render(campaign, Format::Json)).unwrap()
}

#[test]
fn compares_clusters_with_ideal() {
    let campaign = clusters(&[(1, 10), (2, 20), (4, 30)]);
    insta::assert_snapshot!(section(&campaign, "Scaling").unwrap());
    let json = json(&campaign);
    let points = &json["scaling"][0]["points"];
    let percent = |at: usize| points[at]["efficiency_percent"].as_f64().unwrap().round() as u32;
    assert_eq!([0, 1, 2].map(percent), [100, 100, 75]);
    let text = render(&campaign, Format::Table);
    assert!(text.contains("cluster4 are 2.0x to 3.0x cluster1"), "{text}");
    assert!(text.contains("efficiency") && text.contains("75 %"), "{text}");
    let page = render(&campaign, Format::Html);
    assert!(page.contains("class=\"ideal s0\"") && page.contains("ideal: the rate"));
}

#[test]
fn two_clusters_have_a_figure() {
    let campaign = clusters(&[(1, 10), (4, 40)]);
    let page = render(&campaign, Format::Html);
    assert!(page.contains("stream write along data_servers"));
    assert_eq!(json(&campaign)["scaling"].as_array().unwrap().len(), 2);
}

#[test]
fn cuts_off_ideal_above_plot() {
    // The ideal of 64 is far above the rates.
    let page = render(&clusters(&[(1, 10), (64, 10)]), Format::Html);
    let ideals = page.matches("class=\"ideal s0\"").count();
    assert!(ideals > 0 && ideals < 16, "{ideals}");
}

#[test]
fn equal_clusters_have_no_scaling() {
    // Nothing tells their numbers apart, or nothing is known about them.
    for speeds in [&[(4, 10)][..], &[(0, 10)]] {
        let campaign = clusters(speeds);
        assert_eq!(section(&campaign, "Scaling"), None);
        let page = render(&campaign, Format::Html);
        assert!(!page.contains("class=\"ideal") && json(&campaign).get("scaling").is_none());
    }
    assert_eq!(section(&clusters(&[(0, 10)]), "Data servers"), None);
}

#[test]
fn ambiguous_clusters_are_not_joined() {
    // Two targets with four data servers each: which one continues the line?
    let mut campaign = clusters(&[(1, 10), (4, 40), (4, 20)]);
    "other".clone_into(&mut campaign.runs[2].spec.target_name);
    assert_eq!(section(&campaign, "Scaling"), None);
}

#[test]
fn explains_unused_data_servers() {
    let mut campaign = clusters(&[(1, 10), (4, 10)]);
    let one = work(&[(4, 100_000)], 0);
    for pass in campaign.runs[1].trials.iter_mut().flat_map(|trial| &mut trial.passes) {
        if pass.pass == Pass::Read {
            pass.scope.pnfs = Some(one.clone());
        }
    }
    let text = section(&campaign, "Scaling").unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.contains("named only 1")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].contains("stream read, data_servers 4"), "{text}");
}

#[test]
fn names_slow_data_server() {
    let mut campaign = clusters(&[(3, 10)]);
    for pass in campaign.runs[0].trials.iter_mut().flat_map(|trial| &mut trial.passes) {
        let slow = work(&[(6, 100_000), (3, 410_000), (3, 100_000)], 4 * MIB);
        // The other pass has even servers.
        if pass.pass == Pass::Read {
            pass.scope.pnfs = Some(slow);
        }
    }
    insta::assert_snapshot!(section(&campaign, "Data servers").unwrap());
    let json = json(&campaign);
    let [written, read] = [0, 1].map(|at| &json["figures"][at]["data_servers"]);
    assert_eq!(written["slow"].as_array().unwrap().len(), 0);
    assert_eq!(read["slow"][0], "10.0.0.2:2049");
    assert_eq!([&written["busiest_over_mean"], &read["busiest_over_mean"]], [1.0, 1.5]);
    assert_eq!([&written["direct_percent"], &read["direct_percent"]], [100.0, 75.0]);
    let pass = &json["runs"][0]["trials"][0]["passes"][1];
    assert_eq!(pass["data_servers"][1]["bytes"], 3 * MIB);
    assert_eq!(pass["metadata_server_bytes"], 4 * MIB);
}
