//! Several campaigns as one set of runs: differences between them are factors, but noise is not.

use model::testing::RunBuilder;
use model::{BackendKind, Campaign, Fact, Workload};
use report::{CampaignSource, FactorEffects, Format, JoinedCampaigns, render_joined};
use serde_json::Value;

use crate::campaigns::{made, spec};

/// Returns a campaign with two numbers of workers and the given host facts.
fn campaign(speed: u64, facts: &[(&str, &str)]) -> Campaign {
    let mut runs = Vec::new();
    for workers in [1_u32, 4] {
        let plain = spec("nfs", BackendKind::Nfs, Workload::Stream);
        let run = RunBuilder::from(plain).workers(workers).build();
        runs.push((run, speed * u64::from(workers), 5));
    }
    let mut campaign = made(runs);
    campaign.facts.clear();
    for (name, value) in facts {
        campaign.facts.push(Fact::new("host", *name, *value, "planted"));
    }
    campaign
}

fn join(campaigns: Vec<Campaign>, by: &[&str]) -> JoinedCampaigns {
    let sources: Vec<_> = campaigns
        .into_iter()
        .enumerate()
        .map(|(number, campaign)| CampaignSource {
            campaign,
            tags: Vec::new(),
            label: (number + 3).to_string(),
        })
        .collect();
    let by: Vec<String> = by.iter().map(|name| (*name).to_owned()).collect();
    JoinedCampaigns::new(sources, &by).unwrap_or_else(|unknown| panic!("{unknown:?}"))
}

/// Returns the factors of reads by name, with the ratio of the second level.
fn factors(joined: &JoinedCampaigns) -> Vec<(String, Option<f64>)> {
    let json = FactorEffects::from_joined(joined).render(Format::Json);
    let json: Value = serde_json::from_str(&json).unwrap();
    let passes = json["passes"].as_array().unwrap();
    let read = passes.iter().find(|pass| pass["name"] == "stream read").unwrap();
    let mut found = Vec::new();
    for factor in read["factors"].as_array().unwrap() {
        let name = factor["name"].as_str().unwrap().to_owned();
        found.push((name, factor["levels"][1]["ratio"].as_f64()));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[test]
fn treats_other_kernel_as_factor() {
    let old = [("kernel", "2.2.19"), ("load at start", "0.1"), ("memory", "7.80 GiB")];
    let new = [("kernel", "2.4.3"), ("load at start", "0.9"), ("memory", "7.79 GiB")];
    let joined = join(vec![campaign(10, &old), campaign(12, &new)], &[]);
    let found = factors(&joined);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["fact.kernel", "workers"]);
    let ratio = found[0].1.unwrap();
    assert!((ratio - 1.2).abs() < 0.02, "{ratio}");
    let text = FactorEffects::from_joined(&joined).render(Format::Table);
    assert!(text.contains("2.2.19") && text.contains("2.4.3"), "{text}");
    assert!(text.contains("fact.kernel differs only between campaigns"), "{text}");
    assert!(!text.contains("changes together"), "{text}");
}

#[test]
fn names_facts_that_change_together() {
    let old = [("kernel", "2.2.19"), ("label.dram", "DDR2"), ("processor", "Opteron 244")];
    let new = [("kernel", "2.4.3"), ("label.dram", "DDR3"), ("processor", "Opteron 244")];
    let campaigns = vec![campaign(10, &old), campaign(12, &new)];
    let joined = join(campaigns.clone(), &[]);
    let names: Vec<String> = factors(&joined).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["label.dram", "workers"]);
    let text = FactorEffects::from_joined(&joined).render(Format::Markdown);
    let remarks: Vec<&str> =
        text.lines().filter(|line| line.starts_with("- label.dram ")).collect();
    insta::assert_snapshot!(remarks[..2].join("\n"));
    // If the kernel is requested as the factor, the label is still named with it.
    let by_kernel = join(campaigns, &["fact.kernel"]);
    let names: Vec<String> = factors(&by_kernel).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["fact.kernel", "workers"]);
    let text = FactorEffects::from_joined(&by_kernel).render(Format::Markdown);
    assert!(text.contains("fact.kernel changes together with label.dram"), "{text}");
}

#[test]
fn separates_two_swapped_properties() {
    let host = |kernel, dram| [("kernel", kernel), ("label.dram", dram)];
    let joined = join(
        vec![
            campaign(10, &host("a", "x")),
            campaign(20, &host("b", "x")),
            campaign(30, &host("b", "y")),
        ],
        &[],
    );
    let found = factors(&joined);
    let ratio = |name: &str| found.iter().find(|(known, _)| known == name).unwrap().1.unwrap();
    assert!((ratio("fact.kernel") - 2.0).abs() < 0.02, "{found:?}");
    assert!((ratio("label.dram") - 1.5).abs() < 0.02, "{found:?}");
    let text = FactorEffects::from_joined(&joined).render(Format::Table);
    assert!(!text.contains("changes together"), "{text}");
}

#[test]
fn names_host_of_differing_fact() {
    let on_hosts = |server: &str, speed| {
        let mut campaign = campaign(speed, &[("kernel", "6.1")]);
        for trial in campaign.runs.iter_mut().flat_map(|run| &mut run.trials) {
            trial.facts.push(Fact::new("filer", "kernel", server, "planted"));
            let uptime = format!("{} s", trial.position);
            trial.facts.push(Fact::new("filer", "uptime", uptime, "planted"));
            let count = format!("{} calls", trial.position % 3);
            trial.facts.push(Fact::new("filer", "retransmissions", count, "planted"));
        }
        campaign
    };
    let joined = join(vec![on_hosts("5.10", 10), on_hosts("6.12", 13)], &[]);
    let names: Vec<String> = factors(&joined).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["fact.kernel@filer", "workers"]);
    let by = join(vec![on_hosts("5.10", 10), on_hosts("6.12", 13)], &["kernel"]);
    assert_eq!(factors(&by).len(), 2);
}

