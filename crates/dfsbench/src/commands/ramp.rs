//! `dfsbench ramp`: raises the load until the server breaks, and reports at which load and how.
//!
//! [`RaisedLoad`] determines what can be raised. [`stats::breaking`] decides whether the server is
//! broken; the report shows the results. `dfsbench run --until-broken` does the same with a plan's
//! own workloads.

use std::process::ExitCode;

use controller::search::find_breaking_loads;
use controller::search::raised_load::{RaiseRequest, RaisedLoad};
use model::question::{Question, RampRequest};
use model::setting::Setting;
use model::units::parse_time_ns;
use model::{Campaign, CampaignState, Workload};
use plan::{Overrides, Plan, RawPlan, Surroundings, TargetArg, User};
use results::Store;
use stats::breaking::{Recovery, replay};

use crate::args::{Raise, RampArgs, RunArgs};
use crate::commands::campaign::{self, Session};
use crate::exit::{End, Failure};
use crate::plans::{dry_run, plan_source, surroundings};
use crate::server::embedded;
use crate::terminal::output;
use crate::terminal::progress::Progress;

/// Default maximum load if no plan or target is named.
const MAX_QUICK: u32 = 64;

/// Settings if no plan or target is named: short trials, less than a minute in total.
const QUICK: [(Setting, &str); 2] = [(Setting::Duration, "400ms"), (Setting::FileSize, "4MiB")];

/// Runs the ramp that the arguments describe.
///
/// # Errors
/// Same as [`campaign::run`]; also if the plan has nothing to raise.
pub(crate) fn run(args: &RampArgs) -> Result<ExitCode, Failure> {
    let recovery = parse_time_ns(&args.recovery)
        .map_err(|error| Failure::Usage(format!("--recovery `{}`: {error}", args.recovery)))?;
    if args.run.until_broken.is_some() {
        let what = "--until-broken: a ramp does that already";
        return Err(Failure::Usage(format!("{what} (hint: --max sets the limit)")));
    }
    let around = surroundings::for_job(&args.run.job)?;
    let is_quick = args.run.target.is_none();
    let mut raw = match args.run.target.as_deref() {
        None => quick_plan()?,
        Some(text) => plan_source::load_named(text)?,
    };
    plan_source::apply(&mut raw, &args.run)?;
    plan_source::refuse_loads(&raw)?;
    if raw.name == "run" {
        "ramp".clone_into(&mut raw.name);
    }
    let is_rate = args.raise == Some(Raise::Rate);
    let request = RaiseRequest {
        setting: args.raise.map(|raise| match raise {
            Raise::Clients => Setting::Clients,
            Raise::ClientHosts => Setting::ClientHosts,
            Raise::Workers => Setting::Workers,
            Raise::Rate => Setting::Rate,
            Raise::Accelerators => Setting::Accelerators,
        }),
        first: args.from,
        max: args.max.or((is_quick && !is_rate).then_some(MAX_QUICK)),
        recovery_ms: recovery / 1_000_000,
        slow_factor: args.slower,
    };
    search_plan(&args.run, &raw, &around, &request)
}

/// Builds the plan that is used if none is named: a mix on the in-memory server.
fn quick_plan() -> Result<RawPlan, Failure> {
    let mut raw = RawPlan::for_target(TargetArg::embedded(User::default()));
    let mix = vec![Workload::Mixed.name().to_owned()];
    let mut usual = Overrides { workload: mix, ..Overrides::default() };
    for (setting, level) in QUICK {
        usual = usual.with(setting, &[level]);
    }
    raw.apply(&usual)?;
    Ok(raw)
}

/// Adds clients to each run of a plan until the server breaks, up to `clients_max`.
pub(crate) fn until_broken(args: &RunArgs, clients_max: u32) -> Result<ExitCode, Failure> {
    let raw = plan_source::read(args)?;
    plan_source::refuse_loads(&raw)?;
    let around = surroundings::for_job(&args.job)?;
    let RampRequest { recovery_ms, slow_factor, .. } = RampRequest::default();
    let max = Some(clients_max);
    let request = RaiseRequest { setting: None, first: None, max, recovery_ms, slow_factor };
    search_plan(args, &raw, &around, &request)
}

/// Searches for the breaking load of each run of the plan, ignoring the loads given there.
fn search_plan(
    args: &RunArgs,
    raw: &RawPlan,
    around: &Surroundings,
    request: &RaiseRequest,
) -> Result<ExitCode, Failure> {
    let raised = RaisedLoad::new(raw, around, request)?;
    let plan = raised.plan(raised.ramp().first)?;
    campaign::warn_of_idle_settings(&plan);
    if args.estimate.dry_run {
        output::text(&dry_run::describe(&plan, args)?)?;
        let ramp = raised.ramp();
        let most = ramp.describe_load(ramp.max);
        output::text(&format!("until broken: from {} to at most {most}\n", ramp.first))?;
        return Ok(End::Ok.into());
    }
    plan.check_destroy(&args.making.allow_destroy)?;
    let mut session = Session::start(&args.making, &args.job)?;
    let mut around = around.clone();
    session.add_job_hosts(&mut around);
    // Build it again, because the hosts of a job only have names now.
    let raised = RaisedLoad::new(raw, &around, request)?;
    let ramp = raised.ramp();
    let mut plan = raised.plan(ramp.first)?;
    let server = embedded::start(&plan)?;
    let set_embedded = |plan: &mut Plan| {
        if let Some(server) = &server {
            server.set_addresses(plan);
        }
    };
    set_embedded(&mut plan);
    let at = |number, load| {
        let mut plan = raised.plan(load).map_err(|error| error.to_string())?;
        set_embedded(&mut plan);
        raised.take_run(plan, number, load)
    };
    let progress = Progress::open_ended(&plan, session.visibility());
    let mut observer = session.observe(progress, 0)?;
    let results = &session.making.results;
    let searched = session.with_runner(&plan, server.as_ref(), &mut observer, |runner| {
        runner.preflight()?;
        let header = campaign::header(runner, &Question::Ramp(ramp.clone()))?;
        let mut store = Store::open_or_create(results)?;
        Ok(find_breaking_loads(runner, &mut store, &header, ramp, &at)?)
    });
    let made = searched.and_then(|stored| report_campaign(&session, stored, ramp));
    // Drop the server last: agents use it until they have cleaned up.
    drop(server);
    observer.end(&made);
    Ok(made?.0.into())
}

/// Reports the results. Some failed trials are expected.
fn report_campaign(
    session: &Session<'_>,
    stored: Campaign,
    ramp: &RampRequest,
) -> Result<(End, Campaign), Failure> {
    session.report(&stored)?;
    let mut is_known = stored.state == CampaignState::Complete;
    for one in replay(&stored, ramp) {
        is_known &= !matches!(one.search.breaking_point().recovery, Some(Recovery::Never { .. }));
    }
    Ok((if is_known { End::Ok } else { End::Invalid }, stored))
}
