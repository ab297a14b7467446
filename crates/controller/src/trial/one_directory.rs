//! Checks that all hosts of a trial work in the same directory, through equivalent mounts.
//!
//! A client whose mount is missing finds an empty local directory under the same path, and would
//! silently measure its own disk or memory. So the agent of the first host creates the working
//! directory and all others must find it there; comparing paths or devices could not prove that.
//! Then file systems and mount options are compared, since hosts that mount differently are
//! different clients.

use std::collections::BTreeMap;

use fleet::TrialSetup;

/// Mount options that affect measurements, spelled as in mountinfo. Options that naturally differ
/// between hosts (addresses) or kernels (options that only newer ones print) are left out.
///
/// **Source:** nfs(5); fs/nfs/super.c of Linux (`nfs_show_mount_options`).
const OPTIONS: [&str; 24] = [
    "ro",
    "rw",
    "sync",
    "noatime",
    "vers",
    "proto",
    "rsize",
    "wsize",
    "nconnect",
    "sec",
    "xprtsec",
    "soft",
    "hard",
    "softerr",
    "timeo",
    "retrans",
    "noac",
    "nocto",
    "acregmin",
    "acregmax",
    "acdirmin",
    "acdirmax",
    "lookupcache",
    "fsc",
];

/// Compares what the agents of several hosts found. The first host created the directory.
///
/// # Errors
/// If other hosts see a different directory or a different mount; the error names them.
pub(crate) fn check(hosts: &[&str], begun: &[TrialSetup]) -> Result<(), String> {
    let (Some(first), [made, others @ ..]) = (hosts.first(), begun) else { return Ok(()) };
    let path = fact(made, "path");
    let apart: Vec<_> = hosts
        .iter()
        .skip(1)
        .zip(others)
        .filter(|(_, found)| found.made_directory)
        .map(|(host, found)| format!("host {host} ({})", describe_mount(found)))
        .collect();
    if !apart.is_empty() {
        return Err(format!(
            "`{path}` is not the same directory on all hosts: files created by host {first} ({}) \
             are missing on {} (hint: mount it there, too; with `shared = false` or --shared \
             false, each host uses a directory of its own)",
            describe_mount(made),
            apart.join(", "),
        ));
    }
    for (host, found) in hosts.iter().skip(1).zip(others) {
        if let Some(difference) = first_difference(made, found) {
            let Difference { what, on_first, on_other } = difference;
            return Err(format!(
                "`{path}` is mounted differently: {what} is {on_first} on host {first} and \
                 {on_other} on host {host} (hint: use the same mount options everywhere; `shared = \
                 false` or --shared false measures it as it is)"
            ));
        }
    }
    Ok(())
}

/// A mount property that differs between two hosts.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    what: String,
    on_first: String,
    on_other: String,
}

/// Returns the first property in which the other host's mount differs.
fn first_difference(first: &TrialSetup, other: &TrialSetup) -> Option<Difference> {
    let file_systems = [fact(first, "file system"), fact(other, "file system")];
    if file_systems[0] != file_systems[1] {
        let [on_first, on_other] = file_systems.map(str::to_owned);
        return Some(Difference { what: "the file system".to_owned(), on_first, on_other });
    }
    let ours = options(first);
    let theirs = options(other);
    for name in OPTIONS {
        let values = [ours.get(name), theirs.get(name)];
        if values[0] != values[1] {
            let [on_first, on_other] = values.map(|value| match value.copied() {
                None => "not set".to_owned(),
                Some("") => "set".to_owned(),
                Some(value) => format!("`{value}`"),
            });
            return Some(Difference { what: format!("option `{name}`"), on_first, on_other });
        }
    }
    None
}

/// Returns the options of a mount by name. Flags have an empty value.
fn options(begun: &TrialSetup) -> BTreeMap<&str, &str> {
    let mut options = BTreeMap::new();
    for word in fact(begun, "mount options").split(',') {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        options.insert(name, value);
    }
    options
}

/// Describes a directory's mount, for messages.
fn describe_mount(begun: &TrialSetup) -> String {
    match (fact(begun, "file system"), fact(begun, "device")) {
        ("", _) => "mount unknown".to_owned(),
        (file_system, device) => format!("{file_system} `{device}`"),
    }
}

/// Returns a fact of the target, or an empty string if it is unknown.
fn fact<'b>(begun: &'b TrialSetup, name: &str) -> &'b str {
    begun.facts.iter().find(|fact| fact.name == name).map_or("", |fact| &fact.value)
}

#[cfg(test)]
mod tests {
    use model::Fact;

    use super::*;

    const NFS: &str = "rw,relatime,vers=4.2,rsize=1048576,hard,clientaddr=10.0.0.";

    fn begun(made_directory: bool, mount: [&str; 3]) -> TrialSetup {
        let [file_system, device, options] = mount;
        let facts = [
            ("path", "/mnt/data"),
            ("file system", file_system),
            ("device", device),
            ("mount options", options),
        ];
        let facts = facts.map(|(name, value)| Fact::new("target", name, value, "test")).to_vec();
        TrialSetup { facts, made_directory }
    }

    #[test]
    fn ignores_addresses_of_equal_mounts() {
        let first = begun(true, ["nfs4", "srv:/data", &format!("{NFS}1")]);
        let other = begun(false, ["nfs4", "10.0.0.9:/data", &format!("{NFS}2,new_option=1")]);
        assert_eq!(check(&["a", "b"], &[first, other]), Ok(()));
    }

    #[test]
    fn names_hosts_without_mount() {
        let first = begun(true, ["nfs4", "srv:/data", NFS]);
        let mounted = begun(false, ["nfs4", "srv:/data", NFS]);
        let bare = begun(true, ["tmpfs", "tmpfs", "rw"]);
        let found = [first, bare.clone(), mounted, bare];
        let refused = check(&["a", "b", "c", "d"], &found).unwrap_err();
        insta::assert_snapshot!(refused);
    }

    #[test]
    fn names_differing_mount() {
        let first = begun(true, ["nfs4", "srv:/data", "rw,rsize=1048576"]);
        let small = begun(false, ["nfs4", "srv:/data", "rw,rsize=8192,noac"]);
        let soft = begun(false, ["nfs4", "srv:/data", "rw,rsize=1048576,soft"]);
        let local = begun(false, ["ext4", "/dev/vda", "rw"]);
        let refused = [small, soft, local]
            .map(|other| check(&["a", "b"], &[first.clone(), other]).unwrap_err());
        insta::assert_snapshot!(refused.join("\n"));
    }

    #[test]
    fn accepts_single_agent() {
        assert_eq!(check(&[], &[begun(true, ["ext4", "/dev/vda", "rw"])]), Ok(()));
    }
}
