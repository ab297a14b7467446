//! How rows are paired, and the effect of bounds: the rules that a build relies on.

use model::testing::RunBuilder;
use model::{
    BackendKind, Campaign, CaveatCode, Histogram, NfsVersion, Proto, RunSpec, Target, Workload,
};
use report::{
    BisectJudgment, BisectMetric, BisectRequest, CampaignComparison, ComparisonBound,
    ComparisonRules, Format, Measure, Selection,
};
use stats::Outcome;
use stats::bisect::{BisectRule, BisectVerdict};

use crate::campaigns::{HOSTILE, made, spec};

fn over(version: NfsVersion, proto: Proto) -> RunSpec {
    let mut spec = spec("nfs", BackendKind::Nfs, Workload::Mixed);
    if let Target::Nfs(nfs) = &mut spec.target {
        nfs.settings.version = version;
        nfs.settings.proto = proto;
    }
    spec
}

/// A mix of the given number of trials.
fn mix(speed: u64, trials: u32) -> Campaign {
    made(vec![(over(NfsVersion::V3, Proto::Tcp), speed, trials)])
}

fn only(text: &str) -> Vec<(String, String)> {
    let one = |part: &str| part.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()));
    text.split(',').filter_map(one).collect()
}

fn whole(before: &Campaign, after: &Campaign, rules: ComparisonRules) -> CampaignComparison {
    let side = |campaign| Selection { campaign, only: &[] };
    CampaignComparison::new(side(before), side(after), rules)
}

/// Compares two selections of one campaign.
fn selected(campaign: &Campaign, before: &str, after: &str) -> CampaignComparison {
    let before = only(before);
    let after = only(after);
    let side = |only| Selection { campaign, only };
    CampaignComparison::new(side(&before), side(&after), ComparisonRules::default())
}

fn bounds(bounds: &[(Measure, f64)]) -> ComparisonRules {
    let bounds =
        bounds.iter().map(|&(measure, share)| ComparisonBound { measure, share }).collect();
    ComparisonRules { bounds, ..ComparisonRules::default() }
}

/// Multiplies every time of a campaign by a factor, and keeps its rates.
fn delayed(mut campaign: Campaign, factor: u64) -> Campaign {
    let trials = campaign.runs.iter_mut().flat_map(|run| &mut run.trials);
    for kind in trials.flat_map(|trial| &mut trial.passes).flat_map(|pass| &mut pass.kinds) {
        let mut longer = Histogram::new();
        for (value, count) in kind.response_time.buckets() {
            longer.record_n(value * factor, count);
        }
        kind.response_time = longer;
    }
    campaign
}

#[test]
fn pairs_rows_despite_derived_settings() {
    let versions = [NfsVersion::V2, NfsVersion::V3];
    let product = versions.map(|version| [Proto::Udp, Proto::Tcp].map(|p| over(version, p)));
    let runs = product.concat().into_iter().enumerate();
    let campaign = made(runs.map(|(at, spec)| (spec, 10 + 10 * at as u64, 5)).collect());
    // Only UDP has timeo, and only v3 has stable.
    for (before, after) in [
        ("proto=udp", "proto=tcp"),
        ("nfsvers=2", "nfsvers=3"),
        ("nfsvers=2,proto=udp", "nfsvers=3,proto=tcp"),
    ] {
        let compared = selected(&campaign, before, after);
        let pairs = if before.contains(',') { 1 } else { 2 };
        assert_eq!((compared.pairs.len(), compared.left_out.len()), (pairs, 0), "{before}");
        let higher =
            |pair: &report::RowPair| pair.figures[0].comparison.outcome() == Outcome::Higher;
        assert!(compared.pairs.iter().all(higher), "{before}");
    }
}

#[test]
fn pairs_ambiguous_row_with_none() {
    let runs = [Proto::Udp, Proto::Tcp].map(|p| (over(NfsVersion::V3, p), 10, 5));
    let v2 = (over(NfsVersion::V2, Proto::Udp), 10, 5);
    let campaign = made([&runs[..], &[v2]].concat());
    let compared = selected(&campaign, "nfsvers=3", "proto=udp");
    assert_eq!(compared.pairs.len(), 0);
    let why = &compared.left_out[0].why;
    assert!(compared.left_out.iter().all(|row| row.why == *why), "{:?}", compared.left_out);
    insta::assert_snapshot!(why);
}

