//! Caveats about a mount of the kernel's NFS client, based on the kernel's counters.
//!
//! The counters cover the whole mount, including other processes that use it. These can hide a
//! cached read but never make one up.

use engine::backend::ShortTransfers;
use lab::mounts::Mount;
use model::units::Size;
use model::{Caveat, CaveatCode, Evidence, Pass, PassResult, Telemetry, WireBytes};

use super::{STORAGE_SHARE_MIN, about_short_transfers, evidence_of_cache, read_bytes};

/// Procedures that request names and attributes from a server.
const ATTRIBUTE_PROCEDURES: [&str; 6] =
    ["GETATTR", "LOOKUP", "ACCESS", "READDIRPLUS", "READDIR", "OPEN"];

/// Excess of transmissions over calls that calls in flight may explain.
pub const IN_FLIGHT_MAX: u64 = 64;

/// Raises caveats about network traffic if the directory is on an NFS mount. `localio` is what the
/// run requests of LOCALIO.
pub fn about_mount(
    result: &PassResult,
    mount: Option<&Mount>,
    localio: Option<bool>,
) -> Vec<Caveat> {
    let Some((mount, counters)) = MountCounters::of_pass(result, mount) else { return Vec::new() };
    let mut caveats = Vec::new();
    // Listings have their own rule.
    if !result.pass.lists() {
        caveats.extend(check_cached(result, &counters));
    }
    let bypassed = check_localio(mount, &counters, localio == Some(true));
    caveats.extend(bypassed.or_else(|| check_layouts(&counters)));
    caveats.extend(check_retransmissions(&counters));
    caveats.extend(check_short_transfers(&counters));
    caveats
}

/// Returns the bytes of all calls and replies of a mount during a pass, if its client counts them.
pub fn mount_traffic(result: &PassResult, mount: Option<&Mount>) -> Option<WireBytes> {
    let (_, counters) = MountCounters::of_pass(result, mount)?;
    Some(WireBytes {
        sent_bytes: counters.sum_procedures("sent_bytes"),
        received_bytes: counters.sum_procedures("received_bytes"),
    })
}

/// The kernel's counters for one mount during a pass.
pub(super) struct MountCounters<'a> {
    pub telemetry: &'a Telemetry,
    pub point: &'a str,
}

impl<'a> MountCounters<'a> {
    /// Returns an NFS mount and its counters in a pass, if the directory is on one and they were
    /// read.
    pub(super) fn of_pass(
        result: &'a PassResult,
        mount: Option<&'a Mount>,
    ) -> Option<(&'a Mount, Self)> {
        let mount = mount.filter(|mount| mount.is_nfs())?;
        let telemetry = result.telemetry.first()?;
        Some((mount, Self { telemetry, point: &mount.mount_point }))
    }

    pub(crate) fn increase(&self, name: &str) -> u64 {
        self.telemetry.increase(&format!("nfs.{}.{name}", self.point))
    }

    /// Returns true if the server offers layouts that the client can use.
    fn has_layouts(&self) -> bool {
        self.telemetry.metric(&format!("nfs.{}.pnfs", self.point)).is_some()
    }

    /// Sums a counter over all procedures. Its metrics are called `nfs.<mount
    /// point>.<procedure>.<name>`.
    fn sum_procedures(&self, name: &str) -> u64 {
        let start = format!("nfs.{}.", self.point);
        let mut total = 0_u64;
        for metric in &self.telemetry.metrics {
            let Some(rest) = metric.name.strip_prefix(&start) else { continue };
            // Counters of the mount itself have no procedure.
            if let Some((procedure, counter)) = rest.split_once('.')
                && !procedure.is_empty()
                && counter == name
            {
                total = total.saturating_add(metric.increase());
            }
        }
        total
    }
}

/// Raises a caveat if the client's page cache answered requests that should have gone to the
/// server.
fn check_cached(result: &PassResult, counters: &MountCounters<'_>) -> Option<Caveat> {
    let source = "/proc/self/mountstats";
    let (evidence, data) = if matches!(result.pass, Pass::Stat | Pass::SyncTree) {
        let mut requested = 0_u64;
        for procedure in ATTRIBUTE_PROCEDURES {
            requested = requested.saturating_add(counters.increase(&format!("{procedure}.ops")));
        }
        // One call may return the attributes of many files (READDIRPLUS), so only if there were no
        // calls at all is it certain that the cache answered.
        if requested > 0 || result.ops() == 0 {
            return None;
        }
        let evidence = format!(
            "the client requested no names or attributes from the server ({source}) for {} stats",
            result.ops()
        );
        (evidence, Evidence::counts(requested, 1, "calls", source))
    } else if result.pass == Pass::GetXattr {
        // The client caches values that it has set or read; each missing one takes one call.
        let requested = counters.increase("GETXATTR.ops");
        let ops = result.ops();
        let data = evidence_of_cache(requested, ops, source)?;
        let evidence = format!(
            "the client requested {requested} extended attributes from the server (GETXATTR of \
             {source}), but {ops} were read"
        );
        (evidence, data)
    } else {
        let read = read_bytes(result);
        let wire = counters.increase("server_read_bytes");
        let data = evidence_of_cache(wire, read, source)?;
        let evidence = format!(
            "the client read {} from the server (bytes of {source}), but {} were read in total",
            Size(wire),
            Size(read)
        );
        (evidence, data)
    };
    Some(CaveatCode::Cached.because(evidence).with_data(data))
}

