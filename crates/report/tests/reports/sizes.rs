//! Sweeps over file sizes: a known cache is reported with the memory that explains it.

use model::testing::RunBuilder;
use model::{BackendKind, Campaign, Fact, Target, Workload};
use report::{Format, render};
use serde_json::Value;

use crate::campaigns::{made, spec};

const MIB: u64 = 1 << 20;

/// Returns files of 256 MiB to 4 GiB in a directory, each with its own speed.
fn sweep(memory: &str, speeds: [u64; 5]) -> Campaign {
    let mut runs = Vec::new();
    for (power, speed) in speeds.into_iter().enumerate() {
        let plain = spec("posix", BackendKind::Posix, Workload::Stream);
        let size = (256 * MIB) << power;
        let run = RunBuilder::from(plain).files(1).workers(1).file_size_bytes(size).build();
        // The time of a trial does not depend on the size of its files.
        runs.push((run, speed, 3));
    }
    let mut campaign = made(runs);
    for (run, power) in campaign.runs.iter_mut().zip(0..) {
        for pass in run.trials.iter_mut().flat_map(|trial| &mut trial.passes) {
            pass.window_ns <<= power;
            pass.common_window_ns <<= power;
            pass.caveats.clear();
        }
    }
    campaign.facts = vec![Fact::new("host", "memory", memory, "planted")];
    campaign
}

/// Returns the sentence about falling rates of reads.
fn falls(campaign: &Campaign) -> String {
    let markdown = render(campaign, Format::Markdown);
    let line = markdown.lines().find(|line| line.contains("stream read falls"));
    line.unwrap_or_else(|| panic!("{markdown}")).to_owned()
}

#[test]
fn names_memory_that_explains_cache() {
    let campaign = sweep("2 GiB", [100, 100, 100, 10, 10]);
    // A host with sixteen times as much memory does not explain it.
    let other = sweep("32 GiB", [100, 100, 100, 10, 10]);
    insta::assert_snapshot!([falls(&campaign), falls(&other)].join("\n"));
    let json: Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
    let fall = &json["size_sweeps"][1]["falls"][0];
    assert_eq!(fall["size_before_bytes"].as_f64(), Some((1024 * MIB) as f64));
}

#[test]
fn excludes_targets_without_page_cache() {
    for target in Target::PLAIN {
        let mut campaign = sweep("2 GiB", [100, 100, 100, 10, 10]);
        for run in &mut campaign.runs {
            run.spec.target = target.clone();
            run.spec.backend = target.row().backends[0];
        }
        let text = render(&campaign, Format::Markdown);
        assert!(text.contains("a cache of about 1.4 GiB"), "{target}: {text}");
        assert!(!text.contains("page cache explains"), "{target}: {text}");
    }
}

#[test]
fn names_no_cache_without_fall() {
    let campaign = sweep("2 GiB", [100, 100, 100, 100, 100]);
    let text = render(&campaign, Format::Table);
    assert!(!text.contains("Sizes at which"), "{text}");
    let markdown = render(&campaign, Format::Markdown);
    assert!(markdown.contains("stream read has no knee"), "{markdown}");
    assert!(!markdown.contains("a cache of"), "{markdown}");
}
