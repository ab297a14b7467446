//! `dfsbench run`: from the plan to the report.
//!
//! Checks come first, cheapest first: plan, results file, target. Nothing is written until all of
//! them pass. Results measured before a later failure are kept in the file.
//!
//! [`run`] reads and resolves the plan, [`Session::start`] checks the outputs and gathers the
//! agents of a job, and [`Session::run_plan`] does the rest: it reaches the other agents
//! ([`runner`]), prepares and measures ([`measure`]), and reports ([`reporting`]). Commands that
//! run campaigns from other kinds of plans join in at the second step.

mod measure;
mod observer;
mod reporting;
mod runner;
mod session;

use std::process::{Command, ExitCode};

use model::Question;
use plan::Plan;

use crate::args::RunArgs;
use crate::commands::contenders;
use crate::exit::{End, Failure};
use crate::plans::{dry_run, plan_source, surroundings};
use crate::terminal::output;
use crate::terminal::progress::Progress;

pub(crate) use measure::{command_line, header};
pub(crate) use observer::without_progress;
pub(crate) use reporting::write_page;
pub(crate) use session::{Session, check_outputs, page_path};

/// Runs the campaign that the arguments describe.
///
/// # Errors
/// If it can't be started. Results measured before a later error are in the results file.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    if args.as_plan {
        output::text(&plan_source::like_fio(args)?)?;
        return Ok(End::Ok.into());
    }
    let raw = plan_source::read(args)?;
    let mut around = surroundings::for_job(&args.job)?;
    let mut plan = Plan::resolve(&raw, &around)?;
    warn_of_idle_settings(&plan);
    if args.estimate.dry_run {
        output::text(&dry_run::describe(&plan, args)?)?;
        return Ok(End::Ok.into());
    }
    plan.check_destroy(&args.making.allow_destroy)?;
    if args.like.is_some() {
        check_fio()?;
    }
    let session = Session::start(&args.making, &args.job)?;
    // The hosts of a job only have names from here on.
    if session.add_job_hosts(&mut around) {
        plan = Plan::resolve(&raw, &around)?;
    }
    session.run_plan(plan, &Question::Figures)
}

/// Checks that fio can be started, before anything is measured that it is compared with.
fn check_fio() -> Result<(), Failure> {
    match Command::new("fio").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::Usage(format!(
            "can't run `fio`, which --like compares with: {error} (hint: install the package fio)"
        ))),
    }
}

impl Session<'_> {
    /// Runs a plan's campaign, or the missing part of a resumed one, and reports it.
    pub(crate) fn run_plan(
        mut self,
        mut plan: Plan,
        question: &Question,
    ) -> Result<ExitCode, Failure> {
        let progress = Progress::new(&plan, self.visibility());
        let mut observer = self.observe(progress, controller::steps(&plan).len())?;
        let measured = self.measure_plan(&mut plan, question, &mut observer);
        let ended = measured.and_then(|campaign| Ok((self.report(&campaign)?, campaign)));
        observer.end(&ended);
        Ok(ended?.0.into())
    }
}

/// Warns about settings that have no effect on any run.
pub(crate) fn warn_of_idle_settings(plan: &Plan) {
    for idle in &plan.without_effect {
        output::message(&format!("warning: {idle}"));
    }
    let notes = [
        dry_run::describe_thinned(plan),
        dry_run::describe_large_ops(plan),
        contenders::note_differences(plan),
    ];
    for note in notes.into_iter().flatten() {
        output::message(&format!("note: {note}"));
    }
}
