//! Comparisons and factors of campaigns with known results.

use model::testing::RunBuilder;
use model::{BackendKind, Campaign, CaveatCode, Fact, Workload};
use report::{
    CampaignComparison, ComparisonBound, ComparisonRules, Difference, FactorEffects, Format,
    Measure, ReportDetail, RowPair, Screen, Selection, render, setting_names,
};
use stats::Outcome;

use crate::campaigns::{failed, made, quick, spec, transports};

/// Runs of a stream over NFS with the given numbers of workers, each at its speed.
fn stream(speeds: &[(u32, u64)], trials: u32) -> Campaign {
    let spec = |workers| {
        RunBuilder::from(spec("nfs", BackendKind::Nfs, Workload::Stream)).workers(workers).build()
    };
    made(speeds.iter().map(|(workers, speed)| (spec(*workers), *speed, trials)).collect())
}

fn outcome(pair: &RowPair) -> Outcome {
    pair.figures[0].comparison.outcome()
}

/// Nothing may get worse by more than this.
fn bounded(measures: &[Measure], share: f64) -> ComparisonRules {
    let bounds =
        measures.iter().map(|measure| ComparisonBound { measure: *measure, share }).collect();
    ComparisonRules { bounds, ..ComparisonRules::default() }
}

fn whole(campaign: &Campaign) -> Selection<'_> {
    Selection { campaign, only: &[] }
}

