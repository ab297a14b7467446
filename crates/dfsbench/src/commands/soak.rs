//! `dfsbench soak`: a steady load for hours with planned disturbances, verifying every byte.
//!
//! A soak is an ordinary plan with a single run whose trials are its segments; see
//! [`controller::soak`].

use std::fmt::Write as _;
use std::process::ExitCode;

use controller::soak::{self, SoakRequest, format_ms};
use model::soak::Disturbance;
use model::{Question, Soak, Workload};
use plan::{Located, Overrides, Plan, RawPlan};

use crate::args::SoakArgs;
use crate::calendar;
use crate::commands::campaign::Session;
use crate::exit::{End, Failure};
use crate::plans::{dry_run, plan_source, surroundings};
use crate::terminal::output;

/// Runs the soak that the arguments describe.
///
/// # Errors
/// If it can't be started. Results measured before a later error are in the results file.
pub(crate) fn run(args: &SoakArgs) -> Result<ExitCode, Failure> {
    refuse_meaningless(args)?;
    let (mut raw, timed) = read_plan(args)?;
    let request = SoakRequest {
        segment: args.segment.as_deref(),
        disturb: &args.disturb,
        commit_every_ops: args.commit_every,
        is_embedded: args.run.target.as_deref().is_none_or(|target| target == "embedded"),
    };
    let (soak, planned) = soak::read_soak(&request, timed, &raw)?;
    soak::add_defaults(&mut raw, &soak)?;
    let mut around = surroundings::for_job(&args.run.job)?;
    let mut plan = Plan::resolve(&raw, &around)?;
    soak::apply(&mut plan, &soak)?;
    soak::check(&plan, &planned)?;
    if args.run.estimate.dry_run {
        output::text(&dry_run::describe(&plan, &args.run)?)?;
        output::text(&describe(&soak))?;
        return Ok(End::Ok.into());
    }
    plan.check_destroy(&args.run.making.allow_destroy)?;
    // If the job's time limit is too short, it would kill the soak hours later, in its last
    // segment.
    soak::fits_job(&soak, calendar::now_unix_ms(), &|name| std::env::var(name).ok())?;
    let session = Session::start(&args.run.making, &args.run.job)?;
    if session.add_job_hosts(&mut around) {
        plan = Plan::resolve(&raw, &around)?;
        soak::apply(&mut plan, &soak)?;
    }
    session.run_plan(plan, &Question::Soak(soak))
}

/// Reads the plan that the arguments name, or creates one for the in-memory server. Also returns
/// the faults that are scheduled at a certain time.
fn read_plan(args: &SoakArgs) -> Result<(RawPlan, Vec<Located<Disturbance>>), Failure> {
    let mut raw = match args.run.target {
        None => RawPlan::for_target(plan::parse_target("embedded")?),
        Some(_) => plan_source::read_disturbed(&args.run)?,
    };
    if args.run.target.is_none() {
        plan_source::apply(&mut raw, &args.run)?;
    }
    plan_source::refuse_loads(&raw)?;
    if raw.workloads.iter().all(|workload| workload.kind.value != Workload::Mixed)
        || raw.source_name == "command line"
    {
        raw.apply(&Overrides { workload: vec!["mixed".to_owned()], ..Overrides::default() })?;
    }
    let timed = soak::take_timed_faults(&args.fault, &mut raw)?;
    // A real server that crashes loses uncommitted data.
    if !raw.server.faults.planned.contains(&plan::fault::PlannedFault::LoseUnstable) {
        raw.server.faults.planned.push(plan::fault::PlannedFault::LoseUnstable);
    }
    plan::fault::check_faults(&raw.server.faults.planned)?;
    if raw.name == "run" {
        "soak".clone_into(&mut raw.name);
    }
    Ok((raw, timed))
}

/// Refuses settings that make no sense for a soak.
fn refuse_meaningless(args: &SoakArgs) -> Result<(), Failure> {
    let flags = args.run.overrides();
    let given = [
        (
            flags.trials.is_some(),
            "--trials",
            "--duration and --segment determine the number of trials",
        ),
        (flags.until.is_some(), "--until", "--duration alone determines how long a soak lasts"),
        (flags.budget.is_some(), "--budget", "--duration alone determines how long a soak lasts"),
        (flags.warmup_trials.is_some(), "--warmup-trials", "every segment counts"),
        (flags.order.is_some(), "--order", "its segments follow each other"),
        (flags.interference.is_some(), "--interference", "every segment counts"),
        (args.run.effort().is_some(), "--quick or --thorough", "--duration determines its length"),
        (args.run.until_broken.is_some(), "--until-broken", "`dfsbench run` has it"),
    ];
    if args.run.wants_null() || args.run.target.as_deref() == Some("null") {
        let what = "a soak verifies what a server keeps, and `null` keeps nothing";
        return Err(Failure::Usage(format!(
            "{what} (hint: use `embedded`, nfs://... or a directory)"
        )));
    }
    match given.iter().find(|(is_given, ..)| *is_given) {
        Some((_, flag, hint)) => {
            Err(Failure::Usage(format!("{flag} has no effect on a soak (hint: {hint})")))
        }
        None => Ok(()),
    }
}

/// Describes a soak for a dry run.
fn describe(soak: &Soak) -> String {
    let segments = match soak.segments() {
        1 => "1 segment".to_owned(),
        more => format!("{more} segments"),
    };
    let mut text = format!(
        "soak: {} in {segments} of {}, with all data read back after each\n",
        format_ms(soak.duration_ms),
        format_ms(soak.segment_ms)
    );
    for one in &soak.disturbances {
        // Writing to a `String` never fails.
        let _ = writeln!(text, "  {one}");
    }
    text
}
