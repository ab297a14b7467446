//! Reports of fixed campaigns, as people and programs get them.
//!
//! The pages written by the last test are in the target directory below `tmp`, for inspection.

use model::{
    Campaign, CaveatCode, ClientRecord, ClientResult, Completion, Histogram, ListingCalls,
    ListingWork, OfferedLoad, Op, OpKind, Outcome, Pass, PathWork, WireBytes, WorkingSet, Workload,
};
use report::{Format, NextStep, ReportDetail, Screen, render, render_screen};

use crate::campaigns::{
    self, HOSTILE, bonnie, empty, failed, programs, quick, sweep, transports, wide,
};

fn all() -> Vec<Campaign> {
    vec![quick(), programs(), sweep(), wide(), transports(), failed(), empty()]
}

#[test]
fn the_table_of_a_quick_campaign() {
    insta::assert_snapshot!(render(&quick(), Format::Table));
}

#[test]
fn uses_factors_as_columns() {
    insta::assert_snapshot!(render(&sweep(), Format::Table));
}

#[test]
fn commands_have_a_table_of_times() {
    insta::assert_snapshot!(render(&programs(), Format::Table));
    let lines = |format, start: &str| {
        let report = render(&programs(), format);
        report.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>().join("\n")
    };
    let heads = lines(Format::Markdown, "| target");
    assert!(
        heads
            .ends_with("| wall | ±95 % | slowest | user | sys | max RSS | n | verdict | caveats |")
    );
    let row = lines(Format::Markdown, "| posix | app");
    assert!(row.contains("| 12.3 s |") && row.contains("| 4.10 s | 2.05 s | 24 MiB |"), "{row}");
    let page = render(&programs(), Format::Html);
    assert!(
        page.contains(">max RSS<") && page.contains(">4.10 s<") && !page.contains("Ops per second")
    );
    let csv = lines(Format::Csv, "7,programs,1,");
    assert!(csv.contains(",12300000000,4100000000,2050000000,25165824,"), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&render(&programs(), Format::Json)).unwrap();
    let used = json["figures"].as_array().unwrap().iter().find_map(|f| f.get("program")).unwrap();
    assert_eq!(used["rss_max_bytes"], 24 << 20);
}

