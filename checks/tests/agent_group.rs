//! Ten hosts that run one trial together: how well they start at one instant, the gap between two
//! trials, their traffic meanwhile, and how an agent group continues after losing one.
//!
//! Results are medians of many passes, printed with the check. Their limits are loose, since ten
//! hosts share the few CPUs of one machine that does other things, too.

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use checks::check::{Fixture, wait_until};
use checks::checks;
use checks::hosts::{HOSTS_MAX as HOSTS, LEAVING, Lab, OURS, PATIENCE, ip};
use checks::ours::exit;
use checks::proc::{self, Background};
use serde_json::Value;

static LAB: Fixture<Lab> = Fixture::new(|| Lab::start(HOSTS));
static AGENT_GROUP: Fixture<AgentGroup<'static>> =
    Fixture::new(|| AgentGroup::with_all_hosts(LAB.get()?));

checks! {
    starts_ten_hosts_together: 300 s, together(AGENT_GROUP.get()?);
    sends_little_while_measuring: 300 s, quiet(AGENT_GROUP.get()?);
    continues_without_disconnected_agent: 300 s, cut(AGENT_GROUP.get()?);
    names_hosts_without_mount_first: 200 s, {
        unmounted(AGENT_GROUP.get()?)
    };
    names_host_without_space: 300 s, no_space(AGENT_GROUP.get()?);
}

/// Time within which hosts that don't share CPUs start, in nanoseconds; here it is printed.
const SKEW_NS: u64 = 1_000_000;

/// The longest gap between two trials on such hosts, in milliseconds.
const GAP_MS: f64 = 50.0;

/// Factor on these limits for a machine that does other things, too.
const PATIENTLY: u64 = 10;

/// Maximum traffic of an agent and its controller while a pass is measured, in bytes per second,
/// including ssh, TCP and IP overhead.
const TRAFFIC_MAX: f64 = 1024.0;

/// Trials behind the medians.
const TRIALS: u32 = 20;

/// How long the traffic is watched; long enough that one message more or less does not matter.
const WATCHED: Duration = Duration::from_secs(4);

/// Maximum time until a lost host is noticed: 3 s, and extra time for a busy machine.
const NOTICED: Duration = Duration::from_secs(6);

/// A directory shared by all hosts of a lab, and what they need to work in it.
struct AgentGroup<'l> {
    lab: &'l Lab,
    shared: PathBuf,
}

impl<'l> AgentGroup<'l> {
    /// Makes agents of all hosts of a lab.
    fn with_all_hosts(lab: &'l Lab) -> Result<Self> {
        let shared = lab.shared.path().join("data");
        fs::create_dir_all(&shared)?;
        Ok(Self { lab, shared })
    }

    fn results(&self) -> PathBuf {
        self.lab.folder.path().join("agent-group.db")
    }

    /// A run of a plan by the hosts of the lab in a directory, with this number of trials per run;
    /// `work` is factors and workloads.
    fn campaign(&self, folder: &Path, trials: u32, work: &str) -> Result<Command> {
        let at = |name: &str| self.lab.folder.path().join(name).display().to_string();
        let host = |number| {
            let config = at("config");
            format!(
                "[[host]]\nname = \"c{number}\"\nssh = \"h{number}\"\nssh_config = \"{config}\"\n"
            )
        };
        let hosts: String = (1..=HOSTS).map(host).collect();
        let names: Vec<String> = (1..=HOSTS).map(|number| format!("\"c{number}\"")).collect();
        let folder = folder.display();
        let names = names.join(", ");
        let text = format!(
            "name = \"agent-group\"\norder = \"sequential\"\ninterference = \"keep\"\n\
             trials = {trials}\n{hosts}[[target]]\n\
             name = \"all\"\npath = \"{folder}\"\nhosts = [{names}]\n{work}"
        );
        fs::write(at("agent-group.toml"), text)?;
        let _ = fs::remove_file(self.results());
        let mut command = self.lab.ours();
        command.args(["run", &at("agent-group.toml"), "--quiet", "--results"]).arg(self.results());
        Ok(command)
    }

    /// Starts a campaign whose output is kept.
    fn started(&self, folder: &Path, trials: u32, work: &str) -> Result<Background> {
        let mut command = self.campaign(folder, trials, work)?;
        let out = |name: &str| fs::File::create(self.lab.folder.path().join(name));
        command.stdout(out("stdout")?).stderr(out("stderr")?);
        Background::start(&mut command)
    }

