//! What remains of a storage host after a power loss, and how to start it again.

use model::system::Restart;
use model::{Action, FileSystem, LabSpec, LabStep};

use super::compose;

/// Returns how many of the steps on the storage host survive a power loss: those that create file
/// systems on its devices, on which everything else builds.
///
/// # Errors
/// If not all files are on devices, or the system is set up from scratch when it starts. The error
/// is a sentence.
pub fn outlasts_power_loss(spec: &LabSpec) -> Result<usize, String> {
    if let Some(system) = &spec.system {
        let recipe = &system.recipe;
        let name = &recipe.name;
        if recipe.restart == Restart::Never {
            return Err(format!("{name} is recreated when it starts, so its files would be lost"));
        }
        let is_found =
            !matches!(spec.storage.file_system, FileSystem::Tmpfs | FileSystem::Existing);
        if recipe.restart == Restart::OnState && recipe.has_storage() && !is_found {
            let what = "its state must be on a file system on `devices`, or it cannot start again";
            return Err(format!("{name}: {what}"));
        }
    }
    if spec.servers().len() > 1 {
        return Err("its servers run on several hosts".to_owned());
    }
    let steps = compose(spec).map_err(|error| error.to_string())?;
    let is_on_keeper = |step: &&LabStep| step.host == spec.keeper().name;
    let on_keeper: Vec<&LabStep> = steps.iter().filter(is_on_keeper).collect();
    let is_format = |step: &&LabStep| matches!(step.action, Action::Format(_));
    let is_lost = |step: &&LabStep| {
        matches!(step.action, Action::LoopFile(_) | Action::Raid(_) | Action::Crypt(_))
    };
    if on_keeper.iter().any(is_lost) {
        return Err("its files are on loop devices, an array or an encrypted mapping; only file \
                    systems directly on `devices` survive a power loss"
            .to_owned());
    }
    let formatted = on_keeper.iter().take_while(|step| is_format(step)).count();
    if formatted < on_keeper.iter().filter(|step| is_format(step)).count() {
        return Err("kernel settings of the server do not survive a power loss".to_owned());
    }
    Ok(formatted)
}

/// Returns the action to apply instead of `action` after a power loss. A system that finds its
/// previous state is only started, not set up again.
pub fn after_power_loss(spec: &LabSpec, action: &Action) -> Action {
    match (action, &spec.system) {
        (Action::SystemSteps(steps), Some(system)) if system.recipe.restart == Restart::OnState => {
            Action::SystemSteps(steps.that_start_again())
        }
        _ => action.clone(),
    }
}

#[cfg(test)]
mod tests {
    use model::system::Recipe;
    use model::{FileSystem, Host, Storage, System, Tuning};

    use super::*;

    #[test]
    fn remounts_only_device_file_systems() {
        let host = |name: &str| Host { address: Some(name.to_owned()), ..Host::local(name) };
        let mut spec = LabSpec::new(host("s"), host("c"));
        let devices = vec!["/dev/vdb".into()];
        spec.storage = Storage { devices, file_system: FileSystem::Ext4, ..Storage::default() };
        assert_eq!(outlasts_power_loss(&spec), Ok(1));
        let memory = Storage { file_system: FileSystem::Tmpfs, ..Storage::default() };
        assert_eq!(outlasts_power_loss(&LabSpec { storage: memory, ..spec.clone() }), Ok(0));
        let refused = |spec: &LabSpec| outlasts_power_loss(spec).unwrap_err();
        let mut other = spec.clone();
        other.storage.loop_bytes = 1 << 30;
        let loops = refused(&other);
        other = spec.clone();
        let server_sysctls = vec![("vm.dirty_ratio".to_owned(), "5".to_owned())];
        other.tuning = Tuning { server_sysctls, ..Tuning::default() };
        let sysctls = refused(&other);
        other = spec;
        let recipe = Recipe { name: "plain".to_owned(), storage: true, ..Recipe::default() };
        other.system = Some(Box::new(System { recipe, ..System::default() }));
        let recreated = refused(&other);
        other.system.as_mut().unwrap().recipe.restart = Restart::AllSteps;
        assert_eq!(outlasts_power_loss(&other), Ok(1));
        other.system.as_mut().unwrap().recipe.restart = Restart::OnState;
        assert_eq!(outlasts_power_loss(&other), Ok(1));
        other.storage.file_system = FileSystem::Tmpfs;
        let memory = refused(&other);
        insta::assert_snapshot!([loops, sysctls, recreated, memory].join("\n"));
    }
}