#[test]
fn ignores_number_of_repetitions() {
    let before = mix(10, 5);
    let mut after = mix(10, 5);
    for run in &mut after.runs {
        run.spec.repetition.warmup_trials = 1;
        run.spec.repetition.until_permille = 20;
    }
    assert_eq!(whole(&before, &after, ComparisonRules::default()).pairs.len(), 1);
}

#[test]
fn reports_slowdown_despite_equal_rate() {
    let before = mix(10, 5);
    let after = delayed(mix(10, 5), 2);
    let past = |rules| {
        let compared = whole(&before, &after, rules);
        compared.regressions().map(|(_, figure)| figure.measure.name()).collect::<Vec<_>>()
    };
    assert_eq!(past(bounds(&[(Measure::Rate, 0.05)])), [""; 0]);
    let both = [(Measure::ResponseP50, 0.5), (Measure::ResponseP99, 0.5)];
    assert_eq!(past(bounds(&both)), ["p50", "p99"]);
    assert_eq!(past(bounds(&[(Measure::ResponseP99, 1.1)])), [""; 0]);
    // Getting faster is not a regression, and neither is a rate that rises.
    let back = whole(&after, &before, bounds(&both));
    assert_eq!((back.regressions().count(), back.is_undecided()), (0, false));
}

#[test]
fn does_not_keep_undecided_bound() {
    let bound = || bounds(&[(Measure::Rate, 0.05), (Measure::ResponseP99, 0.2)]);
    let five = mix(10, 5);
    let undecided = |after: &Campaign| whole(&five, after, bound()).is_undecided();
    assert!(!undecided(&five));
    // Three trials cannot show anything.
    assert!(whole(&mix(10, 3), &mix(5, 3), bound()).is_undecided());
    assert!(!whole(&mix(10, 3), &mix(5, 3), ComparisonRules::default()).is_undecided());
    // Times that were not measured.
    let mut untimed = mix(10, 5);
    for trial in &mut untimed.runs[0].trials {
        for kind in &mut trial.passes[0].kinds {
            kind.response_time = Histogram::new();
        }
    }
    assert!(undecided(&untimed));
    // A row that is missing, as opposed to one that is new or was never possible.
    let other = (spec("nfs", BackendKind::Nfs, Workload::Metadata), 10, 5);
    let more = made(vec![(over(NfsVersion::V3, Proto::Tcp), 10, 5), other]);
    assert!(whole(&more, &five, bound()).is_undecided());
    assert!(!whole(&five, &more, bound()).is_undecided());
    let impossible = (over(NfsVersion::V4_1, Proto::Udp), 10, 0);
    let never = made(vec![(over(NfsVersion::V3, Proto::Tcp), 10, 5), impossible]);
    let compared = whole(&never, &never, bound());
    assert_eq!((compared.left_out.len(), compared.is_undecided()), (1, false));
}

#[test]
fn corrects_for_many_comparisons() {
    let runs = |speed: u64| {
        let spec =
            |workers| RunBuilder::from(over(NfsVersion::V3, Proto::Tcp)).workers(workers).build();
        made((1..=4).map(|workers| (spec(workers), speed, 5)).collect())
    };
    let before = runs(10);
    let after = runs(5);
    let lower = |adjust| {
        let compared =
            whole(&before, &after, ComparisonRules { adjust, ..ComparisonRules::default() });
        let lower = compared
            .pairs
            .iter()
            .filter(|pair| pair.figures[0].comparison.outcome() == Outcome::Lower);
        (lower.count(), compared.pairs[0].figures[0].comparison)
    };
    let (found, plain) = lower(false);
    assert_eq!((found, plain.is_blind(), plain.family), (4, false, 1));
    // Twelve comparisons of p = 2/252 each: 12 * 2/252 is more than 5 %.
    let (found, adjusted) = lower(true);
    assert_eq!((found, adjusted.is_blind(), adjusted.family), (0, true, 12));
    assert!((adjusted.adjusted - 24.0 / 252.0).abs() < 1e-9, "{}", adjusted.adjusted);
}

