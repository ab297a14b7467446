//! Command-line flags, which take precedence over the plan.
//!
//! Values are the text that was typed, and go through the same parsers as those of the plan; an
//! error names the flag. A flag replaces the value in every place where the plan sets it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::setting::{Range, Setting};
use model::{BackendKind, Workload};

use crate::parse::level::{self, in_range, read_integer};
use crate::parse::plan::check_plan_name;
use crate::parse::repetition;
use crate::parse::requirement::parse_requirements;
use crate::parse::server::read_memory;
use crate::parse::values::{backend_named, workload_named};
use crate::syntax::error::{Fault, Located, PlanError, PlanPosition};
use crate::syntax::limits;
use crate::syntax::raw::{RawPlan, RawWorkload, Scale};
use crate::syntax::repetition::RawRepetition;
use crate::syntax::target::TargetArg;
use crate::syntax::text::join_with_or;

/// Values of flags; empty and `None` keep the plan's value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Value of `--name`.
    pub name: Option<String>,
    /// Value of `--scale`: the factor for the sizes, times and counts of the plan, not for those of
    /// flags.
    pub scale: Option<String>,
    /// Value of `--trials`.
    pub trials: Option<String>,
    /// Value of `--discard`.
    pub discard: Option<String>,
    /// Value of `--until`.
    pub until: Option<String>,
    /// Value of `--budget`.
    pub budget: Option<String>,
    /// Value of `--warmup-trials`.
    pub warmup_trials: Option<String>,
    /// Value of `--order`.
    pub order: Option<String>,
    /// Value of `--interference`.
    pub interference: Option<String>,
    /// Value of `--seed`.
    pub seed: Option<String>,
    /// Values of `--require`: limits in addition to those of the plan.
    pub require: Vec<String>,
    /// Values of `--with`: loads to run beside those of the plan.
    pub with_loads: Vec<String>,
    /// Value of `--server-memory`.
    pub server_memory: Option<String>,
    /// Value of `--server-threads`.
    pub server_threads: Option<String>,
    /// Values of `--workload`: use only these, and add a missing one with its defaults.
    pub workload: Vec<String>,
    /// Values of `--backend`: restrict each target to those that fit it.
    pub backend: Vec<String>,
    /// Value of `--tls-ca`, for every server given by its address.
    pub tls_ca: Option<PathBuf>,
    /// Values of the flags of settings, one or more levels each.
    pub settings: BTreeMap<Setting, Vec<String>>,
}

impl Overrides {
    /// Adds the levels of a setting's flag.
    #[must_use]
    pub fn with(mut self, setting: Setting, levels: &[&str]) -> Self {
        self.settings.insert(setting, levels.iter().map(|level| (*level).to_owned()).collect());
        self
    }

    /// Keeps only the values whose key, such as `io_size` or `trials`, satisfies the predicate.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        let texts = [
            ("name", &mut self.name),
            ("scale", &mut self.scale),
            ("trials", &mut self.trials),
            ("discard", &mut self.discard),
            ("until", &mut self.until),
            ("budget", &mut self.budget),
            ("warmup_trials", &mut self.warmup_trials),
            ("order", &mut self.order),
            ("interference", &mut self.interference),
            ("seed", &mut self.seed),
            ("server_memory", &mut self.server_memory),
            ("server_threads", &mut self.server_threads),
        ];
        for (key, text) in texts {
            if !is_wanted(key) {
                *text = None;
            }
        }
        let lists = [
            ("workload", &mut self.workload),
            ("backend", &mut self.backend),
            ("require", &mut self.require),
            ("with", &mut self.with_loads),
        ];
        for (key, words) in lists {
            if !is_wanted(key) {
                words.clear();
            }
        }
        if !is_wanted("tls_ca") {
            self.tls_ca = None;
        }
        self.settings.retain(|setting, _| is_wanted(setting.key()));
    }
}

impl RawPlan {
    /// Applies default flags: only if the plan does not set the value, and only if they fit its
    /// targets.
    pub fn apply_defaults(&mut self, mut defaults: Overrides) -> Result<(), PlanError> {
        defaults.retain(|key| !self.has_written(key));
        defaults.backend.retain(|name| match backend_named(name) {
            Ok(backend) => self.targets.iter().any(|it| it.what.backends().contains(&backend)),
            // An unknown value is refused below.
            Err(_) => true,
        });
        self.apply(&defaults)?;
        // Default flags are meant for runs of all kinds, so one without effect is not an error.
        for &setting in defaults.settings.keys() {
            let levels = self.factors.get(setting).unwrap_or_default().iter();
            let unwritten: Vec<_> =
                levels.map(|level| Located::unwritten(level.value.clone())).collect();
            if !unwritten.is_empty() {
                self.factors.insert(setting, unwritten);
            }
        }
        Ok(())
    }

