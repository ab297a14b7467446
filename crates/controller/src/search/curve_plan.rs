//! The plan of a curve: its defaults and its load points.
//!
//! Defaults are as the rules of the field have it where a server is named, and quicker where
//! the in-memory server is all there is. What a plan or a flag says goes before all that.

use model::question::CurveRequest;
use model::setting::Setting;
use model::{Ability, OpKind, RunSpec, Workload};
use plan::{Overrides, Plan, PlanError, RawPlan, Surroundings, TargetArg};
use workload::opmix;

use crate::ControllerError;

/// Which defaults a curve has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurveDefaults {
    /// Those of the rules of the field, for a server that was named.
    Field,
    /// Quicker ones, for the in-memory server.
    Quick,
}

/// Warm-up and run at each load point, where a server is named.
///
/// **Source:** SPEC SFS 3.0: 300 s each.
const TIMES: (&str, &str) = ("300s", "300s");

/// The same where nothing is named: ten load points within a minute.
const TIMES_QUICK: (&str, &str) = ("500ms", "3s");

/// Clients of the in-memory server, where nothing is named.
const CLIENTS_QUICK: &str = "4";

/// Part of the in-memory server's memory that the files of the heaviest load take, in percent:
/// appends and what comes and goes take the rest.
const MEMORY_PERCENT: u64 = 25;

/// Removes the workloads that can't be offered at a rate, and fills in what a curve wants.
///
/// # Errors
/// If the plan can't be used, or has no workload that can be offered.
pub fn fill_in(
    raw: &mut RawPlan,
    around: &Surroundings,
    defaults: CurveDefaults,
) -> Result<(), ControllerError> {
    raw.workloads.retain(|workload| can_be_offered(workload.kind.value));
    if raw.workloads.is_empty() {
        let what = "a curve needs a workload that can be offered at a rate for a time";
        let hint = "--workload op_mix, or mixed";
        return Err(ControllerError::Request(format!("{what} (hint: {hint})")));
    }
    let mut probe = raw.clone();
    probe.apply(&Overrides::default().with(Setting::Rate, &["1"]))?;
    let runs = Plan::resolve(&probe, around)?.runs;
    let usual = default_overrides(defaults, raw, &runs);
    Ok(raw.apply(&usual)?)
}

/// Returns the plan with these offered loads, in ops per second.
///
/// # Errors
/// If there is none.
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

/// So many loads, evenly spaced up to the heaviest.
pub fn spread_loads(max_per_s: u64, points: u32) -> Vec<u64> {
    let mut loads = Vec::new();
    for point in 1..=points {
        let load = u128::from(max_per_s) * u128::from(point) / u128::from(points);
        loads.push((load as u64).max(1));
    }
    loads
}

/// The mix of a plan's first run, for the rule of a curve: all runs have the same, or they could
/// not be compared.
pub fn mix_of(plan: &Plan) -> CurveRequest {
    let Some(run) = plan.runs.first() else { return CurveRequest::default() };
    let (mix_name, mix) = if run.workload == Workload::OpMix {
        (run.op_mix.name.clone(), opmix::call_shares(&run.op_mix))
    } else {
        // Shares count in hundredths of a percent.
        let reads = run.read_percent * 100;
        (String::new(), vec![(OpKind::Read, reads), (OpKind::Write, 10_000 - reads)])
    };
    CurveRequest { mix_name, mix, ..CurveRequest::default() }
}

/// Time ends it, and ops are scheduled whether or not those before them have ended.
const fn can_be_offered(workload: Workload) -> bool {
    matches!(workload, Workload::OpMix | Workload::Mixed)
}

/// Makes the default settings of a curve.
fn default_overrides(defaults: CurveDefaults, raw: &RawPlan, runs: &[RunSpec]) -> Overrides {
    let ((warmup, duration), clients) = match defaults {
        CurveDefaults::Field => (TIMES, "0"),
        CurveDefaults::Quick => (TIMES_QUICK, CLIENTS_QUICK),
    };
    let on_nfs = runs.iter().any(|run| run.backend.can(Ability::SpeakNfs));
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
    // A load point is run once, and the loads ascend.
    if raw.repetition.trials.is_none() && raw.repetition.until_permille.is_none() {
        usual.trials = Some("1".to_owned());
    }
    if raw.repetition.order.is_none() {
        usual.order = Some("sequential".to_owned());
    }
    usual
}

/// Says whether the plan or a flag chose a setting.
fn is_set(raw: &RawPlan, setting: Setting) -> bool {
    let of_workloads = raw.workloads.iter().any(|known| known.settings.get(setting).is_some());
    of_workloads || raw.factors.get(setting).is_some()
}

/// Makes the file set of an op mix as large as the in-memory server can hold at the heaviest load,
/// where no size was chosen: the usual one is that of servers with disks.
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
