//! Facts about the machine that a reader of the table needs.
//!
//! Lines of text for people; nothing is decided by them.

use std::fs;
use std::process::Command;
use std::thread;

use crate::proc;

/// The sysctl that names the congestion control of new sockets.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Returns the facts, one sentence each.
pub fn facts() -> Vec<String> {
    let processors = thread::available_parallelism().map_or(0, usize::from);
    vec![
        format!("machine: {}, {processors} processors, kernel {}", model(), kernel()),
        format!("load average at the end: {}", word("/proc/loadavg", 3)),
        format!("default congestion control: {}", default_congestion()),
        format!("peers: {}, {}", version("fio"), version("iperf3")),
    ]
}

/// Returns the congestion control that a socket gets that selects no other.
pub fn default_congestion() -> String {
    word(CONGESTION, 1)
}

fn model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    line.map_or("unknown", |line| line.trim_start_matches([' ', '\t', ':'])).to_owned()
}

fn kernel() -> String {
    word("/proc/sys/kernel/osrelease", 1)
}

/// The first words of a file.
fn word(path: &str, count: usize) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(count).collect();
    if words.is_empty() { "unknown".to_owned() } else { words.join(" ") }
}

fn version(program: &str) -> String {
    let text = proc::text(Command::new(program).arg("--version")).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").split(" (").next().unwrap_or_default().to_owned()
}
