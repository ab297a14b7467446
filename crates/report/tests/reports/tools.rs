//! fio next to dfsbench: the ratio, and reasons that are checked rather than guessed.

use model::{BackendKind, Campaign, CaveatCode, Durability, Pass, RunSpec, Workload};
use report::{Format, render};
use serde_json::Value;

use crate::campaigns::{made, spec};

/// One pass of fio with these arguments, and the same of ours.
fn pair(pass: Pass, arguments: &[&str], change: impl Fn(&mut RunSpec)) -> [RunSpec; 2] {
    [Workload::Fio, Workload::Stream].map(|workload| {
        let mut run = spec("dir", BackendKind::Posix, workload);
        run.passes = vec![pass];
        change(&mut run);
        if workload == Workload::Fio {
            run.command.run = arguments.iter().map(|word| (*word).to_owned()).collect();
        }
        run
    })
}

fn campaign([fio, own]: [RunSpec; 2], speeds: [u64; 2]) -> Campaign {
    made(vec![(fio, speeds[0], 5), (own, speeds[1], 5)])
}

fn comparison(campaign: &Campaign) -> Value {
    let json: Value = serde_json::from_str(&render(campaign, Format::Json)).unwrap();
    json["tool_comparisons"][0].clone()
}

/// Returns true if there is a reason that contains this text, with this finding.
fn has(comparison: &Value, finding: &str, text: &str) -> bool {
    comparison["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .any(|it| it["finding"] == finding && it["text"].as_str().unwrap().contains(text))
}

#[test]
fn compares_rates_of_both_tools() {
    let found = comparison(&campaign(pair(Pass::Write, &[], |_| {}), [10, 20]));
    assert!((found["ratio"].as_f64().unwrap() - 2.0).abs() < 0.1, "{found}");
    assert_eq!((&found["outcome"], &found["pass"]), (&"higher".into(), &"write".into()));
    assert!(has(&found, "same", "Work: "), "{found}");
    let text = render(&campaign(pair(Pass::Write, &[], |_| {}), [10, 10]), Format::Table);
    assert!(text.contains("dir write: fio ") && text.contains("the same within 5 %"), "{text}");
}

#[test]
fn names_planted_reasons_only() {
    // Pass, arguments of fio, text of the reason that they plant.
    let cases: [(Pass, &str, &str); 6] = [
        (Pass::RandomRead, "--norandommap=1", "norandommap"),
        (Pass::Write, "--fallocate=native", "fallocate=none"),
        (Pass::Write, "--fsync=1", "fsync after each write"),
        (Pass::Read, "--bssplit=4k/50:8k/50", "only fio uses bssplit"),
        (Pass::Read, "--file_service_type=roundrobin", "one after the other"),
        (Pass::RandomWrite, "--refill_buffers=0", "refill_buffers=1"),
    ];
    for (pass, argument, text) in cases {
        let change = |run: &mut RunSpec| run.files = 4;
        let planted = comparison(&campaign(pair(pass, &[argument], change), [10, 10]));
        assert!(has(&planted, "differs", text), "{argument}: {planted}");
        let quiet = ["--refill_buffers=1", "--overwrite=1", "--thread=1", "--fadvise_hint=0"];
        let without = comparison(&campaign(pair(pass, &quiet, change), [10, 10]));
        assert!(!has(&without, "differs", text), "{argument}: {without}");
        assert!(!has(&without, "differs", ""), "{without}");
    }
}

#[test]
fn cache_of_one_tool_explains() {
    let mut cached = campaign(pair(Pass::Read, &["--fadvise_hint=0"], |_| {}), [10, 30]);
    for trial in &mut cached.runs[1].trials {
        trial.passes[0].caveats.push(CaveatCode::Cached.because("0 bytes were read"));
    }
    let found = comparison(&cached);
    assert!(has(&found, "differs", "`cached` only with dfsbench"), "{found}");
    // A cache must not win.
    assert_eq!(found["outcome"], "unclear");
}

#[test]
fn other_campaigns_have_no_comparison() {
    let [_, own] = pair(Pass::Write, &[], |_| {});
    assert_eq!(comparison(&made(vec![(own.clone(), 10, 5)])), Value::Null);
    let mut durable = own.clone();
    durable.durability = Durability::Dsync;
    let [fio, _] = pair(Pass::Write, &[], |_| {});
    // Which of the two would be meant?
    let several = made(vec![(fio, 10, 5), (own, 10, 5), (durable, 5, 5)]);
    assert_eq!(comparison(&several), Value::Null);
}
