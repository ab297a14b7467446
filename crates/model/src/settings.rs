//! Settings of a run by the names of plans, shown for people.
//!
//! [`RunSpec::settings`] lists those that a run depends on: what tells rows of a table apart, and
//! what `--where` asks for. Most runs leave most of the [`OPTIONAL`] ones alone; tables then keep
//! silent about them, see [`RunSpec::unset`].

mod lab;

use crate::nfs::{NfsSettings, NfsVersion, Proto};
use crate::pass::Pass;
use crate::spec::{BackendKind, RunSpec, Target};
use crate::units::{Nanos, Size};
use crate::work::{Fill, Sharing, Workload};

/// A setting that most runs leave alone.
struct Optional {
    /// As plans call it.
    name: &'static str,
    /// Whether a run depends on it.
    applies: fn(&RunSpec) -> bool,
    /// How it is shown.
    value: fn(&RunSpec) -> String,
}

const fn option(
    name: &'static str,
    applies: fn(&RunSpec) -> bool,
    value: fn(&RunSpec) -> String,
) -> Optional {
    Optional { name, applies, value }
}

/// Settings that most runs leave alone, in the order of tables.
const OPTIONAL: &[Optional] = &[
    option("passes", |r| !r.workload.passes_allowed().is_empty(), |r| passes(&r.passes)),
    option("client_hosts", is_of_hosts, |r| r.agents().to_string()),
    option("neighbour", |r| r.agents() > 1, |r| r.placement.neighbour.to_string()),
    option("on_lost", is_of_hosts, |r| {
        r.placement.lost_wait_ms.map_or_else(|| "continue".to_owned(), ms)
    }),
    option("sharing", is_stream, |r| r.layout.sharing.to_string()),
    option(
        "block_size",
        |r| r.layout.sharing == Sharing::Shared,
        |r| size(r.layout.block_size_bytes),
    ),
    option("stride", |r| r.passes().contains(&Pass::StrideRead), |r| r.layout.stride.to_string()),
    option(
        "mmap",
        |r| is_stream(r) && r.backend == BackendKind::Posix,
        |r| r.layout.mmap.to_string(),
    ),
    option("timed_close", is_stream, |r| r.layout.timed_close.to_string()),
    option(
        "random_percent",
        |r| r.workload == Workload::Mixed,
        |r| r.layout.random_percent.to_string(),
    ),
    option("skew", |r| r.workload == Workload::Mixed, |r| r.layout.skew_percent.to_string()),
    option("rate", is_ours, |r| r.load.rate_per_s.to_string()),
    option("arrivals", |r| r.load.rate_per_s > 0, |r| r.load.arrivals.to_string()),
    option(
        "think_time",
        |r| is_ours(r) && r.load.rate_per_s == 0,
        |r| Nanos(r.load.think_time_ns).exact(),
    ),
    option("bandwidth", is_ours, |r| size(r.load.bytes_per_s)),
    option("ramp", |r| r.load.rate_per_s > 0, |r| ms(r.load.ramp_ms)),
    option("warmup", is_ours, |r| ms(r.load.warmup_ms)),
    option("time_max", is_ours, |r| ms(r.load.time_max_ms)),
    option("ops", is_ours, |r| r.load.ops_max.to_string()),
    option("bytes", is_ours, |r| size(r.load.bytes_max)),
    option("interval", is_ours, |r| ms(r.sampling.interval_ms)),
    option("stall", is_ours, |r| ms(r.sampling.stall_ms)),
    option("data", writes, |r| r.data.fill.to_string()),
    option(
        "compress",
        |r| writes(r) && r.data.fill == Fill::Random,
        |r| r.data.compress_percent.to_string(),
    ),
    option(
        "dedup",
        |r| writes(r) && r.data.fill == Fill::Random,
        |r| r.data.dedup_percent.to_string(),
    ),
    option("stamp", writes, |r| r.data.stamp.to_string()),
    option("discard", |_| true, |r| r.repetition.discard.to_string()),
    option("until", |_| true, |r| r.repetition.until()),
    option("warmup_trials", |_| true, |r| r.repetition.warmup_trials.to_string()),
    option("tree_sharing", is_metadata, |r| r.tree.sharing.to_string()),
    option("depth", is_metadata, |r| r.tree.depth.to_string()),
    option("branching", |r| is_metadata(r) && r.tree.depth > 0, |r| r.tree.branching.to_string()),
    option("transactions", is_pool, |r| r.transactions.count.to_string()),
    option("size_min", is_pool, |r| size(r.transactions.size_min_bytes.into())),
    option("size_max", is_pool, |r| size(r.transactions.size_max_bytes.into())),
    option("read_bias", is_pool, |r| r.transactions.read_percent.to_string()),
    option("create_bias", is_pool, |r| r.transactions.create_percent.to_string()),
    option("subdirectories", is_pool, |r| r.transactions.directories.to_string()),
    option("mix", is_op_mix, |r| r.op_mix.name.clone()),
    option("set_per_rate", is_op_mix, |r| size(r.op_mix.set_bytes_per_rate)),
    option("accessed_percent", is_op_mix, |r| r.op_mix.accessed_percent.to_string()),
    option("append_percent", is_op_mix, |r| r.op_mix.append_percent.to_string()),
    option("files_per_directory", is_op_mix, |r| r.op_mix.files_per_directory.to_string()),
    option("run", |r| !r.command.run.is_empty(), |r| r.command.run.join(" ")),
];

