//! The life cycle of a laboratory: up, saved, restored, down.
//!
//! Main type: [`Lab`], the laboratory in one directory. It keeps running when the value is dropped,
//! as `cargo xtask vm up` needs it; tests wrap it in an [`TemporaryLab`], which always ends it.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use super::machine::{Machine, Plan, Suite};
use super::net::Space;
use super::qemu::{self, Emulator, Start};
use super::{image, ssh};
use crate::guard::{self, Ticket};
use crate::proc;

/// Timeout for booting all machines: emulated, on a machine that does other things, too.
const BOOT_MAX: Duration = Duration::from_secs(300);
/// Time limit for setting a resumed guest's clock, in seconds, and number of attempts.
const CLOCK_MAX_S: u32 = 20;
const CLOCK_TRIES: u32 = 5;
/// Kills processes whose program is ours; the guest's shell is not one of them.
const KILL_AGENTS: &str = "for process in /proc/[0-9]*; do \
    case $(readlink $process/exe) in */dfsbench*) kill -9 ${process#/proc/};; esac; done; true";

/// The machines of a new laboratory.
pub struct NewLab {
    pub server: Suite,
    pub clients: Vec<Suite>,
    /// Largest packet on the network, in bytes.
    pub mtu: u16,
    /// Size of a disk that all machines share, in MiB.
    pub shared_mib: Option<u32>,
}

/// A running or saved laboratory in a directory.
pub struct Lab {
    folder: PathBuf,
    space: Space,
    plan: Plan,
}

impl Lab {
    /// Boots a laboratory in a directory, with new disks; returns when all machines are ready.
    ///
    /// # Errors
    /// If one is already running there, an image can't be made, or a machine doesn't come up.
    pub fn boot(folder: &Path, wanted: &NewLab) -> Result<Self> {
        let folder = make_folder(folder)?;
        refuse_running(&folder)?;
        let image = image::find_or_make(wanted.server)?;
        let mut machines = vec![Machine::server(wanted.server, image.folder)];
        for (index, suite) in (1..).zip(&wanted.clients) {
            machines.push(Machine::client(index, *suite, image::find_or_make(*suite)?.folder));
        }
        let has_shared_disk = wanted.shared_mib.is_some();
        let plan = Plan { machines, mtu: wanted.mtu, has_shared_disk };
        let lab = Self { space: Space::new(&folder), folder, plan };
        lab.plan.save(&lab.folder)?;
        if let Some(size_mib) = wanted.shared_mib {
            qemu::make_shared_disk(&lab.folder, size_mib)?;
        }
        lab.or_down(|| lab.boot_machines())?;
        Ok(lab)
    }

    /// Resumes the laboratory saved in a directory.
    ///
    /// # Errors
    /// If nothing was saved there, or it is already running.
    pub fn restore(folder: &Path) -> Result<Self> {
        refuse_running(folder)?;
        let lab = Self::open(folder)?;
        lab.or_down(|| lab.resume_machines())?;
        Ok(lab)
    }

    /// Copies the first `count` of these machines, which were saved, to another directory, where
    /// [`Lab::restore`] can resume them.
    ///
    /// # Errors
    /// If they were never saved, or some are running in that directory.
    pub fn copy_to(&self, folder: &Path, count: usize) -> Result<Self> {
        let folder = make_folder(folder)?;
        refuse_running(&folder)?;
        let mut plan = self.plan.clone();
        plan.machines.truncate(count);
        for machine in &plan.machines {
            self.emulator(machine).copy_disks(&folder)?;
        }
        ssh::copy_key(&self.folder, &folder)?;
        let copy = Self { space: Space::new(&folder), folder, plan };
        ssh::write_config(&copy.folder, &copy.space, &copy.plan.machines)?;
        copy.plan.save(&copy.folder)?;
        Ok(copy)
    }

    /// Opens the laboratory in a directory.
    pub fn open(folder: &Path) -> Result<Self> {
        let folder =
            folder.canonicalize().with_context(|| format!("no lab in {}", folder.display()))?;
        let plan = Plan::load(&folder)?;
        Ok(Self { space: Space::new(&folder), folder, plan })
    }