    /// Returns true if the plan sets a key itself.
    fn has_written(&self, key: &str) -> bool {
        let repetition = &self.repetition;
        match key {
            // A plan from a file always has these three; one made from the command line has none.
            "name" | "workload" | "backend" => {
                self.workloads.iter().any(|it| it.kind.place != PlanPosition::Whole)
            }
            "trials" => repetition.trials.is_some(),
            "discard" => repetition.discard.is_some(),
            "until" => repetition.until_permille.is_some(),
            "budget" => repetition.budget_ms.is_some(),
            "warmup_trials" => repetition.warmup_trials.is_some(),
            "order" => repetition.order.is_some(),
            "interference" => repetition.interference.is_some(),
            "seed" => self.seed.is_some(),
            "require" => !self.requirements.is_empty(),
            "server_memory" => self.server.memory_bytes.is_some(),
            "server_threads" => self.server.threads.is_some(),
            "tls_ca" => !self.targets.iter().any(|it| match &it.what {
                TargetArg::Nfs(address) => address.tls.ca.is_none(),
                _ => false,
            }),
            _ => Setting::ALL.into_iter().any(|it| it.key() == key && self.has_levels(it)),
        }
    }

    /// Returns true if any part of the plan has levels of a setting.
    fn has_levels(&self, setting: Setting) -> bool {
        self.factors.get(setting).is_some()
            || self.workloads.iter().any(|it| it.settings.get(setting).is_some())
            || self.targets.iter().any(|it| {
                it.what.settings().is_some_and(|settings| settings.get(setting).is_some())
            })
    }

    /// Applies flags, which take precedence over the plan.
    ///
    /// # Errors
    /// If the value of a flag is invalid, or none of the backends fits any target.
    pub fn apply(&mut self, flags: &Overrides) -> Result<(), PlanError> {
        self.apply_all(flags).map_err(|error| error.in_source(&self.source_name))
    }

    fn apply_all(&mut self, flags: &Overrides) -> Result<(), PlanError> {
        if let Some(name) = &flags.name {
            PlanPosition::Flag("--name").accept(check_plan_name(name))?;
            self.name.clone_from(name);
        }
        if let Some(scale) = read_one(flags.scale.as_ref(), "--scale", Scale::parse)? {
            self.scale(scale.value);
        }
        self.apply_repetition(flags)?;
        self.apply_numbers(flags)?;
        self.apply_workloads(&flags.workload)?;
        self.apply_backends(&flags.backend)?;
        self.apply_tls_ca(flags.tls_ca.as_deref())?;
        self.requirements.extend(parse_requirements(&flags.require, "--require")?);
        for (&setting, levels) in &flags.settings {
            let place = PlanPosition::Flag(setting.flag());
            let mut read = Vec::with_capacity(levels.len());
            for text in levels {
                for value in place.accept(level::read_levels(setting, text))?.value {
                    read.push(Located { value, place });
                }
            }
            if read.is_empty() {
                continue;
            }
            // Otherwise the plan's more specific values would win over the factors.
            for workload in &mut self.workloads {
                workload.settings.remove(setting);
            }
            for target in &mut self.targets {
                if let Some(known) = target.what.settings_mut() {
                    known.remove(setting);
                }
            }
            self.factors.insert(setting, read);
        }
        self.add_loads(&flags.with_loads)
    }

    fn apply_repetition(&mut self, flags: &Overrides) -> Result<(), PlanError> {
        let until = flags.until.as_ref();
        let warmup = flags.warmup_trials.as_ref();
        let interference = flags.interference.as_ref();
        let trials = read_count(flags.trials.as_ref(), "--trials", limits::TRIALS)?;
        if let Some(trials) = trials
            && trials.value <= limits::UNTIL_TRIALS_MIN
        {
            // A fixed number of trials is always completed, so the plan's `until` no longer
            // applies.
            self.repetition.until_permille = None;
        }
        self.repetition.replace(RawRepetition {
            trials,
            discard: read_one(flags.discard.as_ref(), "--discard", repetition::discard_named)?,
            until_permille: read_one(until, "--until", repetition::until_permille)?,
            budget_ms: read_one(flags.budget.as_ref(), "--budget", repetition::budget_ms)?,
            warmup_trials: read_count(warmup, "--warmup-trials", limits::WARMUP_TRIALS)?,
            order: read_one(flags.order.as_ref(), "--order", repetition::order_named)?,
            interference: read_one(interference, "--interference", repetition::interference_named)?,
        });
        Ok(())
    }

