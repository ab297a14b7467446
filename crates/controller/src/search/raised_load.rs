//! The load that a ramp raises, and the plan for each load.
//!
//! The plan is resolved again for each load, so that defaults and checks take it into account. A
//! ramp raises the number of streams of media, that of client hosts if the target has any, and
//! otherwise the number of emulated clients, the offered load, or the accelerators of a training.

use model::Workload::Media;
use model::question::RampRequest;
use model::setting::Setting;
use model::{Ability, Host, RunSpec, Workload};
use plan::{Overrides, Plan, PlanError, RawPlan, Surroundings};
use stats::breaking::RATE_ACCURACY_PERMILLE;
use stats::{LoadRange, LoadSearch};
use workload::TrainingSteps;

use crate::ControllerError;

/// Default maximum of the raised setting.
const MAX: u32 = 1_000;
const MAX_RATE: u32 = 1_000_000;

/// Default maximum of the accelerators of each client host.
const MAX_ACCELERATORS: u32 = 64;

/// Default minimum of the offered load, in ops per second.
const FIRST_RATE: u32 = 100;

/// The parts of a ramp's request that are not in its plan.
pub struct RaiseRequest {
    /// The setting to raise: clients, client hosts, workers, accelerators or the rate. `None`
    /// chooses workers for media and accelerators if all runs train; otherwise client hosts if the
    /// targets have some, or clients.
    pub setting: Option<Setting>,
    pub first: Option<u32>,
    pub max: Option<u32>,
    pub recovery_ms: u64,
    pub slow_factor: u32,
}

/// The raised setting with its first and last value.
pub struct RaisedLoad<'a> {
    raw: &'a RawPlan,
    around: &'a Surroundings,
    setting: Setting,
    ramp: RampRequest,
}

impl<'a> RaisedLoad<'a> {
    /// Determines the setting to raise and its range.
    ///
    /// # Errors
    /// If the plan is invalid, or has nothing to raise.
    pub fn new(
        raw: &'a RawPlan,
        around: &'a Surroundings,
        request: &RaiseRequest,
    ) -> Result<Self, ControllerError> {
        let plan = Plan::resolve(raw, around)?;
        let (setting, first, max) = find_raised(raw, around, &plan, request)?;
        let are_streams =
            setting == Setting::Workers && plan.runs.iter().all(|run| run.workload == Media);
        let has_hosts = plan.runs.iter().any(|run| run.agents() > 1);
        let ramp = RampRequest {
            setting: match (are_streams, has_hosts) {
                (false, _) => setting.key().to_owned(),
                (true, false) => "streams".to_owned(),
                (true, true) => "streams_per_host".to_owned(),
            },
            first: request.first.unwrap_or(first),
            max,
            recovery_ms: request.recovery_ms,
            // Frames may take as long as they are in time.
            slow_factor: if are_streams { u32::MAX } else { request.slow_factor },
            accuracy_permille: if setting == Setting::Rate { RATE_ACCURACY_PERMILLE } else { 0 },
        };
        let mut raised = Self { raw, around, setting, ramp };
        let RampRequest { first, max, .. } = raised.ramp;
        if max < first {
            let what = format!("a ramp cannot go from {first} to {max}");
            return Err(ControllerError::Request(format!(
                "{what} (hint: --max must be at least --from)"
            )));
        }
        raised.plan(first)?;
        raised.ramp.max = raised.largest(max);
        Ok(raised)
    }

    /// Returns the ramp from its first to its last load.
    pub const fn ramp(&self) -> &RampRequest {
        &self.ramp
    }

    /// Returns the largest number up to `max` that the plan allows; for example, buffers may limit
    /// it.
    fn largest(&self, max: u32) -> u32 {
        if self.plan(max).is_ok() {
            return max;
        }
        let first = self.ramp.first;
        let mut search = LoadSearch::new(LoadRange::whole(first, max));
        search.note_good(first.into());
        search.note_bad(max.into());
        while let Some(load) = search.next() {
            if self.plan(load as u32).is_ok() {
                search.note_good(load);
            } else {
                search.note_bad(load);
            }
        }
        search.heaviest_good().map_or(first, |load| load as u32)
    }

