//! The matrix: our client with every server, and every client with our server, in every version
//! and over every transport.
//!
//! A row is one run of one list of checks: that of `nfs-client`'s example `interop`, whatever it
//! talks to, or that of libnfs. Between our client and our server the run is captured too, and
//! taken apart by tshark. The rows of the Linux kernel's client and server are those of the group
//! `vm`, which has the virtual machines for them.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tempfile::TempDir;

use super::Checks;
use super::capture::{Capture, Expected};
use super::capture_tls::Secured;
use super::ganesha::Ganesha;
use super::libnfs::Export;
use super::ours::Ours;
use crate::repo::{self, Profile};
use crate::{native, proc};

const OURS: Ours = Ours::new(Profile::Debug);
/// How often a run is captured before a busy machine is given up.
const CAPTURES_MAX: u32 = 4;
/// How long a proxy may take until it can be used.
const PATIENCE: Duration = Duration::from_secs(20);
/// Entries of the large directory where everything is captured.
const FEW: &str = "300";
/// Entries of the large directory where nothing is.
const MANY: &str = "10000";

/// One way to speak.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// The version as it is written in an address: 2, 3, 4.0 ...
    pub version: &'static str,
    /// `tcp` or `udp`.
    pub proto: &'static str,
}

const fn way(version: &'static str, proto: &'static str) -> Way {
    Way { version, proto }
}

/// Versions and transports that our client and our server speak with each other.
const OURS_SPEAK: [Way; 7] = [
    way("2", "udp"),
    way("2", "tcp"),
    way("3", "udp"),
    way("3", "tcp"),
    way("4.0", "tcp"),
    way("4.1", "tcp"),
    way("4.2", "tcp"),
];
/// Versions and transports that our client and nfs-ganesha speak with each other.
const GANESHA_SPEAKS: [Way; 5] =
    [way("3", "tcp"), way("3", "udp"), way("4.0", "tcp"), way("4.1", "tcp"), way("4.2", "tcp")];

/// Versions that libnfs and our server speak with each other, over TCP.
const LIBNFS_SPEAKS: [&str; 3] = ["2", "3", "4"];

impl Way {
    /// Returns the version of the program, and the minor one of v4.
    fn numbers(self) -> (u32, Option<u32>) {
        let (version, minor) = self.version.split_once('.').unwrap_or((self.version, ""));
        (version.parse().expect("a number"), minor.parse().ok())
    }

    fn address(self, export: &Export) -> String {
        let Export { port, mount_port, path } = export;
        let Self { version, proto } = self;
        format!(
            "nfs://127.0.0.1:{port}{path}?version={version}&proto={proto}&mountport={mount_port}"
        )
    }
}

/// The last line of a run.
#[derive(Debug, Deserialize)]
pub struct Counters {
    port: u16,
    /// Sent, for the first time or again.
    calls: u64,
    /// Sent again for want of a reply.
    resent: u64,
    replies: u64,
    late: u64,
    malformed: u64,
}

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    checks.beside(with_ours, |checks| {
        with_ganesha(checks);
        by_proxy(checks);
    });
    under_tls(checks);
}

/// Our client and libnfs, our server.
fn with_ours(checks: &mut Checks) {
    let Some(server) = checks.get("our server starts", || OURS.serve("256MiB", &[])) else {
        return;
    };
    for way in OURS_SPEAK {
        let Way { version, proto } = way;
        let name = format!("our client, our server, v{version} over {proto}");
        checks.run(&name, || whole(&way.address(&server.export), &[]).map(|_| ()));
        let name = format!("tshark takes v{version} over {proto} apart");
        checks.run(&name, || captured(way, &server.export));
    }
    for version in LIBNFS_SPEAKS {
        let name = format!("libnfs, our server, v{version} over tcp");
        checks.run(&name, || by_libnfs(version, &server.export));
    }
}

/// Our client, nfs-ganesha.
fn with_ganesha(checks: &mut Checks) {
    let Some(server) = checks.get("nfs-ganesha starts", Ganesha::start) else { return };
    for way in GANESHA_SPEAKS {
        let Way { version, proto } = way;
        let name = format!("our client, nfs-ganesha, v{version} over {proto}");
        // Its READ_PLUS (4.3, FSAL VFS) answers with one piece of no bytes.
        let flags = ["--empty-read-plus"];
        checks.run(&name, || whole(&way.address(&server.export("/vfs")), &flags).map(|_| ()));
    }
}

/// Our client, nfs-ganesha, and our server behind it, with which ganesha speaks v4.0. Not v3: there
/// ganesha keeps a removed file open, whose handle then is no stale one.
fn by_proxy(checks: &mut Checks) {
    let started = checks.get("nfs-ganesha starts before our server", || {
        let server = OURS.serve("256MiB", &[])?;
        Ok((Ganesha::before(server.export.port)?, server))
    });
    let Some((proxy, _server)) = started else { return };
    for way in [way("4.0", "tcp"), way("4.1", "tcp")] {
        let name = format!("our client over v{}, nfs-ganesha over v4.0, our server", way.version);
        let address = way.address(&proxy.export("/proxy"));
        checks.run(&name, || patiently(|| whole(&address, &["--entries", FEW]).map(|_| ())));
    }
}

