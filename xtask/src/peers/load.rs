//! The programs that generate NFS load: our example `load`, libnfs, and a program without any
//! protocol.
//!
//! Main type: [`Load`], a workload that all of them support. Each prints one line of JSON,
//! [`LoadResults`].

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::case::SideResult;
use crate::native;
use crate::proc::{self, Background};
use crate::repo::{self, Profile};
use checks::libnfs::Export;

/// Congestion control that `dfsbench serve` and the clients set on their sockets.
pub const CONGESTION: &str = "cubic";
/// The file created by `load`.
const FILE: &str = "load";
/// Its size in bytes.
const FILE_BYTES: u32 = 256 << 20;

/// The same operation again and again.
#[derive(Clone, Copy)]
pub struct Load {
    /// `getattr`, `read` or `write`.
    pub op: &'static str,
    /// Version of NFS, as in an address.
    pub version: &'static str,
    /// `tcp` or `udp`.
    pub proto: &'static str,
    /// Number of clients, each with its own connection.
    pub clients: u32,
    /// Operations in flight for each of them.
    pub depth: u32,
    /// Size of each operation in bytes.
    pub bytes: u32,
    /// Whether payload is compared instead of discarded.
    pub keep: bool,
}

/// The results printed at the end.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct LoadResults {
    ops: f64,
    bytes: f64,
    seconds: f64,
    cpu_s: f64,
    #[serde(default)]
    memory_before: f64,
    #[serde(default)]
    memory_after: f64,
}

impl LoadResults {
    fn read(json: &[u8]) -> Result<Self> {
        let done: Self = serde_json::from_slice(json).context("the last line is not JSON")?;
        ensure!(done.ops > 0.0 && done.seconds > 0.0, "nothing was done: {done:?}");
        Ok(done)
    }

    /// Operations per second, or bytes per second if any were transferred.
    pub fn figure(self) -> SideResult {
        let counted = if self.bytes > 0.0 { self.bytes } else { self.ops };
        let cpu_ns_each = Some(self.cpu_s * 1e9 / counted);
        SideResult { rate: counted / self.seconds, cpu_ns_each }
    }

    /// Memory per client, in bytes.
    pub fn memory_per_client_bytes(self, clients: u32) -> f64 {
        (self.memory_after - self.memory_before).max(0.0) / f64::from(clients)
    }
}

impl Load {
    /// Generates the load with our client.
    pub fn by_us(&self, export: &Export, seconds: u32) -> Result<LoadResults> {
        let Self { op, version, proto, clients, depth, bytes, keep } = self;
        let Export { port, mount_port, path } = export;
        let address = format!(
            "nfs://127.0.0.1:{port}{path}?version={version}&proto={proto}&mountport={mount_port}"
        );
        let mut command = Command::new(repo::example_path(Profile::Release, "load"));
        command.arg(address).arg(op);
        for number in [*clients, *depth, seconds, *bytes] {
            command.arg(number.to_string());
        }
        command.args(keep.then_some("keep"));
        LoadResults::read(&proc::capture_stdout(&mut command)?)
    }

    /// Generates the load with libnfs, over v3, on the file that our client created.
    pub fn by_libnfs(&self, export: &Export, seconds: u32) -> Result<LoadResults> {
        let mut command = Command::new(native::libnfs_load()?);
        command.arg(export.for_libnfs(FILE)).arg(self.op);
        for number in [self.clients, self.depth, seconds, self.bytes] {
            command.arg(number.to_string());
        }
        LoadResults::read(&proc::capture_stdout(&mut command)?)
    }

    /// Copies the same bytes from and to a store of the same size over TCP, without any protocol.
    ///
    /// # Errors
    /// If the program fails, or can't be built.
    pub fn by_copy(&self, seconds: u32) -> Result<LoadResults> {
        let mut command = Command::new(native::tcp_copy()?);
        command.arg(if self.keep { "keep" } else { self.op });
        for number in [FILE_BYTES, self.bytes, seconds] {
            command.arg(number.to_string());
        }
        LoadResults::read(&proc::capture_stdout(&mut command)?)
    }
}

/// Sizes of the messages of an exchange, in bytes.
#[derive(Clone, Copy)]
pub struct MessageBytes {
    /// From the client.
    pub request: u32,
    /// From the server.
    pub reply: u32,
}

/// Exchanges messages of these sizes without any protocol.
pub fn by_echo(load: &Load, lengths: MessageBytes, seconds: u32) -> Result<LoadResults> {
    let mut command = Command::new(native::tcp_echo()?);
    for number in [load.clients, load.depth, seconds, lengths.request, lengths.reply] {
        command.arg(number.to_string());
    }
    LoadResults::read(&proc::capture_stdout(&mut command)?)
}

/// Sends one TCP stream at full speed.
///
/// # Errors
/// If iperf3 fails.
pub fn by_iperf3(seconds: u32) -> Result<SideResult> {
    let port = proc::free_port()?;
    let mut server = Command::new("iperf3");
    server.args(["-s", "-1", "-B", "127.0.0.1", "-p", &port.to_string(), "--forceflush"]);
    server.stderr(Stdio::null());
    // It prints a line once it listens; a probe connection would use up its only test.
    let (_server, _line) = Background::start_with_first_line(&mut server, Duration::from_secs(10))?;
    let port = port.to_string();
    let seconds = seconds.to_string();
    let mut client = Command::new("iperf3");
    client.args(["-c", "127.0.0.1", "-p", &port, "-C", CONGESTION, "-t", &seconds, "-J"]);
    let report: Value = serde_json::from_slice(&proc::capture_stdout(&mut client)?)?;
    let received = report.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64);
    Ok(SideResult { rate: received.context("iperf3's JSON")? / 8.0, cpu_ns_each: None })
}

#[cfg(test)]
mod tests {
    use super::LoadResults;

    #[test]
    fn figures_come_out_of_the_line() {
        let line = br#"{"ops": 1000, "bytes": 4096000, "seconds": 2.0, "cpu_s": 1.0,
            "memory_before": 1000, "memory_after": 21000}"#;
        let done = LoadResults::read(line).unwrap();
        let figure = done.figure();
        assert!((figure.rate - 2_048_000.0).abs() < 1e-6);
        assert!((figure.cpu_ns_each.unwrap() - 1e9 / 4_096_000.0).abs() < 1e-6);
        assert!((done.memory_per_client_bytes(10) - 2000.0).abs() < 1e-6);
        let line = br#"{"ops": 1000, "bytes": 0, "seconds": 2.0, "cpu_s": 1.0}"#;
        let figure = LoadResults::read(line).unwrap().figure();
        assert!((figure.rate - 500.0).abs() < 1e-6);
        assert!((figure.cpu_ns_each.unwrap() - 1e6).abs() < 1e-6);
        assert!(LoadResults::read(br#"{"ops": 0, "bytes": 0, "seconds": 2, "cpu_s": 1}"#).is_err());
    }
}
