//! Detects hosts of a run that are really one machine and share its CPUs, memory and network.
//!
//! Each agent reports the identity of its kernel. This detects a machine listed under two names,
//! containers, and additional agents on a host. Since the run was arranged that way, it is only a
//! note: the results come from fewer machines than hosts.

use std::collections::BTreeMap;

use fleet::KERNEL_FACT;
use model::{Caveat, CaveatCode, Fact, Host, RunSpec};

/// Maximum number of names listed per machine.
const NAMES_MAX: usize = 8;

/// Removes the kernel's identity from the facts of a host; `None` if unknown. It changes with each
/// boot, so keeping it would make the facts of all campaigns differ.
pub(crate) fn take_kernel(facts: &mut Vec<Fact>) -> Option<String> {
    let index = facts.iter().position(|fact| fact.name == KERNEL_FACT)?;
    Some(facts.remove(index).value).filter(|kernel| !kernel.is_empty())
}

/// Raises a note if clients of a run share a kernel with each other or with one of its servers.
pub(crate) fn check(spec: &RunSpec, kernels: &BTreeMap<String, String>) -> Option<Caveat> {
    let mut parties: Vec<(&Host, bool)> =
        spec.client_hosts().iter().map(|host| (host, false)).collect();
    if let Some(lab) = &spec.lab
        && lab.leaves_server()
    {
        parties.extend(lab.servers().into_iter().map(|server| (server, true)));
    }
    let mut on_kernel: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (host, is_server) in parties {
        if let Some(kernel) = kernels.get(&host.name) {
            let name = &host.name;
            let shown = if is_server { format!("the server {name}") } else { name.clone() };
            on_kernel.entry(kernel).or_default().push(shown);
        }
    }
    let mut groups = Vec::new();
    for mut names in on_kernel.into_values() {
        if names.len() < 2 {
            continue;
        }
        let more = names.len().saturating_sub(NAMES_MAX);
        names.truncate(NAMES_MAX);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        let last = names.pop().unwrap_or_default();
        groups.push(format!("{} and {last} are the same machine", names.join(", ")));
    }
    if groups.is_empty() {
        return None;
    }
    let source = "/proc/sys/kernel/random/boot_id";
    Some(CaveatCode::SharedHost.because(format!("{} ({source})", groups.join("; "))))
}

#[cfg(test)]
mod tests {
    use model::{LabSpec, Workload};

    use super::*;

    fn kernels(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(host, kernel)| ((*host).to_owned(), (*kernel).to_owned())).collect()
    }

    fn evidence(spec: &RunSpec, of: &[(&str, &str)]) -> Option<String> {
        check(spec, &kernels(of)).map(|caveat| caveat.evidence)
    }

    #[test]
    fn groups_hosts_by_kernel() {
        let mut spec = RunSpec::null(Workload::Stream);
        spec.placement.hosts = ["a", "b", "a:2", "c", "d"].map(Host::local).to_vec();
        let apart = [("a", "1"), ("b", "2"), ("c", "3")];
        assert_eq!(evidence(&spec, &apart), None);
        let shared = [("a", "1"), ("b", "2"), ("a:2", "1"), ("c", "2"), ("d", "1")];
        let few = evidence(&spec, &shared).unwrap();
        let hosts: Vec<Host> = (1..=20).map(|n| Host::local(format!("h{n:02}"))).collect();
        let all = hosts.iter().map(|host| (host.name.clone(), "1".to_owned())).collect();
        spec.placement.hosts = hosts;
        let many = check(&spec, &all).unwrap().evidence;
        insta::assert_snapshot!([few, many].join("\n"));
    }

    #[test]
    fn names_server_sharing_client_kernel() {
        let mut spec = RunSpec::null(Workload::Stream);
        spec.lab = Some(Box::new(LabSpec::new(Host::local("s"), Host::local("c"))));
        let same = [("s", "1"), ("c", "1")];
        insta::assert_snapshot!(
            evidence(&spec, &same).unwrap(),
            @"c and the server s are the same machine (/proc/sys/kernel/random/boot_id)"
        );
        assert_eq!(evidence(&spec, &[("s", "1"), ("c", "2")]), None);
        spec.lab.as_mut().unwrap().path = model::DataPath::Disk;
        assert_eq!(evidence(&spec, &same), None);
    }

    #[test]
    fn does_not_store_kernel_identity() {
        let fact = |name, value| Fact::new("host", name, value, "test");
        let mut facts = vec![fact("kernel", "Linux 6.12"), fact(KERNEL_FACT, "1-2")];
        assert_eq!(take_kernel(&mut facts).as_deref(), Some("1-2"));
        assert_eq!(facts, [fact("kernel", "Linux 6.12")]);
        assert_eq!(take_kernel(&mut facts), None);
        assert_eq!(take_kernel(&mut vec![fact(KERNEL_FACT, "")]), None);
    }
}
