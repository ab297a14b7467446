//! `dfsbench soak`: a steady load for hours, every byte verified, with planned disturbances.
//!
//! A soak is an ordinary plan of one run whose trials are its segments, so that stopping, resuming,
//! watching and storing are those of every campaign. What a soak adds to the run is put on by
//! [`apply`], here and where a soak is resumed.

mod disturbances;
mod lease;
mod settings;

use std::process::ExitCode;

use model::setting::{Setting, Value};
use model::soak::Disturbance;
use model::units::Nanos;
use model::{Order, Pass, Question, Soak, Workload};
use plan::{Located, Overrides, Plan, RawPlan};

use crate::args::SoakArgs;
use crate::campaign::Session;
use crate::exit::{End, Failure};
use crate::{calendar, dry_run, output, plan_source};

/// Makes the soak that the arguments ask for.
///
/// # Errors
/// When it can't be begun; what was measured before a later error is in the results file.
pub fn run(args: &SoakArgs) -> Result<ExitCode, Failure> {
    settings::refuse_meaningless(args)?;
    let (mut raw, timed) = read_plan(args)?;
    let (soak, planned) = settings::soak(args, timed, &raw)?;
    add_defaults(&mut raw, &soak)?;
    let mut around = plan_source::surroundings_of_job(&args.run.job)?;
    let mut plan = Plan::resolve(&raw, &around)?;
    apply(&mut plan, &soak)?;
    settings::check(&plan, &planned)?;
    if args.run.estimate.dry_run {
        output::text(&dry_run::describe(&plan, &args.run)?)?;
        output::text(&settings::described(&soak))?;
        return Ok(End::Ok.into());
    }
    plan.check_destroy(&args.run.making.allow_destroy)?;
    // A job that ends first would kill the soak in its last segment, hours later.
    lease::fits_job(&soak, calendar::now_unix_ms())?;
    let session = Session::start(&args.run.making, &args.run.job)?;
    if session.add_job_hosts(&mut around) {
        plan = Plan::resolve(&raw, &around)?;
        apply(&mut plan, &soak)?;
    }
    session.run_plan(plan, &Question::Soak(soak))
}

/// Makes the runs of a plan those of a soak.
///
/// # Errors
/// When the plan has not exactly one run, or one that can't be soaked.
pub fn apply(plan: &mut Plan, soak: &Soak) -> Result<(), Failure> {
    let [run] = plan.runs.as_mut_slice() else {
        let what = format!("a soak is one run, and this plan makes {}", plan.runs.len());
        let hint = "one target, one workload, and one value for each setting";
        return Err(Failure::Usage(format!("{what} (hint: {hint})")));
    };
    if run.workload != Workload::Mixed {
        let what = format!("a soak is a mixed workload, and this plan's is {}", run.workload);
        return Err(Failure::Usage(format!("{what} (hint: --workload mixed)")));
    }
    run.passes = vec![Pass::Mix, Pass::Read];
    run.soak = Some(Box::new(soak.clone()));
    // Where every write is safe there is nothing to commit.
    if run.answers_safe()
        && let Some(soak) = &mut run.soak
    {
        soak.commit_every_ops = 0;
    }
    plan.disturbances.clone_from(&soak.disturbances);
    // Each segment is a trial, in the order of time: what one wrote the next ones find.
    plan.trials = soak.segments() as u32;
    plan.order = Order::Sequential;
    Ok(())
}

/// Reads the plan that the arguments name, or one of the in-memory server; with the faults that
/// have an instant.
fn read_plan(args: &SoakArgs) -> Result<(RawPlan, Vec<Located<Disturbance>>), Failure> {
    let mut raw = match args.run.target {
        None => RawPlan::for_target(plan::parse_target("embedded")?),
        Some(_) => plan_source::read_disturbed(&args.run)?,
    };
    if args.run.target.is_none() {
        plan_source::apply(&mut raw, &args.run)?;
    }
    if raw.workloads.iter().all(|workload| workload.kind.value != Workload::Mixed)
        || raw.source_name == "command line"
    {
        raw.apply(&Overrides { workload: vec!["mixed".to_owned()], ..Overrides::default() })?;
    }
    let timed = disturbances::take_timed_faults(&args.fault, &mut raw)?;
    // A real server that crashes loses what was not committed.
    if !raw.server.faults.planned.contains(&plan::fault::PlannedFault::LoseUnstable) {
        raw.server.faults.planned.push(plan::fault::PlannedFault::LoseUnstable);
    }
    plan::fault::check_faults(&raw.server.faults.planned)?;
    if raw.name == "run" {
        "soak".clone_into(&mut raw.name);
    }
    Ok((raw, timed))
}

/// The defaults of a soak where neither plan nor flags say: small enough for a laptop, loaded
/// enough to be seen, patient enough for a server that comes back.
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

/// Says whether the plan, or a flag, asks for as much load as the server takes.
fn is_closed_loop(raw: &RawPlan) -> bool {
    match raw.factors.get(Setting::Rate) {
        Some(levels) => levels.iter().all(|level| level.value == Value::Number(0)),
        None => false,
    }
}

/// Above this duration intervals are seconds, so that a day's timeline has 86,400 points.
const FINE_MS_MAX: u64 = 600_000;

fn add_defaults(raw: &mut RawPlan, soak: &Soak) -> Result<(), Failure> {
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
        // Who offers no rate has no arrivals.
        if setting == Setting::Arrivals && is_closed_loop(raw) {
            continue;
        }
        let coarse = setting == Setting::Interval && soak.duration_ms > FINE_MS_MAX;
        flags = flags.with(setting, &[if coarse { "1s" } else { value }]);
    }
    Ok(raw.apply(&flags)?)
}

/// Writes a time as people read it.
fn format_ms(ms: u64) -> String {
    Nanos(ms.saturating_mul(1_000_000)).to_string()
}
