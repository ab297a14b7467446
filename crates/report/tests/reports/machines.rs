//! Output for programs: JSON that fits its schema, OpenMetrics that fits its standard, and tables
//! that match those of old reports.

use std::collections::BTreeSet;

use model::{Campaign, CampaignLine, CaveatCode, HostResult, Pass, TrialState, Workload};
use report::live::{CurrentPass, HostRate, Live, LiveRate, TrialRate, WorkNames};
use report::{
    CampaignNote, Format, ListedCampaign, ReportDetail, Screen, Verdicts, about_json,
    describe_campaign, list, render,
};
use serde_json::Value;

use crate::parsers::{check, open_metrics};

use crate::campaigns;

const SCHEMA: &str = include_str!("../../../../docs/results.schema.json");

fn all() -> Vec<Campaign> {
    let mut of_hosts = campaigns::quick();
    let pass = &mut of_hosts.runs[0].trials[0].passes[0];
    pass.hosts = vec![HostResult { host: "c1".into(), ..HostResult::default() }];
    vec![
        campaigns::quick(),
        campaigns::programs(),
        campaigns::bonnie(),
        campaigns::sweep(),
        campaigns::wide(),
        campaigns::transports(),
        campaigns::failed(),
        campaigns::empty(),
        of_hosts,
    ]
}

fn hostile() -> Campaign {
    let mut campaign = campaigns::quick();
    campaign.name = "=1+1,\"a\\b\"\n# EOF\n<b>{x=\"y\"} 1".into();
    campaign
}

#[test]
fn validates_json_against_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for campaign in all().into_iter().chain([hostile()]) {
        let json: Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
        check(&schema, &schema, &json, "").unwrap();
    }
}

#[test]
fn rejects_missing_or_unknown_fields() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let json: Value = serde_json::from_str(&render(&campaigns::quick(), Format::Json)).unwrap();
    let broken = |at: &str, value: Value| {
        let mut json = json.clone();
        *json.pointer_mut(at).unwrap() = value;
        check(&schema, &schema, &json, "").unwrap_err()
    };
    assert!(broken("/schema", 2.into()).contains("constant"));
    assert!(broken("/figures/0/rate", "fast".into()).contains("/figures/0/rate"));
    assert!(broken("/campaign/seed", 7.into()).contains("/campaign/seed"));
    assert!(broken("/runs/0/trials/0/passes/0/ops", (-1).into()).contains("too small"));
    let mut more = json.clone();
    more["campaign"]["mood"] = "fine".into();
    assert!(check(&schema, &schema, &more, "").unwrap_err().contains("mood"));
    more = json;
    more["figures"][0].as_object_mut().unwrap().remove("verdict");
    assert!(check(&schema, &schema, &more, "").unwrap_err().contains("verdict"));
}

#[test]
fn validates_metrics_against_standard() {
    for campaign in all().into_iter().chain([hostile()]) {
        let text = render(&campaign, Format::OpenMetrics);
        let families = open_metrics(&text).unwrap();
        assert!(families.values().all(|family| !family.help.is_empty()));
        let named = &families["dfsbench_campaign"].samples[0].1["name"];
        assert_eq!(*named, campaign.name);
    }
}

#[test]
fn exports_valid_metrics_during_campaign() {
    let idle = Live { name: "a \"b\"\n".into(), ..Live::default() };
    let work = WorkNames { target: "nfs\\1".into(), backend: "nfs", workload: "stream" };
    let rate = LiveRate { ops_per_s: 12.5, bytes_per_s: 1e9 };
    let pass = Pass::Read;
    let busy = Live {
        trials_planned: Some(3),
        ops: 7,
        current: Some(CurrentPass { work: work.clone(), pass, rate: Some(rate) }),
        hosts: vec![HostRate { host: "c1".into(), rate }, HostRate { host: "c2".into(), rate }],
        last_trial: vec![TrialRate { work, pass, rate, service_time_p99_ns: 1_500_000 }],
        caveats: vec![(CaveatCode::Cached, 2)],
        ..Live::default()
    };
    let [idle, busy] = [idle, busy].map(|live| open_metrics(&live.render()).unwrap());
    assert!(idle.keys().eq(busy.keys()));
    let value = |name: &str| busy[name].samples[0].2.to_string();
    assert_eq!(value("dfsbench_live_bytes_per_second"), "1000000000");
    assert_eq!(value("dfsbench_live_last_trial_service_time_p99_seconds"), "0.0015");
    assert_eq!(busy["dfsbench_live_host_ops_per_second"].samples.len(), 2);
    assert!(idle["dfsbench_live_bytes_per_second"].samples.is_empty());
}

