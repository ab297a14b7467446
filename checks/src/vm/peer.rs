//! Ours and the kernel's: our server mounted by Linux, and our client with the kernel's server.
//!
//! Main type: [`Peer`], one of the kernel's servers and its addresses. Our programs run on this
//! machine's end of the bridge.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::guest::Mount;
use super::lab::Lab;
use crate::interop;
use crate::ours::{Ours, Run};
use crate::proc::{self, Background};
use crate::repo::{self, Profile};

/// Our program as built for tests.
pub const OURS: Ours = Ours::new(Profile::Debug);
/// One of the kernel's servers; its portmapper has the ports.
#[derive(Clone, Copy)]
pub struct Peer {
    /// Its name in the ssh configuration.
    host: &'static str,
    /// Its address for our client.
    url: &'static str,
}

/// The server of a laboratory.
pub const SERVER: Peer = Peer { host: "server", url: "nfs://10.77.0.1/export" };
/// The client with kernel 6.1, which also exports.
pub const OLD_SERVER: Peer = Peer { host: "client2", url: "nfs://10.77.0.12/export" };
/// Seed of the data written by our run, and size of its only file.
const SEED: u64 = 7;
const FILE: (&str, u64) = ("3MiB", 3 << 20);
/// Timeout until our server prints its address.
const PATIENCE: Duration = Duration::from_secs(120);
/// Path of our program on the machines.
pub const INSTALLED: &str = "/usr/local/bin/dfsbench";
/// How long a copy of it may take, as busy as this machine is.
const COPY_MAX: Duration = Duration::from_secs(180);

/// Makes a run with TLS, with the laboratory's own authority.
pub fn check_run_under_tls(lab: &Lab) -> Result<()> {
    let folder = TempDir::new()?;
    let ca = folder.path().join("ca.pem");
    fs::write(&ca, lab.ssh("server", "cat /etc/tlshd/ca.pem")?)?;
    let way = format!("version=4.2&tls_server_name=server&tls_ca={}", ca.display());
    check_run(lab, SERVER, &way)
}

/// Installs our program on all machines at once. Returns the stripped program, which stays in
/// `folder`.
pub fn install_ours(lab: &Lab, folder: &Path) -> Result<PathBuf> {
    let program = folder.join("dfsbench");
    let mut strip = Command::new("strip");
    proc::run_command(strip.arg("-o").arg(&program).arg(repo::dfsbench_path(Profile::Debug)))?;
    let packed = program.with_extension("gz");
    let mut gzip = Command::new("gzip");
    proc::run_command(gzip.arg("-c").arg(&program).stdout(fs::File::create(&packed)?))?;
    let mut copies = Vec::new();
    for host in lab.names() {
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(lab.ssh_config()).arg(host);
        ssh.arg(format!("gzip -dc >{INSTALLED} && chmod 755 {INSTALLED}"));
        copies.push((host, Background::start(ssh.stdin(fs::File::open(&packed)?))?));
    }
    for (host, copy) in &mut copies {
        let code = copy.await_end(COPY_MAX)?;
        ensure!(code == Some(0), "{host} did not take the program: {code:?}");
    }
    Ok(program)
}

/// Starts our server on this machine's end of the bridge, with a portmapper.
pub fn start_server(lab: &Lab) -> Result<Background> {
    let mut command = wrap_inside(lab, &OURS.command());
    command.args(["serve", "--listen", "10.77.0.254", "--allow", "10.77.0.0/24"]);
    command.args(["--port", "2049", "--portmapper", "111", "--memory", "256MiB"]);
    let (server, line) =
        Background::start_with_first_line(command.stderr(Stdio::null()), PATIENCE)?;
    ensure!(line.starts_with("nfs://10.77.0.254:2049/export"), "it printed {line:?}");
    Ok(server)
}

/// Mounts our server on a client, and checks data and counters.
pub fn check_mount(lab: &Lab, client: &str, version: &str) -> Result<()> {
    let options = format!("vers={version},proto=tcp");
    Mount { lab, client, source: "host:/export", options: &options }.check_data().map(|_| ())
}

