//! Counters of the kernel's NFS client and server.
//!
//! For each mount: bytes transferred for applications (`read_bytes`, `direct_read_bytes`) and over
//! the network (`server_read_bytes`); calls, transmissions and times of each procedure; and the
//! sends of each connection (`connection1.sends`), and the
//! gauge `pnfs` if data may go to other servers than the mount's. For the server: the lines `rc`,
//! `io`, `th`, `net` and `rpc`, the calls of each procedure, and at the end of a pass the
//! delegations that clients hold.
//!
//! **Source:** include/linux/nfs_iostat.h, net/sunrpc/stats.c and fs/nfsd/stats.c of Linux;
//! mountstats(8) for the lines `xprt:`, which depend on the transport.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use model::telemetry::{Metric, MetricKind};
use procfs::FromBufRead as _;
use procfs::process::{MountNFSStatistics, MountStats};

use super::Readings;
use crate::facts::tls::{self, TlsSessions};
use crate::mounts::mountstats;

const NS_PER_MS: u64 = 1_000_000;
const NFSD: &str = "/proc/net/rpc/nfsd";
/// Folder with a folder for each client of v4.
///
/// **Source:** fs/nfsd/nfs4state.c (`client_states_fops`).
const CLIENTS: &str = "/proc/fs/nfsd/clients";

pub(super) fn read(readings: &mut Readings) {
    if let Ok(text) = fs::read_to_string(mountstats::PATH) {
        read_mounts(readings, &text);
    }
    if let Ok(text) = fs::read_to_string(NFSD) {
        read_server(readings, &text);
    }
    if let Ok(text) = fs::read_to_string(tls::STATISTICS) {
        read_tls(readings, &text);
    }
}

/// Reads how many sessions of TLS the kernel has, such as those of mounts.
pub(super) fn read_tls(readings: &mut Readings, text: &str) {
    if let Some(TlsSessions { software, device }) = TlsSessions::parse(text) {
        readings.gauge("tls.software_sessions", software);
        readings.gauge("tls.device_sessions", device);
    }
}

/// Reads the counters of the NFS mounts from the text of [`mountstats::PATH`].
pub(super) fn read_mounts(readings: &mut Readings, text: &str) {
    if !text.contains("with fstype nfs") {
        return;
    }
    read_transports(readings, text);
    for mount in mountstats::parse_mounts(text) {
        if mount.has_layouts() {
            readings.gauge(format!("nfs.{}.pnfs", mount.point), 1);
        }
    }
    let Ok(mounts) = MountStats::from_buf_read(text.as_bytes()) else { return };
    for mount in mounts {
        let is_nfs = mount.fs == "nfs" || mount.fs == "nfs4";
        if is_nfs && let Some(statistics) = &mount.statistics {
            read_mount(readings, &mount.mount_point.display().to_string(), statistics);
        }
    }
}

fn read_mount(readings: &mut Readings, point: &str, statistics: &MountNFSStatistics) {
    let bytes = &statistics.bytes;
    for (name, value) in [
        ("read_bytes", bytes.normal_read),
        ("write_bytes", bytes.normal_write),
        ("direct_read_bytes", bytes.direct_read),
        ("direct_write_bytes", bytes.direct_write),
        ("server_read_bytes", bytes.server_read),
        ("server_write_bytes", bytes.server_write),
    ] {
        readings.counter(format!("nfs.{point}.{name}"), value);
    }
    let events = &statistics.events;
    // A READ that returned less than requested before the end of the file, or a WRITE that accepted
    // less. The client transfers the rest with further calls.
    readings.counter(format!("nfs.{point}.short_reads"), events.short_read);
    readings.counter(format!("nfs.{point}.short_writes"), events.short_write);
    // Include procedures without calls, so that there is a value before a mount's first calls.
    for (op, done) in &statistics.per_op_stats {
        // Totals of all calls: waiting for a slot, round trip, and overall.
        for (name, value) in [
            ("ops", done.operations),
            ("transmissions", done.transmissions),
            ("major_timeouts", done.major_timeouts),
            ("sent_bytes", done.bytes_sent),
            ("received_bytes", done.bytes_recv),
            ("queue_ns", done.cum_queue_time.as_millis() as u64 * NS_PER_MS),
            ("rtt_ns", done.cum_resp_time.as_millis() as u64 * NS_PER_MS),
            ("exe_ns", done.cum_total_req_time.as_millis() as u64 * NS_PER_MS),
        ] {
            readings.counter(format!("nfs.{point}.{op}.{name}"), value);
        }
    }
}

