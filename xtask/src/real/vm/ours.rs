//! Ours and the kernel's: our server mounted by Linux, and our client with the kernel's server.
//!
//! Principal type: [`Peer`], one of the kernel's servers and how it is spoken to. Our programs run
//! on this machine's end of the bridge.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::guest::Mount;
use super::kernel::VERSIONS;
use super::{Checks, NEW, OLD};
use crate::proc::{self, Background};
use crate::real::interop;
use crate::real::ours::{Ours, Run};
use crate::repo::{self, Profile};
use crate::vm::lab::Lab;

const OURS: Ours = Ours::new(Profile::Debug);
/// One of the kernel's servers; its portmapper knows the ports.
#[derive(Clone, Copy)]
struct Peer {
    /// Its name for ssh.
    host: &'static str,
    /// Its address for us.
    url: &'static str,
}

const SERVER: Peer = Peer { host: "server", url: "nfs://10.77.0.1/export" };
/// The client of kernel 6.1, which exports too.
const OLD_SERVER: Peer = Peer { host: OLD, url: "nfs://10.77.0.12/export" };
/// Seed of the data that a run of ours writes, and size of its one file.
const SEED: u64 = 7;
const FILE: (&str, u64) = ("3MiB", 3 << 20);
/// How long our server may take to say where it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ways to speak with the kernel's server, as an address spells them.
const WAYS: [&str; 4] = ["version=3", "version=4.0", "version=4.1", "version=4.2"];
const UDP: &str = "version=3&proto=udp";
const WAYS_OF_V2: [&str; 2] = ["version=2&proto=udp", "version=2&proto=tcp"];

/// Runs the checks with kernels 6.12 and 6.1.
pub fn run(checks: &mut Checks, lab: &Lab) {
    if let Some(_server) = checks.get("our server listens to the machines", || serve(lab)) {
        // Over v4.2 kernel 6.12 reads by READ_PLUS, 6.1 by READ.
        for (kernel, client, versions) in
            [("6.12", NEW, &VERSIONS[..]), ("6.1", OLD, &VERSIONS[2..])]
        {
            for version in versions {
                checks.run(&format!("kernel {kernel} mounts our server, v{version}"), || {
                    mounted(lab, client, version)
                });
            }
        }
    }
    let offered = checks.get("the kernel's servers offer UDP, too", || {
        lab.ssh(OLD, "lab-nfsd 4 -u && lab-export tmpfs")?;
        lab.ssh("server", "lab-export ext4 && lab-nfsd 8 -u")
    });
    if offered.is_some() {
        checks.run("our probe finds its versions", || probed(lab, &["3", "4.0", "4.1", "4.2"]));
        by_our_client(checks, lab, SERVER, &WAYS);
        // Not the list: 6.12 gives wrong checksums to READs of odd lengths (docs/lab-vm.md).
        checks.run("a run of ours, kernel 6.12, over UDP", || measured(lab, SERVER, UDP));
        by_our_client(checks, lab, OLD_SERVER, &[UDP]);
    }
}

/// Runs the checks with a server that speaks v2.
pub fn nfs2(checks: &mut Checks, lab: &Lab) {
    if let Some(_server) = checks.get("our server listens to kernel 5.10", || serve(lab)) {
        for version in ["2", "3", "4.2"] {
            checks.run(&format!("kernel 5.10 mounts our server, v{version}"), || {
                mounted(lab, NEW, version)
            });
        }
    }
    checks.run("our probe finds v2", || probed(lab, &["2", "3"]));
    by_our_client(checks, lab, SERVER, &WAYS_OF_V2);
}

fn by_our_client(checks: &mut Checks, lab: &Lab, peer: Peer, ways: &[&str]) {
    let host = peer.host;
    for way in ways {
        checks.run(&format!("the interop list, {host}, {way}"), || listed(lab, peer, way));
        checks.run(&format!("a run of ours, {host}, {way}"), || measured(lab, peer, way));
    }
}

/// A run of ours under TLS, with the laboratory's own authority.
pub fn under_tls(lab: &Lab) -> Result<()> {
    let folder = TempDir::new()?;
    let ca = folder.path().join("ca.pem");
    fs::write(&ca, lab.ssh("server", "cat /etc/tlshd/ca.pem")?)?;
    let way = format!("version=4.2&tls_server_name=server&tls_ca={}", ca.display());
    measured(lab, SERVER, &way)
}

