//! Measured durability of contenders: a table of all results, and one of losses.

use model::durability::{
    CrashEvent, DurabilityReport, DurabilityRow, MeasuredEvent, StoredDurability, Tier,
};
use model::units::Nanos;
use model::{Campaign, Durability};

use super::{Contender, Contenders};
use crate::document::{Block, Cell, Column, Role, Table, TableRow};
use crate::humanize;
use crate::question::durability::{self, WINDOW, loss_cells, sum_by_promise};
use crate::table::NOT_APPLICABLE;

/// Maximum width of a contender's name in a terminal.
const NAME_WIDTH: usize = 24;

/// Event that was caused at a contender.
struct ContenderEvent<'a> {
    contender: &'a str,
    event: &'a MeasuredEvent,
    /// Results for each durability level.
    rows: Vec<DurabilityRow>,
}

/// Describes what happened to acknowledged data, only for the events that were tested.
pub(super) fn tier_words(contender: &Contender) -> String {
    let events = contender.found.as_ref().map_or(&[][..], |found| &found.report.events);
    let has_lost = |event: &MeasuredEvent| {
        event.unverified.is_none()
            && contender.promises.iter().any(|promise| event.has_lost(*promise))
    };
    let losses: Vec<_> =
        events.iter().filter(|event| has_lost(event)).map(|event| event.event).collect();
    let what = "Acknowledged data";
    match contender.tier {
        Tier::ServerLoss => format!("{what} survives the loss of one of several servers"),
        Tier::PowerLoss => format!("{what} survives a power loss"),
        Tier::ServerCrash if losses.contains(&CrashEvent::PowerCut) => {
            format!("{what} survives a kill of the server's process, but not a power loss")
        }
        Tier::ServerCrash => {
            format!("{what} survives a kill of the server's process; a power loss was not tested")
        }
        Tier::None if losses.is_empty() => format!("{what} was lost"),
        Tier::None => {
            let when: Vec<String> =
                losses.into_iter().map(|event| loss_words(event).to_owned()).collect();
            format!("{what} was lost when {}", humanize::listed(&when))
        }
        Tier::Undecided => {
            "No acknowledged data was lost, but there were too few crashes to tell".to_owned()
        }
        Tier::Unknown => "Durability was not tested".to_owned(),
    }
}

/// Describes an event in which something was lost.
const fn loss_words(event: CrashEvent) -> &'static str {
    match event {
        CrashEvent::KillServer => "the server's process was killed",
        CrashEvent::PowerCut => "the server lost power",
        CrashEvent::LoseServer => "one of several servers was lost",
        CrashEvent::KillClient => "the client was killed",
        CrashEvent::CutNetwork => "the network was cut",
    }
}

/// Builds the tables of what survived; empty if no contender was tested.
pub(super) fn tables(contest: &Contenders<'_>) -> Vec<Block> {
    let mut all = Vec::new();
    let mut measured = Vec::new();
    for number in contest.sort_by_tier() {
        let Contender { name, found: Some(found), .. } = &contest.contenders[number] else {
            continue;
        };
        measured.push(found.measured_unix_ms);
        for event in &found.report.events {
            all.push(ContenderEvent { contender: name, event, rows: sum_by_promise(event) });
        }
    }
    if all.is_empty() {
        return Vec::new();
    }
    let mut kept = survival_table(&all);
    let first = measured.iter().min();
    let last = measured.iter().max();
    let [first, last] = [first, last].map(|at| humanize::utc(at.copied().unwrap_or_default()));
    kept.caption = format!("measured {first}");
    if first != last {
        kept.caption = format!("measured {first} to {last}");
    }
    let mut blocks = vec![Block::Table(kept)];
    let lost = lost_table(&all);
    if !lost.rows.is_empty() {
        blocks.push(Block::Table(lost));
    }
    blocks
}

