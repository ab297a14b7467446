//! Compares a campaign with its stored plan.
//!
//! A stored plan has every default written out, so it gives the same runs on every machine. Nothing
//! that it names is read: a plan may come from somebody else.

use model::system::Recipe;
use model::{Campaign, Host, Question, Run, RunSpec};
use plan::{Plan, RawPlan, Surroundings};
use report::verification::{Finding, PlanCheck, name_run};

use crate::exit::Failure;

/// Maximum number of settings of a run to list.
const SETTINGS_MAX: usize = 3;

/// Compares the runs of a campaign with those of its plan.
pub(crate) fn check(campaign: &Campaign) -> PlanCheck {
    let trials = 1;
    let plan = match resolve(campaign, None).or_else(|error| resolve_in_job(campaign, error)) {
        Ok(plan) => plan,
        Err(error) => {
            let finding = Finding::whole(format!("the plan can't be used: {error}"));
            return PlanCheck { runs: None, trials, differences: vec![finding] };
        }
    };
    if campaign.question.is_search() {
        // Each step of a search depends on those before it, so only its targets are planned.
        let differences = check_targets(campaign, &plan);
        return PlanCheck { runs: None, trials, differences };
    }
    let differences = check_runs(campaign, &plan);
    PlanCheck { runs: Some(plan.runs.len()), trials: trials_of(campaign, &plan), differences }
}

/// Resolves a plan that takes the hosts of its job; those were stored with the runs. The error is
/// the one without a job.
fn resolve_in_job(campaign: &Campaign, error: Failure) -> Result<Plan, Failure> {
    let hosts = job_hosts(campaign);
    if hosts.is_empty() {
        return Err(error);
    }
    resolve(campaign, Some(hosts)).map_err(|_| error)
}

/// Resolves the stored plan. `job` has the hosts of a plan that takes those of its job.
fn resolve(campaign: &Campaign, job: Option<Vec<Host>>) -> Result<Plan, Failure> {
    let mut raw = RawPlan::parse(&campaign.plan_toml, "plan.toml")?;
    raw.use_recipes(|source| find_recipe(campaign, source));
    raw.read_systems(|_| Err("it is not part of the bundle".to_owned()))?;
    let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: campaign.seed, job };
    let mut plan = Plan::resolve(&raw, &around)?;
    if let Question::Soak(soak) = &campaign.question {
        controller::soak::apply(&mut plan, soak)?;
    }
    Ok(plan)
}

/// Returns the recipe with this name or path that a run was measured with.
fn find_recipe(campaign: &Campaign, source: &str) -> Option<Recipe> {
    let labs = campaign.runs.iter().filter_map(|run| run.spec.lab.as_ref());
    let mut systems = labs.filter_map(|lab| lab.system.as_ref());
    systems.find(|system| system.source == source).map(|system| system.recipe.clone())
}

/// Returns the hosts of the run with the most of them.
fn job_hosts(campaign: &Campaign) -> Vec<Host> {
    let hosts = campaign.runs.iter().map(|run| run.spec.client_hosts());
    hosts.max_by_key(|hosts| hosts.len()).map(<[Host]>::to_vec).unwrap_or_default()
}

/// Returns the minimum number of trials of each run.
fn trials_of(campaign: &Campaign, plan: &Plan) -> u32 {
    if matches!(campaign.question, Question::Soak(_)) {
        return 1;
    }
    if plan.repetition.until_permille > 0 || plan.budget_ms > 0 {
        return plan.trials_needed();
    }
    plan.repetition.warmup_trials + plan.trials
}

fn check_runs(campaign: &Campaign, plan: &Plan) -> Vec<Finding> {
    let mut differences = Vec::new();
    if campaign.runs.len() > plan.runs.len() {
        let (runs, planned) = (campaign.runs.len(), plan.runs.len());
        differences.push(Finding::whole(format!("{runs} runs, and {planned} in the plan")));
    }
    for (run, planned) in std::iter::zip(&campaign.runs, &plan.runs) {
        if lasting_spec(&run.spec) != lasting_spec(planned) {
            differences.push(Finding::new(name_run(run), compare_settings(&run.spec, planned)));
        }
    }
    differences
}

fn check_targets(campaign: &Campaign, plan: &Plan) -> Vec<Finding> {
    let is_planned = |run: &&Run| {
        let target = lasting_spec(&run.spec).target;
        plan.runs.iter().any(|planned| lasting_spec(planned).target == target)
    };
    let others = campaign.runs.iter().filter(|run| !is_planned(run));
    others.map(|run| Finding::new(name_run(run), "its target is not in the plan")).collect()
}

