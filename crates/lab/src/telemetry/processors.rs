//! Finds out who used this host's CPUs, and how long tasks waited for one.
//!
//! [`HostTimes`] are the counters of the CPUs available to this process, [`ProcessTable`] has the
//! CPU time and storage traffic of every process, and [`ProgramWatch`] follows a program and
//! everything it starts. Don't use any of them while measuring: reading the table takes about 30 us
//! per process.
//!
//! **Source:** proc_stat(5), proc_pid_stat(5), sched_getaffinity(2);
//! Documentation/scheduler/sched-stats.rst of Linux for `schedstat`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use model::system::SYSTEMS_DIR;
use procfs::process::{Process, Stat, StatFlags};
use procfs::{CpuTime, Current as _, CurrentSI as _, KernelStats};
use rustix::time::{ClockId, clock_gettime};

use crate::host::processes;
pub use crate::host::processes::listeners;
use crate::telemetry::host::times_by_state;

/// Time of the CPUs available to this process, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTimes {
    /// Time spent in processes, the kernel or interrupts, in nanoseconds.
    pub busy_ns: u64,
    /// Time in which the hypervisor ran something else, in nanoseconds.
    pub stolen_ns: u64,
    /// Idle time, in nanoseconds.
    pub idle_ns: u64,
    /// Number of these CPUs.
    pub processors: u64,
}

impl HostTimes {
    /// Reads the counters. Returns `None` if the kernel doesn't report them.
    pub fn read() -> Option<Self> {
        let allowed = rustix::thread::sched_getaffinity(None).ok();
        Self::read_of(&|number| allowed.is_none_or(|set| set.is_set(number)))
    }

    /// Reads the counters of some CPUs, chosen by their numbers. Returns `None` if the kernel
    /// doesn't report them.
    pub fn read_of(is_counted: &dyn Fn(usize) -> bool) -> Option<Self> {
        Some(Self::from_kernel(&KernelStats::current().ok()?, is_counted))
    }

    fn from_kernel(kernel: &KernelStats, is_allowed: &dyn Fn(usize) -> bool) -> Self {
        let mut times = Self::default();
        for (number, processor) in kernel.cpu_time.iter().enumerate() {
            if is_allowed(number) {
                times.add(processor);
            }
        }
        if times.processors == 0 {
            // Offline CPUs have no line, so the indexes may not match the affinity mask. Use the
            // total.
            times.add(&kernel.total);
            times.processors = kernel.cpu_time.len().max(1) as u64;
        }
        times
    }

    fn add(&mut self, time: &CpuTime) {
        self.processors += 1;
        for (state, ns) in times_by_state(time) {
            match state {
                "idle" | "iowait" => self.idle_ns += ns,
                "steal" => self.stolen_ns += ns,
                _ => self.busy_ns += ns,
            }
        }
    }

    /// Returns the difference from an earlier reading.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            busy_ns: self.busy_ns.saturating_sub(before.busy_ns),
            stolen_ns: self.stolen_ns.saturating_sub(before.stolen_ns),
            idle_ns: self.idle_ns.saturating_sub(before.idle_ns),
            processors: self.processors,
        }
    }

    /// Returns the total time of these CPUs.
    pub const fn all_ns(self) -> u64 {
        self.busy_ns.saturating_add(self.stolen_ns).saturating_add(self.idle_ns)
    }
}

/// CPU time used so far by every process visible to this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTable(BTreeMap<u32, ProcessTimes>);

/// CPU time of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProcessTimes {
    name: String,
    parent: u32,
    /// Start time in ticks since boot, to detect a reused process ID.
    started: u64,
    own_ns: u64,
    /// Time of children that have exited and been reaped, in nanoseconds.
    reaped_ns: u64,
    /// Bytes that storage read and wrote for it and for those children; 0 if that is hidden.
    io_bytes: u64,
    is_kernel: bool,
}

