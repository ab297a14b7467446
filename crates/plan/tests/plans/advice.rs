//! Plans accept the advice given with a caveat.
//!
//! Every flag mentioned by an advice is set for a run of each workload on each kind of target, and
//! the plan is resolved again: it must be accepted, and the run must depend on the flag.

use std::path::PathBuf;

use model::setting::Setting;
use model::{CaveatCode, RunSpec, Workload};
use plan::parse_target;
use plan::{Overrides, Plan, PlanError, RawPlan, Surroundings, TargetArg};

fn around() -> Surroundings {
    Surroundings { temp_dir: PathBuf::from("/tmp"), uid: 0, gid: 0, seed: 1, job: None }
}

/// Resolves a workload with its defaults and some flags on a target.
fn resolve(target: &TargetArg, workload: Workload, flags: &Overrides) -> Result<Plan, PlanError> {
    let mut raw = RawPlan::for_target(target.clone());
    let named = Overrides { workload: vec![workload.name().to_owned()], ..flags.clone() };
    raw.apply(&named)?;
    Plan::resolve(&raw, &around())
}

/// Returns the flags in a text, each with the word after it.
fn flags_of(text: &str) -> Vec<(String, String)> {
    let mut flags = Vec::new();
    let words: Vec<&str> = text.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        if let Some(flag) = word.trim_matches(['(', ')', ',', ';', '.']).strip_prefix("--") {
            let value = words.get(at + 1).copied().unwrap_or_default();
            flags.push((flag.to_owned(), value.trim_matches(['(', ')', ',', ';', '.']).to_owned()));
        }
    }
    flags
}

/// Flags of a campaign, which fit any run.
const OF_CAMPAIGNS: [(&str, &str); 3] =
    [("trials", "5"), ("discard", "cached"), ("backend", "posix")];

/// Returns true if a code can be raised in a run at all.
fn can_be_raised(code: CaveatCode, run: &RunSpec) -> bool {
    match code {
        // Only our own workers are watched, not those of external programs.
        CaveatCode::Stalled => !run.workload.is_external(),
        CaveatCode::BackendFallback => run.target.is_local() && !run.workload.is_external(),
        CaveatCode::SlotsLimited | CaveatCode::MayBeServerCached => run.target.nfs().is_some(),
        // The disk of a server is only visible on hosts that we set up.
        CaveatCode::ServerCached => run.lab.is_some(),
        _ => true,
    }
}

fn check(target: &TargetArg, run: &RunSpec, flag: &str, value: &str, place: &str) {
    if OF_CAMPAIGNS.iter().any(|(name, wanted)| *name == flag && *wanted == value) {
        return;
    }
    let setting = Setting::from_key(&flag.replace('-', "_"));
    let setting = setting.unwrap_or_else(|| panic!("{place}: --{flag} is no setting"));
    assert!(setting.applies(run), "{place}: the run does not depend on --{flag}");
    // If the text names no value, the one in the run will do.
    if !setting.words().contains(&value) && value != "true" {
        return;
    }
    let flags = Overrides::default().with(setting, &[value]);
    if let Err(error) = resolve(target, run.workload, &flags) {
        panic!("{place}: --{flag} {value} is refused: {error}");
    }
}

#[test]
fn advises_only_accepted_flags() {
    let mut checked = 0;
    for address in ["/srv", "nfs://192.0.2.1/export"] {
        let target = parse_target(address).unwrap();
        for workload in Workload::ALL {
            let Ok(plan) = resolve(&target, *workload, &Overrides::default()) else { continue };
            for run in &plan.runs {
                for pass in run.passes() {
                    for code in CaveatCode::ALL {
                        if !can_be_raised(*code, run) {
                            continue;
                        }
                        let flag = code.flag_for(run, *pass).unwrap_or_default();
                        let advice = format!("{} {flag}", code.advice_for(run, *pass));
                        let place =
                            format!("{address} {} {pass} {code}: {advice}", workload.name());
                        for (flag, value) in flags_of(&advice) {
                            check(&target, run, &flag, &value, &place);
                            checked += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(checked > 100, "{checked}");
}
