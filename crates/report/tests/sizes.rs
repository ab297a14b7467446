//! Sweeps over file sizes: a known cache is reported with the memory that explains it.

mod campaigns;

use campaigns::{made, spec};
use model::testing::RunBuilder;
use model::{BackendKind, Campaign, Fact, Target, Workload};
use report::{Format, render};
use serde_json::Value;

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

#[test]
fn names_memory_that_explains_cache() {
    let campaign = sweep("2 GiB", [100, 100, 100, 10, 10]);
    let text = render(&campaign, Format::Table);
    let line = text.lines().skip_while(|line| !line.contains("stream read falls"));
    let words: Vec<&str> = line.flat_map(str::split_whitespace).collect();
    let sentence = words.join(" ");
    let expected = "between 1 GiB and 2 GiB: a cache of about 1.4 GiB, which the page cache \
                    explains: this host has 2.0 GiB of memory.";
    assert!(sentence.contains(expected), "{text}");
    // A host with sixteen times as much memory does not explain it.
    let other = render(&sweep("32 GiB", [100, 100, 100, 10, 10]), Format::Markdown);
    assert!(other.contains("and no page cache explains it: this host has 32 GiB"), "{other}");
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
    assert!(markdown.contains("stream read has no knee from 256 MiB to 4 GiB."), "{markdown}");
    assert!(!markdown.contains("a cache of"), "{markdown}");
}
