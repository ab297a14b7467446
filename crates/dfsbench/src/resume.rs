//! `dfsbench resume`: goes on with a campaign that was stopped or killed.
//!
//! The plan is the one that is stored with the campaign, every default written out, so that the
//! missing trials are made in the order in which they would have been made. What is there stays.

use std::cell::Cell;
use std::process::ExitCode;

use model::{CampaignState, Question, RunSpec, Target};
use plan::{Plan, RawPlan};
use results::Store;

use crate::args::ResumeArgs;
use crate::campaign::{self, Means};
use crate::exit::Failure;
use crate::{render, signals, soak, target};

/// Makes the missing trials of a stored campaign.
///
/// # Errors
/// When there is no such campaign, nothing is missing, or its plan means something else today.
pub fn run(args: &ResumeArgs) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&args.results)?;
    let id = render::campaign_id(&store, args.campaign)?;
    let stored = store.load(id)?;
    drop(store);
    if stored.state == CampaignState::Complete {
        let what = format!("campaign {id} ({}) is complete: nothing is missing", stored.name);
        return Err(Failure::Usage(format!("{what} (hint: `dfsbench run` makes a new one)")));
    }
    if stored.question.is_search() {
        let what =
            format!("campaign {id} ({}) was a search: nobody can go on with it", stored.name);
        return Err(Failure::Usage(format!("{what} (hint: what it measured is kept; begin anew)")));
    }
    let raw = RawPlan::parse(&stored.plan_toml, &format!("campaign {id}"))?;
    let mut plan = Plan::resolve(&raw, &target::surroundings(stored.seed))?;
    if let Question::Soak(soak) = &stored.question {
        soak::apply(&mut plan, soak)?;
    }
    let mut pairs = stored.runs.iter().zip(&plan.runs);
    let same = pairs.all(|(run, spec)| lasting(&run.spec) == lasting(spec));
    if !same || stored.runs.len() > plan.runs.len() {
        return Err(Failure::Usage(format!(
            "the plan of campaign {id} gives other runs than dfsbench {} made of it (hint: finish \
             it with that version, or begin anew)",
            stored.tool_version
        )));
    }
    plan.check_destroy(&args.allow_destroy)?;
    let stop = signals::stop_flag()?;
    let means = Means {
        results: &args.results,
        format: args.format,
        quiet: args.quiet,
        watch: args.screen.watch,
        json_progress: args.json_progress.as_deref(),
        keep: args.keep,
        allow_destroy: &args.allow_destroy,
        question: stored.question.clone(),
        job: Cell::new(None),
    };
    campaign::make(&means, &mut plan, Some(id), &stop)
}

/// A run without what each start of the in-memory server chooses anew.
fn lasting(spec: &RunSpec) -> RunSpec {
    let mut spec = spec.clone();
    if let Target::Nfs(nfs) = &mut spec.target
        && nfs.embedded
    {
        (nfs.port, nfs.mount_port, nfs.tls.ca) = (None, None, None);
    }
    spec
}
