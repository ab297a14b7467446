//! Ends waits for a mount that doesn't answer: unmounts it by force, or gives the agent up.
//!
//! Principal type: [`HangGuard`], a thread beside the agent's own. A thread that waits for a dead
//! NFS server sleeps in the kernel (state `D`): it can't be joined, and sees no request to stop. So
//! this one looks from outside. It touches no path, since that would wait, too, and only mounts
//! of ours are unmounted. Where the agent is given up, this thread undoes the changes of the host
//! in its place. **Source:** proc_pid_status(5), `State` and `voluntary_ctxt_switches`.

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

/// How often is looked; silence is counted in these.
const TICK: Duration = Duration::from_millis(500);
/// The least time that a server gets for an answer: a COMMIT of much data takes a slow disk long.
const SILENCE_MS_MIN: u64 = 30_000;
/// Time for a server to recover from an outage that a soak makes: reconnecting, and grace period.
const RECOVERY_MS: u64 = 180_000;
/// Silence on a mount of ours that ends a wait when the trial is to stop.
const STOPPED_TICKS: u64 = 6;
/// The same where nothing can be unmounted, since the mount isn't ours.
const FOREIGN_STOPPED_TICKS: u64 = 20;
/// Ticks for waiting threads to end once the mount is gone, before the agent is given up.
const RELEASE_TICKS: u64 = 10;

/// Ends an agent whose threads never come back, and is passed the reason.
pub type GiveUp = fn(&str);

/// Ends an agent whose threads never come back.
pub(crate) struct LastResort {
    pub(crate) give_up: GiveUp,
    /// Undone before: the thread that made them can't do it any more.
    pub(crate) changes: HostChanges,
}

impl LastResort {
    /// Undoes the changes of this host and ends the agent.
    fn end_agent(&self, why: &str) {
        let undone = match self.changes.leave() {
            Ok(()) => "what was changed on this host is undone".to_owned(),
            Err(left) => left,
        };
        (self.give_up)(&format!("{why}; {undone}"));
    }
}

/// The waits that are watched while an order of a trial is executed.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// The mounts of ours; none where the files lie on the mount of another.
    points: Vec<PathBuf>,
    /// Whether the answers of their servers are counted.
    has_answers: bool,
    /// Ticks of silence that are a hang; `None` until the trial is to stop.
    silence_ticks: Option<u64>,
    stop: Stop,
}

impl Watched {
    /// Returns the waits to watch in a trial; `None` where something else bounds them.
    pub(crate) fn of(assignment: &Assignment, stop: &Stop) -> Option<Self> {
        let spec = &assignment.spec;
        let stop = stop.clone();
        let Some(lab) = &spec.lab else {
            let points = Vec::new();
            return Some(Self { points, has_answers: false, silence_ticks: None, stop });
        };
        if !lab.is_mounted() {
            return None;
        }
        // A fault that a soak injects is silence, too: it lasts as long as the longest of them, and
        // as long as the server needs to recover from it.
        let mut outage_ms = 0;
        if let Some(soak) = &spec.soak {
            for one in &soak.disturbances {
                outage_ms = one.lasts_ms.saturating_add(RECOVERY_MS).max(outage_ms);
            }
        }
        let silence_ms = spec.timeout_ms.max(SILENCE_MS_MIN).saturating_add(outage_ms);
        let ticks = silence_ms / TICK.as_millis() as u64;
        let (points, has_answers) = (lab.mount_points(), lab.mounts_nfs());
        Some(Self { points, has_answers, silence_ticks: Some(ticks), stop })
    }

    /// Ticks of silence that are a hang just now.
    fn limit_ticks(&self) -> Option<u64> {
        match (self.stop.is_set(), self.points.is_empty()) {
            (false, _) => self.silence_ticks,
            (true, false) => Some(STOPPED_TICKS),
            (true, true) => Some(FOREIGN_STOPPED_TICKS),
        }
    }
}

/// The thread that looks, and what it found.
pub(crate) struct HangGuard {
    shared: Arc<Shared>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Default)]
struct Shared {
    watched: Mutex<Option<Watched>>,
    hung: Mutex<Option<String>>,
}

