//! This host's wall clock, expressed as its offset from the time since boot.
//!
//! Stepping the wall clock doesn't affect the time since boot, so the offset can be restored no
//! matter how long a fault lasted. Without root, the clock is set with `date`. **Source:**
//! clock_gettime(2) (`CLOCK_REALTIME`, `CLOCK_BOOTTIME`), clock_settime(2), date(1).

use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

use crate::commands::{Runner, SOON, is_root};
use crate::error::LabError;

/// Offsets that differ by no more than this are considered equal, in nanoseconds: running `date`
/// takes a while.
const NEAR_NS: u64 = 500_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// Returns the difference between the wall clock and the time since boot, in nanoseconds.
pub(crate) fn offset_ns() -> i64 {
    read_ns(ClockId::Realtime).saturating_sub(read_ns(ClockId::Boottime))
}

fn read_ns(clock: ClockId) -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec.saturating_mul(SECOND_NS).saturating_add(tv_nsec)
}

/// Returns true if two offsets are equal within the accuracy of setting the clock.
pub(crate) fn is_near(one_ns: i64, other_ns: i64) -> bool {
    one_ns.abs_diff(other_ns) <= NEAR_NS
}

/// Sets the wall clock to the given offset from the time since boot.
///
/// # Errors
/// If the system does not allow it.
pub(crate) fn set_offset(runner: &Runner, offset_ns: i64) -> Result<(), LabError> {
    let now_ns = read_ns(ClockId::Boottime).saturating_add(offset_ns);
    // Euclidean division, so that the nanoseconds aren't negative before 1970.
    let tv_sec = now_ns.div_euclid(SECOND_NS);
    let tv_nsec = now_ns.rem_euclid(SECOND_NS);
    if is_root() {
        let set = clock_settime(ClockId::Realtime, Timespec { tv_sec, tv_nsec });
        return set.map_err(|errno| LabError::Refused(format!("clock_settime: {errno}")));
    }
    runner.run(&["date", "--utc", "--set", &format!("@{tv_sec}.{tv_nsec:09}")], SOON)?;
    Ok(())
}

/// Restores the wall clock, unless it is already right because NTP has corrected it.
///
/// # Errors
/// If the system does not allow it.
pub(crate) fn restore(runner: &Runner, before_ns: i64) -> Result<(), LabError> {
    if is_near(offset_ns(), before_ns) { Ok(()) } else { set_offset(runner, before_ns) }
}
