//! The life of a laboratory: up, saved, restored, down.
//!
//! Principal type: [`Lab`], what runs in one folder. It goes on running when the value is gone, as
//! `cargo xtask vm up` wants; tests hold it in an [`Ended`], which ends it in any case.

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

/// How long all machines may take to boot: emulated, on a machine that does other things too.
const BOOT_MAX: Duration = Duration::from_secs(300);
/// How long setting a resumed guest's clock may take, in seconds, and how often it is tried.
const CLOCK_MAX_S: u32 = 20;
const CLOCK_TRIES: u32 = 5;
/// Kills what runs by a path with our program's name; the guest's shell is none of that.
const KILL_AGENTS: &str = "for process in /proc/[0-9]*; do \
    case $(readlink $process/exe) in */dfsbench*) kill -9 ${process#/proc/};; esac; done; true";

/// Machines that a new laboratory shall have.
pub struct Wanted {
    /// Suite of the server.
    pub server: Suite,
    /// Suite of each client.
    pub clients: Vec<Suite>,
    /// Largest packet of the network, in bytes.
    pub mtu: u16,
    /// Size of a disk that all machines share, in MiB.
    pub shared_mib: Option<u32>,
}

/// A laboratory that runs, or is saved, in a folder.
pub struct Lab {
    folder: PathBuf,
    space: Space,
    plan: Plan,
}

impl Lab {
    /// Boots a laboratory in a folder, with fresh disks; returns when all machines are ready.
    ///
    /// # Errors
    /// Where one runs there already, an image can't be made, or a machine doesn't come up.
    pub fn up(folder: &Path, wanted: &Wanted) -> Result<Self> {
        let folder = make_folder(folder)?;
        refuse_running(&folder)?;
        let image = image::find_or_make(wanted.server)?;
        let mut machines = vec![Machine::server(wanted.server, image.folder)];
        for (index, suite) in (1..).zip(&wanted.clients) {
            machines.push(Machine::client(index, *suite, image::find_or_make(*suite)?.folder));
        }
        let has_shared_disk = wanted.shared_mib.is_some();
        let plan = Plan { machines, mtu: wanted.mtu, has_shared_disk };
        let lab = Self { space: Space::of(&folder), folder, plan };
        lab.plan.save(&lab.folder)?;
        if let Some(size_mib) = wanted.shared_mib {
            qemu::make_shared_disk(&lab.folder, size_mib)?;
        }
        lab.or_down(|| lab.boot_machines())?;
        Ok(lab)
    }

    /// Resumes what was saved in a folder.
    ///
    /// # Errors
    /// Where nothing was saved there, or it runs already.
    pub fn restore(folder: &Path) -> Result<Self> {
        refuse_running(folder)?;
        let lab = Self::open(folder)?;
        lab.or_down(|| lab.resume_machines())?;
        Ok(lab)
    }

    /// Copies the first `count` of these machines, which were saved, into a folder of their own,
    /// from where [`Lab::restore`] resumes them.
    ///
    /// # Errors
    /// Where they were never saved, or some run in that folder.
    pub fn copy_to(&self, folder: &Path, count: usize) -> Result<Self> {
        let folder = make_folder(folder)?;
        refuse_running(&folder)?;
        let mut plan = self.plan.clone();
        plan.machines.truncate(count);
        for machine in &plan.machines {
            self.emulator(machine).copy_disks(&folder)?;
        }
        ssh::copy_key(&self.folder, &folder)?;
        let copy = Self { space: Space::of(&folder), folder, plan };
        ssh::write_config(&copy.folder, &copy.space, &copy.plan.machines)?;
        copy.plan.save(&copy.folder)?;
        Ok(copy)
    }

    /// Takes the laboratory of a folder.
    ///
    /// # Errors
    /// Where there is none.
    pub fn open(folder: &Path) -> Result<Self> {
        let folder = folder
            .canonicalize()
            .with_context(|| format!("no laboratory in {}", folder.display()))?;
        let plan = Plan::load(&folder)?;
        Ok(Self { space: Space::of(&folder), folder, plan })
    }

