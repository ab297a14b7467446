//! The rung of TCP without RPC against the programs that people take for it: iperf3 for a stream,
//! qperf for a round trip.
//!
//! Both ends of each are processes of their own on loopback. qperf tells the time of one way; a
//! round trip is two. Nothing is claimed: ours counts and times every call, and both are shown.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::Setting;
use super::case::{self, Case, Figure, Rival, Row, Unit};
use super::load::{self, CONGESTION};
use super::ours::{self, OURS};
use crate::proc::{self, Background};

const MEMORY: &str = "1600MiB";

/// Bytes of each message of a round trip: those of a frame of ours (`nfs_proto::raw`).
const MESSAGE_BYTES: &str = "16";

/// A stream, and one message at a time.
pub fn raw(setting: &Setting) -> Vec<Row> {
    let server = OURS.serve(MEMORY, &["--discard"]).map_err(|error| format!("{error:#}"));
    let plan = |work: &str| -> Result<String> {
        let server = server.as_ref().map_err(|error| anyhow!("{error}"))?;
        let at = setting.folder.path().join("tcp.toml");
        let port = server.export.port;
        fs::write(&at, format!("{TARGET}tcp = \"127.0.0.1:{port}\"\n[[workload]]\n{work}"))?;
        Ok(at.display().to_string())
    };
    let stream = || ours::bytes_of_pass(&plan(STREAM)?, &ONE, "write", setting);
    let mut rows = case::run(
        Case {
            name: "TCP without RPC, 1 MiB, 8 in flight".to_owned(),
            unit: Unit::Bytes,
            ours: Box::new(stream),
            rivals: vec![Rival {
                name: format!("iperf3, one stream, {CONGESTION}"),
                rate_target: 0.0,
                cpu_target: None,
                measure: Box::new(|| load::by_iperf3(setting.seconds)),
            }],
        },
        setting.rounds,
    );
    let calls = || {
        let work = format!("{CALLS}duration = \"{}s\"\n", setting.seconds);
        ours::ops_of_pass(&plan(&work)?, &ONE, "op_mix", setting)
    };
    rows.extend(case::run(
        Case {
            name: "TCP without RPC, empty calls, one after the other".to_owned(),
            unit: Unit::Ops,
            ours: Box::new(calls),
            rivals: vec![Rival {
                name: format!("qperf tcp_lat, {MESSAGE_BYTES} bytes, round trips"),
                rate_target: 0.0,
                cpu_target: None,
                measure: Box::new(|| by_qperf(setting.seconds)),
            }],
        },
        setting.rounds,
    ));
    rows
}

/// Sends a message to and fro.
fn by_qperf(seconds: u32) -> Result<Figure> {
    let port = proc::free_port()?;
    let mut server = Command::new("qperf");
    server.args(["-lp", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = Background::start(&mut server)?;
    server.await_port(port, Duration::from_secs(10))?;
    let mut client = Command::new("qperf");
    client.args(["127.0.0.1", "-lp", &port.to_string(), "-t", &seconds.to_string()]);
    let said = proc::text(client.args(["-uu", "-m", MESSAGE_BYTES, "tcp_lat"]))?;
    let way_ns = one_way_ns(&said).with_context(|| format!("qperf said: {said}"))?;
    Ok(Figure { rate: 1e9 / (2.0 * way_ns), cpu_ns_each: None })
}

/// The latency that `qperf -uu` prints: in nanoseconds, for one way.
fn one_way_ns(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.trim().strip_prefix("latency"))?;
    let number = line.trim_start_matches([' ', '=']).strip_suffix("ns")?;
    number.trim().replace(',', "").parse().ok().filter(|ns| *ns > 0.0)
}

const ONE: [&str; 4] = ["--trials", "1", "--workers", "1"];

const TARGET: &str = "name = \"tcp\"\n[[target]]\nname = \"tcp\"\n";

const STREAM: &str = "kind = \"stream\"\npasses = [\"write\"]\nio_size = \"1MiB\"\n\
                      file_size = \"1GiB\"\nqueue_depth = 8\n";

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
