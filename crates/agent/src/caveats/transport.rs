//! Caveats about how a mount of the kernel's NFS client reached its server: connections and TLS.

use lab::mounts::Mount;
use model::{Caveat, CaveatCode, Evidence, LabSpec, PassResult, XprtSec};

use super::mount::MountCounters;

/// Calls per connection after which each one must have carried some. The kernel takes the
/// connections in turn, unless one has a longer queue.
///
/// **Source:** net/sunrpc/clnt.c of Linux (`rpc_task_get_next_xprt`).
const CALLS_PER_CONNECTION: u64 = 16;

/// Raises caveats about the transport if the directory is on an NFS mount. `lab` is what the run
/// requests, if it made the mount.
pub fn about_transport(
    result: &PassResult,
    mount: Option<&Mount>,
    lab: Option<&LabSpec>,
) -> Vec<Caveat> {
    let Some((mount, counters)) = MountCounters::of_pass(result, mount) else { return Vec::new() };
    let mut caveats = Vec::new();
    caveats.extend(check_offload(mount, &counters));
    if let Some(lab) = lab {
        caveats.extend(check_connections(lab, &counters));
        caveats.extend(check_sessions(lab, &counters));
    }
    caveats
}

/// Raises a caveat if some of the requested connections carried no calls.
fn check_connections(lab: &LabSpec, counters: &MountCounters<'_>) -> Option<Caveat> {
    let trunks = lab.trunk_addresses().len() as u64;
    let requested = u64::from(lab.mounting.nfs.nconnect) + trunks;
    let name = format!("nfs.{}.connections", counters.point);
    let connections = counters.telemetry.metric(&name)?.values.last().copied()?;
    let sends = |number| counters.increase(&format!("connection{number}.sends"));
    let used = (1..=connections).filter(|number| sends(*number) > 0).count() as u64;
    let calls: u64 = (1..=connections).map(sends).sum();
    if used >= requested || calls < requested * CALLS_PER_CONNECTION {
        return None;
    }
    let name = if trunks > 0 { "max_connect and nconnect make" } else { "nconnect makes" };
    let evidence = format!(
        "{name} {requested} connections, but {used} of {connections} carried the {calls} calls \
         (xprt of /proc/self/mountstats)"
    );
    Some(CaveatCode::OptionNotEffective.because(evidence))
}

/// Raises a caveat if a mount that should be encrypted moved data while this host had no session of
/// TLS in the kernel.
fn check_sessions(lab: &LabSpec, counters: &MountCounters<'_>) -> Option<Caveat> {
    let level = lab.mounting.nfs.xprtsec;
    let calls = counters.increase("sends");
    if level == XprtSec::None || calls == 0 || tls_sessions(counters) != Some([0, 0]) {
        return None;
    }
    let evidence = format!(
        "xprtsec {level}, but the mount made {calls} calls without a session of TLS \
         (/proc/net/tls_stat)"
    );
    Some(CaveatCode::OptionNotEffective.because(evidence))
}

/// Raises a caveat if a network device encrypts for the mount.
fn check_offload(mount: &Mount, counters: &MountCounters<'_>) -> Option<Caveat> {
    let level = mount.option("xprtsec").filter(|level| *level != "none")?;
    let [software, device] = tls_sessions(counters)?;
    if device == 0 || counters.increase("sends") == 0 {
        return None;
    }
    let evidence = format!(
        "xprtsec {level}: {device} sessions of TLS on a network device, {software} in software \
         (TlsCurrTxDevice and TlsCurrTxSw of /proc/net/tls_stat, all programs)"
    );
    let data = Evidence::counts(device, 0, "sessions", "/proc/net/tls_stat");
    Some(CaveatCode::TlsOffload.because(evidence).with_data(data))
}

/// Returns the largest numbers of TLS sessions during the pass: in software, and on devices. `None`
/// if the kernel doesn't count them.
fn tls_sessions(counters: &MountCounters<'_>) -> Option<[u64; 2]> {
    let most = |name: &str| counters.telemetry.metric(name)?.values.iter().max().copied();
    Some([most("tls.software_sessions")?, most("tls.device_sessions")?])
}
