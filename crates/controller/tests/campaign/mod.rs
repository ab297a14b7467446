//! Makes plans from a few lines of TOML, runs them as campaigns and stores the results.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use controller::{CampaignRunner, ControllerError, Event, Hosts};
use model::{Campaign, CampaignState, Question};
use plan::{Plan, RawPlan, Surroundings};
use results::Store;

pub fn plan(text: &str) -> Plan {
    let raw = RawPlan::parse(text, "t").unwrap();
    let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 3, job: None };
    Plan::resolve(&raw, &around).unwrap()
}

/// Runs the campaign of a plan. Returns the contents of `r.db` in the folder.
pub fn run<'a>(
    plan: &'a Plan,
    hosts: Hosts<'a>,
    stop: &'a AtomicBool,
    observe: &'a mut dyn FnMut(Event<'_>),
    folder: &Path,
) -> Result<Campaign, ControllerError> {
    let mut store = Store::open_or_create(&folder.join("r.db")).unwrap();
    let mut runner = CampaignRunner { plan, hosts, stop, observe, inject_fault: None };
    let ran = runner.run(&mut store, &header(plan));
    runner.leave_hosts();
    Ok(store.load(ran?.0)?)
}

/// Returns the campaign of a plan without any trials.
fn header(plan: &Plan) -> Campaign {
    Campaign {
        id: 0,
        name: plan.name.clone(),
        started_unix_ms: 0,
        tool_version: "test".into(),
        command: String::new(),
        question: Question::Figures,
        plan_toml: plan.to_toml(),
        seed: plan.seed,
        state: CampaignState::Running,
        facts: Vec::new(),
        ceiling: None,
        durability: Vec::new(),
        runs: Vec::new(),
    }
}
