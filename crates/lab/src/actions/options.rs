//! Compares requested mount options with those listed by the kernel.
//!
//! The kernel doesn't list some defaults, prints sizes in its own units and renames some options.
//! An option that the list cannot show is not reported as a difference.

use crate::actions::findings::Findings;

/// Flags that the kernel doesn't list because they are the default.
///
/// **Source:** mount(8), `defaults`; nfs(5).
const DEFAULTS: [&str; 16] = [
    "defaults",
    "async",
    "auto",
    "noauto",
    "exec",
    "suid",
    "dev",
    "nouser",
    "diratime",
    "strictatime",
    "cto",
    "ac",
    "rdirplus",
    "sharecache",
    "noiversion",
    "loud",
];
/// Options with default values, which the kernel's clients don't list.
///
/// **Source:** Linux, nfs_show_mount_options (fs/nfs/super.c), ceph_show_options (fs/ceph/super.c).
const DEFAULT_VALUES: [(&str, &str); 3] =
    [("port", "2049"), ("max_connect", "1"), ("ms_mode", "legacy")];
/// Options handled by mount programs, which the kernel never sees or never lists.
const USED_UP: [&str; 14] = [
    "password",
    "pass",
    "credentials",
    "_netdev",
    "nofail",
    "bg",
    "fg",
    "retry",
    "nosharetransport",
    "loop",
    "x-systemd.automount",
    "nolock",
    "intr",
    "nointr",
];

/// A requested option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestedOption {
    /// The kernel's name for the option.
    pub name: String,
    /// Its value; `None` for a flag.
    pub value: Option<String>,
}

impl RequestedOption {
    /// Parses the options of a local file system.
    pub(crate) fn local(options: &[String]) -> Vec<Self> {
        options
            .iter()
            .flat_map(|option| option.split(','))
            .filter(|word| !word.is_empty())
            .map(Self::parse)
            .collect()
    }

    /// Parses options of nfs(5), using the names by which the kernel lists them.
    pub(crate) fn nfs(options: &[String]) -> Vec<Self> {
        Self::local(options).into_iter().flat_map(RequestedOption::into_listed_by_nfs).collect()
    }

    fn parse(word: &str) -> Self {
        match word.split_once('=') {
            Some((name, value)) => Self::with_value(name, value),
            None => Self { name: word.to_owned(), value: None },
        }
    }

    fn with_value(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: Some(value.to_owned()) }
    }

    /// Returns the options as which the kernel's client lists this one.
    ///
    /// **Source:** nfs(5): `nfsvers` is `vers`, `tcp` is `proto=tcp`, `actimeo` sets four others.
    fn into_listed_by_nfs(self) -> Vec<Self> {
        match (self.name.as_str(), self.value.as_deref()) {
            // Means the newest minor version of the server, most likely 4.2.
            ("vers" | "nfsvers", Some("4")) | ("minorversion", _) => Vec::new(),
            ("nfsvers", Some(value)) => vec![Self::with_value("vers", value)],
            (proto @ ("tcp" | "udp" | "rdma"), None) => vec![Self::with_value("proto", proto)],
            ("actimeo", Some(value)) => ["acregmin", "acregmax", "acdirmin", "acdirmax"]
                .map(|name| Self::with_value(name, value))
                .to_vec(),
            ("noac", None) => vec![self, Self { name: "sync".to_owned(), value: None }],
            _ => vec![self],
        }
    }
}

/// Compares options with the kernel's list.
pub(crate) fn compare(
    findings: &mut Findings,
    requested: &[RequestedOption],
    listed: &str,
    source: &str,
) {
    let listed: Vec<RequestedOption> = listed.split(',').map(RequestedOption::parse).collect();
    for option in requested {
        match (&option.value, find(&listed, &option.name)) {
            (None, Some(_)) => {}
            (Some(requested), Some(RequestedOption { value: Some(found), .. })) => {
                // Over IPv6, the kernel lists `tcp6` and `rdma6`.
                let found =
                    if option.name == "proto" { found.trim_end_matches('6') } else { found };
                if !is_same(requested, found) {
                    findings.add_difference(&option.name, requested, found, source);
                }
            }
            (Some(requested), Some(_)) => {
                findings.add_difference(&option.name, requested, "set", source);
            }
            (value, None) => {
                if let Some(found) = find_contradicting(option, &listed) {
                    let requested = value.as_deref().unwrap_or("set");
                    findings.add_difference(&option.name, requested, found, source);
                }
            }
        }
    }
}

