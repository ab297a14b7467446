//! Facts about the machine for readers of the table.
//!
//! Lines of text for people; nothing depends on them.

use std::fs;
use std::process::Command;
use std::thread;

use crate::proc;

/// The sysctl with the congestion control of new sockets.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Returns the facts, one sentence each.
pub fn collect_facts() -> Vec<String> {
    let processors = thread::available_parallelism().map_or(0, usize::from);
    vec![
        format!(
            "machine: {}, {processors} CPUs, kernel {}",
            read_model(),
            read_words("/proc/sys/kernel/osrelease", 1)
        ),
        format!("load average at the start: {}", read_words("/proc/loadavg", 3)),
        format!("default congestion control: {}", default_congestion()),
        format!("peers: {}, {}", read_version("fio"), read_version("iperf3")),
    ]
}

/// Returns the default congestion control of sockets.
pub fn default_congestion() -> String {
    read_words(CONGESTION, 1)
}

fn read_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    for line in text.lines() {
        if let Some(model) = line.strip_prefix("model name") {
            return model.trim_start_matches([' ', '\t', ':']).to_owned();
        }
    }
    "unknown".to_owned()
}

/// Returns the first words of a file.
fn read_words(path: &str, count: usize) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(count).collect();
    if words.is_empty() { "unknown".to_owned() } else { words.join(" ") }
}

fn read_version(program: &str) -> String {
    let text = proc::capture_text(Command::new(program).arg("--version")).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").split(" (").next().unwrap_or_default().to_owned()
}