    /// Ends what runs in a folder and removes its network; the disks stay.
    ///
    /// # Errors
    /// Where a machine won't end.
    pub fn down(folder: &Path) -> Result<()> {
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
    ///
    /// # Errors
    /// Where one doesn't run or can't be saved.
    pub fn save(&self) -> Result<()> {
        self.close_connections();
        self.act_on_all(|machine| self.emulator(machine).save())?;
        self.space.remove()
    }

    /// Ends the machines as they are, and resumes them as they were saved last.
    ///
    /// # Errors
    /// Where they were never saved, or don't come up.
    pub fn rewind(&self) -> Result<()> {
        Self::down(&self.folder)?;
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

    /// Sets a guest's clock to ours: it stood still while it was saved.
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

    /// Does something, and takes all down again where it fails.
    fn or_down(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let outcome = act();
        if outcome.is_err() {
            Self::down(&self.folder)?;
        }
        outcome
    }

    /// Runs a line of shell on a guest and returns what it printed.
    ///
    /// # Errors
    /// Where it fails, or takes longer than two minutes.
    pub fn ssh(&self, host: &str, line: &str) -> Result<String> {
        self.ssh_within(host, line, 120)
    }

    /// Runs a line as [`Lab::ssh`] does, for at most this many seconds.
    ///
    /// # Errors
    /// As [`Lab::ssh`].
    pub fn ssh_within(&self, host: &str, line: &str, max_s: u32) -> Result<String> {
        let output =
            proc::capture_output(&mut ssh::build_command(&self.folder, host, line, max_s))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            bail!("{host}: `{line}` ended with {}:\n{text}{complaint}", output.status);
        }
        Ok(text.into_owned())
    }

    /// Closes the connection that commands for a guest share; the next one opens another.
    pub fn close_connection(&self, host: &str) {
        // Without a connection there is nothing to close.
        let _ = proc::capture_output(&mut ssh::build_close_command(&self.folder, host));
    }

    fn close_connections(&self) {
        for host in self.names() {
            self.close_connection(host);
        }
    }

    /// Returns a command of this machine that runs inside the network, as 10.77.0.254.
    pub fn inside(&self, program: &str) -> Command {
        self.space.inside(program)
    }

    /// Sets the largest packet of the network, in bytes; the guests' cards are set by ssh.
    ///
    /// # Errors
    /// Where the laboratory is down.
    pub fn set_mtu(&self, mtu: u16) -> Result<()> {
        self.space.set_mtu(&self.plan.machines, mtu)
    }

    /// Takes a guest off the network, without its notice: nothing is answered and nothing refused.
    ///
    /// # Errors
    /// Where there is no such guest, or the laboratory is down.
    pub fn unplug(&self, host: &str) -> Result<()> {
        self.space.unplug(self.machine(host)?)
    }

    /// Puts a guest back on the network.
    ///
    /// # Errors
    /// As [`Lab::unplug`].
    pub fn plug_in(&self, host: &str) -> Result<()> {
        self.space.plug_in(self.machine(host)?)
    }

    /// Kills our agents on a guest; they run by the path that the program was copied to.
    ///
    /// # Errors
    /// Where the guest can't be reached.
    pub fn kill_agents(&self, host: &str) -> Result<()> {
        self.ssh(host, KILL_AGENTS).map(drop)
    }

    /// Lets a guest be reset by its kernel: it starts again from its disks, without what was in its
    /// memory. Until then a guest that resets itself is ended.
    ///
    /// # Errors
    /// Where there is no such guest, or the laboratory is down.
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

    /// Returns the path of the ssh_config that leads to the machines.
    pub fn ssh_config(&self) -> PathBuf {
        self.folder.join(ssh::CONFIG)
    }

    /// Returns a script that ends the machines, as [`Lab::down`] does.
    fn end_script(&self) -> String {
        let folder = self.folder.display();
        format!(
            "for file in '{folder}'/*.pid; do id=$(cat \"$file\"); \
             grep -qF \"$file\" /proc/$id/cmdline && kill -9 $id; done; \
             ip netns delete {} 2>/dev/null; true",
            self.space.name()
        )
    }

    /// Returns the command that resumes each machine, and the disk of its image.
    pub fn describe_machines(&self) -> Vec<(String, PathBuf)> {
        let mut described = Vec::new();
        for machine in &self.plan.machines {
            let emulator = self.emulator(machine);
            // The key makes no difference to what was saved.
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

/// A laboratory that ends with the value.
pub struct Ended {
    lab: Lab,
    _ticket: Ticket,
}

impl Ended {
    /// Takes a laboratory that is ended with the value, or with this process.
    pub fn new(lab: Lab) -> Self {
        let ticket = guard::register_script(&lab.end_script());
        Self { lab, _ticket: ticket }
    }
}

impl Deref for Ended {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Err(error) = Lab::down(&self.lab.folder) {
            eprintln!("vm: {error:#}");
        }
    }
}

/// Makes a folder and returns its path without links: the namespace is named after it.
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
            "the laboratory in {} runs already; `cargo xtask vm down` ends it",
            folder.display()
        );
    }
    Ok(())
}