/// Checks that `dfsbench probe` finds these versions on the laboratory's server, and its extended
/// attributes.
pub fn check_probe(lab: &Lab, versions: &[&str]) -> Result<()> {
    let text = proc::capture_text(wrap_inside(lab, &OURS.command()).args(["probe", SERVER.url]))?;
    let has_xattrs = text.contains("\nxattr:     supported");
    ensure!(has_xattrs || !versions.contains(&"4.2"), "no extended attributes in:\n{text}");
    let line = text.lines().find_map(|line| line.strip_prefix("versions:"));
    let line = line.with_context(|| format!("no line of versions in:\n{text}"))?;
    let found: Vec<&str> = line.split([' ', ',']).collect();
    for version in versions {
        ensure!(found.contains(version), "{version} isn't in {line:?}");
    }
    Ok(())
}

/// Runs the list of checks that every server must pass.
pub fn check_list(lab: &Lab, peer: Peer, way: &str) -> Result<()> {
    let example = Command::new(repo::example_path(Profile::Debug, "interop"));
    let mut command = wrap_inside(lab, &example);
    command.arg(format!("{}?{way}", peer.url)).args(["--entries", "100"]);
    interop::check_output(&mut command).map(|_| ())
}

/// Makes a verified run; its cross-checks agree, and the server has the data that was written.
pub fn check_run(lab: &Lab, peer: Peer, way: &str) -> Result<()> {
    let folder = TempDir::new()?;
    let results = folder.path().join("results.db");
    let target = format!("{}?{way}", peer.url);
    let seed = SEED.to_string();
    #[rustfmt::skip]
    let flags = [
        "--workload", "stream", "--file-size", FILE.0, "--io-size", "32KiB", "--trials", "1",
        "--verify", "true", "--seed", &seed, "--keep", "--quiet",
    ];
    let run = OURS.run_command(&Run { target: &target, results: &results, flags: &flags });
    let mut command = wrap_inside(lab, &run);
    proc::capture_stdout(command.args(run.get_args()))?;
    check_counts(&results)?;
    // An open file keeps the export busy; a v4.0 server also remembers what was closed last.
    let open = "cat /proc/fs/nfsd/clients/*/states 2>/dev/null | grep 'type: open' | \
                grep -v ' closed,' || true";
    let open = lab.ssh(peer.host, open)?;
    ensure!(open.is_empty(), "files were left open:\n{open}");
    let there = lab.ssh(
        peer.host,
        "cat /export/.dfsbench-*/f00000000 | sha256sum && rm -r /export/.dfsbench-*",
    )?;
    let pattern = folder.path().join("pattern");
    fs::write(&pattern, OURS.make_pattern(SEED, 0, FILE.1)?)?;
    let here = proc::capture_text(Command::new("sha256sum").arg(pattern))?;
    // A line is the hash, two spaces and the name.
    let is_same = here.split_whitespace().next() == there.split_whitespace().next();
    ensure!(is_same, "wanted {here:?}, the server has {there:?}");
    Ok(())
}

/// Compares the counts of the only trial with independent ones.
fn check_counts(results: &Path) -> Result<()> {
    let report: Value = serde_json::from_slice(&OURS.report(results, "json")?)?;
    let passes = report.pointer("/runs/0/trials/0/passes").and_then(Value::as_array);
    let passes = passes.context("the trial has no passes")?;
    let mut checked = 0;
    for pass in passes {
        ensure!(pass["bytes"] == FILE.1, "a pass moved {} bytes", pass["bytes"]);
        for count in pass["cross_checks"].as_array().context("a pass has no cross-checks")? {
            ensure!(count["expected"] == count["found"], "{}: {count}", pass["pass"]);
            checked += 1;
        }
    }
    ensure!(passes.len() >= 2 && checked >= 6, "only {checked} counts in {} passes", passes.len());
    Ok(())
}

/// Returns a command that runs our program on the bridge.
pub fn ours_inside(lab: &Lab) -> Command {
    wrap_inside(lab, &OURS.command())
}

/// Returns a command that runs the program of another on the bridge; its arguments are not copied.
pub(super) fn wrap_inside(lab: &Lab, command: &Command) -> Command {
    let mut inside = lab.inside(&command.get_program().to_string_lossy());
    inside.env("NO_COLOR", "1").stdin(Stdio::null());
    inside
}