    fn report(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&OURS.report(&self.results(), "json")?)?)
    }

    /// Bytes of the files in the shared folder.
    fn written(&self) -> u64 {
        let folders = fs::read_dir(&self.shared).into_iter().flatten().flatten();
        let files = folders.filter_map(|folder| fs::read_dir(folder.path()).ok()).flatten();
        files.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Waits until no host has anything of ours, nor the folder.
    fn await_nothing(&self) -> Result<()> {
        (0..HOSTS as usize).try_for_each(|host| self.lab.await_nothing(host, LEAVING))?;
        let left: Vec<_> = fs::read_dir(&self.shared)?.flatten().map(|e| e.path()).collect();
        ensure!(left.is_empty(), "left in the folder: {left:?}");
        Ok(())
    }

    /// Bytes sent to and from each host so far.
    fn traffic(&self) -> Result<Vec<u64>> {
        let file = |number, what| format!("/sys/class/net/v{number}/statistics/{what}_bytes");
        let files = (1..=HOSTS).flat_map(|number| [file(number, "rx"), file(number, "tx")]);
        let text = proc::capture_text(self.lab.near("cat").args(files))?;
        let counts: Vec<u64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
        Ok(counts.chunks(2).map(|both| both.iter().sum()).collect())
    }
}

/// A mix of reads, a worker on each host.
fn mix(file_size: &str, duration: &str) -> String {
    format!(
        "[[workload]]\nkind = \"mixed\"\nworkers = 1\nfile_size = \"{file_size}\"\n\
         read_percent = 100\nduration = \"{duration}\"\n"
    )
}

/// Many short trials of ten hosts.
fn together(group: &AgentGroup<'_>) -> Result<()> {
    let begun = Instant::now();
    let output = proc::capture_output(&mut group.campaign(
        &group.shared,
        TRIALS,
        &mix("64KiB", "100ms"),
    )?)?;
    let took = begun.elapsed();
    ensure!(matches!(output.status.code(), Some(0 | exit::INVALID)), "{output:?}");
    let report = group.report()?;
    let made = report["runs"][0]["trials"].as_array().context("no trials")?;
    ensure!(made.len() == TRIALS as usize, "{} trials", made.len());
    let mut skews = Vec::new();
    let mut errors = Vec::new();
    for trial in made {
        ensure!(trial["state"] == "done", "{}", trial["state"]);
        let hosts = trial["passes"][0]["hosts"].as_array().context("no hosts")?;
        ensure!(hosts.len() == HOSTS as usize, "{} hosts", hosts.len());
        skews.push(trial["passes"][0]["start_skew_ns"].as_u64().context("no skew")?);
        errors.extend(hosts.iter().filter_map(|host| host["error_ns"].as_u64()));
    }
    // The time of a trial in addition to its measurement: from one start to the next.
    let at = |trial: &Value| trial["started_unix_ms"].as_u64().unwrap_or(0) as f64;
    let measured = |trial: &Value| trial["passes"][0]["window_ns"].as_u64().unwrap_or(0) as f64;
    let mut gaps: Vec<_> = made
        .windows(2)
        .map(|pair| at(&pair[1]) - at(&pair[0]) - measured(&pair[0]) / 1e6)
        .collect();
    let skew_ns = middle(&mut skews);
    let gap_ms = middle_of(&mut gaps);
    let error_ns = middle(&mut errors);
    println!(
        "  skew {:.0} µs (worst {:.0} µs; clocks ± {:.0} µs), {gap_ms:.0} ms between two trials \
         (worst {:.0} ms), {:.1} s with reaching and leaving ten hosts",
        skew_ns as f64 / 1e3,
        skews.last().copied().unwrap_or(0) as f64 / 1e3,
        error_ns as f64 / 1e3,
        gaps.last().copied().unwrap_or(0.0),
        took.as_secs_f64()
    );
    // A busy machine delays some starts. If hosts did not start together by design, all would be.
    ensure!(skews[0] < PATIENTLY * SKEW_NS, "skew: {skews:?} ns");
    ensure!(gaps[0] < PATIENTLY as f64 * GAP_MS, "between trials: {gaps:?} ms");
    group.await_nothing()
}

/// Counts the bytes on the wire of each host while a pass is measured.
fn quiet(group: &AgentGroup<'_>) -> Result<()> {
    let mut campaign = group.started(&group.shared, 1, &mix("64KiB", "10s"))?;
    let all = u64::from(HOSTS) << 16;
    wait_until(PATIENCE, "preparing", || group.written() >= all)?;
    thread::sleep(Duration::from_secs(2));
    let begun = Instant::now();
    let before = group.traffic()?;
    thread::sleep(WATCHED);
    let after = group.traffic()?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(group.written() >= all, "the pass ended before its traffic was counted");
    ensure!(campaign.await_end(PATIENCE)?.is_some(), "{}", group.lab.output_text()?);
    let per_s = before.iter().zip(&after).map(|(before, after)| (after - before) as f64 / seconds);
    let per_s: Vec<f64> = per_s.collect();
    let most = per_s.iter().copied().fold(0.0, f64::max);
    println!("  {most:.0} bytes per second and host on the wire at most");
    ensure!(most > 0.0 && most < TRAFFIC_MAX, "{per_s:?} bytes per second");
    group.await_nothing()
}