/// Starts our server on this machine's end of the bridge, with a portmapper.
fn serve(lab: &Lab) -> Result<Background> {
    let mut command = inside(lab, &OURS.command());
    command.args(["serve", "--listen", "10.77.0.254", "--allow", "10.77.0.0/24"]);
    command.args(["--port", "2049", "--portmapper", "111", "--memory", "64MiB"]);
    let (server, line) =
        Background::start_with_first_line(command.stderr(Stdio::null()), PATIENCE)?;
    ensure!(line.starts_with("nfs://10.77.0.254:2049/export"), "it says {line:?}");
    Ok(server)
}

fn mounted(lab: &Lab, client: &str, version: &str) -> Result<()> {
    let options = format!("vers={version},proto=tcp");
    Mount { lab, client, source: "host:/export", options: &options }.check_data().map(|_| ())
}

fn probed(lab: &Lab, versions: &[&str]) -> Result<()> {
    let said = proc::text(inside(lab, &OURS.command()).args(["probe", SERVER.url]))?;
    let line = said.lines().find_map(|line| line.strip_prefix("versions:"));
    let line = line.with_context(|| format!("no line of versions in:\n{said}"))?;
    let found: Vec<&str> = line.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
    let missing = versions.iter().find(|version| !found.contains(version));
    ensure!(missing.is_none(), "{missing:?} isn't in {line:?}");
    Ok(())
}

/// The list of checks that every server is held to.
fn listed(lab: &Lab, peer: Peer, way: &str) -> Result<()> {
    let example = Command::new(repo::example(Profile::Debug, "interop"));
    let mut command = inside(lab, &example);
    command.arg(format!("{}?{way}", peer.url)).args(["--entries", "100"]);
    interop::judge(&mut command).map(|_| ())
}

/// A verified run; its accounting is right, and the server holds what it was to write.
fn measured(lab: &Lab, peer: Peer, way: &str) -> Result<()> {
    let folder = TempDir::new()?;
    let results = folder.path().join("results.db");
    let (target, seed) = (format!("{}?{way}", peer.url), SEED.to_string());
    #[rustfmt::skip]
    let flags = [
        "--workload", "stream", "--file-size", FILE.0, "--io-size", "32KiB", "--trials", "1",
        "--verify", "true", "--seed", &seed, "--keep", "--quiet",
    ];
    let run = OURS.run_command(&Run { target: &target, results: &results, flags: &flags });
    let mut command = inside(lab, &run);
    proc::capture(command.args(run.get_args()))?;
    accounted(&results)?;
    // What stays open keeps the export busy; of v4.0 a server remembers what was closed last.
    let open = "cat /proc/fs/nfsd/clients/*/states 2>/dev/null | grep 'type: open' | \
                grep -v ' closed,' || true";
    let open = lab.ssh(peer.host, open)?;
    ensure!(open.is_empty(), "files were left open:\n{open}");
    let there = lab.ssh(
        peer.host,
        "cat /export/.dfsbench-*/f00000000 | sha256sum && rm -r /export/.dfsbench-*",
    )?;
    let pattern = folder.path().join("pattern");
    fs::write(&pattern, OURS.pattern(SEED, 0, FILE.1)?)?;
    let here = proc::text(Command::new("sha256sum").arg(pattern))?;
    let first = |text: &str| text.split_whitespace().next().map(str::to_owned);
    ensure!(first(&here) == first(&there), "wanted {here:?}, the server holds {there:?}");
    Ok(())
}

/// Looks for the truths of the one trial: what it counted is what others counted.
fn accounted(results: &Path) -> Result<()> {
    let report: Value = serde_json::from_slice(&OURS.report(results, "json")?)?;
    let passes = report.pointer("/runs/0/trials/0/passes").and_then(Value::as_array);
    let passes = passes.context("the trial has no passes")?;
    let mut truths = 0;
    for pass in passes {
        ensure!(pass["bytes"] == FILE.1, "a pass moved {} bytes", pass["bytes"]);
        for truth in pass["truths"].as_array().context("a pass has no truths")? {
            ensure!(truth["expected"] == truth["found"], "{}: {truth}", pass["pass"]);
            truths += 1;
        }
    }
    ensure!(passes.len() >= 2 && truths >= 6, "only {truths} truths in {} passes", passes.len());
    Ok(())
}

/// Returns the program of a command as one that runs on the bridge; its arguments stay behind.
fn inside(lab: &Lab, command: &Command) -> Command {
    let mut inside = lab.inside(&command.get_program().to_string_lossy());
    inside.env("NO_COLOR", "1").stdin(Stdio::null());
    inside
}
