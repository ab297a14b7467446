//! One emulated machine: how it is started, recognized, and ended.
//!
//! Main type: [`Emulator`], the files of one machine in its laboratory's directory. A process is
//! ended only if its command line contains our pid file: the id may belong to another process by
//! now.
//!
//! **Source:** the flags are those of qemu-system-x86_64(1); those of the guest's kernel are in its
//! Documentation/admin-guide/kernel-parameters.txt.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::machine::{Machine, Plan, Role};
use super::net::Space;
use super::qmp::Monitor;
use crate::proc;

/// Name of the snapshot of a saved laboratory.
const SNAPSHOT: &str = "ready";
/// Text on the guest's console once it is usable.
const READY: &str = " ready at ";
const POLL: Duration = Duration::from_millis(50);
/// Timeout until a killed process is gone.
const DEATH_MAX: Duration = Duration::from_secs(10);
/// Names of a machine's disks; only servers have one for data.
const ROOT_DISK: &str = "root.qcow2";
const DATA_DISK: &str = "data.qcow2";
/// Size of the server's data disk; the file grows as it is written.
const DATA_DISK_SIZE: &str = "2G";
/// Largest packet that the network card supports, in bytes; the guest may use less.
const CARD_MTU: u16 = 9000;

/// Emulated hardware: hardware support is not needed, and not used if available.
#[rustfmt::skip]
const HARDWARE: [&str; 15] = [
    "-machine", "q35", "-accel", "tcg,thread=multi,tb-size=128", "-cpu", "qemu64,+rdrand",
    "-smp", "1", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
    "-rtc", "base=utc",
];

/// Fast and quiet. The clock is the emulator's own (HPET): that of the CPU is calibrated against
/// emulated timers, which on a busy machine makes it run several times too fast.
const KERNEL: &str = "console=ttyS0 quiet panic=-1 root=/dev/vda rw mitigations=off nokaslr \
    audit=0 apparmor=0 random.trust_cpu=on notsc clocksource=hpet cryptomgr.notests \
    noreplace-smp no_timer_check nowatchdog net.ifnames=0";

/// One machine in a laboratory's directory.
pub struct Emulator<'a> {
    folder: &'a Path,
    machine: &'a Machine,
}

impl<'a> Emulator<'a> {
    /// Creates the emulator for a laboratory's machine, running or not.
    pub const fn new(folder: &'a Path, machine: &'a Machine) -> Self {
        Self { folder, machine }
    }

