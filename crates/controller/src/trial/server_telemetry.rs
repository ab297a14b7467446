//! Collects telemetry from servers while client hosts run a pass.
//!
//! An agent that runs workers watches its own host. Telemetry of the server answers what needs both
//! sides: whether reads were served from its disk or its memory, and whether replies were lost,
//! most of which the client cannot see.

use fleet::request;
use model::units::Size;
use model::{Caveat, CaveatCode, Evidence, FileSystem, HeldOps, LabSpec, PassResult, Telemetry};

use crate::hosts::Hosts;
use crate::trial::delegations::about_names;

/// Minimum share of the bytes served that must have been read from disk. Below it, memory served
/// some.
const DISK_SHARE_MIN: f64 = 0.9;

/// Starts collecting on servers that run no workers.
pub(crate) fn begin(hosts: &mut Hosts<'_>, lab: &LabSpec) -> Result<(), String> {
    for host in idle_servers(lab) {
        hosts.ask(host, request::watch())?;
    }
    Ok(())
}

/// Stops collecting, and adds the telemetry and resulting caveats to a pass.
pub(crate) fn end(
    hosts: &mut Hosts<'_>,
    lab: &LabSpec,
    result: &mut PassResult,
) -> Result<(), String> {
    for own in &mut result.telemetry {
        if own.host.is_empty() {
            own.host.clone_from(&lab.worker().name);
        }
    }
    for host in idle_servers(lab) {
        let mut seen = hosts.ask(host, request::unwatch())?;
        host.clone_into(&mut seen.host);
        result.caveats.extend(about_server(lab, &seen));
        result.caveats.extend(about_lost_answers(result, &seen));
        result.telemetry.push(seen);
    }
    // Servers may also be among the hosts that work.
    let servers = if lab.is_served() { lab.servers() } else { Vec::new() };
    let is_server = |seen: &&Telemetry| servers.iter().any(|server| server.name == seen.host);
    let changed = result.telemetry.iter().filter(is_server).filter_map(changed_threads);
    result.caveats.extend(changed.collect::<Vec<_>>());
    result.caveats.extend(about_names(lab, result));
    Ok(())
}

/// Returns the servers that run no workers.
fn idle_servers(lab: &LabSpec) -> Vec<&str> {
    lab.servers()
        .into_iter()
        .filter(|server| lab.clients().all(|client| client.name != server.name))
        .map(|server| server.name.as_str())
        .collect()
}

/// Raises a caveat if the kernel's NFS server sent data from memory rather than from disk.
pub fn about_server(lab: &LabSpec, server: &Telemetry) -> Option<Caveat> {
    let served = server.increase("nfsd.read_bytes");
    let mut from_disk = 0_u64;
    for metric in &server.metrics {
        if is_of_whole_disk(&metric.name, server) {
            from_disk = from_disk.saturating_add(metric.increase());
        }
    }
    // Read-ahead reads more than is served, and some of the data may have been cached before. Only
    // if the disks read clearly less did memory serve the rest.
    let on_disk = lab.storage.file_system != FileSystem::Tmpfs;
    if !on_disk || served == 0 || from_disk as f64 >= served as f64 * DISK_SHARE_MIN {
        return None;
    }
    let evidence = format!(
        "the disks of {} read {} (/proc/diskstats) while its nfsd sent {} (/proc/net/rpc/nfsd)",
        server.host,
        Size(from_disk),
        Size(served)
    );
    let share = from_disk as f64 / served as f64;
    let source = "/proc/diskstats divided by /proc/net/rpc/nfsd";
    let data = Evidence::shares(share, DISK_SHARE_MIN, source);
    Some(CaveatCode::ServerCached.because(evidence).with_data(data))
}

/// Raises a caveat if the number of threads of a kernel's NFS server changed, because it is dynamic
/// or because somebody changed it.
///
/// A server that is stopped has no threads; a restart with the same number changes nothing.
pub fn changed_threads(server: &Telemetry) -> Option<Caveat> {
    let mut values = server.metric("nfsd.threads")?.values.clone();
    values.retain(|threads| *threads > 0);
    let (first, last) = (*values.first()?, *values.last()?);
    let (least, most) = (*values.iter().min()?, *values.iter().max()?);
    if least == most {
        return None;
    }
    let source = "th of /proc/net/rpc/nfsd";
    let evidence = format!(
        "nfsd on {} had {first} threads at the start of the pass, {last} at its end, and {least} \
         to {most} meanwhile ({source}, each second)",
        server.host
    );
    let data = Evidence::counts(most, least, "threads", source);
    Some(CaveatCode::ServerThreadsChanged.because(evidence).with_data(data))
}

/// Raises a caveat if segments lost by a server explain much of the time that ops took.
///
/// The counters cover all connections of the server, so only ops that took exactly one timeout
/// longer count.
fn about_lost_answers(result: &PassResult, server: &Telemetry) -> Option<Caveat> {
    let sent = server.increase("tcp.segments_sent");
    let again = server.increase("tcp.segments_retransmitted");
    let lost = again.saturating_sub(server.increase("tcp.segments_arrived_twice"));
    let held = HeldOps::timed_out(result, lost, None);
    if !held.affects_result() {
        return None;
    }
    let source = "RetransSegs of /proc/net/snmp";
    let evidence = format!(
        "all connections of {} lost {lost} of {sent} segments ({source}, less TCPDSACKRecvSegs of \
         /proc/net/netstat); {}",
        server.host,
        held.describe(),
    );
    Some(CaveatCode::TcpRetransmits.because(evidence).with_data(held.evidence(source)))
}