/// CPU time used by a process between two tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessUse {
    pub pid: u32,
    /// Its name, as truncated by the kernel.
    pub name: String,
    /// Time of its own threads, in nanoseconds.
    pub own_ns: u64,
    /// Time of children that exited in between, in nanoseconds.
    pub reaped_ns: u64,
    /// Bytes that storage read and wrote for all of these; 0 if that is hidden, as it is from users
    /// other than its own and root.
    pub io_bytes: u64,
    /// Whether it is a kernel thread.
    pub is_kernel: bool,
}

impl ProcessTable {
    /// Reads the CPU time of all processes.
    pub fn read() -> Self {
        let mut table = BTreeMap::new();
        for pid in processes::numbers() {
            // A process that cannot be read has exited.
            let Ok(process) = Process::new(pid.cast_signed()) else { continue };
            if let Ok(stat) = process.stat() {
                table.insert(
                    pid,
                    ProcessTimes { io_bytes: io_bytes(&process), ..ProcessTimes::from_stat(&stat) },
                );
            }
        }
        Self(table)
    }

    /// Returns the time used by each process since an earlier table, largest first.
    pub fn used_since(&self, before: &Self) -> Vec<ProcessUse> {
        // A child's whole time is added to its parent when it exits. Subtract what it had already
        // used at the time of the earlier table.
        let mut earlier: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (pid, ended) in &before.0 {
            if !self.is_same(*pid, ended)
                && let Some(ancestor) = self.living_ancestor(before, ended.parent)
            {
                let (time_ns, bytes) = earlier.entry(ancestor).or_default();
                *time_ns += ended.own_ns + ended.reaped_ns;
                *bytes += ended.io_bytes;
            }
        }
        let mut uses = Vec::new();
        for (pid, now) in &self.0 {
            let (own_ns, reaped_ns, io_bytes) = match before.0.get(pid) {
                Some(then) if then.started == now.started => {
                    (then.own_ns, then.reaped_ns, then.io_bytes)
                }
                _ => (0, 0, 0),
            };
            let (earlier_ns, earlier_bytes) = earlier.get(pid).copied().unwrap_or_default();
            let reaped_ns = reaped_ns + earlier_ns;
            let io_bytes = io_bytes + earlier_bytes;
            let used = ProcessUse {
                pid: *pid,
                name: now.name.clone(),
                own_ns: now.own_ns.saturating_sub(own_ns),
                reaped_ns: now.reaped_ns.saturating_sub(reaped_ns),
                io_bytes: now.io_bytes.saturating_sub(io_bytes),
                is_kernel: now.is_kernel,
            };
            if used.own_ns + used.reaped_ns + used.io_bytes > 0 {
                uses.push(used);
            }
        }
        uses.sort_by_key(|used| std::cmp::Reverse(used.own_ns + used.reaped_ns));
        uses
    }

    /// Returns true if a process of an earlier table still exists.
    fn is_same(&self, pid: u32, then: &ProcessTimes) -> bool {
        self.0.get(&pid).is_some_and(|now| now.started == then.started)
    }

    /// Returns the process that a child's time has been added to: the given process from the
    /// earlier table, or its nearest ancestor that still exists.
    fn living_ancestor(&self, before: &Self, mut pid: u32) -> Option<u32> {
        // Parents are older than their children, so this terminates. The limit guards against
        // invalid tables.
        for _ in 0..before.0.len() {
            let then = before.0.get(&pid)?;
            if self.is_same(pid, then) {
                return Some(pid);
            }
            pid = then.parent;
        }
        None
    }

    /// Returns the processes that serve NFS, by name: the kernel's threads and the usual user-space
    /// servers.
    pub fn nfs_servers(&self) -> Vec<u32> {
        let mut servers = Vec::new();
        for (pid, process) in &self.0 {
            let is_server = match process.name.as_str() {
                "nfsd" => process.is_kernel,
                "ganesha.nfsd" | "unfsd" => true,
                _ => false,
            };
            if is_server {
                servers.push(*pid);
            }
        }
        servers
    }

