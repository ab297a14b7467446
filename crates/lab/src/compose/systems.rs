//! Actions that start a recipe's system and mount it, and those that mount a site's existing
//! systems.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use model::action::CommandContext;
use model::lab::{EXPORTED_POINT, MOUNT_POINT};
use model::system::{
    AccessWay, CLIENT_ROLE, FilledRecipe, FilledStep, Places, Quiet, Recipe, Restart,
};
use model::{Action, DataPath, Host, LabSpec, LabStep, SiteMount, System, action};

use super::connection::{connect_nfs, switch_clients};
use super::{ComposeError, LOOPBACK, address_of, export, kernel_server, step};

/// Fills in a recipe for a run.
pub(super) fn fill_in(spec: &LabSpec, system: &System) -> Result<FilledRecipe, ComposeError> {
    let recipe = &system.recipe;
    let system_hosts = spec.system_hosts();
    let mut hosts = vec![server_address(spec)?];
    for host in &system_hosts[1..] {
        hosts.push(address_of(host)?);
    }
    let number_of = |host: &Host| system_hosts.iter().position(|other| other.name == host.name);
    let mut roles = BTreeMap::new();
    for (role, of_role) in &system.roles {
        roles.insert(role.clone(), of_role.iter().filter_map(number_of).collect());
    }
    let clients = spec.hosts_of_client_role().into_iter().filter_map(number_of).collect();
    roles.insert(CLIENT_ROLE.to_owned(), clients);
    let places = Places {
        dir: recipe.dir(),
        storage: spec.storage.place().display().to_string(),
        hosts,
        servers: spec.servers().len(),
        roles,
        way: spec.system_way(),
        clients: clients_of_system(spec)?.join(" "),
        point: if spec.is_re_exported() { EXPORTED_POINT } else { MOUNT_POINT }.to_owned(),
    };
    Ok(recipe.fill_in(&spec.system_settings, &places)?)
}

/// Returns the addresses from which a recipe lets clients mount its system.
///
/// # Errors
/// If a client has no address.
pub fn clients_of_system(spec: &LabSpec) -> Result<Vec<String>, ComposeError> {
    let admitted = spec.system.iter().flat_map(|system| system.admits.iter().cloned());
    let clients = super::clients(spec)?;
    Ok(clients.split(' ').map(str::to_owned).chain(admitted).collect())
}

/// Returns the address by which clients reach the server. Servers of a system use it to talk to
/// each other, so prefer the host's own address over loopback.
fn server_address(spec: &LabSpec) -> Result<String, ComposeError> {
    match (spec.path, spec.server.reachable_address()) {
        (DataPath::Network, _) => address_of(&spec.server),
        (_, Some(address)) => Ok(address.to_owned()),
        (_, None) => Ok(LOOPBACK.to_owned()),
    }
}

/// Starts a system on its servers, along with anything that clients need before they can mount it.
///
/// # Errors
/// If the recipe cannot be filled in.
pub(super) fn serve_system(
    spec: &LabSpec,
    system: &System,
    steps: &mut Vec<LabStep>,
) -> Result<(), ComposeError> {
    let recipe = &system.recipe;
    let filled = fill_in(spec, system)?;
    for (number, (host, has)) in spec.system_hosts().into_iter().zip(&filled.hosts).enumerate() {
        let is_first = number == 0;
        let service = action::Service {
            system: recipe.name.clone(),
            settings: Recipe::show_settings(&spec.system_settings),
            dir: recipe.dir().into(),
            storage: has.has_storage.then(|| spec.storage.place().to_owned()),
            context: context(recipe, &has.environment),
            programs: has.programs.clone(),
            packages: packages_of(&recipe.packages),
            ports: has.ports.clone(),
            folders: paths(&has.folders),
            keeps_storage: recipe.restart == Restart::AllSteps,
            files: has.files.clone(),
            stop_within_s: recipe.stop_within_s,
            leaves: paths(&filled.leaves),
            version: if is_first { filled.version.clone() } else { Vec::new() },
            durability: recipe.durability.clone(),
        };
        steps.push(step(host, Action::Service(service)));
    }
    add_steps(spec, recipe, &filled, steps);
    Ok(())
}