impl Shared {
    fn watched(&self) -> MutexGuard<'_, Option<Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hung(&self) -> MutexGuard<'_, Option<String>> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HangGuard {
    /// Begins to look. The agent is ended by `last_resort` where threads never come back.
    pub(crate) fn start(last_resort: Option<LastResort>) -> Self {
        let shared = Arc::new(Shared::default());
        let (end, ended) = channel();
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let mut silence = Silence::default();
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                look(&seen, &mut silence, last_resort.as_ref());
            }
        });
        Self { shared, thread: Some((end, thread)) }
    }

    /// Watches from now on, until [`Self::release`].
    pub(crate) fn watch(&self, watched: Option<Watched>) {
        *self.shared.watched() = watched;
    }

    /// Watches nothing any more; says why an earlier wait was ended, if one was.
    pub(crate) fn release(&self) -> Option<String> {
        // The guard holds this while it unmounts: what was found is known when it is free.
        *self.shared.watched() = None;
        self.shared.hung().clone()
    }
}

impl Drop for HangGuard {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            // It can only have ended.
            let _ = thread.join();
        }
    }
}

/// For how long threads have waited without an answer.
#[derive(Default)]
struct Silence {
    ticks: u64,
    answers: u64,
    /// How often each thread had gone to sleep that now waits in the kernel.
    waiting: BTreeMap<u32, u64>,
    /// Ticks since the mount was removed; `None` while it is there.
    removed_for: Option<u64>,
}

/// Looks once, and acts where what is watched hangs.
fn look(shared: &Shared, silence: &mut Silence, last_resort: Option<&LastResort>) {
    let mut watched = shared.watched();
    let Some(now) = watched.as_mut() else {
        *silence = Silence::default();
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
        // Several mounts are of one server.
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
        let what = format!("no answer on the mount {} for {seconds} s", point.display());
        reasons.push(match lab::force_off(point) {
            Ok(()) => format!(
                "{what}: it was unmounted by force (hint: is its server up, and do packets of \
                 full size reach it?)"
            ),
            Err(error) => format!("{what}: {error}"),
        });
    }
    if reasons.is_empty() {
        reasons.push(format!(
            "file I/O has not ended for {seconds} s, and what it waits for is no mount of ours \
             (hint: `umount -f` it, or restart its server)"
        ));
    }
    let why = reasons.join("; ");
    *shared.hung() = Some(why);
    now.stop.cancel();
    silence.removed_for = Some(0);
}

impl Silence {
    /// Counts a tick without an answer on a mount of ours, or begins again where one arrived or no
    /// thread waits.
    ///
    /// Threads wake up to send again, so that they move proves nothing: the server's answers do.
    fn count_unanswered(&mut self, waiting: BTreeMap<u32, u64>, answers: u64) {
        let is_silent = answers == self.answers && !waiting.is_empty();
        self.answers = answers;
        self.count(waiting, is_silent.into());
    }

    /// Counts a tick in which the very same wait of a thread goes on, on a mount whose answers
    /// can't be counted.
    fn count_unmoved(&mut self, waiting: BTreeMap<u32, u64>) {
        let mut unmoved = 0;
        for (id, sleeps) in &waiting {
            if self.waiting.get(id) == Some(sleeps) {
                unmoved += 1;
            }
        }
        self.count(waiting, unmoved);
    }

    /// Counts one more tick where something stands still, or begins again.
    fn count(&mut self, waiting: BTreeMap<u32, u64>, unmoved: u64) {
        self.waiting = waiting;
        self.ticks = if unmoved > 0 { self.ticks + 1 } else { 0 };
    }
}

/// Says whether some thread of this process has been in one wait in the kernel at every look;
/// `looks` is how many, and `pause` what passes between two.
pub fn is_stuck(looks: u32, mut pause: impl FnMut()) -> bool {
    let mut waiting = waiting_threads();
    for _ in 1..looks {
        pause();
        let now = waiting_threads();
        waiting.retain(|id, sleeps| now.get(id) == Some(sleeps));
    }
    !waiting.is_empty()
}

/// The threads of this process that wait in the kernel, each with how often it has gone to sleep.
fn waiting_threads() -> BTreeMap<u32, u64> {
    let mut waiting = BTreeMap::new();
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return waiting };
    for task in tasks {
        let Ok(task) = task else { continue };
        // A thread may have ended meanwhile.
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

/// Returns a field of a thread's status; an empty one where it is missing.
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