    /// Returns the name of a process.
    pub fn name_of(&self, pid: u32) -> Option<&str> {
        self.0.get(&pid).map(|process| process.name.as_str())
    }

    /// Returns a process and all its descendants.
    fn family(&self, root: u32) -> BTreeSet<u32> {
        let mut family = BTreeSet::from([root]);
        loop {
            let known = family.len();
            for (pid, process) in &self.0 {
                if family.contains(&process.parent) {
                    family.insert(*pid);
                }
            }
            if family.len() == known {
                return family;
            }
        }
    }
}

impl ProcessTimes {
    fn from_stat(stat: &Stat) -> Self {
        let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
        let flags = StatFlags::from_bits_truncate(stat.flags);
        Self {
            name: stat.comm.clone(),
            parent: stat.ppid.max(0).cast_unsigned(),
            started: stat.starttime,
            own_ns: stat.utime.saturating_add(stat.stime) * tick_ns,
            reaped_ns: (stat.cutime + stat.cstime).max(0).cast_unsigned() * tick_ns,
            io_bytes: 0,
            is_kernel: flags.contains(StatFlags::PF_KTHREAD),
        }
    }
}

/// Returns the bytes that storage read and wrote for a process; 0 if that is hidden.
///
/// **Source:** proc_pid_io(5).
fn io_bytes(process: &Process) -> u64 {
    process.io().map_or(0, |io| {
        let written = io.write_bytes.saturating_sub(io.cancelled_write_bytes);
        io.read_bytes.saturating_add(written)
    })
}

/// Returns how long tasks have waited for memory since boot, in nanoseconds; `None` if the kernel
/// does not count it.
pub fn memory_stalled_ns() -> Option<u64> {
    Some(procfs::MemoryPressure::current().ok()?.some.total.saturating_mul(1_000))
}

/// Maximum number of CPUs whose throttling is read, since each is a separate file.
const THROTTLED_MAX: usize = 32;

/// Returns how long CPUs were throttled because of heat since boot, in nanoseconds, averaged over
/// the CPUs; `None` if the kernel does not count it, as on virtual machines.
///
/// **Source:** Documentation/ABI/testing/sysfs-devices-system-cpu of Linux.
pub fn throttled_ns() -> Option<u64> {
    throttled_ns_in(Path::new("/sys/devices/system/cpu"))
}

fn throttled_ns_in(folder: &Path) -> Option<u64> {
    let mut total_ms = 0_u64;
    let mut processors = 0;
    for number in 0..THROTTLED_MAX {
        let file = format!("cpu{number}/thermal_throttle/core_throttle_total_time_ms");
        let Ok(text) = fs::read_to_string(folder.join(file)) else { continue };
        total_ms = total_ms.saturating_add(text.trim().parse().ok()?);
        processors += 1;
    }
    total_ms.saturating_mul(1_000_000).checked_div(processors)
}

/// Returns the CPU time of the given processes, including that of threads that have exited.
pub fn used_ns(pids: &[u32]) -> u64 {
    let mut used_ns = 0_u64;
    for pid in pids {
        if let Ok(stat) = Process::new(pid.cast_signed()).and_then(|process| process.stat()) {
            used_ns = used_ns.saturating_add(ProcessTimes::from_stat(&stat).own_ns);
        }
    }
    used_ns
}

/// Returns true if a process belongs to a system that a recipe set up on this host.
pub fn is_of_system(pid: u32) -> bool {
    Path::new(SYSTEMS_DIR).is_dir()
        && processes::mark_of(pid).is_some_and(|mark| Path::new(&mark).starts_with(SYSTEMS_DIR))
}

/// Returns the CPU time of this process's reaped children and their descendants.
pub fn children_ns() -> u64 {
    Process::myself()
        .and_then(|own| own.stat())
        .map_or(0, |stat| ProcessTimes::from_stat(&stat).reaped_ns)
}

