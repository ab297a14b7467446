//! CPU, memory, disk, network and pressure counters of this host.
//!
//! **Source:** proc_stat(5), proc_meminfo(5), the kernel's documents on iostats, snmp counters and
//! pressure stall information. Ticks are converted to nanoseconds. The kernel's sectors always have
//! 512 bytes.

use procfs::net::DeviceStatus;
use procfs::{CpuTime, Current, CurrentSI, DiskStat, KernelStats, Meminfo};

use super::Readings;

const SECTOR_BYTES: u64 = 512;
const NS_PER_MS: u64 = 1_000_000;

pub(super) fn read(readings: &mut Readings) {
    if let Ok(kernel) = KernelStats::current() {
        read_kernel(readings, &kernel);
    }
    if let Ok(memory) = Meminfo::current() {
        readings.gauge("memory.free_bytes", memory.mem_free);
        readings.gauge("memory.cached_bytes", memory.cached);
        readings.gauge("memory.dirty_bytes", memory.dirty);
        readings.gauge("memory.writeback_bytes", memory.writeback);
        if let Some(available) = memory.mem_available {
            readings.gauge("memory.available_bytes", available);
        }
    }
    for disk in procfs::diskstats().unwrap_or_default() {
        read_disk(readings, &disk);
    }
    for interface in procfs::net::dev_status().unwrap_or_default().into_values() {
        read_interface(readings, &interface);
    }
    if let Ok(net) = procfs::net::snmp() {
        readings.counter("tcp.segments_received", net.tcp_in_segs);
        readings.counter("tcp.segments_sent", net.tcp_out_segs);
        readings.counter("tcp.segments_retransmitted", net.tcp_retrans_segs);
        readings.counter("udp.datagrams_received", net.udp_in_datagrams);
        readings.counter("udp.datagrams_sent", net.udp_out_datagrams);
        readings.counter("udp.receive_buffer_errors", net.udp_rcvbuf_errors);
        readings.counter("ip.reassembly_failures", net.ip_reasm_fails);
    }
    if let Ok(text) = std::fs::read_to_string("/proc/net/netstat") {
        if let Some(count) = dsacked(&text) {
            readings.counter("tcp.segments_arrived_twice", count);
        }
        if let Some(count) = tcp_ext(&text, "TCPOFOQueue") {
            readings.counter("tcp.segments_out_of_order", count);
        }
    }
    read_pressure(readings);
}

fn read_kernel(readings: &mut Readings, kernel: &KernelStats) {
    read_cpu(readings, "cpu", &kernel.total);
    for (index, core) in kernel.cpu_time.iter().enumerate() {
        read_cpu(readings, &format!("cpu{index}"), core);
    }
    readings.counter("kernel.context_switches", kernel.ctxt);
    readings.counter("kernel.forks", kernel.processes);
    if let Some(running) = kernel.procs_running {
        readings.gauge("kernel.running", running.into());
    }
    if let Some(blocked) = kernel.procs_blocked {
        readings.gauge("kernel.blocked", blocked.into());
    }
}

fn read_cpu(readings: &mut Readings, name: &str, time: &CpuTime) {
    for (state, ns) in times_by_state(time) {
        readings.counter(format!("{name}.{state}_ns"), ns);
    }
}

/// Returns a CPU's time by state, in nanoseconds.
pub(crate) fn times_by_state(time: &CpuTime) -> [(&'static str, u64); 7] {
    // Guest time is already included in `user` and `nice`.
    [
        ("user", time.user_ms()),
        ("nice", time.nice_ms()),
        ("system", time.system_ms()),
        ("idle", time.idle_ms()),
        ("iowait", time.iowait_ms().unwrap_or(0)),
        ("irq", time.irq_ms().unwrap_or(0) + time.softirq_ms().unwrap_or(0)),
        ("steal", time.steal_ms().unwrap_or(0)),
    ]
    .map(|(state, ms)| (state, ms * NS_PER_MS))
}

fn read_disk(readings: &mut Readings, disk: &DiskStat) {
    let name = &disk.name;
    readings.counter(format!("disk.{name}.reads"), disk.reads);
    readings.counter(format!("disk.{name}.read_bytes"), disk.sectors_read * SECTOR_BYTES);
    readings.counter(format!("disk.{name}.writes"), disk.writes);
    readings.counter(format!("disk.{name}.write_bytes"), disk.sectors_written * SECTOR_BYTES);
    readings.counter(format!("disk.{name}.busy_ns"), disk.time_in_progress * NS_PER_MS);
    readings.counter(format!("disk.{name}.queued_ns"), disk.weighted_time_in_progress * NS_PER_MS);
    if let Some(flushes) = disk.flushes {
        readings.counter(format!("disk.{name}.flushes"), flushes);
    }
}

fn read_interface(readings: &mut Readings, interface: &DeviceStatus) {
    let name = &interface.name;
    readings.counter(format!("net.{name}.received_bytes"), interface.recv_bytes);
    readings.counter(format!("net.{name}.received_packets"), interface.recv_packets);
    readings.counter(format!("net.{name}.receive_errors"), interface.recv_errs);
    readings.counter(format!("net.{name}.receive_drops"), interface.recv_drop);
    readings.counter(format!("net.{name}.sent_bytes"), interface.sent_bytes);
    readings.counter(format!("net.{name}.sent_packets"), interface.sent_packets);
    readings.counter(format!("net.{name}.send_errors"), interface.sent_errs);
    readings.counter(format!("net.{name}.send_drops"), interface.sent_drop);
}

fn read_pressure(readings: &mut Readings) {
    if let Ok(cpu) = procfs::CpuPressure::current() {
        readings.counter("pressure.cpu.some_us", cpu.some.total);
    }
    if let Ok(memory) = procfs::MemoryPressure::current() {
        readings.counter("pressure.memory.some_us", memory.some.total);
        readings.counter("pressure.memory.full_us", memory.full.total);
    }
    if let Ok(io) = procfs::IoPressure::current() {
        readings.counter("pressure.io.some_us", io.some.total);
        readings.counter("pressure.io.full_us", io.full.total);
    }
}

/// Returns how many of this host's segments arrived twice, as reported by the receivers' duplicate
/// SACKs (RFC 2883). These were spurious retransmissions. Kernels before 5.9 count the reports
/// rather than the segments.
fn dsacked(netstat: &str) -> Option<u64> {
    tcp_ext(netstat, "TCPDSACKRecvSegs").or_else(|| tcp_ext(netstat, "TCPDSACKRecv"))
}

/// Returns a TCP counter. `/proc/net/netstat` has two lines for each group: the names, then the
/// values.
fn tcp_ext(netstat: &str, wanted: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let names = lines.next()?;
    let values = lines.next()?;
    let at = names.split_whitespace().position(|name| name == wanted)?;
    values.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_duplicate_segments_by_name() {
        let older = "TcpExt: SyncookiesSent TCPDSACKRecv\nTcpExt: 7 12\nIpExt: A\nIpExt: 1\n";
        assert_eq!(dsacked(older), Some(12));
        let newer = "TcpExt: TCPDSACKRecv X TCPDSACKRecvSegs\nTcpExt: 12 3 15\n";
        assert_eq!(dsacked(newer), Some(15));
        assert_eq!(dsacked("TcpExt: SyncookiesSent\nTcpExt: 7\n"), None);
        assert_eq!(dsacked(""), None);
        let own = std::fs::read_to_string("/proc/net/netstat").unwrap();
        assert!(dsacked(&own).is_some() && tcp_ext(&own, "TCPOFOQueue").is_some(), "{own}");
    }
}
