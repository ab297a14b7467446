//! Passes run by external programs, with the same target, facts, cross-checks and caveats as ours.
//!
//! Nothing is prepared for a program except an empty directory, and the recorder is not involved.
//! So the only possible cross-check compares what the program reports with what it left behind.

use std::sync::Arc;

use engine::external::ExternalPass;
use engine::worker::Ending;
use engine::{External, InventoryScope, TargetError};
use model::{CrossCheck, Fact, Pass, PassResult, Share, Span, Workload};

use crate::THIS_HOST;
use crate::caveats::{self, RunCounts};
use crate::sources::SourceWatch;
use crate::surroundings::{FollowedProgram, Surroundings};
use crate::trial::{FinishedPass, StartGate, Trial};

impl Trial<'_> {
    /// Lets the program run one pass, starting when the gate opens.
    pub(crate) fn work_outside(
        &self,
        external: &mut External,
        pass: Pass,
        share: Share,
        gate: &mut StartGate<'_>,
    ) -> Result<FinishedPass, TargetError> {
        self.invalidate(pass)?;
        let clock = self.target().clock();
        let start_ns = gate.pass().ok_or(TargetError::Stopped)?;
        while clock.now_ns() < start_ns {
            clock.sleep_until(start_ns);
        }
        let starts_program = external.starts_program();
        let sources = SourceWatch::begin(self.mount.as_ref());
        self.neighbors.show_life(self.target());
        let around = Surroundings::begin(&self.server_place, None);
        let program = FollowedProgram::observe(external, Arc::clone(clock));
        let watch = self.agent.watch();
        let begun_ns = clock.now_ns();
        let outside = external.run(pass)?;
        let span_ns = clock.now_ns().saturating_sub(begun_ns);
        let telemetry = watch.stop(THIS_HOST);
        let mut sources = sources.map(SourceWatch::end);
        if starts_program {
            let around = around.end_of_program(&program, self.spec(), span_ns);
            self.run_surroundings.replace(around);
        }
        let (processors, traced) = self.run_surroundings.borrow().clone();
        let ExternalPass { mut measured, mut facts, whole_run } = outside;
        let result = &mut measured.result;
        result.caveats.extend(traced);
        if measured.ending == Ending::Complete {
            result.caveats.extend(self.neighbors.look(self.target()));
        }
        // Storage reads are done for the program, not for this process.
        if let Some(sources) = &mut sources {
            sources.own_stored_bytes = result.storage_read_bytes.unwrap_or(0);
        }
        if let Some(reads) = whole_run {
            // Counters of a single pass are unrelated to the program's own passes.
            sources = None;
            // The counters of the run that made all passes don't belong to any single one.
            if starts_program {
                self.run_telemetry.replace(Some(telemetry));
            }
            let telemetry = self.run_telemetry.borrow();
            let counts =
                RunCounts { workload: self.spec().workload, reads, telemetry: telemetry.as_ref() };
            result.caveats.extend(caveats::about_run(&counts, result, self.mount.as_ref()));
        } else {
            result.telemetry = vec![telemetry];
        }
        measured.span = Span {
            first_start_ns: begun_ns,
            last_start_ns: begun_ns,
            first_end_ns: begun_ns + result.first_done_ns,
            last_end_ns: begun_ns + result.window_ns,
        };
        if !self.counts_storage_reads() {
            result.storage_read_bytes = None;
        }
        for fact in &mut facts {
            name_after(fact, pass);
        }
        Ok(FinishedPass { pass, share, measured, facts, server: None, sources, processors })
    }

    /// Compares the sizes of the files left by a program with the bytes it claims to have written.
    pub(crate) fn check_left_files(
        &self,
        result: &PassResult,
        ending: &Ending,
    ) -> Result<Option<CrossCheck>, TargetError> {
        let leaves = matches!(self.spec().workload, Workload::Fio | Workload::Dd);
        if !leaves || result.pass != Pass::Write || *ending != Ending::Complete {
            return Ok(None);
        }
        let Some(inventory) = self.target().inventory(InventoryScope::All)? else {
            return Ok(None);
        };
        Ok(Some(CrossCheck {
            expected: result.bytes(),
            found: inventory.bytes,
            source: "total size of the files".to_owned(),
        }))
    }
}

/// Adds the pass to a fact's name, since each pass of a trial may report the same fact.
fn name_after(fact: &mut Fact, pass: Pass) {
    fact.name = format!("{pass}: {}", fact.name);
}
