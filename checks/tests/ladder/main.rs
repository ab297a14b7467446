//! Bottlenecks that need root to be planted, and `dfsbench ladder`, which must identify each.
//!
//! A link of 100 Mbit/s between two network namespaces, a client with a tenth of a CPU, and a slow
//! disk under nfs-ganesha; and small transfers, whose limit is the client's CPU when other tests
//! run. Bottlenecks that don't need root are planted by the tests of the command. Each is measured
//! `DFSBENCH_LADDERS` times, once by default. Everything ends when its value is dropped.
//!
//! **Source:** tc-tbf(8); Linux, Documentation/admin-guide/cgroup-v1 (blkio, cpu).
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use checks::checks;
use serde_json::Value;
use tempfile::TempDir;

use checks::ganesha::Ganesha;
use checks::ours::Ours;
use checks::proc::{self, Background};
use checks::repo::Profile;

mod ramp;

const OURS: Ours = Ours::new(Profile::Debug);

const PATIENCE: Duration = Duration::from_secs(20);

/// Arguments of every ladder here.
const SHORT: [&str; 5] = ["--trials", "3", "--quiet", "--format", "json"];

/// Throughput of the slow disk in bytes per second.
const DISK_BYTES_PER_S: u64 = 5 << 20;

checks! {
    names_100_mbit_link: 240 s, repeat(slow_link);
    names_client_with_tenth_of_cpu: 240 s, repeat(few_processors);
    names_slow_disk_under_server: 240 s, repeat(slow_disk);
    small_transfers_are_named: 120 s, repeat(small_transfers);
    finds_limit_of_descriptors: 180 s, ramp::few_descriptors();
}

/// Repeats a check, and reports how often and how it failed.
fn repeat(check: fn() -> Result<()>) -> Result<()> {
    let times = std::env::var("DFSBENCH_LADDERS").ok().and_then(|times| times.parse().ok());
    let times: u32 = times.unwrap_or(1);
    let failed: Vec<String> =
        (0..times).filter_map(|_| check().err()).map(|error| format!("{error:#}")).collect();
    ensure!(failed.is_empty(), "{} of {times} failed:\n{}", failed.len(), failed.join("\n"));
    Ok(())
}

/// The layer that limits a pass, as reported by a ladder.
#[derive(Debug)]
struct Limit {
    layer: String,
    is: String,
}

/// Returns the limits of those passes of a ladder that move bytes.
fn limits(output: &[u8]) -> Result<Vec<Limit>> {
    let json: Value = serde_json::from_slice(output)?;
    let passes =
        json["found"]["figures"]["passes"].as_array().context("a ladder without passes")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let with_bytes = passes.iter().filter(|pass| pass["pass"] != "op_mix");
    let limit = |pass: &Value| Limit { layer: text(&pass["limit"]), is: text(&pass["limit_is"]) };
    Ok(with_bytes.map(limit).collect())
}