/// Scales the duration of each trial by the given percentages, in turn.
fn scattered(mut campaign: Campaign, percents: [u64; 5]) -> Campaign {
    for trial in campaign.runs.iter_mut().flat_map(|run| &mut run.trials) {
        let percent = percents[trial.index as usize % 5];
        for pass in &mut trial.passes {
            pass.window_ns = 1_000_000 * percent;
            pass.common_window_ns = pass.window_ns / 100 * 97;
        }
    }
    campaign
}

/// Adds a caveat to each trial of a campaign.
fn with_caveat(mut campaign: Campaign, code: CaveatCode) -> Campaign {
    let trials = campaign.runs.iter_mut().flat_map(|run| &mut run.trials);
    for pass in trials.flat_map(|trial| &mut trial.passes) {
        pass.caveats.push(code.because("planted"));
    }
    campaign
}

/// Returns the first sentence of a comparison on one line.
fn verdict(compared: &CampaignComparison) -> String {
    let text = compared.render(Format::Table);
    let answer = text.split("\n\n").nth(1).unwrap();
    answer.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn wide_interval_leaves_a_bound_undecided() {
    // Equal machines, one of them busier: the slowest trials take 1.5 times as long as the fastest.
    let before = scattered(mix(10, 5), [100, 150, 110, 140, 120]);
    let after = scattered(mix(10, 5), [155, 200, 160, 190, 170]);
    let compared = whole(&before, &after, bounds(&[(Measure::Rate, 0.05)]));
    assert!(compared.pairs[0].caveats.contains(&CaveatCode::WideInterval));
    assert_eq!((compared.has_lost(), compared.is_undecided()), (false, true));
    let text = compared.render(Format::Table);
    let start = text.find("Unclear because of caveats: ").unwrap_or_else(|| panic!("{text}"));
    insta::assert_snapshot!(&text[start..]);
    // A loss far beyond the scatter is still a loss.
    let far = scattered(mix(10, 5), [400, 600, 440, 560, 480]);
    assert!(whole(&before, &far, bounds(&[(Measure::Rate, 0.05)])).has_lost());
    // Without the caveat, a difference of the same size is decisive.
    let narrow = |base: u64| scattered(mix(10, 5), [100, 101, 99, 100, 102].map(|p| p * base));
    let compared = whole(&narrow(10), &narrow(15), bounds(&[(Measure::Rate, 0.05)]));
    assert_eq!((compared.has_lost(), compared.is_undecided()), (true, false));
}

#[test]
fn claims_equality_only_within_margin() {
    let wide = scattered(mix(10, 5), [40, 100, 70, 160, 120]);
    let found = verdict(&whole(&wide, &wide, ComparisonRules::default()));
    assert!(found.starts_with("Can't tell: changes from -75 % to +300 % "), "{found}");
    let narrow = scattered(mix(10, 5), [100, 101, 100, 99, 100]);
    let found = verdict(&whole(&narrow, &narrow, ComparisonRules::default()));
    assert!(found.starts_with("No difference: all "), "{found}");
}

#[test]
fn cached_side_never_wins() {
    let slow = mix(10, 5);
    let fast = with_caveat(mix(30, 5), CaveatCode::Cached);
    for (before, after) in [(&slow, &fast), (&fast, &slow)] {
        let compared = whole(before, after, ComparisonRules::default());
        let figures = compared.figures();
        let open = figures.filter(|(_, one)| one.comparison.outcome() == Outcome::Unclear);
        assert_eq!(open.count(), 3, "{}", compared.render(Format::Table));
        assert!(verdict(&compared).starts_with("Can't tell"), "{}", verdict(&compared));
        let bounded = whole(before, after, bounds(&[(Measure::Rate, 0.05)]));
        assert_eq!((bounded.has_lost(), bounded.is_undecided()), (false, true));
    }
    // A cached side may lose, and two cached sides may be equal.
    let cached = with_caveat(mix(10, 5), CaveatCode::Cached);
    let lost = whole(&mix(30, 5), &cached, bounds(&[(Measure::Rate, 0.05)]));
    assert!(lost.has_lost(), "{}", lost.render(Format::Table));
    assert!(!whole(&cached, &cached, bounds(&[(Measure::Rate, 0.05)])).is_undecided());
}

#[test]
fn bypassing_nfs_never_wins() {
    let nfs = mix(10, 5);
    let bypassed = with_caveat(mix(30, 5), CaveatCode::Localio);
    for (before, after) in [(&nfs, &bypassed), (&bypassed, &nfs)] {
        let compared = whole(before, after, bounds(&[(Measure::Rate, 0.05)]));
        assert_eq!((compared.has_lost(), compared.is_undecided()), (false, true));
        let text = compared.render(Format::Table);
        assert!(text.contains("`localio`") && text.contains("--localio"), "{text}");
    }
    // Two sides that both bypass NFS measure the same thing.
    let slower = with_caveat(mix(10, 5), CaveatCode::Localio);
    assert!(whole(&bypassed, &slower, bounds(&[(Measure::Rate, 0.05)])).has_lost());
    assert!(!whole(&slower, &bypassed, bounds(&[(Measure::Rate, 0.05)])).is_undecided());
}

#[test]
fn verdict_names_caveats_of_both_sides() {
    let before = mix(10, 5);
    let after = with_caveat(mix(30, 5), CaveatCode::Retransmits);
    for found in [
        whole(&before, &after, ComparisonRules::default()),
        whole(&after, &before, ComparisonRules::default()),
    ] {
        let found = verdict(&found);
        assert!(found.contains("measurably") && found.contains("retransmits"), "{found}");
    }
    assert!(!verdict(&whole(&before, &mix(30, 5), ComparisonRules::default())).contains("Caveats"));
}

#[test]
fn sides_measured_apart_are_reported() {
    let mut later = mix(10, 5);
    let notes = |compared: &CampaignComparison| {
        compared.render(Format::Table).contains("one after the other")
    };
    assert!(!notes(&whole(&mix(10, 5), &later, ComparisonRules::default())));
    for trial in later.runs.iter_mut().flat_map(|run| &mut run.trials) {
        trial.started_unix_ms += 86_400_000;
    }
    assert!(notes(&whole(&mix(10, 5), &later, ComparisonRules::default())));
}

/// Requirements of the Surefire schema on a report, as (failures, errors, skipped).
fn checked(text: &str) -> [usize; 3] {
    let document = roxmltree::Document::parse(text).unwrap();
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "testsuites");
    let suite = root.first_element_child().unwrap();
    assert!(suite.has_tag_name("testsuite") && suite.attribute("name").is_some());
    let cases: Vec<_> = suite.children().filter(roxmltree::Node::is_element).collect();
    let mut ends = [0; 3];
    for case in &cases {
        assert!(case.has_tag_name("testcase"), "{case:?}");
        assert!(["classname", "name", "time"].iter().all(|name| case.attribute(*name).is_some()));
        let inside: Vec<_> = case.children().filter(roxmltree::Node::is_element).collect();
        for element in &inside {
            let name = element.tag_name().name();
            match ["failure", "error", "skipped"].iter().position(|known| *known == name) {
                Some(at) => {
                    ends[at] += 1;
                    assert!(element.attribute("message").is_some_and(|text| !text.is_empty()));
                    assert!(at == 2 || element.attribute("type").is_some());
                }
                None => assert_eq!(name, "system-out"),
            }
        }
    }
    for counted in [root, suite] {
        let number = |name| counted.attribute(name).unwrap().parse::<usize>().unwrap();
        assert_eq!(number("tests"), cases.len());
        assert_eq!([number("failures"), number("errors"), number("skipped")], ends);
    }
    ends
}