/// Builds a row for each contender and event, with a column for each durability level.
fn survival_table(all: &[ContenderEvent<'_>]) -> Table {
    let mut promises: Vec<Durability> = Vec::new();
    for promise in all.iter().flat_map(|kept| &kept.rows).map(|row| row.promise) {
        if !promises.contains(&promise) {
            promises.push(promise);
        }
    }
    promises.sort();
    let mut columns = Column::all(&[("contender", Role::Factor), ("event", Role::Factor)]);
    columns[0].width_max = NAME_WIDTH;
    columns.extend(promises.iter().map(|promise| Column::new(promise.name(), Role::Words)));
    columns.push(Column::new("read back after", Role::Number));
    let mut rows = Vec::new();
    for kept in all {
        let mut cells = vec![Cell::text(kept.contender), Cell::text(kept.event.event.name())];
        if let Some(why) = &kept.event.unverified {
            let why = format!("could not be verified: {why}");
            cells.push(Cell::Reason(why, promises.len() + 1));
        } else {
            for promise in &promises {
                let of_promise = kept.rows.iter().find(|row| row.promise == *promise);
                cells.push(Cell::text(
                    of_promise.map_or(NOT_APPLICABLE.to_owned(), |row| outcome(kept.event, row)),
                ));
            }
            cells.push(Cell::text(Nanos(kept.event.back_ns).to_string()));
        }
        rows.push(TableRow { cells, ..TableRow::default() });
    }
    let mut reading = vec![
        "kept: all ops acknowledged under this promise before the event were there afterwards; \
         LOST: some of the lost ops were promised, as new names over NFS always are; lost: none of \
         them was promised."
            .to_owned(),
    ];
    reading.extend(ways_of_events(all));
    Table { columns, rows, reading, ..Table::default() }
}

/// Summarizes what happened to the ops under a durability level.
fn outcome(event: &MeasuredEvent, row: &DurabilityRow) -> String {
    let DurabilityRow { acked_ops, lost_ops, .. } = *row;
    match (lost_ops, row.is_promised) {
        (0, _) => durability::describe_outcome(event, row).to_owned(),
        (_, true) => format!("LOST {lost_ops} of {acked_ops} ops"),
        (_, false) => format!("{lost_ops} of {acked_ops} ops lost"),
    }
}

/// Describes how each event was caused: the most common method, and the contenders with another
/// one.
fn ways_of_events(all: &[ContenderEvent<'_>]) -> Vec<String> {
    let mut ways: Vec<(CrashEvent, &str, Vec<String>)> = Vec::new();
    for kept in all {
        let event = kept.event.event;
        let how = kept.event.how.as_str();
        let contender = kept.contender.to_owned();
        match ways.iter_mut().find(|known| (known.0, known.1) == (event, how)) {
            Some(known) => known.2.push(contender),
            None => ways.push((event, how, vec![contender])),
        }
    }
    ways.sort_by_key(|(event, _, contenders)| (*event, std::cmp::Reverse(contenders.len())));
    let mut lines = Vec::new();
    let mut last = None;
    for (event, how, contenders) in &ways {
        lines.push(if last == Some(event) {
            format!("{event}, only {}: {how}.", humanize::listed(contenders))
        } else {
            format!("{event}: {how}.")
        });
        last = Some(event);
    }
    lines
}

/// Builds a row for each contender, event and durability level with a loss.
fn lost_table(all: &[ContenderEvent<'_>]) -> Table {
    let mut rows = Vec::new();
    for kept in all.iter().filter(|kept| kept.event.unverified.is_none()) {
        for row in kept.rows.iter().filter(|row| row.lost_ops > 0) {
            let mut cells = vec![
                Cell::text(kept.contender),
                Cell::text(row.event.name()),
                Cell::text(row.promise.name()),
            ];
            cells.extend(loss_cells(row).into_iter().skip(1));
            rows.push(TableRow { cells, ..TableRow::default() });
        }
    }
    let mut columns = Column::all(&[
        ("contender", Role::Factor),
        ("event", Role::Factor),
        ("promise", Role::Factor),
        ("lost", Role::Number),
        ("window", Role::Number),
        ("found instead", Role::Words),
    ]);
    columns[0].width_max = NAME_WIDTH;
    Table {
        caption: "What was lost".to_owned(),
        columns,
        rows,
        reading: vec![WINDOW.to_owned()],
        ..Table::default()
    }
}

/// Combines the durability measurements of a contender. Each event uses its latest measurement, or
/// an earlier one if the latest could not be verified.
pub(super) fn durability_of(campaign: &Campaign, contender: &str) -> Option<StoredDurability> {
    let of_contender = |stored: &&StoredDurability| stored.contender == contender;
    let mut newest_first = campaign.durability.iter().rev().filter(of_contender);
    let mut together = newest_first.next()?.clone();
    let mut promises: Vec<Durability> = Vec::new();
    let mut add = |report: &DurabilityReport| {
        for one in &report.tiers {
            if !promises.contains(&one.promise) {
                promises.push(one.promise);
            }
        }
    };
    add(&together.report);
    let mut is_alone = true;
    for earlier in newest_first {
        is_alone = false;
        add(&earlier.report);
        let events = &mut together.report.events;
        for event in &earlier.report.events {
            match events.iter_mut().find(|known| known.event == event.event) {
                Some(known) if known.unverified.is_some() || known.harmless().is_some() => {
                    known.clone_from(event);
                }
                Some(_) => {}
                None => events.push(event.clone()),
            }
        }
    }
    if !is_alone {
        together.report.tiers = stats::durability::tiers(&promises, &together.report.events);
    }
    Some(together)
}
