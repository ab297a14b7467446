//! Ends waits for a mount that doesn't respond, by unmounting it forcibly or giving up the agent.
//!
//! A thread that waits for a dead NFS server sleeps in the kernel (state `D`). It cannot be joined
//! and doesn't see a stop request. So [`HangGuard`] runs a separate thread that watches from
//! outside. It must not access any path, because that would hang, too, and it only unmounts mounts
//! that we created. If it gives up the agent, it first undoes the changes to the host in the
//! agent's place. **Source:** proc_pid_status(5), `State` and `voluntary_ctxt_switches`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use engine::Stop;
use fleet::Assignment;

use crate::this_host::HostChanges;

/// How often to check. Silence is counted in these ticks.
const TICK: Duration = Duration::from_millis(500);
/// Minimum time that a server gets to answer. A COMMIT of much data takes a long time on a slow
/// disk.
const SILENCE_MS_MIN: u64 = 30_000;
/// Time for a server to recover from an outage caused by a soak, including reconnects and grace
/// period.
const RECOVERY_MS: u64 = 180_000;
/// Ticks of silence that count as a hang on one of our mounts when the trial is to stop.
const STOPPED_TICKS: u64 = 6;
/// Same for other mounts, which we must not unmount.
const FOREIGN_STOPPED_TICKS: u64 = 20;
/// Ticks for waiting threads to return after the unmount, before the agent is given up.
const RELEASE_TICKS: u64 = 10;

/// Function that ends an agent whose threads never return. Its argument is the reason.
pub(crate) type EndAgent = fn(&str);

/// What to do if the agent's threads never return.
pub(crate) struct ForcedExit {
    pub(crate) give_up: EndAgent,
    /// Changes to undo first, because the thread that made them can no longer do it.
    pub(crate) changes: HostChanges,
}

impl ForcedExit {
    /// Undoes the changes of this host and ends the agent.
    fn end_agent(&self, why: &str) {
        let undone = match self.changes.leave() {
            Ok(()) => "all changes to this host were undone".to_owned(),
            Err(left) => left,
        };
        (self.give_up)(&format!("{why}; {undone}"));
    }
}

/// What to watch while an order of a trial is executed.
#[derive(Clone, Debug)]
pub(crate) struct HangWatch {
    /// Our mounts; empty if the files are on a mount of someone else.
    points: Vec<PathBuf>,
    /// Whether replies of the servers are counted.
    has_answers: bool,
    /// Ticks of silence that count as a hang; `None` means no limit until the trial is to stop.
    silence_ticks: Option<u64>,
    stop: Stop,
}

impl HangWatch {
    /// Returns what to watch during a trial, or `None` if its waits are limited otherwise.
    pub(crate) fn for_trial(assignment: &Assignment, stop: &Stop) -> Option<Self> {
        let spec = &assignment.spec;
        let stop = stop.clone();
        let Some(lab) = &spec.lab else {
            let points = Vec::new();
            return Some(Self { points, has_answers: false, silence_ticks: None, stop });
        };
        if !lab.is_mounted() {
            return None;
        }
        // A fault injected by a soak causes silence, too, for as long as the longest fault plus the
        // server's recovery.
        let mut outage_ms = 0;
        if let Some(soak) = &spec.soak {
            for one in &soak.disturbances {
                outage_ms = one.lasts_ms.saturating_add(RECOVERY_MS).max(outage_ms);
            }
        }
        let silence_ms = spec.timeout_ms.max(SILENCE_MS_MIN).saturating_add(outage_ms);
        let ticks = silence_ms / TICK.as_millis() as u64;
        Some(Self {
            points: lab.mount_points(),
            has_answers: lab.mounts_nfs(),
            silence_ticks: Some(ticks),
            stop,
        })
    }

    /// Returns the current number of ticks of silence that count as a hang.
    fn limit_ticks(&self) -> Option<u64> {
        match (self.stop.is_set(), self.points.is_empty()) {
            (false, _) => self.silence_ticks,
            (true, false) => Some(STOPPED_TICKS),
            (true, true) => Some(FOREIGN_STOPPED_TICKS),
        }
    }
}

/// The watching thread and its findings.
pub(crate) struct HangGuard {
    shared: Arc<Shared>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Default)]
struct Shared {
    watched: Mutex<Option<HangWatch>>,
    hung: Mutex<Option<String>>,
}

impl Shared {
    fn watched(&self) -> MutexGuard<'_, Option<HangWatch>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hung(&self) -> MutexGuard<'_, Option<String>> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HangGuard {
    /// Starts the thread. `last_resort` ends the agent if its threads never return.
    pub(crate) fn start(last_resort: Option<ForcedExit>) -> Self {
        let shared = Arc::new(Shared::default());
        let (end, ended) = channel();
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let mut silence = WaitingThreads::default();
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                check_for_hang(&seen, &mut silence, last_resort.as_ref());
            }
        });
        Self { shared, thread: Some((end, thread)) }
    }

    /// Starts watching, until [`Self::release`].
    pub(crate) fn watch(&self, watched: Option<HangWatch>) {
        *self.shared.watched() = watched;
    }

    /// Stops watching. Returns why an earlier wait was ended, if one was.
    pub(crate) fn release(&self) -> Option<String> {
        // The guard holds this lock while it unmounts, so its findings are complete once we get it.
        *self.shared.watched() = None;
        self.shared.hung().clone()
    }
}