fn ladder(mut command: Command, folder: &Path, flags: &[&str]) -> Result<Vec<Limit>> {
    let results = folder.join("results.db");
    command.args(SHORT).args(flags).arg("--results").arg(results);
    let output = proc::capture_output(&mut command)?;
    let found = limits(&output.stdout);
    found.with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Two network namespaces connected by a link.
struct Wire {
    near: String,
    far: String,
}

impl Wire {
    fn with_100_mbit() -> Result<Self> {
        let id = std::process::id();
        let wire = Self { near: format!("dfsbench-ln-{id}"), far: format!("dfsbench-lf-{id}") };
        for namespace in [&wire.near, &wire.far] {
            ip(&["netns", "add", namespace])?;
            ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        }
        let near = wire.near.as_str();
        let far = wire.far.as_str();
        ip(&["-n", near, "link", "add", "w", "type", "veth", "peer", "name", "w", "netns", far])?;
        for (namespace, address) in [(near, "10.80.0.1/24"), (far, "10.80.0.2/24")] {
            ip(&["-n", namespace, "addr", "add", address, "dev", "w"])?;
            ip(&["-n", namespace, "link", "set", "w", "up"])?;
            let tbf = ["root", "tbf", "rate", "100mbit", "burst", "32kb", "latency", "50ms"];
            let mut tc = Command::new("tc");
            tc.args(["-n", namespace, "qdisc", "add", "dev", "w"]).args(tbf);
            proc::run_command(&mut tc)?;
        }
        Ok(wire)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for namespace in [&self.near, &self.far] {
            let _ = ip(&["netns", "del", namespace]);
        }
    }
}

fn ip(args: &[&str]) -> Result<()> {
    proc::run_command(Command::new("ip").args(args))
}

/// Our program in a network namespace.
fn within(namespace: &str) -> Command {
    let mut command = Command::new("ip");
    let ours = OURS.command();
    command.args(["netns", "exec", namespace]).arg(ours.get_program()).env("NO_COLOR", "1");
    command.stdin(Stdio::null());
    command
}

fn slow_link() -> Result<()> {
    let folder = TempDir::with_prefix("dfsbench-ladder-")?;
    let wire = Wire::with_100_mbit()?;
    let mut serve = within(&wire.far);
    serve.args(["serve", "--listen", "10.80.0.2", "--allow", "10.80.0.0/24", "--memory", "64MiB"]);
    let (_server, line) = Background::start_with_first_line(serve.stderr(Stdio::null()), PATIENCE)?;
    let url = line.trim();
    let mut command = within(&wire.near);
    command.args(["ladder", url, "--own-server", url]);
    let found = ladder(command, folder.path(), &["--file-size", "4MiB"])?;
    ensure!(found.iter().all(|it| it.layer == "tcp" && it.is == "the network"), "{found:?}");
    Ok(())
}

/// A cgroup with a limit.
struct Group(PathBuf);

impl Group {
    fn create(controller: &str, who: &str, limits: &[(&str, String)]) -> Result<Self> {
        let name = format!("dfsbench-ladder-{who}-{}", std::process::id());
        let group = Self(Path::new("/sys/fs/cgroup").join(controller).join(name));
        fs::create_dir(&group.0).with_context(|| format!("{}", group.0.display()))?;
        for (file, value) in limits {
            fs::write(group.0.join(file), value)?;
        }
        Ok(group)
    }

    fn command(&self, program: &Command) -> Command {
        let mut command =
            proc::through_shell("echo $$ > \"$0\"", &self.0.join("cgroup.procs"), program);
        command.stdin(Stdio::null());
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn few_processors() -> Result<()> {
    let folder = TempDir::with_prefix("dfsbench-ladder-")?;
    // Both get priority over everything else on the machine: if others kept the server from its
    // CPUs, it would be the real bottleneck, and the client would never reach its quota.
    let first = ("cpu.shares", "262144".to_owned());
    let quota = ("cpu.cfs_quota_us", "10000".to_owned());
    let period = ("cpu.cfs_period_us", "100000".to_owned());
    let client = Group::create("cpu", "client", &[first.clone(), period, quota])?;
    let beside = Group::create("cpu", "server", &[first])?;
    let mut serve = OURS.command();
    serve.args(["serve", "--memory", "256MiB"]);
    let mut serve = beside.command(&serve);
    let (_server, line) = Background::start_with_first_line(serve.stderr(Stdio::null()), PATIENCE)?;
    let url = line.trim();
    let mut program = OURS.command();
    program.args(["ladder", url, "--own-server", url]);
    let found = ladder(client.command(&program), folder.path(), &["--file-size", "96MiB"])?;
    ensure!(found.len() == 2, "{found:?}");
    // Three trials with passes of a few periods are not always enough to be certain.
    ensure!(found.iter().all(|it| it.layer == "client_processor"), "{found:?}");
    Ok(())
}

/// A file system on a loop device.
struct Disk {
    folder: TempDir,
    device: String,
}

impl Disk {
    fn new() -> Result<Self> {
        let folder = TempDir::with_prefix("dfsbench-disk-")?;
        let image = folder.path().join("image");
        fs::File::create(&image)?.set_len(256 << 20)?;
        proc::run_command(Command::new("mkfs.ext4").arg("-q").arg(&image))?;
        let mut losetup = Command::new("losetup");
        let device =
            proc::capture_text(losetup.args(["-f", "--show", "--direct-io=on"]).arg(&image))?;
        let disk = Self { folder, device: device.trim().to_owned() };
        fs::create_dir(disk.place())?;
        proc::run_command(Command::new("mount").arg(&disk.device).arg(disk.place()))?;
        Ok(disk)
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// Its device numbers, in the syntax of cgroups.
    fn numbers(&self) -> Result<String> {
        let output =
            proc::capture_text(Command::new("lsblk").args(["-dno", "MAJ:MIN", &self.device]))?;
        Ok(output.trim().to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = proc::capture_output(Command::new("umount").arg(self.place()));
        let _ = proc::capture_output(Command::new("losetup").args(["-d", &self.device]));
    }
}

fn slow_disk() -> Result<()> {
    let folder = TempDir::with_prefix("dfsbench-ladder-")?;
    let disk = Disk::new()?;
    let limit = format!("{} {DISK_BYTES_PER_S}", disk.numbers()?);
    let limits = ["read", "write"].map(|way| (format!("blkio.throttle.{way}_bps_device"), &limit));
    let limits: Vec<(&str, String)> =
        limits.iter().map(|(file, limit)| (file.as_str(), (*limit).clone())).collect();
    let group = Group::create("blkio", "disk", &limits)?;
    let place = disk.place();
    let ganesha = Ganesha::serving(&place, &|command| group.command(&command))?;
    let url = ganesha.export("/vfs").for_us("");
    let mut program = OURS.command();
    program.args(["ladder", &url, "--server-disk"]).arg(&place);
    let found = ladder(group.command(&program), folder.path(), &["--file-size", "4MiB"])?;
    // The written data is in the server's memory, and is read from there.
    let first = found.first().context("no pass")?;
    ensure!(first.layer == "disk" && first.is == "the server's disk", "{found:?}");
    Ok(())
}

/// So small that they take nearly all of the time.
fn small_transfers() -> Result<()> {
    let folder = TempDir::with_prefix("dfsbench-ladder-")?;
    let mut program = OURS.command();
    program.args(["ladder", "embedded", "--transfer-size", "1KiB"]);
    let found = ladder(program, folder.path(), &["--file-size", "8MiB"])?;
    ensure!(found.len() == 2, "{found:?}");
    let is_named = |it: &Limit| it.layer == "own" && it.is == "the transfer size of 1 KiB";
    ensure!(found.iter().all(is_named), "{found:?}");
    Ok(())
}