    /// Ends the machines of a directory and removes its network; the disks stay.
    pub fn shut_down(folder: &Path) -> Result<()> {
        if !Plan::is_in(folder) {
            return Ok(());
        }
        let lab = Self::open(folder)?;
        lab.close_connections();
        for machine in &lab.plan.machines {
            lab.emulator(machine).end()?;
        }
        lab.space.remove()
    }

    /// Freezes all machines with their disks, and ends them; see [`Lab::restore`].
    pub fn save(&self) -> Result<()> {
        self.close_connections();
        self.act_on_all(|machine| self.emulator(machine).save())?;
        self.space.remove()
    }

    /// Ends the machines, and resumes them as last saved.
    ///
    /// # Errors
    /// If they were never saved, or don't come up.
    pub fn rewind(&self) -> Result<()> {
        Self::shut_down(&self.folder)?;
        Self::restore(&self.folder).map(drop)
    }

    fn boot_machines(&self) -> Result<()> {
        let key = ssh::key(&self.folder)?;
        self.space.make(&self.plan.machines, self.plan.mtu)?;
        ssh::write_config(&self.folder, &self.space, &self.plan.machines)?;
        for machine in &self.plan.machines {
            let emulator = self.emulator(machine);
            emulator.make_disks()?;
            emulator.start(&self.space, &self.plan, &Start::PowerOn { key: &key })?;
        }
        let deadline = Instant::now() + BOOT_MAX;
        for machine in &self.plan.machines {
            self.emulator(machine).await_ready(deadline)?;
        }
        Ok(())
    }

    fn resume_machines(&self) -> Result<()> {
        self.space.make(&self.plan.machines, self.plan.mtu)?;
        let key = ssh::key(&self.folder)?;
        self.act_on_all(|machine| {
            let start = Start::Snapshot { key: &key };
            self.emulator(machine).start(&self.space, &self.plan, &start)
        })?;
        self.act_on_all(|machine| self.set_clock(&machine.name))
    }

