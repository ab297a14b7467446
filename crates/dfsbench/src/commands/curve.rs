//! `dfsbench curve`: response time over throughput, at evenly spaced load points.
//!
//! A curve is an ordinary plan that has the load points as levels of `rate`, so it is run, stored
//! and resumed just like `dfsbench run` does it. If the maximum load isn't given, a short closed
//! loop finds it first. The report computes the curve from the results file.

use std::process::ExitCode;
use std::sync::Arc;

use controller::search::curve_plan::{self, CurveDefaults, mix_of, plan_with_loads, spread_loads};
use controller::search::{LoadsUnderBound, closed_loop, find_loads_under_bound};
use fleet::job::Launcher;
use model::question::{CurveRequest, LoadMaximum, Question, ResponseBound};
use model::setting::Setting;
use model::units::parse_time_ns;
use model::{Campaign, CampaignState, Workload};
use plan::{Overrides, Plan, RawPlan, Surroundings, TargetArg, User};
use results::Store;
use stats::Rate;

use crate::args::CurveArgs;
use crate::commands::campaign::{self, Session};
use crate::exit::{End, Failure};
use crate::plans::presets::Preset;
use crate::plans::{dry_run, plan_source, surroundings};
use crate::server::embedded;
use crate::terminal::output;
use crate::terminal::progress::{Progress, Visibility};

/// Smallest useful maximum load, in ops per second.
const LEAST: u64 = 50;

/// Measures the curve that the arguments describe.
///
/// # Errors
/// Same as [`campaign::run`]; also if a load can't be offered to the target.
pub(crate) fn run(args: &CurveArgs) -> Result<ExitCode, Failure> {
    let bound = bound_of(args)?;
    let launcher = args.run.job.launcher;
    if launcher.is_some_and(Launcher::has_joining_agents) && args.max_load.is_none() {
        return Err(Failure::Usage(
            "--launcher: agents of a job connect only once, and the closed loop that finds the \
             heaviest load would use that connection (hint: set the heaviest load with --max-load)"
                .to_owned(),
        ));
    }
    let mut around = surroundings::for_job(&args.run.job)?;
    let raw = read_plan(args, &around)?;
    let light = plan_with_loads(&raw, &around, &[1])?;
    campaign::warn_of_idle_settings(&light);
    light.check_destroy(&args.run.making.allow_destroy)?;
    if args.run.estimate.dry_run {
        return describe(args, &raw, &around, &light);
    }
    let session = Session::start(&args.run.making, &args.run.job)?;
    session.add_job_hosts(&mut around);
    let maximum = match args.max_load {
        Some(per_s) => LoadMaximum { per_s, found: None },
        None => find_maximum(&session, light)?,
    };
    let loads_per_s = spread_loads(maximum.per_s, args.points);
    let plan = plan_with_loads(&raw, &around, &loads_per_s)?;
    let mut request = CurveRequest { loads_per_s, maximum, bound, ..mix_of(&plan) };
    if let Some(bound) = bound {
        // A search picks each load based on the results so far.
        request.loads_per_s.clear();
        let heaviest = plan_with_loads(&raw, &around, &[request.maximum.per_s])?;
        return search_under_bound(session, heaviest, &request, bound);
    }
    session.run_plan(plan, &Question::Curve(request))
}

/// Describes the campaign without running it.
fn describe(
    args: &CurveArgs,
    raw: &RawPlan,
    around: &Surroundings,
    light: &Plan,
) -> Result<ExitCode, Failure> {
    let points = args.points;
    let text = match args.max_load {
        Some(per_s) => {
            let plan = plan_with_loads(raw, around, &spread_loads(per_s, points))?;
            dry_run::describe(&plan, &args.run)?
        }
        None => format!(
            "{points} load points, evenly spaced up to the maximum, which a closed loop of {} \
             finds first (or --max-load sets it)\none load point:\n{}",
            closed_loop::longest(light),
            dry_run::describe(light, &args.run)?
        ),
    };
    output::text(&text)?;
    Ok(End::Ok.into())
}

/// Reads the plan and adds what a curve needs.
fn read_plan(args: &CurveArgs, around: &Surroundings) -> Result<RawPlan, Failure> {
    let flags = args.run.overrides();
    if flags.settings.contains_key(&Setting::Rate) {
        let what = "--rate: a curve measures several rates, its load points";
        return Err(Failure::Usage(format!("{what} (hint: use --max-load and --points)")));
    }
    if args.run.until_broken.is_some() {
        let what = "--until-broken: a curve does not search for the load that breaks a server";
        return Err(Failure::Usage(format!("{what} (hint: use `dfsbench ramp`)")));
    }
    let mut raw = read_named_plan(args)?;
    plan_source::apply(&mut raw, &args.run)?;
    plan_source::refuse_loads(&raw)?;
    let is_quick = args.run.target.is_none();
    let defaults = if is_quick { CurveDefaults::Quick } else { CurveDefaults::Field };
    curve_plan::fill_in(&mut raw, around, defaults)?;
    Ok(raw)
}