#[test]
fn shows_wire_beside_moved_bytes() {
    let mut campaign = sweep();
    let heads = |campaign: &Campaign| {
        let report = render(campaign, Format::Markdown);
        let head = report.lines().find(|line| line.starts_with("| target")).unwrap();
        head.contains("| wire |")
    };
    assert!(!heads(&campaign));
    for run in &mut campaign.runs {
        run.spec.workload = Workload::DataOps;
        run.spec.passes = vec![Pass::Copy];
        for trial in &mut run.trials {
            trial.passes.truncate(1);
            trial.passes[0].pass = Pass::Copy;
            trial.passes[0].kinds[0].kind = OpKind::Copy;
            let wire = WireBytes { sent_bytes: 3 << 10, received_bytes: 2 << 10 };
            trial.passes[0].scope.wire = Some(wire);
        }
    }
    assert!(heads(&campaign));
    let table = render(&campaign, Format::Table);
    assert!(table.contains("5 KiB") && table.contains("for 256 MiB"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
    let figure = &json["figures"][0];
    assert_eq!(
        (&figure["wire_bytes"], &figure["moved_bytes"]),
        (&5120.into(), &(256 << 20).into())
    );
    // A mount whose calls nobody counted has no such column.
    for trial in &mut campaign.runs[0].trials {
        trial.passes[0].scope.wire = None;
    }
    campaign.runs.truncate(1);
    assert!(!heads(&campaign));
}

#[test]
fn lists_unfitting_settings_above_rows() {
    insta::assert_snapshot!(render(&wide(), Format::Table));
}

#[test]
fn shows_factor_rates_side_by_side() {
    let table = render(&transports(), Format::Table);
    let begin = table.find("stream write, median").unwrap_or_else(|| panic!("{table}"));
    let end = table.find("How to read it").unwrap();
    insta::assert_snapshot!(&table[begin..end]);
    // What is impossible is a row with its reason, without caveats about results that it does not
    // have.
    assert_eq!(table.matches("not possible: v4.1 ").count(), 8);
    assert_eq!(table.matches("not possible: transfer ").count(), 4);
    assert!(table.contains("transfer_size 256 KiB (granted 64 KiB)"), "{table}");
}

/// A client that did the given number of ops of 4 KiB, each of them in this time.
fn client(client: u32, ops: u64, time_ns: u64) -> ClientResult {
    let mut record = ClientRecord::default();
    let op = Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 0, file: 0, kind: OpKind::Read };
    let outcome = Outcome::Done(4_096);
    for _ in 0..ops {
        record.ended(&Completion { op, sent_ns: 0, done_ns: time_ns, outcome });
    }
    record.finish(client)
}

#[test]
fn names_slowest_and_fastest_client() {
    let mut campaign = quick();
    for trial in &mut campaign.runs[0].trials {
        let reads = trial.passes.iter_mut().find(|pass| pass.pass == Pass::Read).unwrap();
        reads.window_ns = 1_000_000_000;
        reads.clients = vec![client(0, 300, 100_000), client(1, 100, 900_000)];
    }
    let markdown = render(&campaign, Format::Markdown);
    let line = markdown.lines().find(|line| line.contains(": 2 clients; ")).unwrap();
    let line = line.trim_start_matches("- ");
    insta::assert_snapshot!(line);
    for format in [Format::Table, Format::Html] {
        let report = render(&campaign, format).replace("&#39;", "'");
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(report.contains(line), "{format:?}: {report}");
    }
    let json: serde_json::Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
    let reads = json["figures"].as_array().unwrap().iter().find(|f| f["pass"] == "read").unwrap();
    assert_eq!(reads["clients"]["slowest"]["client"], 1);
    assert_eq!(reads["clients"]["slowest"]["ops_per_s"], 100.0);
    assert_eq!(reads["clients"]["jain_fairness_index"], 0.8);
    let passes = json["runs"][0]["trials"][0]["passes"].as_array().unwrap();
    assert_eq!(passes[1]["clients"][0]["ops"], 300);
    assert!(passes[0].get("clients").is_none(), "only if it was requested");
}

/// Work over an address, each op in this time.
fn path(address: &str, ops: u64, time_ns: u64) -> PathWork {
    let mut times = Histogram::new();
    times.record_n(time_ns, ops);
    let address = address.to_owned();
    PathWork { address, connections: 1, ops, bytes: ops << 20, times, ..PathWork::default() }
}

#[test]
fn lists_several_addresses_of_server() {
    let mut campaign = quick();
    for trial in &mut campaign.runs[0].trials {
        let reads = trial.passes.iter_mut().find(|pass| pass.pass == Pass::Read).unwrap();
        let lost = PathWork { lost_connections: 1, moved_calls: 7, ..path("b:2049", 100, 900_000) };
        reads.scope.paths = vec![path("a:2049", 300, 100_000), lost];
    }
    let markdown = render(&campaign, Format::Markdown);
    let begin = markdown.find("## Addresses of the server").unwrap();
    let section = markdown[begin..].lines().take(8).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(section);
    for format in [Format::Table, Format::Html] {
        let report = render(&campaign, format);
        assert!(report.contains("b:2049"), "{format:?}");
        assert!(!render(&quick(), format).contains("Addresses of the server"), "{format:?}");
    }
    let json: serde_json::Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
    let passes = json["runs"][0]["trials"][0]["passes"].as_array().unwrap();
    let lost = &passes[1]["addresses"][1];
    assert_eq!((&lost["ops"], &lost["moved_calls"]), (&100.into(), &7.into()));
    assert_eq!(lost["service_time"]["mean_ns"], 900_000);
    assert!(passes[0].get("addresses").is_none());
}

#[test]
fn renders_empty_and_failed_campaigns() {
    insta::assert_snapshot!("empty", render(&empty(), Format::Table));
    insta::assert_snapshot!("failed", render(&failed(), Format::Table));
}

#[test]
fn the_markdown_of_a_quick_campaign() {
    insta::assert_snapshot!(render(&quick(), Format::Markdown));
}

#[test]
fn the_csv_of_a_quick_campaign() {
    insta::assert_snapshot!(render(&quick(), Format::Csv));
}

/// Returns a campaign of each kind, and a matrix of four factors.
fn all_and_a_matrix() -> Vec<Campaign> {
    let mut campaigns = all();
    campaigns.push(campaigns::many(200, Workload::Mixed, 3));
    campaigns
}

#[test]
fn fits_lines_to_terminal() {
    for campaign in all_and_a_matrix() {
        for columns in [60, 80, 100, 120, 200] {
            for extent in [ReportDetail::Main, ReportDetail::Whole] {
                let text = render_screen(&campaign, Screen::new(columns, extent));
                for line in text.lines() {
                    let width = line.chars().count();
                    assert!(width <= columns, "{width} of {columns} in {}: {line}", campaign.name);
                }
            }
        }
    }
}

#[test]
fn drops_columns_by_value_when_narrow() {
    let heads = |columns| {
        let text = render_screen(&quick(), Screen::new(columns, ReportDetail::Main));
        let head = text.lines().find(|line| line.starts_with("target")).unwrap().to_owned();
        head.split("  ")
            .map(|head| head.trim().to_owned())
            .filter(|head| !head.is_empty())
            .collect()
    };
    let wide: Vec<String> = heads(200);
    let narrow: Vec<String> = heads(80);
    assert!(wide.contains(&"max".to_owned()) && wide.contains(&"CPU".to_owned()), "{wide:?}");
    assert!(!narrow.contains(&"max".to_owned()), "{narrow:?}");
    for kept in ["target", "pass", "rate", "±95 %", "p99"] {
        assert!(narrow.contains(&kept.to_owned()), "{kept}: {narrow:?}");
    }
}

#[test]
fn puts_answer_before_table() {
    let text = render_screen(&quick(), Screen::new(100, ReportDetail::Main));
    let reached = text.find("Fastest: ").unwrap();
    assert!(reached < text.find("\ntarget").unwrap(), "{text}");
    assert!(text.contains("\nCaveats ("), "{text}");
    assert!(!text.contains("How to read it") && !text.contains("Conditions"), "{text}");
    assert!(text.ends_with("conditions: dfsbench report --all.\n"), "{text}");
    let whole = render_screen(&quick(), Screen::new(100, ReportDetail::Whole));
    assert!(whole.contains("How to read it") && whole.contains("Conditions"), "{whole}");
    assert_eq!(whole, render(&quick(), Format::Table));
}

#[test]
fn shows_best_and_worst_of_many() {
    let campaign = campaigns::many(200, Workload::Mixed, 3);
    let screen = Screen::new(80, ReportDetail::Main);
    let text = render_screen(&campaign, screen);
    assert!(text.lines().count() < 60, "{text}");
    assert!(text.contains("Dominant factors"), "{text}");
    assert!(text.contains("10 of 200"), "{text}");
    let rows = |text: &str| text.lines().filter(|line| line.contains("op/s")).count();
    let whole = render_screen(&campaign, Screen::new(80, ReportDetail::Whole));
    assert!(rows(&text) < 20 && rows(&whole) >= 200, "{} {}", rows(&text), rows(&whole));
}

#[test]
fn a_report_has_one_answer() {
    let mut campaign = quick();
    let page = render(&campaign, Format::Html);
    assert!(page.contains("id=\"answer\"") && !page.contains("id=\"found\""));
    campaign.question = model::Question::Ladder(model::question::ladder::Ladder::default());
    let page = render(&campaign, Format::Html);
    assert!(!page.contains("id=\"answer\"") && page.contains("id=\"found\""));
    assert_eq!(page.matches("<section class=\"answer\"").count(), 1);
    for format in [Format::Table, Format::Markdown, Format::Html] {
        let report = render(&campaign, format);
        assert!(report.contains("15 of 20 results are clean"), "{report}");
        assert!(!report.contains("Fastest: "), "{report}");
    }
}

#[test]
fn the_next_step_fits_the_campaign() {
    let mut campaign = sweep();
    assert_eq!(NextStep::from_campaign(&campaign), Some(NextStep::View));
    for run in &mut campaign.runs {
        run.trials.truncate(2);
    }
    let having = campaign.runs.len() * campaign.runs[0].spec.passes().len();
    let settle = NextStep::Settle {
        flag: "--trials 5".to_owned(),
        caveat: CaveatCode::TooFewTrials,
        settled: having,
        having,
    };
    assert_eq!(NextStep::from_campaign(&campaign), Some(settle));
    campaign.question = model::Question::Ladder(model::question::ladder::Ladder::default());
    assert_eq!(NextStep::from_campaign(&campaign), Some(NextStep::View));
    campaign.state = model::CampaignState::Interrupted;
    assert_eq!(NextStep::from_campaign(&campaign), Some(NextStep::Resume));
}

#[test]
fn suggests_measuring_own_target() {
    let mut campaign = sweep();
    campaign.runs.truncate(1);
    campaign.runs[0].spec.target = model::Target::Null;
    assert_eq!(NextStep::from_campaign(&campaign), Some(NextStep::Explore));
    campaign.runs[0].spec.target = model::Target::Directory { path: "/srv".into() };
    assert_eq!(NextStep::from_campaign(&campaign), Some(NextStep::View));
    "quick".clone_into(&mut campaign.name);
    assert_eq!(NextStep::from_campaign(&campaign), Some(NextStep::Explore));
}

/// Makes the trials of some runs fail with a reason.
fn fail(campaign: &mut Campaign, runs: usize, reason: &str) {
    for trial in campaign.runs.iter_mut().take(runs).flat_map(|run| &mut run.trials) {
        trial.passes.clear();
        trial.state = model::TrialState::Failed(reason.to_owned());
    }
}

#[test]
fn gives_hint_for_failure_or_nothing() {
    let hinted = "no space (hint: fewer --files)";
    let repair = Some(NextStep::Repair("fewer --files".to_owned()));
    let mut some = sweep();
    let mut all = sweep();
    fail(&mut some, 1, hinted);
    fail(&mut all, usize::MAX, hinted);
    assert_eq!(
        [NextStep::from_campaign(&some), NextStep::from_campaign(&all)],
        [repair.clone(), repair.clone()]
    );
    all.question = model::Question::Ladder(model::question::ladder::Ladder::default());
    assert_eq!(NextStep::from_campaign(&all), repair);

    let mut some = sweep();
    let mut all = sweep();
    for run in some.runs.iter_mut().chain(&mut all.runs) {
        run.spec.target = model::Target::Directory { path: "/srv".into() };
    }
    fail(&mut some, 1, "exit code 7");
    fail(&mut all, usize::MAX, "exit code 7");
    assert_eq!([NextStep::from_campaign(&some), NextStep::from_campaign(&all)], [None, None]);
    let mut invalid = sweep();
    let errors = CaveatCode::Errors.because("1 failed ops");
    for trial in &mut invalid.runs[0].trials {
        trial.passes[0].caveats.push(errors.clone());
    }
    assert_eq!(NextStep::from_campaign(&invalid), None);
    let server = model::NfsTarget::new("filer", "/export");
    all.runs[0].spec.target = model::Target::Nfs(server);
    assert_eq!(
        NextStep::from_campaign(&all),
        Some(NextStep::Probe("nfs://filer/export".to_owned()))
    );
}

#[test]
fn never_suggests_resume_that_is_refused() {
    let curve = model::question::CurveRequest::default();
    let bound = model::question::ResponseBound { most_ns: 1, quantile_permille: None };
    let search = model::question::CurveRequest { bound: Some(bound), ..curve.clone() };
    for question in [
        model::Question::Ramp(model::question::RampRequest::default()),
        model::Question::Curve(search),
        model::Question::Curve(curve),
        model::Question::Soak(model::soak::Soak::default()),
        model::Question::Figures,
    ] {
        let step = if question.is_search() { NextStep::Repeat } else { NextStep::Resume };
        let interrupted = model::CampaignState::Interrupted;
        let mut campaign = Campaign { question, state: interrupted, ..sweep() };
        assert_eq!(NextStep::from_campaign(&campaign), Some(step), "{:?}", campaign.question);
        // A process is running it.
        campaign.state = model::CampaignState::Running;
        assert_eq!(
            NextStep::from_campaign(&campaign),
            Some(NextStep::View),
            "{:?}",
            campaign.question
        );
    }
}

/// A campaign with the given number of trials, which alternate between two rates: half the interval
/// is the given percentage of the median.
fn alternating(trials: u32, percent: u64) -> Campaign {
    let mut campaign = sweep();
    for run in &mut campaign.runs {
        let first = run.trials[0].clone();
        run.trials.clear();
        for index in 0..trials {
            let mut trial = first.clone();
            trial.index = index;
            // No two neighbors are equal, and none is an outlier.
            for pass in &mut trial.passes {
                let way = if index % 2 == 0 { 100 + percent } else { 100 - percent };
                pass.window_ns = 10_000_000_000_000 / way / 10;
            }
            run.trials.push(trial);
        }
    }
    campaign
}

#[test]
fn advises_more_trials_for_wide_interval() {
    let advised = |campaign: &Campaign| match NextStep::from_campaign(campaign) {
        Some(NextStep::Settle { flag, caveat, .. }) => Some((flag, caveat)),
        _ => None,
    };
    // ± 14 % with a limit of ± 10 %: 14 x 1.96 trials are 28.
    let mut wide = alternating(14, 14);
    let (flag, caveat) = advised(&wide).unwrap();
    assert_eq!(caveat, CaveatCode::WideInterval);
    let trials: u32 = flag.strip_prefix("--trials ").unwrap().parse().unwrap();
    assert!((25..=35).contains(&trials), "{flag}");
    // A budget would stop them earlier.
    wide.plan_toml = "trials = 15\nbudget = \"70s\"\n[server]\n".to_owned();
    let (flag, _) = advised(&wide).unwrap();
    assert_eq!(flag, format!("--trials {trials} --budget 3m"));
    // ± 60 % would take 500 trials, and ± 5 % needs none.
    for percent in [60, 5] {
        let other = advised(&alternating(14, percent));
        assert!(other.is_none_or(|(_, caveat)| caveat != CaveatCode::WideInterval), "{percent}");
    }
}

#[test]
fn fits_100_columns_without_color() {
    for campaign in all() {
        let table = render(&campaign, Format::Table);
        let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{widest} in {}", campaign.name);
        assert!(!table.contains('\u{1b}'));
        assert!(table.lines().all(|line| line.trim_end() == line));
    }
}

#[test]
fn every_csv_line_has_every_column() {
    for campaign in all() {
        let csv = render(&campaign, Format::Csv);
        let columns = csv.lines().next().unwrap().split(',').count();
        for line in csv.lines().skip(1) {
            // All other commas are in quoted cells.
            let bare: String = line.split('"').step_by(2).collect();
            assert_eq!(bare.split(',').count(), columns, "{line}");
        }
    }
}

#[test]
fn the_json_holds_everything() {
    let json: serde_json::Value = serde_json::from_str(&render(&quick(), Format::Json)).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["campaign"]["seed"], "42");
    assert_eq!(json["campaign"]["ceiling"]["service_time_p50_ns"], 40);
    assert_eq!(json["figures"].as_array().unwrap().len(), 20);
    let cached = &json["figures"][7];
    assert_eq!((&cached["target"], &cached["pass"]), (&"posix".into(), &"read".into()));
    assert_eq!(
        (&cached["verdict"], &cached["caveats"][0]["trials_seen"]),
        (&"degraded".into(), &3.into())
    );
    assert_eq!(cached["caveats"][0]["code"], "cached");
    let failed = &json["figures"][18];
    assert!(failed["rate"].is_null() && failed["failures"][0]["trials"] == 5);
    let trial = &json["runs"][0]["trials"][4];
    assert_eq!((&trial["state"], &trial["index"]), (&"done".into(), &4.into()));
    let write = &trial["passes"][0]["kinds"][0];
    assert_eq!((&write["kind"], &write["done"]), (&"write".into(), &256.into()));
    let buckets = write["service_time_buckets"].as_array().unwrap();
    assert_eq!(buckets.iter().map(|b| b[1].as_u64().unwrap()).sum::<u64>(), 256);
    assert_eq!(json["runs"][9]["trials"][0]["state"], "failed");
    assert_eq!(json["runs"][9]["settings"]["durability"], "sync");
}

