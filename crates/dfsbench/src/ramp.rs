//! `dfsbench ramp`: raises the load until the server gives in, and says with how much, and how.
//!
//! The plan is resolved again for each load, so that every default follows it and every check
//! holds. What is raised are the client hosts of a target that has some, else the clients that are
//! emulated, or the offered load. The rule by which a server gives in is that of
//! [`stats::breaking`]; the report shows what was found. `dfsbench run --until-broken` is the same
//! with a plan's own workloads.

use std::path::Path;
use std::process::ExitCode;

use controller::CampaignRunner;
use controller::search::Keeping;
use model::question::{Question, RampRequest};
use model::setting::Setting;
use model::units::parse_time_ns;
use model::{Ability, Campaign, CampaignState, Host, RunSpec, Workload};
use plan::{Overrides, Plan, PlanError, RawPlan, Surroundings, TargetArg, User};
use results::Store;
use stats::breaking::{RATE_ACCURACY_PERMILLE, Recovery, replay};

use crate::args::{Raise, RampArgs, RunArgs};
use crate::campaign::{self, Session};
use crate::embedded::{self, Embedded};
use crate::exit::{End, Failure};
use crate::progress::Progress;
use crate::{dry_run, output, plan_source};

/// The heaviest load by default, by what is raised.
const MAX: u32 = 1_000;
const MAX_RATE: u32 = 1_000_000;
const MAX_QUICK: u32 = 64;

/// The lightest offered load by default, in ops per second.
const FIRST_RATE: u32 = 100;

/// The settings where nothing is named: short trials, within a minute.
const QUICK: [(Setting, &str); 2] = [(Setting::Duration, "400ms"), (Setting::FileSize, "4MiB")];

/// The request of a ramp beside its plan.
struct SearchRequest {
    raise: Option<Raise>,
    from: Option<u32>,
    max: Option<u32>,
    recovery_ms: u64,
    slow_factor: u32,
}

/// Makes the ramp that the arguments ask for.
///
/// # Errors
/// As [`campaign::run`], and where the plan has nothing to raise.
pub fn run(args: &RampArgs) -> Result<ExitCode, Failure> {
    let recovery = parse_time_ns(&args.recovery)
        .map_err(|error| Failure::Usage(format!("--recovery `{}`: {error}", args.recovery)))?;
    if args.run.until_broken.is_some() {
        let what = "--until-broken: a ramp does that already";
        return Err(Failure::Usage(format!("{what} (hint: --max sets the limit)")));
    }
    let around = plan_source::surroundings_of_job(&args.run.job)?;
    let is_quick = args.run.target.is_none();
    let mut raw = match args.run.target.as_deref() {
        None => quick_plan()?,
        Some(text) => plan_source::named(text)?,
    };
    plan_source::apply(&mut raw, &args.run)?;
    if raw.name == "run" {
        "ramp".clone_into(&mut raw.name);
    }
    let is_rate = args.raise == Some(Raise::Rate);
    let request = SearchRequest {
        raise: args.raise,
        from: args.from,
        max: args.max.or((is_quick && !is_rate).then_some(MAX_QUICK)),
        recovery_ms: recovery / 1_000_000,
        slow_factor: args.slower,
    };
    search_plan(&args.run, &raw, &around, &request)
}

/// The plan where nothing is named: a mix on the in-memory server.
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

/// Adds clients to each run of a plan until the server breaks, `clients_max` at most.
///
/// # Errors
/// As [`run`].
pub fn until_broken(args: &RunArgs, clients_max: u32) -> Result<ExitCode, Failure> {
    let raw = plan_source::read(args)?;
    let around = plan_source::surroundings_of_job(&args.job)?;
    let RampRequest { recovery_ms, slow_factor, .. } = RampRequest::default();
    let request =
        SearchRequest { raise: None, from: None, max: Some(clients_max), recovery_ms, slow_factor };
    search_plan(args, &raw, &around, &request)
}

