//! CPU time used on this host by the processes of a recipe's system.
//!
//! [`Processes`] are looked up once, when telemetry starts. Their marks show whether they belong to
//! the server or the client side. A process that exits keeps the time it had used so far. This
//! costs nothing on hosts without a recipe.
//!
//! **Source:** proc_pid_stat(5); threads of the kernel's server are named `nfsd`.

use std::path::Path;

use model::system::{CLIENT_DIR_END, SYSTEMS_DIR};
use procfs::process::Process;

use super::Readings;
use crate::host::processes;

/// CPU time of a system's servers, in nanoseconds.
const SERVER: &str = "system.server_cpu_ns";

/// CPU time of the programs that mount a system, in nanoseconds.
const CLIENT: &str = "system.client_cpu_ns";

/// The processes of systems on this host.
#[derive(Default)]
pub(super) struct Processes(Vec<SystemProcess>);

/// A process and the CPU time it had used at the last reading.
struct SystemProcess {
    metric: &'static str,
    process: Process,
    ticks: u64,
}

impl Processes {
    /// Finds the processes; empty if no system was set up.
    pub(super) fn find() -> Self {
        if Path::new(SYSTEMS_DIR).is_dir() { Self(find_in(SYSTEMS_DIR)) } else { Self::default() }
    }

    /// Reads the time of each process and adds the totals to the readings.
    pub(super) fn read(&mut self, readings: &mut Readings) {
        let ticks_per_s = procfs::ticks_per_second();
        for metric in [SERVER, CLIENT] {
            let mut is_there = false;
            let mut ticks = 0;
            for known in self.0.iter_mut().filter(|known| known.metric == metric) {
                if let Ok(stat) = known.process.stat() {
                    // The time of children that have exited is added to the process that reaped
                    // them.
                    let reaped = (stat.cutime + stat.cstime).max(0) as u64;
                    known.ticks = known.ticks.max(stat.utime + stat.stime + reaped);
                }
                is_there = true;
                ticks += known.ticks;
            }
            if is_there {
                readings.counter(metric, ticks * (1_000_000_000 / ticks_per_s));
            }
        }
    }
}

/// Finds the processes whose mark is a folder below `folder`, and the kernel's server.
fn find_in(folder: &str) -> Vec<SystemProcess> {
    let mut found = Vec::new();
    for pid in processes::numbers() {
        let Ok(process) = Process::new(pid.cast_signed()) else { continue };
        let metric = match processes::mark_of(pid) {
            Some(mark) if !Path::new(&mark).starts_with(folder) => continue,
            Some(mark) if mark.ends_with(CLIENT_DIR_END) => CLIENT,
            Some(_) => SERVER,
            None if is_kernel_server(&process) => SERVER,
            None => continue,
        };
        found.push(SystemProcess { metric, process, ticks: 0 });
    }
    found
}

/// Returns true for a thread of the kernel's NFS server, which has the right name and no program.
fn is_kernel_server(process: &Process) -> bool {
    process.stat().is_ok_and(|stat| stat.comm == "nfsd" && stat.vsize == 0)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Duration;

    use super::*;

    fn burning(mark: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).env(processes::MARK, mark);
        command.spawn().unwrap()
    }

    fn sums(processes: &mut Processes) -> Vec<(String, u64)> {
        let mut readings = Readings::default();
        processes.read(&mut readings);
        readings.0.into_iter().map(|reading| (reading.name, reading.value)).collect()
    }

    #[test]
    fn separates_servers_mounts_and_strangers() {
        let folder = format!("/run/dfsbench/systems/test-{}", std::process::id());
        let [server, client] = [format!("{folder}/a"), format!("{folder}/a{CLIENT_DIR_END}")];
        let mut children = [burning(&server), burning(&client), burning("/run/dfsbench/elsewhere")];
        let mut tries = 0;
        let mut found = Processes::default();
        let mut read = Vec::new();
        // A process gets its mark when it executes its program, and its first ticks even later.
        while tries < 3_000 && (read.len() < 2 || read.iter().any(|(_, value)| *value == 0)) {
            processes::pause(Duration::from_millis(20));
            tries += 1;
            found = Processes(find_in(&folder));
            read = sums(&mut found);
        }
        assert_eq!(found.0.len(), 2, "{read:?}");
        let before = sums(&mut found);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let after = sums(&mut found);
        for number in 0..2 {
            assert_eq!(after[number].0, [SERVER, CLIENT][number]);
            assert!(after[number].1 >= before[number].1 && before[number].1 > 0, "{after:?}");
        }
    }
}
