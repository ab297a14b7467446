//! Answers a soak: whether the server survives, the effect of each fault, and what was lost.
//!
//! All numbers come from [`stats::soak`]; this module turns them into sentences, tables and a
//! timeline.

mod timeline;

use model::soak::{BlockState, FaultKind, Finding};
use model::units::{Nanos, Size};
use model::{Ability, Campaign, NfsVersion, Pass, RunSpec, Soak, Trial};
use serde_json::{Value, json};
use stats::soak::{
    DataState, Effect, FailedOps, ReadBack, SegmentCounts, SegmentFinding, SoakResult, Verdict,
    judge_soak,
};

use super::QuestionAnswer;
use crate::document::{Column, Role, Table, TableRow};
use crate::humanize::counted;

/// Shown for an unknown value.
const UNKNOWN: &str = "–";

pub(super) fn answer(campaign: &Campaign, soak: &Soak) -> QuestionAnswer {
    let run = campaign.runs.first();
    let trials: &[Trial] = run.map_or(&[], |run| &run.trials);
    let leases = run.map_or(0, |run| leases_of(&run.spec));
    let soaked = judge_soak(soak, trials);
    let mut sentences = vec![describe_verdict(&soaked)];
    sentences.extend(soaked.effects.iter().map(|effect| describe_effect(effect, leases)));
    sentences.push(describe_errors(&soaked));
    sentences.push(describe_data(&soaked));
    sentences.extend(describe_burst(&soaked));
    sentences.extend(describe_memory(&soaked));
    let mut tables = Vec::new();
    tables.extend(fault_table(&soaked));
    tables.extend(block_table(&soaked));
    tables.extend(error_table(&soaked));
    QuestionAnswer {
        title: "Survival",
        sentences,
        tables,
        pictures: timeline::picture(soak, trials).into_iter().collect(),
        json: soak_json(&soaked),
    }
}

fn describe_verdict(soaked: &SoakResult) -> String {
    let SegmentCounts { planned, made, .. } = soaked.segments;
    let lasted = format!(
        "{} of load in {} of {}, {} ops, {} read and verified",
        Nanos(soaked.measured_ns),
        made,
        counted(planned as usize, "segment"),
        soaked.ops,
        Size(soaked.verified_bytes)
    );
    match soaked.verdict {
        Verdict::Survives => {
            format!("It survives: {lasted}; no op failed, and {}.", describe_data_state(soaked))
        }
        Verdict::LosesData => match first_lost_block(soaked) {
            Some(SegmentFinding { segment, finding }) => format!(
                "It LOSES DATA: {} acknowledged as safe {} gone, the first of them {} ({lasted}).",
                counted(soaked.kept.lost as usize, "block"),
                if soaked.kept.lost == 1 { "is" } else { "are" },
                describe_finding(*segment, finding)
            ),
            None => format!(
                "It LOSES DATA: {} returned different bytes than were written ({lasted}).",
                counted(soaked.mismatched() as usize, "op")
            ),
        },
        Verdict::NeverRecovers => {
            let mut why = "the throughput did not recover before the end of its segment";
            if let Some(failure) = &soaked.failure {
                why = failure.lines().next().unwrap_or(why);
            }
            format!("It does NOT RECOVER: {why}; {} ({lasted}).", describe_data_state(soaked))
        }
        Verdict::FailsOps => format!(
            "It FAILS OPS: {}; {} ({lasted}).",
            counted(soaked.failed() as usize, "op"),
            describe_data_state(soaked)
        ),
        Verdict::CantTell => {
            let why = explain_unknown(soaked);
            let became = describe_data_state(soaked);
            format!("The soak is INCONCLUSIVE: {why}; {became} ({lasted}).")
        }
    }
}

/// Returns the first lost block, with its segment.
fn first_lost_block(soaked: &SoakResult) -> Option<&SegmentFinding> {
    soaked.findings.iter().find(|found| found.finding.state == BlockState::Lost)
}

/// Describes the state of the data, as far as it was verified.
fn describe_data_state(soaked: &SoakResult) -> String {
    let ReadBack { bytes, files } = soaked.read_back;
    let read_back = match (bytes, files) {
        (0, _) => "nothing was read back".to_owned(),
        (bytes, 0) => format!("{} were read back", Size(bytes)),
        (bytes, files) => {
            format!("{} in {} were read back", Size(bytes), counted(files as usize, "file"))
        }
    };
    match soaked.data {
        DataState::Verified => {
            format!("all data acknowledged as safe is there ({read_back})")
        }
        DataState::Lost => "some data acknowledged as safe is gone".to_owned(),
        DataState::Unverified => {
            format!("data acknowledged as safe could not be verified ({read_back})")
        }
    }
}