/// Two campaigns of each kernel that differ by a fifth among themselves.
#[test]
fn widens_interval_for_scattered_campaigns() {
    let of = |speed, kernel| campaign(speed, &[("kernel", kernel)]);
    let interval = |campaigns: Vec<Campaign>| {
        let effects = FactorEffects::from_joined(&join(campaigns, &[]));
        let json: Value = serde_json::from_str(&effects.render(Format::Json)).unwrap();
        let factors = json["passes"][1]["factors"].as_array().unwrap().clone();
        let kernel = factors.iter().find(|factor| factor["name"] == "fact.kernel").unwrap();
        let level = &kernel["levels"][1];
        let end = |name: &str| level[name].as_f64().unwrap();
        (end("ratio"), end("ratio_interval_lo"), end("ratio_interval_hi"))
    };
    let one_each = interval(vec![of(10, "a"), of(15, "b")]);
    assert!(one_each.1 > 1.4, "{one_each:?}");
    // Their logarithms differ by ln 1.2, so with two degrees of freedom the interval is 1.5 times
    // or divided by exp(4.303 * 0.129).
    let two_each = interval(vec![of(10, "a"), of(12, "a"), of(15, "b"), of(18, "b")]);
    let (ratio, lo, hi) = two_each;
    assert!((ratio - 1.5).abs() < 0.02, "{two_each:?}");
    assert!((lo - 0.861).abs() < 0.02 && (hi - 2.61).abs() < 0.06, "{two_each:?}");
    let joined = join(vec![of(10, "a"), of(12, "a"), of(15, "b"), of(18, "b")], &[]);
    let text = FactorEffects::from_joined(&joined).render(Format::Markdown);
    assert!(text.contains("each of the 4 campaigns"), "{text}");
}

#[test]
fn treats_campaign_name_as_factor() {
    let joined = join(vec![campaign(10, &[]), campaign(11, &[])], &[]);
    let found = factors(&joined);
    assert_eq!(found[0].0, "campaign");
    assert!((found[0].1.unwrap() - 1.1).abs() < 0.02, "{found:?}");
    let text = FactorEffects::from_joined(&joined).render(Format::Table);
    assert!(!text.contains("campaign differs between"), "{text}");
}

#[test]
fn rejects_unknown_property() {
    let host = |kernel| [("kernel", kernel), ("processor", "one")];
    let sources = |label: &str, kernel| CampaignSource {
        campaign: campaign(10, &host(kernel)),
        tags: Vec::new(),
        label: label.to_owned(),
    };
    let by = |name: &str| {
        JoinedCampaigns::new(vec![sources("1", "a"), sources("2", "b")], &[name.to_owned()])
            .err()
            .unwrap()
    };
    let unknown = by("fact.kernal");
    assert_eq!(unknown.only_value, None);
    assert!(unknown.known.contains(&"fact.kernel".to_owned()), "{unknown:?}");
    assert_eq!(by("fact.processor").only_value.as_deref(), Some("one"));
}

#[test]
fn reports_runs_of_all_campaigns() {
    let old = campaign(10, &[("kernel", "2.2.19")]);
    let mut new = campaign(12, &[("kernel", "2.4.3")]);
    new.id = 9;
    let joined = join(vec![old, new], &[]);
    for format in Format::REPORT {
        let text = render_joined(&joined, format);
        assert!(!text.is_empty(), "{format:?}");
    }
    let csv = render_joined(&joined, Format::Csv);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 2 * 2);
    assert!(lines[0].contains(",fact.kernel"), "{}", lines[0]);
    assert!(lines[1].starts_with("7,") && lines[1].contains(",2.2.19"), "{}", lines[1]);
    assert!(lines[8].starts_with("9,") && lines[8].contains(",2.4.3"), "{}", lines[8]);
    let json: Value = serde_json::from_str(&render_joined(&joined, Format::Json)).unwrap();
    assert_eq!(json["campaigns"][1]["first_run"], 2);
    assert_eq!(json["campaigns"][1]["properties"]["fact.kernel"], "2.4.3");
    let table = render_joined(&joined, Format::Table);
    assert!(table.contains("fact.kernel"), "{table}");
}

#[test]
fn identifies_joined_rows_by_campaign() {
    let mut campaigns = vec![campaign(10, &[]), campaign(12, &[])];
    for (campaign, id) in campaigns.iter_mut().zip([41, 57]) {
        campaign.id = id;
    }
    let joined = join(campaigns, &[]);
    for (format, campaign, pass) in [
        (Format::OpenMetrics, "campaign=\"57\"", "pass=\"read\""),
        (Format::Influx, "campaign=57", "pass=read"),
    ] {
        let text = render_joined(&joined, format);
        let of_second = text.lines().filter(|line| line.contains(campaign)).count();
        let of_first = text.lines().filter(|line| line.contains(&campaign.replace("57", "41")));
        assert!(of_second > 0, "{text}");
        // OpenMetrics has lines about the campaign itself, which represent the set.
        let of_rows = of_first.filter(|line| line.contains(pass)).count();
        let of_rows_of_second =
            text.lines().filter(|line| line.contains(campaign) && line.contains(pass)).count();
        assert_eq!(of_rows, of_rows_of_second);
        assert!(of_rows > 0, "{text}");
    }
}
