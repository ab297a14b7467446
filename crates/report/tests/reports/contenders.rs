//! Comparison of contenders: tiers, differences, ratios, cost, and missing results.

use model::durability::{
    CrashEvent, DurabilityReport, DurabilityRow, LastWrites, MeasuredEvent, PromiseTier,
    StoredDurability, TestFile, Tier, WorkKind,
};
use model::lab::{DataPath, Host, Invalidation, LabSpec, SiteMount, System};
use model::system::{AccessWay, FuseAccess, NfsAccess, Recipe};
use model::{
    BackendKind, Campaign, CaveatCode, Durability, Metric, MetricKind, OpKind, Pass, RunSpec,
    Telemetry, TrialState, Workload,
};
use report::{Format, Screen, UnknownContender, render, render_contenders};
use serde_json::Value;

use crate::campaigns::{self, made, spec};

/// Returns a stream on three systems. The second is twice as fast as the first, and the third is
/// level with it.
fn campaign() -> Campaign {
    let mut specs = Vec::new();
    for name in ["safe", "quick", "level"] {
        let mut run = spec(name, BackendKind::Nfs, Workload::Stream);
        let mut lab = LabSpec::new(Host::local("server"), Host::local("client"));
        lab.own_client = true;
        lab.path = DataPath::Network;
        let durability = format!("what {name} says");
        let recipe = Recipe { name: name.into(), durability, ..Recipe::default() };
        lab.system = Some(Box::new(System { source: name.into(), recipe, ..System::default() }));
        run.lab = Some(Box::new(lab));
        run.durability = Durability::Sync;
        specs.push((run, 10, 5));
    }
    let mut campaign = made(specs);
    for (run, times_ms) in campaign.runs.iter_mut().zip([
        [1_000, 1_010, 1_020, 1_005, 1_015],
        [500, 505, 510, 502, 508],
        [1_001, 1_011, 1_019, 1_004, 1_016],
    ]) {
        let bytes = run.spec.set_bytes();
        for (trial, time_ms) in run.trials.iter_mut().zip(times_ms) {
            for pass in &mut trial.passes {
                pass.window_ns = time_ms * 1_000_000;
                pass.common_window_ns = pass.window_ns;
                pass.kinds[0].bytes = bytes;
                pass.caveats.clear();
            }
        }
    }
    campaign
}

/// Adds a measured tier of a contender for `sync`.
fn plant_tier(campaign: &mut Campaign, contender: &str, tier: Tier) {
    plant_event(campaign, contender, tier, CrashEvent::PowerCut);
}

fn plant_event(campaign: &mut Campaign, contender: &str, tier: Tier, event: CrashEvent) {
    let file = TestFile { promise: Durability::Sync, kind: WorkKind::SmallFile, number: 0 };
    let report = DurabilityReport {
        schema: 1,
        target: contender.to_owned(),
        promises: Vec::new(),
        tiers: vec![PromiseTier { promise: Durability::Sync, tier }],
        events: vec![MeasuredEvent {
            last_writes: vec![LastWrites::new(Durability::Sync, 1)],
            back_ns: 7,
            rows: vec![DurabilityRow {
                acked_ops: 9,
                lost_ops: u64::from(tier == Tier::None) * 4,
                missing: u64::from(tier == Tier::None) * 4,
                is_promised: true,
                ..DurabilityRow::new(event, &file)
            }],
            ..MeasuredEvent::new(event, "reset".to_owned())
        }],
    };
    let measured_unix_ms = campaign.durability.len() as u64;
    campaign.durability.push(StoredDurability {
        contender: contender.into(),
        measured_unix_ms,
        report,
    });
}

fn json(campaign: &Campaign, baseline: Option<&str>) -> Value {
    serde_json::from_str(
        &render_contenders(campaign, baseline, Format::Json, Screen::default()).unwrap().text,
    )
    .unwrap()
}

fn text(campaign: &Campaign) -> String {
    render_contenders(campaign, None, Format::Table, Screen::default()).unwrap().text
}

