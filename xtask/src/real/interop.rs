//! The matrix: our client with every server, in every version and over every transport.
//!
//! A row is one run of `nfs-client`'s example `interop`, which makes one list of checks whatever it
//! talks to. With our own server the run is captured too, and taken apart by tshark. The Linux
//! kernel's server joins [`Server`] when there are virtual machines to run it in.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::Checks;
use super::capture::{Capture, Expected};
use super::ganesha::Ganesha;
use super::libnfs::Export;
use super::ours::Ours;
use crate::proc;
use crate::repo::{self, Profile};

const OURS: Ours = Ours::new(Profile::Debug);
/// Entries of the large directory where everything is captured.
const FEW: &str = "300";

/// One way to speak.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// As it is written in an address: 2, 3, 4.0 ...
    pub version: &'static str,
    /// `tcp` or `udp`.
    pub proto: &'static str,
}

const fn way(version: &'static str, proto: &'static str) -> Way {
    Way { version, proto }
}

/// What our client and our server speak with each other.
pub const OURS_SPEAK: [Way; 4] =
    [way("2", "udp"), way("2", "tcp"), way("3", "udp"), way("3", "tcp")];
/// What our client and nfs-ganesha speak with each other.
const GANESHA_SPEAKS: [Way; 2] = [way("3", "tcp"), way("3", "udp")];

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
struct Counters {
    port: u16,
    calls: u64,
    replies: u64,
    late: u64,
    malformed: u64,
}

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    if let Some(server) = checks.get("our server starts", || OURS.serve("256MiB", &[])) {
        for way in OURS_SPEAK {
            let Way { version, proto } = way;
            let name = format!("our client, our server, v{version} over {proto}");
            checks.run(&name, || whole(way, &server.export, &[]).map(|_| ()));
            let name = format!("tshark takes v{version} over {proto} apart");
            checks.run(&name, || captured(way, &server.export));
        }
    }
    if let Some(server) = checks.get("nfs-ganesha starts", Ganesha::start) {
        for way in GANESHA_SPEAKS {
            let Way { version, proto } = way;
            let name = format!("our client, nfs-ganesha, v{version} over {proto}");
            checks.run(&name, || whole(way, &server.export("/vfs"), &[]).map(|_| ()));
        }
    }
}

/// Makes all checks against one export.
fn whole(way: Way, export: &Export, flags: &[&str]) -> Result<Counters> {
    let mut command = Command::new(repo::example(Profile::Debug, "interop"));
    let output = proc::output(command.arg(way.address(export)).args(flags))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let end = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}\n{said}{end}", output.status);
    let made = said.lines().filter(|line| line.ends_with("... ok")).count();
    ensure!(made >= 9, "only {made} checks were made:\n{said}");
    let counters: Counters = serde_json::from_str(said.lines().last().unwrap_or_default())
        .with_context(|| format!("the last line is no JSON:\n{said}"))?;
    let Counters { calls, replies, late, malformed, .. } = counters;
    ensure!(calls == replies && late + malformed == 0, "the counters say {counters:?}");
    Ok(counters)
}

fn captured(way: Way, export: &Export) -> Result<()> {
    let capture = Capture::start(export.port)?;
    let counters = whole(way, export, &["--entries", FEW])?;
    let (version, minor) = way.numbers();
    let calls = (counters.port, counters.calls);
    capture.finish()?.check(&Expected { version, minor, calls })
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