/// Reads the connections of each mount and their counters, which the procfs crate leaves out.
fn read_transports(readings: &mut Readings, text: &str) {
    for mount in mountstats::parse_mounts(text) {
        let mut connections = 0;
        let mut sums = [0_u64; 3];
        for (name, line) in &mount.lines {
            if *name == "xprt" {
                connections += 1;
                let [sends, ..] = transport_counts(line);
                let name = format!("nfs.{}.connection{connections}.sends", mount.point);
                readings.counter(name, sends);
                for (sum, count) in sums.iter_mut().zip(transport_counts(line)) {
                    *sum += count;
                }
            }
        }
        let point = mount.point;
        let [sends, bad_xids, backlog] = sums;
        readings.gauge(format!("nfs.{point}.connections"), connections);
        readings.counter(format!("nfs.{point}.sends"), sends);
        readings.counter(format!("nfs.{point}.bad_xids"), bad_xids);
        readings.counter(format!("nfs.{point}.backlog"), backlog);
    }
}

/// Returns the sends, bad XIDs and backlog (the sum of the queue lengths at each send) of one
/// connection.
fn transport_counts(line: &str) -> [u64; 3] {
    let mut fields = line.split_ascii_whitespace();
    let columns = match fields.next() {
        Some("udp") => [2, 4, 6],
        Some("tcp" | "rdma") => [5, 7, 9],
        _ => return [0; 3],
    };
    // A missing or invalid field counts as 0.
    let fields: Vec<&str> = fields.collect();
    let mut counts = [0; 3];
    for (count, column) in counts.iter_mut().zip(columns) {
        *count = fields.get(column).copied().unwrap_or_default().parse().unwrap_or(0);
    }
    counts
}

fn read_server(readings: &mut Readings, text: &str) {
    const LINES: [(&str, &[&str]); 5] = [
        ("rc", &["drc_hits", "drc_misses", "drc_nocache"]),
        ("fh", &["stale_handles"]),
        ("io", &["read_bytes", "write_bytes"]),
        ("net", &["packets", "udp_packets", "tcp_packets", "tcp_connections"]),
        ("rpc", &["calls", "bad_calls", "bad_format", "bad_auth", "bad_client"]),
    ];
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let Some(kind) = fields.next() else { continue };
        let values: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
        for (known, names) in LINES {
            if known == kind {
                for (name, value) in names.iter().zip(&values) {
                    readings.counter(format!("nfsd.{name}"), *value);
                }
            }
        }
        if kind == "th" {
            readings.gauge("nfsd.threads", values.first().copied().unwrap_or(0));
        } else if kind.starts_with("proc") {
            // The first number is the count of the following ones. v4 operations are named by their
            // number.
            for (number, calls) in values.iter().skip(1).enumerate() {
                if *calls > 0 {
                    readings.counter(format!("nfsd.{kind}.{number}"), *calls);
                }
            }
        }
    }
}

/// Counts the delegations that clients hold, as one value for a number of readings: the list may be
/// long, so it is read only once, after the pass. Returns `None` if there is no server, or only
/// root may read it.
pub(super) fn read_delegations(readings: usize) -> Option<Metric> {
    let held = count_delegations(Path::new(CLIENTS))?;
    let values = vec![held; readings];
    Some(Metric { name: "nfsd.delegations".to_owned(), kind: MetricKind::Gauge, values })
}