#[test]
fn marks_recipe_that_was_never_tried() {
    // No table of this format is wrapped.
    let text = |campaign: &Campaign| {
        render_contenders(campaign, None, Format::Markdown, Screen::default()).unwrap().text
    };
    let mut campaign = campaign();
    assert!(!text(&campaign).contains("not tried"));
    let system = campaign.runs[1].spec.lab.as_mut().unwrap().system.as_mut().unwrap();
    system.recipe.not_tried = "no packages".to_owned();
    let marked = text(&campaign);
    assert_eq!(marked.matches("| – (not tried by the authors) |").count(), 1, "{marked}");
    let found = json(&campaign, None)["contenders"].clone();
    let marks: Vec<_> = (0..3).map(|number| &found[number]["recipe_not_tried"]).collect();
    assert_eq!(marks, [&Value::Null, &Value::from("no packages"), &Value::Null]);
}

/// Returns the sentences before the first table, with single spaces between words.
fn lead(campaign: &Campaign) -> String {
    let text = text(campaign);
    let lead = text.split("\ncontender ").next().unwrap();
    lead.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the sentences of the lead about durability, one per line.
fn promises(campaign: &Campaign) -> String {
    lead(campaign).split(" What they ").skip(1).collect::<Vec<_>>().join("\n")
}

/// Returns the row below a heading that starts with a name.
fn row<'t>(text: &'t str, heading: &str, name: &str) -> &'t str {
    let below = text.split(heading).nth(1).unwrap_or_else(|| panic!("no {heading}: {text}"));
    let mut lines = below.lines();
    lines.find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {text}"))
}

