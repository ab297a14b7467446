//! Prepares a campaign and measures it, with everything that takes on this host.
//!
//! The preparation checks the targets, waits for idle disks, and creates the header of the
//! campaign, which includes the tool's own ceiling.

use std::path::Path;

use controller::{CampaignRunner, ControllerError};
use engine::SystemClock;
use lab::telemetry::counters::StorageWork;
use model::lab::label_facts;
use model::{Campaign, CampaignState, Question};
use plan::Plan;
use results::Store;

use super::observer::CampaignObserver;
use super::session::Session;
use crate::args::defaults::{UsedDefault, used_defaults};
use crate::calendar::now_unix_ms;
use crate::exit::Failure;
use crate::hosts::busy::ProcessorTimes;
use crate::hosts::writeback;
use crate::server::embedded;
use crate::terminal::output;
use crate::terminal::progress::Visibility;

impl Session<'_> {
    /// Measures a plan, or the missing part of a resumed campaign.
    pub(super) fn measure_plan(
        &mut self,
        plan: &mut Plan,
        question: &Question,
        observer: &mut CampaignObserver,
    ) -> Result<Campaign, Failure> {
        let server = embedded::start(plan)?;
        if let Some(server) = &server {
            server.set_addresses(plan);
        }
        let results = &self.making.results;
        let visibility = self.visibility();
        let resumes = self.resumes;
        // The server must outlive the agents, which use it until they exit.
        let measured = self.with_runner(plan, server.as_ref(), observer, |runner| match resumes {
            Some(id) => resume(runner, results, id),
            None => measure(runner, results, question, visibility),
        });
        if let Some(server) = &server {
            server.warn_of_refused();
        }
        measured
    }
}

/// Measures what a stored campaign is still missing.
fn resume(runner: &mut CampaignRunner<'_>, results: &Path, id: i64) -> Result<Campaign, Failure> {
    let mut store = Store::open_or_create(results)?;
    store.hold(id)?;
    runner.preflight()?;
    runner.resume(&mut store, id)?;
    Ok(store.load(id)?)
}

fn measure(
    runner: &mut CampaignRunner<'_>,
    results: &Path,
    question: &Question,
    visibility: Visibility,
) -> Result<Campaign, Failure> {
    // A ladder is meaningless without its topmost layer, so all targets must pass.
    if matches!(question, Question::Ladder(_)) {
        runner.preflight_all()?;
    } else {
        runner.preflight()?;
    }
    settle_storage(runner, visibility);
    let before = ProcessorTimes::read();
    let header = header(runner, question)?;
    warn_of_busy_host(before, visibility);
    let mut store = Store::open_or_create(results)?;
    let (id, _) = runner.run(&mut store, &header)?;
    Ok(store.load(id)?)
}

/// Waits, within the plan's time limit, until disks have written out what earlier work left.
fn settle_storage(runner: &CampaignRunner<'_>, visibility: Visibility) {
    let Some((wait_ns_max, directories)) = writeback::need_of(runner.plan) else { return };
    let is_visible = visibility != Visibility::Hidden;
    writeback::settle(
        wait_ns_max,
        &mut writeback::Effects {
            clock: &SystemClock::new(),
            stop: runner.stop,
            read: &mut StorageWork::read,
            begin_sync: &mut || writeback::begin_sync(directories.clone()),
            report: &mut |message| {
                if is_visible {
                    output::message(message);
                }
            },
        },
    );
}

/// Warns if the host has been busy with other work since `before`.
fn warn_of_busy_host(before: Option<ProcessorTimes>, visibility: Visibility) {
    if visibility == Visibility::Hidden {
        return;
    }
    if let (Some(before), Some(after)) = (before, ProcessorTimes::read())
        && let Some(busy) = before.describe_others(after)
    {
        output::message(&format!("warning: {busy}"));
    }
}

/// Builds a campaign without runs that includes the tool's own ceiling.
pub(crate) fn header(
    runner: &mut CampaignRunner<'_>,
    question: &Question,
) -> Result<Campaign, ControllerError> {
    let mut facts = lab::facts::host();
    facts.extend(label_facts("host", &runner.plan.labels));
    Ok(Campaign {
        id: 0,
        name: runner.plan.name.clone(),
        started_unix_ms: now_unix_ms(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
        question: question.clone(),
        plan_toml: runner.plan.to_toml(),
        seed: runner.plan.seed,
        state: CampaignState::Running,
        facts,
        ceiling: runner.measure_ceiling()?,
        durability: Vec::new(),
        runs: Vec::new(),
    })
}

/// Returns the command line, with the user's defaults written out.
pub(crate) fn command_line() -> String {
    let mut words: Vec<_> =
        std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    // Only keep the program's name; its path differs between hosts.
    if let Some(name) = Path::new(&words[0]).file_name() {
        words[0] = name.to_string_lossy().into_owned();
    }
    // Append the user's defaults as flags, so that the stored command does the same elsewhere.
    let dashes = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut after_dashes = words.split_off(dashes);
    for UsedDefault { command, flag, values, .. } in used_defaults() {
        let flags = values.iter().map(|value| format!("{flag}={value}"));
        if command == "run" && words.get(1).is_some_and(|word| word == "compare") {
            if after_dashes.is_empty() {
                after_dashes.push("--".to_owned());
            }
            after_dashes.extend(flags);
        } else {
            words.extend(flags);
        }
    }
    words.append(&mut after_dashes);
    words.join(" ")
}
