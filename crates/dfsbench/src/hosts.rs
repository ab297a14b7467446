//! Where agents come from: this program in a process of its own, here or over ssh on another host.
//!
//! Hosts that are set up have an agent in a process of its own, this one too: it undoes what it did
//! even where the controller is killed.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fleet::ssh::Launcher;
use fleet::{Gone, Remote, Transport};
use model::Host;

use crate::job::Job;

/// Starts agents.
pub struct Agents {
    stop: Arc<AtomicBool>,
    /// Made when a host is first reached over ssh.
    launcher: Option<Launcher>,
    /// Those that came by themselves.
    job: Option<Job>,
}

impl Agents {
    /// None yet; `stop` is the wish to stop, which is passed on to them.
    pub const fn new(stop: Arc<AtomicBool>) -> Self {
        Self { stop, launcher: None, job: None }
    }

    /// With those that a job has brought.
    pub fn with_job(self, job: Option<Job>) -> Self {
        Self { job, ..self }
    }

    /// Starts the agent of a host.
    ///
    /// # Errors
    /// When the host can't be reached or can't run this program; in a sentence.
    pub fn launch(&mut self, host: &Host) -> Result<Box<dyn Transport>, Gone> {
        if let Some(taken) = self.job.as_mut().and_then(|job| job.take(host)) {
            return Ok(Box::new(taken?));
        }
        let remote = if host.ssh.is_some() {
            let launcher = match &mut self.launcher {
                Some(launcher) => launcher,
                none => none.insert(Launcher::new(programs(host)?)?),
            };
            launcher.launch(host, &self.stop)?
        } else {
            let mut command = Command::new(this_program(host)?);
            // A ctrl-C is for the controller, which then ends things in order.
            command.args(["agent", "--stdio"]).process_group(0);
            Remote::start(&mut command, &host.name, Arc::clone(&self.stop))?
        };
        Ok(Box::new(remote))
    }
}

/// Programs that a host may be able to run, the best first.
fn programs(host: &Host) -> Result<Vec<PathBuf>, Gone> {
    if let Some(named) = std::env::var_os("DFSBENCH_AGENT_BINARY") {
        return Ok(vec![named.into()]);
    }
    let this = this_program(host)?;
    let beside = this.with_file_name("dfsbench-static");
    Ok([this].into_iter().chain(beside.is_file().then_some(beside)).collect())
}

fn this_program(host: &Host) -> Result<PathBuf, Gone> {
    std::env::current_exe()
        .map_err(|error| Gone(format!("host {}: where is this program? {error}", host.name)))
}

/// Where this host's undo log is: of root for all, of others in their own folder.
///
/// **Source:** the XDG base directory specification, `XDG_STATE_HOME`.
pub fn state_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/dfsbench");
    }
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let state = absolute("XDG_STATE_HOME").or_else(home).unwrap_or_else(std::env::temp_dir);
    state.join("dfsbench")
}