/// The rows below "What survived" that begin with a name, with single spaces between words.
fn words_of_rows(kept: &str, name: &str) -> Vec<String> {
    let section = kept.split("\nRatios to ").next().unwrap_or_default();
    section
        .lines()
        .filter(|line| line.starts_with(&format!("{name} ")))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn lists_possible_and_used_access() {
    let mut campaign = campaign();
    let system = |run: usize, campaign: &mut Campaign, by: Option<AccessWay>| {
        let lab = campaign.runs[run].spec.lab.as_mut().unwrap();
        lab.own_client = by.is_none();
        let system = lab.system.as_mut().unwrap();
        system.recipe.access.fuse = Some(FuseAccess::default());
        system.access = by;
    };
    system(1, &mut campaign, None);
    system(2, &mut campaign, Some(AccessWay::ReExport));
    campaign.runs[1].spec.lab.as_mut().unwrap().system.as_mut().unwrap().recipe.access.nfs =
        Some(NfsAccess::default());
    let ways = |name: usize| json(&campaign, None)["contenders"][name]["ways"].clone();
    let expected = |nfs: &str, fuse: &str, again: &str| serde_json::json!({ "nfs": nfs, "mount": "none", "fuse": fuse, "re-export": again });
    assert_eq!(ways(1), expected("used", "available", "available"));
    assert_eq!(ways(2), expected("none", "available", "used"));
    // A file system that the site has set up doesn't show whether there are other ways of access.
    let lab = campaign.runs[0].spec.lab.as_mut().unwrap();
    lab.own_client = false;
    lab.system = None;
    lab.site_mount = Some(SiteMount {
        kind: "lustre".to_owned(),
        source: "a:/b".to_owned(),
        options: Vec::new(),
    });
    let mounted = json(&campaign, None)["contenders"][0]["ways"].clone();
    assert_eq!((&mounted["mount"], &mounted["nfs"]), (&"used".into(), &"–".into()));
    let text = text(&campaign);
    assert!(row(&text, "Ways to access it", "level").ends_with("used"), "{text}");
}

#[test]
fn groups_consecutive_events() {
    let mut campaign = campaign();
    plant_event(&mut campaign, "safe", Tier::PowerLoss, CrashEvent::PowerCut);
    plant_event(&mut campaign, "safe", Tier::ServerCrash, CrashEvent::KillServer);
    plant_event(&mut campaign, "quick", Tier::None, CrashEvent::PowerCut);
    plant_event(&mut campaign, "quick", Tier::ServerCrash, CrashEvent::KillServer);
    // A measurement that could not be verified neither shows nor revokes anything.
    plant_event(&mut campaign, "quick", Tier::Unknown, CrashEvent::PowerCut);
    let last = campaign.durability.last_mut().unwrap();
    last.report.events[0].unverified = Some("it did not answer".to_owned());
    plant_event(&mut campaign, "level", Tier::ServerCrash, CrashEvent::KillServer);
    campaign.durability.last_mut().unwrap().report.events[0].how = "stop".to_owned();
    insta::assert_snapshot!(promises(&campaign));
    let text = text(&campaign);
    let kept = text.split("What survived").nth(1).unwrap();
    assert_eq!(kept.matches("LOST 4 of 9 ops").count(), 1, "{kept}");
    assert_eq!(words_of_rows(kept, "quick").len(), 3, "{kept}");
    assert!(kept.contains("power-cut: reset.") && kept.contains("kill-server: reset."), "{kept}");
    assert!(kept.contains("kill-server, only level: stop."), "{kept}");
    assert!(!kept.contains("did not answer"), "{kept}");
}

#[test]
fn marks_ratio_to_weaker_promise() {
    let mut campaign = campaign();
    plant_tier(&mut campaign, "safe", Tier::PowerLoss);
    plant_tier(&mut campaign, "quick", Tier::PowerLoss);
    // The latest measurement counts.
    plant_tier(&mut campaign, "quick", Tier::None);
    let text = text(&campaign);
    let quick = row(&text, "Ratios to safe", "quick");
    assert!(quick.contains("weaker promise") && quick.contains("2.0"), "{quick}");
    assert!(row(&text, "Ratios to safe", "level").contains("promise not measured"), "{text}");
    insta::assert_snapshot!(promises(&campaign));
    let kept = text.split("What survived").nth(1).unwrap();
    assert_eq!(words_of_rows(kept, "safe"), ["safe power-cut kept 7 ns"], "{kept}");
    // If a contender has two measurements, the latest is shown.
    let quick = ["quick power-cut LOST 4 of 9 ops 7 ns", "quick power-cut sync 0 B 0 ns 4 missing"];
    assert_eq!(words_of_rows(kept, "quick"), quick, "{kept}");
    // The strongest promise comes first, whichever is fastest.
    let below = text.split("Ratios to safe").nth(1).unwrap();
    assert!(below.find("\nsafe") < below.find("\nquick"), "{below}");
    let other = json(&campaign, Some("quick"));
    assert_eq!(other["contenders"][0]["promise"], "stronger promise");
    assert_eq!(other["contenders"][1]["promise"], "baseline");
}

#[test]
fn does_not_rank_unknown_tiers() {
    let mut campaign = campaign();
    assert!(row(&text(&campaign), "Ratios to safe", "quick").contains("promise not measured"));
    for name in ["safe", "quick", "level"] {
        plant_event(&mut campaign, name, Tier::ServerCrash, CrashEvent::KillServer);
    }
    let text = text(&campaign);
    assert!(!row(&text, "Ratios to safe", "quick").contains("promise"), "{text}");
    let lead = lead(&campaign);
    assert!(lead.contains("not tested: safe, quick and level."), "{lead}");
}

#[test]
fn names_caveats_of_results() {
    let mut campaign = campaign();
    for trial in &mut campaign.runs[1].trials {
        trial.passes[0].caveats.push(CaveatCode::NotQuiet.because("planted"));
    }
    let found = json(&campaign, None);
    let figures = &found["works"][0]["figures"];
    let has = |at: usize| figures[at]["caveats"].to_string().contains("not-quiet");
    assert_eq!([has(0), has(1), has(2)], [false, true, false], "{figures}");
    let text = text(&campaign);
    assert!(row(&text, "Figures of contenders", "quick").contains("not-quiet"), "{text}");
    assert!(!row(&text, "Figures of contenders", "safe").contains("not-quiet"), "{text}");
}

#[test]
fn computes_ratios_of_medians() {
    let found = json(&campaign(), None);
    assert_eq!(found["baseline"], "safe");
    let figures = &found["works"][0]["figures"];
    assert_eq!(found["works"][0]["pass"], "stream write");
    let ratio = figures[1]["ratio"].as_f64().unwrap();
    assert!((ratio - 1_010.0 / 505.0).abs() < 1e-9, "{ratio}");
    assert_eq!((&figures[1]["is_apart"], &figures[2]["is_apart"]), (&true.into(), &false.into()));
    let text = text(&campaign());
    assert!(row(&text, "Ratios to safe", "level").contains("~1.0"), "{text}");
}

#[test]
fn names_differences_besides_system() {
    let mut campaign = campaign();
    assert!(text(&campaign).contains("None: all settings"));
    campaign.runs[1].spec.durability = Durability::None;
    let text = text(&campaign);
    let line = row(&text, "Differences besides the system", "durability");
    assert!(line.contains("sync") && line.contains("none"), "{line}");
    // A difference that is not a factor does not separate the results.
    assert_eq!(json(&campaign, None)["works"].as_array().unwrap().len(), 2);
}

#[test]
fn names_failed_contender_with_reason() {
    let mut campaign = campaign();
    assert!(
        !render_contenders(&campaign, None, Format::Table, Screen::default()).unwrap().has_failed
    );
    for trial in &mut campaign.runs[1].trials {
        trial.state = TrialState::Failed("host server: its port never answered".into());
        trial.passes.clear();
    }
    assert!(
        render_contenders(&campaign, None, Format::Table, Screen::default()).unwrap().has_failed
    );
    let text = text(&campaign);
    assert!(text.contains("quick: failed: host server: "), "{text}");
    assert!(row(&text, "Ratios to safe", "quick").contains("failed"), "{text}");
}

fn counter(name: &str, risen: u64) -> Metric {
    Metric { name: name.into(), kind: MetricKind::Counter, values: vec![7, 7 + risen] }
}

/// One second of CPU time, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

fn watched(host: &str, metrics: Vec<Metric>) -> Telemetry {
    Telemetry { host: host.into(), times_ns: vec![0, 1], metrics }
}

/// Adds host counters to the first contender, and returns the bytes of a pass.
fn plant_cost(campaign: &mut Campaign) -> u64 {
    let bytes = campaign.runs[0].spec.set_bytes();
    for trial in &mut campaign.runs[0].trials {
        for pass in &mut trial.passes {
            pass.kinds[0].kind = if pass.pass.writes() { OpKind::Write } else { OpKind::Read };
            pass.kinds[0].bytes = bytes;
        }
        trial.passes[0].telemetry = vec![
            watched(
                "server",
                vec![
                    counter("disk.vda.write_bytes", 3 * bytes),
                    counter("disk.loop0.write_bytes", bytes),
                    counter("disk.vda.read_bytes", 9 * bytes),
                    counter("net.eth0.sent_bytes", bytes),
                    counter("net.lo.sent_bytes", bytes),
                    counter("net.br0.sent_bytes", bytes),
                    counter("system.server_cpu_ns", SECOND),
                ],
            ),
            watched(
                "client",
                vec![
                    counter("net.eth0.sent_bytes", 2 * bytes),
                    counter("disk.vda.write_bytes", bytes),
                    counter("system.client_cpu_ns", SECOND / 2),
                ],
            ),
            // A host that takes no part, such as one that is only watched.
            watched("other", vec![counter("net.eth0.sent_bytes", bytes)]),
        ];
    }
    bytes
}

#[test]
fn sums_cost_over_all_hosts() {
    let mut campaign = campaign();
    let bytes = plant_cost(&mut campaign);
    // Bytes written in a trial that does not count for the result don't count for its cost.
    let wrong = &mut campaign.runs[0].trials[1].passes[0];
    wrong.telemetry[0].metrics.push(counter("disk.vdb.write_bytes", 50 * bytes));
    wrong.caveats.push(CaveatCode::Accounting.because("planted"));
    let found = json(&campaign, None);
    let figures = &found["works"][0]["figures"];
    // Disks on top of other disks are not counted twice, and neither is traffic that a bridge
    // forwards.
    assert_eq!(figures[0]["disk_bytes_per_byte"], 3.0);
    assert_eq!(figures[0]["network_bytes_per_byte"], 4.0);
    let gib = bytes as f64 / (1_u64 << 30) as f64;
    for (name, seconds) in [("server_cpu", 1.0), ("program_cpu", 0.5)] {
        let cost = figures[0][name].as_f64().unwrap();
        assert!((cost - seconds / gib).abs() < 1e-9, "{name}: {cost}");
    }
    assert!(figures[1]["disk_bytes_per_byte"].is_null() && figures[1]["program_cpu"].is_null());
    let text = text(&campaign);
    let line = row(text.split("\nCost\n").nth(1).unwrap(), "stream write", "safe");
    assert!(line.contains(" s/GiB") && line.contains("3.00") && line.contains("4.00"), "{line}");
}

#[test]
fn commands_show_times_in_order() {
    let mut campaign = made(vec![
        (spec("safe", BackendKind::Posix, Workload::App), 10, 5),
        (spec("quick", BackendKind::Posix, Workload::App), 10, 5),
    ]);
    for (number, run) in campaign.runs.iter_mut().enumerate() {
        for (trial, time_ms) in run.trials.iter_mut().zip([2_000, 2_100, 2_200, 2_050, 2_150]) {
            let pass = &mut trial.passes[0];
            pass.window_ns = time_ms * 1_000_000 / (number as u64 + 1);
            pass.client_cpu_ns = 30_344_000;
            let command = &mut pass.kinds[0];
            command.issued = 1;
            command.done = 1;
        }
    }
    let text = text(&campaign);
    let line = row(text.split("Figures of contenders").nth(1).unwrap(), "app", "quick");
    let (before, high) = line.split_once(" s to ").unwrap_or_else(|| panic!("{line}"));
    let number = |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
    let low = number(before.split(' ').next_back().unwrap());
    let high = number(high.split(' ').next().unwrap());
    assert!(line.contains(" 1.05 s ") && low < 1.05 && high > 1.05, "{line}");
    let line = row(text.split("\nCost\n").nth(1).unwrap(), "app", "quick");
    assert!(line.contains(" 30.3 ms/command "), "{line}");
    let figure = &json(&campaign, None)["works"][0]["figures"][1];
    assert_eq!(figure["cpu_unit"], "ms/command");
    assert!((figure["client_cpu"].as_f64().unwrap() - 30.344).abs() < 1e-9, "{figure}");
    // Half the time is twice as fast.
    assert!((figure["ratio"].as_f64().unwrap() - 2.0).abs() < 0.01, "{figure}");
}

#[test]
fn scaling_of_commands_compares_times() {
    let with_hosts = |names: &'static [&'static str]| {
        move |run: &mut RunSpec| {
            run.placement.hosts = names.iter().map(|name| Host::local(*name)).collect();
        }
    };
    let mut campaign = along(&[&with_hosts(&["a"]), &with_hosts(&["a", "b"])]);
    for run in &mut campaign.runs {
        run.spec.workload = Workload::App;
        for pass in run.trials.iter_mut().flat_map(|trial| &mut trial.passes) {
            pass.pass = Pass::App;
        }
    }
    for trial in campaign.runs.iter_mut().flat_map(|run| &mut run.trials) {
        trial.passes.truncate(1);
    }
    let text = text(&campaign);
    let line = row(text.split("More clients").nth(1).unwrap(), "app", "safe");
    assert!(line.contains("(0.500 times)"), "{line}");
}

