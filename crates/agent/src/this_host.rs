//! Applies, checks and undoes on this host what a controller orders.
//!
//! Answers are sentences that name no host, as all of an agent's. The undo log is opened by the
//! first order that may change something.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fleet::in_process::AgentEnd;
use fleet::{Opening, Order, Report, RestoredChange};
use lab::{Cleaned, Lab, LabError};
use model::EffectiveSettings;

/// This host, as far as a controller changes it.
pub(crate) struct ThisHost<'a> {
    state_dir: &'a Path,
    /// Gives up a change that is in flight.
    stop: &'a Arc<AtomicBool>,
    lab: Option<Lab>,
}

impl<'a> ThisHost<'a> {
    /// Unchanged; `state_dir` is where the undo log is, and `stop` gives up what is being changed.
    pub(crate) const fn new(state_dir: &'a Path, stop: &'a Arc<AtomicBool>) -> Self {
        Self { state_dir, stop, lab: None }
    }

    /// Obeys an order that is about this host.
    pub(crate) fn obey(&mut self, order: Order) -> Report {
        let done = match (order, &mut self.lab) {
            (Order::Open(opening), _) => self.open(opening),
            (Order::Clean, _) => return self.clean(),
            (order, Some(lab)) => change(lab, order),
            (_, None) => {
                return Report::Failed("this host was not opened to be changed".to_owned());
            }
        };
        done.unwrap_or_else(|error| Report::Failed(error.to_string()))
    }

    /// Opens the undo log of a campaign.
    fn open(&mut self, opening: Opening) -> Result<Report, LabError> {
        let Opening { campaign, allow_destroy, keep } = opening;
        // One process at a time holds the log: ours is closed before it is opened again.
        self.lab = None;
        let mut lab = Lab::open(self.state_dir, &campaign, allow_destroy)?.stopped_by(self.stop);
        if keep {
            lab = lab.keeping_files();
        }
        self.lab = Some(lab);
        Ok(Report::Opened)
    }

    /// Disturbs this host, or lets it be again.
    pub(crate) fn disturb(&mut self, order: Order) -> Report {
        let Some(lab) = &mut self.lab else {
            return Report::Disturbed(Err("this host was not opened to be changed".to_owned()));
        };
        let done = match order {
            Order::Disturb(action) => lab.apply(&action),
            _ => lab.undo_last().map(|()| EffectiveSettings::default()),
        };
        Report::Disturbed(done.map_err(|error| error.to_string()))
    }

    /// Obeys orders that arrive while workers work: those can only disturb them.
    pub(crate) fn receive_disturbances(&mut self, end: &AgentEnd) {
        while let Some(order) = end.try_disturbance() {
            end.report(self.disturb(order));
        }
    }

    /// Says whether anything is left to be undone.
    pub(crate) fn is_changed(&self) -> bool {
        self.lab.as_ref().is_some_and(|lab| lab.height() > 0)
    }

    /// Undoes what is left.
    pub(crate) fn leave(mut self) -> Result<(), String> {
        let Some(lab) = &mut self.lab else { return Ok(()) };
        let hint = "hint: `dfsbench clean` on this host tries again";
        lab.undo_all().map_err(|error| format!("{error} ({hint})"))
    }

    fn clean(&mut self) -> Report {
        self.lab = None;
        match lab::clean(self.state_dir) {
            Ok(cleaned) => Report::Cleaned(cleaned.into_iter().map(report_change).collect()),
            Err(error) => Report::Failed(error.to_string()),
        }
    }
}

fn change(lab: &mut Lab, order: Order) -> Result<Report, LabError> {
    Ok(match order {
        Order::Apply(action) => Report::Applied(lab.apply(&action)?),
        Order::UndoLast => {
            lab.undo_last()?;
            Report::Undone
        }
        Order::UndoAll => {
            lab.undo_all()?;
            Report::Undone
        }
        Order::Invalidate { how, directory } => {
            Report::Facts(lab.invalidate(how, directory.as_deref())?)
        }
        other => Report::Failed(format!("{other:?} is no order about this host")),
    })
}

/// Words what was restored, and why where it could not be.
fn report_change(Cleaned { campaign, what, outcome }: Cleaned) -> RestoredChange {
    RestoredChange { campaign, what, refused: outcome.err().map(|error| error.to_string()) }
}
