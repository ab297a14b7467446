//! `dfsbench clean`: restores changes to hosts that were left by killed campaigns.
//!
//! Each host replays its own undo log. This host and the hosts of a plan or of the command line are
//! cleaned in turn; a host that can't be reached doesn't stop the others.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use controller::leftovers::{self, HeldSystem};
use fleet::ssh::{self, RemovedPrograms};
use fleet::{Report, RestoredChange, request};
use model::Host;
use model::units::Size;

use crate::args::CleanArgs;
use crate::exit::{End, Failure};
use crate::files::{output_file, temporary, user_dirs};
use crate::hosts::agents::Agents;
use crate::plans::plan_source;
use crate::signals;
use crate::terminal::output;
use crate::terminal::progress::Visibility;

/// Cleans this host and those that are named.
///
/// # Errors
/// If the plan can't be read, a host can't be reached, or something can't be restored.
pub(crate) fn run(args: &CleanArgs) -> Result<ExitCode, Failure> {
    let stop = signals::stop_flag()?;
    let records_dir = user_dirs::records_dir();
    let results_files = leftovers::results_files(&args.results, &records_dir);
    let cleaned = leftovers::clean(&results_files, &records_dir);
    for place in &cleaned.removed {
        output::text(&format!("removed: {place}\n"))?;
    }
    for record in &cleaned.foreign {
        output::message(&format!("note: {record} (hint: its owner can clean up by it)"));
    }
    match results_files.iter().map(|file| results::remove_abandoned(file)).sum() {
        0_usize => {}
        1 => output::message("removed the lock file of a campaign that is no longer running"),
        count => {
            output::message(&format!(
                "removed {count} lock files of campaigns that are no longer running"
            ));
        }
    }
    let parts: usize = results_files
        .iter()
        .map(|results| output_file::remove_abandoned_parts(&results.with_extension("html")))
        .sum();
    let temporary = parts + temporary::remove_abandoned() + ssh::remove_abandoned_folders();
    if temporary > 0 {
        output::message(&format!(
            "removed {temporary} temporary files of processes that were killed"
        ));
    }
    remove_cache();
    let mut hosts = vec![Host::local("this host")];
    if let Some(path) = &args.plan {
        for host in plan_source::read_plan(path)?.hosts {
            if host.ssh.is_some() {
                hosts.push(host);
            }
        }
    }
    hosts.extend(args.host.iter().map(|name| find_host(name, args)));
    for host in cleaned.systems.iter().flat_map(|record| &record.system.hosts) {
        if !hosts.iter().any(|known| is_same_machine(known, host)) {
            hosts.push(host.clone());
        }
    }
    let mut restoration = Restoration::new(&stop, args.forget);
    for record in cleaned.unfinished {
        if args.forget {
            match record.forget() {
                Ok(stays) => output::text(&format!("forgotten: {stays}\n"))?,
                Err(why) => restoration.refused.push(why),
            }
        } else {
            restoration.kept += 1;
            restoration.refused.extend(record.lines());
        }
    }
    let mut changed = Vec::new();
    for host in &hosts {
        if !restoration.restore(host)? {
            changed.push(host);
        }
    }
    for record in &cleaned.systems {
        let is_changed = |host| changed.iter().any(|changed| is_same_machine(changed, host));
        if !record.system.hosts.iter().any(is_changed) {
            record.remove();
        } else if args.forget {
            record.remove();
            let HeldSystem { name, .. } = &record.system;
            output::text(&format!("forgotten: the hosts of `dfsbench systems up {name}`\n"))?;
        }
    }
    restoration.finish()
}

/// Restores hosts one after the other, and collects what can't be restored.
pub(super) struct Restoration<'a> {
    stop: &'a Arc<AtomicBool>,
    /// Drop what can't be restored from the undo logs.
    forget: bool,
    /// What can't be restored, and why; one sentence each.
    pub(super) refused: Vec<String>,
    /// Number of changes that stay recorded.
    kept: usize,
}

impl<'a> Restoration<'a> {
    pub(super) const fn new(stop: &'a Arc<AtomicBool>, forget: bool) -> Self {
        Self { stop, forget, refused: Vec::new(), kept: 0 }
    }

