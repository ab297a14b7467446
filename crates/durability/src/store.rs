//! Stores the findings of a durability measurement, either in an existing campaign or as a campaign
//! of their own with its own page.
//!
//! [`FindingsKeeper`] is the main type. A new campaign is only created once there are findings, so
//! a measurement that stops earlier leaves no trace in the results file.

use std::path::PathBuf;

use model::contender::contenders;
use model::durability::{DurabilityReport, StoredDurability};
use model::{Campaign, CampaignState, Question};
use results::Store;

use crate::DurabilityError;
use crate::request::{DurabilityRequest, unknown_contender};

/// Stores findings in the results file.
pub struct FindingsKeeper {
    place: StoredWith,
    now_unix_ms: fn() -> u64,
}

/// The campaign that findings are stored in.
enum StoredWith {
    /// A new campaign, created with the first findings.
    Own {
        results: PathBuf,
        header: Box<Campaign>,
        /// The open file and the campaign's ID, once it has been created.
        open: Option<(Store, i64)>,
    },
    /// An existing campaign.
    Named(Store, i64),
}

impl FindingsKeeper {
    /// Stores findings in a new campaign that records `command` as its command line.
    pub fn new(
        results: PathBuf,
        request: &DurabilityRequest,
        command: String,
        now_unix_ms: fn() -> u64,
    ) -> Self {
        let header = Box::new(header(request, command, now_unix_ms()));
        Self { place: StoredWith::Own { results, header, open: None }, now_unix_ms }
    }

    /// Stores findings in an existing campaign.
    ///
    /// # Errors
    /// If the campaign lacks one of the contenders or the file can't be written.
    pub fn with_campaign(
        store: &Store,
        id: i64,
        request: &DurabilityRequest,
        now_unix_ms: fn() -> u64,
    ) -> Result<Self, DurabilityError> {
        let outline = store.outline(id)?;
        let known = contenders(outline.runs.iter().map(|run| &run.spec));
        for subject in &request.subjects {
            let Some(contender) = subject.contender.as_ref().or(request.contender.as_ref()) else {
                continue;
            };
            if !known.contains(contender) {
                return Err(unknown_contender(contender, &known));
            }
        }
        // Reopen the file for writing: this adds the tables of the current release.
        let store = Store::open_or_create(store.path())?;
        Ok(Self { place: StoredWith::Named(store, id), now_unix_ms })
    }

    /// Stores the findings about a contender, or about a target without a name.
    pub(crate) fn store(
        &mut self,
        contender: &str,
        report: &DurabilityReport,
    ) -> Result<(), DurabilityError> {
        let contender = if contender.is_empty() { &report.target } else { contender };
        let stored = StoredDurability {
            contender: contender.to_owned(),
            measured_unix_ms: (self.now_unix_ms)(),
            report: report.clone(),
        };
        let (store, id) = match &mut self.place {
            StoredWith::Named(store, id) | StoredWith::Own { open: Some((store, id)), .. } => {
                (store, *id)
            }
            StoredWith::Own { results, header, open } => {
                let mut store = Store::open_or_create(results)?;
                let id = store.begin_campaign(header)?;
                let (store, id) = open.insert((store, id));
                (store, *id)
            }
        };
        Ok(store.add_durability(id, &stored)?)
    }

    /// Finishes the campaign if it was created here. Returns the file and the campaign's ID, or
    /// `None` if there were no findings.
    pub fn finish(self, state: CampaignState) -> Result<Option<(Store, i64)>, DurabilityError> {
        match self.place {
            StoredWith::Named(store, id) => Ok(Some((store, id))),
            StoredWith::Own { open: Some((mut store, id)), .. } => {
                store.finish(id, state)?;
                Ok(Some((store, id)))
            }
            StoredWith::Own { open: None, .. } => Ok(None),
        }
    }
}

/// Builds the header of a new campaign.
fn header(request: &DurabilityRequest, command: String, started_unix_ms: u64) -> Campaign {
    let plan = &request.plan;
    let name = if plan.name == "run" { "durability" } else { &plan.name };
    Campaign {
        id: 0,
        name: name.to_owned(),
        started_unix_ms,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
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