/// Adds the steps of a recipe. Each step waits for the previous ones, even on other hosts.
fn add_steps(spec: &LabSpec, recipe: &Recipe, filled: &FilledRecipe, steps: &mut Vec<LabStep>) {
    let hosts = spec.system_hosts();
    let mut first = 0;
    let mut with_program = BTreeSet::new();
    for together in filled.steps.chunk_by(|one, next| one.host == next.host) {
        let host = together[0].host;
        let action = action::SystemSteps {
            system: recipe.name.clone(),
            dir: recipe.dir().into(),
            context: context(recipe, &filled.hosts[host].environment),
            first,
            has_program: with_program.contains(&host),
            steps: together.iter().map(|placed| placed.step.clone()).collect(),
        };
        if action.steps.iter().any(|step| matches!(step, FilledStep::Start(_))) {
            with_program.insert(host);
        }
        first += together.len();
        steps.push(step(hosts[host], Action::SystemSteps(action)));
    }
}

/// Returns the steps that kill a system's servers on all hosts.
///
/// # Errors
/// If there is no system, or its servers are not processes. The error is a sentence.
pub fn kill_of_system(spec: &LabSpec) -> Result<Vec<LabStep>, String> {
    let recipe = &of_processes(spec)?.recipe;
    let mut steps = Vec::new();
    for host in spec.servers() {
        steps.push(step(
            host,
            Action::SystemCrash(action::SystemCrash {
                system: recipe.name.clone(),
                dir: recipe.dir().into(),
            }),
        ));
    }
    Ok(steps)
}

/// Returns the steps that restart a system's killed servers.
///
/// # Errors
/// If there is no system, its servers are not processes, or the recipe cannot be filled in. The
/// error is a sentence.
pub fn restart_of_system(spec: &LabSpec) -> Result<Vec<LabStep>, String> {
    let system = of_processes(spec)?;
    let mut filled = fill_in(spec, system).map_err(|error| error.to_string())?;
    let servers = spec.servers().len();
    // Steps that only run on clients don't need to be repeated.
    filled.steps.retain(|placed| placed.host < servers);
    let mut made = Vec::new();
    add_steps(spec, &system.recipe, &filled, &mut made);
    let mut steps = Vec::new();
    for mut step in made {
        if let Action::SystemSteps(of_system) = &mut step.action {
            *of_system = of_system.that_start_again();
            if of_system.steps.is_empty() {
                continue;
            }
        }
        steps.push(step);
    }
    Ok(steps)
}

/// Returns the system of a run, provided that its servers are processes.
fn of_processes(spec: &LabSpec) -> Result<&System, String> {
    let Some(system) = &spec.system else {
        return Err("only a system from a recipe can be killed and restarted".to_owned());
    };
    if system.recipe.serves_in_kernel {
        let what = "runs in the kernel, which cannot be killed";
        return Err(format!("{} {what}", system.recipe.name));
    }
    Ok(system)
}

/// Returns the steps that read the counters of a run's system; empty if its recipe has none.
///
/// # Errors
/// If the recipe cannot be filled in.
pub fn counters_of_system(spec: &LabSpec) -> Result<Vec<LabStep>, ComposeError> {
    let mut steps = Vec::new();
    let Some(system) = &spec.system else { return Ok(steps) };
    let hosts = spec.system_hosts();
    let filled = fill_in(spec, system)?;
    for (host, run) in filled.counters {
        let context = context(&system.recipe, &filled.hosts[host].environment);
        let action = action::SystemCounters { system: system.recipe.name.clone(), context, run };
        steps.push(step(hosts[host], Action::SystemCounters(action)));
    }
    Ok(steps)
}

/// Returns the steps that look for programs of a run's system that have exited; one for each host
/// on which the recipe starts any.
///
/// # Errors
/// If the recipe cannot be filled in.
pub fn exits_of_system(spec: &LabSpec) -> Result<Vec<LabStep>, ComposeError> {
    let Some(system) = &spec.system else { return Ok(Vec::new()) };
    let mut started: BTreeMap<usize, Vec<(usize, Vec<String>)>> = BTreeMap::new();
    for (index, placed) in fill_in(spec, system)?.steps.into_iter().enumerate() {
        if let FilledStep::Start(words) = placed.step {
            started.entry(placed.host).or_default().push((index + 1, words));
        }
    }
    let hosts = spec.system_hosts();
    let name = &system.recipe.name;
    let steps = started.into_iter().map(|(host, started)| {
        let dir = system.recipe.dir().into();
        let exits = action::SystemExits { system: name.clone(), dir, started };
        step(hosts[host], Action::SystemExits(exits))
    });
    Ok(steps.collect())
}

/// Returns how a recipe's commands are run on a host with these environment variables.
pub(super) fn context(recipe: &Recipe, environment: &[(String, String)]) -> CommandContext {
    CommandContext { path: recipe.path.clone(), environment: environment.to_vec() }
}

