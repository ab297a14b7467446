//! Cost of a result: CPU time on clients and servers, bytes on disks and on the network.
//!
//! [`Cost`] belongs to one row and covers those of its trials that recorded host activity. Hosts
//! only count while the pass is running, so data that a system writes later, such as unsynced data,
//! is not included.

use model::{LabSpec, OpKind, PassResult, Telemetry};
use stats::{Cpu, judge};

use crate::table::row::Row;

/// Prefixes of disks on top of others, whose bytes would be counted twice.
const DISKS_ON_OTHERS: [&str; 5] = ["disk.loop", "disk.dm-", "disk.md", "disk.ram", "disk.zram"];

/// Prefixes of interfaces that forward the traffic of others. Loopback counts, because servers that
/// share a host communicate over it.
const INTERFACES_ON_OTHERS: [&str; 9] = [
    "net.bond",
    "net.team",
    "net.br",
    "net.docker",
    "net.veth",
    "net.virbr",
    "net.vnet",
    "net.tun",
    "net.tap",
];

/// Kinds of op that transfer data without writing.
const READING: [OpKind; 3] = [OpKind::Read, OpKind::ReadFile, OpKind::GetChars];

/// Cost of a result; each part is `None` if no host counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// CPU time of dfsbench on the clients.
    pub cpu: Option<Cpu>,
    /// CPU time of the programs that mount the system, in the same unit.
    pub program_cpu: Option<f64>,
    /// CPU time of the system's servers, in the same unit.
    pub server_cpu: Option<f64>,
    /// Bytes that the server's disks wrote for each byte of the user or, in passes that only read,
    /// bytes they read.
    pub disk_bytes_per_byte: Option<f64>,
    /// Bytes sent by servers and clients for each byte of the user.
    pub network_bytes_per_byte: Option<f64>,
}

/// Sums over trials.
#[derive(Default)]
struct Sums {
    ops: u64,
    bytes: u64,
    written: u64,
    program_ns: Option<u64>,
    server_ns: Option<u64>,
    disk_written: Option<u64>,
    disk_read: Option<u64>,
    sent: Option<u64>,
}

impl Cost {
    /// Computes the cost of a row.
    pub(super) fn from_row(row: &Row<'_>) -> Self {
        let cpu = row.judged.cpu;
        let Some(lab) = &row.run.spec.lab else { return Self { cpu, ..Self::default() } };
        let mut sums = Sums::default();
        for pass in judge::used_results(row.run, row.judged.pass) {
            if !pass.telemetry.is_empty() {
                sums.add(lab, pass);
            }
        }
        let per_work = |ns: Option<u64>| cpu?.unit.per_work(ns?, sums.ops, sums.bytes);
        let (disk, user_bytes) = match sums.written {
            0 => (sums.disk_read, sums.bytes),
            written => (sums.disk_written, written),
        };
        // For servers in the kernel, only the NFS threads are counted.
        let is_counted = lab.system.as_ref().is_none_or(|system| {
            !system.recipe.serves_in_kernel || system.recipe.access.nfs.is_some()
        });
        let server_ns = if is_counted { sums.server_ns } else { None };
        Self {
            cpu,
            program_cpu: per_work(sums.program_ns),
            server_cpu: per_work(server_ns).or(cpu.and_then(|cpu| cpu.server)),
            disk_bytes_per_byte: divide(disk, user_bytes),
            network_bytes_per_byte: divide(sums.sent, sums.bytes),
        }
    }
}

impl Sums {
    fn add(&mut self, lab: &LabSpec, pass: &PassResult) {
        self.ops += pass.ops();
        self.bytes += pass.bytes();
        for kind in &pass.kinds {
            if pass.pass.writes() && !READING.contains(&kind.kind) {
                self.written += kind.bytes;
            }
        }
        let is_client = |host: &str| lab.clients().any(|client| client.name == host);
        for telemetry in &pass.telemetry {
            let is_server = lab.is_server(&telemetry.host);
            if !is_server && !is_client(&telemetry.host) {
                continue;
            }
            // A counter that never changed is not stored. It counts as 0 if the host was observed
            // and has such counters at all, see `Metric`.
            add_to_sum(&mut self.program_ns, increase(telemetry, "system.client_cpu_ns"));
            add_to_sum(&mut self.server_ns, increase(telemetry, "system.server_cpu_ns"));
            add_to_sum(
                &mut self.sent,
                sum_of(telemetry, "net.", ".sent_bytes", &INTERFACES_ON_OTHERS),
            );
            if is_server {
                let disks = |end| sum_of(telemetry, "disk.", end, &DISKS_ON_OTHERS);
                add_to_sum(&mut self.disk_written, disks(".write_bytes"));
                add_to_sum(&mut self.disk_read, disks(".read_bytes"));
            }
        }
    }
}

fn add_to_sum(sum: &mut Option<u64>, by: Option<u64>) {
    if let Some(by) = by {
        *sum = Some(sum.unwrap_or(0) + by);
    }
}

fn increase(telemetry: &Telemetry, name: &str) -> Option<u64> {
    Some(telemetry.metric(name)?.increase())
}

/// Adds up the counters with the given prefix and suffix, except for devices on top of others.
fn sum_of(telemetry: &Telemetry, start: &str, end: &str, on_others: &[&str]) -> Option<u64> {
    let mut sum = None;
    for metric in &telemetry.metrics {
        let is_real = !on_others.iter().any(|start| metric.name.starts_with(start));
        if is_real && metric.name.starts_with(start) && metric.name.ends_with(end) {
            add_to_sum(&mut sum, Some(metric.increase()));
        }
    }
    sum
}

fn divide(part: Option<u64>, whole: u64) -> Option<f64> {
    if whole > 0 { Some(part? as f64 / whole as f64) } else { None }
}
