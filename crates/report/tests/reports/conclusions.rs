//! Claims that a plan declares, judged by known results.

use model::testing::RunBuilder;
use model::{BackendKind, Campaign, Workload};
use report::{Format, render};
use serde_json::Value;

use crate::campaigns::{made, spec};

/// Returns a campaign in which four workers are twice as fast as one, and the I/O size has no
/// effect.
fn campaign(conclusions: &str) -> Campaign {
    let mut runs = Vec::new();
    for workers in [1_u32, 4] {
        for io_size in [65_536_u32, 1 << 20] {
            let plain = spec("nfs", BackendKind::Nfs, Workload::Stream);
            let run = RunBuilder::from(plain).workers(workers).io_size_bytes(io_size).build();
            runs.push((run, if workers == 1 { 10 } else { 20 }, 5));
        }
    }
    let mut campaign = made(runs);
    campaign.plan_toml = format!("name = \"x\"\n{conclusions}");
    campaign
}

fn conclusion(keys: &str) -> String {
    format!("[[conclusion]]\ntext = \"It is so.\"\n{keys}\n")
}

fn judged(keys: &str) -> Value {
    let json = render(&campaign(&conclusion(keys)), Format::Json);
    let json: Value = serde_json::from_str(&json).unwrap();
    json["conclusions"][0].clone()
}

#[test]
fn judges_every_kind_of_sentence() {
    for (keys, outcome, shows) in [
        ("factor = \"workers\"\nexpect = \"faster\"", "borne out", "4 is 2.00x"),
        (
            "factor = \"workers\"\nfrom = \"4\"\nto = \"1\"\nexpect = \"slower\"",
            "borne out",
            "0.50x",
        ),
        ("factor = \"workers\"\nexpect = \"no difference\"", "contradicted", "2.00x"),
        ("factor = \"io_size\"\nexpect = \"no difference\"", "borne out", "1.00x"),
        ("factor = \"io_size\"\nexpect = \"faster\"", "contradicted", "1 MiB is 1.00x"),
        ("factor = \"workers\"\nexpect = \"matters most\"", "borne out", "of the variance"),
        ("factor = \"io_size\"\nexpect = \"matters most\"", "contradicted", "workers explains"),
        (
            "factor = \"workers\"\nto = \"9\"\nexpect = \"faster\"",
            "undecided",
            "no run has workers 9",
        ),
        ("factor = \"mtu\"\nexpect = \"faster\"", "undecided", "no run has mtu"),
        (
            "factor = \"fact.kernel\"\nexpect = \"faster\"",
            "undecided",
            "fact.kernel differs only between campaigns",
        ),
        ("factor = \"files\"\nexpect = \"faster\"", "undecided", "all runs have files 4"),
        ("expect = \"ranking\"", "answered", "stream read: workers 100 %"),
        ("why = \"a matter of taste\"", "undecided", "a matter of taste"),
    ] {
        let found = judged(keys);
        assert_eq!(found["outcome"], outcome, "{keys}: {found}");
        assert!(found["shows"].as_str().unwrap().contains(shows), "{keys}: {found}");
    }
}

#[test]
fn limits_sentence_to_passes_and_runs() {
    let keys = "factor = \"workers\"\npasses = [\"read\"]\nwhere = { io_size = [\"64KiB\"] }\n\
                expect = \"faster\"";
    let found = judged(keys);
    let passes = found["comparisons"].as_array().unwrap();
    assert_eq!(passes.len(), 1);
    assert_eq!(
        (passes[0]["pass"].as_str(), passes[0]["trials"].as_u64()),
        (Some("stream read"), Some(10))
    );
    let none =
        judged("factor = \"workers\"\nwhere = { io_size = [\"4KiB\"] }\nexpect = \"faster\"");
    assert_eq!(none["outcome"], "undecided");
}

#[test]
fn puts_conclusions_first() {
    let keys = conclusion("factor = \"workers\"\nexpect = \"faster\"");
    let campaign = campaign(&keys);
    let text = render(&campaign, Format::Table);
    let line = "borne out: \"It is so\": stream write: workers 4 is 2.00x";
    assert!(text.contains(line), "{text}");
    assert!(text.find(line) < text.find("target"), "{text}");
    let markdown = render(&campaign, Format::Markdown);
    assert!(markdown.contains("| It is so. | borne out | stream write: "), "{markdown}");
    let page = render(&campaign, Format::Html);
    assert!(page.contains("<h2 id=\"conclusions\">Conclusions</h2>"));
    // A plan without conclusions has no such section.
    let without = render(&made(Vec::new()), Format::Markdown);
    assert!(!without.contains("Conclusions"), "{without}");
}

#[test]
fn names_interacting_factor() {
    let mut runs = Vec::new();
    for (workers, io_size) in [(1_u32, 65_536_u32), (4, 1 << 20)] {
        let plain = spec("nfs", BackendKind::Nfs, Workload::Stream);
        let run = RunBuilder::from(plain).workers(workers).io_size_bytes(io_size).build();
        runs.push((run, 10 * u64::from(workers), 5));
    }
    let mut campaign = made(runs);
    campaign.plan_toml = conclusion("factor = \"io_size\"\nexpect = \"faster\"");
    let json: Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
    let found = &json["conclusions"][0];
    assert_eq!(found["outcome"], "borne out");
    assert!(found["shows"].as_str().unwrap().contains("together with workers"), "{found}");
}