/// Searches for each run of the plan, whatever it says of the load.
fn search_plan(
    args: &RunArgs,
    raw: &RawPlan,
    around: &Surroundings,
    request: &SearchRequest,
) -> Result<ExitCode, Failure> {
    let raising = Raising::of(raw, around, request)?;
    let plan = raising.plan(raising.ramp.first)?;
    campaign::warn_of_idle_settings(&plan);
    if args.estimate.dry_run {
        output::text(&dry_run::describe(&plan, args)?)?;
        output::text(&format!("until broken: {}\n", raising.describe()))?;
        return Ok(End::Ok.into());
    }
    plan.check_destroy(&args.making.allow_destroy)?;
    let mut session = Session::start(&args.making, &args.job)?;
    let mut around = around.clone();
    session.add_job_hosts(&mut around);
    // Again, since the hosts of a job have names only now.
    let mut raising = Raising::of(raw, &around, request)?;
    let mut plan = raising.plan(raising.ramp.first)?;
    raising.server = embedded::start(&plan)?;
    raising.set_embedded(&mut plan);
    let progress = Progress::open_ended(&plan, session.visibility());
    let mut observer = session.observe(progress, 0)?;
    let results = &session.making.results;
    let server = raising.server.as_ref();
    let searched = session
        .with_runner(&plan, server, &mut observer, |runner| search_runs(runner, results, &raising));
    let made = match searched {
        Ok(stored) => report_campaign(&session, stored, &raising.ramp),
        Err(failure) => Err(failure),
    };
    // The server goes only now: agents that clean up use it to the end.
    drop(raising);
    observer.end(&made);
    Ok(made?.0.into())
}

/// Reports what was found. That some trials failed was wanted.
fn report_campaign(
    session: &Session<'_>,
    stored: Campaign,
    ramp: &RampRequest,
) -> Result<(End, Campaign), Failure> {
    session.report(&stored)?;
    let mut is_known = stored.state == CampaignState::Complete;
    for one in replay(&stored, ramp) {
        is_known &= !matches!(one.search.found().recovery, Some(Recovery::Never { .. }));
    }
    Ok((if is_known { End::Ok } else { End::Invalid }, stored))
}

/// The raised setting, with its first and last value.
struct Raising<'a> {
    raw: &'a RawPlan,
    around: &'a Surroundings,
    setting: Setting,
    ramp: RampRequest,
    server: Option<Embedded>,
}

impl<'a> Raising<'a> {
    fn of(
        raw: &'a RawPlan,
        around: &'a Surroundings,
        request: &SearchRequest,
    ) -> Result<Self, Failure> {
        let plan = Plan::resolve(raw, around)?;
        let (setting, first, max) = find_raised(raw, around, &plan, request)?;
        let ramp = RampRequest {
            setting: setting.key().to_owned(),
            first: request.from.unwrap_or(first),
            max,
            recovery_ms: request.recovery_ms,
            slow_factor: request.slow_factor,
            accuracy_permille: if setting == Setting::Rate { RATE_ACCURACY_PERMILLE } else { 0 },
        };
        let mut raising = Self { raw, around, setting, ramp, server: None };
        let RampRequest { first, max, .. } = raising.ramp;
        if max < first {
            let what = format!("a ramp from {first} to {max} does not rise");
            return Err(Failure::Usage(format!("{what} (hint: --from and --max)")));
        }
        raising.plan(first)?;
        raising.ramp.max = raising.largest(max);
        Ok(raising)
    }