/// Tries again for as long as the checks can't even begin: ganesha answers before it has a client
/// of its own at the server behind it.
fn patiently(check: impl Fn() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    loop {
        match check() {
            Err(error)
                if format!("{error:#}").contains("can't begin") && begun.elapsed() < PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(500));
            }
            result => return result,
        }
    }
}

/// Our client and our server under TLS.
fn under_tls(checks: &mut Checks) {
    let started = checks.get("our server starts with TLS", || {
        let folder = TempDir::with_prefix("dfsbench-tls-")?;
        let ca = folder.path().join("ca.pem").display().to_string();
        let server = OURS.serve("256MiB", &["--tls", "--tls-ca-out", &ca])?;
        Ok((server, ca, folder))
    });
    let Some((server, ca, _folder)) = started else { return };
    for version in ["3", "4.1"] {
        let address = format!("{}&tls_ca={ca}", way(version, "tcp").address(&server.export));
        let name = format!("our client, our server, v{version} under TLS");
        checks.run(&name, || whole(&address, &[]).map(|_| ()));
        let name = format!("tshark finds only TLS after the probes of v{version}");
        checks.run(&name, || captured_under_tls(&address, &server.export));
    }
}

/// Captures a run under TLS and takes it apart, as [`captured`] does.
fn captured_under_tls(address: &str, export: &Export) -> Result<()> {
    for _ in 0..CAPTURES_MAX {
        let capture = Capture::start(export.port)?;
        whole(address, &["--entries", FEW])?;
        let secured = Secured::of(capture)?;
        if secured.is_all_there() {
            return secured.check();
        }
    }
    bail!("{CAPTURES_MAX} captures in a row lost something: the machine is too busy")
}

/// Has libnfs make its checks on our server.
fn by_libnfs(version: &str, export: &Export) -> Result<()> {
    let mut command = if version == "2" {
        let mut command = Command::new(native::libnfs2_checks()?);
        command.args([&export.port.to_string(), &export.path]);
        command
    } else {
        let mut command = Command::new(native::libnfs_checks()?);
        command.arg(export.for_libnfs("").replace("version=3", &format!("version={version}")));
        command
    };
    let output = proc::output(command.arg(MANY))?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}\n{said}", output.status);
    let made = said.lines().filter(|line| line.ends_with("... ok")).count();
    ensure!(made >= 3, "only {made} checks were made:\n{said}");
    Ok(())
}

/// Makes all checks at one address.
fn whole(address: &str, flags: &[&str]) -> Result<Counters> {
    judge(Command::new(repo::example(Profile::Debug, "interop")).arg(address).args(flags))
}

/// Has a command make the checks, and looks at what it says of them.
///
/// # Errors
/// Where a check fails, too few were made, or calls and replies don't add up.
pub fn judge(command: &mut Command) -> Result<Counters> {
    let output = proc::output(command)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let end = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}\n{said}{end}", output.status);
    let made = said.lines().filter(|line| line.ends_with("... ok")).count();
    ensure!(made >= 9, "only {made} checks were made:\n{said}");
    let counters: Counters = serde_json::from_str(said.lines().last().unwrap_or_default())
        .with_context(|| format!("the last line is no JSON:\n{said}"))?;
    let Counters { calls, resent, replies, late, malformed, .. } = counters;
    // A call that was sent again may be answered again.
    let is_right = calls == replies + resent && late <= resent && malformed == 0;
    ensure!(is_right, "the counters say {counters:?}");
    Ok(counters)
}

/// Captures a run and takes it apart; a capture that lost something is made again.
fn captured(way: Way, export: &Export) -> Result<()> {
    let (version, minor) = way.numbers();
    for _ in 0..CAPTURES_MAX {
        let capture = Capture::start(export.port)?;
        let counters = whole(&way.address(export), &["--entries", FEW])?;
        let frames = capture.finish()?;
        if frames.are_all_there() && counters.resent == 0 {
            let calls = (counters.port, counters.calls);
            return frames.check(&Expected { version, minor, calls });
        }
    }
    bail!("{CAPTURES_MAX} captures in a row lost something: the machine is too busy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_spelled_in_an_address_and_known_by_its_numbers() {
        let export = Export { port: 7, mount_port: 8, path: "/vfs".to_owned() };
        let address = "nfs://127.0.0.1:7/vfs?version=4.1&proto=tcp&mountport=8";
        assert_eq!(way("4.1", "tcp").address(&export), address);
        assert_eq!(way("4.1", "tcp").numbers(), (4, Some(1)));
        assert_eq!(way("3", "udp").numbers(), (3, None));
    }
}
