//! Stores the findings of a durability measurement: with a campaign that is named, or as a campaign
//! of their own, which has a page.
//!
//! [`FindingsKeeper`] is the principal type. A campaign of its own is begun with the first
//! findings: what ends before them leaves no trace in the results file.

use std::path::PathBuf;

use model::contender::contenders;
use model::durability::{DurabilityReport, StoredDurability};
use model::{Campaign, CampaignState, Question};
use results::Store;

use crate::DurabilityError;
use crate::request::{DurabilityRequest, unknown_contender};

/// Keeps findings in the results file.
pub struct FindingsKeeper {
    place: StoredWith,
    /// Returns the wall-clock time in milliseconds since 1970 UTC.
    now_unix_ms: fn() -> u64,
}

/// The campaign that findings are stored with.
enum StoredWith {
    /// One that the first findings begin.
    Own {
        results: PathBuf,
        header: Box<Campaign>,
        /// The file with the number of the campaign, once there is one.
        open: Option<(Store, i64)>,
    },
    /// One that was named.
    Named(Store, i64),
}

impl FindingsKeeper {
    /// Keeps findings as a campaign of their own, which `command` has made.
    pub fn new(
        results: PathBuf,
        request: &DurabilityRequest,
        command: String,
        now_unix_ms: fn() -> u64,
    ) -> Self {
        let header = Box::new(header(request, command, now_unix_ms()));
        Self { place: StoredWith::Own { results, header, open: None }, now_unix_ms }
    }

    /// Keeps findings with a stored campaign.
    ///
    /// # Errors
    /// When it has none of the contenders, or the file can't be written to.
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
        // The file is opened again to be written to: it gets the tables of this release.
        let store = Store::open_or_create(store.path())?;
        Ok(Self { place: StoredWith::Named(store, id), now_unix_ms })
    }

    /// Adds the findings about a contender, or about a target without a name.
    ///
    /// # Errors
    /// When the file can't be written to.
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

    /// Ends a campaign of its own, and returns the file and the campaign's number; `None` if
    /// nothing was found.
    ///
    /// # Errors
    /// When the file can't be written to.
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

/// The campaign of a measurement of its own.
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
