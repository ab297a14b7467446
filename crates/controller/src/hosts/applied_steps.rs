//! Record of the steps applied to the hosts of a campaign, in order.
//!
//! [`AppliedSteps`] only keeps the record; [`crate::hosts::setup`] applies and undoes steps. The
//! steps of a lost host are removed from it, because its agent undoes them on its own.

use model::{
    Action, Caveat, CaveatCode, Difference, EffectiveSettings, Fact, Fresh, LabStep, RunSpec,
};

/// A step that was applied, and its outcome.
pub(crate) struct AppliedStep {
    pub(crate) step: LabStep,
    /// Settings in effect since then.
    pub(crate) effective: EffectiveSettings,
}

/// The applied steps, oldest first.
#[derive(Default)]
pub(crate) struct AppliedSteps {
    pub(crate) steps: Vec<AppliedStep>,
    /// The run that the hosts were last set up for.
    last_run: Option<RunSpec>,
}

impl AppliedSteps {
    /// Returns true if a trial of this run must start with freshly made exports and mounts, and
    /// records the run as the latest one.
    pub(crate) fn begins_fresh(&mut self, spec: &RunSpec, fresh: Fresh) -> bool {
        let is_same = self.last_run.as_ref() == Some(spec);
        if !is_same {
            self.last_run = Some(spec.clone());
        }
        match fresh {
            Fresh::Campaign => false,
            Fresh::Run => !is_same,
            Fresh::Trial | Fresh::Pass => true,
        }
    }

    /// Returns the steps without their outcomes.
    pub(crate) fn to_steps(&self) -> Vec<LabStep> {
        self.steps.iter().map(|applied| applied.step.clone()).collect()
    }

    /// Removes the steps of a host whose agent undoes them.
    pub(crate) fn forget_host(&mut self, host: &str) {
        self.keep_of_host(host, 0);
    }

    /// Removes the steps of a host except for the first `count`.
    pub(crate) fn keep_of_host(&mut self, host: &str, count: usize) {
        let mut left = count;
        self.steps.retain(|applied| {
            let is_other = applied.step.host != host;
            if !is_other && left > 0 {
                left -= 1;
                return true;
            }
            is_other
        });
    }

    /// Returns the settings in effect, scoped to their hosts.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let mut facts: Vec<Fact> = Vec::new();
        for AppliedStep { step, effective } in &self.steps {
            let new = on_host(&step.host, effective.facts.clone());
            // The kernel's server is changed in several steps, and the last one knows the result.
            if matches!(step.action, Action::Nfsd(_) | Action::NfsdModes(_)) {
                let is_new = |old: &Fact| {
                    new.iter().any(|fact| fact.scope == old.scope && fact.name == old.name)
                };
                facts.retain(|old| !is_new(old));
            }
            facts.extend(new);
        }
        facts
    }

    /// Returns a sentence for each setting that differs from what was requested.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for AppliedStep { step, effective } in &self.steps {
            for Difference { name, requested, found, source } in &effective.differences {
                let host = &step.host;
                sentences.push(format!(
                    "{name} on host {host}: requested {requested}, found {found} ({source})"
                ));
            }
        }
        sentences
    }

    /// Returns a caveat for each of [`Self::differences`].
    pub(crate) fn caveats(&self) -> Vec<Caveat> {
        self.differences()
            .into_iter()
            .map(|sentence| CaveatCode::OptionNotEffective.because(sentence))
            .collect()
    }
}

/// Sets the host as scope of facts reported by its agent.
pub(crate) fn on_host(host: &str, mut facts: Vec<Fact>) -> Vec<Fact> {
    for fact in &mut facts {
        host.clone_into(&mut fact.scope);
    }
    facts
}

#[cfg(test)]
mod tests {
    use model::Workload;

    use super::*;

    #[test]
    fn reuses_steps_of_previous_run() {
        let mut steps = AppliedSteps::default();
        let one = RunSpec::null(Workload::Stream);
        let other = RunSpec::null(Workload::Mixed);
        assert!(steps.begins_fresh(&one, Fresh::Run));
        assert!(!steps.begins_fresh(&one, Fresh::Run));
        assert!(steps.begins_fresh(&other, Fresh::Run));
        for (fresh, is_fresh) in
            [(Fresh::Campaign, false), (Fresh::Trial, true), (Fresh::Pass, true)]
        {
            assert_eq!(steps.begins_fresh(&other, fresh), is_fresh, "{fresh}");
        }
    }
}