#[test]
fn rendering_twice_gives_the_same_bytes() {
    for campaign in all() {
        for format in Format::REPORT {
            let text = render(&campaign, format);
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{}", format.name());
            assert_eq!(text, render(&campaign.clone(), format));
            assert_eq!(Format::from_name(format.name()), Some(format));
        }
    }
}

#[test]
fn escapes_names_on_page() {
    let mut campaign = quick();
    campaign.name = HOSTILE.into();
    campaign.command = "</pre></style><img src=x onerror=y>".into();
    for run in &mut campaign.runs {
        for fact in run.trials.iter_mut().flat_map(|trial| &mut trial.facts) {
            fact.name = "\"><svg onload=z>".into();
        }
    }
    let page = render(&campaign, Format::Html);
    // The script is ours, and it is the only one.
    assert_eq!(page.matches("<script").count(), 1);
    for hostile in ["<script>alert", "<b>", "<img", "<i>", "<relatime>", "<svg onload"] {
        assert!(!page.contains(hostile), "{hostile}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert_eq!(page.matches("</style>").count(), 1);
}

#[test]
fn a_page_loads_nothing() {
    for campaign in all() {
        let page = render(&campaign, Format::Html);
        for load in ["http://", "https://", "src=", "@import", "url(", "<link", "fetch("] {
            assert!(!page.contains(load), "{load} in {}", campaign.name);
        }
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("default-src 'none'"));
    }
}

#[test]
fn labels_pictures_and_tables() {
    let page = render(&quick(), Format::Html);
    let count = |what: &str| page.matches(what).count();
    // Rates and times of six kinds of pass, and the quantiles of those with enough ops.
    let quantiles = count("id=\"quantiles-") / 2;
    assert!(quantiles >= 5, "{quantiles}");
    assert_eq!([count("role=\"img\""), count("<desc ")], [12 + quantiles; 2]);
    assert_eq!(count("<table"), count("<caption"));
    assert!(
        page.contains("<desc id=\"byte-rates-0-desc\">nfs: ▼ 121 MB/s ±2.5 %; posix: ▲ 403 MB/s")
    );
    let ids: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let distinct: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), distinct.len());
    for label in page.split("aria-labelledby=\"").skip(1) {
        assert!(distinct.contains(label.split('"').next().unwrap()));
    }
}

