//! Accounts for a pass: evaluates all cross-check sources and raises all caveats.
//!
//! The order matters: the server's counters are read right after the pass, before taking the
//! inventory of its directory, which in turn waits until all agents have finished.

use engine::backend::BackendCounts;
use engine::target::Inventory;
use engine::worker::Ending;
use engine::{InventoryScope, MeasuredPass};
use fleet::{Assignment, KindTotals, PassEnd, Report, TrialAbort};
use lab::facts::memory::Memory;
use model::{Caveat, CaveatCode, Evidence, Fact, Pass, PassResult, Pnfs, PnfsWork, RunSpec, Share};

use super::{FinishedPass, Trial, read_clocks};
use crate::accounting::{self, CrossCheckSources};
use crate::sources::ReadSources;
use crate::{ProcessorUse, caveats};

/// What was observed on this host during a pass.
struct PassObservations<'a> {
    /// Where reads came from, if the kernel doesn't attribute them to this process.
    sources: Option<&'a ReadSources>,
    /// CPU usage.
    processors: Option<&'a ProcessorUse>,
}

impl Trial<'_> {
    /// Compares the latest pass with all cross-check sources and raises its caveats. `others` is
    /// the work of other agents, if this agent does the accounting for all.
    pub(crate) fn account(&mut self, others: &[KindTotals]) -> Report {
        let Some(worked) = self.worked.take() else {
            return Report::Failed("no pass has run".to_owned());
        };
        let FinishedPass { pass, share, measured, mut facts, server, sources, processors } = worked;
        let MeasuredPass { mut result, ending, tally, span, timeline, .. } = measured;
        let spec = &self.assignment.spec;
        if self.external.is_some() {
            result.cross_checks =
                accounting::cross_checks(spec, &result, &CrossCheckSources::default());
            match self.check_left_files(&result, &ending) {
                Ok(cross_check) => result.cross_checks.extend(cross_check),
                Err(error) => return Report::Failed(error.to_string()),
            }
        } else {
            let inventory = self.inventory(pass, &ending, &mut result.caveats);
            facts.extend(removed_but_open(pass, inventory));
            let sources = CrossCheckSources {
                // Our server also counted what others did at the same time.
                server: if self.is_alone() { server } else { None },
                tally,
                inventory,
                right_bytes: self.right_bytes(pass, &ending, &mut result.caveats),
                share: self.assignment.share,
                others: others.to_vec(),
            };
            result.cross_checks = accounting::cross_checks(spec, &result, &sources);
            result.caveats.extend(caveats::about_recovery(&tally.recovered));
            result.caveats.extend(caveats::about_paths(&result.scope.paths));
            if spec.nfs().pnfs != Pnfs::Off {
                count_without_layouts(&mut result);
            }
            let data_servers = result.scope.pnfs.iter().flat_map(caveats::about_data_servers);
            result.caveats.extend(data_servers);
            if is_whole(&result, &ending) {
                result.caveats.extend(caveats::recovered(&tally.recovered));
            } else {
                facts.extend(caveats::unrecovered(pass, &tally.recovered));
            }
            // The counters of a mount include the other loads on this host.
            let mount = self.mount.as_ref().filter(|_| !spec.has_company());
            result.scope.wire = tally.wire.or_else(|| caveats::mount_traffic(&result, mount));
            facts.extend(caveats::ends_found(&result, &tally.ranges));
            facts.extend(caveats::copies_followed(&result, &tally.ranges));
            result.caveats.extend(caveats::about_copies(&tally.ranges));
            result.caveats.extend(caveats::about_holes(&result, &tally.ranges));
            let short = &tally.short_transfers;
            result.caveats.extend(caveats::about_short_transfers(short, "counted by the client"));
            result.caveats.extend(tally.pnfs.as_ref().and_then(caveats::about_pnfs));
        }
        if let Some(listed) = &tally.listed {
            let mount = self.mount.as_ref();
            result.scope.listing =
                Some(caveats::listing_work(spec, &result, listed, tally.calls.as_ref(), mount));
        }
        self.add_journal(&mut result, &tally);
        let seen = PassObservations { sources: sources.as_ref(), processors: processors.as_ref() };
        self.caveat(&mut result, share, &ending, &tally, &seen);
        result.pass = self.phase_of(pass);
        if ending == Ending::Complete {
            result.caveats.extend(caveats::about_stonewall(result.pass, &result));
        }
        let broken = broken(&result, &ending);
        Report::Ran(Box::new(PassEnd { broken, result, facts, span, timeline }))
    }

    /// Adds the state of data written by a soak so far, and the client's recovery counts.
    fn add_journal(&self, result: &mut PassResult, tally: &BackendCounts) {
        let Assignment { spec, share, .. } = &self.assignment;
        let Some(journal) = self.target.journal() else { return };
        if spec.soak.is_none() {
            return;
        }
        result.scope.kept = Some(journal.summarize(|file| share.owns(file, spec.workers)));
        result.scope.recovery = Some(tally.recovered);
    }

    /// Takes the inventory after a pass, if it is this agent's task.
    fn inventory(
        &self,
        pass: Pass,
        ending: &Ending,
        caveats: &mut Vec<Caveat>,
    ) -> Option<Inventory> {
        let Assignment { spec, share, .. } = &self.assignment;
        let whose = match pass {
            _ if self.is_alone() => InventoryScope::All,
            // Files of a mix belong to no share, so the first agent counts for all.
            Pass::OpMix if share.first == 0 => InventoryScope::All,
            Pass::OpMix => return None,
            _ => InventoryScope::OfShare(*share, spec.workers),
        };
        // The contents of a lost target cannot be counted. After a stopped pass, counting a million
        // files would delay the end.
        if !pass.writes() || matches!(ending, Ending::Lost(_) | Ending::Stopped) {
            return None;
        }
        match self.target.inventory(whose) {
            Ok(inventory) => inventory,
            // If the campaign is stopped, the inventory may be aborted.
            Err(_) if self.stop.is_set() => None,
            Err(error) => {
                let evidence = format!("the files at the target could not be counted: {error}");
                let data = Evidence::counts(0, 1, "counted", "files at the target");
                caveats.push(CaveatCode::Accounting.because(evidence).with_data(data));
                None
            }
        }
    }

    /// Reads what a pass over ranges of files has left there, if the run wants that verified.
    fn right_bytes(&self, pass: Pass, ending: &Ending, caveats: &mut Vec<Caveat>) -> Option<u64> {
        if *ending != Ending::Complete {
            return None;
        }
        match self.target.count_right_bytes(&self.assignment.spec, pass) {
            Ok(right) => right,
            Err(_) if self.stop.is_set() => None,
            Err(error) => {
                let evidence = format!("the files at the target could not be verified: {error}");
                let data = Evidence::counts(0, 1, "verified", "files at the target");
                caveats.push(CaveatCode::Accounting.because(evidence).with_data(data));
                None
            }
        }
    }

    fn caveat(
        &self,
        result: &mut PassResult,
        share: Share,
        ending: &Ending,
        tally: &BackendCounts,
        seen: &PassObservations<'_>,
    ) {
        // This agent is only responsible for its part of the run.
        let in_pass = self.assignment.spec.in_pass(result.pass);
        let spec = &in_pass.part(share);
        let mount = self.mount.as_ref();
        let server = self.server_here.as_deref();
        let mut caveats = self.target.caveats(spec);
        caveats.extend(caveats::about_outcome(result, ending, tally));
        if *ending == Ending::Complete {
            caveats.extend(caveats::about_figures(spec, result, server, seen.processors));
            if let Some(used) = seen.processors {
                result.scope.interference =
                    caveats::interference(spec, result, mount, server, used);
            }
            caveats.extend(caveats::about_load(spec, result));
        }
        caveats.extend(caveats::about_cache(spec, result, mount));
        caveats.extend(caveats::about_commits(spec, result.pass, mount));
        let localio = spec.lab.as_ref().and_then(|lab| lab.mounting.localio);
        caveats.extend(caveats::about_mount(result, mount, localio));
        caveats.extend(caveats::about_delegations(spec, result, mount));
        let lab = spec.lab.as_deref().filter(|lab| lab.mounts_own_export());
        caveats.extend(caveats::about_transport(result, mount, lab));
        caveats.extend(caveats::about_listing(result, mount));
        caveats.extend(caveats::about_segments(spec, result, mount, &tally.tcp));
        caveats.extend(caveats::about_host(lab::facts::emulated().as_deref()));
        let memory = lab::facts::memory::host_bytes();
        caveats.extend(caveats::about_server_cache(spec, result, mount, server, memory));
        let usable = lab::facts::memory::usable();
        caveats.extend(caveats::about_data(spec, result, mount));
        caveats.extend(caveats::about_memory(spec, result, mount, usable.as_ref(), seen.sources));
        caveats.extend(caveats::about_data_set(spec, result.pass, usable.as_ref()));
        caveats.extend(caveats::about_steps(spec, result));
        caveats.extend(self.caveat_of_loops(spec, result, usable.as_ref()));
        caveats.extend(self.calendar());
        result.caveats.extend(caveats);
        for Caveat { code, data, .. } in &result.caveats {
            debug_assert!(data.is_some() || !code.has_threshold(), "{code} has no data");
        }
    }

    /// Raises caveats about loop devices below the target.
    fn caveat_of_loops(
        &self,
        spec: &RunSpec,
        result: &PassResult,
        memory: Option<&Memory>,
    ) -> Option<Caveat> {
        // If a program made all passes in one run, telemetry covers that whole run.
        let run_telemetry = self.run_telemetry.borrow();
        let telemetry = result.telemetry.first().or(run_telemetry.as_ref());
        caveats::about_loops(result, telemetry, &self.loops)
            .or_else(|| caveats::about_uncounted_loops(spec, result, &self.loops, memory))
    }

    /// Compares the clocks with their last readings.
    fn calendar(&self) -> Option<Caveat> {
        let now = read_clocks(self.agent);
        let before = self.clocks.replace(now);
        let wall_ns = i128::from(now.wall_ns) - i128::from(before.wall_ns);
        caveats::about_calendar(wall_ns, now.mono_ns - before.mono_ns)
    }
}

