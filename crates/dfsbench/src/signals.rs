//! Ctrl-C, SIGTERM and the other signals that end a process: the first asks to stop, the second
//! ends the process at once.
//!
//! Batch systems and time limits send SIGUSR1, SIGUSR2, SIGALRM or SIGXCPU; left alone each would
//! end the process and leave its working directories behind. SIGQUIT stays the way to a core dump.
//! Workers look at the flag between batches, preparations between writes, and the controller
//! between passes; then everything is saved and removed as at any other end.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};
use signal_hook::low_level::{pipe, unregister};
use signal_hook::{SigId, flag};

use crate::exit::{self, End, Failure};
use crate::hosts;

/// How often is looked whether somebody wants to stop.
const TICK: Duration = Duration::from_millis(100);

/// How long after the first signal everything may take to end in order, whatever hangs. Agents are
/// left before that: see [`fleet`].
const END_WITHIN: Duration = Duration::from_secs(14);

/// How many looks, a tick apart, show that file I/O of this process is stuck.
const STUCK_LOOKS: u32 = 50;

/// Signals that end a process, but not where its parent had it ignore them.
const IGNORABLE: [i32; 6] = [SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGXCPU];

/// What ends the process at a second signal, and the flag that the first one sets.
static SECOND: Mutex<Option<Second>> = Mutex::new(None);

struct Second {
    stop: Arc<AtomicBool>,
    signals: Vec<i32>,
    /// None while somebody else listens.
    ids: Vec<SigId>,
}

/// Returns a flag that is set by the first signal.
///
/// # Errors
/// When the system refuses a handler.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = vec![SIGINT, SIGTERM];
    signals.extend(IGNORABLE.into_iter().filter(|signal| !is_ignored(*signal)));
    let mut ids = Vec::new();
    for &signal in &signals {
        // In this order, so that the first signal finds the flag unset and only sets it.
        let id = flag::register_conditional_shutdown(signal, 4, Arc::clone(&stop))
            .and_then(|id| flag::register(signal, Arc::clone(&stop)).map(|_| id))
            .map_err(|error| Failure::Lab(format!("can't handle signal {signal}: {error}")))?;
        ids.push(id);
    }
    *second() = Some(Second { stop: Arc::clone(&stop), signals, ids });
    let stopped = Arc::clone(&stop);
    thread::spawn(move || bound_end(&stopped));
    Ok(stop)
}

/// Ends the process where a first signal doesn't end it in time: where a host is waited for, or
/// file I/O doesn't come back. What merely takes its time, such as removing many files, may go on.
fn bound_end(stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        pause(TICK);
    }
    pause(END_WITHIN.saturating_sub(TICK * STUCK_LOOKS));
    loop {
        // This takes what is left of the time.
        let is_stuck = agent::is_stuck(STUCK_LOOKS, || pause(TICK));
        let hosts = hosts::reached();
        if !hosts.is_empty() {
            let hosts = hosts.join(", ");
            let why = format!(
                "gave up: these hosts have not answered since the wish to stop: {hosts}; their \
                 agents restore them as soon as they can (hint: `dfsbench clean` there shows what \
                 is left)"
            );
            exit::end_now(&why, End::Invalid.code());
        }
        if is_stuck {
            let why = "gave up: file I/O of this process does not end: a file system here does \
                       not answer (hint: `umount -f` it, or restart its server; the working \
                       directory is left there)";
            exit::end_now(why, End::Invalid.code());
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the limit of a signal is a matter of real time")]
fn pause(duration: Duration) {
    thread::sleep(duration);
}

fn second() -> MutexGuard<'static, Option<Second>> {
    SECOND.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a byte come for every signal, for somebody who puts things back before a second one ends
/// the process; until then no signal ends it.
///
/// # Errors
/// When the system refuses it.
pub fn hear_all() -> io::Result<UnixStream> {
    let (heard, told) = UnixStream::pair()?;
    heard.set_nonblocking(true)?;
    if let Some(second) = second().as_mut() {
        for &signal in &second.signals {
            pipe::register(signal, told.try_clone()?)?;
        }
        for id in second.ids.drain(..) {
            unregister(id);
        }
    }
    Ok(heard)
}

/// Has a second signal end the process again.
pub fn end_at_second() {
    if let Some(second) = second().as_mut().filter(|second| second.ids.is_empty()) {
        for &signal in &second.signals {
            // Where it is refused, the first signal still does what it did.
            let id = flag::register_conditional_shutdown(signal, 4, Arc::clone(&second.stop));
            second.ids.extend(id);
        }
    }
}

/// Returns a flag that any signal to end sets, however often: what is put back stays put back.
///
/// # Errors
/// When the system refuses a handler.
pub fn leave_flag() -> Result<Arc<AtomicBool>, Failure> {
    let leave = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM].into_iter().chain(IGNORABLE) {
        flag::register(signal, Arc::clone(&leave))
            .map_err(|error| Failure::Lab(format!("can't handle signal {signal}: {error}")))?;
    }
    Ok(leave)
}

/// Has a write beyond the limit of file sizes (`ulimit -f`) fail with EFBIG, as any other write
/// that fails, where SIGXFSZ would end the process without a word.
///
/// **Source:** setrlimit(2), RLIMIT_FSIZE. A handler, since programs that are started must find the
/// signal as it was: exec(3) resets handlers but hands on what is ignored.
pub fn make_file_limit_an_error() {
    // Where the handler is refused, the signal does what it always did.
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Says whether whoever started us ignores a signal, as `nohup` does; then we do, too.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