#[test]
fn shows_every_figure_on_page() {
    let campaign = quick();
    let page = render(&campaign, Format::Html);
    for row in render(&campaign, Format::Markdown).lines().filter(|line| line.starts_with("| ")) {
        for cell in row.trim_matches('|').split(" | ").skip(2).map(str::trim) {
            let figure = cell.split(" (").next().unwrap().split(" +").next().unwrap();
            let plain = figure.starts_with(|c: char| c.is_ascii_digit() || c == '±');
            assert!(!plain || page.contains(figure), "{figure}");
        }
    }
}

#[test]
fn every_write_figure_states_its_durability() {
    let mut campaign = quick();
    let report = render(&campaign, Format::Markdown);
    let conditions = report.split("## Conditions").nth(1).unwrap();
    for target in ["nfs", "posix", "uring"] {
        for pass in ["stream write", "mixed", "metadata create", "metadata remove"] {
            let lead = format!("- {pass} on ");
            let names = |line: &&str| line.starts_with(&lead) && line.contains(target);
            assert_eq!(conditions.lines().filter(names).count(), 1, "{pass} on {target}");
        }
    }
    assert!(report.contains("- metadata create on posix and uring: not synced"), "{report}");
    assert!(report.contains("- metadata create on nfs: FILE_SYNC "), "{report}");

    // A sync that was requested but not recorded is not claimed, and a mix that only reads is not a
    // write.
    for run in &mut campaign.runs {
        run.spec.read_percent = 100;
        for pass in run.trials.iter_mut().flat_map(|trial| &mut trial.passes) {
            pass.kinds.retain(|kind| kind.kind != OpKind::Sync);
        }
    }
    let report = render(&campaign, Format::Markdown);
    let unsynced = report.lines().find(|line| line.starts_with("- stream write on posix"));
    insta::assert_snapshot!(unsynced.unwrap_or(&report));
    assert!(!report.contains("- mixed on"));
}

