//! One trial on this host: a target and the passes on it.
//!
//! A pass is prepared, executed and accounted for by separate orders, because other agents may work
//! on the same files at the same time.

mod account;
mod phases;

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use engine::residency::Residency;
use engine::settle::{self, Settling};
use engine::target::works_anywhere;
use engine::worker::Ending;
use engine::{
    Cpus, External, InventoryScope, MeasuredPass, Monitor, Stop, TargetConfig, TargetError,
    TrialTarget, measure,
};
use fleet::in_process::AgentEnd;
use fleet::{Assignment, ClockReading, JournalLocation, Order, Report, TrialSetup};
use lab::facts::loops;
use lab::facts::loops::LoopDevice;
use lab::host::cache;
use lab::mounts::Mount;
use lab::telemetry::counters;
use model::{Caveat, Fact, Invalidation, Opens, Pass, RunSpec, Share, Telemetry, Workload};
use workload::Pattern;

use crate::accounting;
use crate::caveats::Calendar;
use crate::processor_use::ServerPlace;
use crate::sources::{ReadSources, SourceWatch, difference};
use crate::surroundings::{NeighborWatch, Surroundings};
use crate::this_host::ThisHost;
use crate::{Agent, ProcessorUse, ServerCounts, THIS_HOST, caveats};
use phases::Phases;

/// A trial that has begun.
pub(crate) struct Trial<'a> {
    pub(crate) agent: &'a Agent,
    assignment: Assignment,
    stop: Stop,
    target: TrialTarget,
    pub(crate) mount: Option<Mount>,
    /// Loop devices below the target.
    loops: Vec<LoopDevice>,
    /// Counters of this host for the time in which a program made all passes in one run.
    pub(crate) run_telemetry: RefCell<Option<Telemetry>>,
    /// CPU usage during this run, and the caveat about tracers of the program.
    pub(crate) run_surroundings: RefCell<(Option<ProcessorUse>, Option<Caveat>)>,
    /// Where the server of the target runs.
    pub(crate) server_place: ServerPlace,
    /// Description of the server for caveats, if it is on this host.
    pub(crate) server_here: Option<String>,
    pub(crate) neighbors: NeighborWatch,
    /// The parts of a run of io500.
    phases: Option<Phases>,
    /// The external program that runs the passes.
    external: Option<External>,
    /// The clocks when they were last compared.
    clocks: Cell<ClockReading>,
    /// The latest pass, until it is accounted for.
    worked: Option<FinishedPass>,
    /// Parts of the file set that this host may have in its page cache.
    cached: Vec<InventoryScope>,
    /// Free space of the file systems before the trial, if it creates thousands of names.
    settling: Settling,
    /// The acknowledgement journal of a soak, if it has to outlive this process.
    ack_journal: Option<PathBuf>,
}

/// A pass whose workers have finished.
pub(crate) struct FinishedPass {
    pub(crate) pass: Pass,
    /// The workers that ran.
    pub(crate) share: Share,
    pub(crate) measured: MeasuredPass,
    pub(crate) facts: Vec<Fact>,
    /// Counters of our server during the pass.
    pub(crate) server: Option<ServerCounts>,
    /// Where reads came from, if the kernel doesn't attribute them to this process.
    pub(crate) sources: Option<ReadSources>,
    /// CPU usage on this host.
    pub(crate) processors: Option<ProcessorUse>,
}

/// Reports to the controller that everything is open, and waits for the order to start.
pub(crate) struct StartGate<'a> {
    agent: &'a Agent,
    end: &'a AgentEnd,
    /// The order that arrived instead of a start.
    instead: Option<Order>,
}

impl StartGate<'_> {
    /// Waits for the start and returns its time, or `None` if the pass will not start.
    ///
    /// The controller reads this host's clock in the meantime, because a reading right before the
    /// start gives the best mapping of its time.
    pub(crate) fn pass(&mut self) -> Option<u64> {
        self.end.report(Report::Armed);
        loop {
            match self.end.next_order() {
                Some(Order::Go { start_ns }) => return Some(start_ns),
                Some(Order::Clock) => self.end.report(self.agent.clocks()),
                other => {
                    self.instead = other;
                    return None;
                }
            }
        }
    }
}