/// Explains why the verdict is open.
fn explain_unknown(soaked: &SoakResult) -> String {
    let SegmentCounts { planned, made, read_back } = soaked.segments;
    let unmade = soaked.effects.iter().find(|effect| effect.event.failed.is_some());
    if let Some(failure) = &soaked.failure {
        failure.lines().next().unwrap_or_default().to_owned()
    } else if let Some(effect) = unmade {
        let why = effect.event.failed.as_deref().unwrap_or_default();
        format!("{} could not be injected: {why}", effect.event.fault)
    } else if made < planned {
        format!("{} of {} were completed", made, counted(planned as usize, "segment"))
    } else if read_back == 0 {
        "no segment was read back".to_owned()
    } else {
        format!("only {read_back} of {} were read back", counted(planned as usize, "segment"))
    }
}

fn describe_finding(segment: u64, finding: &Finding) -> String {
    let found = match finding.found {
        Some(generation) => format!("generation {generation} is there"),
        None => "no complete block of the soak is there".to_owned(),
    };
    format!(
        "{} at {} in segment {} ({found}, but {} was safe)",
        finding.file,
        finding.offset_bytes,
        segment + 1,
        finding.safe
    )
}

/// Number of leases that one agent of a run holds at an NFSv4 server, one per client.
fn leases_of(run: &RunSpec) -> u32 {
    // A killed client cannot return its leases (RFC 7530, 9.5), so the server keeps them until they
    // expire. Versions 2 and 3 have none.
    let is_v4 = run.backend.has_ability(Ability::SpeakNfs) && run.nfs().version >= NfsVersion::V4_0;
    let clients = if run.clients == 0 { run.all_workers() } else { run.clients };
    if is_v4 { clients / run.agents().max(1) } else { 0 }
}

/// Describes the effect of a fault event.
fn describe_effect(effect: &Effect, leases: u32) -> String {
    let event = &effect.event;
    let host = if event.host.is_empty() { String::new() } else { format!(" on {}", event.host) };
    let by = match effect.by_ms {
        0 => String::new(),
        ms => format!(" by {:+.2} s", ms as f64 / 1e3),
    };
    let what = format!("{}{host} at {}{by}", event.fault, Nanos(effect.begun_ns));
    if let Some(why) = &event.failed {
        return format!("{what} could not be injected: {}.", why.trim_end_matches('.'));
    }
    if event.fault == FaultKind::ClientKill {
        return format!("{what}: {}.", describe_kill(effect, leases));
    }
    let unsafe_then = format!(
        "{} not yet committed at that moment{}",
        count_of(effect.uncommitted, "written block was", "written blocks were"),
        match (event.fault, effect.saw_step) {
            (FaultKind::ClockStep, true) => "; the workers there saw the step and continued",
            (FaultKind::ClockStep, false) => "; no worker saw the step",
            _ => "",
        }
    );
    let Some(detect_ns) = effect.detect_ns else {
        let interval = Nanos(effect.interval_ns);
        return format!("{what}: no visible effect in intervals of {interval}; {unsafe_then}.");
    };
    // Stalls are counted in whole intervals without a completion, so the actual stall may be
    // longer.
    let stood = match effect.stall_ns {
        0 => "ops continued to complete".to_owned(),
        ns => format!("no op completed for {} or more", Nanos(ns)),
    };
    let back = match (effect.before_per_s, effect.recover_ns) {
        (Some(before), Some(ns)) => {
            format!("the rate was back to 90 % of {before:.0} op/s after {}", Nanos(ns))
        }
        (Some(before), None) => {
            format!("the rate was not back to 90 % of {before:.0} op/s within its segment")
        }
        (None, _) => "the rate before it is unknown".to_owned(),
    };
    format!(
        "{what}: detected within {}, {stood}, the longest op took {}, {} failed, {back}; \
         {unsafe_then}.",
        Nanos(detect_ns),
        Nanos(effect.longest_ns),
        effect.errors
    )
}

/// Describes the outcome of a killed agent, of the other agents, and of the data it had written.
fn describe_kill(effect: &Effect, leases: u32) -> String {
    let noticed = match effect.noticed_ns {
        Some(ns) => format!("the campaign detected it after {}", Nanos(ns)),
        None => "the campaign did not detect it".to_owned(),
    };
    let others = match (effect.detect_ns, effect.recover_ns) {
        (None, _) => "the other agents continued as before".to_owned(),
        (Some(_), Some(ns)) => format!("the other agents were held up for {}", Nanos(ns)),
        (Some(_), None) => "the other agents were held up until the end of its segment".to_owned(),
    };
    let left = match leases {
        0 => String::new(),
        1 => ", and its lease at the server was left to expire".to_owned(),
        count => format!(", and its {count} leases at the server were left to expire"),
    };
    let journal = match effect.read_back_ops {
        Some(ops) => format!(
            "another agent took over its acknowledgement journal and read back all of its \
             files ({})",
            counted(ops as usize, "op")
        ),
        None => "no agent read back the data that it had written".to_owned(),
    };
    format!("{noticed}, {others}{left}; {journal}; its own ops are not in any result")
}

