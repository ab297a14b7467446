//! Ctrl-C, SIGTERM and other terminating signals: the first one asks to stop, the second one ends
//! the process immediately.
//!
//! Batch systems and time limits send SIGUSR1, SIGUSR2, SIGALRM or SIGXCPU, which by default would
//! end the process and leave its working directories behind. SIGQUIT still dumps core. Workers
//! check the stop flag between batches, preparation and cleanup check it between calls and while
//! they wait, and the controller checks it between passes. Then everything is saved and removed as
//! usual. A separate thread waits for the second signal, reports what is left behind, and ends the
//! process. In case it doesn't get that far, a third signal ends the process without a message.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use engine::target::removal::{self, Progress};
use model::Target;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};
use signal_hook::low_level::{self, pipe, unregister};
use signal_hook::{SigId, flag};

use crate::exit::{self, End, Failure};
use crate::hosts::agents;
use crate::terminal::output::{self, lock_always};

/// Interval between checks of the stop flag.
const TICK: Duration = Duration::from_millis(100);

/// Number of ticks after the first signal in which everything must end, even if something hangs.
/// Agents are given up before that: see [`fleet`].
const END_TICKS: u32 = 140;

/// How long a removal may take after the first signal before it is reported, and how often then.
const REMOVAL_QUIET: Duration = Duration::from_secs(1);
const REMOVAL_PAUSE: Duration = Duration::from_secs(10);

/// Number of checks, one per tick, after which file I/O of this process counts as stuck.
const STUCK_CHECKS: u32 = 50;

/// Signals that end a process, unless its parent made it ignore them.
const IGNORABLE: [i32; 6] = [SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGXCPU];

/// The terminating signals that are handled.
static SIGNALS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Name and location of the current working directory.
static DIRECTORY: Mutex<Option<(String, String)>> = Mutex::new(None);

/// Whether other code waits for the second signal and ends the process then.
static IS_AWAITED_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Only set by signals. The flag of [`stop_flag`] is also set when a host is lost.
static SIGNALED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Returns true if a signal asked this process to stop.
pub(crate) fn is_stopped() -> bool {
    SIGNALED.get().is_some_and(|signaled| signaled.load(Relaxed))
}

/// Returns a flag that is set by the first signal.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::<AtomicBool>::default();
    let is_second = Arc::new(AtomicBool::new(false));
    let mut signals = vec![SIGINT, SIGTERM];
    signals.extend(IGNORABLE.into_iter().filter(|signal| !is_ignored(*signal)));
    match handle_signals(&signals, &stop, is_second) {
        Ok(()) => {}
        Err(error) => return Err(Failure::Lab(format!("can't handle signals: {error}"))),
    }
    *lock_handled() = signals;
    Ok(stop)
}

/// Registers the handlers, and starts the threads that wait for a second signal and for the time
/// limit.
fn handle_signals(
    signals: &[i32],
    stop: &Arc<AtomicBool>,
    is_second: Arc<AtomicBool>,
) -> io::Result<()> {
    // A handler can do little more than write a byte. A thread reads those bytes and does the rest.
    let (receiver, sender) = UnixStream::pair()?;
    for signal in signals {
        register_handler(*signal, stop, &is_second, &sender)?;
    }
    let stopped = Arc::clone(stop);
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || end_at_second(receiver, &is_second))?;
    thread::Builder::new().name("end".into()).spawn(move || bound_end(&stopped))?;
    Ok(())
}

/// Ends the process if it doesn't end in time after a first signal because it waits for a host or
/// for stuck file I/O. Work that just takes long, such as removing many files, may continue.
fn bound_end(stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        sleep_uninterrupted(TICK);
    }
    let mut watch = RemovalWatch::default();
    let mut wait_tick = || {
        sleep_uninterrupted(TICK);
        if let Some(line) = watch.next_line(removal::progress(), Instant::now()) {
            output::message(&line);
        }
    };
    for _ in STUCK_CHECKS..END_TICKS {
        wait_tick();
    }
    loop {
        // This takes up the rest of the time.
        let is_stuck = agent::is_stuck(STUCK_CHECKS, &mut wait_tick);
        let hosts = agents::reached_hosts();
        if !hosts.is_empty() {
            let hosts = hosts.join(", ");
            let why = format!(
                "gave up: these hosts did not answer the request to stop: {hosts}; their agents \
                 restore them as soon as they can (hint: `dfsbench clean` there shows what is \
                 left)"
            );
            exit::end_now(&why, End::Invalid.code());
        }
        if is_stuck {
            let why = "gave up: file I/O of this process hangs because a file system here does not \
                 respond (hint: `umount -f` it, or restart its server; the working directory is \
                 left there)";
            exit::end_now(why, End::Invalid.code());
        }
    }
}