fn is_of_hosts(run: &RunSpec) -> bool {
    !run.placement.hosts.is_empty()
}

fn is_stream(run: &RunSpec) -> bool {
    run.workload == Workload::Stream
}

fn is_metadata(run: &RunSpec) -> bool {
    run.workload == Workload::Metadata
}

fn is_pool(run: &RunSpec) -> bool {
    run.workload == Workload::Transactions
}

fn is_op_mix(run: &RunSpec) -> bool {
    run.workload == Workload::OpMix
}

fn is_ours(run: &RunSpec) -> bool {
    !run.workload.is_external()
}

fn writes(run: &RunSpec) -> bool {
    is_ours(run) && !run.target.keeps_nothing()
}

fn size(bytes: u64) -> String {
    Size(bytes).exact()
}

fn ms(ms: u64) -> String {
    Nanos(ms.saturating_mul(1_000_000)).exact()
}

fn passes(passes: &[Pass]) -> String {
    let names: Vec<&str> = passes.iter().map(|pass| pass.name()).collect();
    if names.is_empty() { "usual".to_owned() } else { names.join("+") }
}

/// How datagrams are sent again, where they are sent at all.
fn datagram_settings(nfs: &NfsSettings) -> Vec<(&'static str, String)> {
    if nfs.proto == Proto::Udp {
        vec![("timeo", ms(nfs.timeo_ms)), ("retrans", nfs.retrans.to_string())]
    } else {
        Vec::new()
    }
}