/// Returns how long the threads of the given processes have been waiting for a CPU while runnable,
/// in nanoseconds.
pub fn waited_ns(pids: &[u32]) -> u64 {
    let mut waited_ns = 0_u64;
    for pid in pids {
        for thread in threads_of(*pid) {
            waited_ns = waited_ns.saturating_add(task_waited_ns(*pid, thread).unwrap_or(0));
        }
    }
    waited_ns
}

/// Returns how long a thread has been waiting for a CPU, or `None` if it no longer exists.
pub fn task_waited_ns(pid: u32, thread: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    parse_waited_ns(&text)
}

/// Parses the second number of a `schedstat`, which follows the running time.
fn parse_waited_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn threads_of(pid: u32) -> Vec<u32> {
    processes::numbers_in(format!("/proc/{pid}/task").as_ref())
}

/// A process that traces another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tracer {
    /// Process ID; 0 if it is in another PID namespace.
    pub pid: u32,
    /// Its name, as truncated by the kernel.
    pub name: String,
}

/// Returns the tracers of a process and of its threads.
///
/// **Source:** proc_pid_status(5), `TracerPid`.
pub fn tracers_of(pid: u32) -> BTreeSet<Tracer> {
    let mut tracers = BTreeSet::new();
    for thread in threads_of(pid) {
        let path = format!("/proc/{pid}/task/{thread}/status");
        if let Ok(status) = fs::read_to_string(path)
            && let Some(tracer) = parse_tracer(&status)
        {
            let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
            tracers.insert(Tracer { pid: tracer, name: name.trim().to_owned() });
        }
    }
    tracers
}

/// Parses the tracer's ID from a `status`. Returns `None` if there is no tracer.
fn parse_tracer(status: &str) -> Option<u32> {
    let value = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    value.trim().parse().ok().filter(|pid| *pid > 0)
}

/// Minimum time between two inspections of a program, in nanoseconds.
const LOOK_NS_MIN: u64 = 200_000_000;

/// Pause after an inspection, as a multiple of the CPU time it took. This limits the cost to 1 % of
/// a CPU.
const PAUSES: u64 = 100;

/// Follows a program and everything it starts: how long they waited for a CPU, and who traced them.
///
/// For a task that has exited, the values of the last inspection are used. So the end of each task
/// is missed, and tasks that live for less than 0.2 s may be missed altogether.
#[derive(Debug, Default)]
pub struct ProgramWatch {
    /// Waiting time of each task, by process and thread.
    waited_ns: BTreeMap<(u32, u32), u64>,
    tracers: BTreeSet<Tracer>,
    /// The program and its descendants, as of the last search.
    family: BTreeSet<u32>,
    next_search_ns: u64,
    next_look_ns: u64,
}

impl ProgramWatch {
    /// Inspects the program with this process ID and everything it started, if it is time to do so.
    pub fn look(&mut self, root: u32, now_ns: u64) {
        if now_ns < self.next_look_ns {
            return;
        }
        // A search scales with the number of all processes, an inspection only with our own.
        if now_ns >= self.next_search_ns {
            let begun_ns = thread_cpu_ns();
            self.family = ProcessTable::read().family(root);
            self.next_search_ns = next_ns(now_ns, begun_ns);
        }
        let begun_ns = thread_cpu_ns();
        for pid in self.family.clone() {
            self.look_at(pid);
        }
        self.next_look_ns = next_ns(now_ns, begun_ns);
    }

    /// Inspects a program that has exited but hasn't been reaped. Its children are gone.
    pub fn look_at_end(&mut self, root: u32) {
        self.look_at(root);
        self.next_look_ns = 0;
        self.next_search_ns = 0;
    }

    fn look_at(&mut self, pid: u32) {
        for thread in threads_of(pid) {
            if let Some(ns) = task_waited_ns(pid, thread) {
                let known = self.waited_ns.entry((pid, thread)).or_default();
                *known = ns.max(*known);
            }
        }
        self.tracers.append(&mut tracers_of(pid));
    }

