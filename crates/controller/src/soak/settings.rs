//! The settings of a soak, from its request and its plan.
//!
//! [`read_soak`] parses them; [`check`] refuses a plan that can't be journaled, or whose hosts
//! can't make the disturbances.

use model::Soak;
use model::setting::{Setting, Value};
use model::soak::Disturbance;
use model::units::parse_time_ns;
use plan::{Located, Plan, RawPlan};
use workload::journal::JOURNAL_BLOCKS_MAX;

use super::disturbances::{PlannedDisturbances, SoakLengths, default_of_embedded};
use super::format_ms;
use crate::ControllerError;

/// Default duration of a soak, in milliseconds.
const DURATION_MS: u64 = 30_000;
/// Minimum length of a segment, in milliseconds.
const SEGMENT_MS_MIN: u64 = 1_000;

/// Minimum and maximum length of a segment chosen by default, in milliseconds.
const SEGMENT_MS: (u64, u64) = (15_000, 600_000);
/// Approximate number of segments if their length is chosen by default.
const SEGMENTS: u64 = 120;

/// The parts of a soak's request that are not in its plan.
pub struct SoakRequest<'a> {
    /// Length of a segment, as written.
    pub segment: Option<&'a str>,
    /// Disturbances as written, which replace those of the plan.
    pub disturb: &'a [String],
    /// Number of ops after which a worker commits.
    pub commit_every_ops: u32,
    /// Whether the target is the in-memory server, which has default disturbances.
    pub is_embedded: bool,
}

/// Parses the soak from the request and the plan, including disturbances that were given as faults.
///
/// # Errors
/// If a time or a disturbance is invalid or doesn't fit.
pub fn read_soak(
    request: &SoakRequest<'_>,
    timed: Vec<Located<Disturbance>>,
    raw: &RawPlan,
) -> Result<(Soak, PlannedDisturbances), ControllerError> {
    let duration_ms = duration_ms(raw)?.unwrap_or(DURATION_MS);
    if duration_ms < SEGMENT_MS_MIN {
        let least = format_ms(SEGMENT_MS_MIN);
        let given = format_ms(duration_ms);
        return Err(ControllerError::Request(format!(
            "--duration: {given} is shorter than the shortest segment, {least}"
        )));
    }
    let segment_ms = match request.segment {
        Some(text) => time_ms(text, "--segment")?,
        None => choose_segment_ms(duration_ms),
    };
    if segment_ms < SEGMENT_MS_MIN || segment_ms > duration_ms {
        return Err(ControllerError::Request(format!(
            "--segment: must be 1 s to the duration of the soak ({}), not {}",
            format_ms(duration_ms),
            format_ms(segment_ms)
        )));
    }
    // Segments are trials of equal length, so the last one can't be shorter.
    if request.segment.is_some() && !duration_ms.is_multiple_of(segment_ms) {
        let whole = duration_ms.div_ceil(segment_ms);
        return Err(ControllerError::Request(format!(
            "--segment: {} is not a multiple of {} (hint: use --duration {}ms or --segment {}ms)",
            format_ms(duration_ms),
            format_ms(segment_ms),
            whole * segment_ms,
            duration_ms.div_ceil(whole)
        )));
    }
    let lengths = SoakLengths { segment_ms, duration_ms };
    let default = if request.is_embedded { default_of_embedded(lengths) } else { Vec::new() };
    let planned = PlannedDisturbances::read(request.disturb, timed, raw, default, lengths)?;
    let disturbances = planned.disturbances();
    let commit_every_ops = request.commit_every_ops;
    Ok((Soak { duration_ms, segment_ms, commit_every_ops, disturbances }, planned))
}

/// Chooses the length of a segment so that the soak consists of whole segments.
fn choose_segment_ms(duration_ms: u64) -> u64 {
    let wanted_ms = (duration_ms / SEGMENTS).clamp(SEGMENT_MS.0, SEGMENT_MS.1);
    let segments = (duration_ms / wanted_ms).max(1);
    duration_ms.div_ceil(segments)
}

/// Refuses a plan that can't be journaled, and disturbances that its hosts can't make.
pub fn check(plan: &Plan, planned: &PlannedDisturbances) -> Result<(), ControllerError> {
    let run = &plan.runs[0];
    let workers = run.all_workers();
    if run.files < workers {
        return Err(ControllerError::Request(format!(
            "each worker of a soak needs a file of its own, but there are {} files for {workers} \
             workers (hint: use --files {workers} or more)",
            run.files
        )));
    }
    if let Some(sizes) = &run.file_sizes {
        return Err(ControllerError::Request(format!(
            "a soak keeps a journal of files of the same size, but --file-size is `{sizes}` \
             (hint: use one size)"
        )));
    }
    let blocks = run.file_size_bytes.div_ceil(u64::from(run.io_size_bytes).max(1));
    let blocks = blocks.saturating_mul(run.files.into());
    if blocks > JOURNAL_BLOCKS_MAX || run.io_size_bytes < 512 {
        return Err(ControllerError::Request(format!(
            "a soak keeps a journal of blocks of --io-size, at least 512 B each and at most \
             {JOURNAL_BLOCKS_MAX}; this plan has {blocks} blocks of {} B (hint: use a larger \
             --io-size, or fewer or smaller files)",
            run.io_size_bytes
        )));
    }
    Ok(planned.check(run)?)
}

/// Parses a time into milliseconds.
fn time_ms(text: &str, place: &str) -> Result<u64, ControllerError> {
    match parse_time_ns(text) {
        Ok(ns) => Ok(ns / 1_000_000),
        Err(error) => Err(ControllerError::Request(format!("{place}: {error}"))),
    }
}

/// Returns the duration set by the plan or its flags.
fn duration_ms(raw: &RawPlan) -> Result<Option<u64>, ControllerError> {
    let of_workloads = raw.workloads.iter().find_map(|w| w.settings.get(Setting::Duration));
    let Some(levels) = of_workloads.or_else(|| raw.factors.get(Setting::Duration)) else {
        return Ok(None);
    };
    match levels {
        [one] => Ok(match one.value {
            Value::Number(ms) => Some(ms),
            _ => None,
        }),
        _ => Err(ControllerError::Request("a soak takes only one --duration".to_owned())),
    }
}