    fn apply_numbers(&mut self, flags: &Overrides) -> Result<(), PlanError> {
        let range = limits::SERVER_THREADS;
        let threads = read_count(flags.server_threads.as_ref(), "--server-threads", range)?;
        let memory = read_one(flags.server_memory.as_ref(), "--server-memory", read_memory)?;
        let seed = read_one(flags.seed.as_ref(), "--seed", read_integer)?;
        self.seed = seed.or(self.seed);
        self.server.memory_bytes = memory.or(self.server.memory_bytes);
        self.server.threads = threads.or(self.server.threads);
        Ok(())
    }

    fn apply_workloads(&mut self, names: &[String]) -> Result<(), PlanError> {
        let kinds: Vec<Workload> = read_each(names, "--workload", workload_named)?;
        if kinds.is_empty() {
            return Ok(());
        }
        self.workloads.retain(|workload| kinds.contains(&workload.kind.value));
        for kind in kinds {
            if !self.workloads.iter().any(|workload| workload.kind.value == kind) {
                self.workloads
                    .push(RawWorkload::with_defaults(kind, PlanPosition::Flag("--workload")));
            }
        }
        Ok(())
    }

    fn apply_backends(&mut self, names: &[String]) -> Result<(), PlanError> {
        let mut backends: Vec<BackendKind> = Vec::new();
        for backend in read_each(names, "--backend", backend_named)? {
            if !backends.contains(&backend) {
                backends.push(backend);
            }
        }
        if backends.is_empty() {
            return Ok(());
        }
        for target in &mut self.targets {
            target.backends.clone_from(&backends);
            target.backends.retain(|backend| target.what.backends().contains(backend));
        }
        if self.targets.iter().all(|target| target.backends.is_empty()) {
            return Err(self.no_backend_fits(names));
        }
        for workload in &mut self.workloads {
            workload.backends = None;
        }
        Ok(())
    }

    fn apply_tls_ca(&mut self, path: Option<&Path>) -> Result<(), PlanError> {
        let Some(path) = path else { return Ok(()) };
        let mut used = false;
        for target in &mut self.targets {
            if let TargetArg::Nfs(address) = &mut target.what {
                address.tls.ca = Some(path.to_owned());
                used = true;
            }
        }
        if used {
            return Ok(());
        }
        Err(Fault::new("no target of this plan has an nfs:// address")
            .hint("the in-memory server's certificate is always trusted")
            .at(PlanPosition::Flag("--tls-ca")))
    }

    fn no_backend_fits(&self, names: &[String]) -> PlanError {
        let mut fitting: Vec<&str> = Vec::new();
        for target in &self.targets {
            for backend in target.what.backends() {
                if !fitting.contains(&backend.name()) {
                    fitting.push(backend.name());
                }
            }
        }
        Fault::new(format!("`{}` applies to no target of this plan", names.join(",")))
            .hint(format!("write {}", join_with_or(&fitting)))
            .at(PlanPosition::Flag("--backend"))
    }
}

fn read_count(
    given: Option<&String>,
    flag: &'static str,
    range: Range,
) -> Result<Option<Located<u32>>, PlanError> {
    read_one(given, flag, |text| {
        let legal = limits::span(range, &|number| number.to_string());
        Ok(in_range(read_integer(text)?, range, &legal, text)? as u32)
    })
}

fn read_one<T>(
    given: Option<&String>,
    flag: &'static str,
    read: impl Fn(&str) -> Result<T, Fault>,
) -> Result<Option<Located<T>>, PlanError> {
    match given {
        Some(text) => Ok(Some(PlanPosition::Flag(flag).accept(read(text.trim()))?)),
        None => Ok(None),
    }
}

fn read_each<T>(
    given: &[String],
    flag: &'static str,
    read: impl Fn(&str) -> Result<T, Fault>,
) -> Result<Vec<T>, PlanError> {
    let mut values = Vec::with_capacity(given.len());
    for text in given {
        values.push(PlanPosition::Flag(flag).accept(read(text.trim()))?.value);
    }
    Ok(values)
}