/// Splits a point of the line protocol at a character that is not escaped by a backslash or inside
/// quotes.
fn split_point(text: &str, at: char) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut escaped = false;
    let mut quoted = false;
    for c in text.chars() {
        if c == at && !escaped && !quoted {
            parts.push(std::mem::take(&mut part));
            continue;
        }
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        part.push(c);
    }
    parts.push(part);
    parts
}

#[test]
fn follows_influx_line_protocol() {
    for campaign in all().into_iter().chain([hostile()]) {
        let text = render(&campaign, Format::Influx);
        let mut known = BTreeSet::new();
        for line in text.lines().filter(|line| !line.starts_with("# ")) {
            let parts = split_point(line, ' ');
            let [series, fields, at_ns] = parts.as_slice() else { panic!("{line}") };
            assert!(at_ns.parse::<i64>().is_ok(), "{line}");
            let mut tags = split_point(series, ',').into_iter();
            let measurement = tags.next().unwrap();
            assert!(["dfsbench", "dfsbench_trial"].contains(&measurement.as_str()), "{line}");
            for tag in tags {
                assert!(split_point(&tag, '=').iter().all(|it| !it.is_empty()), "{line}: {tag}");
            }
            for field in split_point(fields, ',') {
                let [key, value] = &split_point(&field, '=')[..] else { panic!("{line}: {field}") };
                let is_text = value.starts_with('"') && value.ends_with('"');
                let number = value.trim_end_matches('i').parse::<f64>();
                let is_number = number.is_ok_and(f64::is_finite);
                let is_flag = ["true", "false"].contains(&value.as_str());
                assert!(!key.is_empty() && (is_text || is_number || is_flag), "{line}: {field}");
            }
            // A second point with the same series and time would replace the first.
            assert!(known.insert((series.clone(), at_ns.clone())), "{line}");
        }
        let rows = open_metrics(&render(&campaign, Format::OpenMetrics)).unwrap();
        let rows = rows["dfsbench_verdict"].samples.len() / 3;
        assert_eq!(text.lines().filter(|line| line.starts_with("dfsbench,")).count(), rows);
    }
}

#[test]
fn exports_only_counted_points() {
    let text = render(&campaigns::quick(), Format::Influx);
    let invalid: Vec<_> = text.lines().filter(|line| line.contains("\"invalid\"")).collect();
    let valid: Vec<_> = text.lines().filter(|line| line.contains("\"valid\"")).collect();
    assert!(!invalid.is_empty() && invalid.iter().all(|line| !line.contains("_per_s=")), "{text}");
    assert!(!valid.is_empty() && valid.iter().all(|line| line.contains("ops_per_s=")), "{text}");
}

#[test]
fn exports_same_metrics_as_table() {
    let campaign = campaigns::quick();
    let json: Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
    let families = open_metrics(&render(&campaign, Format::OpenMetrics)).unwrap();
    let of = |family: &str, figure: &Value, more: (&str, &str)| {
        let samples = families[family].samples.iter();
        let mut fitting = samples.filter(|(_, labels, _)| {
            *labels["run"] == *figure["run"].to_string()
                && labels["pass"] == figure["pass"].as_str().unwrap()
                && (more.0.is_empty() || labels.get(more.0).is_some_and(|l| l == more.1))
        });
        fitting.next().map(|(_, _, value)| *value)
    };
    let mut counted = 0;
    let mut left_out = 0;
    for figure in json["figures"].as_array().unwrap() {
        let rate = of("dfsbench_throughput_bytes_per_second", figure, ("", ""));
        let p99 = of("dfsbench_service_time_seconds", figure, ("quantile", "0.99"));
        if figure["verdict"] == "invalid" {
            left_out += 1;
            assert_eq!((rate, p99), (None, None), "{figure:.100}");
        } else {
            counted += 1;
            // The last digit may be lost when parsing JSON.
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs();
            match (rate, figure["rate_bytes_per_s"]["median"].as_f64()) {
                (Some(rate), Some(expected)) => assert!(close(rate, expected), "{rate}"),
                (rate, expected) => assert_eq!(rate, expected),
            }
            let expected = figure["service_time"]["p99_ns"].as_f64().unwrap() / 1e9;
            assert!((p99.unwrap() - expected).abs() < 1e-12);
        }
        let verdict = figure["verdict"].as_str().unwrap();
        assert_eq!(of("dfsbench_verdict", figure, ("verdict", verdict)), Some(1.0));
    }
    assert!(counted > 5 && left_out > 0);
}

