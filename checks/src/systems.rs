//! Systems that a plan sets up from recipes, on hosts of a [`Lab`]: measured, or killed in the
//! middle and cleaned up.
//!
//! Main type: [`Subject`]. The first host is the server, the second one the client; others are for
//! roles.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::check::wait_until;
use crate::hosts::{LEAVING, Lab, OURS, PATIENCE};
use crate::noise::Noise;
use crate::ours::{self, exit};
use crate::proc::{self, Background};

/// Names of the hosts, as many as a lab has.
const HOSTS: [&str; 6] = ["server", "client", "node1", "node2", "node3", "node4"];

/// A system, and how a plan sets it up.
pub struct Subject {
    /// Name of the recipe, or path of its file; `FOLDER` is the lab's directory.
    pub system: &'static str,
    /// Further keys of its target; `NODES` is the list of all hosts except server and client.
    pub target: &'static str,
    /// Lines of its settings; empty if the plan sets none.
    pub settings: &'static str,
    /// A port of the server that is open while it is running.
    pub port: u16,
    /// Whether the client mounts it.
    pub is_mounted: bool,
}

impl Subject {
    /// Returns a command with a plan whose workload is `work`.
    fn command(&self, lab: &Lab, work: &str) -> Result<Command> {
        let at = |name: &str| lab.folder.path().join(name).display().to_string();
        let settings = match self.settings {
            "" => String::new(),
            settings => format!("[target.settings]\n{settings}"),
        };
        let plan = PLAN
            .replace("HOSTS", &lab.named_hosts(&HOSTS))
            .replace("SYSTEM", &self.system.replace("FOLDER", &at("")))
            .replace("TARGET", self.target)
            .replace("NODES", &format!("{:?}", &HOSTS[2..]))
            .replace("SETTINGS", &settings)
            .replace("WORK", work);
        fs::write(at("system.toml"), plan)?;
        let _ = fs::remove_file(at("system.db"));
        let mut command = lab.ours();
        command.args(["run", &at("system.toml"), "--quiet", "--format", "csv"]);
        command.args(["--results", &at("system.db"), "--trials", "1"]);
        Ok(command)
    }

    /// Measures it with each of this number of settings, with the workload [`SHORT`].
    pub fn measure_short(&self, lab: &Lab, settings: usize) -> Result<()> {
        self.measure(lab, SHORT, settings * SHORT_PASSES)
    }

    /// Measures it with each of its settings, and checks that the hosts are restored.
    ///
    /// # Errors
    /// If a row has no result, the number of rows isn't `rows`, or something is left.
    pub fn measure(&self, lab: &Lab, work: &str, rows: usize) -> Result<()> {
        let before = self.list_left(lab)?;
        ours::measure_rows(&mut self.command(lab, work)?, rows)?;
        self.await_as_before(lab, &before)
    }

