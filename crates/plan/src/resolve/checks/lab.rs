//! Checks of settings of hosts that don't go together, or that contradict the target.
//!
//! Combinations that no host could set up are refused here; missing features of a kernel only show
//! up when they are tried.

use model::options::{check_mount_options, check_quotable_path, parse_mkfs_options};
use model::setting::Setting;
use model::system::Restart;
use model::units::Size;
use model::{
    BackendKind, DataPath, FileSystem, Fresh, Invalidation, LabSpec, NfsVersion, Raid, RunSpec,
    ServerKind,
};

use super::WrittenSettings;
use crate::syntax::error::{Fault, PlanError, PlanPosition};
use crate::syntax::raw::{RawPlan, RawTarget};
use crate::syntax::text::join_with_or;

/// Refuses a run whose hosts cannot be set up.
pub(super) fn check(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let Some(lab) = run.lab.as_deref() else { return Ok(()) };
    check_storage_options(run, lab, written)?;
    let checks = [
        system_problem(run, lab),
        server_problem(run, lab),
        storage_problem(lab),
        path_problem(lab),
        link_problem(lab),
    ];
    match checks.into_iter().flatten().next() {
        Some(Problem { settings, what, hint }) => {
            Err(written.fault(run, &settings, Fault::new(what).hint(hint)))
        }
        None => Ok(()),
    }
}

/// Settings of hosts that cannot be combined.
struct Problem {
    /// The settings to change; the error is placed at the first one that was written.
    settings: Vec<Setting>,
    what: String,
    hint: String,
}

impl Problem {
    fn new(settings: &[Setting], what: String, hint: &str) -> Self {
        Self { settings: settings.to_vec(), what, hint: hint.to_owned() }
    }
}

/// Finds settings that a system, or a mount provided by the site, does not support.
fn system_problem(run: &RunSpec, lab: &LabSpec) -> Option<Problem> {
    if lab.has_server_kind() {
        return None;
    }
    if matches!(lab.path, DataPath::Disk | DataPath::Tunnel)
        && (lab.system.is_some() || lab.site_mount.is_some())
    {
        let what = format!("a target with `system` or `mount` has no data_path {}", lab.path);
        return Some(Problem::new(&[Setting::DataPath], what, "network or loopback"));
    }
    if let Some(mount) = &lab.site_mount {
        if mount.kind == "nfs4" && run.nfs().version < NfsVersion::V4_0 {
            let what = format!("a mount of type nfs4 is not NFS v{}", run.nfs().version);
            return Some(Problem::new(&[Setting::NfsVers], what, "nfsvers 4.1, or type nfs"));
        }
        if lab.own_client {
            let what = format!("backend {} does not work on a mount", run.backend);
            return Some(Problem::new(&[], what, "backend posix or uring"));
        }
        return None;
    }
    let system = lab.system.as_ref()?;
    let recipe = &system.recipe;
    if let Err(error) = recipe.check_settings(&lab.system_settings) {
        return Some(Problem::new(&[Setting::SystemSettings], error.what, &error.hint));
    }
    if lab.own_client && lab.system_nfs().is_none() && !lab.is_re_exported() {
        let what = format!("{} does not speak NFS, but backend {} does", recipe.name, run.backend);
        return Some(Problem::new(&[], what, "backend posix or uring, or access re-export"));
    }
    if let Some(nfs) = lab.system_nfs() {
        let version = run.nfs().version.name();
        if !nfs.versions.is_empty() && !nfs.versions.iter().any(|known| known == version) {
            let what = format!("{} does not serve NFS v{version}", recipe.name);
            let hint = format!("nfsvers {}", nfs.versions.join(", "));
            return Some(Problem::new(&[Setting::NfsVers], what, &hint));
        }
    }
    let stops = lab.invalidation >= Invalidation::ServerRemount || lab.fresh == Fresh::Pass;
    if stops && recipe.restart != Restart::AllSteps {
        let what = format!("{} is recreated by a restart, and its files are lost", recipe.name);
        let hint = "invalidation remount or less, fresh trial or less";
        return Some(Problem::new(&[Setting::Invalidation, Setting::Fresh], what, hint));
    }
    let makes_folders = recipe
        .folders
        .iter()
        .any(|folder| folder.starts_with("{storage}") || folder.starts_with("{state}"));
    if recipe.has_storage() && makes_folders && lab.storage.file_system == FileSystem::Existing {
        let what =
            format!("{} creates folders that stay behind on an existing file system", recipe.name);
        let hint = "write `devices` or `loop_size` in the [[target]], or file_system tmpfs";
        return Some(Problem::new(&[Setting::FileSystem], what, hint));
    }
    None
}

