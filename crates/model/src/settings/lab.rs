//! How hosts are set up, as rows that tell runs apart.
//!
//! The names are those of plans. Where data travels is always told; what else was left as it is
//! stays silent, as with every optional setting.

use std::sync::LazyLock;

use crate::lab::{DataPath, FileSystem, Host, LabSpec, ServerKind};
use crate::units::{Nanos, Size};

/// A setting of hosts.
struct Optional {
    /// As plans call it.
    name: &'static str,
    /// Whether a run depends on it.
    applies: fn(&LabSpec) -> bool,
    /// How it is shown.
    value: fn(&LabSpec) -> String,
}

const fn option(
    name: &'static str,
    applies: fn(&LabSpec) -> bool,
    value: fn(&LabSpec) -> String,
) -> Optional {
    Optional { name, applies, value }
}

/// What is left as it is on the hosts.
const UNCHANGED: &str = "unchanged";

/// Every setting that may be left alone, in the order of tables.
const OPTIONAL: &[Optional] = &[
    option("raid", is_formatted, |l| l.storage.raid.to_string()),
    option("crypt", is_formatted, |l| l.storage.crypt.to_string()),
    option("format_options", is_formatted, |l| l.storage.format_options.join(" ")),
    option("fs_mount_options", is_made, |l| l.storage.mount_options.join(",")),
    option("server_kind", LabSpec::is_served, |l| l.serving.kind.to_string()),
    option("export_options", is_knfsd, |l| l.serving.export_options.join(",")),
    option(
        "nfsd_threads",
        |l| is_knfsd(l) || l.serving.kind == ServerKind::Ganesha,
        |l| l.serving.threads.to_string(),
    ),
    option("mount_options", LabSpec::is_mounted, |l| l.mounting.options.join(",")),
    option("bdi_read_ahead", LabSpec::is_mounted, |l| {
        or_unchanged(l.mounting.read_ahead_kib, |kib| Size(u64::from(kib) << 10).exact())
    }),
    option("tunnel_compression", is_tunnel, |l| l.tunnelling.compression.to_string()),
    option("tunnel_cipher", is_tunnel, |l| {
        or_unchanged(l.tunnelling.cipher.as_ref(), Clone::clone)
    }),
    option("mtu", LabSpec::leaves_server, |l| or_unchanged(l.tuning.mtu_bytes, |n| n.to_string())),
    option("rate_limit", LabSpec::leaves_server, |l| {
        or_unchanged(l.tuning.rate_bits_per_s, bit_rate)
    }),
    option("delay", LabSpec::leaves_server, |l| {
        or_unchanged(l.tuning.delay_us, |us| Nanos(u64::from(us) * 1_000).exact())
    }),
    option("congestion", LabSpec::is_served, |l| {
        or_unchanged(l.tuning.congestion.as_ref(), Clone::clone)
    }),
    option("tcp_buffer", LabSpec::is_served, |l| {
        or_unchanged(l.tuning.tcp_buffer_bytes, |bytes| Size(bytes).exact())
    }),
    option("slots", LabSpec::is_mounted, |l| or_unchanged(l.tuning.slots, |n| n.to_string())),
    option("cpu_frequency", |_| true, |l| or_unchanged(l.tuning.cpu_khz, frequency)),
    option("cores", |_| true, |l| or_unchanged(l.tuning.cores, |n| n.to_string())),
    option("server_sysctl", |_| true, |l| sysctls(&l.tuning.server_sysctls)),
    option("client_sysctl", LabSpec::leaves_server, |l| sysctls(&l.tuning.client_sysctls)),
    option("strict", |_| true, |l| l.strict.to_string()),
];

