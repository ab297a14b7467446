//! Caveats about reads on file systems that don't count reads from storage. Data that fits in
//! memory may never have left it, even with `O_DIRECT`, which only bypasses the page cache of the
//! mount: the program that serves a FUSE mount has its own files in the page cache.

use lab::facts::memory::Memory;
use lab::mounts::Mount;
use model::units::Size;
use model::{Caveat, CaveatCode, Evidence, PassResult, RunSpec, Telemetry};

use super::{evidence_of_cache, read_bytes};
use crate::sources::ReadSources;

/// Raises a caveat if reads came, or may have come, from this host's memory.
///
/// `memory` is the part of it that this process may use. Without `sources`, only sizes are
/// compared.
pub fn about_memory(
    spec: &RunSpec,
    result: &PassResult,
    mount: Option<&Mount>,
    memory: Option<&Memory>,
    sources: Option<&ReadSources>,
) -> Option<Caveat> {
    let mount = mount?;
    let read = read_bytes(result);
    if mount.counts_storage_reads() || mount.is_nfs() || read == 0 {
        return None;
    }
    let host = HostReads::from_telemetry(result.telemetry.first());
    let is_too_little = |bytes: u64| evidence_of_cache(bytes, read, SOURCES).is_some();
    if !is_too_little(stored_bytes(sources)) || !is_too_little(host.network_bytes) {
        return None;
    }
    let counted = describe_counters(sources, &host);
    // Data can only have come from storage or the network, and they delivered too little.
    if let Some(fuse) = sources.and_then(|sources| sources.fuse.as_ref())
        && fuse.is_complete
        && host.is_known
        && let Some(data) = evidence_of_cache(host.all_bytes(), read, SOURCES)
    {
        let evidence =
            format!("{} were read from {}, but {counted}", Size(read), mount.file_system);
        return Some(CaveatCode::Cached.because(evidence).with_data(data));
    }
    let memory = memory?;
    if spec.set_bytes() >= memory.bytes || !result.pass.reads() {
        return None;
    }
    let evidence = format!(
        "the files on {} are {}, but this host has {} of memory ({}); {} were read; {counted}",
        Size(spec.set_bytes()),
        mount.file_system,
        Size(memory.bytes),
        memory.source,
        Size(read),
    );
    let source = format!("size of the files compared with {}", memory.source);
    let data = Evidence::bytes(spec.set_bytes(), memory.bytes, source);
    Some(CaveatCode::FitsMemory.because(evidence).with_data(data))
}

/// The counters that are compared with what was read.
const SOURCES: &str = "read_bytes of /proc/PID/io, /proc/diskstats, /proc/net/dev";

/// Returns the bytes that storage read for this process and for programs that serve FUSE mounts.
fn stored_bytes(sources: Option<&ReadSources>) -> u64 {
    let Some(sources) = sources else { return 0 };
    let fuse = sources.fuse.as_ref().map_or(0, |fuse| fuse.stored_bytes);
    sources.own_stored_bytes.saturating_add(fuse)
}

/// Bytes that this host received from disks and networks during a pass, for all programs.
#[derive(Default)]
struct HostReads {
    is_known: bool,
    disk_bytes: u64,
    /// From other hosts.
    network_bytes: u64,
    loopback_bytes: u64,
}

impl HostReads {
    fn from_telemetry(telemetry: Option<&Telemetry>) -> Self {
        let Some(telemetry) = telemetry else { return Self::default() };
        let mut reads = Self { is_known: telemetry.times_ns.len() > 1, ..Self::default() };
        for metric in &telemetry.metrics {
            let name = metric.name.as_str();
            // Partitions count the bytes of their disk again, so the sum is an upper bound.
            let sum = if name.starts_with("disk.") && name.ends_with(".read_bytes") {
                &mut reads.disk_bytes
            } else if name == "net.lo.received_bytes" {
                &mut reads.loopback_bytes
            } else if name.starts_with("net.") && name.ends_with(".received_bytes") {
                &mut reads.network_bytes
            } else {
                continue;
            };
            *sum = sum.saturating_add(metric.increase());
        }
        reads
    }

    const fn all_bytes(&self) -> u64 {
        self.disk_bytes.saturating_add(self.network_bytes).saturating_add(self.loopback_bytes)
    }
}

/// Describes the counters: storage reads of the programs, and everything the host received.
fn describe_counters(sources: Option<&ReadSources>, host: &HostReads) -> String {
    let mut programs = "this process".to_owned();
    if let Some(fuse) = sources.and_then(|sources| sources.fuse.as_ref()) {
        for name in &fuse.names {
            programs = format!("{programs}, {name}");
        }
    }
    let mut parts = Vec::new();
    if sources.is_some() {
        let stored = Size(stored_bytes(sources));
        parts
            .push(format!("storage delivered {stored} to {programs} (read_bytes of /proc/PID/io)"));
    }
    if host.is_known {
        let received = host.network_bytes.saturating_add(host.loopback_bytes);
        parts.push(format!(
            "this host read {} from disks and received {} from the network in total \
             (/proc/diskstats, /proc/net/dev)",
            Size(host.disk_bytes),
            Size(received),
        ));
    }
    if parts.is_empty() { "there are no counters".to_owned() } else { parts.join("; ") }
}
