//! The plan of a curve: its defaults and its load points.
//!
//! For a named server, the defaults follow the rules of established benchmarks; for the in-memory
//! server they are quicker. A plan and flags take precedence over both.

use model::question::CurveRequest;
use model::setting::Setting;
use model::{Ability, OpKind, RunSpec, Workload};
use plan::{Overrides, Plan, PlanError, RawPlan, Surroundings, TargetArg};
use workload::opmix;

use crate::ControllerError;

/// The set of defaults for a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurveDefaults {
    /// Defaults of established benchmarks, for a named server.
    Field,
    /// Quicker ones, for the in-memory server.
    Quick,
}

/// Warm-up and measured time per load point for a named server.
///
/// **Source:** SPEC SFS 3.0: 300 s each.
const TIMES: (&str, &str) = ("300s", "300s");

/// The same for the in-memory server: ten load points within a minute.
const TIMES_QUICK: (&str, &str) = ("500ms", "3s");

/// Default number of clients for the in-memory server.
const CLIENTS_QUICK: &str = "4";

/// Share of the in-memory server's memory for the files of the heaviest load, in percent; appends
/// and temporary files need the rest.
const MEMORY_PERCENT: u64 = 25;

/// Removes the workloads that have no offered rate, and fills in the defaults of a curve.
///
/// # Errors
/// If the plan is invalid, or no workload is left.
pub fn fill_in(
    raw: &mut RawPlan,
    around: &Surroundings,
    defaults: CurveDefaults,
) -> Result<(), ControllerError> {
    raw.workloads.retain(|workload| can_be_offered(workload.kind.value));
    if raw.workloads.is_empty() {
        let what = "a curve needs a workload that can run at a fixed rate";
        let hint = "use --workload op_mix or mixed";
        return Err(ControllerError::Request(format!("{what} (hint: {hint})")));
    }
    let mut probe = raw.clone();
    probe.apply(&Overrides::default().with(Setting::Rate, &["1"]))?;
    let runs = Plan::resolve(&probe, around)?.runs;
    let usual = default_overrides(defaults, raw, &runs);
    Ok(raw.apply(&usual)?)
}

/// Returns the plan with these offered loads, in ops per second.
pub fn plan_with_loads(
    raw: &RawPlan,
    around: &Surroundings,
    loads_per_s: &[u64],
) -> Result<Plan, PlanError> {
    let mut raw = raw.clone();
    let mut overrides = Overrides::default();
    let mut levels = Vec::new();
    let mut heaviest = 1;
    for load in loads_per_s {
        levels.push(load.to_string());
        heaviest = heaviest.max(*load);
    }
    overrides.settings.insert(Setting::Rate, levels);
    raw.apply(&overrides)?;
    fit_set(&mut raw, around, heaviest)?;
    Plan::resolve(&raw, around)
}

/// Returns `points` loads, evenly spaced up to the heaviest one.
pub fn spread_loads(max_per_s: u64, points: u32) -> Vec<u64> {
    let mut loads = Vec::new();
    for point in 1..=points {
        let load = u128::from(max_per_s) * u128::from(point) / u128::from(points);
        loads.push((load as u64).max(1));
    }
    loads
}

/// Returns the mix of the plan's first run, which decides the rules for the curve. All runs have
/// the same mix; otherwise they could not be compared.
pub fn mix_of(plan: &Plan) -> CurveRequest {
    let Some(run) = plan.runs.first() else { return CurveRequest::default() };
    let (mix_name, mix) = if run.workload == Workload::OpMix {
        (run.op_mix.name.clone(), opmix::call_shares(&run.op_mix))
    } else {
        // Shares are in hundredths of a percent.
        let reads = run.read_percent * 100;
        (String::new(), vec![(OpKind::Read, reads), (OpKind::Write, 10_000 - reads)])
    };
    CurveRequest { mix_name, mix, ..CurveRequest::default() }
}

/// Returns true if passes end by time and ops are scheduled regardless of earlier completions.
const fn can_be_offered(workload: Workload) -> bool {
    matches!(workload, Workload::OpMix | Workload::Mixed)
}

/// Creates the default settings of a curve.
fn default_overrides(defaults: CurveDefaults, raw: &RawPlan, runs: &[RunSpec]) -> Overrides {
    let ((warmup, duration), clients) = match defaults {
        CurveDefaults::Field => (TIMES, "0"),
        CurveDefaults::Quick => (TIMES_QUICK, CLIENTS_QUICK),
    };
    let on_nfs = runs.iter().any(|run| run.backend.has_ability(Ability::SpeakNfs));
    let wanted = [
        (Setting::Warmup, warmup, true),
        (Setting::Duration, duration, true),
        (Setting::Clients, clients, on_nfs),
        (Setting::PerClient, "true", on_nfs),
    ];
    let mut usual = Overrides::default();
    for (setting, level, fits) in wanted {
        if fits && !is_set(raw, setting) {
            usual = usual.with(setting, &[level]);
        }
    }
    // Each load point runs once, in ascending order.
    if raw.repetition.trials.is_none() && raw.repetition.until_permille.is_none() {
        usual.trials = Some("1".to_owned());
    }
    if raw.repetition.order.is_none() {
        usual.order = Some("sequential".to_owned());
    }
    usual
}

/// Returns true if the plan or a flag sets a setting.
fn is_set(raw: &RawPlan, setting: Setting) -> bool {
    let of_workloads = raw.workloads.iter().any(|known| known.settings.get(setting).is_some());
    of_workloads || raw.factors.get(setting).is_some()
}

/// Sizes the file set of an op mix to fit the in-memory server at the heaviest load, unless a size
/// was set: the usual size is meant for servers with disks.
fn fit_set(raw: &mut RawPlan, around: &Surroundings, heaviest: u64) -> Result<(), PlanError> {
    let mixes = raw.workloads.iter().any(|known| known.kind.value == Workload::OpMix);
    let embedded = raw.targets.iter().any(|known| matches!(known.what, TargetArg::Embedded(_)));
    if !mixes || !embedded || is_set(raw, Setting::SetPerRate) {
        return Ok(());
    }
    let mut probe = raw.clone();
    probe.apply(&Overrides::default().with(Setting::Rate, &["1"]))?;
    let memory = Plan::resolve(&probe, around)?.server.memory_bytes;
    let for_files = model::server_memory::file_bytes(memory);
    let each = (for_files * MEMORY_PERCENT / 100 / heaviest.max(1)).clamp(1, 10 << 20);
    raw.apply(&Overrides::default().with(Setting::SetPerRate, &[&each.to_string()]))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_load_points_evenly() {
        assert_eq!(spread_loads(5_000, 10), (1..=10).map(|n| n * 500).collect::<Vec<u64>>());
        let uneven = spread_loads(1_234, 10);
        assert_eq!((uneven[0], uneven[9], uneven.len()), (123, 1_234, 10));
        assert!(uneven.windows(2).all(|pair| (123..=124).contains(&(pair[1] - pair[0]))));
    }
}