#[test]
fn writes_test_case_per_figure() {
    let nasty = |speed| {
        let mut campaign = made(vec![
            (over(NfsVersion::V3, Proto::Tcp), speed, 5),
            (RunBuilder::from(over(NfsVersion::V3, Proto::Tcp)).workers(9).build(), 10, 5),
            (RunBuilder::from(over(NfsVersion::V3, Proto::Tcp)).workers(8).build(), 10, 3),
        ]);
        campaign.name = format!("{HOSTILE} & \"it's\" \u{1}\u{1b}[31m\n");
        campaign.runs[0].spec.target_name = campaign.name.clone();
        campaign
    };
    let before = nasty(10);
    let mut after = nasty(5);
    after.runs[1].spec.workers = 10;
    let rules = bounds(&[(Measure::Rate, 0.1)]);
    let junit = whole(&before, &after, rules).render(Format::Junit);
    // The rate of the first fell, the second is missing, and the third has too few trials.
    assert_eq!(checked(&junit), [1, 2, 1], "{junit}");
    assert!(junit.contains("rate fell by 50 % ("), "{junit}");
    let unbounded = whole(&before, &after, ComparisonRules::default()).render(Format::Junit);
    assert_eq!(checked(&unbounded), [0, 0, 2], "{unbounded}");
}