/// The network of the last host is cut during the measurement: the run ends, and the one without it
/// is made. Other phases are tested with agents in separate processes (`dfsbench/tests/fleet`).
fn cut(group: &AgentGroup<'_>) -> Result<()> {
    let fewer = HOSTS - 1;
    let work = format!("[factors]\nclient_hosts = [{HOSTS}, {fewer}]\n{}", mix("64KiB", "4s"));
    let mut campaign = group.started(&group.shared, 1, &work)?;
    let all = u64::from(HOSTS) << 16;
    wait_until(PATIENCE, "preparing", || group.written() >= all)?;
    let veth = format!("v{HOSTS}");
    ip(&["-n", &group.lab.bridge, "link", "set", &veth, "down"])?;
    let begun = Instant::now();
    let ended = campaign.await_end(PATIENCE);
    let took = begun.elapsed();
    let alone = group.lab.await_nothing(HOSTS as usize - 1, LEAVING);
    ip(&["-n", &group.lab.bridge, "link", "set", &veth, "up"])?;
    ensure!(ended? == Some(exit::INVALID), "{}", group.lab.output_text()?);
    alone.context("the host that was cut off")?;
    let report = group.report()?;
    let trials = |run: usize| report["runs"][run]["trials"].as_array().cloned().unwrap_or_default();
    let why = trials(0)[0]["reason"].as_str().unwrap_or_default().to_owned();
    let words = format!("host c{HOSTS}: the agent has been silent for 3 s");
    ensure!(why.contains(&words), "{why}");
    let made: BTreeSet<String> = trials(1).iter().map(|trial| trial["state"].to_string()).collect();
    ensure!(made == BTreeSet::from(["\"done\"".to_owned()]), "without it: {made:?}");
    let lost = trials(0)[0]["started_unix_ms"].as_u64().context("no instant")?;
    let next = trials(1)[0]["started_unix_ms"].as_u64().context("no instant")?;
    println!(
        "  {:.1} s from the start of one run to the next, {took:?} to the end",
        (next - lost) as f64 / 1e3
    );
    ensure!(took < NOTICED + PATIENCE, "{took:?}");
    group.await_nothing()
}

/// Hosts without the mount find another directory at its path, here memory of their own: they are
/// reported before anything is measured, and everything created is removed.
fn unmounted(group: &AgentGroup<'_>) -> Result<()> {
    let work = "[factors]\nclient_hosts = 3\n[[workload]]\nkind = \"stream\"\n\
                file_size = \"1MiB\"\n";
    let output = group.campaign(Path::new("/srv/data"), 1, work)?.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let words = "`/srv/data` is not the same directory on all hosts: files created by host c1 \
                 (tmpfs `tmpfs`) are missing on host c2 (tmpfs `tmpfs`), host c3 (tmpfs `tmpfs`) \
                 (hint: ";
    ensure!(text.contains(words), "{output:?}");
    ensure!(!output.status.success(), "{output:?}");
    group.await_nothing()?;
    // If the plan allows different directories, they are measured.
    let apart = work.replace("= 3\n", "= 3\nshared = false\n");
    let output = group.campaign(Path::new("/srv/data"), 1, &apart)?.output()?;
    ensure!(output.status.success(), "{output:?}");
    group.await_nothing()
}

/// The disk of one host suddenly fills up while it is working: its message is the reason, and all
/// hosts are cleaned up.
fn no_space(group: &AgentGroup<'_>) -> Result<()> {
    let own = Path::new("/srv/data");
    let host = 4;
    let size = |size: &str| {
        group.lab.run_on(host, &["mount", "-o", &format!("remount,size={size}"), "/srv"])
    };
    let work = "[factors]\nclient_hosts = 5\nshared = false\n[[workload]]\nkind = \"stream\"\nworkers = 1\n\
                file_size = \"4MiB\"\n";
    size("60m")?;
    let mut campaign = group.started(own, 200, work)?;
    wait_until(PATIENCE, "a trial", || group.lab.works(host))?;
    group.lab.run_on(host, &["sh", "-c", "cat /dev/zero > /srv/hog 2>/dev/null; true"])?;
    let ended = campaign.await_end(PATIENCE);
    group.lab.run_on(host, &["rm", "/srv/hog"])?;
    size("400m")?;
    ensure!(ended? == Some(exit::INVALID), "{}", group.lab.output_text()?);
    let report = group.report()?;
    let trials = report["runs"][0]["trials"].as_array().cloned().unwrap_or_default();
    let why = trials.iter().filter_map(|trial| trial["reason"].as_str()).collect::<Vec<_>>();
    // Within a pass, or before the next trial.
    let is_full = |why: &str| why.contains("NOSPC") || why.contains("not enough space");
    ensure!(why.iter().any(|why| why.contains("host c5: ") && is_full(why)), "{why:?}");
    group.await_nothing()
}

fn middle(all: &mut [u64]) -> u64 {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

fn middle_of(all: &mut [f64]) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}