#[test]
fn pages_to_look_at() {
    for campaign in all() {
        let path = format!("{}/{}.html", env!("CARGO_TARGET_TMPDIR"), campaign.name);
        std::fs::write(path, render(&campaign, Format::Html)).unwrap();
    }
}

#[test]
fn aligns_bonnie_table_with_original() {
    let table = render(&bonnie(), Format::Bonnie);
    let printed = [
        "              -------Sequential Output-------- ---Sequential Input-- --Random--",
        "              -Per Char- --Block--- -Rewrite-- -Per Char- --Block--- --Seeks---",
        "Machine    MB K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU  /sec %CPU",
        "MTU-1500  100  5537 93.1 26336 76.1 23495 78.7  7041 100.0 177193 100.4 6298.3 89.8",
        "MTU-1500  500  5517 94.7 17783 33.3  6292 20.0  4889 88.6 16175 64.8 648.6 23.4",
    ];
    assert_eq!(table.lines().take(5).collect::<Vec<_>>(), printed);
    let none = render(&quick(), Format::Bonnie);
    insta::assert_snapshot!(
        none,
        @"This campaign has no bonnie runs: try --format table."
    );
}

#[test]
fn arranges_iozone_by_size_and_pass() {
    let table = render(&sweep(), Format::Iozone);
    let begin = table.split("\n\n").next().unwrap();
    insta::assert_snapshot!(begin);
    assert!(table.contains("nfs, workers 4"), "{table}");
}