impl<'a> Trial<'a> {
    /// Begins a trial. Content created for an earlier trial is reused.
    pub(crate) fn begin(
        agent: &'a Agent,
        assignment: Assignment,
        stop: Stop,
        before: Option<&Pattern>,
    ) -> Result<Self, TargetError> {
        let spec = &assignment.spec;
        let pattern = engine::target::pattern_of(spec, assignment.seed, &assignment.work_name);
        let mut pattern = pattern.reuse_pool(before);
        pattern = engine::target::follow_rewrites(pattern, spec, assignment.share);
        let ack_journal = journal_path(agent, &assignment);
        if let Some(path) = &ack_journal {
            let opened = match assignment.journal {
                JournalLocation::Inherited => engine::ack_journal::continue_journal(path, spec),
                _ => engine::ack_journal::begin_journal(path, spec),
            };
            let journal = opened.map_err(|error| TargetError::Io {
                what: "open the journal of acknowledged writes",
                location: path.display().to_string(),
                reason: error.to_string(),
            })?;
            pattern = pattern.journaled(Arc::new(journal));
        }
        let config = TargetConfig {
            work_name: assignment.work_name.clone(),
            seed: assignment.seed,
            pattern,
            clock: Arc::clone(&agent.clock),
            keep: assignment.keep,
            stop: stop.clone(),
            share: assignment.share,
            joins: assignment.joins,
        };
        let target = TrialTarget::create(spec, config)?.scheduled_by(assignment.schedule_seed);
        if assignment.journal == JournalLocation::Inherited {
            target.assume_prepared();
        }
        let mount = target.local_paths().first().and_then(|path| Mount::find_containing(path));
        let loops = mount.as_ref().map(loops::below).unwrap_or_default();
        let mut external = None;
        if spec.workload.is_external() {
            external = Some(External::begin(&target, spec, &stop)?);
        }
        // Inodes are released late, and the next trial would have to wait for that in its measured
        // time.
        let settling = match spec.workload {
            Workload::Metadata
            | Workload::Listing
            | Workload::Transactions
            | Workload::Developer
            | Workload::Io500
                if spec.files >= settle::FILES_MIN =>
            {
                Settling::next_to(&target.local_paths())
            }
            _ => Settling::default(),
        };
        // The files of a program, or of a single agent, are all ours.
        let cached = if spec.workload.is_external() || assignment.share.count >= spec.workers {
            InventoryScope::All
        } else {
            InventoryScope::OfShare(assignment.share, spec.workers)
        };
        let server_place = ServerPlace::find(spec, agent.local_server.as_ref());
        let server_here = caveats::find_server(&spec.target, mount.as_ref());
        let neighbors = NeighborWatch::begin(&target, assignment.share);
        let phases = Phases::new(spec);
        let worked = None;
        Ok(Self {
            agent,
            assignment,
            stop,
            target,
            mount,
            loops,
            run_telemetry: RefCell::default(),
            run_surroundings: RefCell::default(),
            server_place,
            server_here,
            neighbors,
            phases,
            external,
            clocks: Cell::new(read_clocks(agent)),
            worked,
            cached: vec![cached],
            settling,
            ack_journal,
        })
    }

    /// Returns the facts found at the target.
    pub(crate) fn begun(&self) -> TrialSetup {
        TrialSetup { facts: self.facts(), made_directory: self.target.made_directory() }
    }

    /// Returns the effective settings of the target.
    fn facts(&self) -> Vec<Fact> {
        let mut facts = self.target.facts();
        if let Some(mount) = &self.mount {
            facts.extend(mount.facts());
            facts.extend(lab::facts::disks::facts("target", mount));
        }
        if let Some(external) = &self.external {
            facts.extend_from_slice(external.facts());
        }
        facts
    }

    /// Creates what a pass expects to find.
    pub(crate) fn prepare(&mut self, pass: Pass) -> Result<(), TargetError> {
        if self.external.is_some() {
            return Ok(());
        }
        let pass = self.enter(pass)?;
        self.target.reopen_handles()?;
        self.target.make_content(&self.assignment.spec);
        self.target.prepare(&self.assignment.spec, pass)
    }

    /// Runs a pass with the workers of a share, starting at the time given by the controller.
    pub(crate) fn work(
        &mut self,
        pass: Pass,
        share: Share,
        end: &AgentEnd,
        host: &mut ThisHost<'_>,
    ) -> Result<Report, TargetError> {
        let mut gate = StartGate { agent: self.agent, end, instead: None };
        self.worked = None;
        let worked = if let Some(mut external) = self.external.take() {
            let worked = self.work_outside(&mut external, pass, share, &mut gate);
            self.external = Some(external);
            worked
        } else {
            let pass = self.enter(pass)?;
            self.work_here(pass, share, &mut gate, host)
        };
        match (gate.instead, worked) {
            (Some(Order::Disarm), _) => Ok(Report::Disarmed),
            (Some(order), _) => Ok(Report::Failed(format!(
                "unexpected order {order:?} while workers were waiting to start"
            ))),
            (None, Err(error)) => Err(error),
            (None, Ok(worked)) => {
                let MeasuredPass { result, ending, .. } = &worked.measured;
                let is_broken = *ending != Ending::Complete;
                let done = accounting::sum_kinds(result);
                if let Some(ops_each) = worked.measured.ops_each {
                    self.set_level(ops_each);
                }
                self.worked = Some(worked);
                Ok(Report::Worked { done, is_broken })
            }
        }
    }

