//! `dfsbench ladder`: runs the same work on each layer of the data path to find the bottleneck.
//!
//! A ladder is an ordinary plan with one target per layer, so everything works like in any other
//! campaign. The report computes the answer from the trials.

use std::process::ExitCode;

use model::Question;
use model::setting::Setting;
use plan::{BesideServer, NfsAddress, Plan, RawPlan, TargetArg};

use crate::args::LadderArgs;
use crate::commands::campaign::{self, Session};
use crate::exit::{End, Failure};
use crate::plans::{dry_run, plan_source, surroundings};
use crate::terminal::output;

/// Runs the ladder that the arguments describe.
///
/// # Errors
/// If no ladder can be built, or same as [`campaign::run`].
pub(crate) fn run(args: &LadderArgs) -> Result<ExitCode, Failure> {
    let mut own_server = None;
    if let Some(text) = &args.own_server {
        own_server = Some(read_own(text)?);
    }
    let beside = BesideServer { own_server, disk: args.server_disk.clone() };
    if args.run.job.launcher.is_some() || args.run.until_broken.is_some() {
        let what = "a ladder supports neither --launcher nor --until-broken";
        let hint = "name the hosts in a plan";
        return Err(Failure::Usage(format!("{what} (hint: {hint})")));
    }
    // One target per layer. Layers that can't be measured here are listed as missing.
    let (raw, ladder) = read_plan(args)?.into_ladder(beside)?;
    let plan = Plan::resolve(&raw, &surroundings::for_campaign())?;
    plan.check_ladder()?;
    campaign::warn_of_idle_settings(&plan);
    if args.run.estimate.dry_run {
        output::text(&dry_run::describe(&plan, &args.run)?)?;
        for missing in &ladder.missing {
            output::text(&format!("open:     {}\n", missing.why))?;
        }
        return Ok(End::Ok.into());
    }
    plan.check_destroy(&args.run.making.allow_destroy)?;
    let session = Session::start(&args.run.making, &args.run.job)?;
    session.run_plan(plan, &Question::Ladder(ladder))
}

/// Reads the plan that is named, or creates one for the in-memory server if none is.
fn read_plan(args: &LadderArgs) -> Result<RawPlan, Failure> {
    let mut raw = if args.run.target.is_some() {
        plan_source::read(&args.run)?
    } else {
        let mut raw = RawPlan::for_target(plan::parse_target("embedded")?);
        plan_source::apply(&mut raw, &args.run)?;
        raw
    };
    plan_source::refuse_loads(&raw)?;
    // Passes end with their files, so only the trials of --quick and --thorough apply.
    let is_given = args.run.overrides().settings.contains_key(&Setting::Duration);
    if args.run.effort().is_some() && !is_given {
        raw.factors.remove(Setting::Duration);
    }
    Ok(raw)
}

fn read_own(text: &str) -> Result<NfsAddress, Failure> {
    match plan::parse_target(text)? {
        TargetArg::Nfs(address) if address.port.is_some() => Ok(address),
        _ => Err(Failure::Usage(format!(
            "--own-server: `{text}` is not the address of a `dfsbench serve` (hint: \
             nfs://host:port/export, as it prints it)"
        ))),
    }
}
