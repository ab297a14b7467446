//! One trial on this host: a site, and the passes on it.
//!
//! [`Trial::run`] prepares, invalidates and measures, then calls every witness and raises every
//! doubt. The order matters: the server's counters are read before the directory is counted.

use std::cell::Cell;
use std::sync::Arc;

use engine::backend::Tally;
use engine::worker::Ending;
use engine::{External, Measured, Monitor, Site, SiteConfig, SiteError, measure};
use fleet::{Assignment, Broken, PassEnd};
use lab::mounts::Mount;
use lab::{cache, counters};
use model::{Caveat, CaveatCode, Fact, IntervalSample, Invalidation, Pass, PassResult, RunSpec};

use crate::accounting::{self, Witnesses};
use crate::{Agent, THIS_HOST, doubts};

/// A trial that has begun.
pub(crate) struct Trial<'a> {
    agent: &'a Agent,
    assignment: Assignment,
    site: Site,
    mount: Option<Mount>,
    /// The program that works in our place.
    external: Option<External>,
    /// Time of day and instant when the clocks were last compared.
    clocks: Cell<(u64, u64)>,
}

impl<'a> Trial<'a> {
    pub(crate) fn begin(agent: &'a Agent, assignment: Assignment) -> Result<Self, SiteError> {
        let spec = &assignment.spec;
        let config = SiteConfig {
            work_name: assignment.work_name.clone(),
            seed: assignment.seed,
            pattern: engine::site::pattern_of(spec, assignment.seed, &assignment.work_name),
            clock: Arc::clone(&agent.clock),
            keep: assignment.keep,
            stop: Arc::clone(&agent.stop),
        };
        let site = Site::create(spec, config)?;
        let mount = site.local_paths().first().and_then(|path| Mount::of(path));
        let external =
            spec.workload.is_external().then(|| External::begin(&site, spec, &agent.stop));
        let external = external.transpose()?;
        let clocks = Cell::new(clocks(agent));
        Ok(Self { agent, assignment, site, mount, external, clocks })
    }