    fn work_here(
        &mut self,
        pass: Pass,
        share: Share,
        gate: &mut StartGate<'_>,
        host: &mut ThisHost<'_>,
    ) -> Result<FinishedPass, TargetError> {
        self.target.reopen_handles()?;
        self.invalidate(pass)?;
        self.note_cached(pass, share);
        self.target.make_content_of(&self.assignment.spec, pass, share);
        let spec = &self.assignment.spec;
        let cpus = spec.cpus.map(Cpus::last).transpose()?;
        let _server_confined = match (cpus, &self.agent.local_server) {
            (Some(cpus), Some(server)) if self.uses_local_server() => {
                Some(cpus.confine(&server.thread_ids)?)
            }
            _ => None,
        };
        // Opening files calls the server, too. So its counters and those of this host are read
        // after opening and before the first op.
        let counts_before = Cell::new(None);
        let watch = Cell::new(None);
        let surroundings = OnceCell::new();
        self.neighbors.show_life(self.whole_target());
        let server_cpu_before = self.server_cpu_ns();
        let storage_before = counters::storage_read_bytes();
        let sources = SourceWatch::begin(self.mount.as_ref());
        let end = gate.end;
        let mut calendar = Calendar::begin(read_clocks(self.agent));
        let mut monitor = Monitor {
            stop: &self.stop,
            opened: &|| {
                let _ = surroundings.set(Surroundings::begin(&self.server_place, cpus));
                counts_before.set(self.server_counts());
                watch.set(Some(self.agent.watch()));
            },
            gate: &mut || {
                let start_ns = gate.pass();
                // Activity while waiting for other hosts doesn't belong to the pass.
                surroundings.get().inspect(|around| around.start());
                start_ns
            },
            observe: &mut |sample| {
                calendar.look(|| read_clocks(self.agent));
                end.report(Report::Progress(sample));
                host.receive_disturbances(end);
            },
            client_cpu_ns: &|| self.client_cpu_ns(),
        };
        let seed = self.assignment.seed;
        let spec = spec.in_pass(pass);
        let resident_before = self.sample_residency(pass);
        let mut measured = measure(&self.target, &spec, pass, share, seed, &mut monitor)?;
        let result = &mut measured.result;
        if calendar.has_stepped() {
            result.caveats.extend(calendar.caveat());
            // These steps are reported now, so the comparison over the whole trial restarts here.
            self.clocks.set(read_clocks(self.agent));
        }
        if let Some(watch) = watch.take() {
            result.telemetry.push(watch.stop(THIS_HOST));
        }
        if self.counts_storage_reads() {
            result.storage_read_bytes = difference(storage_before, counters::storage_read_bytes());
        }
        if self.uses_local_server() {
            result.server_cpu_ns = difference(server_cpu_before, self.server_cpu_ns());
        }
        // Taking the inventory calls the server, too, so read its counters first.
        let server = match (counts_before.get(), self.server_counts()) {
            (Some(before), Some(after)) if self.is_on_local_server() => Some(after.since(&before)),
            _ => None,
        };
        let mut processors = None;
        if let Some(around) = surroundings.into_inner() {
            let (used, traced) = around.end();
            processors = used;
            result.caveats.extend(traced);
        }
        // If the target is lost, looking at it would hang.
        if measured.ending == Ending::Complete {
            result.caveats.extend(self.neighbors.look(self.whole_target()));
        }
        let resident = self.sample_residency(pass);
        result.caveats.extend(caveats::about_direct(pass, resident_before, resident));
        let mut facts = self.target.end_pass(self.phase_of(pass));
        facts.extend(caveats::sending_limits(&measured.result, &measured.tally.tcp));
        let sources = sources.map(SourceWatch::end);
        Ok(FinishedPass { pass, share, measured, facts, server, sources, processors })
    }

    /// Returns true if no other agent works in the same trial.
    fn is_alone(&self) -> bool {
        self.assignment.share.count >= self.assignment.spec.workers
    }

    /// Closes all files until the next pass.
    pub(crate) fn close_handles(&mut self) {
        self.target.close_handles();
        self.close_parts();
    }

    /// Takes over the directory that it joined, because the agent that created it is lost.
    pub(crate) fn inherit(&mut self) {
        self.leave_part();
        self.target.adopt_directory();
    }