    /// Makes a host restore everything in its undo log. Returns true if it could.
    ///
    /// # Errors
    /// If stdout can't be written.
    pub(super) fn restore(&mut self, host: &Host) -> Result<bool, Failure> {
        let refused_before = self.refused.len();
        match clean_host(host, self.stop, self.forget) {
            Ok(changes) => {
                output::text(&describe_restored(&host.name, &changes))?;
                for RestoredChange { what, refused: why, stays, .. } in changes {
                    if let Some(why) = why
                        && stays.is_empty()
                    {
                        self.kept += 1;
                        self.refused.push(format!("host {}: {what}: {why}", host.name));
                    }
                }
            }
            Err(why) => self.refused.push(why),
        }
        Ok(self.refused.len() == refused_before)
    }

    /// Ends with an error if anything can't be restored.
    ///
    /// # Errors
    /// That one.
    pub(super) fn finish(mut self) -> Result<ExitCode, Failure> {
        if self.refused.is_empty() {
            return Ok(End::Ok.into());
        }
        if self.kept > 0 {
            self.refused.push(
                "(hint: if a change can never be restored, `dfsbench clean --forget` drops it \
                 from the record and leaves it in place)"
                    .to_owned(),
            );
        }
        Err(Failure::Lab(self.refused.join("\n       ")))
    }
}

/// Returns true if both hosts are reached in the same way.
fn is_same_machine(one: &Host, other: &Host) -> bool {
    (&one.ssh, &one.ssh_config) == (&other.ssh, &other.ssh_config)
}

/// Removes the compressed programs that campaigns cache for their next agents over ssh.
fn remove_cache() {
    let Some(cache) = user_dirs::cache_dir() else { return };
    let RemovedPrograms { files, bytes } = ssh::remove_cached_programs(&cache);
    if files > 0 {
        output::message(&format!(
            "removed the cache of agent programs in {} ({files} files, {}): the next campaign over \
             ssh recreates it",
            cache.display(),
            Size(bytes)
        ));
    }
}

fn find_host(name: &str, args: &CleanArgs) -> Host {
    Host { ssh: Some(name.to_owned()), ssh_config: args.ssh_config.clone(), ..Host::local(name) }
}

/// Makes a host restore everything in its undo log.
fn clean_host(
    host: &Host,
    stop: &Arc<AtomicBool>,
    forget: bool,
) -> Result<Vec<RestoredChange>, String> {
    let mut agents = Agents::new(Arc::clone(stop), Visibility::Shown);
    let request = if forget { request::clean_and_forget() } else { request::clean() };
    let (order, answer) = request.into_parts();
    let mut agent = agents.launch_one(host).map_err(|gone| gone.0)?;
    agent.send(order).map_err(|gone| gone.0)?;
    match agent.receive().map_err(|gone| gone.0)? {
        Report::Failed(why) => Err(format!("host {}: {why}", host.name)),
        report => answer.read(report).map_err(|wrong| format!("host {} {wrong}", host.name)),
    }
}

fn describe_restored(host: &str, changes: &[RestoredChange]) -> String {
    if changes.is_empty() {
        return format!("{host}: nothing to restore\n");
    }
    let mut text = String::new();
    for RestoredChange { campaign, what, refused, stays } in changes {
        // Writing to a `String` never fails.
        let _ = match refused {
            None => writeln!(text, "{host}: restored: {what} (campaign {campaign})"),
            Some(_) if stays.is_empty() => {
                writeln!(text, "{host}: not restored: {what} (campaign {campaign})")
            }
            Some(why) => {
                let stays = stays.join("; ");
                writeln!(text, "{host}: forgotten: {what} (campaign {campaign}): {stays} ({why})")
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_restored_changes() {
        assert_eq!(describe_restored("web", &[]), "web: nothing to restore\n");
        let of = |what: &str, refused: Option<&str>, stays: &[&str]| RestoredChange {
            campaign: "7".into(),
            what: what.into(),
            refused: refused.map(str::to_owned),
            stays: stays.iter().map(|&stays| stays.to_owned()).collect(),
        };
        let changes = [
            of("mount", None, &[]),
            of("sysctl", Some("busy"), &[]),
            of("file", Some("it is a link"), &["the file /x stays"]),
        ];
        insta::assert_snapshot!(describe_restored("web", &changes), @"
        web: restored: mount (campaign 7)
        web: not restored: sysctl (campaign 7)
        web: forgotten: file (campaign 7): the file /x stays (it is a link)
        ");
    }
}
