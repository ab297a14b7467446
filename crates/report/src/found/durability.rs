//! Answers what crashes leave of what was acknowledged, from the stored measurements.
//!
//! Sentences and tables are those that `dfsbench durability` prints; a page has a chart of each
//! event beside them.

use maud::html;
use model::Campaign;
use model::durability::{DurabilityReport, MeasuredEvent};

use super::Found;
use crate::durability::{outcome_in, sentences, sum_by_promise, tables};
use crate::picture::{About, Picture, STRIP, Strip, Tick, describe_strips, panel, percent};

/// The answer of a campaign that measured durability.
pub(super) fn found(campaign: &Campaign) -> Found {
    let mut found = Found { title: "What survives", ..Found::default() };
    if campaign.durability.is_empty() {
        found.sentences.push("No event was completed, so nothing is known.".to_owned());
    }
    let several = campaign.durability.len() > 1;
    let mut reports = Vec::new();
    for (number, stored) in campaign.durability.iter().enumerate() {
        let report = &stored.report;
        for sentence in sentences(report) {
            found.sentences.push(if several {
                format!("{}: {sentence}", stored.contender)
            } else {
                sentence
            });
        }
        for mut table in tables(report) {
            if several {
                table.caption = format!("{}: {}", stored.contender, table.caption);
            }
            found.tables.push(table);
        }
        for event in &report.events {
            let has_lost = event.rows.iter().any(|row| row.lost_ops > 0);
            if has_lost && event.unverified.is_none() {
                found.pictures.push(loss_picture(report, event, number));
            }
        }
        reports.push(report);
    }
    found.json = serde_json::json!(reports);
    found
}

/// Draws the share of the acknowledged ops that an event destroyed under each promise.
fn loss_picture(report: &DurabilityReport, event: &MeasuredEvent, number: usize) -> Picture {
    let mut strips = Vec::new();
    for row in sum_by_promise(event).iter().rev() {
        let share = row.lost_ops as f64 / (row.acked_ops.max(1)) as f64;
        let class = if row.is_promised { "bar worse" } else { "bar" };
        let half = STRIP / 2 - 3;
        strips.push(Strip {
            name: row.promise.name().to_owned(),
            value: format!("{} of {} ops lost", row.lost_ops, row.acked_ops),
            lines: vec![("factors", outcome_in(event, row).to_owned())],
            marks: html! {
                rect class=(class) x="0%" width=(percent(share * 100.0)) y={"-" (half)}
                    height=(half * 2) {}
                line.median x1="0%" x2="0%" y1={"-" (STRIP / 2)} y2=(STRIP / 2) {}
            },
        });
    }
    let ticks: Vec<Tick> =
        [0_u32, 25, 50, 75, 100].map(|at| (f64::from(at), at.to_string())).into();
    let id = format!("lost-{number}-{}", event.event);
    let caption = format!("{}: acknowledged ops that were lost, {}", event.event, report.target);
    let about = About {
        id: id.clone(),
        title: caption.clone(),
        description: describe_strips(&strips),
        unit: "%",
    };
    Picture { id, caption, svg: panel(&about, &strips, &ticks), notes: Vec::new() }
}
