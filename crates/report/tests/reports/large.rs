//! Campaigns of many runs: every form of the report contains them.

use model::testing::RunBuilder;
use model::{BackendKind, Campaign, Fact, Workload};
use report::{
    CampaignComparison, CampaignSource, ComparisonRules, Format, JoinedCampaigns, Selection,
    render, render_joined,
};

use crate::campaigns;

/// A campaign with a factor that has a different level in every run, and three with a few levels.
fn campaign(runs: u32) -> Campaign {
    with_last_at(runs, None)
}

/// The same, but the last run may have a different speed.
fn with_last_at(runs: u32, speed: Option<u64>) -> Campaign {
    let specs = (0..runs).map(|index| {
        let spec = campaigns::spec("posix", BackendKind::Posix, Workload::Mixed);
        let spec = RunBuilder::from(spec)
            .file_size_bytes((u64::from(index) + 1) << 20)
            .workers(1 + index % 7)
            .io_size_bytes(4096 << (index % 5))
            .build();
        let usual = 5 + u64::from(index % 11);
        (spec, speed.filter(|_| index + 1 == runs).unwrap_or(usual), 3)
    });
    campaigns::made(specs.collect())
}

#[test]
fn shows_changed_rows_first() {
    let before = campaign(2_500);
    let after = with_last_at(2_500, Some(90));
    let side = |campaign| Selection { campaign, only: &[] };
    let compared = CampaignComparison::new(side(&before), side(&after), ComparisonRules::default());
    assert_eq!(compared.pairs.len(), 2_500);
    let page = compared.render(Format::Html);
    assert!(page.contains("2000 of 2500 rows"));
    let first_row = page.split("<tbody>").nth(1).unwrap().split("</tr>").next().unwrap();
    let last_run = before.runs[2_499].spec.settings();
    let size = last_run.iter().find(|(name, _)| *name == "file_size").unwrap();
    assert!(first_row.contains(&size.1), "{size:?} is not in {first_row}");
}

#[test]
fn every_form_holds_thousands_of_runs() {
    let campaign = campaign(1_500);
    for format in Format::REPORT {
        let text = render(&campaign, format);
        let least = match format {
            Format::Bonnie | Format::Iozone | Format::Seed | Format::Sar => 0,
            _ => 1_500,
        };
        let rows = text.lines().filter(|line| line.contains("posix")).count();
        // JSON is a single line, and a page may show only some of the rows in tables.
        let one_line = matches!(format, Format::Json | Format::Html);
        assert!(rows >= least || (one_line && text.len() > 100_000), "{}: {rows}", format.name());
    }
}

/// CPU time that forms of these facts may take: it is a few seconds, and minutes if each fact is
/// looked for among all.
const CPU_MAX_NS: u64 = 60_000_000_000;

/// CPU time of this thread so far, which does not depend on other programs.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Returns a campaign with fifty facts for each of a thousand hosts, and as many in a trial.
fn with_facts_of_hosts(kernel: &str) -> Campaign {
    let mut campaign = campaign(2);
    let mut facts = Vec::new();
    for number in 0..50_000 {
        let host = format!("host-{}", number / 50);
        let name = format!("fact {}", number % 50);
        let value = if number % 50 == 0 { kernel.to_owned() } else { number.to_string() };
        facts.push(Fact::new(host, name, value, "planted"));
    }
    campaign.facts.clone_from(&facts);
    campaign.runs[0].trials[0].facts = facts;
    campaign
}

#[test]
fn reports_facts_of_thousand_hosts() {
    let source = |kernel: &str, label: &str| CampaignSource {
        campaign: with_facts_of_hosts(kernel),
        tags: Vec::new(),
        label: label.to_owned(),
    };
    let begun_ns = cpu_ns();
    for format in [Format::Table, Format::Html, Format::Json] {
        assert!(!render(&with_facts_of_hosts("6.1"), format).is_empty(), "{format:?}");
    }
    let joined = JoinedCampaigns::new(vec![source("6.1", "1"), source("6.12", "2")], &[]).unwrap();
    let facts = &joined.campaign().facts;
    assert_eq!(facts.len(), 50_000);
    assert_eq!(facts[0].value, "6.1 (campaign 1) | 6.12 (campaign 2)");
    assert_eq!(facts[1].value, "1");
    assert!(!render_joined(&joined, Format::Table).is_empty());
    assert!(cpu_ns() - begun_ns < CPU_MAX_NS);
}
