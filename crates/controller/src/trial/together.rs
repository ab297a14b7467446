//! Trials of several loads that are made at the same time.
//!
//! Each load is a run with a trial, agents and a working directory of its own. All of them prepare
//! one after the other, start at one instant, or later if their plan says so, and are accounted for
//! one after the other. If one cannot be made, none of them counts.

use fleet::clock::Mapping;
use fleet::{PassEnd, TrialAbort, request};
use model::{Caveat, CaveatCode, Fact, PassResult, RunSpec, Trial, TrialState, panicked};

use super::agent_group::AgentGroup;
use super::faults::FaultSchedule;
use super::overlap::{LoadTime, about_overlap};
use super::pass::{OnePass, Start};
use super::{TrialDirectory, quiet_hosts, recover, server_telemetry, setup, write_back};
use crate::error::{ControllerError, TrialError};
use crate::hosts::{Hosts, shared_kernel};
use crate::{CampaignRunner, Event};

/// One of the loads.
struct Part<'s> {
    spec: &'s RunSpec,
    group: AgentGroup<'s>,
    /// Name of its working directory.
    work_name: String,
    trial: Trial,
}

impl Part<'_> {
    fn name(&self) -> &str {
        self.spec.named_load.as_ref().map_or(&self.spec.target_name, |load| &load.name)
    }
}

