//! Who used the CPUs of this host while a pass was measured, and what else held it up.
//!
//! A [`ProcessorWatch`] begins before the workers start and ends after they have ended; nothing is
//! read in between. Its counters are those of the CPUs that this process may use.

use std::cell::Cell;

use engine::Cpus;
use lab::telemetry::counters;
use lab::telemetry::processors::{self, HostTimes, ProcessTable, ProcessUse};
use model::{ProcessorWait, RunSpec, Target};

use crate::LocalServer;
use crate::own_address::{NFS_PORT, is_own_host};
use crate::sources::difference;

/// Maximum number of other processes to name.
const NAMED_MAX: usize = 3;

/// CPU time used on the CPUs available to this process, or on those that the run is confined to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessorUse {
    /// Totals of these CPUs.
    pub host: HostTimes,
    /// CPU time of this process without its server, including programs that it ran for the pass.
    pub client_ns: u64,
    /// The target's server, if it runs on this host.
    pub server: Option<ServerUse>,
    /// Time of the programs of a system that a recipe set up on this host: they serve or mount the
    /// target.
    pub(crate) systems_ns: u64,
    /// Time of other processes by name, the largest first.
    pub others: Vec<(String, u64)>,
    /// CPU time of other programs; `None` if the server is among them and can't be distinguished.
    pub programs: Option<ProgramsUse>,
    /// How long tasks of this host waited for memory, in nanoseconds.
    pub memory_stalled_ns: Option<u64>,
    /// How long CPUs were throttled because of heat, averaged over the CPUs, in nanoseconds.
    pub throttled_ns: Option<u64>,
    /// How long an external program and everything that it started waited for a CPU.
    pub(crate) program_wait: Option<ProcessorWait>,
}

/// CPU time of programs unrelated to the run: neither kernel threads, which may work for it, nor
/// agents and servers of this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramsUse {
    /// CPU time, in nanoseconds.
    pub used_ns: u64,
    /// Bytes that storage read and wrote for them, as far as this process may read those counters.
    pub io_bytes: u64,
}

/// CPU time of a server on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUse {
    /// Name for messages, such as `the server in this process`.
    pub name: String,
    /// CPU time, in nanoseconds.
    pub used_ns: u64,
    /// Time that its threads were runnable but not running, in nanoseconds.
    pub waited_ns: u64,
}

impl ProcessorUse {
    /// Returns the CPU time of all other processes and of the kernel.
    pub(crate) fn others_ns(&self) -> u64 {
        let server_ns = self.server.as_ref().map_or(0, |server| server.used_ns);
        let ours_ns = [self.client_ns, server_ns, self.systems_ns];
        // The counters are not read at exactly the same time, so the difference may be negative.
        ours_ns.into_iter().fold(self.host.busy_ns, u64::saturating_sub)
    }
}

/// Where the server of a target runs, as seen from this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerPlace {
    /// There is no server, or it is on another host.
    Elsewhere,
    /// In threads of this process.
    InProcess(Vec<u32>),
    /// In other processes on this host.
    Processes { name: String, pids: Vec<u32> },
    /// On this host, in a process that we cannot identify.
    Hidden,
}

impl ServerPlace {
    pub(crate) fn find(spec: &RunSpec, local_server: Option<&LocalServer>) -> Self {
        let (host, port) = match &spec.target {
            Target::Nfs(nfs) => (&nfs.host, nfs.port),
            Target::Tcp(tcp) => (&tcp.host, tcp.port),
            _ => return Self::Elsewhere,
        };
        let in_process =
            || Self::InProcess(local_server.map(|own| own.thread_ids.clone()).unwrap_or_default());
        if spec.target.is_embedded() {
            return in_process();
        }
        if !is_own_host(host) {
            return Self::Elsewhere;
        }
        let mut pids = processors::listeners(port.unwrap_or(NFS_PORT));
        if pids.contains(&std::process::id()) {
            return in_process();
        }
        let table = ProcessTable::read();
        if pids.is_empty() {
            // Kernel sockets have no process, and those of other users are hidden.
            pids = table.nfs_servers();
        }
        match pids.first().and_then(|pid| table.name_of(*pid)) {
            Some(name) => Self::Processes { name: name.to_owned(), pids },
            None => Self::Hidden,
        }
    }