    /// Sets a guest's clock to ours: it stood still while the guest was saved.
    fn set_clock(&self, host: &str) -> Result<()> {
        for attempt in 1.. {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
            match self.ssh_within(host, &format!("date -s @{now}"), CLOCK_MAX_S) {
                Err(error) if attempt == CLOCK_TRIES => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(200)),
                Ok(_) => break,
            }
        }
        Ok(())
    }

    /// Does something with all machines at once.
    fn act_on_all(&self, act: impl Fn(&Machine) -> Result<()> + Sync) -> Result<()> {
        let act = &act;
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for machine in &self.plan.machines {
                threads.push((machine, scope.spawn(move || act(machine))));
            }
            for (machine, thread) in threads {
                let outcome = thread.join().expect("no machine's thread panics");
                outcome.with_context(|| machine.name.clone())?;
            }
            Ok(())
        })
    }

    /// Does something, and takes everything down again if it fails.
    fn or_down(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let outcome = act();
        if outcome.is_err() {
            Self::shut_down(&self.folder)?;
        }
        outcome
    }

    /// Runs a shell line on a guest and returns its output.
    ///
    /// # Errors
    /// If it fails, or takes longer than two minutes.
    pub fn ssh(&self, host: &str, line: &str) -> Result<String> {
        self.ssh_within(host, line, 120)
    }

    /// Runs a line like [`Lab::ssh`], for at most this many seconds.
    pub fn ssh_within(&self, host: &str, line: &str, max_s: u32) -> Result<String> {
        let output =
            proc::capture_output(&mut ssh::build_command(&self.folder, host, line, max_s))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("{host}: `{line}` exited with {}:\n{text}{complaint}", output.status);
        }
        Ok(text.into_owned())
    }

    /// Closes the shared connection for commands on a guest; the next command opens another.
    pub fn close_connection(&self, host: &str) {
        // Without a connection there is nothing to close.
        let _ = proc::capture_output(&mut ssh::build_close_command(&self.folder, host));
    }

    fn close_connections(&self) {
        for host in self.names() {
            self.close_connection(host);
        }
    }

    /// Returns a command on this machine that runs inside the network, as 10.77.0.254.
    pub fn inside(&self, program: &str) -> Command {
        self.space.inside(program)
    }

    /// Sets the largest packet of the network, in bytes; the guests' network cards are set by ssh.
    pub fn set_mtu(&self, mtu: u16) -> Result<()> {
        self.space.set_mtu(&self.plan.machines, mtu)
    }

    /// Takes a guest off the network without it noticing: nothing is answered and nothing refused.
    ///
    /// # Errors
    /// If there is no such guest, or the laboratory is down.
    pub fn unplug(&self, host: &str) -> Result<()> {
        self.space.unplug(self.machine(host)?)
    }

    /// Puts a guest back on the network.
    pub fn plug_in(&self, host: &str) -> Result<()> {
        self.space.plug_in(self.machine(host)?)
    }

    /// Kills our agents on a guest, identified by the path that the program was copied to.
    pub fn kill_agents(&self, host: &str) -> Result<()> {
        self.ssh(host, KILL_AGENTS).map(drop)
    }

    /// Allows a guest's kernel to reset it: it starts again from its disks, without the content of
    /// its memory. Without this, a guest that resets itself ends.
    ///
    /// # Errors
    /// If there is no such guest, or the laboratory is down.
    pub fn allow_reset(&self, host: &str) -> Result<()> {
        self.emulator(self.machine(host)?).allow_reset()
    }

    fn machine(&self, host: &str) -> Result<&Machine> {
        let found = self.plan.machines.iter().find(|machine| machine.name == host);
        found.with_context(|| format!("there is no machine {host}"))
    }

    /// Returns the names of the machines, the server first.
    pub fn names(&self) -> Vec<&str> {
        self.plan.machines.iter().map(|machine| machine.name.as_str()).collect()
    }

    /// Returns the path of the ssh_config for the machines.
    pub fn ssh_config(&self) -> PathBuf {
        self.folder.join(ssh::CONFIG)
    }

    /// Returns a script that ends the machines, like [`Lab::shut_down`].
    fn end_script(&self) -> String {
        let folder = self.folder.display();
        format!(
            "for file in '{folder}'/*.pid; do id=$(cat \"$file\"); \
             grep -qF \"$file\" /proc/$id/cmdline && kill -9 $id; done; \
             ip netns delete {} 2>/dev/null; true",
            self.space.name()
        )
    }

    /// Returns the command that resumes each machine, and its image's disk.
    pub fn describe_machines(&self) -> Vec<(String, PathBuf)> {
        let mut described = Vec::new();
        for machine in &self.plan.machines {
            let emulator = self.emulator(machine);
            // The key makes no difference to a saved machine.
            let start = Start::Snapshot { key: "saved" };
            let command = emulator.start_command(&self.space, &self.plan, &start);
            described.push((proc::command_line(&command), emulator.image_disk()));
        }
        described
    }

    fn emulator<'a>(&'a self, machine: &'a Machine) -> Emulator<'a> {
        Emulator::new(&self.folder, machine)
    }
}

/// A laboratory that ends when the value is dropped.
pub struct TemporaryLab {
    lab: Lab,
    _ticket: Ticket,
}

impl TemporaryLab {
    /// Wraps a laboratory, which ends with the value, or with this process.
    pub fn new(lab: Lab) -> Self {
        let ticket = guard::register_script(&lab.end_script());
        Self { lab, _ticket: ticket }
    }
}

impl Deref for TemporaryLab {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

impl Drop for TemporaryLab {
    fn drop(&mut self) {
        if let Err(error) = Lab::shut_down(&self.lab.folder) {
            eprintln!("vm: {error:#}");
        }
    }
}

/// Creates a directory and returns its path without links: the namespace is named after it.
fn make_folder(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.canonicalize()?)
}

fn refuse_running(folder: &Path) -> Result<()> {
    if !Plan::is_in(folder) {
        return Ok(());
    }
    let lab = Lab::open(folder)?;
    for machine in &lab.plan.machines {
        ensure!(
            lab.emulator(machine).process().is_none(),
            "the lab in {} is already running; `cargo xtask vm down` stops it",
            folder.display()
        );
    }
    Ok(())
}