impl Drop for HangGuard {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            // The thread can only have ended.
            let _ = thread.join();
        }
    }
}

/// How long threads have been waiting without a reply.
#[derive(Default)]
struct WaitingThreads {
    ticks: u64,
    answers: u64,
    /// Voluntary context switches of each thread that is waiting in the kernel.
    waiting: BTreeMap<u32, u64>,
    /// Ticks since the mount was removed; `None` while it exists.
    removed_for: Option<u64>,
}

/// Checks once, and acts if there is a hang.
fn check_for_hang(shared: &Shared, silence: &mut WaitingThreads, last_resort: Option<&ForcedExit>) {
    let mut watched = shared.watched();
    let Some(now) = watched.as_mut() else {
        *silence = WaitingThreads::default();
        return;
    };
    if let Some(ticks) = &mut silence.removed_for {
        *ticks += 1;
        if *ticks == RELEASE_TICKS
            && let Some(last_resort) = last_resort
        {
            last_resort.end_agent(shared.hung().as_deref().unwrap_or_default());
        }
        return;
    }
    if now.has_answers {
        // Several mounts may have the same server.
        let answers = now.points.iter().map(|point| lab::mounts::answers(point)).sum();
        silence.count_unanswered(waiting_threads(), answers);
    } else {
        silence.count_unmoved(waiting_threads());
    }
    let Some(limit) = now.limit_ticks() else { return };
    if silence.ticks < limit {
        return;
    }
    let seconds = silence.ticks * TICK.as_millis() as u64 / 1_000;
    let mut reasons = Vec::new();
    for point in &now.points {
        let what = format!("no reply from the mount {} for {seconds} s", point.display());
        reasons.push(match lab::force_off(point) {
            Ok(()) => format!(
                "{what}: forcibly unmounted (hint: is its server running, and do full-size packets \
                 reach it?)"
            ),
            Err(error) => format!("{what}: {error}"),
        });
    }
    if reasons.is_empty() {
        reasons.push(format!(
            "file I/O has been stuck for {seconds} s on a mount that dfsbench did not create \
             (hint: run `umount -f` on it, or restart its server)"
        ));
    }
    let why = reasons.join("; ");
    *shared.hung() = Some(why);
    now.stop.cancel();
    silence.removed_for = Some(0);
}

impl WaitingThreads {
    /// Counts a tick without a reply on our mounts, or starts over if a reply arrived or no thread
    /// is waiting.
    ///
    /// Threads wake up to retransmit, so their activity proves nothing; only replies of the server
    /// do.
    fn count_unanswered(&mut self, waiting: BTreeMap<u32, u64>, answers: u64) {
        let is_silent = answers == self.answers && !waiting.is_empty();
        self.answers = answers;
        self.count(waiting, is_silent.into());
    }

    /// Counts a tick in which the same wait of a thread continues, on mounts whose replies cannot
    /// be counted.
    fn count_unmoved(&mut self, waiting: BTreeMap<u32, u64>) {
        let mut unmoved = 0;
        for (id, sleeps) in &waiting {
            if self.waiting.get(id) == Some(sleeps) {
                unmoved += 1;
            }
        }
        self.count(waiting, unmoved);
    }

    /// Counts another tick if anything is stuck, or starts over.
    fn count(&mut self, waiting: BTreeMap<u32, u64>, unmoved: u64) {
        self.waiting = waiting;
        self.ticks = if unmoved > 0 { self.ticks + 1 } else { 0 };
    }
}

/// Returns true if a thread of this process stayed in the same wait in the kernel for all of the
/// `looks` checks. `pause` is called between checks.
pub fn is_stuck(looks: u32, mut pause: impl FnMut()) -> bool {
    let mut waiting = waiting_threads();
    for _ in 1..looks {
        pause();
        let now = waiting_threads();
        waiting.retain(|id, sleeps| now.get(id) == Some(sleeps));
    }
    !waiting.is_empty()
}

/// Returns the threads of this process that are waiting in the kernel, with their number of
/// voluntary context switches.
fn waiting_threads() -> BTreeMap<u32, u64> {
    let mut waiting = BTreeMap::new();
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return waiting };
    for task in tasks {
        let Ok(task) = task else { continue };
        // The thread may have ended in the meantime.
        let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
        if !status_field(&status, "State:").starts_with('D') {
            continue;
        }
        let name = task.file_name();
        let Some(Ok(id)) = name.to_str().map(str::parse) else { continue };
        let sleeps = status_field(&status, "voluntary_ctxt_switches:").parse().unwrap_or(0);
        waiting.insert(id, sleeps);
    }
    waiting
}

/// Returns a field of a thread's status, or an empty string if it is missing.
fn status_field<'s>(status: &'s str, name: &str) -> &'s str {
    for line in status.lines() {
        if let Some(value) = line.strip_prefix(name) {
            return value.trim();
        }
    }
    ""
}

#[cfg(test)]
mod tests;