#[test]
fn shows_offered_beside_achieved_load() {
    let mut campaign = quick();
    campaign.runs[1].spec.load.rate_per_s = 60_000;
    for pass in campaign.runs[1].trials.iter_mut().flat_map(|trial| &mut trial.passes) {
        let offered = OfferedLoad {
            rate_per_s: 60_000,
            scheduled_ops: 53_000,
            span_ns: 898_000_000,
            ..OfferedLoad::default()
        };
        pass.scope.offered = Some(offered);
        let touched = WorkingSet { files: 4, bytes: 3 << 20, unit_bytes: 4_096 };
        pass.scope.working_set = Some(touched);
    }
    let markdown = render(&campaign, Format::Markdown);
    let line = markdown.lines().find(|line| line.contains(" requested, ")).unwrap();
    let line = line.trim_start_matches("- ");
    insta::assert_snapshot!(line);
    for format in [Format::Table, Format::Html] {
        let report = render(&campaign, format);
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(report.contains(line), "{format:?}: {report}");
    }
    let json: serde_json::Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
    let mixed = json["figures"].as_array().unwrap().iter().find(|f| f["pass"] == "mix").unwrap();
    assert_eq!(
        (&mixed["offered_ops_per_s"], &mixed["kinds"][0]["kind"]),
        (&60_000.into(), &"read".into())
    );
}