/// Raises a caveat if calls of the kernel's client transferred less than requested.
fn check_short_transfers(counters: &MountCounters<'_>) -> Option<Caveat> {
    let transfers = ShortTransfers {
        calls: counters.increase("READ.ops").saturating_add(counters.increase("WRITE.ops")),
        short_reads: counters.increase("short_reads"),
        short_writes: counters.increase("short_writes"),
        missing_bytes: 0,
    };
    about_short_transfers(&transfers, "/proc/self/mountstats")
}

/// Raises a caveat if data reached the server without calls to it: by LOCALIO (Linux 6.12 and
/// later), or by pNFS layouts. The client counts these bytes as transferred, but there were too few
/// calls to carry them. If LOCALIO was requested, raises a caveat if calls carried the data
/// instead.
fn check_localio(
    mount: &Mount,
    counters: &MountCounters<'_>,
    is_requested: bool,
) -> Option<Caveat> {
    // With pNFS layouts, other servers or disks have the data.
    let has_layouts = counters.has_layouts();
    if has_layouts && is_requested {
        return None;
    }
    let directions = [
        ("READ", "read from", "server_read_bytes", ["READ.ops", "READ_PLUS.ops"], "rsize"),
        ("WRITE", "written to", "server_write_bytes", ["WRITE.ops", ""], "wsize"),
    ];
    directions.into_iter().find_map(|(call, verb, bytes, ops, size)| {
        let bytes = counters.increase(bytes);
        let calls = ops.iter().map(|name| counters.increase(name)).sum::<u64>();
        // If the size is unknown, a call may have carried everything.
        let size_bytes = mount.option(size).and_then(|size| size.parse().ok()).unwrap_or(u64::MAX);
        let carried = calls.saturating_mul(size_bytes).min(bytes);
        let share = carried as f64 / bytes as f64;
        let bypasses_rpc = share < STORAGE_SHARE_MIN;
        if bytes == 0 || bypasses_rpc == is_requested {
            return None;
        }
        let source = "/proc/self/mountstats";
        let evidence = format!(
            "{} were {verb} the server of {} in {calls} {call} calls (bytes and per-op \
             statistics of {source})",
            Size(bytes),
            counters.point,
        );
        if is_requested {
            let evidence = format!(
                "localio true, but {evidence}; it takes the kernel's server on the client's host"
            );
            return Some(CaveatCode::OptionNotEffective.because(evidence));
        }
        let data = Evidence::shares(share, STORAGE_SHARE_MIN, source);
        if has_layouts {
            let layouts = counters.increase("LAYOUTGET.ops");
            let evidence = format!("{evidence}, which gave {layouts} layouts (LAYOUTGET)");
            return Some(CaveatCode::Pnfs.because(evidence).with_data(data));
        }
        Some(CaveatCode::Localio.because(evidence).with_data(data))
    })
}

/// Notes that layouts were used although calls carried the data: the kernel's client counts those
/// to data servers with the mount's. A layout that comes with an OPEN is not counted, but the
/// request for its device is.
fn check_layouts(counters: &MountCounters<'_>) -> Option<Caveat> {
    let moved = counters.increase("server_read_bytes") + counters.increase("server_write_bytes");
    let [layouts, devices, commits] = ["LAYOUTGET", "GETDEVICEINFO", "LAYOUTCOMMIT"]
        .map(|call| counters.increase(&format!("{call}.ops")));
    let calls = layouts + devices + commits;
    if !counters.has_layouts() || moved == 0 || calls == 0 {
        return None;
    }
    let source = "/proc/self/mountstats";
    let evidence = format!(
        "{} were moved with layouts of {}, as {layouts} LAYOUTGET, {devices} GETDEVICEINFO and \
         {commits} LAYOUTCOMMIT calls show (per-op statistics of {source})",
        Size(moved),
        counters.point,
    );
    Some(CaveatCode::Pnfs.because(evidence).with_data(Evidence::counts(calls, 0, "calls", source)))
}

/// Raises a caveat if the kernel's client retransmitted calls.
fn check_retransmissions(counters: &MountCounters<'_>) -> Option<Caveat> {
    let calls = counters.sum_procedures("ops");
    let major = counters.sum_procedures("major_timeouts");
    // A call in flight at the time of a reading is sent but not completed, so up to `IN_FLIGHT_MAX`
    // excess transmissions prove nothing. A timeout does.
    let again = counters.sum_procedures("transmissions").saturating_sub(calls);
    if major == 0 && again <= IN_FLIGHT_MAX {
        return None;
    }
    let evidence = format!(
        "the kernel's client retransmitted {again} of {calls} calls, and {major} timed out \
         (/proc/self/mountstats)"
    );
    let source = "/proc/self/mountstats";
    let data = if major > 0 {
        Evidence::counts(major, 0, "timeouts", source)
    } else {
        Evidence::counts(again, IN_FLIGHT_MAX, "calls", source)
    };
    Some(CaveatCode::Retransmits.because(evidence).with_data(data))
}
