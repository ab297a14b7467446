//! Stores the findings of a durability measurement: with a campaign that is named, or as a campaign
//! of their own, which has a page.
//!
//! [`Keeper`] is the principal type. A campaign of its own is begun with the first findings: what
//! ends before them leaves no trace in the results file.

use std::path::Path;

use model::contender::contenders;
use model::durability::{DurabilityReport, StoredDurability};
use model::{Campaign, CampaignState, Question};
use report::Format;
use results::Store;

use super::request::Request;
use crate::args::DurabilityArgs;
use crate::calendar::now_unix_ms;
use crate::contenders::unknown_contender;
use crate::exit::Failure;
use crate::{campaign, joined, memory_guard};

/// Keeps findings in the results file.
pub struct Keeper<'a> {
    results: &'a Path,
    /// The campaign that the first findings begin; `None` if one was named.
    header: Option<Campaign>,
    /// The file with the number of the campaign, once there is one.
    open: Option<(Store, i64)>,
}

impl<'a> Keeper<'a> {
    /// Checks before anything is started that findings can be kept.
    ///
    /// # Errors
    /// When they can't, or the named campaign or contender doesn't exist.
    pub fn find(args: &'a DurabilityArgs, request: &Request) -> Result<Self, Failure> {
        let results = args.results.as_path();
        let Some(named) = &args.campaign else {
            campaign::check_outputs(results)?;
            return Ok(Self { results, header: Some(header(request)), open: None });
        };
        let (store, id) = joined::find_campaign(named, results)?;
        let outline = store.outline(id)?;
        let known = contenders(outline.runs.iter().map(|run| &run.spec));
        for subject in &request.subjects {
            let Some(contender) = subject.contender.as_ref().or(args.contender.as_ref()) else {
                continue;
            };
            if !known.contains(contender) {
                return Err(unknown_contender("--contender", contender, &known));
            }
        }
        // The file is opened again to be written to: it gets the tables of this release.
        let store = Store::open_or_create(store.path())?;
        Ok(Self { results, header: None, open: Some((store, id)) })
    }

    /// Adds the findings about a contender, or about a target without a name.
    ///
    /// # Errors
    /// When the file can't be written to.
    pub fn store(&mut self, contender: &str, report: &DurabilityReport) -> Result<(), Failure> {
        if self.open.is_none()
            && let Some(header) = &self.header
        {
            let mut store = Store::open_or_create(self.results)?;
            let id = store.begin_campaign(header)?;
            self.open = Some((store, id));
        }
        let Some((store, id)) = &mut self.open else { return Ok(()) };
        let contender = if contender.is_empty() { &report.target } else { contender };
        let stored = StoredDurability {
            contender: contender.to_owned(),
            measured_unix_ms: now_unix_ms(),
            report: report.clone(),
        };
        Ok(store.add_durability(*id, &stored)?)
    }

    /// Ends a campaign of its own, and returns it; one that was named is returned only for a page.
    ///
    /// # Errors
    /// When the file can't be read or written to.
    pub fn finish(self, state: CampaignState, format: Format) -> Result<Option<Campaign>, Failure> {
        let Some((mut store, id)) = self.open else { return Ok(None) };
        if self.header.is_some() {
            store.finish(id, state)?;
        } else if format != Format::Html {
            return Ok(None);
        }
        memory_guard::load(&store, id).map(Some)
    }
}

/// The campaign of a measurement of its own.
fn header(request: &Request) -> Campaign {
    let plan = &request.plan;
    let name = if plan.name == "run" { "durability" } else { &plan.name };
    Campaign {
        id: 0,
        name: name.to_owned(),
        started_unix_ms: now_unix_ms(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: campaign::command_line(),
        question: Question::Durability,
        plan_toml: plan.to_toml(),
        seed: plan.seed,
        state: CampaignState::Running,
        facts: lab::facts::host(),
        ceiling: None,
        durability: Vec::new(),
        runs: Vec::new(),
    }
}
