//! The calendar of a host, set forward or back, and put back.
//!
//! What is kept is the calendar's distance from the time since boot, which no step moves: so the
//! way back is right however long it took. A host that shares its kernel with whoever controls it
//! is left alone, since the clock is that of both. Where root isn't at hand, `date` sets it.
//! **Source:** clock_gettime(2) (`CLOCK_REALTIME`, `CLOCK_BOOTTIME`), clock_settime(2), date(1).

use model::EffectiveSettings;
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

use super::Known;
use crate::commands::{Runner, SOON, is_root};
use crate::error::LabError;
use crate::findings::Findings;
use crate::log::boot_id;
use crate::step::Step;
use crate::undo::Undo;

/// A calendar that is this near to where it should be has been put there, in nanoseconds.
const NEAR_NS: i64 = 500_000_000;
const SECOND_NS: i64 = 1_000_000_000;

/// How far the calendar is ahead of the time since boot, in nanoseconds.
pub fn offset_ns() -> i64 {
    let ns = |id| {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(id);
        tv_sec.saturating_mul(SECOND_NS).saturating_add(tv_nsec)
    };
    ns(ClockId::Realtime).saturating_sub(ns(ClockId::Boottime))
}

/// Sets it forward by so many milliseconds, or back.
pub fn steps(by_ms: i64, known: &Known) -> Vec<Step> {
    let offset_ns = known.calendar_ns.saturating_add(by_ms.saturating_mul(1_000_000));
    vec![Step::Calendar { offset_ns, by_ms }]
}

/// Puts it back.
///
/// # Errors
/// Where the clock is also that of whoever wants it.
pub fn undo(not_boot: &str, known: &Known) -> Result<Vec<Undo>, LabError> {
    refuse_own(not_boot, &boot_id())?;
    Ok(vec![Undo::Calendar { offset_ns: known.calendar_ns }])
}

/// Refuses a host that runs on the same kernel as whoever controls it; so one that can't tell.
fn refuse_own(not_boot: &str, boot: &str) -> Result<(), LabError> {
    if boot.is_empty() || boot == not_boot {
        let what = "its clock is that of the host that controls it, and is left alone";
        return Err(LabError::Refused(what.to_owned()));
    }
    Ok(())
}

/// Reads back how far it was set.
pub fn check(by_ms: i64, known: &Known) -> EffectiveSettings {
    let mut findings = Findings::new("host");
    let source = "CLOCK_REALTIME against CLOCK_BOOTTIME";
    let by_ns = offset_ns().saturating_sub(known.calendar_ns);
    let (asked_ns, name) = (by_ms.saturating_mul(1_000_000), "calendar set by");
    findings.fact(name, seconds(by_ns), source);
    if !is_near(by_ns, asked_ns) {
        findings.differ(name, seconds(asked_ns), seconds(by_ns), source);
    }
    findings.done()
}

fn is_near(one_ns: i64, other_ns: i64) -> bool {
    one_ns.abs_diff(other_ns) <= NEAR_NS.unsigned_abs()
}

fn seconds(ns: i64) -> String {
    format!("{:+.3} s", ns as f64 / 1e9)
}

/// Sets the calendar so far ahead of the time since boot.
///
/// # Errors
/// Where nobody may.
pub fn set(runner: &Runner, offset_ns: i64) -> Result<(), LabError> {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
    let now_ns = tv_sec.saturating_mul(SECOND_NS).saturating_add(tv_nsec).saturating_add(offset_ns);
    let (tv_sec, tv_nsec) = (now_ns.div_euclid(SECOND_NS), now_ns.rem_euclid(SECOND_NS));
    if is_root() {
        let set = clock_settime(ClockId::Realtime, Timespec { tv_sec, tv_nsec });
        return set.map_err(|errno| LabError::Refused(format!("clock_settime: {errno}")));
    }
    runner.run(&["date", "--utc", "--set", &format!("@{tv_sec}.{tv_nsec:09}")], SOON).map(drop)
}

/// Puts the calendar back, unless it is where it was: somebody may have corrected it meanwhile.
///
/// # Errors
/// Where nobody may.
pub fn restore(runner: &Runner, before_ns: i64) -> Result<(), LabError> {
    if is_near(offset_ns(), before_ns) { Ok(()) } else { set(runner, before_ns) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_from_where_the_calendar_is_and_its_way_back_leads_there() {
        let known = Known { calendar_ns: 1_700_000_000_000_000_000, ..Known::default() };
        let [Step::Calendar { offset_ns, by_ms }] = steps(-5_000, &known)[..] else {
            panic!("one step");
        };
        assert_eq!((offset_ns, by_ms), (1_699_999_995_000_000_000, -5_000));
        assert_eq!(steps(-5_000, &known)[0].to_string(), "date --set '-5.000 seconds'");
        let back = undo("another kernel", &known).unwrap();
        assert_eq!(back, [Undo::Calendar { offset_ns: known.calendar_ns }]);
        assert!(!back[0].outlives_boot(), "who boots reads its clock anew");
    }

    #[test]
    fn who_shares_the_clock_of_the_controller_is_left_alone() {
        let here = boot_id();
        let error = undo(&here, &Known::default()).unwrap_err().to_string();
        assert!(error.contains("its clock is that of the host that controls it"), "{error}");
        assert!(refuse_own("x", "").is_err(), "who can't tell might");
        assert!(refuse_own("x", "y").is_ok());
    }

    #[test]
    fn a_calendar_that_was_corrected_meanwhile_is_not_set() {
        // No program could be run by this runner, and nothing is set: it is where it was.
        restore(&Runner::default(), offset_ns()).unwrap();
        assert!(is_near(-400_000_000, 0) && !is_near(-600_000_000, 0));
        let known = Known { calendar_ns: offset_ns(), ..Known::default() };
        let found = check(5_000, &known);
        assert_eq!(found.differences[0].requested, "+5.000 s");
    }
}