/// Tells a user who has interrupted the process what is still being removed.
#[derive(Default)]
struct RemovalWatch {
    /// The directory, when its removal was first seen, and the number of entries removed by then.
    begun: Option<(String, Instant, u64)>,
    told: Option<Instant>,
}

impl RemovalWatch {
    /// Returns the next line if it is due: the first one soon, further ones now and then.
    fn next_line(&mut self, progress: Option<Progress>, now: Instant) -> Option<String> {
        let Some(progress) = progress else {
            self.begun = None;
            return None;
        };
        let (begun, removed_before) = match &self.begun {
            Some((place, begun, removed)) if *place == progress.place => (*begun, *removed),
            _ => {
                self.begun = Some((progress.place, now, progress.removed));
                return None;
            }
        };
        let gone = now.saturating_duration_since(begun);
        let pause = self.told.map(|told| now.saturating_duration_since(told));
        if gone < REMOVAL_QUIET || pause.is_some_and(|pause| pause < REMOVAL_PAUSE) {
            return None;
        }
        let hint = match self.told.replace(now) {
            Some(_) => "",
            None => {
                " (hint: a second signal stops immediately and leaves the rest to `dfsbench clean`)"
            }
        };
        let removed_since = progress.removed.saturating_sub(removed_before);
        Some(describe_removal(&progress, removed_since, gone) + hint)
    }
}

/// Describes the current removal in one line for a full screen, with the path last.
pub(crate) fn describe_removing() -> Option<String> {
    let Progress { place, removed, found, .. } = removal::progress()?;
    Some(format!(
        "stopping: {removed} of {found} entries removed (again: quit at once) from {place}"
    ))
}

/// Describes the progress of a removal, and estimates the remaining time from the rate so far.
fn describe_removal(progress: &Progress, removed_since: u64, gone: Duration) -> String {
    let Progress { place, removed, found, is_all_found } = progress;
    let least = if *is_all_found { "" } else { "at least " };
    let left = match removed_since {
        0 => "none removed lately".to_owned(),
        since => {
            let seconds = (found - removed) as f64 * gone.as_secs_f64() / since as f64;
            format!("{least}{:.0} s left", seconds.max(1.0))
        }
    };
    format!("interrupted: removing {place}: {removed} of {least}{found} entries removed, {left}")
}

#[allow(clippy::disallowed_methods, reason = "the limit of a signal is a matter of real time")]
fn sleep_uninterrupted(duration: Duration) {
    thread::sleep(duration);
}

fn register_handler(
    signal: i32,
    stop: &Arc<AtomicBool>,
    is_second: &Arc<AtomicBool>,
    sender: &UnixStream,
) -> io::Result<()> {
    let code = i32::from(exit::process_code(End::Invalid.code()));
    flag::register_conditional_shutdown(signal, code, Arc::clone(is_second))?;
    flag::register(signal, Arc::clone(stop))?;
    flag::register(signal, Arc::clone(SIGNALED.get_or_init(Arc::default)))?;
    pipe::register(signal, sender.try_clone()?)?;
    Ok(())
}

/// Waits for the second signal and ends the process. Each signal writes a byte.
fn end_at_second(mut receiver: UnixStream, is_second: &AtomicBool) {
    let mut bytes = [0; 16];
    let mut count = 0;
    loop {
        match receiver.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
        if count > 1 && !IS_AWAITED_ELSEWHERE.load(Relaxed) {
            is_second.store(true, Relaxed);
            end_now();
        }
    }
}

/// Prints what is left behind and ends the process without any cleanup.
pub(crate) fn end_now() -> ! {
    output::clear_bar();
    let progress = removal::progress();
    // Don't wait for the lock: the thread that holds it may hang.
    let directory = match DIRECTORY.try_lock() {
        Ok(directory) => directory.clone(),
        Err(_) => None,
    };
    if let Some(line) = left_behind(directory, progress.as_ref()) {
        output::message(&line);
    }
    low_level::exit(i32::from(exit::process_code(End::Invalid.code())));
}

/// Describes what a process that ends immediately leaves behind.
fn left_behind(directory: Option<(String, String)>, removal: Option<&Progress>) -> Option<String> {
    let what = match (directory, removal) {
        (Some((name, place)), _) => format!("the working directory `{name}` is left in {place}"),
        (None, Some(removal)) => format!("`{}` is left", removal.place),
        (None, None) => return None,
    };
    let rest = match removal {
        Some(removal) => {
            let left = removal.found - removal.removed;
            let least = if removal.is_all_found { "" } else { "at least " };
            format!(", with {least}{left} of its entries")
        }
        None => String::new(),
    };
    Some(format!(
        "interrupted twice, stopped immediately: {what}{rest} (hint: `dfsbench clean` removes it, \
         and restores what was changed on hosts)"
    ))
}

