//! Refuses a soak that would be cut off by the end of its job.
//!
//! Slurm stores the end of a job in its environment; older versions report it through squeue. If
//! the end is unknown, nothing is refused.
//! **Source:** sbatch(1) (`SLURM_JOB_END_TIME`, `SLURM_JOB_ID`), squeue(1) (`%L`).

use std::process::{Command, Stdio};

use model::Soak;

use super::format_ms;
use crate::ControllerError;

/// Upper bound for the time of segments outside their measurement (preparing, reading back), in
/// percent of the measured time.
const BESIDES_PERCENT: u64 = 20;

/// Reads an environment variable.
type ReadVariable<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Refuses a soak that would outlast its job.
pub fn fits_job(
    soak: &Soak,
    now_unix_ms: u64,
    read_variable: &ReadVariable<'_>,
) -> Result<(), ControllerError> {
    let Some((left_ms, source)) = remaining_ms(now_unix_ms, read_variable) else { return Ok(()) };
    let takes_ms = soak.duration_ms / 100 * (100 + BESIDES_PERCENT);
    if takes_ms <= left_ms {
        return Ok(());
    }
    Err(ControllerError::Request(format!(
        "the soak takes about {}, but the job ends in {} ({source}) (hint: use --duration {}s, or \
         a longer --time for the job)",
        format_ms(takes_ms),
        format_ms(left_ms),
        left_ms * 100 / (100 + BESIDES_PERCENT) / 1_000
    )))
}

/// Returns the remaining time of the job in milliseconds, and the source of this number.
fn remaining_ms(now_unix_ms: u64, read_variable: &ReadVariable<'_>) -> Option<(u64, &'static str)> {
    if let Some(text) = read_variable("SLURM_JOB_END_TIME") {
        let ends_s = text.trim().parse::<u64>().ok()?;
        let left_ms = ends_s.saturating_mul(1_000).saturating_sub(now_unix_ms);
        return Some((left_ms, "SLURM_JOB_END_TIME"));
    }
    let job = read_variable("SLURM_JOB_ID")?;
    let mut squeue = Command::new("squeue");
    squeue.args(["--noheader", "--format", "%L", "--jobs", &job]);
    let output = squeue.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let left_s = read_left_s(&String::from_utf8_lossy(&output.stdout))?;
    Some((left_s.saturating_mul(1_000), "squeue"))
}

/// Parses the remaining time, `days-hours:minutes:seconds` with optional leading parts, into
/// seconds; `None` for words such as `UNLIMITED`.
fn read_left_s(text: &str) -> Option<u64> {
    let text = text.trim();
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds = 0_u64;
    let mut parts = 0;
    for part in clock.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
        parts += 1;
    }
    if parts > 3 {
        return None;
    }
    days.parse::<u64>().ok()?.checked_mul(86_400)?.checked_add(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_remaining_time_of_squeue() {
        assert_eq!(read_left_s("59\n"), Some(59));
        assert_eq!(read_left_s("1:30"), Some(90));
        assert_eq!(read_left_s("2:00:01"), Some(7_201));
        assert_eq!(read_left_s("3-01:00:00\n"), Some(3 * 86_400 + 3_600));
        for word in ["UNLIMITED", "NOT_SET", "INVALID", "", "1:2:3:4", "-1:00", "a-1:00"] {
            assert_eq!(read_left_s(word), None, "{word}");
        }
        assert_eq!(read_left_s(&format!("{}-00:00:00", u64::MAX)), None);
    }
}
