//! `dfsbench run --until-broken`: adds clients until the server gives in, and says with how many.
//!
//! The plan is resolved anew for each number of clients, so that every default follows it and every
//! check holds. What is raised are the client hosts of a target that has some, else the clients
//! that are emulated. The rule by which a server gives in is that of [`stats::breaking`].

use std::path::Path;
use std::process::ExitCode;

use controller::search::{Keeping, Outcome, Trouble};
use controller::{ControllerError, Walk};
use model::{BackendKind, Campaign, CampaignState, Question, RunSpec};
use plan::{Overrides, Plan, PlanError, RawPlan, Setting, Surroundings};
use results::Store;
use stats::Rate;
use stats::breaking::{DEGRADED_SHARE, How};

use crate::args::{Format, RunArgs};
use crate::campaign::{self, Means, Told};
use crate::embedded::{self, Embedded};
use crate::exit::{End, Failure};
use crate::progress::Progress;
use crate::{dry_run, output, signals};

/// Searches for each run of the plan, whatever it says of the number of clients.
///
/// # Errors
/// As [`campaign::run`], and where the plan has nothing to raise.
pub fn run(
    args: &RunArgs,
    raw: &RawPlan,
    around: &Surroundings,
    limit: u32,
) -> Result<ExitCode, Failure> {
    let mut raising = Raising::of(raw, around, limit)?;
    let mut plan = raising.plan(raising.first)?;
    campaign::warn_of_idle(raw);
    if args.dry_run {
        output::data(dry_run::describe(&plan).as_bytes())?;
        output::data(format!("until broken: {}\n", raising.told()).as_bytes())?;
        return Ok(End::Ok.into());
    }
    plan.check_destroy(&args.allow_destroy)?;
    let stop = signals::stop_flag()?;
    let means = Means::of(args);
    campaign::prepare(&means)?;
    raising.server = embedded::start(&plan)?;
    raising.set_embedded(&mut plan);
    let progress = Progress::open_ended(&plan, means.tells_nothing());
    let mut told = Told::new(&means, progress, 0)?;
    let local = raising.server.as_ref().map(Embedded::as_local_server);
    let searched = campaign::with_agents(&means, &plan, (local, &stop), &mut told, |walk| {
        search(walk, &args.results, &raising)
    });
    drop(raising);
    let made = searched.and_then(|(stored, sentences)| conclude(&means, stored, &sentences));
    told.end(&made);
    Ok(made?.0.into())
}

/// Reports what was measured, and says what it means.
fn conclude(
    means: &Means<'_>,
    stored: Campaign,
    sentences: &[String],
) -> Result<(End, Campaign), Failure> {
    campaign::conclude(means, &stored)?;
    let said = sentences.join("\n");
    if means.format == Format::Table {
        output::data(format!("\n{said}\n").as_bytes())?;
    } else {
        output::message(&said);
    }
    // That some trials failed was wanted.
    let known = stored.state == CampaignState::Complete;
    Ok((if known { End::Ok } else { End::Invalid }, stored))
}

/// What is raised, from where to where.
struct Raising<'a> {
    raw: &'a RawPlan,
    around: &'a Surroundings,
    setting: Setting,
    first: u32,
    max: u32,
    server: Option<Embedded>,
}

impl<'a> Raising<'a> {
    fn of(raw: &'a RawPlan, around: &'a Surroundings, limit: u32) -> Result<Self, Failure> {
        let plan = Plan::resolve(raw, around)?;
        let hosts = |run: &RunSpec| run.placement.hosts.len() as u32;
        let with_hosts = plan.runs.iter().filter(|run| hosts(run) > 0).count();
        let (setting, first, max) = if with_hosts == plan.runs.len() {
            let named = raw.targets.iter().map(|target| target.agents(around).len() as u32);
            let most = named.min().unwrap_or(1);
            (Setting::ClientHosts, 1, limit.min(most))
        } else if with_hosts == 0 && plan.runs.iter().all(|run| run.backend == BackendKind::Nfs) {
            let workers = plan.runs.iter().map(|run| run.workers).max().unwrap_or(1);
            (Setting::Clients, workers, limit)
        } else {
            let what = "--until-broken: not every run of this plan has clients to add";
            let hint = "a target with `clients` or `hosts`, or an nfs:// address";
            return Err(Failure::Usage(format!("{what} (hint: {hint})")));
        };
        let mut raising = Self { raw, around, setting, first, max, server: None };
        raising.plan(first)?;
        raising.max = raising.largest(max.max(first));
        Ok(raising)
    }

