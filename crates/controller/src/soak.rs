//! A soak: a steady load for hours, every byte verified, with planned disturbances.
//!
//! A soak is an ordinary plan of one run whose trials are its segments, so stopping, resuming,
//! watching and storing work as for any campaign. [`apply`] adds the soak's properties to the run,
//! both at the start and when it is resumed.

mod disturbances;
mod lease;
mod settings;

use model::setting::{Setting, Value};
use model::units::Nanos;
use model::{Order, Pass, Soak, Workload};
use plan::{Overrides, Plan, PlanError, RawPlan};

use crate::ControllerError;

pub use disturbances::{PlannedDisturbances, take_timed_faults};
pub use lease::fits_job;
pub use settings::{SoakRequest, check, read_soak};

/// Turns the runs of a plan into those of a soak.
///
/// # Errors
/// If the plan does not have exactly one run, or that run is not suitable for a soak.
pub fn apply(plan: &mut Plan, soak: &Soak) -> Result<(), ControllerError> {
    let [run] = plan.runs.as_mut_slice() else {
        let what = format!("a soak is a single run, but this plan has {}", plan.runs.len());
        let hint = "use one target, one workload, and one value for each setting";
        return Err(ControllerError::Request(format!("{what} (hint: {hint})")));
    };
    if run.workload != Workload::Mixed {
        let what = format!("a soak needs the workload mixed, but this plan has {}", run.workload);
        return Err(ControllerError::Request(format!("{what} (hint: use --workload mixed)")));
    }
    run.passes = vec![Pass::Mix, Pass::Read];
    run.soak = Some(Box::new(soak.clone()));
    // If every write is stable, there is nothing to commit.
    if run.answers_safe()
        && let Some(soak) = &mut run.soak
    {
        soak.commit_every_ops = 0;
    }
    plan.disturbances.clone_from(&soak.disturbances);
    // Each segment is a trial. They run in order, since each one reads the data of earlier ones.
    plan.trials = soak.segments() as u32;
    plan.order = Order::Sequential;
    Ok(())
}

/// Defaults of a soak, unless the plan or flags say otherwise: small enough for a laptop, enough
/// load to see effects, and timeouts that let a server come back.
const DEFAULTS: [(Setting, &str); 9] = [
    (Setting::Rate, "500"),
    (Setting::Arrivals, "constant"),
    (Setting::Workers, "2"),
    (Setting::Files, "16"),
    (Setting::FileSize, "1MiB"),
    (Setting::IoSize, "4KiB"),
    (Setting::ReadPercent, "50"),
    (Setting::Interval, "200ms"),
    (Setting::Timeout, "1min"),
];

/// Returns true if the plan or a flag requests as much load as the server takes.
fn is_closed_loop(raw: &RawPlan) -> bool {
    raw.factors
        .get(Setting::Rate)
        .is_some_and(|levels| levels.iter().all(|level| level.value == Value::Number(0)))
}

/// Above this duration, intervals are one second long, so that the timeline of a day has 86,400
/// points.
const FINE_MS_MAX: u64 = 600_000;

pub fn add_defaults(raw: &mut RawPlan, soak: &Soak) -> Result<(), PlanError> {
    let segment = format!("{}ms", soak.segment_ms);
    let trials = soak.segments().to_string();
    let mut flags = Overrides { trials: Some(trials), ..Overrides::default() }
        .with(Setting::Duration, &[&segment])
        .with(Setting::Verify, &["true"])
        .with(Setting::Stamp, &["true"]);
    for (setting, value) in DEFAULTS {
        let in_workloads = raw.workloads.iter().any(|w| w.settings.get(setting).is_some());
        if raw.factors.get(setting).is_some() || in_workloads {
            continue;
        }
        // Without an offered rate there are no arrivals.
        if setting == Setting::Arrivals && is_closed_loop(raw) {
            continue;
        }
        let coarse = setting == Setting::Interval && soak.duration_ms > FINE_MS_MAX;
        flags = flags.with(setting, &[if coarse { "1s" } else { value }]);
    }
    raw.apply(&flags)
}

/// Formats a time for people.
pub fn format_ms(ms: u64) -> String {
    Nanos(ms.saturating_mul(1_000_000)).to_string()
}