    /// Returns the total time its tasks have been waiting, in nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns.values().sum()
    }

    /// Returns the processes that traced them.
    pub const fn tracers(&self) -> &BTreeSet<Tracer> {
        &self.tracers
    }
}

/// Returns when to repeat something, given this thread's CPU time when it began.
fn next_ns(now_ns: u64, begun_ns: u64) -> u64 {
    let took_ns = thread_cpu_ns().saturating_sub(begun_ns);
    now_ns.saturating_add(LOOK_NS_MIN.max(took_ns.saturating_mul(PAUSES)))
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use procfs::{FromBufReadSI as _, FromRead as _};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn stat_of(line: &str) -> (u32, ProcessTimes) {
        let stat = Stat::from_read(line.as_bytes()).unwrap();
        (stat.pid.cast_unsigned(), ProcessTimes::from_stat(&stat))
    }

    /// Returns a process as printed by the kernel, with times in hundredths of a second.
    fn process(pid: u32, name: &str, parent: u32, own: u64, reaped: u64) -> (u32, ProcessTimes) {
        let line = format!(
            "{pid} ({name}) S {parent} {pid} {pid} 0 -1 4194304 1 2 3 4 {own} 0 {reaped} 0 20 0 1 \
             0 {pid}00 1000 10 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 \
             0 0 0 0 0"
        );
        stat_of(&line)
    }

    fn table(processes: impl IntoIterator<Item = (u32, ProcessTimes)>) -> ProcessTable {
        ProcessTable(processes.into_iter().collect())
    }

    #[test]
    fn counts_only_allowed_processors() {
        let text = "cpu  300 0 0 100 0 0 0 50 0 0\ncpu0 300 0 0 0 0 0 0 50 0 0\n\
                    cpu1 0 0 0 100 0 0 0 0 0 0\nctxt 1\nbtime 1\nprocesses 1\n";
        let system = procfs::current_system_info();
        let kernel = KernelStats::from_buf_read(text.as_bytes(), system).unwrap();
        let on = |allowed: &[usize]| {
            HostTimes::from_kernel(&kernel, &|number| allowed.contains(&number))
        };
        let first =
            HostTimes { busy_ns: 3 * SECOND, stolen_ns: SECOND / 2, idle_ns: 0, processors: 1 };
        assert_eq!(on(&[0]), first);
        assert_eq!(on(&[1]).idle_ns, SECOND);
        assert_eq!(on(&[0, 1]).all_ns(), 4 * SECOND + SECOND / 2);
        // If none of the CPUs in the mask is listed, the total is used.
        assert_eq!(on(&[7]).processors, 2);
        assert!(HostTimes::read().unwrap().all_ns() > 0);
    }

    #[test]
    fn attributes_children_time_to_parent() {
        let shell = |own, reaped| process(5, "make", 1, own, reaped);
        // A compiler had used 3 s. Both it and its parent have exited since.
        let before = table([
            process(1, "init", 0, 0, 0),
            shell(10, 0),
            process(6, "cc", 5, 100, 0),
            process(7, "cc1", 6, 300, 0),
        ]);
        let after =
            table([process(1, "init", 0, 0, 0), shell(20, 900), process(9, "new", 1, 7, 0)]);
        let used = after.used_since(&before);
        let named: Vec<_> =
            used.iter().map(|used| (used.name.as_str(), used.own_ns, used.reaped_ns)).collect();
        let hundredth = SECOND / 100;
        assert_eq!(named, [("make", 10 * hundredth, 500 * hundredth), ("new", 7 * hundredth, 0)]);
        // A different process with the same ID started from zero.
        let mut other = process(5, "other", 1, 2, 0);
        other.1.started += 1;
        let used = table([other]).used_since(&before);
        assert_eq!((used[0].name.as_str(), used[0].own_ns), ("other", 2 * hundredth));
    }

    #[test]
    fn recognizes_kernel_threads() {
        let line = "30 (kworker/0:1-events) I 2 0 0 0 -1 69238880 0 0 0 0 0 45 0 0 20 0 1 0 9 0 0 \
                    18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 \
                    0 0 0 0";
        let (pid, times) = stat_of(line);
        assert!(times.is_kernel && pid == 30 && times.own_ns == SECOND / 100 * 45);
        assert!(!process(5, "sh", 1, 0, 0).1.is_kernel);
    }

    #[test]
    fn finds_nfs_servers_by_name() {
        let mut kernel = process(7, "nfsd", 2, 0, 0);
        kernel.1.is_kernel = true;
        let names = [(8, "nfsd"), (9, "ganesha.nfsd"), (10, "sh")];
        let others = names.map(|(pid, name)| process(pid, name, 1, 0, 0));
        let listed = table(others.into_iter().chain([kernel]));
        assert_eq!(listed.nfs_servers(), [7, 9]);
        assert_eq!((listed.name_of(10), listed.name_of(11)), (Some("sh"), None));
    }

    #[test]
    fn family_has_all_descendants() {
        let parents = [(1, 0), (5, 1), (6, 5), (7, 6), (8, 1)];
        let listed = table(parents.map(|(pid, parent)| process(pid, "x", parent, 0, 0)));
        assert_eq!(listed.family(5), BTreeSet::from([5, 6, 7]));
        assert_eq!(listed.family(99), BTreeSet::from([99]));
    }

    #[test]
    fn counts_storage_of_children_once() {
        let with =
            |(pid, times): (u32, ProcessTimes), io_bytes| (pid, ProcessTimes { io_bytes, ..times });
        let shell = || process(5, "sh", 1, 0, 0);
        let before = table([with(shell(), 10), with(process(6, "dd", 5, 1, 0), 500)]);
        let after = table([with(shell(), 10 + 800), with(process(7, "cat", 5, 0, 0), 40)]);
        let used = after.used_since(&before);
        let bytes: Vec<_> = used.iter().map(|used| (used.pid, used.io_bytes)).collect();
        assert_eq!(bytes, [(5, 300), (7, 40)]);
    }

    #[test]
    fn reads_throttling_of_each_processor() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(throttled_ns_in(folder.path()), None);
        for (number, ms) in [(0, "30"), (3, "10")] {
            let of_one = folder.path().join(format!("cpu{number}/thermal_throttle"));
            fs::create_dir_all(&of_one).unwrap();
            fs::write(of_one.join("core_throttle_total_time_ms"), format!("{ms}\n")).unwrap();
        }
        assert_eq!(throttled_ns_in(folder.path()), Some(20_000_000));
    }

    #[test]
    fn parses_tracer_and_waiting_time() {
        let status = "Name:\tdd\nPid:\t12\nTracerPid:\t7\nUid:\t0 0 0 0\n";
        assert_eq!(parse_tracer(status), Some(7));
        assert_eq!(parse_tracer("Name:\tdd\nTracerPid:\t0\n"), None);
        assert_eq!(parse_tracer("Name:\tdd\n"), None);
        assert_eq!(parse_waited_ns("1200 345 6\n"), Some(345));
        assert_eq!(parse_waited_ns("1200\n"), None);
    }

    #[test]
    fn reads_this_process() {
        let own = std::process::id();
        let table = ProcessTable::read();
        assert!(table.0[&own].name.len() > 1 && !table.0[&own].is_kernel);
        let mut watch = ProgramWatch::default();
        watch.look(own, 1);
        assert!(watch.family.contains(&own) && !watch.waited_ns.is_empty());
        // Too early for another inspection.
        watch.waited_ns.clear();
        watch.look(own, LOOK_NS_MIN);
        assert!(watch.waited_ns.is_empty());
        watch.look(own, watch.next_look_ns);
        assert!(!watch.waited_ns.is_empty());
        watch.waited_ns.clear();
        watch.look_at_end(own);
        assert!(!watch.waited_ns.is_empty());
    }
}