/// Finds settings that this kind of server does not support.
fn server_problem(run: &RunSpec, lab: &LabSpec) -> Option<Problem> {
    if !lab.has_server_kind() && lab.is_served() {
        return None;
    }
    let kind = lab.serving.kind;
    let storage = &lab.storage;
    let directory = storage.place();
    // These servers write the path between quotes in their configuration file.
    if lab.is_served()
        && matches!(kind, ServerKind::Ganesha | ServerKind::Unfs3)
        && !directory.as_os_str().is_empty()
        && let Err(error) = check_quotable_path(directory)
    {
        let what = format!("{kind}: {}", error.what);
        return Some(Problem::new(&[Setting::ServerKind], what, &error.hint));
    }
    if lab.is_served() && kind == ServerKind::Running && storage.file_system != FileSystem::Existing
    {
        let what = format!("a running server doesn't serve a new {}", storage.file_system);
        let hint = "file_system existing with the `directory` that it exports, or knfsd";
        return Some(Problem::new(&[Setting::ServerKind, Setting::FileSystem], what, hint));
    }
    let exports = lab.exports().len();
    if lab.is_served() && exports > 1 {
        if !matches!(kind, ServerKind::Knfsd | ServerKind::Running) {
            let what = format!("{kind} serves one directory, not {exports}");
            let hint = "server_kind knfsd, or spread alone";
            return Some(Problem::new(&[Setting::ServerKind], what, hint));
        }
        if lab.own_client {
            let what = format!("backend {} works on one export, not on {exports}", run.backend);
            let hint = "backend posix or uring, or spread alone";
            return Some(Problem::new(&[Setting::ServerKind], what, hint));
        }
    }
    // Linux, fs/nfsd/nfsctl.c, write_maxblksize: the rest is cut off.
    if let Some(bytes) = lab.serving.max_block_bytes
        && !bytes.is_multiple_of(1 << 10)
    {
        let what = format!("{bytes} B is not a multiple of 1 KiB");
        let hint = format!("the kernel would use {}", Size(u64::from(bytes >> 10 << 10)));
        return Some(Problem::new(&[Setting::MaxBlockSize], what, &hint));
    }
    if run.backend == BackendKind::Tcp && kind != ServerKind::Own {
        let what = format!("{kind} does not answer TCP without RPC");
        let hint = "server_kind dfsbench, or another backend";
        return Some(Problem::new(&[Setting::ServerKind], what, hint));
    }
    None
}

/// Finds a setting of network interfaces for hosts whose interfaces are not known.
fn link_problem(lab: &LabSpec) -> Option<Problem> {
    let tuning = &lab.tuning;
    let setting = if tuning.mtu_bytes.is_some() {
        Setting::Mtu
    } else if tuning.rate_bits_per_s.is_some() {
        Setting::RateLimit
    } else if tuning.delay_us.is_some() {
        Setting::Delay
    } else {
        return None;
    };
    let host = lab.hosts().find(|host| host.interface.is_none())?;
    let what = format!("the interface of host `{}` is not known", host.name);
    let hint = "write `interface` in its [[host]], such as \"eth0\"";
    Some(Problem::new(&[setting], what, hint))
}