fn count_delegations(clients: &Path) -> Option<u64> {
    let mut held = 0;
    for client in fs::read_dir(clients).ok()? {
        // A client that is gone by now holds none.
        let path = client.ok()?.path().join("states");
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return None,
            text => text.unwrap_or_default(),
        };
        held += text.lines().filter(|line| line.contains("{ type: deleg,")).count() as u64;
    }
    Some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_delegations_of_all_clients() {
        let folder = tempfile::tempdir().unwrap();
        let clients = folder.path();
        assert_eq!(count_delegations(&clients.join("none")), None);
        assert_eq!(count_delegations(clients), Some(0));
        // As printed by Linux 7.2, shortened: a delegation of a directory and of a file.
        let directory =
            "- 0x01: { type: deleg, access: r, superblock: \"00:1e:1\", filename: \"/\" }\n";
        let open = "- 0x02: { type: open, access: rw, deny: --, superblock: \"00:1e:2\" }\n";
        let file = directory.replace("access: r,", "access: w,");
        for (client, text) in [("7", [directory, open].concat()), ("8", file)] {
            fs::create_dir(clients.join(client)).unwrap();
            fs::write(clients.join(client).join("states"), text).unwrap();
        }
        // A client without the file is on its way out.
        fs::create_dir(clients.join("9")).unwrap();
        assert_eq!(count_delegations(clients), Some(2));
    }

    fn value(readings: &Readings, name: &str) -> Option<u64> {
        readings.0.iter().find(|reading| reading.name == name).map(|reading| reading.value)
    }

    /// As printed by Linux 6.12, shortened.
    const NFSD_TEXT: &str = "rc 5 120 300\nfh 1 0 0 0 0\nio 67108864 1048576\nth 16 0 0.000\n\
        ra 0 0\nnet 440 0 440 3\nrpc 425 1 0 1 0\nproc3 22 1 9 0 2\nproc4ops 76 0 0 0 10\n";

    #[test]
    fn the_servers_lines_are_read() {
        let mut readings = Readings::default();
        read_server(&mut readings, NFSD_TEXT);
        let expected = [
            ("nfsd.drc_hits", 5),
            ("nfsd.stale_handles", 1),
            ("nfsd.read_bytes", 67_108_864),
            ("nfsd.write_bytes", 1_048_576),
            ("nfsd.threads", 16),
            ("nfsd.tcp_connections", 3),
            ("nfsd.bad_calls", 1),
            ("nfsd.proc3.1", 9),
            ("nfsd.proc4ops.3", 10),
        ];
        for (name, expected) in expected {
            assert_eq!(value(&readings, name), Some(expected), "{name}");
        }
        assert_eq!(value(&readings, "nfsd.proc3.2"), None);
    }

    #[test]
    fn connections_are_counted_for_each_mount() {
        let text = "device rootfs mounted on / with fstype rootfs\n\
            device s:/a mounted on /mnt/a with fstype nfs4 statvers=1.1\n\
            \txprt:\ttcp 909 0 1 0 2 294 290 1 294 7 2 0 0\n\
            \txprt:\ttcp 910 0 1 0 2 6 6 0 6 3 2 0 0\n\
            device s:/b mounted on /mnt/b with fstype nfs statvers=1.1\n\
            \txprt:\tudp 800 1 20 19 0 20 4 2 0 0\n";
        let mut readings = Readings::default();
        read_transports(&mut readings, text);
        assert_eq!(value(&readings, "nfs./mnt/a.connections"), Some(2));
        assert_eq!(value(&readings, "nfs./mnt/a.sends"), Some(300));
        let each = [1, 2, 3].map(|number| format!("nfs./mnt/a.connection{number}.sends"));
        assert_eq!(each.map(|name| value(&readings, &name)), [Some(294), Some(6), None]);
        assert_eq!(value(&readings, "nfs./mnt/a.bad_xids"), Some(1));
        assert_eq!(value(&readings, "nfs./mnt/a.backlog"), Some(10));
        assert_eq!(value(&readings, "nfs./mnt/b.sends"), Some(20));
        assert_eq!(value(&readings, "nfs./mnt/b.backlog"), Some(4));
        assert_eq!(value(&readings, "nfs./.connections"), None);
        assert_eq!(transport_counts("local 1 2 3"), [0; 3]);
    }
}
