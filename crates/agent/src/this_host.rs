//! Applies, checks and undoes changes to this host as ordered by the controller.
//!
//! Answers are sentences without a host name, like all answers of an agent. The undo log is opened
//! by the first order that may change something. Its changes are undone by this thread or, if it
//! hangs, by the thread that ends the agent; see [`HostChanges`].

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleet::in_process::AgentEnd;
use fleet::{HostPermissions, KERNEL_FACT, Order, Report, RestoredChange};
use lab::{CleanedChange, Lab, LabError};
use model::{EffectiveSettings, Fact};

/// Answer to an order that would change this host before it was opened.
const NOT_OPENED: &str = "this host has not been opened for changes";

/// The changes to this host, shared with the thread that ends a hung agent.
///
/// The lock is only held while an order about this host is executed. No such order waits for a
/// mount without a time limit.
#[derive(Clone, Default)]
pub(crate) struct HostChanges(Arc<Mutex<Option<Lab>>>);

impl HostChanges {
    fn lock(&self) -> MutexGuard<'_, Option<Lab>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Undoes all changes and closes the undo log, so that other processes can open it even if this
    /// process cannot end.
    pub(crate) fn leave(&self) -> Result<(), String> {
        let Some(mut lab) = self.lock().take() else { return Ok(()) };
        let hint = "hint: run `dfsbench clean` on this host to try again";
        lab.undo_all().map_err(|error| format!("{error} ({hint})"))
    }
}

/// Collects the settings of this host and the identity of its kernel.
pub(crate) fn facts() -> Vec<Fact> {
    let mut facts = lab::facts::host();
    let source = "/proc/sys/kernel/random/boot_id";
    facts.push(Fact::new("host", KERNEL_FACT, lab::boot_id(), source));
    facts
}

/// The changes that a controller makes to this host.
pub(crate) struct ThisHost<'a> {
    state_dir: &'a Path,
    /// Aborts a change in progress.
    stop: &'a Arc<AtomicBool>,
    changes: HostChanges,
}

impl<'a> ThisHost<'a> {
    /// Starts without changes. `state_dir` is where the undo log is, and `stop` aborts a change in
    /// progress.
    pub(crate) fn new(state_dir: &'a Path, stop: &'a Arc<AtomicBool>) -> Self {
        Self { state_dir, stop, changes: HostChanges::default() }
    }

    /// Returns the changes, for the thread that ends this agent if it hangs.
    pub(crate) fn changes(&self) -> HostChanges {
        self.changes.clone()
    }

    /// Executes an order about this host.
    pub(crate) fn execute_order(&mut self, order: Order) -> Report {
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
    fn open(&mut self, opening: HostPermissions) -> Result<Report, LabError> {
        let HostPermissions { campaign, allow_destroy, keep, after_power_loss, secrets } = opening;
        let mut held = self.changes.lock();
        // Only one process can hold the log, so close ours before opening it again.
        *held = None;
        let open = if after_power_loss { Lab::open_after_power_loss } else { Lab::open };
        let lab = open(self.state_dir, &campaign, allow_destroy)?.with_stop(self.stop);
        let mut lab = lab.with_secrets(secrets);
        if keep {
            lab = lab.keeping_files();
        }
        *held = Some(lab);
        Ok(Report::Opened)
    }

    /// Starts or ends a disturbance of this host.
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

    /// Executes orders that arrive while workers are running. These can only be disturbances.
    pub(crate) fn receive_disturbances(&mut self, end: &AgentEnd) {
        while let Some(order) = end.try_disturbance() {
            end.report(self.disturb(order));
        }
    }

    /// Returns true if there are changes to undo.
    pub(crate) fn is_changed(&self) -> bool {
        self.changes.lock().as_ref().is_some_and(|lab| lab.height() > 0)
    }

    /// Undoes all remaining changes.
    pub(crate) fn leave(self) -> Result<(), String> {
        self.changes.leave()
    }

    fn clean(&mut self, clean: impl Fn(&Path) -> Result<Vec<CleanedChange>, LabError>) -> Report {
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
        other => Report::Failed(format!("{other:?} does not apply to this host")),
    })
}

/// Converts a restored change to its report.
fn report_change(
    CleanedChange { campaign, what, outcome, stays }: CleanedChange,
) -> RestoredChange {
    let refused = outcome.err().map(|error| error.to_string());
    RestoredChange { campaign, what, refused, stays }
}