    /// The largest number up to `max` that the plan allows, such as for want of buffers.
    fn largest(&self, max: u32) -> u32 {
        let (mut good, mut bad) = (self.first, max + 1);
        if self.plan(max).is_ok() {
            return max;
        }
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if self.plan(middle).is_ok() { good = middle } else { bad = middle }
        }
        good
    }

    /// The plan with so many clients.
    fn plan(&self, clients: u32) -> Result<Plan, PlanError> {
        let mut raw = self.raw.clone();
        raw.apply(&Overrides::default().with(self.setting, &[&clients.to_string()]))?;
        let mut plan = Plan::resolve(&raw, self.around)?;
        self.set_embedded(&mut plan);
        Ok(plan)
    }

    fn set_embedded(&self, plan: &mut Plan) {
        if let Some(server) = &self.server {
            server.tell(plan);
        }
    }

    /// One run of the plan with so many clients.
    fn run(&self, number: usize, clients: u32) -> Result<RunSpec, String> {
        let plan = self.plan(clients).map_err(|error| error.to_string())?;
        let run = plan.runs.into_iter().nth(number);
        run.ok_or_else(|| format!("the plan has fewer runs with {clients} {}", self.unit(clients)))
    }

    fn question(&self) -> Question {
        Question::Ramp { setting: self.setting.key().to_owned(), first: self.first, max: self.max }
    }

    const fn unit(&self, count: u32) -> &'static str {
        match (self.setting, count) {
            (Setting::ClientHosts, 1) => "client host",
            (Setting::ClientHosts, _) => "client hosts",
            (_, 1) => "client",
            _ => "clients",
        }
    }

    fn told(&self) -> String {
        format!("from {} to at most {} {}", self.first, self.max, self.unit(self.max))
    }

    /// What a search found, in a sentence.
    fn sentence(&self, run: &RunSpec, outcome: &Outcome) -> String {
        let found = outcome.search.found();
        let some = |count: u32| format!("{count} {}", self.unit(count));
        let pass = |number: usize| run.passes().get(number).map_or("", |pass| pass.name());
        let rate = |load: u32, number: usize| {
            let per_s = outcome.search.rate(load, number).unwrap_or(0.0);
            let kind = run.passes().get(number);
            kind.map_or_else(String::new, |pass| Rate::of_pass(*pass, per_s).to_string())
        };
        let mut told = match found.gave_in {
            _ if outcome.search.next().is_some() => "was stopped before all was known".to_owned(),
            None => format!("bears {}: the limit was reached", some(self.max)),
            Some((load, How::Degraded { pass: number, best_at })) => format!(
                "degrades with {}: {} at {}, less than {:.0} % of the {} with {best_at}",
                some(load),
                pass(number),
                rate(load, number),
                DEGRADED_SHARE * 100.0,
                rate(best_at, number)
            ),
            Some((load, How::Broken { recovered })) => {
                let hangs = outcome.why.as_ref().is_some_and(|why| why.hangs);
                let word = if hangs { "hangs" } else { "fails" };
                let why = outcome.why.as_ref().map(|Trouble { reason, .. }| reason.as_str());
                let after = match (recovered, found.borne) {
                    (false, Some(borne)) => {
                        format!("; afterwards not even {} were borne any more", some(borne))
                    }
                    _ => String::new(),
                };
                let why = why.unwrap_or("a trial failed").lines().next().unwrap_or_default();
                format!("{word} with {}: {why}{after}", some(load))
            }
        };
        if let (Some(borne), true) = (found.borne, found.gave_in.is_some()) {
            told = format!("{told}; {} were borne", some(borne));
        }
        if let Some(from) = found.unsure_from {
            told = format!(
                "{told}; from {} on this program was at its own limit (client-saturated), and rates \
                 say nothing of the server",
                some(from)
            );
        }
        for (number, from) in found.saturated_from.iter().enumerate() {
            if let Some(from) = from {
                let at = rate(*from, number);
                told =
                    format!("{told}; {} is saturated from {} on ({at})", pass(number), some(*from));
            }
        }
        told
    }
}

/// Searches for each run, all in one campaign.
fn search(
    walk: &mut Walk<'_>,
    results: &Path,
    raising: &Raising<'_>,
) -> Result<(Campaign, Vec<String>), Failure> {
    let failed = |error: ControllerError| Failure::of_campaign(error, false);
    controller::preflight(walk).map_err(failed)?;
    let header = campaign::header(walk, &raising.question()).map_err(failed)?;
    let mut store = Store::open_or_create(results)?;
    let id = store.begin_campaign(&header)?;
    let mut sentences = Vec::new();
    let mut state = CampaignState::Complete;
    let mut keeping = Keeping::new(&mut store, id);
    let varying = walk.plan.varying();
    for (number, run) in walk.plan.runs.iter().enumerate() {
        if run.impossible().is_some() {
            continue;
        }
        let range = (raising.first, raising.max);
        let at = |clients| raising.run(number, clients);
        let outcome = controller::search::search(walk, &mut keeping, range, &at).map_err(failed)?;
        let name = name(run, &varying);
        sentences.push(format!("{name}: {}", raising.sentence(run, &outcome)));
        if outcome.search.next().is_some() {
            state = CampaignState::Interrupted;
            break;
        }
    }
    store.finish(id, state)?;
    Ok((store.load(id)?, sentences))
}

/// What tells a run from the others of its plan.
fn name(run: &RunSpec, varying: &[&str]) -> String {
    let settings = run.settings();
    let known = ["target", "workload"];
    let values = varying.iter().filter(|name| !known.contains(name)).filter_map(|name| {
        let (_, value) = settings.iter().find(|(other, _)| other == name)?;
        Some(format!(", {name} {value}"))
    });
    let values: String = values.collect();
    format!("{} {}{values}", run.target_name, run.workload.name())
}