#[test]
fn marks_cached_figures_in_old_tables() {
    let mut campaign = campaigns::bonnie();
    let passes = campaign.runs[0].trials[0].passes.iter_mut();
    for result in passes.filter(|result| result.pass == Pass::Read) {
        result.caveats.push(CaveatCode::Cached.because("planted"));
    }
    let seed = render(&campaign, Format::Seed);
    assert!(seed.contains("silly (177193)") && !seed.contains("silly (26336)"), "{seed}");
    let bonnie = render(&campaign, Format::Bonnie);
    assert!(bonnie.contains(" (177193) ") && !bonnie.contains("+++++"), "{bonnie}");
    campaign.runs[0].spec.workload = Workload::Bonniexx;
    let short = CaveatCode::TooShort.because("bonnie++ printed +++++");
    campaign.runs[0].trials[0].passes[1].caveats.push(short);
    let bonnie = render(&campaign, Format::Bonnie);
    assert!(bonnie.contains(" +++++ ") && !bonnie.contains("26336"), "{bonnie}");
}

#[test]
fn names_unavailable_versions_in_old_table() {
    let mut campaign = campaigns::bonnie();
    let names_it = |text: &str| text.lines().any(|line| line.starts_with("bonnie MTU-1500 "));
    assert!(!names_it(&render(&campaign, Format::Seed)));
    let mut refused = campaign.runs[0].clone();
    refused.index = campaign.runs.len() as u32;
    refused.spec.workload = Workload::Stream;
    let why = "host c1: `mount -t nfs -o vers=2` ended with 32: mount.nfs: Protocol not supported";
    for trial in &mut refused.trials {
        trial.passes.clear();
        trial.state = TrialState::Failed(why.to_owned());
    }
    campaign.runs.push(refused);
    let seed = render(&campaign, Format::Seed);
    let line = seed.lines().find(|line| line.starts_with("stream ")).unwrap();
    assert!(line.ends_with(" not supported not supported"), "{line}");
    assert!(names_it(&seed) && seed.contains(why), "{seed}");
}

#[test]
fn colors_targets_with_most_results() {
    let mut campaign = campaigns::sweep();
    let all = std::mem::take(&mut campaign.runs);
    let targets = [("d1", 2), ("d2", 2), ("d3", 2), ("d4", 2), ("d5", 2), ("d6", 2), ("array", 4)];
    for (target, runs) in targets {
        for run in &all[..runs] {
            let mut run = run.clone();
            run.index = campaign.runs.len() as u32;
            run.spec.target_name = target.to_owned();
            campaign.runs.push(run);
        }
    }
    let page = render(&campaign, Format::Html);
    let (_, legend) = page.split_once("<p class=\"legend keys\">target:").unwrap();
    let (legend, _) = legend.split_once("</p>").unwrap();
    assert!(legend.contains(" array<") && legend.contains("and 1 more level"), "{legend}");
    assert!(legend.contains(" d1<") && !legend.contains(" d6<"), "{legend}");
}

#[test]
fn aligns_old_tables_with_originals() {
    let text = render(&campaigns::bonnie(), Format::Seed);
    let lines: Vec<&str> = text.lines().collect();
    // As in the report of 2001, with larger files first. The name is one character longer than its
    // heading.
    assert_eq!(lines[2], "Machine    MB    K/sec      K/sec");
    let printed = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(printed(lines[3]), ["MTU-1500", "500", "17783", "16175"]);
    assert_eq!(printed(lines[5]), ["MTU-1500", "100", "26336", "177193"]);
    let column = |line: &str, word: &str| line.find(word).unwrap() + word.len();
    assert_eq!(column(lines[2], "K/sec"), column(lines[3], "17783"));
    assert_eq!(lines[2].len(), lines[3].len());
    insta::assert_snapshot!(render(&campaigns::transports(), Format::Seed));
}