fn paths(texts: &[String]) -> Vec<PathBuf> {
    texts.iter().map(PathBuf::from).collect()
}

/// Converts the packages per distribution to the form used by actions.
fn packages_of(packages: &BTreeMap<String, Vec<String>>) -> Vec<(String, String)> {
    packages.iter().map(|(distribution, names)| (distribution.clone(), names.join(" "))).collect()
}

/// Mounts a system on the clients, using the kernel, its own program, or NFS.
///
/// # Errors
/// If the recipe cannot be filled in.
pub(super) fn connect_system(
    spec: &LabSpec,
    system: &System,
    steps: &mut Vec<LabStep>,
) -> Result<(), ComposeError> {
    let recipe = &system.recipe;
    let filled = fill_in(spec, system)?;
    // The first of the clients' steps, so that we wait again before each new mount.
    if let Some(quiet) = &filled.quiet {
        steps.push(step(&spec.server, Action::AwaitQuiet(quiet_action(recipe, &filled, quiet))));
    }
    if spec.is_re_exported() {
        let mount = mount_by(recipe, system.usual_way(), &filled, EXPORTED_POINT);
        let server = kernel_server(spec);
        let export = export(spec, EXPORTED_POINT.into())?;
        for action in mount.into_iter().chain(server).chain([export]) {
            steps.push(step(&spec.server, action));
        }
        return connect_nfs(spec, steps);
    }
    if spec.system_nfs().is_some() {
        return connect_nfs(spec, steps);
    }
    for client in spec.clients() {
        let mount = mount_by(recipe, system.mounted_by(), &filled, MOUNT_POINT);
        steps.extend(mount.map(|action| step(client, action)));
    }
    Ok(())
}

/// Returns the action that mounts a system with its own program or the kernel. Returns `None` if
/// the recipe doesn't support that, which the plan's checks rule out.
fn mount_by(recipe: &Recipe, way: AccessWay, filled: &FilledRecipe, point: &str) -> Option<Action> {
    let point = PathBuf::from(point);
    match (way, &filled.fuse, &filled.mount) {
        (AccessWay::Fuse, Some(fuse), _) => Some(Action::FuseMount(action::FuseMount {
            system: recipe.name.clone(),
            context: context(recipe, &filled.client_environment),
            run: fuse.run.clone(),
            dir: recipe.client_dir().into(),
            point,
            packages: packages_of(&fuse.packages),
            within_s: fuse.within_s,
            leaves: paths(&fuse.leaves),
        })),
        (AccessWay::Mount, _, Some(mount)) => Some(Action::RemoteMount(action::RemoteMount {
            kind: mount.kind.clone(),
            source: mount.source.clone(),
            point,
            options: mount.options.clone(),
        })),
        _ => None,
    }
}

fn quiet_action(recipe: &Recipe, filled: &FilledRecipe, quiet: &Quiet) -> action::AwaitQuiet {
    let Quiet { run, busy, within_s } = quiet.clone();
    let context = context(recipe, &filled.hosts[0].environment);
    action::AwaitQuiet { system: recipe.name.clone(), context, run, busy, within_s }
}

/// Mounts the site's existing file system on the clients, with its own options and those of the
/// run.
pub(super) fn connect_site(spec: &LabSpec, mount: &SiteMount, steps: &mut Vec<LabStep>) {
    let is_nfs = spec.mounts_nfs();
    let mut options = if is_nfs { spec.mounting.all_options() } else { Vec::new() };
    options.extend(mount.options.iter().cloned());
    if is_nfs {
        switch_clients(spec, steps);
    } else {
        options.extend(spec.mounting.options.iter().cloned());
    }
    for client in spec.clients() {
        let source = mount.source.clone();
        let options = options.clone();
        let point = PathBuf::from(MOUNT_POINT);
        // NFS has its own action, because its options are read back differently.
        let action = if is_nfs {
            let trunk_connections = None;
            Action::NfsMount(action::NfsMount { source, point, options, trunk_connections })
        } else {
            let kind = mount.kind.clone();
            Action::RemoteMount(action::RemoteMount { kind, source, point, options })
        };
        steps.push(step(client, action));
    }
    if let Some(kib) = spec.mounting.read_ahead_kib {
        for client in spec.clients() {
            let point = PathBuf::from(MOUNT_POINT);
            steps.push(step(client, Action::ReadAhead(action::ReadAhead { point, kib })));
        }
    }
}