    /// The largest number up to `max` that the plan allows, such as for want of buffers.
    fn largest(&self, max: u32) -> u32 {
        if self.plan(max).is_ok() {
            return max;
        }
        // Bisection: `good` is always allowed, `bad` never.
        let (mut good, mut bad) = (self.ramp.first, max);
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if self.plan(middle).is_ok() { good = middle } else { bad = middle }
        }
        good
    }

    /// The plan with this load.
    fn plan(&self, load: u32) -> Result<Plan, PlanError> {
        let mut raw = self.raw.clone();
        raw.apply(&Overrides::default().with(self.setting, &[&load.to_string()]))?;
        let mut plan = Plan::resolve(&raw, self.around)?;
        self.set_embedded(&mut plan);
        Ok(plan)
    }

    fn set_embedded(&self, plan: &mut Plan) {
        if let Some(server) = &self.server {
            server.set_addresses(plan);
        }
    }

    /// One run of the plan with this load.
    fn run(&self, number: usize, load: u32) -> Result<RunSpec, String> {
        let plan = self.plan(load).map_err(|error| error.to_string())?;
        match plan.runs.into_iter().nth(number) {
            Some(run) => Ok(run),
            None => Err(format!("the plan has fewer runs with {}", self.ramp.describe_load(load))),
        }
    }

    fn describe(&self) -> String {
        format!("from {} to at most {}", self.ramp.first, self.ramp.describe_load(self.ramp.max))
    }
}

/// Finds the setting of a plan that can be raised: the setting, its first and its last value.
fn find_raised(
    raw: &RawPlan,
    around: &Surroundings,
    plan: &Plan,
    request: &SearchRequest,
) -> Result<(Setting, u32, u32), Failure> {
    let (mut with_hosts, mut emulated, mut offered) = (0, true, true);
    let mut workers = 1;
    for run in &plan.runs {
        with_hosts += usize::from(!run.placement.hosts.is_empty());
        emulated &= run.backend.can(Ability::SpeakNfs);
        offered &= Setting::Rate.has_workload(run.workload);
        workers = workers.max(run.all_workers());
    }
    let all_have_hosts = with_hosts == plan.runs.len();
    let most = request.max.unwrap_or(MAX);
    match request.raise {
        None | Some(Raise::ClientHosts) if all_have_hosts => {
            // The target with the fewest hosts limits all.
            let mut fewest = most;
            for target in &raw.targets {
                fewest = fewest.min(Host::count_distinct(target.agents(around)));
            }
            Ok((Setting::ClientHosts, 1, fewest.max(1)))
        }
        None | Some(Raise::Clients) if emulated && (with_hosts == 0 || request.raise.is_some()) => {
            Ok((Setting::Clients, workers, most.max(workers)))
        }
        Some(Raise::Rate) if offered => {
            Ok((Setting::Rate, FIRST_RATE, request.max.unwrap_or(MAX_RATE)))
        }
        Some(Raise::Rate) => {
            let what = "--raise rate: not every run of this plan can be offered at a rate";
            Err(Failure::Usage(format!("{what} (hint: --workload mixed)")))
        }
        _ => {
            let what = "not every run of this plan has clients to add";
            let hint = "a target with `clients` or `hosts`, or an nfs:// address";
            Err(Failure::Usage(format!("{what} (hint: {hint})")))
        }
    }
}

/// Searches for each run, all in one campaign.
fn search_runs(
    runner: &mut CampaignRunner<'_>,
    results: &Path,
    raising: &Raising<'_>,
) -> Result<Campaign, Failure> {
    runner.preflight()?;
    let question = Question::Ramp(raising.ramp.clone());
    let header = campaign::header(runner, &question)?;
    let mut store = Store::open_or_create(results)?;
    let id = store.begin_campaign(&header)?;
    let mut state = CampaignState::Complete;
    let mut keeping = Keeping::new(&mut store, id);
    let plan: &Plan = runner.plan;
    for (number, run) in plan.runs.iter().enumerate() {
        if run.impossible().is_some() {
            continue;
        }
        let at = |load| raising.run(number, load);
        let search = controller::search::search(runner, &mut keeping, &raising.ramp, &at);
        if search?.next().is_some() {
            state = CampaignState::Interrupted;
            break;
        }
    }
    store.finish(id, state)?;
    Ok(store.load(id)?)
}
