//! Decides which steps can be kept between two runs on several hosts. Pure: no host is contacted.
//!
//! On each host, steps depend on the previous ones, so only a prefix of them can be kept. Mounts
//! also depend on the hosts that serve them: if anything changes on a server, all clients mount
//! again. No other client step depends on servers, and no server step depends on clients. The
//! servers of a system depend on each other even across hosts, so a system is kept as a whole or
//! not at all. A different system gets new file systems.

use std::collections::{BTreeMap, BTreeSet};

use model::{Action, LabStep};

use crate::actions::{Layer, layer};

/// Returns which of the applied steps can be kept, and which of the wanted steps are therefore
/// already done.
pub fn reusable_steps(applied: &[LabStep], wanted: &[LabStep]) -> (Vec<bool>, Vec<bool>) {
    let old = by_host(applied);
    let new = by_host(wanted);
    let mut hosts: BTreeSet<&str> = old.keys().copied().collect();
    hosts.extend(new.keys());
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    let mut server_changes = false;
    let mut system_changes = false;
    for host in hosts {
        let old = actions_of(&old, host);
        let new = actions_of(&new, host);
        let mut same = 0;
        while same < old.len() && same < new.len() && old[same] == new[same] {
            same += 1;
        }
        server_changes |= changes_served(old, same) || changes_served(new, same);
        system_changes |= old[same..].iter().chain(&new[same..]).any(|action| is_of_system(action));
        kept.insert(host, same);
    }
    if system_changes {
        for (host, same) in &mut kept {
            let actions = actions_of(&old, host);
            if let Some(first) = first_of_system(actions) {
                *same = first.min(*same);
            }
        }
    }
    if server_changes {
        for (host, same) in &mut kept {
            if let Some(mount) = first_mount(actions_of(&old, host)) {
                *same = mount.min(*same);
            }
        }
    }
    (mask(applied, &kept), mask(wanted, &kept))
}

/// Returns true if a host serves and something that mounts elsewhere depend on has changed. The
/// first `same` of its actions are unchanged.
fn changes_served(actions: &[&Action], same: usize) -> bool {
    // A server may have client steps, such as the wait for a system to become idle. They don't
    // affect other hosts, unless they belong to something it exports.
    let is_served = |action: &&Action| matches!(layer(action), Layer::Server | Layer::Export);
    let served = actions.iter().rposition(is_served).map_or(0, |last| last + 1);
    let until = first_mount(actions).unwrap_or(actions.len()).max(served);
    let mut serves = false;
    for action in &actions[..until] {
        serves |=
            matches!(layer(action), Layer::Storage | Layer::Memory | Layer::Server | Layer::Export);
    }
    serves && same < until
}

/// Returns true if an action starts part of a system.
const fn is_of_system(action: &Action) -> bool {
    matches!(action, Action::Service(_) | Action::SystemSteps(_))
}

/// Returns the first action on a host that belongs to its system. This includes the creation of the
/// file system for its files, so that a new system doesn't find the old one's files there.
fn first_of_system(actions: &[&Action]) -> Option<usize> {
    let system = actions.iter().position(|action| is_of_system(action))?;
    let is_storage = |action: &&Action| {
        matches!(layer(action), Layer::FileSystem | Layer::Storage | Layer::Memory)
    };
    Some(actions[..system].iter().position(is_storage).unwrap_or(system))
}

/// Returns the first action that depends on another host's server.
fn first_mount(actions: &[&Action]) -> Option<usize> {
    actions.iter().position(|action| layer(action) == Layer::Client)
}

fn by_host(steps: &[LabStep]) -> BTreeMap<&str, Vec<&Action>> {
    let mut hosts: BTreeMap<&str, Vec<&Action>> = BTreeMap::new();
    for step in steps {
        hosts.entry(&step.host).or_default().push(&step.action);
    }
    hosts
}

fn actions_of<'l, 'a>(hosts: &'l BTreeMap<&str, Vec<&'a Action>>, host: &str) -> &'l [&'a Action] {
    match hosts.get(host) {
        Some(actions) => actions,
        None => &[],
    }
}

