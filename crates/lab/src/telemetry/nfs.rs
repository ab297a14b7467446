//! Counters of the kernel's NFS client and server.
//!
//! Of a mount: what applications moved (`read_bytes`, `direct_read_bytes`), what went over the wire
//! (`server_read_bytes`), and each procedure's calls, transmissions and times. Of the server: the
//! lines `rc`, `io`, `th`, `net` and `rpc`, and each procedure's calls.
//!
//! **Source:** include/linux/nfs_iostat.h, net/sunrpc/stats.c and fs/nfsd/stats.c of Linux;
//! mountstats(8) for the lines `xprt:`, which depend on the transport.

use std::fs;

use procfs::process::{MountNFSStatistics, Process};

use super::Readings;
use crate::mountstats;

const NS_PER_MS: u64 = 1_000_000;
const NFSD: &str = "/proc/net/rpc/nfsd";

pub(super) fn read(readings: &mut Readings) {
    let is_nfs = |kind: &str| kind == "nfs" || kind == "nfs4";
    if let Ok(text) = fs::read_to_string(mountstats::PATH)
        && text.contains("with fstype nfs")
    {
        read_transports(readings, &text);
        let mounts = Process::myself().and_then(|process| process.mountstats());
        for mount in mounts.into_iter().flatten().filter(|mount| is_nfs(&mount.fs)) {
            if let Some(statistics) = &mount.statistics {
                read_mount(readings, &mount.mount_point.display().to_string(), statistics);
            }
        }
    }
    if let Ok(text) = fs::read_to_string(NFSD) {
        read_server(readings, &text);
    }
}

fn read_mount(readings: &mut Readings, point: &str, statistics: &MountNFSStatistics) {
    let bytes = &statistics.bytes;
    let mut counter = |name: &str, value| readings.counter(format!("nfs.{point}.{name}"), value);
    counter("read_bytes", bytes.normal_read);
    counter("write_bytes", bytes.normal_write);
    counter("direct_read_bytes", bytes.direct_read);
    counter("direct_write_bytes", bytes.direct_write);
    counter("server_read_bytes", bytes.server_read);
    counter("server_write_bytes", bytes.server_write);
    for (op, done) in &statistics.per_op_stats {
        if done.operations == 0 {
            continue;
        }
        counter(&format!("{op}.ops"), done.operations);
        counter(&format!("{op}.transmissions"), done.transmissions);
        counter(&format!("{op}.major_timeouts"), done.major_timeouts);
        counter(&format!("{op}.sent_bytes"), done.bytes_sent);
        counter(&format!("{op}.received_bytes"), done.bytes_recv);
        counter(&format!("{op}.queue_ns"), done.cum_queue_time.as_millis() as u64 * NS_PER_MS);
        counter(&format!("{op}.rtt_ns"), done.cum_resp_time.as_millis() as u64 * NS_PER_MS);
        counter(&format!("{op}.exe_ns"), done.cum_total_req_time.as_millis() as u64 * NS_PER_MS);
    }
}

/// Connections of each mount, and what they counted: procfs leaves these lines out.
fn read_transports(readings: &mut Readings, text: &str) {
    for mount in mountstats::of(text) {
        let transports = mount.lines.iter().filter(|(name, _)| *name == "xprt");
        let counts: Vec<[u64; 3]> = transports.map(|(_, line)| transport_counts(line)).collect();
        let point = mount.point;
        readings.gauge(format!("nfs.{point}.connections"), counts.len() as u64);
        for (column, name) in ["sends", "bad_xids", "backlog"].into_iter().enumerate() {
            let sum = counts.iter().map(|counts| counts[column]).sum();
            readings.counter(format!("nfs.{point}.{name}"), sum);
        }
    }
}

/// Sends, bad xids and backlog (the sum of the queue's length at each send) of one connection.
fn transport_counts(line: &str) -> [u64; 3] {
    let mut fields = line.split_ascii_whitespace();
    let columns = match fields.next() {
        Some("udp") => [2, 4, 6],
        Some("tcp" | "rdma") => [5, 7, 9],
        _ => return [0; 3],
    };
    let values: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
    columns.map(|column| values.get(column).copied().unwrap_or(0))
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
        let mut values = fields.map(|field| field.parse::<u64>().unwrap_or(0));
        if let Some((_, names)) = LINES.iter().find(|(known, _)| *known == kind) {
            for (name, value) in names.iter().zip(values) {
                readings.counter(format!("nfsd.{name}"), value);
            }
        } else if kind == "th" {
            readings.gauge("nfsd.threads", values.next().unwrap_or(0));
        } else if kind.starts_with("proc") {
            // The first number says how many follow; those of v4 are named by their op number.
            for (number, calls) in values.skip(1).enumerate().filter(|(_, calls)| *calls > 0) {
                readings.counter(format!("nfsd.{kind}.{number}"), calls);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(readings: &Readings, name: &str) -> Option<u64> {
        readings.0.iter().find(|reading| reading.name == name).map(|reading| reading.value)
    }

    /// As Linux 6.12 prints it, shortened.
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
        assert_eq!(value(&readings, "nfs./mnt/a.bad_xids"), Some(1));
        assert_eq!(value(&readings, "nfs./mnt/a.backlog"), Some(10));
        assert_eq!(value(&readings, "nfs./mnt/b.sends"), Some(20));
        assert_eq!(value(&readings, "nfs./mnt/b.backlog"), Some(4));
        assert_eq!(value(&readings, "nfs./.connections"), None);
        assert_eq!(transport_counts("local 1 2 3"), [0; 3]);
    }
}