    /// Measures it, and returns the report as JSON, with the cross-checks and caveats of each pass.
    pub fn report(&self, lab: &Lab, work: &str) -> Result<Value> {
        let output = proc::capture_output(&mut self.command(lab, work)?)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(matches!(output.status.code(), Some(0 | exit::INVALID)), "{errors}");
        let text = OURS.report(&lab.folder.path().join("system.db"), "json")?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Kills controller and agents during the measurement, cleans up, and checks that the hosts are
    /// restored.
    pub fn kill_and_clean(&self, lab: &Lab) -> Result<()> {
        let before = self.list_left(lab)?;
        let out = |name: &str| fs::File::create(lab.folder.path().join(name));
        let mut command = self.command(lab, LONG)?;
        let mut campaign =
            Background::start(command.stdout(out("stdout")?).stderr(out("stderr")?))?;
        let errors = || fs::read_to_string(lab.folder.path().join("stderr")).unwrap_or_default();
        wait_until(PATIENCE, "the system", || self.is_used(lab)).with_context(errors)?;
        ensure!(lab.kill_agents(&lab.numbers())? > 0, "no agent");
        campaign.kill();
        ensure!(self.serves(lab)?, "nothing was left to restore");
        let mut clean = lab.ours();
        clean.args(["clean", &lab.folder.path().join("system.toml").display().to_string()]);
        let text = proc::capture_text(&mut clean)?;
        ensure!(text.contains("server: restored: "), "{text}");
        self.await_as_before(lab, &before)
    }

    /// Kills controller and agents at this number of random moments over the whole length of a
    /// campaign; cleans up each time, and checks that the hosts are restored.
    ///
    /// `DFSBENCH_CHECK_SEED` determines the moments, which are printed.
    pub fn kill_at_moments(&self, lab: &Lab, count: u32) -> Result<()> {
        let seed = match std::env::var("DFSBENCH_CHECK_SEED") {
            Ok(text) => text.parse().context("DFSBENCH_CHECK_SEED")?,
            Err(_) => u64::from(std::process::id()),
        };
        let before = self.list_left(lab)?;
        let started = Instant::now();
        proc::capture_output(&mut self.command(lab, SHORT)?)?;
        let whole = started.elapsed();
        self.await_as_before(lab, &before)?;
        println!("seed {seed}; a whole campaign took {whole:.1?}");
        let mut moments = Noise::seeded(seed);
        for number in 1..=count {
            let moment = whole.mul_f64(moments.next_share());
            let mut command = self.command(lab, SHORT)?;
            let mut campaign =
                Background::start(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
            thread::sleep(moment);
            campaign.kill();
            let agents = lab.kill_agents(&lab.numbers())?;
            let left = self.list_left(lab)? != before;
            let mut clean = lab.ours();
            clean.args(["clean", &lab.folder.path().join("system.toml").display().to_string()]);
            proc::capture_text(&mut clean).with_context(|| format!("killed after {moment:.1?}"))?;
            let restored = self.await_as_before(lab, &before);
            restored.with_context(|| format!("seed {seed}, killed after {moment:.1?}"))?;
            println!("{number}: killed after {moment:.1?}, {agents} agents, left then: {left}");
        }
        Ok(())
    }

    /// Returns true if the client is using it.
    fn is_used(&self, lab: &Lab) -> bool {
        if !self.serves(lab).unwrap_or(false) {
            return false;
        }
        let connected = format!(":{}", self.port);
        let is_connected = || {
            let sockets = lab.run_on(1, &["ss", "-Htn", "state", "established"]);
            sockets.is_ok_and(|text| text.contains(&connected))
        };
        if self.is_mounted { lab.works(1) } else { is_connected() }
    }

    fn serves(&self, lab: &Lab) -> Result<bool> {
        Ok(lab.run_on(0, &["ss", "-Hltn"])?.contains(&format!(":{} ", self.port)))
    }

    /// Lists everything that a system could leave behind: marked processes, files, mounts.
    fn list_left(&self, lab: &Lab) -> Result<Vec<String>> {
        let mut left = lab
            .numbers()
            .into_iter()
            .map(|host| lab.run_on(host, &["sh", "-c", LEFT]))
            .collect::<Result<Vec<_>, _>>()?;
        left.push(format!("serves: {}", self.serves(lab)?));
        Ok(left)
    }

    fn await_as_before(&self, lab: &Lab, before: &[String]) -> Result<()> {
        for host in lab.numbers() {
            lab.await_nothing(host, LEAVING)?;
        }
        let is_same = || self.list_left(lab).is_ok_and(|left| left == before);
        let waited = wait_until(LEAVING, "cleaning up", is_same);
        waited.with_context(|| format!("left: {:?}, before: {before:?}", self.list_left(lab)))
    }
}

/// Returns the caveat codes of each pass in the report of one run, in order.
pub fn codes(report: &Value) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for pass in report["runs"][0]["trials"][0]["passes"].as_array().into_iter().flatten() {
        let caveats = pass["caveats"].as_array().into_iter().flatten();
        all.push(caveats.map(|one| one["code"].as_str().unwrap_or_default().to_owned()).collect());
    }
    all
}

/// Returns the state of each trial of each run in a report.
pub fn states(report: &Value) -> Vec<&str> {
    let runs = report["runs"].as_array().into_iter().flatten();
    let trials = runs.flat_map(|run| run["trials"].as_array().into_iter().flatten());
    trials.map(|trial| trial["state"].as_str().unwrap_or_default()).collect()
}

/// Script that lists marked processes, and files and mounts in places used by systems.
const LEFT: &str = r#"
for found in $(grep -la DFSBENCH_SERVICE=/run/dfsbench /proc/[0-9]*/environ 2>/dev/null); do
  [ "$(readlink ${found%environ}ns/net)" = "$(readlink /proc/self/ns/net)" ] && echo $found
done
find /run/dfsbench /run/gluster /run/ganesha /run/glusterd.socket /var/lib/glusterd \
  /var/log/glusterfs /run/ceph /var/lib/ceph /var/log/ceph /srv/data 2>/dev/null | sort
grep -E 'fuse|/run/dfsbench' /proc/self/mounts
losetup --list --noheadings -O BACK-FILE | grep /srv/data/
true
"#;

const PLAN: &str = r#"
name = "system"
HOSTS
[[target]]
name = "system"
server = "server"
client = "client"
system = "SYSTEM"
TARGET
SETTINGS
WORK
"#;

/// Files that are written and read back, and metadata operations.
pub const SHORT: &str = r#"
[[workload]]
kind = "stream"
file_size = "4MiB"
verify = true
[[workload]]
kind = "metadata"
small_files = 40
small_file_size = "4KiB"
"#;

/// Number of its passes: two of the stream, three of metadata.
const SHORT_PASSES: usize = 5;

/// A mix that is ended early.
const LONG: &str = r#"
[factors]
file_size = "4MiB"
duration = "60s"
[[workload]]
kind = "mixed"
"#;
