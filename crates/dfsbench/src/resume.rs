//! `dfsbench resume`: goes on with a campaign that was stopped or killed.
//!
//! The plan is the one that is stored with the campaign, every default written out, so that the
//! missing trials are made in the order in which they would have been made. Stored trials are kept.

use std::path::Path;
use std::process::ExitCode;

use model::{Campaign, CampaignState, Question, RunSpec};
use plan::{Plan, RawPlan};
use results::Store;

use crate::args::ResumeArgs;
use crate::campaign::{self, Means};
use crate::exit::Failure;
use crate::{input_file, joined, leftovers, output, signals, soak, target};

/// Makes the missing trials of a stored campaign.
///
/// # Errors
/// When there is no such campaign, nothing is missing, or its plan means something else today.
pub fn run(args: &ResumeArgs) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&args.making.results)?;
    let id = joined::campaign_id(&store, args.campaign)?;
    let stored = store.load(id)?;
    drop(store);
    if stored.state == CampaignState::Complete {
        let what = format!("campaign {id} ({}) is complete; no trial is missing", stored.name);
        return Err(Failure::Usage(format!("{what} (hint: `dfsbench run` makes a new one)")));
    }
    if stored.question.is_search() {
        let what =
            format!("campaign {id} ({}) was a search, which can't be continued", stored.name);
        return Err(Failure::Usage(format!(
            "{what} (hint: its results are kept; start a new one)"
        )));
    }
    let mut raw = RawPlan::parse(&stored.plan_toml, &format!("campaign {id}"))?;
    raw.read_systems(|path| input_file::read_recipe(Path::new(path)))?;
    let stop = signals::stop_flag()?;
    // The seed is the stored one, so that order and random choices are those of the first half.
    let means = Means { question: stored.question.clone(), ..Means::of(&args.making) };
    let mut around = target::surroundings(stored.seed);
    let has_job = campaign::bring(&args.job, &means, &mut around, &stop)?;
    let mut plan = Plan::resolve(&raw, &around)?;
    if let Question::Soak(soak) = &stored.question {
        soak::apply(&mut plan, soak)?;
    }
    let mut same = true;
    for (run, spec) in std::iter::zip(&stored.runs, &plan.runs) {
        same &= lasting_spec(&run.spec) == lasting_spec(spec);
    }
    if has_job && !same {
        return Err(other_hosts(id, &stored, &plan));
    }
    if !same || stored.runs.len() > plan.runs.len() {
        return Err(Failure::Usage(format!(
            "the plan of campaign {id} gives other runs than dfsbench {} made of it (hint: finish \
             it with that version, or start a new one)",
            stored.tool_version
        )));
    }
    plan.check_destroy(&args.making.allow_destroy)?;
    // Before anything is measured: what a killed run left would fill the target, or be found by
    // passes that list directories.
    let cleaned = leftovers::clean(&args.making.results);
    for place in &cleaned.removed {
        output::message(&format!("removed what a killed run left: {place}"));
    }
    for left in &cleaned.left {
        output::message(&format!("warning: {left}"));
    }
    campaign::make(&means, &mut plan, Some(id), &stop)
}

/// Figures of other hosts don't belong to the same campaign.
fn other_hosts(id: i64, stored: &Campaign, plan: &Plan) -> Failure {
    let before = name_hosts(stored.runs.iter().map(|run| &run.spec));
    let now = name_hosts(plan.runs.iter());
    Failure::Usage(format!(
        "campaign {id} was measured on the hosts {before}, and the job brings {now} (hint: as many \
         agents on the same nodes, such as srun --nodelist)"
    ))
}

/// Names the client hosts of the run that has most.
fn name_hosts<'a>(specs: impl Iterator<Item = &'a RunSpec>) -> String {
    let Some(most) = specs.max_by_key(|spec| spec.client_hosts().len()) else {
        return String::new();
    };
    let mut names = Vec::new();
    for host in most.client_hosts() {
        names.push(host.name.as_str());
    }
    names.join(", ")
}

/// A run without what each start of the in-memory server chooses again.
fn lasting_spec(spec: &RunSpec) -> RunSpec {
    let mut spec = spec.clone();
    if let Some(nfs) = spec.target.nfs_mut()
        && nfs.embedded
    {
        (nfs.port, nfs.mount_port, nfs.tls.ca) = (None, None, None);
    }
    spec
}
