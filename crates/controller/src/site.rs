//! Hosts that are set up for one run and used by something else than trials.
//!
//! A measurement of durability writes by itself, kills the system's servers and reads back: it
//! needs the hosts set up as a run has them, but makes no trial.

use std::sync::atomic::AtomicBool;

use fleet::request;
use lab::{compose, outlasts_power_loss, redo_from};
use model::{Invalidation, LabSpec, LabStep};

use crate::Hosts;
use crate::host_setup::{apply_after_power_loss, apply_missing, bring_to, undo_to};

/// Brings the hosts to what a run wants.
///
/// # Errors
/// When a host can't be reached or set up; in a sentence.
pub fn set_up(hosts: &mut Hosts<'_>, lab: &LabSpec, stop: &AtomicBool) -> Result<(), String> {
    let wanted = compose(lab).map_err(|error| error.to_string())?;
    hosts.reach(lab)?;
    hosts.with_applied_steps(|applied, hosts| {
        // What an earlier run has left to a system is no state for the next one.
        undo_to(applied, hosts, 0)?;
        bring_to(applied, hosts, &wanted, stop)
    })
}

/// Has all clients mount again, so that nothing is read from what they had in memory.
///
/// # Errors
/// When it can't be unmounted or mounted; in a sentence. The servers stay as they are, so that it
/// may be tried again: a server that is not back yet, or a process that waits for it, may be why.
pub fn mount_again(hosts: &mut Hosts<'_>, lab: &LabSpec, stop: &AtomicBool) -> Result<(), String> {
    let wanted = compose(lab).map_err(|error| error.to_string())?;
    let kept = redo_from(&wanted, Invalidation::Remount);
    hosts.with_applied_steps(|applied, hosts| {
        // What an earlier try has mounted stands above what is kept, too.
        undo_to(applied, hosts, kept)?;
        apply_missing(applied, hosts, &wanted, stop)
    })
}

/// Has the host that keeps the files write to its disks what the set-up has left in memory: a loss
/// of power is to take what is written afterwards, and not the system.
///
/// # Errors
/// When it can't be done; in a sentence.
pub fn settle(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<(), String> {
    hosts.ask(&lab.keeper().name, request::invalidate(Invalidation::Caches, None)).map(drop)
}

/// Reaches the host again that keeps the files and has lost its power.
///
/// # Errors
/// When it can't be reached, or what is left of its set-up can't be known; in a sentence.
pub fn reach_after_power_loss(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<(), String> {
    let keeper = lab.keeper();
    hosts.note_power_loss(&keeper.name, outlasts_power_loss(lab)?);
    hosts.reach_one(keeper)
}

/// Mounts and serves the file systems that a loss of power has left. Mounts of clients stay as they
/// are.
///
/// # Errors
/// When it can't be set up; in a sentence.
pub fn start_after_power_loss(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<(), String> {
    hosts.reach(lab)?;
    let left = outlasts_power_loss(lab)?;
    let wanted = compose(lab).map_err(|error| error.to_string())?;
    hosts.with_applied_steps(|applied, hosts| {
        apply_after_power_loss(applied, hosts, lab, &wanted, left)
    })
}

/// Kills the servers of the system.
///
/// # Errors
/// When there is none to kill; in a sentence.
pub fn kill_system(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<(), String> {
    apply_at_once(hosts, lab::kill_of_system(lab)?)
}

/// Starts the servers of the system again that were killed.
///
/// # Errors
/// When one does not start; in a sentence.
pub fn restart_system(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<(), String> {
    apply_at_once(hosts, lab::restart_of_system(lab)?)
}

/// Applies steps that are no part of what the hosts are brought to.
fn apply_at_once(hosts: &mut Hosts<'_>, steps: Vec<LabStep>) -> Result<(), String> {
    for step in steps {
        hosts.ask(&step.host, request::apply(step.action))?;
        hosts.ask(&step.host, request::undo_last())?;
    }
    Ok(())
}