    /// Removes everything that the trial created.
    pub(crate) fn end(mut self) -> Result<(), TargetError> {
        // The parts close their files before they are removed with the whole.
        self.leave_part();
        self.phases = None;
        // Remove the target even if the program's cleanup fails.
        let cleaned = self.external.map_or(Ok(()), External::end);
        if let Some(path) = &self.ack_journal {
            // If it was never written, there is nothing to remove.
            let _ = std::fs::remove_file(path);
        }
        let removed = self.target.remove();
        // If the campaign is stopped, there is no next trial that would suffer.
        if !self.stop.is_set() {
            let _ = self.settling.settle(&*self.agent.clock);
        }
        removed.and(cleaned)
    }

    pub(crate) const fn spec(&self) -> &RunSpec {
        &self.assignment.spec
    }

    pub(crate) const fn target(&self) -> &TrialTarget {
        &self.target
    }

    pub(crate) fn counts_storage_reads(&self) -> bool {
        self.mount.as_ref().is_some_and(Mount::counts_storage_reads)
    }

    /// Counts pages of our files in the page cache, if the pass is supposed to bypass it.
    fn sample_residency(&self, pass: Pass) -> Option<Residency> {
        let goes_past = self.assignment.spec.direct && pass.opens() != Opens::Nothing;
        if goes_past { Residency::sample(&self.target.local_paths()) } else { None }
    }

    /// Records whose files a pass leaves in the page cache of this host.
    fn note_cached(&mut self, pass: Pass, share: Share) {
        let spec = &self.assignment.spec;
        let whose = if works_anywhere(spec, pass) {
            InventoryScope::All
        } else {
            InventoryScope::OfShare(share, spec.workers)
        };
        if !self.cached.contains(&whose) {
            self.cached.push(whose);
        }
    }

    /// Drops pages that this agent put into the page cache during its trial. If several agents
    /// share a host, each does so before any of them starts, so none has to drop the files of the
    /// others.
    pub(crate) fn invalidate(&self, pass: Pass) -> Result<(), TargetError> {
        let spec = &self.assignment.spec;
        let is_wanted = match &spec.lab {
            Some(lab) => lab.invalidation >= Invalidation::Files,
            None => spec.invalidate,
        };
        let reads = pass.reads() || pass == Pass::Copy;
        if !reads || !is_wanted {
            return Ok(());
        }
        for path in self.target.local_paths() {
            let dropped = cache::drop_directory(&path, &|name| self.may_be_cached(name));
            dropped.map_err(|error| TargetError::Io {
                what: "drop the page cache of files in",
                location: path.display().to_string(),
                reason: error.to_string(),
            })?;
        }
        Ok(())
    }

    /// Returns true if the file with this name may be in this host's page cache.
    fn may_be_cached(&self, name: &OsStr) -> bool {
        self.cached.iter().any(|whose| whose.counts_name(name.as_bytes()))
    }

    fn is_on_local_server(&self) -> bool {
        self.assignment.spec.target.nfs().is_some_and(|nfs| nfs.embedded)
    }

    /// Like [`Self::is_on_local_server`], but also true for raw TCP, where the server counts no
    /// calls.
    fn uses_local_server(&self) -> bool {
        self.assignment.spec.target.is_embedded()
    }

    fn server_counts(&self) -> Option<ServerCounts> {
        let server = self.agent.local_server.as_ref()?;
        Some((server.counts)())
    }

    fn server_cpu_ns(&self) -> Option<u64> {
        let server = self.agent.local_server.as_ref()?;
        let mut total_ns = 0_u64;
        for id in &server.thread_ids {
            total_ns = total_ns.saturating_add(counters::thread_cpu_ns(*id)?);
        }
        Some(total_ns)
    }

    /// Returns the CPU time of this process without our server.
    fn client_cpu_ns(&self) -> u64 {
        counters::process_cpu_ns().saturating_sub(self.server_cpu_ns().unwrap_or(0))
    }
}

/// Returns the path of an acknowledgement journal that has to outlive this process.
fn journal_path(agent: &Agent, assignment: &Assignment) -> Option<PathBuf> {
    let Assignment { journal, work_name, share, .. } = assignment;
    if *journal == JournalLocation::InMemory {
        return None;
    }
    let name = format!("{}{work_name}-{}", lab::ACK_JOURNAL_PREFIX, share.first);
    Some(agent.state_dir.join(name))
}

/// Reads the wall clock and the monotonic clock, one right after the other.
fn read_clocks(agent: &Agent) -> ClockReading {
    crate::read(&*agent.clock)
}