fn count_of(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn describe_errors(soaked: &SoakResult) -> String {
    let recovery = &soaked.recovery;
    let repairs = format!(
        "the client made {}, resent {} and rewrote {}",
        count_of(recovery.reconnects, "reconnection", "reconnections"),
        count_of(recovery.replays + recovery.retransmissions, "call", "calls"),
        Size(recovery.resent_bytes)
    );
    let wrong = soaked.mismatched();
    let seen: u64 = soaked.effects.iter().map(|effect| effect.errors).sum();
    if soaked.failed() == 0 && wrong > 0 {
        return format!("{} returned the wrong bytes; {repairs}.", count_of(wrong, "op", "ops"));
    }
    if soaked.failed() == 0 && seen > 0 {
        // The segment ended without a result, but its intervals were recorded.
        return format!("{} failed; {repairs}.", count_of(seen, "op", "ops"));
    }
    if soaked.failed() == 0 {
        return format!("No op failed, no file handle was stale, no lease was lost; {repairs}.");
    }
    format!(
        "{} failed, of them {} with stale file handles and {} for lost opens, leases or sessions; \
         {repairs}.",
        count_of(soaked.failed(), "op", "ops"),
        soaked.stale,
        soaked.state
    )
}

fn describe_data(soaked: &SoakResult) -> String {
    let kept = &soaked.kept;
    format!(
        "Of {} in the journal, {} written; {} lost, {} reverted (not yet committed, allowed after a \
         crash), {} torn, {} not committed at the end.",
        counted(kept.blocks as usize, "block"),
        count_of(kept.written, "was", "were"),
        kept.lost,
        kept.rolled_back,
        kept.torn,
        kept.uncommitted
    )
}

fn describe_burst(soaked: &SoakResult) -> Option<String> {
    let drop = soaked.burst?;
    Some(format!("The rate fell for good: {}.", drop.describe(Pass::Mix)))
}

fn describe_memory(soaked: &SoakResult) -> Option<String> {
    let memory = soaked.memory?;
    let early = Size(memory.early_bytes);
    let late = Size(memory.late_bytes);
    let word = if memory.is_steady() { "is steady" } else { "GROWS" };
    Some(format!(
        "Memory of dfsbench {word}: {early} in the second quarter of the soak, {late} in the last, \
         {} ops later.",
        memory.ops
    ))
}

fn fault_table(soaked: &SoakResult) -> Option<Table> {
    let mut rows = Vec::new();
    for effect in &soaked.effects {
        let event = &effect.event;
        // A restart has no duration: it starts and ends at the same time.
        let lasted = match event.ended_ns {
            Some(ended_ns) if ended_ns > event.begun_ns => Some(ended_ns - event.begun_ns),
            _ => None,
        };
        let stall_ns = if effect.detect_ns.is_some() { Some(effect.stall_ns) } else { None };
        let space = if event.host.is_empty() { "" } else { " " };
        rows.push(vec![
            format!("{}{space}{}", event.fault, event.host),
            Nanos(effect.begun_ns).to_string(),
            format_time(lasted),
            format_time(effect.detect_ns),
            format_time(stall_ns),
            format_time(effect.recover_ns),
            effect.errors.to_string(),
            effect.uncommitted.to_string(),
        ]);
    }
    if rows.is_empty() {
        return None;
    }
    let mut columns = Column::all(&[
        ("fault", Role::Words),
        ("at", Role::Number),
        ("lasted", Role::Number),
        ("detect", Role::Number),
        ("stall", Role::Number),
        ("recover", Role::Number),
        ("failed", Role::Number),
        ("not safe", Role::Number),
    ]);
    Column::leave_in_order(&mut columns, &["lasted", "not safe", "detect"]);
    Some(Table {
        caption: "Fault events".to_owned(),
        columns,
        rows: TableRow::all(rows.into_iter()),
        reading: vec![
            "at: measured time, not counting the pauses between segments.".to_owned(),
            "detect: time until the end of the first interval in which ops failed, were late or \
             few; stall: longest time, in whole intervals, in which no op completed; recover: time \
             until the throughput was back to 90 % of the median before."
                .to_owned(),
            "not safe: blocks that were acknowledged but not committed when it began.".to_owned(),
        ],
        ..Table::default()
    })
}

fn block_table(soaked: &SoakResult) -> Option<Table> {
    let mut rows = Vec::new();
    for SegmentFinding { segment, finding } in &soaked.findings {
        let found = match finding.found {
            Some(generation) => generation.to_string(),
            None => UNKNOWN.to_owned(),
        };
        rows.push(vec![
            finding.state.to_string(),
            (segment + 1).to_string(),
            finding.file.clone(),
            finding.offset_bytes.to_string(),
            found,
            finding.safe.to_string(),
            finding.acknowledged.to_string(),
        ]);
    }
    if rows.is_empty() {
        return None;
    }
    Some(Table {
        caption: "Blocks that differ from their last write".to_owned(),
        columns: Column::all(&[
            ("state", Role::Words),
            ("segment", Role::Number),
            ("file", Role::Words),
            ("offset (B)", Role::Number),
            ("found", Role::Number),
            ("safe", Role::Number),
            ("acknowledged", Role::Number),
        ]),
        rows: TableRow::all(rows.into_iter()),
        reading: vec![
            "Generations of the block: found, acknowledged as safe, and acknowledged; the first \
             block of each state in each segment."
                .to_owned(),
        ],
        ..Table::default()
    })
}

fn error_table(soaked: &SoakResult) -> Option<Table> {
    let mut rows = Vec::new();
    for FailedOps { kind, error, count } in &soaked.errors {
        rows.push(vec![error.to_string(), kind.to_string(), count.to_string()]);
    }
    if rows.is_empty() {
        return None;
    }
    Some(Table {
        caption: "Ops that failed".to_owned(),
        columns: Column::all(&[
            ("error", Role::Words),
            ("op", Role::Words),
            ("count", Role::Number),
        ]),
        rows: TableRow::all(rows.into_iter()),
        reading: Vec::new(),
        ..Table::default()
    })
}

fn format_time(ns: Option<u64>) -> String {
    ns.map_or_else(|| UNKNOWN.to_owned(), |ns| Nanos(ns).to_string())
}

fn soak_json(soaked: &SoakResult) -> Value {
    let mut disturbances = Vec::new();
    for effect in &soaked.effects {
        disturbances.push(json!({
            "fault": effect.event.fault,
            "host": effect.event.host,
            "segment": effect.segment,
            "begun_ns": effect.begun_ns,
            "ended_ns": effect.ended_ns(),
            "failed": effect.event.failed,
            "before_per_s": effect.before_per_s,
            "detect_ns": effect.detect_ns,
            "stall_ns": effect.stall_ns,
            "recover_ns": effect.recover_ns,
            "errors": effect.errors,
            "longest_ns": effect.longest_ns,
            "uncommitted_blocks": effect.uncommitted,
            "interval_ns": effect.interval_ns,
            "by_ms": effect.by_ms,
            "saw_step": effect.saw_step,
            "noticed_ns": effect.noticed_ns,
            "read_back_ops": effect.read_back_ops,
        }));
    }
    let memory = match soaked.memory {
        Some(memory) => json!({
            "early_bytes": memory.early_bytes,
            "late_bytes": memory.late_bytes,
            "ops": memory.ops,
            "is_steady": memory.is_steady(),
        }),
        None => Value::Null,
    };
    let burst = match soaked.burst {
        Some(drop) => json!({
            "before_per_s": drop.before_per_s,
            "after_per_s": drop.after_per_s,
            "at_ns": drop.at_ns,
            "ops": drop.amount,
        }),
        None => Value::Null,
    };
    let mut errors = Vec::new();
    for FailedOps { kind, error, count } in &soaked.errors {
        errors.push(json!({ "kind": kind.name(), "error": error.name(), "count": count }));
    }
    json!({
        "verdict": soaked.verdict.name(),
        "data": soaked.data.name(),
        "read_back_bytes": soaked.read_back.bytes,
        "read_back_files": soaked.read_back.files,
        "segments": soaked.segments.planned,
        "segments_made": soaked.segments.made,
        "segments_read_back": soaked.segments.read_back,
        "measured_ns": soaked.measured_ns,
        "ops": soaked.ops,
        "verified_bytes": soaked.verified_bytes,
        "disturbances": disturbances,
        "failed_ops": soaked.failed(),
        "stale_handles": soaked.stale,
        "lost_state": soaked.state,
        "errors": errors,
        "recovery": soaked.recovery,
        "kept": soaked.kept,
        "burst": burst,
        "memory": memory,
    })
}