impl CampaignRunner<'_> {
    /// Runs one trial of each of several loads at the same time, the first one at `position` of the
    /// order, and reports the events.
    pub(crate) fn run_trials_together(
        &mut self,
        specs: &[&RunSpec],
        position: usize,
    ) -> Result<Vec<Trial>, ControllerError> {
        let started_unix_ms = self.hosts.now_unix_ms();
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(specs.len());
        for (number, spec) in specs.iter().enumerate() {
            if number == 0 {
                // The others begin at the same time.
                (self.observe)(Event::TrialBegun { position, spec });
            }
            let position = position + number;
            parts.push(Part {
                spec,
                group: AgentGroup::new(spec),
                work_name: self.hosts.directory_name(position),
                trial: Trial {
                    index: 0,
                    position: position as u32,
                    started_unix_ms,
                    state: TrialState::Done,
                    passes: Vec::new(),
                    facts: Vec::new(),
                },
            });
        }
        let made = panicked::catch(|| self.make_parts(&mut parts));
        let made = made.unwrap_or_else(|panicked| {
            let mut reason = Ok(());
            for part in &mut parts {
                reason = Err(recover(&mut self.hosts, &mut part.group, &panicked));
            }
            reason
        });
        match made {
            Ok(()) => {}
            Err(TrialError::CampaignOver(error)) => return Err(error),
            Err(TrialError::Failed(why)) => {
                let state = self.not_made(why);
                for part in &mut parts {
                    part.trial.state = state.clone();
                }
            }
        }
        Ok(parts.into_iter().map(|part| part.trial).collect())
    }

    /// Makes the trials of all loads, from the setup of hosts to the removal of files.
    fn make_parts(&mut self, parts: &mut [Part<'_>]) -> Result<(), TrialError> {
        for part in &*parts {
            self.await_lost(part.spec);
        }
        let mut caveats = Vec::new();
        // All loads of a target have the same setup of hosts.
        if let Some(first) = parts.first_mut()
            && let Some(lab) = &first.spec.lab
        {
            let hosts = &mut self.hosts;
            caveats = setup::before_trial(hosts, self.stop, first.spec, lab, &mut first.trial)?;
            let quiet_ms = self.plan.quiet_ms;
            caveats.extend(quiet_hosts::await_quiet(hosts, quiet_ms, lab, &mut first.trial)?);
        }
        match self.begin_parts(parts).and_then(|()| self.make_one_pass(parts)) {
            Ok(()) => {}
            Err(TrialError::Failed(why)) => {
                for part in &mut *parts {
                    part.group.settle(&mut self.hosts)?;
                    part.trial.state = self.not_made(why.clone());
                }
            }
            Err(over) => return Err(over),
        }
        let on_one_machine = self.about_shared_machines(parts);
        for part in &mut *parts {
            let shared = shared_kernel::check(part.spec, self.hosts.kernels());
            for pass in &mut part.trial.passes {
                pass.caveats.extend(caveats.iter().chain(&on_one_machine).chain(&shared).cloned());
            }
            setup::after_trial(&mut self.hosts, part.spec, &mut part.trial);
        }
        self.end_parts(parts);
        Ok(())
    }

    fn begin_parts(&mut self, parts: &mut [Part<'_>]) -> Result<(), TrialError> {
        let keep = self.hosts.keeps_directories();
        for part in parts {
            let trial = part.trial.position;
            let work = TrialDirectory { name: &part.work_name, keep, trial };
            let begun = self.begin(&mut part.group, part.spec, work);
            part.trial.facts.extend(self.hosts.take_facts());
            part.trial.facts.extend(begun?);
        }
        Ok(())
    }

    /// Makes the only pass of each load, all at the same time.
    fn make_one_pass(&mut self, parts: &mut [Part<'_>]) -> Result<(), TrialError> {
        let names: Vec<String> = parts.iter().map(|part| part.name().to_owned()).collect();
        let mut passes = Vec::with_capacity(parts.len());
        let mut facts: Vec<&mut Vec<Fact>> = Vec::with_capacity(parts.len());
        let mut states = Vec::with_capacity(parts.len());
        for part in parts {
            let Part { spec, group, trial, .. } = part;
            let Some(&pass) = spec.passes().first() else { continue };
            let fault_schedule = FaultSchedule::default();
            let stop = self.stop;
            passes.push(OnePass { spec, pass, group, stop, observe: None, fault_schedule });
            facts.push(&mut trial.facts);
            states.push((&mut trial.state, &mut trial.passes));
        }
        if let Some(first) = passes.first_mut() {
            (self.observe)(Event::PassBegun(first.pass));
            // Live progress is that of the first load.
            first.observe = Some(&mut *self.observe);
        }
        let ends = make_at_once(&mut passes, &names, &mut self.hosts, &mut facts)?;
        drop(passes);
        for ((PassEnd { result, facts: found, broken, .. }, facts), (state, passes)) in
            ends.into_iter().zip(facts).zip(states)
        {
            (self.observe)(Event::PassEnded(&result));
            passes.push(result);
            facts.extend(found);
            *state = match broken {
                None => TrialState::Done,
                Some(TrialAbort::Stopped) => TrialState::Interrupted,
                Some(TrialAbort::Failed(reason)) => TrialState::Failed(reason),
            };
        }
        Ok(())
    }

    /// Ends all trials, and removes their files even if some of them failed.
    fn end_parts(&mut self, parts: &mut [Part<'_>]) {
        let mut is_left = false;
        for part in parts {
            let Err(TrialError::Failed(reason)) = part.group.end(&mut self.hosts) else { continue };
            is_left = true;
            let name = &part.work_name;
            let left = format!("the working directory `{name}` was not removed: {reason}");
            (self.observe)(Event::Left(&left));
            part.trial.state = TrialState::Failed(match &part.trial.state {
                TrialState::Done => format!("cleanup: {reason}"),
                TrialState::Interrupted => format!("interrupted; cleanup: {reason}"),
                TrialState::Failed(first) => format!("{first}; cleanup: {reason}"),
            });
        }
        (self.observe)(Event::DirectoryEnded { is_left });
    }

    /// Raises a note if agents of different loads work on one machine, whose CPUs they share.
    fn about_shared_machines(&self, parts: &[Part<'_>]) -> Option<Caveat> {
        let kernels = self.hosts.kernels();
        let mut on_kernel: Vec<(&String, &str)> = Vec::new();
        for part in parts {
            for host in part.spec.client_hosts() {
                if let Some(kernel) = kernels.get(&host.name)
                    && !on_kernel.contains(&(kernel, part.name()))
                {
                    on_kernel.push((kernel, part.name()));
                }
            }
        }
        let mut groups: Vec<(&String, Vec<&str>)> = Vec::new();
        for (kernel, name) in on_kernel {
            match groups.iter_mut().find(|(known, _)| *known == kernel) {
                Some((_, names)) => names.push(name),
                None => groups.push((kernel, vec![name])),
            }
        }
        let sharing = groups.into_iter().map(|(_, names)| names).find(|names| names.len() > 1)?;
        let names = sharing.join(" and ");
        let source = "/proc/sys/kernel/random/boot_id";
        Some(CaveatCode::SharedHost.because(format!(
            "the loads {names} worked on the same machine, so they also shared its CPUs ({source})"
        )))
    }
}

/// Prepares the passes of all loads, starts them at one instant, and returns their results.
fn make_at_once(
    passes: &mut [OnePass<'_, '_>],
    names: &[String],
    hosts: &mut Hosts<'_>,
    facts: &mut [&mut Vec<Fact>],
) -> Result<Vec<PassEnd>, TrialError> {
    for one in &mut *passes {
        one.prepare(hosts)?;
    }
    let caveats = set_up_hosts(passes, hosts, facts)?;
    for one in &mut *passes {
        one.arm(hosts)?;
    }
    let mut starts = Vec::with_capacity(passes.len());
    for one in &mut *passes {
        // Even a single agent waits for the instant at which the others start.
        starts.push(Start::sampled(one.group.sample_clocks(hosts)?));
    }
    let lead_ns = starts.iter().map(Start::lead_ns).max().unwrap_or(0);
    let at_ns = hosts.now_ns().saturating_add(lead_ns.saturating_mul(passes.len() as u64));
    let mut before = Vec::with_capacity(passes.len());
    let mut started = Vec::with_capacity(passes.len());
    for (one, start) in passes.iter_mut().zip(starts) {
        let late_ms = one.spec.named_load.as_ref().map_or(0, |load| load.start_ms);
        let own_ns = at_ns.saturating_add(late_ms.saturating_mul(1_000_000));
        before.push(start.clocks.first().copied());
        started.push(one.start_at(hosts, start, own_ns)?);
    }
    let mut ends = Vec::with_capacity(passes.len());
    let mut times = Vec::with_capacity(passes.len());
    for (number, (one, start)) in passes.iter_mut().zip(started).enumerate() {
        let end = one.finish(hosts, facts[number], start)?;
        let mut span = end.span;
        if one.group.is_alone()
            && let Some(before) = before[number]
            && let Some(after) = one.group.sample_clocks(hosts)?.first().copied()
        {
            let clock = Mapping { before, after };
            for at_ns in [
                &mut span.first_start_ns,
                &mut span.last_start_ns,
                &mut span.first_end_ns,
                &mut span.last_end_ns,
            ] {
                *at_ns = clock.here_ns(*at_ns);
            }
        }
        times.push(LoadTime { span, warmup_ns: one.spec.warmup_ns() });
        ends.push(end);
    }
    if let Some(first) = passes.first()
        && let Some(lab) = first.spec.lab.as_deref()
        && let Some(end) = ends.first_mut()
    {
        server_telemetry::end(hosts, lab, &mut end.result).map_err(TrialError::Failed)?;
        for end in ends.iter_mut().filter(|end| end.result.pass.reads()) {
            end.result.caveats.extend(caveats.clone());
        }
        // The system drains what all of them wrote; the first one that did shows how long it took.
        if let Some(end) = ends.iter_mut().find(|end| end.result.pass.writes()) {
            let (now_ns, stop) = (hosts.now_ns(), first.stop);
            let drained = write_back::drain(hosts, stop, lab, now_ns, &mut end.result);
            drained.map_err(TrialError::Failed)?;
        }
    }
    for (number, end) in ends.iter_mut().enumerate() {
        add_overlap(&mut end.result, number, names, &times);
    }
    Ok(ends)
}

/// Drops the caches that a load must not read from, and starts to watch the servers.
fn set_up_hosts(
    passes: &mut [OnePass<'_, '_>],
    hosts: &mut Hosts<'_>,
    facts: &mut [&mut Vec<Fact>],
) -> Result<Vec<Caveat>, TrialError> {
    let Some(lab) = passes.first().and_then(|first| first.spec.lab.as_deref()) else {
        return Ok(Vec::new());
    };
    for one in &mut *passes {
        // The mounts may be made again, so nobody may hold a file.
        one.group.ask_all(hosts, |_| request::release())?;
    }
    let reader = passes.iter().max_by_key(|one| setup::steps_before(one.spec, lab, one.pass));
    let mut caveats = Vec::new();
    if let Some(OnePass { spec, pass, stop, .. }) = reader {
        caveats.extend(write_back::settle(hosts, stop, lab)?);
        let (seen, not_evicted) = setup::before_pass(hosts, stop, spec, lab, *pass)?;
        facts[0].extend(seen);
        caveats.extend(not_evicted);
    }
    server_telemetry::begin(hosts, lab).map_err(TrialError::Failed)?;
    Ok(caveats)
}

/// Adds a caveat if the others left a load alone for a part of its window.
fn add_overlap(result: &mut PassResult, number: usize, names: &[String], times: &[LoadTime]) {
    let mut others = Vec::with_capacity(times.len());
    for (other, (name, time)) in names.iter().zip(times).enumerate() {
        if other != number {
            others.push((name.as_str(), *time));
        }
    }
    result.caveats.extend(about_overlap(times[number], &others));
}