/// Returns the runs of a campaign at several values of a setting, each twice as fast as the one
/// before.
fn along(values: &[&dyn Fn(&mut RunSpec)]) -> Campaign {
    let mut all = campaign();
    let single = all.runs.clone();
    all.runs.clear();
    for (number, set) in values.iter().enumerate() {
        for run in &single {
            let mut run = run.clone();
            run.index = all.runs.len() as u32;
            set(&mut run.spec);
            for pass in run.trials.iter_mut().flat_map(|trial| &mut trial.passes) {
                pass.window_ns >>= number;
                pass.common_window_ns = pass.window_ns;
            }
            all.runs.push(run);
        }
    }
    all
}

#[test]
fn groups_figures_of_differing_workload() {
    let mut campaign =
        along(&[&|run| run.lab.as_mut().unwrap().invalidation = Invalidation::None, &|run| {
            run.lab.as_mut().unwrap().invalidation = Invalidation::Remount;
        }]);
    // Each looks up names in its own way, which is not a factor there.
    let mut names = campaign.runs[..3].to_vec();
    for (number, run) in names.iter_mut().enumerate() {
        run.index = 6 + number as u32;
        run.spec.workload = Workload::Metadata;
        let cold = if number == 0 { Invalidation::Caches } else { Invalidation::Remount };
        run.spec.lab.as_mut().unwrap().invalidation = cold;
    }
    campaign.runs.extend(names);
    let found = json(&campaign, None);
    let mut of_names = 0;
    for work in found["works"].as_array().unwrap() {
        if work["pass"].as_str().unwrap().starts_with("metadata") {
            of_names += 1;
            assert_eq!(work["factors"], "");
            assert!(work["figures"].as_array().unwrap().iter().all(|one| !one.is_null()), "{work}");
        }
    }
    assert_eq!(of_names, 3, "{found}");
}

