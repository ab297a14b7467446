//! Reports of `dfsbench durability`: the ladder of promises, and the first lines.

use model::durability::{
    CrashEvent, DurabilityReport, DurabilityRow, MeasuredEvent, StoredDurability, TestFile,
    WorkKind,
};
use model::{Campaign, Durability, Question};
use report::{Format, NextStep, ReportDetail, Screen, render, render_durability};

use crate::campaigns;

/// Returns a kill of the server with nine ops for each promise, of which the given number were
/// lost. For each promise, it had the last write in two crashes.
fn killed(lost: &[(Durability, u64)]) -> MeasuredEvent {
    let event = CrashEvent::KillServer;
    let mut measured = MeasuredEvent {
        crashes: 4,
        last_writes_wanted: 2,
        ..MeasuredEvent::new(event, "killed".to_owned())
    };
    for (promise, lost_ops) in lost {
        let file = TestFile { promise: *promise, kind: WorkKind::SmallFile, number: 0 };
        let row = DurabilityRow::new(event, &file);
        let is_promised = *promise >= Durability::Sync;
        measured.rows.push(DurabilityRow { is_promised, acked_ops: 9, lost_ops: *lost_ops, ..row });
        measured.count_last_writes(*promise, 2);
    }
    measured
}

fn report(event: MeasuredEvent) -> DurabilityReport {
    let promises: Vec<Durability> = event.rows.iter().map(|row| row.promise).collect();
    let events = vec![event];
    DurabilityReport {
        schema: 1,
        target: "nfs://server/export".to_owned(),
        promises: promises.iter().map(|promise| format!("{promise}: a reply.")).collect(),
        tiers: stats::durability::tiers(&promises, &events),
        events,
    }
}

fn text(report: &DurabilityReport) -> String {
    render_durability(
        std::slice::from_ref(report),
        Format::Table,
        Screen::new(100, ReportDetail::Whole),
    )
}

/// A server that gives false answers under its strongest promise.
const LIAR: [(Durability, u64); 4] =
    [(Durability::None, 9), (Durability::Close, 0), (Durability::Sync, 0), (Durability::Osync, 4)];

#[test]
fn shows_the_ladder_of_promises() {
    insta::assert_snapshot!(text(&report(killed(&LIAR))));
}

/// Returns a campaign with one measurement.
fn campaign(report: DurabilityReport) -> Campaign {
    let mut campaign = campaigns::empty();
    "durability".clone_into(&mut campaign.name);
    campaign.question = Question::Durability;
    let contender = report.target.clone();
    campaign.durability = vec![StoredDurability { contender, measured_unix_ms: 1, report }];
    campaign
}

#[test]
fn reports_stored_measurement_in_every_form() {
    let campaign = campaign(report(killed(&LIAR)));
    assert_eq!(NextStep::from_campaign(&campaign), Some(NextStep::View));
    for format in [Format::Table, Format::Markdown, Format::Html] {
        let report = render(&campaign, format);
        assert!(report.contains("osync after kill-server"), "{report}");
        assert!(report.contains("close and sync: undecided"), "{report}");
        assert!(!report.contains("No run was made"), "{report}");
    }
    let page = render(&campaign, Format::Html);
    assert_eq!(page.matches("<section class=\"answer\"").count(), 1);
    assert!(page.contains("href=\"#found\"") && page.contains("4 of 9 ops lost"));
    assert_eq!(render(&campaign, Format::Csv).lines().count(), 1 + LIAR.len());
    let nothing = render(&Campaign { durability: Vec::new(), ..campaign }, Format::Table);
    assert!(nothing.contains("there is no result"), "{nothing}");
}

#[test]
fn durability_to_look_at() {
    let lost = [(Durability::None, 8), (Durability::Close, 7), (Durability::Sync, 0)];
    let mut report = report(killed(&[&lost[..], &LIAR[3..]].concat()));
    let mut unverified =
        MeasuredEvent::new(CrashEvent::PowerCut, "reset of server by its kernel".to_owned());
    unverified.unverified = Some("can't open nfs://server/export: no answer".to_owned());
    for row in &report.events[0].rows {
        let event = unverified.event;
        unverified.rows.push(DurabilityRow { event, lost_ops: 0, ..*row });
    }
    report.events.push(unverified);
    let path = format!("{}/durability.html", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(path, render(&campaign(report), Format::Html)).unwrap();
}

#[test]
fn puts_lack_of_risk_first() {
    let mut event = killed(&[(Durability::Sync, 0)]);
    event.nothing_at_risk = Some("memory outlasts a restart".to_owned());
    let mut report = report(event);
    let text = text(&report);
    insta::assert_snapshot!(
        text.lines().nth(2).unwrap(),
        @"Nothing was at risk in kill-server: memory outlasts a restart."
    );
    assert!(text.contains("kept, not at risk") && !text.contains("survives"), "{text}");
    // A loss is always evidence.
    report.events[0].rows[0].lost_ops = 1;
    let csv = render_durability(&[report], Format::Csv, Screen::default());
    assert!(csv.contains(",LOST,") && !csv.contains("not at risk"), "{csv}");
}