/// Parses the options of mkfs and of the server's mount, which depend on the file system.
fn check_storage_options(
    run: &RunSpec,
    lab: &LabSpec,
    written: &WrittenSettings<'_>,
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

/// Minimum number of devices of an array.
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

/// Finds what is missing for the file system of the server.
fn storage_problem(lab: &LabSpec) -> Option<Problem> {
    let settings = [Setting::Raid, Setting::FileSystem];
    let storage = &lab.storage;
    if !lab.has_storage() {
        return None;
    }
    if storage.file_system == FileSystem::Existing && storage.directory.as_os_str().is_empty() {
        let hint = "write `directory` in the [[target]], or another file_system";
        return Some(Problem::new(
            &settings,
            "no directory of the server is named".to_owned(),
            hint,
        ));
    }
    if storage.is_formatted() && storage.is_spread && storage.raid != Raid::None {
        let what = format!("raid {} combines disks that spread keeps apart", storage.raid);
        let hint = "leave `spread` out of the [[target]], or name one without it for raid";
        return Some(Problem::new(&settings, what, hint));
    }
    let has = storage.devices.len();
    let needs = devices_min(storage.raid);
    if !storage.is_formatted() || has >= needs {
        return None;
    }
    let what = match storage.raid {
        Raid::None => format!("{} needs a device", storage.file_system),
        raid => format!("raid {raid} needs {needs} devices, not {has}"),
    };
    let hint = "write `devices` in the [[target]]; with `loop_size` they are files";
    Some(Problem::new(&settings, what, hint))
}

/// Finds the reason why data can't take the requested path between client and server.
fn path_problem(lab: &LabSpec) -> Option<Problem> {
    if !lab.leaves_server() {
        return None;
    }
    let path = lab.path;
    if lab.client.name == lab.server.name {
        let what = format!("data_path {path} needs a client besides `{}`", lab.server.name);
        return Some(Problem::new(&[Setting::DataPath], what, "write `client` in the [[target]]"));
    }
    // An export names the clients that may mount it, so their addresses must be known.
    let exported = !matches!(lab.serving.kind, ServerKind::Ganesha | ServerKind::Running);
    let seen = if path == DataPath::Network && exported { lab.hosts().count() } else { 1 };
    let lost = lab.hosts().take(seen).find(|host| host.reachable_address().is_none())?;
    let other = if lost.name == lab.server.name { &lab.client } else { &lab.server };
    let what = format!("`{}` does not know the address of `{}`", other.name, lost.name);
    Some(Problem::new(&[Setting::DataPath], what, "write `address` in its [[host]]"))
}

/// Refuses an access way or a role that the target's system does not have.
pub(crate) fn check_systems(raw: &RawPlan) -> Result<(), PlanError> {
    for target in &raw.targets {
        let Some(system) = target.what.lab().and_then(|lab| lab.system.as_ref()) else { continue };
        let Some(recipe) = &system.recipe else { continue };
        if let Some(access) = &system.access {
            let ways = recipe.ways();
            if !ways.contains(&access.value) {
                let what = format!("{} can't be reached by `{}`", recipe.name, access.value);
                let names: Vec<&str> = ways.iter().map(|way| way.name()).collect();
                let fault = Fault::new(what).hint(join_with_or(&names));
                return Err(fault.of_key("access", access.place));
            }
        }
        for (name, source) in &system.secrets {
            if let Err(error) = recipe.check_secret(&name.value, source) {
                let what = match error.key.as_str() {
                    "" => error.what,
                    key => format!("{}.{key}: {}", name.value, error.what),
                };
                return Err(Fault::new(what).hint(error.hint).of_key("secrets", name.place));
            }
        }
        for role in &system.roles {
            if let Err(error) = recipe.check_role(&role.name.value, role.hosts.len()) {
                let fault = Fault::new(error.what).hint(error.hint);
                return Err(fault.of_key("roles", role.name.place));
            }
        }
    }
    Ok(())
}

/// Refuses directories and devices of a target that no run uses; the user expects them to be used.
pub(crate) fn check_used(raw: &RawPlan, runs: &[RunSpec]) -> Result<(), PlanError> {
    for target in &raw.targets {
        let Some(lab) = target.what.lab() else { continue };
        let mut has_runs = false;
        let mut uses_directory = false;
        let mut uses_devices = false;
        for run in runs {
            if let Some(lab) = &run.lab
                && run.target_name == target.name.value
            {
                has_runs = true;
                uses_directory |=
                    lab.has_storage() && lab.storage.file_system == FileSystem::Existing;
                uses_devices |= lab.has_storage() && lab.storage.is_formatted();
            }
        }
        // Flags may have removed all runs of the target.
        if !has_runs {
            continue;
        }
        if let Some(directory) = &lab.directories
            && !uses_directory
        {
            let hint = "leave it out, or ask for file_system existing";
            return Err(unused(target, "directory", directory.place, hint));
        }
        if let Some(devices) = &lab.devices
            && !uses_devices
        {
            let hint = "leave them out, or ask for file_system ext4, xfs or btrfs";
            return Err(unused(target, "devices", devices.place, hint));
        }
    }
    Ok(())
}

fn unused(target: &RawTarget, key: &'static str, place: PlanPosition, hint: &str) -> PlanError {
    let what = format!("no run of `{}` uses it", target.name.value);
    Fault::new(what).hint(hint).of_key(key, place)
}
