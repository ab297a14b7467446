//! Hosts that are set up for a run but not used by trials.
//!
//! A durability measurement writes on its own, kills the system's servers and reads back. It needs
//! the hosts set up as for a run, but runs no trial.

use std::sync::atomic::AtomicBool;

use fleet::request;
use lab::{compose, outlasts_power_loss, redo_from};
use model::{Invalidation, LabSpec, LabStep};

use crate::Hosts;
use crate::hosts::setup::{apply_after_power_loss, apply_missing, apply_wanted, undo_to};

/// Sets up the hosts for a run.
///
/// # Errors
/// If a host cannot be reached or set up; the error is a sentence.
pub fn set_up(hosts: &mut Hosts<'_>, lab: &LabSpec, stop: &AtomicBool) -> Result<(), String> {
    let wanted = compose(lab).map_err(|error| error.to_string())?;
    hosts.connect_hosts(lab)?;
    hosts.with_applied_steps(|applied, hosts| {
        // Start from scratch: the state left in a system by an earlier run must not carry over.
        undo_to(applied, hosts, 0)?;
        apply_wanted(applied, hosts, &wanted, stop)
    })
}

/// Remounts on all clients, so that nothing is read from their caches.
///
/// # Errors
/// If unmounting or mounting fails; the error is a sentence. The servers stay as they are, so this
/// can be retried: the server may not be back yet, or a process may be waiting for it.
pub fn mount_again(hosts: &mut Hosts<'_>, lab: &LabSpec, stop: &AtomicBool) -> Result<(), String> {
    let wanted = compose(lab).map_err(|error| error.to_string())?;
    let kept = redo_from(&wanted, Invalidation::Remount);
    hosts.with_applied_steps(|applied, hosts| {
        // This also undoes mounts from an earlier attempt.
        undo_to(applied, hosts, kept)?;
        apply_missing(applied, hosts, &wanted, stop)
    })
}

/// Makes the storage host flush what the setup left in memory, so that a power loss affects only
/// data written later and not the system itself.
///
/// # Errors
/// If flushing fails; the error is a sentence.
pub fn settle(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<(), String> {
    hosts.ask(&lab.keeper().name, request::invalidate(Invalidation::Caches, None)).map(drop)
}

/// Reconnects to the storage host after its power loss.
///
/// # Errors
/// If it cannot be reached, or the remaining part of its setup cannot be determined; the error is a
/// sentence.
pub fn reach_after_power_loss(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<(), String> {
    let keeper = lab.keeper();
    hosts.note_power_loss(&keeper.name, outlasts_power_loss(lab)?);
    hosts.reach_one(keeper)
}

/// Mounts and exports the file systems that survived a power loss. Client mounts stay as they are.
///
/// # Errors
/// If the setup fails; the error is a sentence.
pub fn start_after_power_loss(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<(), String> {
    hosts.connect_hosts(lab)?;
    let left = outlasts_power_loss(lab)?;
    let wanted = compose(lab).map_err(|error| error.to_string())?;
    hosts.with_applied_steps(|applied, hosts| {
        apply_after_power_loss(applied, hosts, lab, &wanted, left)
    })
}

/// Kills the servers of the system.
///
/// # Errors
/// If there is no server to kill; the error is a sentence.
pub fn kill_system(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<(), String> {
    apply_at_once(hosts, lab::kill_of_system(lab)?)
}

/// Restarts the killed servers of the system.
///
/// # Errors
/// If a server doesn't start; the error is a sentence.
pub fn restart_system(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<(), String> {
    apply_at_once(hosts, lab::restart_of_system(lab)?)
}

/// Applies one-off steps that are not part of the hosts' setup.
fn apply_at_once(hosts: &mut Hosts<'_>, steps: Vec<LabStep>) -> Result<(), String> {
    for step in steps {
        hosts.ask(&step.host, request::apply(step.action))?;
        hosts.ask(&step.host, request::undo_last())?;
    }
    Ok(())
}
