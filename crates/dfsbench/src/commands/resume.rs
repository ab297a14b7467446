//! `dfsbench resume`: continues a campaign that was stopped or killed.
//!
//! The plan is stored with the campaign, with every default written out, so the missing trials are
//! run in the same order as they would have been. Stored trials are kept.

use std::path::Path;
use std::process::ExitCode;

use controller::leftovers;
use model::{Campaign, CampaignState, Question, RunSpec};
use plan::{Plan, RawPlan};
use results::Store;

use crate::args::ResumeArgs;
use crate::commands::campaign::Session;
use crate::exit::Failure;
use crate::files::{input_file, user_dirs};
use crate::plans::surroundings;
use crate::stored::joined;
use crate::stored::plan_check::lasting_spec;
use crate::terminal::output;

/// Runs the missing trials of a stored campaign.
///
/// # Errors
/// If there is no such campaign, nothing is missing, or its plan resolves differently today.
pub(crate) fn run(args: &ResumeArgs) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&args.making.results)?;
    let id = joined::campaign_id(&store, args.campaign)?;
    let stored = store.load(id)?;
    drop(store);
    let unstored = match args.campaign {
        Some(_) => None,
        None => leftovers::killed_unstored(&args.making.results, stored.started_unix_ms),
    };
    if stored.state == CampaignState::Complete {
        return Err(refuse_complete(args, &stored, unstored.as_deref()));
    }
    if let Some(targets) = unstored {
        output::message(&format!(
            "warning: the last campaign, on {targets}, was killed before it was stored and can't \
             be resumed; this is campaign {id} ({})",
            stored.name
        ));
    }
    if stored.question.is_search() {
        let what =
            format!("campaign {id} ({}) was a search, which can't be continued", stored.name);
        return Err(Failure::Usage(format!(
            "{what} (hint: its results are kept; start a new one)"
        )));
    }
    let mut raw = RawPlan::parse(&stored.plan_toml, &format!("campaign {id}"))?;
    if !args.allow_program {
        refuse_programs(id, &raw)?;
    }
    raw.read_systems(|path| input_file::read_text(Path::new(path)))?;
    let mut session = Session::start(&args.making, &args.job)?;
    session.resumes = Some(id);
    // Reuse the stored seed, so that order and random choices match the first half.
    let mut around = surroundings::for_process(stored.seed);
    let has_job = session.add_job_hosts(&mut around);
    let mut plan = Plan::resolve(&raw, &around)?;
    if let Question::Soak(soak) = &stored.question {
        controller::soak::apply(&mut plan, soak)?;
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
            "the plan of campaign {id} gives different runs than with dfsbench {} (hint: finish it \
             with that version, or start a new one)",
            stored.tool_version
        )));
    }
    plan.check_destroy(&args.making.allow_destroy)?;
    // Clean up before measuring: files left by a killed run would fill the target or show up in
    // passes that list directories.
    let results = std::slice::from_ref(&args.making.results);
    let cleaned = leftovers::clean(results, &user_dirs::records_dir());
    for place in &cleaned.removed {
        output::message(&format!("removed leftovers of a killed campaign: {place}"));
    }
    for record in &cleaned.unfinished {
        for left in record.lines() {
            output::message(&format!("warning: {left}"));
        }
    }
    session.run_plan(plan, &stored.question)
}

/// Explains that nothing is missing. A campaign killed before its first trial is not stored, so the
/// last stored one may not be the one that the user means.
fn refuse_complete(args: &ResumeArgs, stored: &Campaign, unstored: Option<&str>) -> Failure {
    let Campaign { id, name, .. } = stored;
    let shown = args.making.results.display();
    Failure::Usage(match (args.campaign, unstored) {
        (None, Some(targets)) => format!(
            "the last campaign, on {targets}, was killed before it was stored, so there is nothing \
             to resume; campaign {id} ({name}), the last one in {shown}, is complete (hint: run it \
             again; `dfsbench clean --results {shown}` removes what it left)"
        ),
        (None, None) => format!(
            "campaign {id} ({name}), the last one in {shown}, is complete; no trial is missing \
             (hint: a campaign that is stopped before its first trial is not stored; `dfsbench \
             run` starts a new one)"
        ),
        (Some(_), _) => format!(
            "campaign {id} ({name}) is complete; no trial is missing (hint: `dfsbench run` starts \
             a new one)"
        ),
    })
}

/// Maximum number of programs to list; the rest are only counted.
const PROGRAMS_SHOWN: usize = 20;

/// Refuses to run programs named in a results file, which may come from somebody else.
fn refuse_programs(id: i64, raw: &RawPlan) -> Result<(), Failure> {
    let programs = plan::chosen_programs(raw);
    if programs.is_empty() {
        return Ok(());
    }
    let mut lines = vec![format!("the plan of campaign {id} runs programs that its author chose:")];
    lines.extend(programs.iter().take(PROGRAMS_SHOWN).map(|program| format!("  {program}")));
    if programs.len() > PROGRAMS_SHOWN {
        lines.push(format!("  and {} more", programs.len() - PROGRAMS_SHOWN));
    }
    lines.push(format!(
        "(hint: `dfsbench show {id}` prints the plan; if you trust whoever made this results \
         file, repeat with --allow-program)"
    ));
    Err(Failure::Usage(lines.join("\n       ")))
}

/// Refuses different hosts: their results don't belong in the same campaign.
fn other_hosts(id: i64, stored: &Campaign, plan: &Plan) -> Failure {
    let before = name_hosts(stored.runs.iter().map(|run| &run.spec));
    let now = name_hosts(plan.runs.iter());
    Failure::Usage(format!(
        "campaign {id} was measured on hosts {before}, but this job has {now} (hint: start as many \
         agents on the same nodes, for example with srun --nodelist)"
    ))
}

/// Lists the client hosts of the run with the most of them.
fn name_hosts<'a>(specs: impl Iterator<Item = &'a RunSpec>) -> String {
    let Some(most) = specs.max_by_key(|spec| spec.client_hosts().len()) else {
        return String::new();
    };
    let names: Vec<_> = most.client_hosts().iter().map(|host| host.name.as_str()).collect();
    names.join(", ")
}
