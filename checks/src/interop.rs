//! One run of one list of checks: that of `nfs-client`'s example `interop`, with any server, or
//! that of libnfs with our server.
//!
//! Main type: [`Protocol`], a version and a transport. A run between our client and our server can
//! also be captured, and is then dissected with tshark.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::capture::{Capture, Expected};
use crate::capture_tls::TlsCapture;
use crate::libnfs::Export;
use crate::repo::{self, Profile};
use crate::{native, proc};

/// Maximum number of captures of a run before we give up on a busy machine.
const CAPTURES_MAX: u32 = 4;
/// Timeout until a proxy is usable.
const PATIENCE: Duration = Duration::from_secs(120);
/// Entries of the large directory if everything is captured.
pub const FEW_ENTRIES: &str = "300";
/// Entries of the large directory otherwise.
pub const MANY_ENTRIES: &str = "10000";

/// A version of NFS and a transport.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// The version as written in an address: 2, 3, 4.0 ...
    pub version: &'static str,
    /// `tcp` or `udp`.
    pub proto: &'static str,
}

pub const fn protocol(version: &'static str, proto: &'static str) -> Protocol {
    Protocol { version, proto }
}

impl Protocol {
    /// Returns the program version, and the minor version of v4.
    fn numbers(self) -> (u32, Option<u32>) {
        let (version, minor) = self.version.split_once('.').unwrap_or((self.version, ""));
        (version.parse().expect("a number"), minor.parse().ok())
    }

    /// Returns the address of an export in our client's syntax.
    pub fn address(self, export: &Export) -> String {
        let Export { port, mount_port, path } = export;
        let Self { version, proto } = self;
        format!(
            "nfs://127.0.0.1:{port}{path}?version={version}&proto={proto}&mountport={mount_port}"
        )
    }
}

/// The last line of a run's output.
#[derive(Debug, Deserialize)]
pub struct Counters {
    port: u16,
    /// Calls sent, for the first time or again.
    calls: u64,
    /// Calls sent again because there was no reply.
    resent: u64,
    replies: u64,
    late: u64,
    malformed: u64,
}

/// Tries again as long as the checks can't even start: ganesha answers before it has its own client
/// at the server behind it.
pub fn retry_until_begun(check: impl Fn() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    loop {
        match check() {
            Err(error)
                if format!("{error:#}").contains("cannot start") && begun.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(500));
            }
            result => return result,
        }
    }
}

/// Captures a run with TLS and dissects it, like [`check_captured`].
///
/// # Errors
/// If anything but TLS follows the probes, or no capture is complete.
pub fn check_captured_tls(address: &str, export: &Export) -> Result<()> {
    for _ in 0..CAPTURES_MAX {
        let capture = Capture::start(export.port)?;
        check_all(address, &["--entries", FEW_ENTRIES])?;
        let secured = TlsCapture::dissect(capture)?;
        if secured.is_all_there() {
            return secured.check();
        }
    }
    bail!("{CAPTURES_MAX} captures in a row lost packets: the machine is too busy")
}

/// Runs the checks of libnfs on our server.
pub fn check_by_libnfs(version: &str, export: &Export) -> Result<()> {
    let mut command = if version == "2" {
        let mut command = Command::new(native::libnfs2_checks()?);
        command.args([&export.port.to_string(), &export.path]);
        command
    } else {
        let mut command = Command::new(native::libnfs_checks()?);
        command.arg(export.for_libnfs("").replace("version=3", &format!("version={version}")));
        command
    };
    let output = proc::capture_output(command.arg(MANY_ENTRIES))?;
    let output_text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}\n{output_text}", output.status);
    let made = output_text.lines().filter(|line| line.ends_with("... ok")).count();
    ensure!(made >= 3, "only {made} checks were run:\n{output_text}");
    Ok(())
}

/// Runs all checks at one address.
pub fn check_all(address: &str, flags: &[&str]) -> Result<Counters> {
    check_output(
        Command::new(repo::example_path(Profile::Debug, "interop")).arg(address).args(flags),
    )
}

/// Runs the checks with a command, and judges its output.
///
/// # Errors
/// If a check fails, too few were made, or calls and replies don't add up.
pub fn check_output(command: &mut Command) -> Result<Counters> {
    let output = proc::capture_output(command)?;
    let output_text = String::from_utf8_lossy(&output.stdout);
    let end = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}\n{output_text}{end}", output.status);
    let made = output_text.lines().filter(|line| line.ends_with("... ok")).count();
    ensure!(made >= 9, "only {made} checks were run:\n{output_text}");
    let counters: Counters =
        serde_json::from_str(output_text.lines().last().unwrap_or_default())
            .with_context(|| format!("the last line is not JSON:\n{output_text}"))?;
    let Counters { calls, resent, replies, late, malformed, .. } = counters;
    // A retransmitted call may be answered twice.
    let is_right = calls == replies + resent && late <= resent && malformed == 0;
    ensure!(is_right, "the counters are {counters:?}");
    Ok(counters)
}

/// Captures a run and dissects it; repeated if the capture lost something.
pub fn check_captured(protocol: Protocol, export: &Export) -> Result<()> {
    let (version, minor) = protocol.numbers();
    for _ in 0..CAPTURES_MAX {
        let capture = Capture::start(export.port)?;
        let counters = check_all(&protocol.address(export), &["--entries", FEW_ENTRIES])?;
        let frames = capture.finish()?;
        if frames.are_all_there() && counters.resent == 0 {
            let calls = (counters.port, counters.calls);
            return frames.check(&Expected { version, minor, calls });
        }
    }
    bail!("{CAPTURES_MAX} captures in a row lost packets: the machine is too busy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_protocol_names_and_numbers() {
        let export = Export { port: 7, mount_port: 8, path: "/vfs".to_owned() };
        let address = "nfs://127.0.0.1:7/vfs?version=4.1&proto=tcp&mountport=8";
        assert_eq!(protocol("4.1", "tcp").address(&export), address);
        assert_eq!(protocol("4.1", "tcp").numbers(), (4, Some(1)));
        assert_eq!(protocol("3", "udp").numbers(), (3, None));
    }
}