/// Reads the plan that is named, or creates one for the in-memory server if none is.
fn read_named_plan(args: &CurveArgs) -> Result<RawPlan, Failure> {
    let mix =
        Overrides { workload: vec![Workload::OpMix.name().to_owned()], ..Overrides::default() };
    let mut raw = match args.run.target.as_deref() {
        None if args.run.wants_null() => RawPlan::for_target(TargetArg::NULL),
        None => RawPlan::for_target(TargetArg::embedded(User::default())),
        Some(text) => plan_source::load_named(text)?,
    };
    // A plan has its own workloads; a bare target gets the default mix.
    let is_plan = args.run.target.as_deref().is_some_and(|text| {
        plan_source::is_plan_file(text) || Preset::find_by_name(text).is_some()
    });
    if !is_plan {
        raw.apply(&mix)?;
        "curve".clone_into(&mut raw.name);
    }
    Ok(raw)
}

/// Finds the maximum load. `light` is the plan with a negligible load.
///
/// # Errors
/// If the loop can't be run, or if it completes hardly any ops.
fn find_maximum(session: &Session<'_>, mut light: Plan) -> Result<LoadMaximum, Failure> {
    closed_loop::close_loops(&mut light);
    if session.visibility() == Visibility::Shown {
        let time = closed_loop::longest(&light);
        output::message(&format!("finding the heaviest load with a closed loop of {time}"));
    }
    let server = embedded::start(&light)?;
    if let Some(server) = &server {
        server.set_addresses(&mut light);
    }
    let making = campaign::without_progress(session.making);
    let mut silent = Session::silent(&making, Arc::clone(&session.stop));
    let mut observer = silent.observe(Progress::new(&light, Visibility::Hidden), 0)?;
    let found = silent.with_runner(&light, server.as_ref(), &mut observer, |runner| {
        Ok(closed_loop::find_best(runner)?)
    })?;
    if found.per_s() < LEAST {
        let rate = Rate::Ops(found.per_s() as f64);
        let what = format!("a closed loop reached only {rate}, too little for a curve");
        return Err(Failure::Lab(format!("{what} (hint: raise --clients, or set --max-load)")));
    }
    if session.visibility() == Visibility::Shown {
        let rate = Rate::Ops(found.per_s() as f64);
        output::message(&format!("the heaviest load is {rate}"));
    }
    Ok(LoadMaximum { per_s: found.per_s(), found: Some(found) })
}

/// Searches for the maximum load of each run, for every combination of its other settings.
fn search_under_bound(
    mut session: Session<'_>,
    mut heaviest: Plan,
    request: &CurveRequest,
    bound: ResponseBound,
) -> Result<ExitCode, Failure> {
    let server = embedded::start(&heaviest)?;
    if let Some(server) = &server {
        server.set_addresses(&mut heaviest);
    }
    let progress = Progress::open_ended(&heaviest, session.visibility());
    let mut observer = session.observe(progress, 0)?;
    let results = &session.making.results;
    let searched = session.with_runner(&heaviest, server.as_ref(), &mut observer, |runner| {
        runner.preflight()?;
        let header = campaign::header(runner, &Question::Curve(request.clone()))?;
        let mut store = Store::open_or_create(results)?;
        Ok(find_loads_under_bound(runner, &mut store, &header, request, &bound)?)
    });
    drop(server);
    let made = searched.and_then(|found| report_search(&session, found));
    observer.end(&made);
    Ok(made?.0.into())
}

/// Reports the loads that were found.
fn report_search(
    session: &Session<'_>,
    found: LoadsUnderBound,
) -> Result<(End, Campaign), Failure> {
    let LoadsUnderBound { campaign, are_known } = found;
    let end = session.report(&campaign)?;
    if !are_known || campaign.state != CampaignState::Complete {
        return Ok((End::Invalid, campaign));
    }
    // Load points beyond the bound are invalid, but a search needs some of them.
    Ok((if end == End::Invalid { End::Ok } else { end }, campaign))
}

fn bound_of(args: &CurveArgs) -> Result<Option<ResponseBound>, Failure> {
    let Some(text) = &args.bound else { return Ok(None) };
    let most_ns = match parse_time_ns(text) {
        Ok(0) => Err("the bound must be longer than 0".to_owned()),
        Ok(most_ns) => Ok(most_ns),
        Err(error) => Err(error.to_string()),
    };
    let most_ns = most_ns.map_err(|why| {
        Failure::Usage(format!("--bound `{text}`: {why} (hint: for example 20ms)"))
    })?;
    let mut quantile_permille = None;
    if let Some(text) = &args.bound_quantile {
        quantile_permille = Some(parse_quantile(text)?);
    }
    Ok(Some(ResponseBound { most_ns, quantile_permille }))
}

/// Parses a percentile from 1 to less than 100; the result is in tenths of a percent.
fn parse_quantile(text: &str) -> Result<u32, Failure> {
    match text.trim().parse::<f64>() {
        Ok(percent) if (1.0..100.0).contains(&percent) => Ok((percent * 10.0).round() as u32),
        _ => Err(Failure::Usage(format!(
            "--bound-quantile `{text}`: not a percentage from 1 to 99.9 (hint: for example 99)"
        ))),
    }
}