fn only(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

#[test]
fn matches_rows_and_finds_losses() {
    let before = stream(&[(1, 10), (2, 20), (4, 40)], 5);
    let after = stream(&[(2, 15), (1, 10), (8, 40)], 5);
    let compared =
        CampaignComparison::new(whole(&before), whole(&after), ComparisonRules::default());
    let outcomes: Vec<_> =
        compared.pairs.iter().map(|pair| (pair.name.as_str(), outcome(pair))).collect();
    let expected = [
        ("nfs stream write, workers 1", Outcome::Same),
        ("nfs stream read, workers 1", Outcome::Same),
        ("nfs stream write, workers 2", Outcome::Lower),
        ("nfs stream read, workers 2", Outcome::Lower),
    ];
    assert_eq!(outcomes, expected);
    assert!((compared.pairs[2].figures[0].comparison.ratio - 0.75).abs() < 1e-6);
    let lost = |share| {
        let rules = bounded(&[Measure::Rate], share);
        CampaignComparison::new(whole(&before), whole(&after), rules).regressions().count()
    };
    assert_eq!((lost(0.2), lost(0.3)), (2, 0));
    let [a, b, c, d] = &compared.left_out[..] else { panic!("{:?}", compared.left_out) };
    let reasons = [a, b, c, d].map(|row| (row.why.as_str(), row.matters));
    assert_eq!(reasons.map(|(_, matters)| matters), [true, true, false, false]);
    insta::assert_snapshot!(reasons.map(|(why, _)| why).join("\n"), @"
    only before (the nearest row after has workers 8 instead of 4)
    only before (the nearest row after has workers 8 instead of 4)
    only after
    only after
    ");
}

#[test]
fn matches_selections_of_one_campaign() {
    let campaign = stream(&[(1, 10), (2, 20)], 5);
    let one = only("workers", "1");
    let two = only("workers", "2");
    let compared = CampaignComparison::new(
        Selection { campaign: &campaign, only: &one },
        Selection { campaign: &campaign, only: &two },
        ComparisonRules::default(),
    );
    assert_eq!(compared.pairs.len(), 2);
    assert_eq!(compared.pairs[1].name, "nfs stream read");
    assert_eq!(outcome(&compared.pairs[1]), Outcome::Higher);
    let reads = only("pass", "read");
    let reads = Selection { campaign: &campaign, only: &reads };
    assert_eq!(CampaignComparison::new(reads, reads, ComparisonRules::default()).pairs.len(), 2);
    assert!(setting_names(&campaign).contains(&"nfsvers"));
}

#[test]
fn compares_only_counted_results() {
    let mut before = stream(&[(1, 10)], 5);
    for trial in &mut before.runs[0].trials {
        trial.passes[0].caveats.push(CaveatCode::Errors.because("3 of 64 ops failed"));
    }
    let after = stream(&[(1, 10)], 5);
    let compared =
        CampaignComparison::new(whole(&before), whole(&after), ComparisonRules::default());
    assert_eq!(compared.pairs.len(), 1);
    let why = "before: invalid: errors, not-durable, shared-host";
    assert!(compared.left_out[0].why.starts_with("before: invalid: errors"), "{why}");
    let gone = failed();
    let none = CampaignComparison::new(whole(&gone), whole(&gone), ComparisonRules::default());
    assert_eq!((none.pairs.len(), none.left_out.len()), (0, 3));
    assert!(none.left_out[0].why.contains("no route to host"), "{:?}", none.left_out);
}

#[test]
fn renders_comparison_in_every_form() {
    let before = stream(&[(1, 10), (2, 20)], 3);
    let after = stream(&[(1, 10), (4, 20)], 3);
    let compared =
        CampaignComparison::new(whole(&before), whole(&after), ComparisonRules::default());
    insta::assert_snapshot!("comparison_table", compared.render(Format::Table));
    insta::assert_snapshot!("comparison_markdown", compared.render(Format::Markdown));
    let json: serde_json::Value = serde_json::from_str(&compared.render(Format::Json)).unwrap();
    assert_eq!(json["pairs"].as_array().unwrap().len(), 2);
    assert_eq!(json["pairs"][0]["outcome"], "same");
    assert_eq!(json["not_compared"][2]["reason"], "only after");
    assert_eq!(json["pairs"][0]["times"][1]["measure"], "p99");
}

/// Sets a fact of each trial.
fn set_fact(campaign: &mut Campaign, name: &str, values: &[&str]) {
    for trial in campaign.runs.iter_mut().flat_map(|run| &mut run.trials) {
        let value = values[trial.index as usize % values.len()];
        trial.facts.retain(|fact| fact.name != name);
        trial.facts.push(Fact::new("target", name, value, "planted"));
    }
}

#[test]
fn names_both_sides_and_what_changed() {
    let mut before = stream(&[(1, 10)], 5);
    let mut after = stream(&[(1, 10)], 5);
    for (campaign, host, kernel, options) in [
        (&mut before, "alpha", "6.1", "rw,hard,vers=3"),
        (&mut after, "beta", "6.12", "rw,hard,vers=4.1"),
    ] {
        campaign.facts.retain(|fact| fact.name != "kernel");
        for (name, value) in [("host name", host), ("kernel", kernel), ("load at start", host)] {
            campaign.facts.push(Fact::new("host", name, value, "planted"));
        }
        set_fact(campaign, "mount options", &[options]);
        // An embedded server has a different address each time, counters are results, and facts
        // that vary from trial to trial are noise.
        set_fact(campaign, "server", &[host]);
        set_fact(campaign, "write: delegations", &[host]);
        set_fact(campaign, "steal", &[host, kernel, options]);
        campaign.runs[0].spec.repetition.warmup_trials = 5 - host.len() as u32;
    }
    after.id = 8;
    after.tool_version = "0.2.0".to_owned();
    after.started_unix_ms += 86_400_000;
    let mut compared =
        CampaignComparison::new(whole(&before), whole(&after), ComparisonRules::default());
    compared.name_files(["y1.db", "y2.db"].map(str::to_owned));

    let changed =
        ["kernel: 6.1 → 6.12", "mount options: vers=3 → vers=4.1", "warmup_trials: 0 → 1"];
    let lines: Vec<String> = compared.differences.iter().map(Difference::line).collect();
    assert_eq!(lines, changed);
    let sides = [
        "before: y1.db, campaign 7 (made), 2025-11-21 19:17:03 UTC, host alpha, dfsbench 0.1.0",
        "after: y2.db, campaign 8 (made), 2025-11-22 19:17:03 UTC, host beta, dfsbench 0.2.0",
    ];
    for format in [Format::Table, Format::Markdown, Format::Html] {
        let text = compared.render(format);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let verdict = flat.find("No difference: all").expect(&flat);
        for line in sides.iter().chain(&changed) {
            assert!(flat.find(line).is_some_and(|at| at < verdict), "{line} is not above: {flat}");
        }
    }
    let json: serde_json::Value = serde_json::from_str(&compared.render(Format::Json)).unwrap();
    assert_eq!(json["sides"][1]["file"], "y2.db");
    assert_eq!(json["sides"][0]["hosts"][0], "alpha");
    assert_eq!(
        (&json["changed"][1]["after"], json["changed"].as_array().unwrap().len()),
        (&"rw,hard,vers=4.1".into(), 3)
    );
    let page = compared.render(Format::Html);
    let title = "Before and after: nfs://(in-memory server)/export, 2025-11-21 19:17 UTC and \
                 2025-11-22 19:17 UTC";
    for tag in [format!("<h1>{title}</h1>"), format!("<title>dfsbench: {title}</title>")] {
        assert!(page.contains(&tag), "{tag}: {page}");
    }
}

#[test]
fn lists_settings_that_differ() {
    let campaign = stream(&[(1, 10), (2, 20)], 5);
    let one = only("workers", "1");
    let two = only("workers", "2");
    let mut after = campaign.clone();
    for run in &mut after.runs {
        run.spec.repetition.warmup_trials += 1;
    }
    let compared = CampaignComparison::new(
        Selection { campaign: &campaign, only: &one },
        Selection { campaign: &after, only: &two },
        ComparisonRules::default(),
    );
    // Settings the sides are selected by are not listed as changes but shown with the sides.
    let names: Vec<&str> = compared.differences.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["warmup_trials"]);
    assert!(compared.sides[1].describe().ends_with("only workers=2"));
    let same =
        CampaignComparison::new(whole(&campaign), whole(&campaign), ComparisonRules::default());
    assert!(same.differences.is_empty());
}

#[test]
fn orders_rows_alike_in_panels() {
    let before = stream(&[(1, 10), (2, 20), (4, 40)], 5);
    let mut after = stream(&[(1, 10), (2, 20), (4, 20)], 5);
    // The largest loss of the last row is in its rate, that of the first row in its p99.
    for pass in after.runs[0].trials.iter_mut().flat_map(|trial| &mut trial.passes) {
        for kind in &mut pass.kinds {
            let slow = 100 * kind.response_time.max();
            for _ in 0..kind.done / 10 {
                kind.response_time.record(slow);
            }
        }
    }
    let page = CampaignComparison::new(whole(&before), whole(&after), ComparisonRules::default())
        .render(Format::Html);
    let rows = |measure: &str| {
        let start = page.find(&format!("aria-labelledby=\"ratios-{measure}-title\"")).unwrap();
        let drawn = page[start..].split("</figure>").next().unwrap();
        let names = drawn.split("<text class=\"name\"").skip(1);
        names.map(|rest| rest.split(['>', '<']).nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let rates = rows("rate");
    assert_eq!(rates.len(), 6);
    assert_eq!([rows("p50"), rows("p99")], [rates.clone(), rates.clone()]);
    assert!(rates[0].ends_with("workers 1") && rates[5].ends_with("workers 2"), "{rates:?}");
}

#[test]
fn marks_cut_ratio_intervals() {
    let before = stream(&[(1, 10)], 3);
    let mut after = before.clone();
    let arrows = |after: &Campaign| {
        let page =
            CampaignComparison::new(whole(&before), whole(after), ComparisonRules::default())
                .render(Format::Html);
        page.matches("class=\"arrow\"").count()
    };
    assert_eq!(arrows(&after), 0);
    // One of three trials is ten times as slow: the median stays the same, but its interval is
    // wide.
    for pass in &mut after.runs[0].trials[2].passes {
        pass.window_ns *= 10;
    }
    assert!(arrows(&after) > 0);
}

#[test]
fn fits_comparisons_to_terminal() {
    let before = stream(&[(1, 10), (2, 20)], 3);
    let after = stream(&[(1, 10), (2, 30)], 3);
    let compared =
        CampaignComparison::new(whole(&before), whole(&after), ComparisonRules::default());
    let factors = FactorEffects::from_campaign(&stream(&[(1, 10), (2, 20)], 5));
    for columns in 40..140 {
        let screen = Screen::new(columns, ReportDetail::Main);
        for text in [compared.render_screen(screen), factors.render_screen(screen)] {
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= columns, "{columns}: {text}");
        }
    }
    let narrow = compared.render_screen(Screen::new(60, ReportDetail::Main));
    let head = narrow.lines().find(|line| line.starts_with("run ")).unwrap();
    assert!(head.contains("ratio") && !head.contains(" p "), "{narrow}");
    let usual = compared.render_screen(Screen::new(100, ReportDetail::Main));
    assert_eq!(usual, compared.render(Format::Table));
}

#[test]
fn ranks_factors_and_names_holes() {
    // The read-ahead multiplies rates by 5 and the transfer size by 2; nothing else has an effect.
    let factors = FactorEffects::from_campaign(&transports());
    let read = &factors.passes[1];
    let effects = read.found.as_ref().unwrap();
    let ranked: Vec<&str> =
        effects.factors.iter().map(|e| read.factors[e.factor].name.as_str()).collect();
    assert_eq!(ranked[..2], ["read_ahead", "transfer_size"]);
    let ahead = &effects.factors[0].levels[1];
    assert!((ahead.ratio - 5.0).abs() < 0.2, "{ahead:?}");
    assert!(ahead.interval.0 <= 5.0 && 5.0 <= ahead.interval.1, "{ahead:?}");
    assert!(read.left_out > 0);
    insta::assert_snapshot!("factors_table", factors.render(Format::Table));
}

#[test]
fn every_form_has_the_factors() {
    let campaign = stream(&[(1, 10), (2, 20)], 5);
    let effects = FactorEffects::from_campaign(&campaign);
    insta::assert_snapshot!("factors_markdown", effects.render(Format::Markdown));
    let json: serde_json::Value = serde_json::from_str(&effects.render(Format::Json)).unwrap();
    let level = &json["passes"][0]["factors"][0]["levels"][1];
    assert_eq!((&level["level"], level["ratio"].as_f64().unwrap().round()), (&"2".into(), 2.0));
}

#[test]
fn reports_missing_factor() {
    let effects = FactorEffects::from_campaign(&stream(&[(1, 10)], 5));
    assert!(!effects.has_effects());
    insta::assert_snapshot!(effects.render(Format::Table));
    assert!(FactorEffects::from_campaign(&quick()).has_effects());
}

#[test]
fn compares_backends_within_target() {
    let run = |target, backend, speed| (spec(target, backend, Workload::Mixed), speed, 5);
    let effects = FactorEffects::from_campaign(&made(vec![
        run("server", BackendKind::Nfs, 10),
        run("dir", BackendKind::Posix, 20),
        run("dir", BackendKind::Uring, 24),
    ]));
    insta::assert_snapshot!(effects.render(Format::Table));
    let json: serde_json::Value = serde_json::from_str(&effects.render(Format::Json)).unwrap();
    let factors = json["passes"][0]["factors"].as_array().unwrap();
    let backend = factors.iter().find(|factor| factor["name"] == "backend").unwrap();
    assert_eq!(backend["within"][0], "target");
    assert_eq!(backend["levels"][0]["ratio"], serde_json::Value::Null);
    assert_eq!(backend["levels"][2]["against"], backend["levels"][1]["level"]);
}

#[test]
fn draws_factors_if_any() {
    let page = render(&transports(), Format::Html);
    let plot = page.split("id=\"factors-1-desc\">").nth(1).unwrap();
    assert!(plot.starts_with("read_ahead (85 %): 5.00 (4.95 to 5.05)"), "{}", &plot[..200]);
    assert!(!render(&quick(), Format::Html).contains("id=\"factors\""));
}

/// Returns the text of a comparison on one line.
fn text(compared: &CampaignComparison) -> String {
    compared.render(Format::Table).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn puts_verdict_first() {
    let before = stream(&[(1, 10), (2, 20)], 5);
    let slower = stream(&[(1, 10), (2, 15)], 5);
    let compare =
        |after: &Campaign, rules| CampaignComparison::new(whole(&before), whole(after), rules);
    let verdict = |compared: &CampaignComparison| {
        let text = text(compared);
        let (_, rest) = text.split_once(" recorded facts of hosts and targets ").unwrap();
        rest.split(" run figure").next().unwrap().to_owned()
    };
    let verdicts = [
        compare(&before, ComparisonRules::default()),
        compare(&slower, ComparisonRules::default()),
        CampaignComparison::new(whole(&slower), whole(&before), ComparisonRules::default()),
        compare(&slower, bounded(&[Measure::Rate], 0.1)),
        compare(&before, bounded(&[Measure::Rate], 0.1)),
    ];
    insta::assert_snapshot!(verdicts.map(|compared| verdict(&compared)).join("\n"));
}

#[test]
fn a_comparison_to_look_at() {
    let before = stream(&[(1, 10), (2, 20), (4, 40)], 5);
    let after = stream(&[(1, 10), (2, 15), (8, 60)], 5);
    let compared = CampaignComparison::new(
        whole(&before),
        whole(&after),
        bounded(&[Measure::Rate, Measure::ResponseP99], 0.1),
    );
    let path = format!("{}/comparison.html", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(path, compared.render(Format::Html)).unwrap();
}

#[test]
fn sorts_ratio_bars_by_loss() {
    let before = stream(&[(1, 10), (2, 20), (4, 40)], 5);
    let after = stream(&[(1, 10), (2, 15), (4, 60)], 5);
    let page =
        |rules| CampaignComparison::new(whole(&before), whole(&after), rules).render(Format::Html);
    let rates = |page: &str| {
        let start = page.find("aria-labelledby=\"ratios-rate-title\"").expect("a picture");
        page[start..].split("</figure>").next().unwrap().to_owned()
    };
    let drawn = rates(&page(ComparisonRules::default()));
    let places = ["workers 2", "workers 1", "workers 4"].map(|name| drawn.rfind(name).unwrap());
    assert!(places.is_sorted(), "{places:?}: {drawn}");
    for (class, count) in [("bar worse", 2), ("bar better", 2), ("bar", 2), ("event", 0)] {
        assert_eq!(drawn.matches(&format!("class=\"{class}\"")).count(), count, "{class}: {drawn}");
    }
    assert!(!drawn.contains("Dashed line"), "{drawn}");
    // The bound crosses each of the six bars.
    let drawn = rates(&page(bounded(&[Measure::Rate], 0.1)));
    assert_eq!(drawn.matches("class=\"event\"").count(), 6, "{drawn}");
    assert!(drawn.contains("Dashed line: ") && drawn.contains("10 % less"), "{drawn}");
    assert_eq!(drawn.matches("regression;").count(), 2, "{drawn}");
}

#[test]
fn suggests_command_to_pair_rows() {
    let before = stream(&[(1, 10), (2, 20)], 5);
    let after = stream(&[(1, 10), (8, 40)], 5);
    let compared =
        CampaignComparison::new(whole(&before), whole(&after), ComparisonRules::default());
    let command = "dfsbench compare 7 7 --where workers=2 --where workers=8";
    assert_eq!(compared.pairing_commands(), [command]);
    assert!(text(&compared).contains(&format!("To pair such rows: {command}")));
    let page = compared.render(Format::Html);
    assert!(page.contains("id=\"unpaired\"") && page.contains(command), "{page}");
    // The suggested command does pair them.
    let [two, eight] = [only("workers", "2"), only("workers", "8")];
    let before = Selection { campaign: &before, only: &two };
    let after = Selection { campaign: &after, only: &eight };
    let paired = CampaignComparison::new(before, after, ComparisonRules::default());
    assert_eq!((paired.pairs.len(), paired.left_out.len()), (2, 0));
    assert!(paired.pairing_commands().is_empty());
    assert!(!paired.render(Format::Html).contains("id=\"unpaired\""));
}