/// Returns true if a metric counts the reads of a whole disk, not of a partition, array or mapping.
fn is_of_whole_disk(metric: &str, server: &Telemetry) -> bool {
    let Some(name) = disk_of(metric) else { return false };
    // These are made of other disks, whose reads would be counted twice.
    for made in ["loop", "dm-", "md", "ram", "zram"] {
        if name.starts_with(made) {
            return false;
        }
    }
    // Partitions are named after their disk: `sda1` of `sda`, and `nvme0n1p2` of `nvme0n1`, where a
    // `p` separates the number.
    let mut whole = name.trim_end_matches(is_digit);
    if let Some(disk) = whole.strip_suffix('p')
        && disk.ends_with(is_digit)
    {
        whole = disk;
    }
    name == whole || server.metrics.iter().all(|other| disk_of(&other.name) != Some(whole))
}

/// Returns the block device whose reads a metric counts.
fn disk_of(metric: &str) -> Option<&str> {
    metric.strip_prefix("disk.")?.strip_suffix(".read_bytes")
}

const fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use model::{Histogram, KindResult, Metric, MetricKind, OpKind, Pass};

    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns a pass with ops of 30 µs and some that took longer.
    fn pass(longer_ns: u64, ops: u64) -> PassResult {
        let mut service_time = Histogram::new();
        service_time.record_n(30_000, 2_500);
        service_time.record_n(longer_ns, ops);
        let window_ns = service_time.mean() * service_time.count();
        let kind = KindResult {
            kind: OpKind::Write,
            issued: 2_500 + ops,
            done: 2_500 + ops,
            bytes: 0,
            errors: Vec::new(),
            service_time,
            response_time: Histogram::new(),
        };
        PassResult { window_ns, kinds: vec![kind], ..PassResult::new(Pass::Mix) }
    }

    fn server(again: u64, twice: u64) -> Telemetry {
        let counter = |name: &str, risen: u64| Metric {
            name: format!("tcp.{name}"),
            kind: MetricKind::Counter,
            values: vec![5, 5 + risen],
        };
        let metrics = vec![
            counter("segments_sent", 6_000),
            counter("segments_retransmitted", again),
            counter("segments_arrived_twice", twice),
        ];
        Telemetry { host: "server".to_owned(), times_ns: vec![0, 1], metrics }
    }

    #[test]
    fn lost_answers_are_named_by_server() {
        let caveat = about_lost_answers(&pass(205 * MS, 18), &server(20, 2)).unwrap();
        assert_eq!(caveat.code, CaveatCode::TcpRetransmits);
        insta::assert_snapshot!(caveat.evidence);
        let data = caveat.data.unwrap();
        assert!(data.found > 90.0 && data.limit < 5.1, "{data:?}");
    }

    #[test]
    fn names_changed_number_of_threads() {
        let seen = |values: &[u64]| Telemetry {
            host: "server".to_owned(),
            times_ns: (0..values.len() as u64).collect(),
            metrics: vec![Metric {
                name: "nfsd.threads".to_owned(),
                kind: MetricKind::Gauge,
                values: values.to_vec(),
            }],
        };
        let caveat = changed_threads(&seen(&[4, 9, 16, 12])).unwrap();
        assert_eq!(caveat.code, CaveatCode::ServerThreadsChanged);
        insta::assert_snapshot!(caveat.evidence, @"nfsd on server had 4 threads at the start of the pass, 12 at its end, and 4 to 16 meanwhile (th of /proc/net/rpc/nfsd, each second)");
        let data = caveat.data.unwrap();
        assert_eq!((data.found, data.limit, data.unit.as_str()), (16.0, 4.0, "threads"));
        assert!(changed_threads(&seen(&[8, 12, 8])).is_some());
        // Stopped and started again, or not a kernel's server.
        assert_eq!(changed_threads(&seen(&[8, 0, 0, 8])), None);
        assert_eq!(changed_threads(&seen(&[8, 8, 8])), None);
        assert_eq!(changed_threads(&seen(&[0, 0])), None);
        assert_eq!(changed_threads(&seen(&[])), None);
        assert_eq!(changed_threads(&server(0, 0)), None);
    }

    #[test]
    fn ignores_losses_without_timeouts() {
        let timed_out = pass(205 * MS, 18);
        assert_eq!(about_lost_answers(&timed_out, &server(18, 18)), None);
        assert_eq!(about_lost_answers(&timed_out, &server(HeldOps::TIMEOUTS_MIN - 1, 0)), None);
        assert!(about_lost_answers(&timed_out, &server(HeldOps::TIMEOUTS_MIN, 0)).is_some());
        // Others lost segments, and ops waited for a CPU.
        assert_eq!(about_lost_answers(&pass(30 * MS, 100), &server(900, 0)), None);
    }
}