/// Returns a function that gives a run the given number of client hosts.
fn with_hosts(count: usize) -> impl Fn(&mut RunSpec) {
    move |run: &mut RunSpec| {
        for number in 0..count {
            run.placement.hosts.push(Host::local(format!("client{number}")));
        }
    }
}

#[test]
fn lists_target_with_all_clients() {
    let with_more = |count: usize| {
        move |run: &mut RunSpec| {
            let lab = run.lab.as_mut().unwrap();
            for number in 0..count {
                lab.more_clients.push(Host::local(format!("more{number}")));
            }
        }
    };
    let html = render(&along(&[&with_more(9), &with_more(0), &with_more(1)]), Format::Html);
    assert_eq!(html.matches("<dt>target ").count(), 3, "{html}");
    assert_eq!(html.matches("client and 9 more)</p></dd>").count(), 3, "{html}");
}

#[test]
fn contenders_to_look_at() {
    let mut campaign = along(&[&with_hosts(1), &with_hosts(2), &with_hosts(10)]);
    plant_cost(&mut campaign);
    plant_tier(&mut campaign, "safe", Tier::PowerLoss);
    plant_tier(&mut campaign, "quick", Tier::None);
    let folder = env!("CARGO_TARGET_TMPDIR");
    std::fs::write(format!("{folder}/contenders.html"), render(&campaign, Format::Html)).unwrap();
    let page = render_contenders(&campaign, None, Format::Html, Screen::default()).unwrap().text;
    std::fs::write(format!("{folder}/contenders-only.html"), page).unwrap();
}