    /// Settings of the target that are in force.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let mut facts = self.site.facts();
        facts.extend(self.mount.iter().flat_map(Mount::facts));
        facts.extend(self.external.iter().flat_map(External::facts).cloned());
        facts
    }

    /// Prepares and runs one pass, accounts for it, and raises its caveats.
    pub(crate) fn run(
        &mut self,
        pass: Pass,
        observe: &mut dyn FnMut(IntervalSample),
    ) -> Result<PassEnd, SiteError> {
        if let Some(mut external) = self.external.take() {
            let ended = self.run_outside(&mut external, pass);
            self.external = Some(external);
            return ended;
        }
        self.site.hold()?;
        let spec = &self.assignment.spec;
        self.site.prepare(spec, pass)?;
        self.invalidate(pass)?;
        let server_cpu = || self.server_cpu_ns().unwrap_or(0);
        let client_cpu = || counters::process_cpu_ns().saturating_sub(server_cpu());
        // Opening calls the server too.
        let counts_before = Cell::new(None);
        let watch = Cell::new(None);
        let opened = || {
            counts_before.set(self.agent.local_server.as_ref().map(|server| (server.counts)()));
            watch.set(Some(self.agent.watch()));
        };
        let cpu_before = self.server_cpu_ns();
        let storage_before = counters::storage_read_bytes();
        let mut monitor = Monitor {
            stop: &self.agent.stop,
            opened: &opened,
            observe,
            client_cpu_ns: &client_cpu,
        };
        let measured = measure(&self.site, spec, pass, self.assignment.seed, &mut monitor)?;
        let Measured { mut result, ending, tally } = measured;
        result.telemetry = watch.take().map(|watch| watch.stop(THIS_HOST)).into_iter().collect();
        result.storage_read_bytes = counters::storage_read_bytes()
            .zip(storage_before)
            .filter(|_| self.counts_storage_reads())
            .map(|(after, before)| after - before);
        let is_local_server = self.is_on_local_server();
        result.server_cpu_ns = self
            .server_cpu_ns()
            .zip(cpu_before)
            .filter(|_| is_local_server)
            .map(|(after, before)| after - before);
        // The census calls the server too: its counters are read first.
        let server = self
            .agent
            .local_server
            .as_ref()
            .zip(counts_before.get())
            .filter(|_| is_local_server)
            .map(|(server, before)| (before, (server.counts)()));
        // What a lost target holds can't be counted, and is not claimed.
        let countable = pass.writes() && !matches!(ending, Ending::Lost(_));
        let census = if countable { self.site.census() } else { Ok(None) };
        let uncounted = census.as_ref().err().map(|error| {
            CaveatCode::Accounting.because(format!("the target could not be counted: {error}"))
        });
        result.caveats.extend(uncounted);
        let census = census.unwrap_or(None);
        let witnesses = Witnesses { tally, census, server };
        result.truths = accounting::truths(spec, &result, &witnesses);
        result.caveats.extend(doubts::about_recovery(&witnesses.tally.recovered));
        self.doubt(&mut result, &ending, &witnesses.tally);
        Ok(PassEnd { broken: broken(&result, &ending), result, facts: Vec::new() })
    }

    /// Holds nothing open until the next pass.
    pub(crate) fn let_go(&mut self) {
        self.site.let_go();
    }

    /// Removes what the trial made.
    pub(crate) fn end(self) -> Result<(), SiteError> {
        // What was made is removed even where a clean-up fails.
        let cleaned = self.external.map_or(Ok(()), External::end);
        self.site.remove().and(cleaned)
    }

    pub(crate) const fn spec(&self) -> &RunSpec {
        &self.assignment.spec
    }

    pub(crate) const fn site(&self) -> &Site {
        &self.site
    }

    pub(crate) fn counts_storage_reads(&self) -> bool {
        self.mount.as_ref().is_some_and(Mount::counts_storage_reads)
    }

    pub(crate) fn invalidate(&self, pass: Pass) -> Result<(), SiteError> {
        let spec = &self.assignment.spec;
        let lab = spec.lab.as_ref().map(|lab| lab.invalidation >= Invalidation::Files);
        if !pass.reads() || !lab.unwrap_or(spec.invalidate) {
            return Ok(());
        }
        self.site.local_paths().iter().try_for_each(|path| {
            cache::drop_directory(path).map_err(|error| SiteError::Io {
                what: "drop from the page cache what is in",
                place: path.display().to_string(),
                reason: error.to_string(),
            })
        })
    }

    pub(crate) fn doubt(&self, result: &mut PassResult, ending: &Ending, tally: &Tally) {
        let spec = &self.assignment.spec;
        let mut caveats = self.site.caveats(spec);
        caveats.extend(doubts::about_outcome(result, ending, tally));
        if *ending == Ending::Complete {
            caveats.extend(doubts::about_figures(spec, result));
            caveats.extend(doubts::about_load(spec, result));
        }
        caveats.extend(doubts::about_cache(spec, result, self.mount.as_ref()));
        caveats.extend(doubts::about_mount(result, self.mount.as_ref()));
        caveats.extend(doubts::about_host(lab::facts::emulated().as_deref()));
        let memory = lab::facts::memory_bytes();
        caveats.extend(doubts::about_data(spec, result, self.mount.as_ref(), memory));
        caveats.extend(self.calendar());
        result.caveats.extend(caveats);
    }

    /// Compares the clocks with what they said the last time.
    fn calendar(&self) -> Option<Caveat> {
        let now = clocks(self.agent);
        let before = self.clocks.replace(now);
        let calendar_ns = i128::from(now.0) - i128::from(before.0);
        doubts::about_calendar(calendar_ns, now.1 - before.1)
    }

    fn is_on_local_server(&self) -> bool {
        matches!(&self.assignment.spec.target, model::Target::Nfs(nfs) if nfs.embedded)
    }

    fn server_cpu_ns(&self) -> Option<u64> {
        let server = self.agent.local_server.as_ref()?;
        server.thread_ids.iter().map(|id| counters::thread_cpu_ns(*id)).sum()
    }
}

/// The time of day, and the instant of the monotonic clock.
fn clocks(agent: &Agent) -> (u64, u64) {
    (agent.clock.calendar_ns(), agent.clock.now_ns())
}

pub(crate) fn broken(result: &PassResult, ending: &Ending) -> Option<Broken> {
    let pass = result.pass.name();
    match ending {
        Ending::Complete => None,
        Ending::Stopped => Some(Broken::Stopped),
        Ending::Lost(reason) => Some(Broken::Failed(format!("{pass}: {reason}"))),
        Ending::TooManyErrors => {
            let errors = doubts::errors_in_words(result);
            Some(Broken::Failed(format!("{pass} given up after {errors}")))
        }
    }
}
