//! Comparisons over NFS: one client reads 1 GiB from our server, as libnfs does, and as iperf3
//! could.
//!
//! The server is the same for both clients. iperf3 shows what one TCP stream can carry here at
//! all, under the same congestion control.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use super::Setting;
use super::case::{self, Case, Figure, Rival, Row, Unit};
use super::ours::{self, OURS};
use crate::proc::{self, Background};
use crate::real::libnfs::{self, Export};
use crate::real::ours::Serve;
use crate::{native, noise};

const FILE_BYTES: u64 = 1 << 30;
const FILE: &str = "peer";
/// Room for the peer's file and for ours.
const MEMORY: &str = "2400MiB";
const DEPTH: &str = "8";
const IO_BYTES: &str = "1048576";
/// What `dfsbench serve` asks for on its sockets; the data flows from there.
const CONGESTION: &str = "cubic";

/// Sequential READ over v3.
pub fn read(setting: &Setting) -> Vec<Row> {
    let server = serve();
    let export = || match &server {
        Ok(server) => Ok(&server.export),
        Err(error) => Err(anyhow::anyhow!("{error:#}")),
    };
    let case = Case {
        name: "NFSv3, sequential READ of 1 GiB".to_owned(),
        unit: Unit::Bytes,
        ours: Box::new(|| ours::stream_read(&export()?.for_us(""), setting)),
        rivals: vec![
            Rival {
                name: "libnfs, 8 in flight".to_owned(),
                rate_target: 3.0,
                cpu_target: Some(1.0),
                measure: Box::new(|| by_libnfs(export()?)),
            },
            Rival {
                name: format!("iperf3, one stream, {CONGESTION}"),
                rate_target: 0.8,
                cpu_target: None,
                measure: Box::new(|| by_iperf3(setting.seconds)),
            },
        ],
    };
    case::run(case, setting.rounds)
}

/// Starts the server and puts the peer's file on it.
fn serve() -> Result<Serve> {
    let server = OURS.serve(MEMORY, &[])?;
    let folder = TempDir::new_in("/dev/shm")?;
    let local = folder.path().join(FILE);
    noise::file(&local, FILE_BYTES)?;
    libnfs::copy(&local, &server.export, FILE)?;
    Ok(server)
}

fn by_libnfs(export: &Export) -> Result<Figure> {
    let mut command = Command::new(native::libnfs_read()?);
    command.arg(export.for_libnfs(FILE)).args([DEPTH, IO_BYTES, "1"]);
    let report: Value = serde_json::from_slice(&proc::capture(&mut command)?)?;
    let number = |key: &str| report.get(key).and_then(Value::as_f64).context("libnfs_read's JSON");
    let cpu_s = number("user_s")? + number("system_s")?;
    let ops = number("bytes")? / (1 << 20) as f64;
    Ok(Figure { rate: number("bytes_per_s")?, cpu_ns_per_op: Some(cpu_s * 1e9 / ops) })
}

fn by_iperf3(seconds: u32) -> Result<Figure> {
    let port = proc::free_port()?;
    let mut server = Command::new("iperf3");
    server.args(["-s", "-1", "-B", "127.0.0.1", "-p", &port.to_string(), "--forceflush"]);
    server.stderr(Stdio::null());
    // It speaks once it listens; a connection made to find out would use up its one test.
    let (_server, _line) = Background::start_with_first_line(&mut server, Duration::from_secs(10))?;
    let (port, seconds) = (port.to_string(), seconds.to_string());
    let mut client = Command::new("iperf3");
    client.args(["-c", "127.0.0.1", "-p", &port, "-C", CONGESTION, "-t", &seconds, "-J"]);
    let report: Value = serde_json::from_slice(&proc::capture(&mut client)?)?;
    let received = report.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64);
    Ok(Figure { rate: received.context("iperf3's JSON")? / 8.0, cpu_ns_per_op: None })
}
