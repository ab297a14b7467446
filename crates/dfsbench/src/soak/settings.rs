//! The settings of a soak: read from arguments and plan, and checked before anything starts.
//!
//! [`soak`] reads them, [`check`] refuses what can't be journaled or done to the plan's hosts.

use std::fmt::Write as _;

use model::Soak;
use model::setting::{Setting, Value};
use model::soak::Disturbance;
use model::units::parse_time_ns;
use plan::{Located, Plan, RawPlan};
use workload::journal::JOURNAL_BLOCKS_MAX;

use super::disturbances::{Lengths, Planned, default_of_embedded};
use super::format_ms;
use crate::args::SoakArgs;
use crate::exit::Failure;

/// How long a soak measures by default, in milliseconds.
const DURATION_MS: u64 = 30_000;
/// Minimum length of a segment, in milliseconds.
const SEGMENT_MS_MIN: u64 = 1_000;

/// The shortest and the longest segment that is chosen, in milliseconds.
const SEGMENT_MS: (u64, u64) = (15_000, 600_000);
/// Segments of a soak whose segment is chosen, about.
const SEGMENTS: u64 = 120;

/// Reads the soak from the arguments and the plan, with the targets of its disturbances and the
/// disturbances that were given as faults.
///
/// # Errors
/// When a time or a disturbance can't be read, or doesn't fit.
pub fn soak(
    args: &SoakArgs,
    timed: Vec<Located<Disturbance>>,
    raw: &RawPlan,
) -> Result<(Soak, Planned), Failure> {
    let duration_ms = duration_ms(raw)?.unwrap_or(DURATION_MS);
    if duration_ms < SEGMENT_MS_MIN {
        let (least, given) = (format_ms(SEGMENT_MS_MIN), format_ms(duration_ms));
        return Err(Failure::Usage(format!(
            "--duration: a soak lasts at least one segment of {least}, not {given}"
        )));
    }
    let segment_ms = match &args.segment {
        Some(text) => time_ms(text, "--segment")?,
        None => choose_segment_ms(duration_ms),
    };
    if segment_ms < SEGMENT_MS_MIN || segment_ms > duration_ms {
        return Err(Failure::Usage(format!(
            "--segment: must be 1 s to the duration of the soak ({}), not {}",
            format_ms(duration_ms),
            format_ms(segment_ms)
        )));
    }
    // Segments are trials of one length, so that a part of one would last as long as a whole one.
    if args.segment.is_some() && !duration_ms.is_multiple_of(segment_ms) {
        let whole = duration_ms.div_ceil(segment_ms);
        return Err(Failure::Usage(format!(
            "--segment: {} is no whole number of segments of {} (hint: --duration {}ms, or \
             --segment {}ms)",
            format_ms(duration_ms),
            format_ms(segment_ms),
            whole * segment_ms,
            duration_ms.div_ceil(whole)
        )));
    }
    let is_embedded = args.run.target.as_deref().is_none_or(|target| target == "embedded");
    let lengths = Lengths { segment_ms, duration_ms };
    let default = if is_embedded { default_of_embedded(lengths) } else { Vec::new() };
    let planned = Planned::read(&args.disturb, timed, raw, default, lengths)?;
    let disturbances = planned.disturbances();
    let soak = Soak { duration_ms, segment_ms, commit_every_ops: args.commit_every, disturbances };
    Ok((soak, planned))
}

/// Chooses the length of a segment so that whole segments make up the soak.
fn choose_segment_ms(duration_ms: u64) -> u64 {
    let wanted_ms = (duration_ms / SEGMENTS).clamp(SEGMENT_MS.0, SEGMENT_MS.1);
    let segments = (duration_ms / wanted_ms).max(1);
    duration_ms.div_ceil(segments)
}

/// Refuses what doesn't apply to a soak.
///
/// # Errors
/// When it was requested.
pub fn refuse_meaningless(args: &SoakArgs) -> Result<(), Failure> {
    let flags = args.run.overrides();
    let given = [
        (
            flags.trials.is_some(),
            "--trials",
            "--duration and --segment determine the number of trials",
        ),
        (flags.until.is_some(), "--until", "only --duration determines how long a soak lasts"),
        (flags.budget.is_some(), "--budget", "only --duration determines how long a soak lasts"),
        (flags.warmup_trials.is_some(), "--warmup-trials", "every segment counts"),
        (flags.order.is_some(), "--order", "its segments follow each other"),
        (flags.interference.is_some(), "--interference", "every segment counts"),
        (args.run.effort().is_some(), "--quick or --thorough", "--duration determines its length"),
        (args.run.until_broken.is_some(), "--until-broken", "`dfsbench run` has it"),
    ];
    if args.run.wants_null() || args.run.target.as_deref() == Some("null") {
        let what = "a soak verifies what a server keeps, and `null` keeps nothing";
        return Err(Failure::Usage(format!("{what} (hint: `embedded`, nfs://..., a directory)")));
    }
    match given.iter().find(|(is_given, ..)| *is_given) {
        Some((_, flag, hint)) => {
            Err(Failure::Usage(format!("{flag} has no effect on a soak (hint: {hint})")))
        }
        None => Ok(()),
    }
}

/// Refuses what can't be journaled, and disturbances that the plan's hosts can't make.
///
/// # Errors
/// When there is any.
pub fn check(plan: &Plan, planned: &Planned) -> Result<(), Failure> {
    let run = &plan.runs[0];
    let workers = run.all_workers();
    if run.files < workers {
        return Err(Failure::Usage(format!(
            "a soak journals each file for one worker, and there are {} files for {workers} \
             workers (hint: --files {workers} or more)",
            run.files
        )));
    }
    let blocks = run.file_size_bytes.div_ceil(u64::from(run.io_size_bytes).max(1));
    let blocks = blocks.saturating_mul(run.files.into());
    if blocks > JOURNAL_BLOCKS_MAX || run.io_size_bytes < 512 {
        return Err(Failure::Usage(format!(
            "a soak journals each block of --io-size, 512 B or more, and {blocks} blocks of {} B \
             are too many; {JOURNAL_BLOCKS_MAX} can be (hint: a larger --io-size, or a smaller set)",
            run.io_size_bytes
        )));
    }
    planned.check(run)
}

/// Describes a soak for a dry run.
pub fn described(soak: &Soak) -> String {
    let segments = match soak.segments() {
        1 => "1 segment".to_owned(),
        more => format!("{more} segments"),
    };
    let mut text = format!(
        "soak: {} in {segments} of {}, all read back after each\n",
        format_ms(soak.duration_ms),
        format_ms(soak.segment_ms)
    );
    for one in &soak.disturbances {
        // Writing to a String can't fail.
        let _ = writeln!(text, "  {one}");
    }
    text
}

/// Reads a time into milliseconds.
pub fn time_ms(text: &str, place: &str) -> Result<u64, Failure> {
    match parse_time_ns(text) {
        Ok(ns) => Ok(ns / 1_000_000),
        Err(error) => Err(Failure::Usage(format!("{place}: {error}"))),
    }
}

/// The duration that the plan or its flags ask for.
fn duration_ms(raw: &RawPlan) -> Result<Option<u64>, Failure> {
    let of_workloads = raw.workloads.iter().find_map(|w| w.settings.get(Setting::Duration));
    let Some(levels) = of_workloads.or_else(|| raw.factors.get(Setting::Duration)) else {
        return Ok(None);
    };
    match levels {
        [one] => Ok(match one.value {
            Value::Number(ms) => Some(ms),
            _ => None,
        }),
        _ => Err(Failure::Usage("a soak has one --duration, not several".to_owned())),
    }
}