#[test]
fn describes_listings_in_words() {
    let mut campaign = quick();
    campaign.runs.truncate(1);
    let run = &mut campaign.runs[0];
    run.spec.workload = Workload::Listing;
    run.spec.passes = vec![Pass::ListStat];
    for trial in &mut run.trials {
        trial.passes.truncate(1);
        let pass = &mut trial.passes[0];
        pass.pass = Pass::ListStat;
        pass.window_ns = 600_000_000;
        pass.kinds.truncate(1);
        pass.kinds[0].kind = OpKind::ListStat;
        (pass.kinds[0].issued, pass.kinds[0].done) = (50_000, 50_000);
        let calls = |procedure: &str, count| ListingCalls { procedure: procedure.into(), count };
        pass.scope.listing = Some(ListingWork {
            directories: 3,
            entries: 50_000,
            calls: vec![calls("READDIR", 100), calls("LOOKUP", 25)],
            reply_bytes: 8_000_000,
            ..ListingWork::default()
        });
    }
    let line = "lists, with attributes, 50,000 entries in 3 directories in 600 ms (83.3 kentries/s); \
                125 round trips (100 READDIR, 25 LOOKUP), 400 entries each, 160 bytes per entry";
    for format in [Format::Table, Format::Markdown, Format::Html] {
        let report = render(&campaign, format);
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(report.contains(line), "{format:?}: {report}");
    }
    let json: serde_json::Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
    assert_eq!(json["figures"][0]["listing"]["calls"][1]["count"], 25);
    // A client that answers from its cache makes no calls.
    for pass in campaign.runs[0].trials.iter_mut().flat_map(|trial| &mut trial.passes) {
        let listing = pass.scope.listing.as_mut().unwrap();
        listing.calls.truncate(1);
        listing.calls[0].count = 0;
    }
    assert!(render(&campaign, Format::Table).contains("no round trips"));
}

#[test]
fn marks_trials_left_out() {
    let mut campaign = sweep();
    campaign.runs.truncate(1);
    campaign.runs[0].spec.repetition.discard = model::Discard::Extremes;
    insta::assert_snapshot!(render(&campaign, Format::Trials));
    let page = render(&campaign, Format::Html);
    assert!(page.contains("in parentheses, excluded"), "no spread");
}
