//! Settings of hosts that don't go together, with each other or with what a target says.
//!
//! What a kernel can't do is found out where it is tried; what no hosts could do is refused here.

use model::options::{check_mount_options, check_quotable_path, parse_mkfs_options};
use model::setting::Setting;
use model::{BackendKind, DataPath, FileSystem, LabSpec, Raid, RunSpec, ServerKind};

use super::Written;
use crate::written::error::{Fault, Place, PlanError};
use crate::written::raw::{RawPlan, RawTarget};

/// Refuses what can't be set up for a run.
pub(super) fn check(run: &RunSpec, written: &Written<'_>) -> Result<(), PlanError> {
    let Some(lab) = run.lab.as_deref() else { return Ok(()) };
    let fault = |settings: &[Setting], what: String, hint: &str| {
        Err(written.fault(run, settings, Fault::new(what).hint(hint)))
    };
    check_storage_options(run, lab, written)?;
    if lab.is_served()
        && matches!(lab.serving.kind, ServerKind::Ganesha | ServerKind::Unfs3)
        && let Err(error) = check_quotable_path(lab.storage.place())
        && !lab.storage.place().as_os_str().is_empty()
    {
        // It stands between quotes in a file of theirs.
        let what = format!("{}: {}", lab.serving.kind, error.what);
        return fault(&[Setting::ServerKind], what, &error.hint);
    }
    if let Some((what, hint)) = of_storage(lab) {
        return fault(&[Setting::Raid, Setting::FileSystem], what, hint);
    }
    if let Some((what, hint)) = of_hosts(lab) {
        return fault(&[Setting::DataPath], what, hint);
    }
    if lab.is_served()
        && lab.serving.kind == ServerKind::Running
        && lab.storage.file_system != FileSystem::Existing
    {
        let what = format!("a running server doesn't serve a new {}", lab.storage.file_system);
        let hint = "file_system existing with the `directory` that it exports, or knfsd";
        return fault(&[Setting::ServerKind, Setting::FileSystem], what, hint);
    }
    if run.backend == BackendKind::Tcp && lab.serving.kind != ServerKind::Own {
        let what = format!("{} answers no TCP without RPC", lab.serving.kind);
        return fault(&[Setting::ServerKind], what, "server_kind dfsbench, or another backend");
    }
    let [mtu, rate, delay] = [Setting::Mtu, Setting::RateLimit, Setting::Delay];
    let tuning = &lab.tuning;
    let of_link = [
        (mtu, tuning.mtu_bytes.is_some()),
        (rate, tuning.rate_bits_per_s.is_some()),
        (delay, tuning.delay_us.is_some()),
    ];
    let nameless = lab.hosts().find(|host| host.interface.is_none());
    match (of_link.into_iter().find(|(_, changed)| *changed), nameless) {
        (Some((setting, _)), Some(host)) => {
            let what = format!("the interface of host `{}` is not known", host.name);
            fault(&[setting], what, "write `interface` in its [[host]], such as \"eth0\"")
        }
        _ => Ok(()),
    }
}

/// Parses the options of mkfs and of the server's mount, which depend on the file system.
fn check_storage_options(
    run: &RunSpec,
    lab: &LabSpec,
    written: &Written<'_>,
) -> Result<(), PlanError> {
    let storage = &lab.storage;
    if !lab.has_storage() {
        return Ok(());
    }
    let file_system = storage.file_system;
    if storage.is_formatted()
        && let Err(error) = parse_mkfs_options(file_system, &storage.format_options)
    {
        return Err(written.fault(run, &[Setting::FormatOptions], error.into()));
    }
    if file_system != FileSystem::Existing
        && let Err(error) = check_mount_options(file_system, &storage.mount_options)
    {
        return Err(written.fault(run, &[Setting::FsMountOptions], error.into()));
    }
    Ok(())
}

/// Devices that an array needs at least.
///
/// **Source:** md(4).
const fn devices_min(raid: Raid) -> usize {
    match raid {
        Raid::None => 1,
        Raid::Raid0 | Raid::Raid1 | Raid::Raid10 => 2,
        Raid::Raid5 => 3,
        Raid::Raid6 => 4,
    }
}

fn of_storage(lab: &LabSpec) -> Option<(String, &'static str)> {
    let storage = &lab.storage;
    if !lab.has_storage() {
        return None;
    }
    if storage.file_system == FileSystem::Existing && storage.directory.as_os_str().is_empty() {
        let hint = "write `directory` in the [[target]], or another file_system";
        return Some(("no directory of the server is named".to_owned(), hint));
    }
    let (has, needs) = (storage.devices.len(), devices_min(storage.raid));
    if !storage.is_formatted() || has >= needs {
        return None;
    }
    let what = match storage.raid {
        Raid::None => format!("{} needs a device", storage.file_system),
        raid => format!("raid {raid} needs {needs} devices, not {has}"),
    };
    Some((what, "write `devices` in the [[target]]; with `loop_size` they are files"))
}

fn of_hosts(lab: &LabSpec) -> Option<(String, &'static str)> {
    if !lab.leaves_server() {
        return None;
    }
    let path = lab.path;
    if lab.client.name == lab.server.name {
        let what = format!("data_path {path} needs a client beside `{}`", lab.server.name);
        return Some((what, "write `client` in the [[target]]"));
    }
    // An export is for the client that mounts it.
    let exported = !matches!(lab.serving.kind, ServerKind::Ganesha | ServerKind::Running);
    let seen = if path == DataPath::Network && exported { lab.hosts().count() } else { 1 };
    let lost = lab.hosts().take(seen).find(|host| host.reached_at().is_none())?;
    let other = if lost.name == lab.server.name { &lab.client } else { &lab.server };
    let what = format!("`{}` can't know where `{}` is", other.name, lost.name);
    Some((what, "write `address` in its [[host]]"))
}

/// Refuses what a target names and no run uses: it was meant to be used.
pub(crate) fn check_used(raw: &RawPlan, runs: &[RunSpec]) -> Result<(), PlanError> {
    for target in &raw.targets {
        let Some(lab) = target.what.lab() else { continue };
        let used = |by: &dyn Fn(&LabSpec) -> bool| {
            let of_target = runs.iter().filter(|run| run.target_name == target.name.value);
            let mut labs = of_target.filter_map(|run| run.lab.as_deref()).peekable();
            // Flags may have left none.
            labs.peek().is_none() || labs.any(by)
        };
        let existing =
            |lab: &LabSpec| lab.has_storage() && lab.storage.file_system == FileSystem::Existing;
        if let Some(directory) = &lab.directory
            && !used(&existing)
        {
            let hint = "leave it out, or ask for file_system existing";
            return Err(idle(target, "directory", directory.place, hint));
        }
        if let Some(devices) = &lab.devices
            && !used(&|lab| lab.has_storage() && lab.storage.is_formatted())
        {
            let hint = "leave them out, or ask for file_system ext4, xfs or btrfs";
            return Err(idle(target, "devices", devices.place, hint));
        }
    }
    Ok(())
}

fn idle(target: &RawTarget, key: &'static str, place: Place, hint: &str) -> PlanError {
    let what = format!("no run of `{}` uses it", target.name.value);
    Fault::new(what).hint(hint).of(key, place)
}
