//! Commands that a system's recipe has for data that it holds back: drain, evict, and the check of
//! an object.

use model::action::SystemCommand;
use model::system::{FilledRecipe, PlacedCommands};
use model::{Action, LabSpec, LabStep, System};

use super::systems::{context, fill_in};
use super::{ComposeError, step};

/// How to wait until a system has drained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainSteps {
    /// Commands that are run once before.
    pub run: Vec<LabStep>,
    /// Commands that are repeated until all of them succeed.
    pub check: Vec<LabStep>,
    /// What they print then; empty if their exit codes show it.
    pub until: String,
    /// Time limit in seconds.
    pub within_s: u64,
}

/// How to empty a system's caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictSteps {
    /// Commands that empty them.
    pub run: Vec<LabStep>,
    /// Commands that print how much they contain.
    pub check: Vec<LabStep>,
    /// What these print for an empty cache.
    pub empty: String,
}

/// How to tell whether a file is in a system's object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSteps {
    /// Command that succeeds if it is.
    pub check: LabStep,
    /// How long to wait for it, in seconds.
    pub within_s: u64,
}

/// Returns how to wait until the run's system has drained, if its recipe says so.
///
/// # Errors
/// If the recipe cannot be filled in.
pub fn drain_of_system(spec: &LabSpec) -> Result<Option<DrainSteps>, ComposeError> {
    let Some(system) = spec.system.as_deref().filter(|system| system.recipe.drain.is_some()) else {
        return Ok(None);
    };
    let filled = fill_in(spec, system)?;
    let commands = |words: &PlacedCommands| commands(spec, system, &filled, words);
    Ok(filled.drain.as_ref().map(|drain| DrainSteps {
        run: commands(&drain.run),
        check: commands(&drain.check),
        until: drain.until.clone(),
        within_s: drain.within_s,
    }))
}

/// Returns how to empty the caches of the run's system, if its recipe says so.
///
/// # Errors
/// If the recipe cannot be filled in.
pub fn evict_of_system(spec: &LabSpec) -> Result<Option<EvictSteps>, ComposeError> {
    let Some(system) = spec.system.as_deref().filter(|system| system.recipe.evict.is_some()) else {
        return Ok(None);
    };
    let filled = fill_in(spec, system)?;
    let commands = |words: &PlacedCommands| commands(spec, system, &filled, words);
    Ok(filled.evict.as_ref().map(|evict| EvictSteps {
        run: commands(&evict.run),
        check: commands(&evict.check),
        empty: evict.empty.clone(),
    }))
}

/// Returns how to tell whether a file of the run's system is in its object store, if its recipe
/// says so. The path is relative to the root of the file system.
///
/// # Errors
/// If the recipe cannot be filled in.
pub fn object_of_system(spec: &LabSpec, file: &str) -> Result<Option<ObjectSteps>, ComposeError> {
    let Some(system) = spec.system.as_deref().filter(|system| system.recipe.object.is_some())
    else {
        return Ok(None);
    };
    let filled = fill_in(spec, system)?;
    let Some(object) = &filled.object else { return Ok(None) };
    let words = object.run.iter().map(|word| word.replace("{file}", file)).collect();
    let mut check = commands(spec, system, &filled, &vec![(0, words)]);
    let within_s = object.within_s;
    Ok(check.pop().map(|check| ObjectSteps { check, within_s }))
}

fn commands(
    spec: &LabSpec,
    system: &System,
    filled: &FilledRecipe,
    commands: &PlacedCommands,
) -> Vec<LabStep> {
    let hosts = spec.system_hosts();
    let mut steps = Vec::new();
    for (host, run) in commands {
        let command = SystemCommand {
            system: system.recipe.name.clone(),
            context: context(&system.recipe, &filled.hosts[*host].environment),
            run: run.clone(),
        };
        steps.push(step(hosts[*host], Action::SystemCommand(command)));
    }
    steps
}
