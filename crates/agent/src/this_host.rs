//! Applies, checks and undoes on this host what a controller orders.
//!
//! Answers are sentences that name no host, as all of an agent's. The undo log is opened by the
//! first order that may change something. What it holds is undone by this thread, or by the one
//! that ends the agent where this one hangs: see [`HostChanges`].

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleet::in_process::AgentEnd;
use fleet::{KERNEL_FACT, Opening, Order, Report, RestoredChange};
use lab::{Cleaned, Lab, LabError};
use model::{EffectiveSettings, Fact};

/// The answer to an order that changes this host before it was opened.
const NOT_OPENED: &str = "this host was not opened to be changed";

/// The changes of this host, which the thread that ends a hung agent can undo, too.
///
/// It is locked while an order about this host is carried out, and no longer: no such order waits
/// for a mount without a limit.
#[derive(Clone, Default)]
pub(crate) struct HostChanges(Arc<Mutex<Option<Lab>>>);

impl HostChanges {
    fn lock(&self) -> MutexGuard<'_, Option<Lab>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Undoes all changes and closes the undo log, so that other processes can open it even where
    /// this one can't end.
    pub(crate) fn leave(&self) -> Result<(), String> {
        let Some(mut lab) = self.lock().take() else { return Ok(()) };
        let hint = "hint: `dfsbench clean` on this host tries again";
        lab.undo_all().map_err(|error| format!("{error} ({hint})"))
    }
}

/// Captures the settings of this host, with the identity of its kernel.
pub(crate) fn facts() -> Vec<Fact> {
    let mut facts = lab::facts::host();
    let source = "/proc/sys/kernel/random/boot_id";
    facts.push(Fact::new("host", KERNEL_FACT, lab::boot_id(), source));
    facts
}

/// This host, as far as a controller changes it.
pub(crate) struct ThisHost<'a> {
    state_dir: &'a Path,
    /// Gives up a change that is in flight.
    stop: &'a Arc<AtomicBool>,
    changes: HostChanges,
}

impl<'a> ThisHost<'a> {
    /// Unchanged; `state_dir` is where the undo log is, and `stop` gives up what is being changed.
    pub(crate) fn new(state_dir: &'a Path, stop: &'a Arc<AtomicBool>) -> Self {
        Self { state_dir, stop, changes: HostChanges::default() }
    }

    /// Returns the changes, for the thread that ends this agent where it hangs.
    pub(crate) fn changes(&self) -> HostChanges {
        self.changes.clone()
    }

    /// Obeys an order that is about this host.
    pub(crate) fn obey(&mut self, order: Order) -> Report {
        let done = match order {
            Order::Open(opening) => self.open(opening),
            Order::Clean { forget } => {
                return self.clean(if forget { lab::clean_and_forget } else { lab::clean });
            }
            order => match &mut *self.changes.lock() {
                Some(lab) => change(lab, order),
                None => return Report::Failed(NOT_OPENED.to_owned()),
            },
        };
        done.unwrap_or_else(|error| Report::Failed(error.to_string()))
    }

    /// Opens the undo log of a campaign.
    fn open(&mut self, opening: Opening) -> Result<Report, LabError> {
        let Opening { campaign, allow_destroy, keep, after_power_loss } = opening;
        let mut held = self.changes.lock();
        // One process at a time holds the log: ours is closed before it is opened again.
        *held = None;
        let open = if after_power_loss { Lab::open_after_power_loss } else { Lab::open };
        let mut lab = open(self.state_dir, &campaign, allow_destroy)?.stopped_by(self.stop);
        if keep {
            lab = lab.keeping_files();
        }
        *held = Some(lab);
        Ok(Report::Opened)
    }

    /// Disturbs this host, or lets it be again.
    pub(crate) fn disturb(&mut self, order: Order) -> Report {
        let mut held = self.changes.lock();
        let Some(lab) = &mut *held else {
            return Report::Disturbed(Err(NOT_OPENED.to_owned()));
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
        self.changes.lock().as_ref().is_some_and(|lab| lab.height() > 0)
    }

    /// Undoes what is left.
    pub(crate) fn leave(self) -> Result<(), String> {
        self.changes.leave()
    }

    fn clean(&mut self, clean: impl Fn(&Path) -> Result<Vec<Cleaned>, LabError>) -> Report {
        *self.changes.lock() = None;
        match clean(self.state_dir) {
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
fn report_change(Cleaned { campaign, what, outcome, stays }: Cleaned) -> RestoredChange {
    let refused = outcome.err().map(|error| error.to_string());
    RestoredChange { campaign, what, refused, stays }
}