#[test]
fn shows_tables_and_bars_of_contenders() {
    let mut campaign = campaign();
    plant_tier(&mut campaign, "safe", Tier::PowerLoss);
    let page = render_contenders(&campaign, None, Format::Html, Screen::default()).unwrap().text;
    assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
    assert_eq!(page.matches("<section class=\"answer\"").count(), 1);
    assert!(page.contains("href=\"#contenders\"") && page.contains("id=\"contenders\""));
    for id in ["fairness", "what-was-kept", "ratios", "figures-of-contenders", "rates"] {
        assert!(page.contains(&format!("<h2 id=\"{id}\"")), "{id}");
    }
    assert!(page.contains("survives power loss"));
}

#[test]
fn orders_columns_by_client_count() {
    let campaign = along(&[&with_hosts(10), &with_hosts(2), &with_hosts(1)]);
    let text = text(&campaign);
    let below = text.split("\nMore clients\n").nth(1).unwrap_or_else(|| panic!("{text}"));
    let head = row(below, "stream write", "contender");
    let places = ["client_hosts 1", "client_hosts 2", "client_hosts 10"];
    let places = places.map(|name| head.find(name).unwrap_or_else(|| panic!("{head}")));
    assert!(places.is_sorted(), "{head}");
    let line = row(below, "stream write", "quick");
    assert!(line.contains("(0.500 times)") && line.contains("(0.250 times)"), "{line}");
    assert!(!text.contains("Cold against warm"), "{text}");
}

#[test]
fn pairs_cold_with_warm_reads() {
    let set = |invalidation| {
        move |run: &mut RunSpec| run.lab.as_mut().unwrap().invalidation = invalidation
    };
    // The cold runs come first here, and are half as fast.
    let campaign = along(&[&set(Invalidation::Remount), &set(Invalidation::None)]);
    let text = text(&campaign);
    let below = text.split("\nCold against warm\n").nth(1).unwrap_or_else(|| panic!("{text}"));
    let below = below.split("\nFigures of contenders\n").next().unwrap();
    assert!(row(below, "stream read", "safe").contains("(0.500 of warm)"), "{below}");
    assert!(!below.contains("stream write") && !text.contains("More clients"), "{below}");
}

#[test]
fn rejects_unknown_baseline() {
    let known = ["safe", "quick", "level"].map(str::to_owned).to_vec();
    let refused = render_contenders(&campaign(), Some("slow"), Format::Table, Screen::default());
    assert_eq!(refused, Err(UnknownContender { name: "slow".into(), known }));
}

#[test]
fn adds_comparison_only_for_systems() {
    let campaign = campaign();
    for format in [Format::Table, Format::Markdown, Format::Html] {
        assert!(render(&campaign, format).contains("Ratios to safe"), "{format:?}");
    }
    assert!(!render(&campaigns::quick(), Format::Markdown).contains("Ratios to"));
}