    pub fn plan(&self, load: u32) -> Result<Plan, PlanError> {
        let mut raw = self.raw.clone();
        raw.apply(&Overrides::default().with(self.setting, &[&load.to_string()]))?;
        let mut plan = Plan::resolve(&raw, self.around)?;
        if self.setting == Setting::Accelerators {
            plan.runs.iter_mut().for_each(lengthen_training);
        }
        Ok(plan)
    }

    /// Takes one run out of the plan with a load.
    ///
    /// # Errors
    /// If there is no such run. The error is a complete sentence.
    pub fn take_run(&self, plan: Plan, number: usize, load: u32) -> Result<RunSpec, String> {
        let missing = || format!("the plan has fewer runs at {}", self.ramp.describe_load(load));
        plan.runs.into_iter().nth(number).ok_or_else(missing)
    }
}

/// Adds epochs to a training until what was read before its first step hardly matters: with more
/// accelerators, an epoch has fewer steps.
fn lengthen_training(run: &mut RunSpec) {
    let steps = TrainingSteps::new(&run.for_agents());
    let epochs = run.training.steps_needed().div_ceil(steps.per_epoch.max(1));
    run.training.epochs = run.training.epochs.max(u32::try_from(epochs).unwrap_or(u32::MAX));
}

/// Finds the setting to raise, with its first and its last value.
fn find_raised(
    raw: &RawPlan,
    around: &Surroundings,
    plan: &Plan,
    request: &RaiseRequest,
) -> Result<(Setting, u32, u32), ControllerError> {
    let mut with_hosts = 0;
    let mut emulated = true;
    let mut offered = true;
    let mut workers = 1;
    let mut trains = true;
    for run in &plan.runs {
        with_hosts += usize::from(!run.placement.hosts.is_empty());
        emulated &= run.backend.has_ability(Ability::SpeakNfs);
        offered &= Setting::Rate.has_workload(run.workload);
        trains &= run.workload == Workload::Training;
        workers = workers.max(run.all_workers());
    }
    let all_have_hosts = with_hosts == plan.runs.len();
    let most = request.max.unwrap_or(MAX);
    let are_streams = plan.runs.iter().all(|run| run.workload == Media);
    match request.setting {
        None if are_streams => Ok((Setting::Workers, 1, most)),
        Some(Setting::Workers) => Ok((Setting::Workers, 1, most)),
        None | Some(Setting::Accelerators) if trains => {
            Ok((Setting::Accelerators, 1, request.max.unwrap_or(MAX_ACCELERATORS)))
        }
        Some(Setting::Accelerators) => {
            let what = "--raise accelerators: not every run of this plan trains";
            Err(ControllerError::Request(format!("{what} (hint: use --workload training)")))
        }
        None | Some(Setting::ClientHosts) if all_have_hosts => {
            // The target with the fewest hosts limits all of them.
            let mut fewest = most;
            for target in &raw.targets {
                fewest = fewest.min(Host::count_distinct(target.agents(around)));
            }
            Ok((Setting::ClientHosts, 1, fewest.max(1)))
        }
        None | Some(Setting::Clients)
            if emulated && (with_hosts == 0 || request.setting.is_some()) =>
        {
            Ok((Setting::Clients, workers, most.max(workers)))
        }
        Some(Setting::Rate) if offered => {
            Ok((Setting::Rate, FIRST_RATE, request.max.unwrap_or(MAX_RATE)))
        }
        Some(Setting::Rate) => {
            let what = "--raise rate: not every run of this plan can run at a fixed rate";
            Err(ControllerError::Request(format!("{what} (hint: use --workload mixed)")))
        }
        _ => {
            let what = "clients cannot be added to every run of this plan";
            let hint = "use an nfs:// address, or a target with `clients` or `hosts`";
            Err(ControllerError::Request(format!("{what} (hint: {hint})")))
        }
    }
}