/// Marks the first `kept` steps of each host.
fn mask(steps: &[LabStep], kept: &BTreeMap<&str, usize>) -> Vec<bool> {
    let mut left = kept.clone();
    let mut mask = Vec::with_capacity(steps.len());
    for step in steps {
        let left = left.entry(&step.host).or_default();
        mask.push(*left > 0);
        *left = left.saturating_sub(1);
    }
    mask
}

#[cfg(test)]
mod tests {
    use model::{DataPath, FileSystem, Host, LabSpec, Storage, Tuning};

    use super::*;
    use crate::compose;

    fn spec(clients: usize) -> LabSpec {
        let host = |name: String| Host {
            address: Some(name.clone()),
            interface: Some("eth0".into()),
            ..Host::local(name)
        };
        let mut spec = LabSpec::new(host("s".into()), host("c1".into()));
        spec.more_clients = (2..=clients).map(|n| host(format!("c{n}"))).collect();
        let devices = vec!["/dev/vdb".into()];
        spec.storage = Storage { devices, file_system: FileSystem::Ext4, ..Storage::default() };
        spec.tuning = Tuning { mtu_bytes: Some(9_000), ..Tuning::default() };
        spec
    }

    /// Returns the steps that are undone and those that are done when changing between two states.
    fn changes(old: &LabSpec, new: &LabSpec) -> [Vec<String>; 2] {
        let old = compose(old).unwrap();
        let new = compose(new).unwrap();
        let (kept, stands) = reusable_steps(&old, &new);
        let others = |steps: &[LabStep], mask: &[bool]| {
            let changed = steps.iter().zip(mask).filter(|(_, is_kept)| !**is_kept);
            let shown = |step: &LabStep| {
                let text = format!("{:?}", step.action);
                format!("{} {}", step.host, text.split('(').next().unwrap())
            };
            changed.map(|(step, _)| shown(step)).collect::<Vec<_>>()
        };
        [others(&old, &kept), others(&new, &stands)]
    }

    #[test]
    fn keeps_file_system_for_new_client() {
        let [undone, done] = changes(&spec(1), &spec(2));
        assert_eq!(undone, ["s Export", "s TryPaths", "c1 TryPaths", "c1 NfsMount"]);
        assert_eq!(
            done,
            [
                "c2 Mtu",
                "s Export",
                "s TryPaths",
                "c1 TryPaths",
                "c2 TryPaths",
                "c1 NfsMount",
                "c2 NfsMount"
            ]
        );
        let [undone, done] = changes(&spec(2), &spec(1));
        assert_eq!(
            undone,
            [
                "c2 Mtu",
                "s Export",
                "s TryPaths",
                "c1 TryPaths",
                "c2 TryPaths",
                "c1 NfsMount",
                "c2 NfsMount"
            ]
        );
        assert_eq!(done, ["s Export", "s TryPaths", "c1 TryPaths", "c1 NfsMount"]);
        assert_eq!(changes(&spec(3), &spec(3)), [Vec::<String>::new(), Vec::new()]);
    }

    #[test]
    fn isolates_changes_to_one_client() {
        let mut other = spec(2);
        other.tuning.client_sysctls = vec![("a".into(), "1".into())];
        let [undone, done] = changes(&spec(2), &other);
        assert_eq!(undone, ["c1 TryPaths", "c2 TryPaths", "c1 NfsMount", "c2 NfsMount"]);
        assert_eq!(
            done,
            ["c1 Sysctl", "c2 Sysctl", "c1 TryPaths", "c2 TryPaths", "c1 NfsMount", "c2 NfsMount"]
        );
        other = spec(2);
        other.mounting.options = vec!["noac".into()];
        assert_eq!(changes(&spec(2), &other)[0], ["c1 NfsMount", "c2 NfsMount"]);
    }

    #[test]
    fn remounts_after_server_change() {
        let mut other = spec(2);
        other.serving.threads.max = 16;
        let server = ["s Nfsd", "s Mount", "s Export"];
        let all = [server.as_slice(), &["s TryPaths", "c1 NfsMount", "c2 NfsMount"]].concat();
        assert_eq!(changes(&spec(2), &other)[0], all);
        // This also applies to the server's own mount, which is on top of everything.
        let [mut one, mut other] = [spec(1), other];
        one.path = DataPath::Loopback;
        other.path = DataPath::Loopback;
        assert_eq!(changes(&one, &other)[0], [server.as_slice(), &["s NfsMount"]].concat());
    }
}