/// Records that a working directory is about to be created, for the last message of the process.
pub(crate) fn note_directory(name: &str, target: &Target) {
    if target.keeps_nothing() {
        return forget_directory();
    }
    let noted = Some((name.to_owned(), target.to_string()));
    *lock_always(&DIRECTORY) = noted;
}

/// Records that the working directory is gone.
pub(crate) fn forget_directory() {
    *lock_always(&DIRECTORY) = None;
}

fn lock_handled() -> MutexGuard<'static, Vec<i32>> {
    lock_always(&SIGNALS)
}

/// A stream that receives a byte for each signal, until this is dropped.
pub(crate) struct SignalStream {
    pub stream: UnixStream,
    ids: Vec<SigId>,
}

impl Drop for SignalStream {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            unregister(id);
        }
        IS_AWAITED_ELSEWHERE.store(false, Relaxed);
    }
}

/// Sends a byte for every signal to a caller that must restore something before a second signal
/// ends the process. The caller then calls [`end_now`]; until the result is dropped, nothing else
/// does.
pub(crate) fn receive_all() -> io::Result<SignalStream> {
    let (stream, sender) = UnixStream::pair()?;
    stream.set_nonblocking(true)?;
    let mut signals = SignalStream { stream, ids: Vec::new() };
    IS_AWAITED_ELSEWHERE.store(true, Relaxed);
    for &signal in lock_handled().iter() {
        signals.ids.push(pipe::register(signal, sender.try_clone()?)?);
    }
    Ok(signals)
}

/// Returns a flag that is set by any terminating signal. Repeated signals don't end the process: an
/// agent always restores its host.
pub(crate) fn leave_flag() -> Result<Arc<AtomicBool>, Failure> {
    let leave = Arc::new(AtomicBool::new(false));
    let mut signals = vec![SIGINT, SIGTERM];
    signals.extend(IGNORABLE);
    for signal in signals {
        if let Err(error) = flag::register(signal, Arc::clone(&leave)) {
            return Err(Failure::Lab(format!("can't handle signal {signal}: {error}")));
        }
    }
    Ok(leave)
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with EFBIG like any other failed
/// write. By default, SIGXFSZ would end the process without a message.
///
/// **Source:** setrlimit(2), RLIMIT_FSIZE. The signal is handled, not ignored, because child
/// programs must not be affected: exec(3) resets handlers but passes on ignored signals.
pub(crate) fn make_file_limit_an_error() {
    // If the handler is refused, the signal keeps its default action.
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Returns true if the parent made this process ignore a signal, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines() {
        if let Some(mask) = line.strip_prefix("SigIgn:") {
            // Bit 0 is signal 1.
            let mask = u64::from_str_radix(mask.trim(), 16).unwrap_or(0);
            return mask >> (signal - 1) & 1 == 1;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(removed: u64, is_all_found: bool) -> Progress {
        Progress { place: "/mnt/a".to_owned(), removed, found: 34_000, is_all_found }
    }

    #[test]
    fn shows_what_is_being_removed() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut watch = RemovalWatch::default();
        assert_eq!(watch.next_line(None, at(0)), None);
        assert_eq!(watch.next_line(Some(progress(1000, true)), at(0)), None);
        let first = watch.next_line(Some(progress(3000, true)), at(2)).unwrap();
        assert_eq!(watch.next_line(Some(progress(4000, true)), at(3)), None);
        let second = watch.next_line(Some(progress(1000, false)), at(20)).unwrap();
        insta::assert_snapshot!([first, second].join("\n"));
        // A removal that ends soon is not worth a message.
        assert_eq!(watch.next_line(None, at(40)), None);
        assert_eq!(watch.next_line(Some(progress(1, true)), at(41)), None);
    }

    #[test]
    fn names_leftovers_at_second_signal() {
        let directory = || Some((".dfsbench-ab-0".to_owned(), "/mnt".to_owned()));
        assert_eq!(left_behind(None, None), None);
        let lines = [
            left_behind(directory(), None),
            left_behind(directory(), Some(&progress(4000, true))),
            left_behind(None, Some(&progress(4000, false))),
        ];
        insta::assert_snapshot!(lines.map(Option::unwrap).join("\n"));
    }
}