/// A mix on a good build and on one to judge, with these speeds.
fn builds(good: u64, now: u64, trials: u32) -> Campaign {
    let target = |name| spec(name, BackendKind::Nfs, Workload::Mixed);
    made(vec![(target("good"), good, trials), (target("now"), now, trials)])
}

/// Judges the target `now` of a campaign against `good` of another one, or of the same.
fn judge_build(good: &Campaign, now: &Campaign, metric: &str) -> Result<BisectJudgment, String> {
    let request = BisectRequest {
        difference: 0.1,
        metrics: vec![BisectMetric::parse(metric)?],
        is_paired: std::ptr::eq(good, now),
    };
    let side = |campaign, only| Selection { campaign, only };
    let rule = BisectRule::new(20, 1).unwrap();
    request.judge(&rule, side(good, &only("target=good")), side(now, &only("target=now")))
}

#[test]
fn judges_builds_in_pairs() {
    for (good, now, verdict) in [
        (100, 90, BisectVerdict::Bad),
        (100, 99, BisectVerdict::Good),
        (100, 120, BisectVerdict::Good),
        (100, 95, BisectVerdict::Good),
    ] {
        let campaign = builds(good, now, 15);
        let judgment = judge_build(&campaign, &campaign, "mixed.rate").unwrap();
        assert_eq!((judgment.verdict, judgment.trials), (verdict, 15), "{judgment:?}");
        assert!(judgment.is_worth_more, "{judgment:?}");
    }
    // Too few trials decide nothing; stored ones need more than half of the difference.
    let few = builds(100, 50, 10);
    assert_eq!(judge_build(&few, &few, "rate").unwrap().verdict, BisectVerdict::Open);
    let [stored, slow, half] = [(100, 100), (100, 80), (100, 93)].map(|it| builds(it.0, it.1, 15));
    let judgment = judge_build(&stored, &slow, "rate").unwrap();
    assert_eq!(judgment.verdict, BisectVerdict::Bad, "{judgment:?}");
    assert_eq!(judge_build(&stored, &half, "rate").unwrap().verdict, BisectVerdict::Open);
}

#[test]
fn judges_no_unusable_builds() {
    let add = |campaign: &mut Campaign, run: usize, code: CaveatCode| {
        for trial in &mut campaign.runs[run].trials {
            trial.passes[0].caveats.push(code.because("planted"));
        }
    };
    let mut cached = builds(100, 90, 15);
    add(&mut cached, 1, CaveatCode::Cached);
    let judgment = judge_build(&cached, &cached, "rate").unwrap();
    assert_eq!((judgment.verdict, judgment.is_worth_more), (BisectVerdict::Open, false));
    assert!(judgment.sentence.contains("`cached`"), "{}", judgment.sentence);
    // An invalid build can't be judged, and without a valid good one, nothing can.
    let mut invalid = builds(100, 90, 15);
    add(&mut invalid, 1, CaveatCode::Accounting);
    assert_eq!(judge_build(&invalid, &invalid, "rate").unwrap().verdict, BisectVerdict::Open);
    add(&mut invalid, 0, CaveatCode::Accounting);
    assert!(judge_build(&invalid, &invalid, "rate").unwrap_err().contains("no usable result"));
    let mut other = builds(100, 90, 15);
    other.runs[0].spec.workers = 9;
    assert!(judge_build(&other, &other, "rate").unwrap_err().contains("same settings"));
    assert!(BisectMetric::parse("write.speed").unwrap_err().contains("service-p99"));
}