#[test]
fn shows_three_times_of_commands() {
    let text = render(&campaigns::programs(), Format::Seed);
    let head = text.lines().find(|line| line.contains("elapsed (s)")).expect(&text);
    assert!(head.ends_with("user (s)  sys (s)"), "{text}");
    let row = text.lines().find(|line| line.contains(" app ")).expect(&text);
    let times: Vec<f64> =
        row.split_whitespace().rev().take(3).map(|time| time.parse().unwrap()).collect();
    assert!(times[2] > 0.0, "{text}");
    assert!(!render(&campaigns::bonnie(), Format::Seed).contains("elapsed"));
}

#[test]
fn requires_file_passes_for_old_table() {
    let mut campaign = campaigns::quick();
    for run in &mut campaign.runs {
        for trial in &mut run.trials {
            trial.passes.retain(|pass| !matches!(pass.pass, Pass::Write | Pass::Read));
        }
    }
    campaign.runs.retain(|run| run.spec.workload == Workload::Metadata);
    insta::assert_snapshot!(render(&campaign, Format::Seed));
}

fn listed(campaign: &Campaign) -> ListedCampaign {
    let line = CampaignLine {
        id: campaign.id,
        uuid: "0".repeat(36),
        name: campaign.name.clone(),
        state: campaign.state,
        started_unix_ms: campaign.started_unix_ms,
        runs: campaign.runs.len() as u32,
        trials: 50,
        trials_failed: 5,
        tags: vec!["nightly".into()],
    };
    ListedCampaign { line, verdicts: Verdicts::from_campaign(campaign), size_bytes: 3_333_333 }
}

#[test]
fn drops_columns_in_fixed_order() {
    let mut campaign = hostile();
    campaign.name = "a-name-that-is-longer-than-a-narrow-terminal-is-wide".to_owned();
    let long = listed(&campaign);
    campaign.name = "nightly".to_owned();
    let short = listed(&campaign);
    let heads = |line: &ListedCampaign, columns| {
        let screen = Screen::new(columns, ReportDetail::Main);
        let table = list(std::slice::from_ref(line), Format::Table, screen);
        for row in table.lines() {
            assert!(row.chars().count() <= columns, "{columns}: {table}");
        }
        table.lines().next().unwrap().split("  ").map(str::trim).collect::<Vec<_>>().join(" ")
    };
    let all = "id campaign state started runs trials failed rows v/d/i size";
    assert_eq!(heads(&short, 100).split_whitespace().collect::<Vec<_>>().join(" "), all);
    let narrow = heads(&short, 40);
    assert!(narrow.contains("rows v/d/i") && !narrow.contains("started"), "{narrow}");
    assert!(!heads(&short, 70).contains("size"));
    for columns in 40..100 {
        heads(&short, columns);
        heads(&long, columns);
    }
}

#[test]
fn counts_verdicts_in_lists() {
    let campaign = hostile();
    let json: Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
    let figures = json["figures"].as_array().unwrap();
    let count = |name: &str| figures.iter().filter(|f| f["verdict"] == name).count() as u32;
    let line = listed(&campaign);
    let expected =
        Verdicts { valid: count("valid"), degraded: count("degraded"), invalid: count("invalid") };
    assert_eq!(line.verdicts, expected);
    let wide = Screen::new(112, ReportDetail::Main);
    let table = list(std::slice::from_ref(&line), Format::Table, wide);
    assert!(table.lines().all(|line| line.chars().count() <= 112), "{table}");
    assert_eq!(table.lines().count(), 6, "{table}");
    let csv = list(std::slice::from_ref(&line), Format::Csv, Screen::default());
    assert!(csv.contains("\"'=1+1,\"\"a"), "{csv}");
    let json: Value =
        serde_json::from_str(&list(std::slice::from_ref(&line), Format::Json, Screen::default()))
            .unwrap();
    assert_eq!(json["campaigns"][0]["name"], campaign.name.as_str());
    let remark = CampaignNote { written_unix_ms: 0, text: "two\nlines\u{1b}[2J".into() };
    let shown = describe_campaign(
        &line,
        std::slice::from_ref(&remark),
        &campaign,
        Screen::new(60, ReportDetail::Whole),
    );
    let other = shown.lines().filter(|line| !line.starts_with("command "));
    assert!(other.clone().all(|line| line.chars().count() <= 60), "{shown}");
    assert!(shown.contains("1970-01-01 00:00:00 UTC: two lines\u{fffd}[2J\n"), "{shown}");
    let json: Value = serde_json::from_str(&about_json(&line, &[remark], &campaign)).unwrap();
    assert_eq!(json["plan_toml"], campaign.plan_toml.as_str());
}