/// Describes the settings in which a run differs from the planned one.
fn compare_settings(run: &RunSpec, planned: &RunSpec) -> String {
    let planned = planned.settings();
    let mut different = Vec::new();
    for (name, value) in run.settings() {
        let planned = planned.iter().find(|(known, _)| *known == name);
        match planned {
            Some((_, planned)) if *planned == value => {}
            Some((_, planned)) => {
                different.push(format!("{name} is {value}, and {planned} in the plan"));
            }
            None => different.push(format!("{name} is {value}, and not in the plan")),
        }
    }
    if different.is_empty() {
        return "differs from the plan in target, hosts or commands".to_owned();
    }
    let more = different.len().saturating_sub(SETTINGS_MAX);
    different.truncate(SETTINGS_MAX);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    different.join("; ") + &more
}

/// Removes everything from a run that changes with each start of the in-memory server.
pub(crate) fn lasting_spec(spec: &RunSpec) -> RunSpec {
    let mut spec = spec.clone();
    if let Some(nfs) = spec.target.nfs_mut()
        && nfs.embedded
    {
        nfs.port = None;
        nfs.mount_port = None;
        nfs.tls.ca = None;
    }
    spec
}

#[cfg(test)]
mod tests {
    use model::CampaignState;

    use super::*;

    const RECIPE: &str = include_str!("../../../../systems/knfsd.toml");

    /// A campaign whose runs are those of a plan on another machine, by another user.
    fn campaign(plan_toml: &str, job: Option<Vec<Host>>) -> Campaign {
        let mut raw = RawPlan::parse(&format!("name = \"p\"\n{plan_toml}"), "plan").unwrap();
        raw.read_systems(|_| Ok(RECIPE.to_owned())).unwrap();
        let around = Surroundings { temp_dir: "/x".into(), uid: 7, gid: 7, seed: 42, job };
        let plan = Plan::resolve(&raw, &around).unwrap();
        let runs = (0..).zip(&plan.runs);
        let runs = runs.map(|(index, spec)| Run { index, spec: spec.clone(), trials: Vec::new() });
        Campaign {
            id: 1,
            name: "plan".into(),
            started_unix_ms: 0,
            tool_version: "0.1.0".into(),
            command: String::new(),
            question: Question::Figures,
            plan_toml: plan.to_toml(),
            seed: 42,
            state: CampaignState::Complete,
            facts: Vec::new(),
            ceiling: None,
            durability: Vec::new(),
            runs: runs.collect(),
        }
    }

    #[test]
    fn plan_is_the_same_elsewhere() {
        let system = r#"
            host = [{ name = "h1", ssh = "r@h1" }, { name = "h2", ssh = "r@h2" }]
            workload = [{ kind = "stream", nfsvers = "4.2", workers = [1, 2] }]
            [[target]]
            name = "s"
            system = "/not/here/x.toml"
            server = "h1"
            client = "h2""#;
        let nfs = "trials = 4\n[[target]]\nname = \"n\"\nurl = \"nfs://server/export\"\n\
                   [[workload]]\nkind = \"stream\"\nio_size = [\"64KiB\", \"1MiB\"]\n";
        for plan in [system, nfs] {
            let found = check(&campaign(plan, None));
            assert_eq!((found.runs, &found.differences), (Some(2), &Vec::new()), "{plan}");
        }
        assert_eq!(check(&campaign(nfs, None)).trials, 4);
        let job = "[[target]]\nname = \"d\"\npath = \"/mnt\"\nhosts = \"job\"\n\
                   [[workload]]\nkind = \"stream\"\n";
        let hosts = vec![Host::local("n1"), Host::local("n2")];
        assert_eq!(check(&campaign(job, Some(hosts))).differences, []);
    }

    #[test]
    fn names_settings_that_differ() {
        let mut campaign = campaign(
            "[[target]]\nname = \"n\"\nnull = true\n[[workload]]\nkind = \"stream\"\n",
            None,
        );
        campaign.runs[0].spec.workers = 9;
        let found = check(&campaign).differences;
        assert_eq!(found.len(), 1);
        assert!(found[0].value.contains("workers is 9, and 1 in the plan"), "{found:?}");
        campaign.plan_toml = "x".into();
        assert!(check(&campaign).differences[0].value.contains("can't be used"));
    }
}