/// Returns true if every op that was started succeeded and was counted: only then was something
/// that was lost on the way made good.
fn is_whole(result: &PassResult, ending: &Ending) -> bool {
    matches!(ending, Ending::Complete | Ending::Stopped)
        && result.errors() == 0
        && accounting::caveats(&result.cross_checks).is_empty()
}

/// Counts all bytes of a pass at the metadata server if it was to use layouts but had none.
fn count_without_layouts(result: &mut PassResult) {
    let metadata_bytes = result.bytes();
    if metadata_bytes > 0 {
        let without = || PnfsWork { metadata_bytes, ..PnfsWork::default() };
        result.scope.pnfs.get_or_insert_with(without);
    }
}

/// Reports files that were removed and are kept under another name until a client closes them.
fn removed_but_open(pass: Pass, inventory: Option<Inventory>) -> Option<Fact> {
    let count = inventory?.removed_but_open;
    let name = format!("{pass}: removed files still open");
    let source = "names that start with .fuse_hidden or .nfs";
    (count > 0).then(|| Fact::new("target", name, count.to_string(), source))
}

/// Returns why the trial cannot continue after a pass, or `None` if it can.
fn broken(result: &PassResult, ending: &Ending) -> Option<TrialAbort> {
    let pass = result.pass.name();
    match ending {
        Ending::Complete => None,
        Ending::Stopped => Some(TrialAbort::Stopped),
        Ending::Lost(reason) => Some(TrialAbort::Failed(format!("{pass}: {reason}"))),
        // Other passes don't need the operation.
        Ending::TooManyErrors if caveats::is_unsupported(result) => None,
        Ending::TooManyErrors => {
            let errors = caveats::errors_in_words(result);
            Some(TrialAbort::Failed(format!("{pass} aborted after {errors}")))
        }
    }
}