    /// Returns the CPU time of the server's threads, and the time they spent waiting for a CPU.
    fn times(&self) -> (u64, u64) {
        match self {
            Self::Elsewhere | Self::Hidden => (0, 0),
            Self::InProcess(threads) => {
                let own = std::process::id();
                let mut used_ns = 0_u64;
                let mut waited_ns = 0_u64;
                for thread in threads {
                    used_ns += counters::thread_cpu_ns(*thread).unwrap_or(0);
                    waited_ns += processors::task_waited_ns(own, *thread).unwrap_or(0);
                }
                (used_ns, waited_ns)
            }
            Self::Processes { pids, .. } => {
                (processors::used_ns(pids), processors::waited_ns(pids))
            }
        }
    }

    /// Returns true if a process belongs to the server.
    fn has(&self, pid: u32) -> bool {
        matches!(self, Self::Processes { pids, .. } if pids.contains(&pid))
    }
}

/// Counters at one point in time.
#[derive(Clone, Copy)]
struct Reading {
    host: HostTimes,
    process_ns: u64,
    server_used_ns: u64,
    server_waited_ns: u64,
    memory_stalled_ns: Option<u64>,
    throttled_ns: Option<u64>,
}

impl Reading {
    fn take(server: &ServerPlace, cpus: Option<Cpus>) -> Option<Self> {
        let (server_used_ns, server_waited_ns) = server.times();
        // External programs are children of this process.
        let process_ns = counters::process_cpu_ns() + processors::children_ns();
        Some(Self {
            host: match cpus {
                Some(cpus) => HostTimes::read_of(&|number| cpus.contains(number))?,
                None => HostTimes::read()?,
            },
            process_ns,
            server_used_ns,
            server_waited_ns,
            memory_stalled_ns: processors::memory_stalled_ns(),
            throttled_ns: processors::throttled_ns(),
        })
    }
}

/// Collects CPU usage; see the module documentation.
pub(crate) struct ProcessorWatch<'a> {
    server: &'a ServerPlace,
    /// The CPUs that the run is confined to.
    cpus: Option<Cpus>,
    table: ProcessTable,
    begun: Cell<Option<Reading>>,
}

impl<'a> ProcessorWatch<'a> {
    /// Takes a first reading once everything is open.
    pub(crate) fn begin(server: &'a ServerPlace, cpus: Option<Cpus>) -> Self {
        // A server in another process runs on any CPU, so CPU time that others take from it counts,
        // too.
        let is_other = matches!(server, ServerPlace::Processes { .. } | ServerPlace::Hidden);
        let cpus = cpus.filter(|_| !is_other);
        let table = ProcessTable::read();
        Self { server, cpus, table, begun: Cell::new(Reading::take(server, cpus)) }
    }

    /// Restarts counting right before the start, because the time spent waiting for other hosts
    /// doesn't belong to the pass.
    pub(crate) fn start(&self) {
        self.begun.set(Reading::take(self.server, self.cpus));
    }

    /// Ends the watch and looks up the CPU time of other processes.
    pub(crate) fn finish(self) -> Option<ProcessorUse> {
        let begun = self.begun.get()?;
        let now = Reading::take(self.server, self.cpus)?;
        let mut used = ProcessorUse {
            host: now.host.since(begun.host),
            client_ns: now.process_ns.saturating_sub(begun.process_ns),
            memory_stalled_ns: difference(begun.memory_stalled_ns, now.memory_stalled_ns),
            throttled_ns: difference(begun.throttled_ns, now.throttled_ns),
            ..ProcessorUse::default()
        };
        let server_used_ns = now.server_used_ns.saturating_sub(begun.server_used_ns);
        let server_waited_ns = now.server_waited_ns.saturating_sub(begun.server_waited_ns);
        let name = match self.server {
            ServerPlace::InProcess(threads) if !threads.is_empty() => {
                used.client_ns = used.client_ns.saturating_sub(server_used_ns);
                Some("the server in this process".to_owned())
            }
            ServerPlace::Processes { name, .. } => Some(format!("the server {name}")),
            _ => None,
        };
        used.server = name.map(|name| ServerUse {
            name,
            used_ns: server_used_ns,
            waited_ns: server_waited_ns,
        });
        let table = ProcessTable::read();
        used.add_processes(self.server, table.used_since(&self.table), std::process::id());
        Some(used)
    }
}

