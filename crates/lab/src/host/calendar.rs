//! The wall clock of this host, as its distance from the time since boot.
//!
//! No step of the wall clock moves that distance's other end, so that restoring the distance is
//! right however long a fault lasted. Where root isn't at hand, `date` sets the clock.
//! **Source:** clock_gettime(2) (`CLOCK_REALTIME`, `CLOCK_BOOTTIME`), clock_settime(2), date(1).

use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

use crate::commands::{Runner, SOON, is_root};
use crate::error::LabError;

/// Two distances that differ by less count as the same, in nanoseconds: `date` takes a while.
const NEAR_NS: u64 = 500_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// Returns how far the wall clock is ahead of the time since boot, in nanoseconds.
pub fn offset_ns() -> i64 {
    read_ns(ClockId::Realtime).saturating_sub(read_ns(ClockId::Boottime))
}

fn read_ns(clock: ClockId) -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec.saturating_mul(SECOND_NS).saturating_add(tv_nsec)
}

/// Says whether two distances are the same, as far as a clock can be set.
pub fn is_near(one_ns: i64, other_ns: i64) -> bool {
    one_ns.abs_diff(other_ns) <= NEAR_NS
}

/// Sets the wall clock so far ahead of the time since boot.
///
/// # Errors
/// Where the system refuses.
pub fn set_offset(runner: &Runner, offset_ns: i64) -> Result<(), LabError> {
    let now_ns = read_ns(ClockId::Boottime).saturating_add(offset_ns);
    // Euclidean, so that the nanoseconds of an instant before 1970 are not negative.
    let (tv_sec, tv_nsec) = (now_ns.div_euclid(SECOND_NS), now_ns.rem_euclid(SECOND_NS));
    if is_root() {
        let set = clock_settime(ClockId::Realtime, Timespec { tv_sec, tv_nsec });
        return set.map_err(|errno| LabError::Refused(format!("clock_settime: {errno}")));
    }
    runner.run(&["date", "--utc", "--set", &format!("@{tv_sec}.{tv_nsec:09}")], SOON)?;
    Ok(())
}

/// Restores the wall clock, unless it is where it was: NTP may have corrected it meanwhile.
///
/// # Errors
/// Where the system refuses.
pub fn restore(runner: &Runner, before_ns: i64) -> Result<(), LabError> {
    if is_near(offset_ns(), before_ns) { Ok(()) } else { set_offset(runner, before_ns) }
}