fn find<'l>(listed: &'l [RequestedOption], name: &str) -> Option<&'l RequestedOption> {
    listed.iter().find(|found| found.name == name)
}

/// Returns the listed option that contradicts one missing from the list.
fn find_contradicting(option: &RequestedOption, listed: &[RequestedOption]) -> Option<String> {
    let name = option.name.as_str();
    let against = match name.strip_prefix("no") {
        Some(positive) => positive.to_owned(),
        None => format!("no{name}"),
    };
    let pairs = [("hard", "soft"), ("soft", "hard"), ("rw", "ro"), ("ro", "rw"), ("async", "sync")];
    for (one, other) in pairs {
        if one == name && find(listed, other).is_some() {
            return Some(other.to_owned());
        }
    }
    if find(listed, &against).is_some() {
        return Some(against);
    }
    // `x-` options and `comment=` are for people and programs.
    let value = option.value.as_deref().unwrap_or_default();
    let silent = DEFAULTS.contains(&name)
        || DEFAULT_VALUES.contains(&(name, value))
        || USED_UP.contains(&name)
        || name.starts_with("x-");
    if silent { None } else { Some("not listed".to_owned()) }
}

/// Returns true for equal words or sizes: `64m` is listed as `65536k`.
fn is_same(requested: &str, found: &str) -> bool {
    requested == found || matches!((bytes(requested), bytes(found)), (Some(a), Some(b)) if a == b)
}

/// Parses a number with a suffix of mount(8).
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.chars().last()?.to_ascii_lowercase() {
        'k' => (&text[..text.len() - 1], 1 << 10),
        'm' => (&text[..text.len() - 1], 1 << 20),
        'g' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(requested: &[RequestedOption], listed: &str) -> Vec<(String, String)> {
        let mut findings = Findings::new("target");
        compare(&mut findings, requested, listed, "here");
        let found = findings.finish().differences;
        found.into_iter().map(|difference| (difference.name, difference.found)).collect()
    }

    fn local(options: &str) -> Vec<RequestedOption> {
        RequestedOption::local(&[options.to_owned()])
    }

    fn nfs(options: &str) -> Vec<RequestedOption> {
        RequestedOption::nfs(&[options.to_owned()])
    }

    #[test]
    fn treats_kernel_spellings_as_equal() {
        let listed = "rw,noatime,size=65536k,mode=755";
        assert_eq!(differences(&local("noatime,size=64m,defaults,dev"), listed), []);
        let listed = "rw,vers=4.2,rsize=65536,proto=tcp,hard,acregmin=1,acregmax=1,acdirmin=1,\
                      acdirmax=1,sync,noac,sec=sys";
        assert_eq!(differences(&nfs("nfsvers=4.2,tcp,rsize=64k,actimeo=1,noac,cto"), listed), []);
    }

    #[test]
    fn passwords_are_not_listed() {
        let listed = "rw,vers=3.1.1,cache=strict,username=root,nobrl";
        let requested = "vers=3.1.1,username=root,password=secret,cache=strict,nobrl";
        assert_eq!(differences(&local(requested), listed), []);
    }

    #[test]
    fn what_is_not_effective_is_found() {
        let name = |name: &str, found: &str| (name.to_owned(), found.to_owned());
        let listed = "rw,relatime,size=65536k";
        assert_eq!(
            differences(&local("size=1m,noatime,ro"), listed),
            [name("size", "65536k"), name("noatime", "not listed"), name("ro", "rw")]
        );
        let listed = "rw,vers=4.1,rsize=65536,soft,proto=tcp,noac";
        assert_eq!(
            differences(&nfs("vers=4.2,rsize=1m,hard,udp,nconnect=4,ac"), listed),
            [
                name("vers", "4.1"),
                name("rsize", "65536"),
                name("hard", "soft"),
                name("proto", "tcp"),
                name("nconnect", "not listed"),
                name("ac", "noac")
            ]
        );
    }
}