impl RunSpec {
    /// Every setting that a reader may want to tell runs apart by, as (name, shown value).
    ///
    /// The names are those of plans and of `--where`.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = self.usual_settings();
        let applying = OPTIONAL.iter().filter(|option| (option.applies)(self));
        settings.extend(applying.map(|option| (option.name, (option.value)(self))));
        settings.extend(self.lab.iter().flat_map(|lab| lab::optional(lab)));
        settings
    }

    /// How a setting is shown that nobody asked for; `None` for those that are always told.
    pub fn unset(name: &str) -> Option<String> {
        let option = OPTIONAL.iter().find(|option| option.name == name);
        let value = option.map(|option| (option.value)(&Self::null(Workload::Stream)));
        value.or_else(|| lab::unset(name))
    }

    /// The settings that are always told.
    fn usual_settings(&self) -> Vec<(&'static str, String)> {
        let [files, file_size] = match self.workload {
            Workload::Metadata | Workload::Transactions => ["small_files", "small_file_size"],
            _ => ["files", "file_size"],
        };
        let mut settings = vec![
            ("target", self.target_name.clone()),
            ("backend", self.backend.name().to_owned()),
            ("workload", self.workload.name().to_owned()),
        ];
        settings.extend(self.lab.iter().flat_map(|lab| lab::usual(lab)));
        if self.workload == Workload::App {
            settings.extend(self.mount_settings());
            return settings;
        }
        settings.push(("workers", self.workers.to_string()));
        settings.push(("queue_depth", self.queue_depth.to_string()));
        if self.workload != Workload::OpMix {
            settings.push((files, self.files.to_string()));
        }
        if !matches!(self.workload, Workload::OpMix | Workload::Transactions) {
            settings.push((file_size, Size(self.file_size_bytes).exact()));
        }
        if self.workload != Workload::Metadata {
            settings.push(("io_size", Size(u64::from(self.io_size_bytes)).exact()));
            settings.push(("direct", self.direct.to_string()));
        }
        if self.workload == Workload::Mixed {
            settings.push(("read_percent", self.read_percent.to_string()));
        }
        // A mix that only reads has nothing to sync at its end.
        let mix_writes = self.workload == Workload::Mixed && self.read_percent < 100;
        if self.workload == Workload::Stream || mix_writes {
            settings.push(("durability", self.durability.name().to_owned()));
        }
        if self.workload != Workload::Metadata && !self.target.keeps_nothing() {
            if self.target.is_local() && self.lab.is_none() {
                settings.push(("invalidate", self.invalidate.to_string()));
            }
            settings.push(("verify", self.verify.to_string()));
        }
        match &self.target {
            Target::Nfs(nfs) => settings.extend(self.nfs_settings(&nfs.settings)),
            _ => settings.extend(self.mount_settings()),
        }
        settings
    }

    /// How the kernel speaks NFS in a mount of ours; nothing where there is none.
    fn mount_settings(&self) -> Vec<(&'static str, String)> {
        let lab = self.lab.as_ref().filter(|lab| lab.is_mounted());
        let nfs = lab.map(|lab| &lab.mounting.nfs);
        let wire = nfs.map(|nfs| [self.wire_settings(nfs), datagram_settings(nfs)].concat());
        wire.unwrap_or_default()
    }

    /// How NFS is spoken, by whomever.
    fn wire_settings(&self, nfs: &NfsSettings) -> Vec<(&'static str, String)> {
        let transfer_size = self.transfer_size_bytes.map(|bytes| Size(bytes.into()).exact());
        vec![
            ("nfsvers", nfs.version.to_string()),
            ("proto", nfs.proto.to_string()),
            ("xprtsec", nfs.xprtsec.to_string()),
            ("nconnect", nfs.nconnect.to_string()),
            ("transfer_size", transfer_size.unwrap_or_else(|| "server's".to_owned())),
        ]
    }

    /// The settings that only a run of the program's own client has.
    fn nfs_settings(&self, nfs: &NfsSettings) -> Vec<(&'static str, String)> {
        let mut settings = self.wire_settings(nfs);
        if self.clients > 0 {
            settings.push(("clients", self.clients.to_string()));
        }
        if nfs.client_uids > 1 {
            settings.push(("client_uids", nfs.client_uids.to_string()));
        }
        if nfs.per_client {
            settings.push(("per_client", nfs.per_client.to_string()));
        }
        if self.workload == Workload::Stream {
            settings.push(("read_ahead", nfs.read_ahead.to_string()));
            settings.push(("write_behind", nfs.write_behind.to_string()));
        }
        if self.workload != Workload::Metadata && nfs.version != NfsVersion::V2 {
            settings.push(("stable", nfs.stable.to_string()));
        }
        settings.extend(datagram_settings(nfs));
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs::NfsTarget;
    use crate::spec::tests::run;

    fn told(spec: &RunSpec) -> Vec<&'static str> {
        let asked = |(name, value): &(&str, String)| RunSpec::unset(name).as_ref() != Some(value);
        spec.settings().into_iter().filter(asked).map(|(name, _)| name).collect()
    }

    #[test]
    fn optional_settings_are_told_once_they_are_asked_for() {
        let mut spec = run(Workload::Stream, 0);
        spec.layout.sharing = Sharing::Shared;
        spec.load.rate_per_s = 100;
        let all: Vec<_> = spec.settings().into_iter().map(|(name, _)| name).collect();
        assert!(["sharing", "block_size", "arrivals", "ramp"].iter().all(|n| all.contains(n)));
        assert!(!all.contains(&"think_time") && !all.contains(&"depth"));
        assert_eq!(told(&spec)[9..], ["durability", "sharing", "rate"]);
    }

    #[test]
    fn settings_are_those_that_the_workload_depends_on() {
        let names = |workload, read_percent| {
            let settings = run(workload, read_percent).usual_settings();
            settings.into_iter().skip(5).map(|(name, _)| name).collect::<Vec<_>>()
        };
        let stream = ["files", "file_size", "io_size", "direct", "durability"];
        assert_eq!(names(Workload::Stream, 0), stream);
        let reads = ["files", "file_size", "io_size", "direct", "read_percent"];
        assert_eq!(names(Workload::Mixed, 100), reads);
        assert_eq!(names(Workload::Mixed, 99), [reads.as_slice(), &["durability"]].concat());
        assert_eq!(names(Workload::Metadata, 0), ["small_files", "small_file_size"]);
    }

    #[test]
    fn settings_of_nfs_are_those_that_the_version_and_the_transport_have() {
        let names = |workload, version, proto| {
            let mut nfs = NfsTarget::new("h", "/e");
            (nfs.settings.version, nfs.settings.proto) = (version, proto);
            let spec = RunSpec { target: Target::Nfs(nfs), ..run(workload, 0) };
            let settings = spec.usual_settings().into_iter().map(|(name, _)| name);
            settings.skip_while(|name| *name != "transfer_size").skip(1).collect::<Vec<_>>()
        };
        let stream = ["read_ahead", "write_behind", "stable"];
        assert_eq!(names(Workload::Stream, NfsVersion::V3, Proto::Tcp), stream);
        let old = ["read_ahead", "write_behind", "timeo", "retrans"];
        assert_eq!(names(Workload::Stream, NfsVersion::V2, Proto::Udp), old);
        assert_eq!(names(Workload::Mixed, NfsVersion::V4_1, Proto::Tcp), ["stable"]);
        assert!(names(Workload::Metadata, NfsVersion::V4_1, Proto::Tcp).is_empty());
    }
}