impl ProcessorUse {
    /// Adds the usage of each process except `own`, which is already counted.
    fn add_processes(&mut self, server: &ServerPlace, uses: Vec<ProcessUse>, own: u32) {
        let mut programs = ProgramsUse::default();
        let own_name = uses.iter().find(|used| used.pid == own).map(|used| used.name.clone());
        for ProcessUse { pid, name, own_ns, reaped_ns, io_bytes, is_kernel } in uses {
            if pid == own || server.has(pid) {
                continue;
            }
            let used_ns = own_ns.saturating_add(reaped_ns);
            if processors::is_of_system(pid) {
                self.systems_ns = self.systems_ns.saturating_add(used_ns);
                continue;
            }
            if *server == ServerPlace::Hidden && self.server.is_none() && !is_kernel {
                // The first entry has the largest usage and is our best guess, so say so in the
                // name.
                let name = format!("{name} (probably the server)");
                self.server = Some(ServerUse { name, used_ns, waited_ns: 0 });
                continue;
            }
            // Other processes with this name are our own agents or servers.
            if !is_kernel && own_name.as_ref() != Some(&name) {
                programs.used_ns = programs.used_ns.saturating_add(used_ns);
                programs.io_bytes = programs.io_bytes.saturating_add(io_bytes);
            }
            if used_ns == 0 {
                continue;
            }
            // Names of kernel threads contain their work: `kworker/0:1-events`.
            let name = name.split('/').next().unwrap_or_default();
            match self.others.iter_mut().find(|(known, _)| known == name) {
                Some((_, known_ns)) => *known_ns = known_ns.saturating_add(used_ns),
                None => self.others.push((name.to_owned(), used_ns)),
            }
        }
        self.programs = Some(programs).filter(|_| *server != ServerPlace::Hidden);
        // The tables are read some time before and after the counters, which may be long on a busy
        // host.
        let named_ns: u64 = self.others.iter().map(|(_, used_ns)| *used_ns).sum();
        let others_ns = self.others_ns();
        if named_ns > others_ns {
            for (_, used_ns) in &mut self.others {
                *used_ns = (*used_ns as f64 / named_ns as f64 * others_ns as f64) as u64;
            }
        }
        self.others.sort_by_key(|(_, used_ns)| std::cmp::Reverse(*used_ns));
        self.others.truncate(NAMED_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use model::{NfsTarget, Workload};

    use super::*;

    const OWN: u32 = 100;

    fn used(pid: u32, name: &str, own_ns: u64) -> ProcessUse {
        ProcessUse { pid, name: name.into(), own_ns, reaped_ns: 0, io_bytes: 10, is_kernel: false }
    }

    fn named(server: &ServerPlace, uses: Vec<ProcessUse>) -> ProcessorUse {
        let host = HostTimes { busy_ns: 1_000, ..HostTimes::default() };
        let mut all = ProcessorUse { host, ..ProcessorUse::default() };
        all.add_processes(server, uses, OWN);
        all
    }

    #[test]
    fn names_largest_three_by_name() {
        let kernel = |number: u32, ns| ProcessUse {
            is_kernel: true,
            ..used(number, &format!("kworker/{number}:1-events"), ns)
        };
        let uses = vec![
            used(OWN, "dfsbench", 900),
            used(2, "cc1", 50),
            kernel(3, 40),
            kernel(4, 30),
            used(5, "cc1", 30),
            used(6, "sh", 20),
            used(7, "top", 1),
        ];
        let others = named(&ServerPlace::Elsewhere, uses).others;
        let expected = [("cc1", 80), ("kworker", 70), ("sh", 20)];
        assert_eq!(others, expected.map(|(name, ns)| (name.to_owned(), ns)));
    }

    #[test]
    fn excludes_run_from_programs() {
        let kernel = ProcessUse { is_kernel: true, ..used(4, "kworker/0:1", 300) };
        let uses = || {
            let ours = [used(OWN, "dfsbench", 900), used(2, "dfsbench", 400), kernel.clone()];
            [&ours[..], &[used(3, "cc1", 50), used(5, "sh", 0), used(7, "nfsd", 80)]].concat()
        };
        let name = "nfsd".to_owned();
        let server = ServerPlace::Processes { name, pids: vec![7] };
        let programs = Some(ProgramsUse { used_ns: 50, io_bytes: 20 });
        assert_eq!(named(&server, uses()).programs, programs);
        assert!(named(&server, uses()).others.iter().all(|(name, _)| name != "sh"));
        // A server that was only guessed may be another program.
        assert_eq!(named(&ServerPlace::Hidden, uses()).programs, None);
    }

    #[test]
    fn caps_named_shares_at_total() {
        let uses = vec![used(2, "cc1", 1_500), used(3, "sh", 500)];
        let others = named(&ServerPlace::Elsewhere, uses).others;
        assert_eq!(others, [("cc1", 750), ("sh", 250)].map(|(name, ns)| (name.to_owned(), ns)));
    }

    #[test]
    fn server_is_not_among_the_others() {
        let uses = || vec![used(7, "ganesha.nfsd", 80), used(8, "sh", 20), used(9, "top", 1)];
        let name = "ganesha.nfsd".to_owned();
        let found = ServerPlace::Processes { name, pids: vec![7] };
        assert_eq!(named(&found, uses()).others[0].0, "sh");
        // If the server cannot be identified, the largest process is assumed and named.
        let guessed = named(&ServerPlace::Hidden, uses());
        let server = guessed.server.unwrap();
        assert!(server.name.starts_with("ganesha.nfsd (probably") && server.used_ns == 80);
        assert_eq!(guessed.others.len(), 2);
    }

    #[test]
    fn finds_own_server_by_port() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = Some(listener.local_addr().unwrap().port());
        let at = |host: &str| {
            let target = Target::Nfs(NfsTarget { port, ..NfsTarget::new(host, "/") });
            RunSpec { target, ..RunSpec::null(Workload::Stream) }
        };
        assert_eq!(ServerPlace::find(&at("127.0.0.1"), None), ServerPlace::InProcess(Vec::new()));
        assert_eq!(ServerPlace::find(&at("192.0.2.1"), None), ServerPlace::Elsewhere);
        let null = RunSpec::null(Workload::Stream);
        assert_eq!(ServerPlace::find(&null, None), ServerPlace::Elsewhere);
    }

    #[test]
    fn watch_follows_cpus_of_the_run() {
        let processors = |server: &ServerPlace| {
            let watch = ProcessorWatch::begin(server, Some(Cpus::last(1).unwrap()));
            watch.finish().unwrap().host.processors
        };
        assert_eq!(processors(&ServerPlace::InProcess(Vec::new())), 1);
        // A server in another process may run on any CPU.
        let all = HostTimes::read().unwrap().processors;
        let server = ServerPlace::Processes { name: "nfsd".to_owned(), pids: Vec::new() };
        assert_eq!(processors(&server), all);
    }

    #[test]
    fn watch_counts_work_of_this_process() {
        let watch = ProcessorWatch::begin(&ServerPlace::Elsewhere, None);
        watch.start();
        let begun_ns = counters::process_cpu_ns();
        while counters::process_cpu_ns() < begun_ns + 300_000_000 {
            std::hint::spin_loop();
        }
        let used = watch.finish().unwrap();
        assert!(used.client_ns >= 300_000_000, "{used:?}");
        // The kernel counts in ticks.
        assert!(used.host.busy_ns >= 200_000_000, "{used:?}");
        assert_eq!(used.server, None);
    }
}