/// What is always told.
pub(super) fn usual(lab: &LabSpec) -> [(&'static str, String); 3] {
    [
        ("data_path", lab.path.to_string()),
        ("file_system", file_system(lab).to_string()),
        ("invalidation", lab.invalidation.to_string()),
    ]
}

/// What may be left alone, as far as a run depends on it.
pub(super) fn optional(lab: &LabSpec) -> impl Iterator<Item = (&'static str, String)> {
    let applying = OPTIONAL.iter().filter(|option| (option.applies)(lab));
    applying.map(|option| (option.name, (option.value)(lab)))
}

/// How a setting is shown that nobody asked for.
pub(super) fn unset(name: &str) -> Option<String> {
    static PLAIN: LazyLock<LabSpec> =
        LazyLock::new(|| LabSpec::new(Host::here(""), Host::here("")));
    let option = OPTIONAL.iter().find(|option| option.name == name)?;
    Some((option.value)(&PLAIN))
}

/// What files lie on; those of a server of ours in its memory.
fn file_system(lab: &LabSpec) -> FileSystem {
    if lab.has_storage() { lab.storage.file_system } else { FileSystem::Tmpfs }
}

fn is_formatted(lab: &LabSpec) -> bool {
    lab.has_storage() && lab.storage.is_formatted()
}

fn is_made(lab: &LabSpec) -> bool {
    lab.has_storage() && lab.storage.file_system != FileSystem::Existing
}

fn is_knfsd(lab: &LabSpec) -> bool {
    lab.is_served() && lab.serving.kind == ServerKind::Knfsd
}

fn is_tunnel(lab: &LabSpec) -> bool {
    lab.path == DataPath::Tunnel
}

fn or_unchanged<T>(value: Option<T>, shown: impl Fn(T) -> String) -> String {
    value.map_or_else(|| UNCHANGED.to_owned(), shown)
}

fn bit_rate(bits_per_s: u64) -> String {
    scaled(bits_per_s, &[("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000)])
        .unwrap_or_else(|| format!("{bits_per_s} bit/s"))
}

fn frequency(khz: u32) -> String {
    scaled(khz.into(), &[("GHz", 1_000_000), ("MHz", 1_000)])
        .unwrap_or_else(|| format!("{khz} kHz"))
}

/// Shows a number in the first unit that it reaches, with no more digits than it has.
fn scaled(value: u64, units: &[(&str, u64)]) -> Option<String> {
    let (unit, factor) = units.iter().find(|(_, factor)| value >= *factor)?;
    Some(format!("{} {unit}", value as f64 / *factor as f64))
}

fn sysctls(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("+")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackendKind;
    use crate::spec::{RunSpec, Target};
    use crate::work::Workload;

    fn told(change: impl Fn(&mut LabSpec)) -> Vec<(&'static str, String)> {
        let mut lab = LabSpec::new(Host::here("s"), Host::here("c"));
        change(&mut lab);
        let spec = RunSpec {
            target: Target::Directory { path: "/m".into() },
            backend: BackendKind::Posix,
            lab: Some(Box::new(lab)),
            ..RunSpec::null(Workload::Stream)
        };
        let asked = |(name, value): &(&str, String)| RunSpec::unset(name).as_ref() != Some(value);
        spec.settings().into_iter().filter(asked).collect()
    }

    fn names(change: impl Fn(&mut LabSpec)) -> Vec<&'static str> {
        told(change).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_mount_is_told_as_nfs_is_and_a_disk_is_not() {
        let mounted = names(|_| ());
        assert!(["data_path", "nfsvers", "transfer_size"].iter().all(|n| mounted.contains(n)));
        assert!(!mounted.contains(&"invalidate") && !mounted.contains(&"mtu"));
        let disk = names(|l| l.path = DataPath::Disk);
        assert!(disk.contains(&"data_path") && !disk.contains(&"nfsvers"));
    }

    #[test]
    fn what_was_changed_is_told_with_its_unit() {
        let shown = told(|l| {
            (l.tuning.mtu_bytes, l.tuning.rate_bits_per_s) = (Some(9_000), Some(2_500_000_000));
            (l.tuning.delay_us, l.tuning.cpu_khz) = (Some(500), Some(1_200_000));
            l.tuning.server_sysctls = vec![("a.b".into(), "1".into()), ("c".into(), "2".into())];
            l.mounting.read_ahead_kib = Some(0);
        });
        let value = |name| shown.iter().find(|(known, _)| *known == name).unwrap().1.as_str();
        assert_eq!((value("mtu"), value("rate_limit")), ("9000", "2.5 Gbit/s"));
        assert_eq!((value("delay"), value("cpu_frequency")), ("500 µs", "1.2 GHz"));
        assert_eq!((value("server_sysctl"), value("bdi_read_ahead")), ("a.b=1+c=2", "0 B"));
        let alone = names(|l| (l.path, l.tuning.mtu_bytes) = (DataPath::Loopback, Some(9_000)));
        assert!(!alone.contains(&"mtu"));
    }
}
