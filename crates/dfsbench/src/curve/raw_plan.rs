//! The plan of a curve, but for its load points.
//!
//! Defaults are as the rules of the field have it where a server is named, and quicker where
//! the in-memory server is all there is. What a plan or a flag says goes before all that.

use model::setting::Setting;
use model::{Ability, RunSpec, Workload};
use plan::{Overrides, Plan, RawPlan, Surroundings, TargetArg, User};

use crate::args::CurveArgs;
use crate::exit::Failure;
use crate::plan_source;
use crate::presets::Preset;

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

/// Reads the plan and fills in what a curve wants.
pub fn plan(args: &CurveArgs, around: &Surroundings) -> Result<RawPlan, Failure> {
    let flags = args.run.overrides();
    if flags.settings.contains_key(&Setting::Rate) {
        let what = "--rate: the load points of a curve are its rates";
        return Err(Failure::Usage(format!("{what} (hint: --max-load and --points)")));
    }
    if args.run.until_broken.is_some() {
        let what = "--until-broken: a curve does not search for the load that breaks a server";
        return Err(Failure::Usage(format!("{what} (hint: dfsbench ramp)")));
    }
    let mut raw = read_named_plan(args)?;
    plan_source::apply(&mut raw, &args.run)?;
    raw.workloads.retain(|workload| can_be_offered(workload.kind.value));
    if raw.workloads.is_empty() {
        let what = "a curve needs a workload that can be offered at a rate for a time";
        return Err(Failure::Usage(format!("{what} (hint: --workload op_mix, or mixed)")));
    }
    let mut probe = raw.clone();
    probe.apply(&Overrides::default().with(Setting::Rate, &["1"]))?;
    let runs = Plan::resolve(&probe, around)?.runs;
    let usual = default_overrides(args, &raw, &runs);
    raw.apply(&usual)?;
    Ok(raw)
}

/// Reads the plan that is named; without a name, one for the in-memory server.
fn read_named_plan(args: &CurveArgs) -> Result<RawPlan, Failure> {
    let mix =
        Overrides { workload: vec![Workload::OpMix.name().to_owned()], ..Overrides::default() };
    let mut raw = match args.run.target.as_deref() {
        None if args.run.wants_null() => RawPlan::for_target(TargetArg::NULL),
        None => RawPlan::for_target(TargetArg::embedded(User::default())),
        Some(text) => plan_source::named(text)?,
    };
    // A plan has workloads of its own; a bare target gets the usual mix.
    let is_plan = match args.run.target.as_deref() {
        Some(text) => plan_source::is_plan_file(text) || Preset::named(text).is_some(),
        None => false,
    };
    if !is_plan {
        raw.apply(&mix)?;
        "curve".clone_into(&mut raw.name);
    }
    Ok(raw)
}

/// Time ends it, and ops are scheduled whether or not those before them have ended.
const fn can_be_offered(workload: Workload) -> bool {
    matches!(workload, Workload::OpMix | Workload::Mixed)
}

/// Makes the default settings of a curve.
fn default_overrides(args: &CurveArgs, raw: &RawPlan, runs: &[RunSpec]) -> Overrides {
    let quick = args.run.target.is_none();
    let (warmup, duration) = if quick { TIMES_QUICK } else { TIMES };
    let on_nfs = runs.iter().any(|run| run.backend.can(Ability::SpeakNfs));
    let clients = if quick { CLIENTS_QUICK } else { "0" };
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
pub fn fit_set(raw: &mut RawPlan, around: &Surroundings, heaviest: u64) -> Result<(), Failure> {
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
