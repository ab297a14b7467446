//! Plain TCP without RPC against the usual programs: iperf3 for a stream, qperf for a round trip.
//!
//! Both ends of each are separate processes on loopback. qperf reports the one-way time; a round
//! trip is two. Round trips run on one CPU: on two their speed depends on where the scheduler
//! places the ends, which differs tenfold from one run to the next.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Setting;
use super::case::{self, Case, Rival, Row, SideResult, Unit};
use super::load::{self, CONGESTION};
use super::ours::{self, OURS};
use crate::proc::{self, Background};
use checks::ours::Serve;

const MEMORY: &str = "1600MiB";

/// Message size of a round trip in bytes: that of our frame (`nfs_proto::raw`).
const MESSAGE_BYTES: &str = "16";

/// A stream, and one message at a time.
pub fn compare_raw_tcp(setting: &Setting) -> Vec<Row> {
    let mut rows = compare_stream(setting);
    rows.extend(compare_calls(setting));
    rows
}

/// Our server, or the reason why it did not start.
type Started = Result<Serve, String>;

fn start_server() -> Started {
    OURS.serve(MEMORY, &["--discard"]).map_err(|error| format!("{error:#}"))
}

fn compare_stream(setting: &Setting) -> Vec<Row> {
    let server = start_server();
    case::run(
        Case {
            name: "TCP without RPC, 1 MiB, 8 in flight".to_owned(),
            unit: Unit::Bytes,
            ours: Box::new(|| {
                let plan = write_plan(STREAM, &server, setting)?;
                ours::bytes_of_pass(&plan, &ONE, "write", setting)
            }),
            rivals: vec![Rival {
                name: format!("iperf3, one stream, {CONGESTION}"),
                rate_target: STREAM_RATIO,
                cpu_target: None,
                measure: Box::new(|| load::by_iperf3(setting.seconds)),
            }],
        },
        setting.rounds,
    )
}

fn compare_calls(setting: &Setting) -> Vec<Row> {
    // All programs started from here on inherit it.
    let _one = OneProcessor::new();
    let server = start_server();
    case::run(
        Case {
            name: "TCP without RPC, empty calls one by one, on one CPU".to_owned(),
            unit: Unit::Ops,
            ours: Box::new(|| {
                let work = format!("{CALLS}duration = \"{}s\"\n", setting.seconds);
                let plan = write_plan(&work, &server, setting)?;
                ours::ops_of_pass(&plan, &ONE, "op_mix", setting)
            }),
            rivals: vec![Rival {
                name: format!("qperf tcp_lat, {MESSAGE_BYTES} bytes, round trips"),
                rate_target: CALLS_RATIO,
                cpu_target: None,
                measure: Box::new(|| by_qperf(setting.seconds)),
            }],
        },
        setting.rounds,
    )
}

/// Writes a plan for our server, and returns its path.
fn write_plan(work: &str, server: &Started, setting: &Setting) -> Result<String> {
    let server = server.as_ref().map_err(|error| anyhow!("{error}"))?;
    let at = setting.folder.path().join("tcp.toml");
    let port = server.export.port;
    fs::write(&at, format!("{TARGET}tcp = \"127.0.0.1:{port}\"\n[[workload]]\n{work}"))?;
    Ok(at.display().to_string())
}

/// Keeps this thread, and everything it starts, on its first CPU until dropped.
struct OneProcessor(Option<CpuSet>);

impl OneProcessor {
    fn new() -> Self {
        let before = sched_getaffinity(None).ok();
        if let Some(all) = &before
            && let Some(first) = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu))
        {
            let mut one = CpuSet::new();
            one.set(first);
            // If that is refused, both sides run on any CPU.
            let _ = sched_setaffinity(None, &one);
        }
        Self(before)
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// Sends a message back and forth.
fn by_qperf(seconds: u32) -> Result<SideResult> {
    let port = proc::free_port()?;
    let mut server = Command::new("qperf");
    server.args(["-lp", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = Background::start(&mut server)?;
    server.await_port(port, Duration::from_secs(10))?;
    let mut client = Command::new("qperf");
    client.args(["127.0.0.1", "-lp", &port.to_string(), "-t", &seconds.to_string()]);
    let text = proc::capture_text(client.args(["-uu", "-m", MESSAGE_BYTES, "tcp_lat"]))?;
    let way_ns = one_way_ns(&text).with_context(|| format!("qperf printed: {text}"))?;
    Ok(SideResult { rate: 1e9 / (2.0 * way_ns), cpu_ns_each: None })
}

/// The latency printed by `qperf -uu`: one way, in nanoseconds.
fn one_way_ns(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("latency"))?;
    let number = line.trim_start_matches([' ', '=']).strip_suffix("ns")?;
    number.trim().replace(',', "").parse().ok().filter(|ns| *ns > 0.0)
}

/// Ours counts, times and acknowledges each MiB; iperf3 does none of that.
const STREAM_RATIO: f64 = 0.7;

/// Ours polls before it waits, and times every call.
const CALLS_RATIO: f64 = 0.7;

const ONE: [&str; 4] = ["--trials", "1", "--workers", "1"];

const TARGET: &str = "name = \"tcp\"\n[[target]]\nname = \"tcp\"\n";

const STREAM: &str = "kind = \"stream\"\npasses = [\"write\"]\nio_size = \"1MiB\"\n\
                      file_size = \"4GiB\"\nqueue_depth = 8\n";

const CALLS: &str = "kind = \"op_mix\"\nshares = { null = 100 }\nqueue_depth = 1\nrate = 0\n\
                     set_per_rate = \"0\"\n";

#[cfg(test)]
mod tests {
    use super::one_way_ns;

    #[test]
    fn what_qperf_prints_is_read() {
        assert_eq!(one_way_ns("tcp_lat:\n    latency  =  16839 ns\n"), Some(16_839.0));
        assert_eq!(one_way_ns("tcp_lat:\n    latency  =  11.4 us\n"), None, "of another unit");
        assert_eq!(one_way_ns("failed to connect"), None);
    }
}
