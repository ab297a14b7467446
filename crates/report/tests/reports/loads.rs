//! What loads cost each other, from trials whose rates and times are known.

use model::{BackendKind, Campaign, CaveatCode, Histogram, NamedLoad, RunSpec, Workload};
use report::{Format, render};
use serde_json::Value;

use crate::campaigns::{made, spec};

/// Rates per trial relative to the usual one: the trials differ by 2 % at most.
const SPREAD: [u64; 8] = [100, 101, 99, 100, 101, 100, 99, 100];

fn load(name: &str, beside: &[&str]) -> RunSpec {
    let mut run = spec("nfs", BackendKind::Nfs, Workload::Mixed);
    let beside = beside.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let group = u32::from(!beside.is_empty());
    let name = name.to_owned();
    run.named_load = Some(Box::new(NamedLoad { name, beside, group, ..NamedLoad::default() }));
    run
}

/// Two loads, of which the first one is this much slower beside the second: the factors of its
/// window and of its response times, in percent.
fn campaign(window: u64, times: u64) -> Campaign {
    let specs = [load("a", &[]), load("b", &[]), load("a", &["b"]), load("b", &["a"])];
    let mut campaign = made(specs.into_iter().map(|spec| (spec, 10, 8)).collect());
    for (index, run) in campaign.runs.iter_mut().enumerate() {
        let (window, times) = if index == 2 { (window, times) } else { (100, 100) };
        for (trial, spread) in run.trials.iter_mut().zip(SPREAD) {
            for pass in &mut trial.passes {
                pass.window_ns = pass.window_ns * window * spread / 10_000;
                pass.common_window_ns = pass.window_ns;
                let mut took = Histogram::sparse();
                took.record_n(10_000 * times * spread, pass.kinds[0].response_time.count());
                pass.kinds[0].response_time = took;
            }
        }
    }
    campaign
}

/// Load, measure, rounded ratio and cost of each comparison.
fn costs(campaign: &Campaign) -> Vec<String> {
    let json: Value = serde_json::from_str(&render(campaign, Format::Json)).unwrap();
    let described = |cost: &Value| {
        let text = |key: &str| cost[key].as_str().unwrap().to_owned();
        let ratio = cost["ratio"].as_f64().unwrap();
        assert!(cost["ratio_lo"].as_f64().unwrap() <= ratio);
        assert!(cost["ratio_hi"].as_f64().unwrap() >= ratio);
        format!("{} {} {ratio:.1} {}", text("row"), text("measure"), text("cost"))
    };
    json["load_costs"].as_array().unwrap().iter().map(described).collect()
}

#[test]
fn finds_planted_cost() {
    let found = costs(&campaign(200, 300));
    assert_eq!(
        found,
        [
            "a beside b rate 0.5 slower",
            "a beside b p99 3.0 slower",
            "b beside a rate 1.0 none",
            "b beside a p99 1.0 none",
        ]
    );
    let page = render(&campaign(200, 300), Format::Html);
    for part in ["What the loads cost each other", "together / alone", "a beside b: rate fell by"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn equal_loads_cost_nothing() {
    let campaign = campaign(100, 100);
    assert!(costs(&campaign).iter().all(|cost| cost.ends_with(" 1.0 none")));
    let text = render(&campaign, Format::Markdown);
    assert!(text.contains("The loads cost each other nothing"), "{text}");
}

#[test]
fn says_how_many_trials_are_needed() {
    let mut campaign = campaign(200, 300);
    let advice = "2 rows have too few trials to show any difference: use --trials 5 or more.";
    assert!(!render(&campaign, Format::Markdown).contains("too few trials"));
    for run in &mut campaign.runs {
        run.trials.truncate(4);
    }
    let text = render(&campaign, Format::Markdown);
    assert!(text.contains(advice), "{text}");
    assert!(costs(&campaign)[0].ends_with("undecided"));
}

#[test]
fn partly_alone_is_never_free() {
    let mut campaign = campaign(100, 100);
    for trial in &mut campaign.runs[2].trials {
        trial.passes[0].caveats.push(CaveatCode::PartlyAlone.because("20 % of the window"));
    }
    let found = costs(&campaign);
    assert!(found[0].ends_with("undecided") && found[1].ends_with("undecided"), "{found:?}");
    assert!(found[2].ends_with("none"), "{found:?}");
}

#[test]
fn names_loads_without_partner() {
    let mut campaign = campaign(100, 100);
    campaign.runs.remove(0);
    for (index, run) in campaign.runs.iter_mut().enumerate() {
        run.index = index as u32;
    }
    let text = render(&campaign, Format::Markdown);
    assert!(text.contains("a beside b: it was not measured alone"), "{text}");
}
