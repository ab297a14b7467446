//! Trials disturbed from outside, in text, on the page, and for programs.

use model::{
    BackendKind, Campaign, CaveatCode, Interference, InterferenceRule, InterferenceSource, Workload,
};
use report::{Format, render};

use crate::campaigns;

/// Returns a mix of eight trials, two of which are slower because of steal time.
fn disturbed() -> Campaign {
    let spec = campaigns::spec("nfs", BackendKind::Nfs, Workload::Mixed);
    let mut campaign = campaigns::made(vec![(spec, 9, 8)]);
    for trial in &mut campaign.runs[0].trials {
        let steal = match trial.index {
            2 => 390,
            5 => 120,
            _ => 10,
        };
        let pass = &mut trial.passes[0];
        pass.window_ns = pass.window_ns * 1_000 / (1_000 - steal);
        pass.scope.interference =
            Interference::default().with(InterferenceSource::Steal, Some(steal));
    }
    campaign
}

/// Joins the lines of a wrapped text.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn text_states_rule_and_numbers() {
    let text = unwrapped(&render(&disturbed(), Format::Table));
    assert!(text.contains("2 of 8 trials were set aside: "), "{text}");
    assert!(text.contains("nfs mixed: 2 of 8; in trial 3, "), "{text}");
    let markdown = render(&disturbed(), Format::Markdown);
    let lines: Vec<&str> = markdown.lines().filter(|line| line.contains("2 of 8")).collect();
    insta::assert_snapshot!(lines.join("\n"));
    // Without a record, nothing is claimed.
    let old = unwrapped(&render(&campaigns::quick(), Format::Table));
    assert!(!old.contains("set aside") && !old.contains("disturbed"), "{old}");
}

#[test]
fn kept_trials_are_stated() {
    let mut campaign = disturbed();
    campaign.runs[0].spec.repetition.interference = InterferenceRule::Keep;
    let text = unwrapped(&render(&campaign, Format::Table));
    assert!(text.contains("count (interference keep)") && !text.contains("set aside"), "{text}");
}

#[test]
fn page_has_the_same_lines() {
    let page = unwrapped(&render(&disturbed(), Format::Html));
    assert!(page.contains("Trials set aside") && page.contains("in trial 3, the hypervisor"));
    assert!(page.contains("2 of 8 trials were set aside"), "{page}");
}

#[test]
fn trials_name_their_disturbance() {
    let text = unwrapped(&render(&disturbed(), Format::Trials));
    for why in ["in parentheses, excluded: trial 3, ", "39.0 %", "; trial 6, ", "12.0 %"] {
        assert!(text.contains(why), "{why}: {text}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&render(&disturbed(), Format::Json)).unwrap();
    let pass = |trial: usize| json["runs"][0]["trials"][trial]["passes"][0].clone();
    assert_eq!(pass(2)["interference"]["steal"], 390);
    assert!(pass(2)["disturbed_by"].as_str().unwrap().starts_with("the hypervisor took 39.0 %"));
    assert_eq!(pass(0)["interference"]["steal"], 10);
    assert!(pass(0).get("disturbed_by").is_none());
}

#[test]
fn shows_rate_per_cpu_second() {
    let mut campaign = disturbed();
    let text = unwrapped(&render(&campaign, Format::Table));
    assert!(!text.contains("second of CPU time"), "{text}");
    for trial in &mut campaign.runs[0].trials {
        trial.passes[0].caveats.push(CaveatCode::ProcessorContention.because("they waited"));
    }
    let text = unwrapped(&render(&campaign, Format::Table));
    // Three quarters of a CPU were used: the rate is a third higher than by the clock.
    let judged = &stats::judge::run(&campaign.runs[0])[0];
    let rate = judged.rate.unwrap();
    let per_cpu = judged.rate_per_cpu.unwrap();
    assert!((per_cpu.median / rate.median - 4.0 / 3.0).abs() < 0.02, "{rate:?} {per_cpu:?}");
    let line = format!("nfs mixed: {} (", judged.shown(per_cpu.median));
    let by_clock = format!("by the CPU time of client and server; {} (", judged.shown(rate.median));
    assert!(text.contains(&line) && text.contains(&by_clock), "{text}");
    // CPU time that varies more than the rate shows nothing.
    for trial in &mut campaign.runs[0].trials {
        trial.passes[0].client_cpu_ns *= 1 + u64::from(trial.index % 3);
    }
    let text = unwrapped(&render(&campaign, Format::Table));
    assert!(!text.contains("second of CPU time"), "{text}");
}
