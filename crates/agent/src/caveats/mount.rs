//! Caveats about a directory that the kernel's NFS client has mounted, from what it counts.
//!
//! The counters are those of the whole mount: whoever else uses it meanwhile is in them, which can
//! hide a cached read but never make one up.

use lab::mounts::Mount;
use model::units::Size;
use model::{Caveat, CaveatCode, Pass, PassResult, Telemetry};

use super::STORAGE_SHARE_MIN;

/// Procedures that ask a server for names and attributes.
const ASKING: [&str; 6] = ["GETATTR", "LOOKUP", "ACCESS", "READDIRPLUS", "READDIR", "OPEN"];

/// So many transmissions more than calls may be calls that are still on their way.
pub const IN_FLIGHT_MAX: u64 = 64;

/// Doubts about what came over the wire, where the directory lies on a mount of NFS.
pub fn about_mount(result: &PassResult, mount: Option<&Mount>) -> Vec<Caveat> {
    let Some(mount) = mount.filter(|mount| mount.is_nfs()) else { return Vec::new() };
    let Some(telemetry) = result.telemetry.first() else { return Vec::new() };
    let counted = Counted { telemetry, point: &mount.mount_point };
    [cached(result, &counted), retransmitted(&counted)].into_iter().flatten().collect()
}

/// Counters of the kernel for one mount, over a pass.
struct Counted<'a> {
    telemetry: &'a Telemetry,
    point: &'a str,
}

impl Counted<'_> {
    fn risen(&self, name: &str) -> u64 {
        self.telemetry.risen(&format!("nfs.{}.{name}", self.point))
    }

    /// The sum over all procedures.
    fn of_all_ops(&self, name: &str) -> u64 {
        let start = format!("nfs.{}.", self.point);
        let of_mount = self.telemetry.metrics.iter().filter_map(|metric| {
            let (op, what) = metric.name.strip_prefix(&start)?.split_once('.')?;
            (!op.is_empty() && what == name).then_some(metric)
        });
        of_mount.map(model::Metric::risen).sum()
    }
}

fn cached(result: &PassResult, counted: &Counted<'_>) -> Option<Caveat> {
    let source = "/proc/self/mountstats";
    if result.pass == Pass::Stat {
        let requested: u64 = ASKING.iter().map(|op| counted.risen(&format!("{op}.ops"))).sum();
        return (requested == 0 && result.ops() > 0).then(|| {
            CaveatCode::Cached.because(format!(
                "no name or attribute was asked of the server ({source}) for {} stats",
                result.ops()
            ))
        });
    }
    let reads = result.kinds.iter().filter(|kind| kind.kind.reads_data());
    let read: u64 = reads.map(|kind| kind.bytes).sum();
    let wire = counted.risen("server_read_bytes");
    if read == 0 || wire as f64 >= read as f64 * STORAGE_SHARE_MIN {
        return None;
    }
    Some(CaveatCode::Cached.because(format!(
        "{} came from the server (bytes of {source}) for {} read",
        Size(wire),
        Size(read)
    )))
}

fn retransmitted(counted: &Counted<'_>) -> Option<Caveat> {
    let calls = counted.of_all_ops("ops");
    // A call that is on its way at either reading is sent but not yet done, so times count, too.
    let major = counted.of_all_ops("major_timeouts");
    let again = counted.of_all_ops("transmissions").saturating_sub(calls);
    (major > 0 || again > IN_FLIGHT_MAX).then(|| {
        CaveatCode::Retransmits.because(format!(
            "{again} of {calls} calls of the kernel's client were sent again, {major} timed out \
             (/proc/self/mountstats)"
        ))
    })
}