    /// Recreates its disks, on top of its image.
    ///
    /// # Errors
    /// If `qemu-img` fails.
    pub fn make_disks(&self) -> Result<()> {
        let mut root = Command::new("qemu-img");
        root.args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]).arg(self.image_disk());
        proc::capture_stdout(root.arg(self.file_path(ROOT_DISK)))?;
        if self.machine.role == Role::Server {
            let mut data = Command::new("qemu-img");
            data.args(["create", "-q", "-f", "qcow2"]).arg(self.file_path(DATA_DISK));
            proc::capture_stdout(data.arg(DATA_DISK_SIZE))?;
        }
        Ok(())
    }

    /// Starts it in the namespace: from power on, with this public key, or from its snapshot.
    pub fn start(&self, space: &Space, plan: &Plan, start: &Start<'_>) -> Result<()> {
        proc::capture_stdout(&mut self.start_command(space, plan, start)).map(|_| ())
    }

    pub fn start_command(&self, space: &Space, plan: &Plan, start: &Start<'_>) -> Command {
        let mut command = space.inside("qemu-system-x86_64");
        command.args(HARDWARE).arg("-m").arg(self.machine.memory_mib.to_string());
        command.arg("-kernel").arg(self.machine.image.join("vmlinuz"));
        command.arg("-initrd").arg(self.machine.image.join("initrd"));
        let (Start::PowerOn { key } | Start::Snapshot { key }) = start;
        command.arg("-append").arg(self.kernel_line(plan.mtu, key));
        self.add_disks(&mut command, plan);
        self.add_card(&mut command);
        if matches!(start, Start::Snapshot { .. }) {
            command.args(["-loadvm", SNAPSHOT]);
        }
        command.arg("-serial").arg(format!("file:{}", self.file_path("log").display()));
        let socket = self.file_path("qmp");
        command.arg("-qmp").arg(format!("unix:{},server=on,wait=off", socket.display()));
        command.arg("-pidfile").arg(self.file_path("pid")).arg("-daemonize");
        command
    }

    /// Copies its disks, with their snapshots, to the machine in another directory.
    pub fn copy_disks(&self, folder: &Path) -> Result<()> {
        let copy = Emulator::new(folder, self.machine);
        for disk in self.disks() {
            let from = self.file_path(disk);
            let to = copy.file_path(disk);
            fs::copy(&from, to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
        Ok(())
    }

    fn kernel_line(&self, mtu: u16, key: &str) -> String {
        let Machine { name, role, .. } = self.machine;
        let role = role.name();
        let address = self.machine.address();
        format!(
            "{KERNEL} lab.name={name} lab.role={role} lab.address={address}/24 lab.mtu={mtu} \
             lab.key={key}"
        )
    }

    fn add_disks(&self, command: &mut Command, plan: &Plan) {
        let mut add = |file: PathBuf, id: &str, format: &str, more: &str| {
            let file = file.display();
            command.arg("-drive").arg(format!("file={file},if=none,id={id},{format}"));
            command.arg("-device").arg(format!("virtio-blk-pci,drive={id},serial={id}{more}"));
        };
        let own = "format=qcow2,cache=unsafe,discard=unmap";
        add(self.file_path(ROOT_DISK), "root", own, "");
        if self.machine.role == Role::Server {
            add(self.file_path(DATA_DISK), "data", own, "");
        }
        if plan.has_shared_disk {
            let raw = "format=raw,cache=writeback,file.locking=off";
            add(shared_disk(self.folder), "shared", raw, ",share-rw=on");
        }
    }

    fn add_card(&self, command: &mut Command) {
        let Machine { number, .. } = self.machine;
        let tap = self.machine.tap();
        command.arg("-netdev");
        command.arg(format!("tap,id=net,ifname={tap},script=no,downscript=no"));
        let card = format!("virtio-net-pci,netdev=net,host_mtu={CARD_MTU},romfile=");
        command.arg("-device").arg(format!("{card},mac=52:54:00:77:00:{number:02x}"));
        command.args(["-device", "virtio-rng-pci"]);
    }

    /// Waits until the guest prints on its console that it is ready.
    ///
    /// # Errors
    /// If it dies or is silent; the message has the end of its console.
    pub fn await_ready(&self, deadline: Instant) -> Result<()> {
        loop {
            let log = fs::read(self.file_path("log")).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            if log.contains(READY) {
                return Ok(());
            }
            let is_late = Instant::now() > deadline;
            if is_late || self.process().is_none() {
                let word = if is_late { "is not ready in time" } else { "died" };
                let tail: Vec<&str> = log.lines().rev().take(15).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                bail!("{} {word}; its console ends:\n{}", self.machine.name, tail.join("\n"));
            }
            thread::sleep(POLL);
        }
    }

    /// Freezes it with memory and disks into its disk files, and ends it.
    pub fn save(&self) -> Result<()> {
        let mut monitor = Monitor::connect(&self.file_path("qmp"))?;
        monitor.execute("stop", &json!({}))?;
        monitor.execute_silent(&format!("savevm {SNAPSHOT}"))?;
        self.end()
    }

    /// Ends it, if it is running, without asking the guest.
    pub fn end(&self) -> Result<()> {
        let Some(process) = self.process() else { return Ok(()) };
        proc::capture_output(Command::new("kill").args(["-KILL", &process.to_string()]))?;
        let deadline = Instant::now() + DEATH_MAX;
        while self.process().is_some() {
            ensure!(Instant::now() < deadline, "process {process} won't end");
            thread::sleep(POLL);
        }
        let _ = fs::remove_file(self.file_path("pid"));
        Ok(())
    }

    /// Makes the emulator restart the guest if its kernel resets it, instead of ending.
    pub fn allow_reset(&self) -> Result<()> {
        let mut monitor = Monitor::connect(&self.file_path("qmp"))?;
        monitor.execute("set-action", &json!({ "reboot": "reset" })).map(drop)
    }

    /// Returns its process id, if it is running and ours.
    pub fn process(&self) -> Option<u32> {
        let path = self.file_path("pid");
        let number = fs::read_to_string(&path).ok()?.trim().parse().ok()?;
        let line = fs::read(format!("/proc/{number}/cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word == path.as_os_str().as_encoded_bytes()).then_some(number)
    }

    /// Returns its image's disk, on which its own root disk is based.
    pub fn image_disk(&self) -> PathBuf {
        self.machine.image.join("root.img")
    }

    /// Returns the names of the disks that only belong to this machine.
    const fn disks(&self) -> &'static [&'static str] {
        match self.machine.role {
            Role::Server => &[ROOT_DISK, DATA_DISK],
            Role::Client => &[ROOT_DISK],
        }
    }

    fn file_path(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{}.{what}", self.machine.name))
    }
}

/// How a machine starts.
pub enum Start<'a> {
    /// From power on.
    PowerOn {
        /// The public key allowed to log in.
        key: &'a str,
    },
    /// From a snapshot.
    Snapshot {
        /// The public key allowed to log in after a reset.
        key: &'a str,
    },
}

/// Creates the disk shared by all machines of a laboratory, with this size in MiB.
pub fn make_shared_disk(folder: &Path, size_mib: u32) -> Result<()> {
    let path = shared_disk(folder);
    let file = fs::File::create(&path).with_context(|| format!("no {}", path.display()))?;
    Ok(file.set_len(u64::from(size_mib) << 20)?)
}

fn shared_disk(folder: &Path) -> PathBuf {
    folder.join("shared.raw")
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::super::machine::Suite;
    use super::*;
    use crate::proc::Background;

    #[test]
    fn recognizes_process_by_pid_file() {
        let folder = tempfile::TempDir::new().unwrap();
        let machine = Machine::server(Suite::Trixie, "/i".into());
        let emulator = Emulator::new(folder.path(), &machine);
        assert_eq!(emulator.process(), None);
        let path = emulator.file_path("pid");
        let stranger = Background::start(Command::new("sleep").arg("60")).unwrap();
        fs::write(&path, format!("{}\n", stranger.id())).unwrap();
        assert_eq!(emulator.process(), None);
        // The shell itself waits: a child of it would outlive it, and hold this test's output open.
        let mut ours = Command::new("sh");
        ours.args(["-c", "read line; :", "sh"]).arg(&path).stdin(Stdio::piped());
        let ours = Background::start(&mut ours).unwrap();
        fs::write(&path, format!("{}\n", ours.id())).unwrap();
        // A process that has just been started has no command line for a moment.
        let deadline = Instant::now() + DEATH_MAX;
        while emulator.process().is_none() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        assert_eq!(emulator.process(), Some(ours.id()));
    }

    #[test]
    fn passes_guest_name_on_command_line() {
        let machine = Machine::client(1, Suite::Trixie, "/i".into());
        let line = Emulator::new(Path::new("/run"), &machine).kernel_line(9000, "KEY");
        let words = "lab.name=client1 lab.role=client lab.address=10.77.0.11/24 lab.mtu=9000";
        assert!(line.contains(words) && line.contains("notsc clocksource=hpet"), "{line}");
    }
}
