//! Ctrl-C, SIGTERM and the other signals that end a process: the first asks to stop, the second
//! ends the process at once.
//!
//! Batch systems and time limits send SIGUSR1, SIGUSR2, SIGALRM or SIGXCPU; left alone each would
//! end the process and leave its working directories behind. SIGQUIT stays the way to a core dump.
//! Workers look at the flag between batches, preparations and clean-ups between calls and while
//! they wait, and the controller between passes; then everything is saved and removed as at any
//! other end. A thread waits for the second signal, says what is left behind, and ends the process;
//! should it not get to that, a third signal ends it without a word.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use model::Target;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};
use signal_hook::low_level::{self, pipe, unregister};
use signal_hook::{SigId, flag};

use crate::exit::{self, End, Failure};
use crate::{agents, output};

/// How often is looked whether somebody wants to stop.
const TICK: Duration = Duration::from_millis(100);

/// How long after the first signal everything may take to end in order, whatever hangs. Agents are
/// left before that: see [`fleet`].
const END_WITHIN: Duration = Duration::from_secs(14);

/// How many looks, a tick apart, show that file I/O of this process is stuck.
const STUCK_LOOKS: u32 = 50;

/// Signals that end a process, but not where its parent had it ignore them.
const IGNORABLE: [i32; 6] = [SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGXCPU];

/// The signals that end the process, once they are handled.
static SIGNALS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// The working directory that exists at the moment: its name, and where it is.
static DIRECTORY: Mutex<Option<(String, String)>> = Mutex::new(None);

/// Another one waits for the second signal, and ends the process at it.
static IS_AWAITED_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Returns a flag that is set by the first signal.
///
/// # Errors
/// When the system refuses a handler, or a thread.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let is_second = Arc::new(AtomicBool::new(false));
    let mut signals = vec![SIGINT, SIGTERM];
    signals.extend(IGNORABLE.into_iter().filter(|signal| !is_ignored(*signal)));
    let failed = |error| Failure::Lab(format!("can't handle signals: {error}"));
    let (heard, told) = UnixStream::pair().map_err(failed)?;
    for &signal in &signals {
        register_handler(signal, &stop, &is_second, &told).map_err(failed)?;
    }
    let wait = move || end_at_second(heard, &is_second);
    thread::Builder::new().name("signals".into()).spawn(wait).map_err(failed)?;
    let stopped = Arc::clone(&stop);
    let bound = move || bound_end(&stopped);
    thread::Builder::new().name("end".into()).spawn(bound).map_err(failed)?;
    *lock_handled() = signals;
    Ok(stop)
}

/// Ends the process where a first signal doesn't end it in time: where a host is waited for, or
/// file I/O doesn't come back. What merely takes its time, such as removing many files, may go on.
fn bound_end(stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        sleep_uninterrupted(TICK);
    }
    sleep_uninterrupted(END_WITHIN.saturating_sub(TICK * STUCK_LOOKS));
    loop {
        // This takes what is left of the time.
        let is_stuck = agent::is_stuck(STUCK_LOOKS, || sleep_uninterrupted(TICK));
        let hosts = agents::reached_hosts();
        if !hosts.is_empty() {
            let hosts = hosts.join(", ");
            let why = format!(
                "gave up: these hosts have not answered since the request to stop: {hosts}; their \
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
fn sleep_uninterrupted(duration: Duration) {
    thread::sleep(duration);
}

fn register_handler(
    signal: i32,
    stop: &Arc<AtomicBool>,
    is_second: &Arc<AtomicBool>,
    told: &UnixStream,
) -> io::Result<()> {
    let code = i32::from(End::Invalid.code());
    flag::register_conditional_shutdown(signal, code, Arc::clone(is_second))?;
    flag::register(signal, Arc::clone(stop))?;
    pipe::register(signal, told.try_clone()?)?;
    Ok(())
}

/// Waits for the second signal and ends the process; a byte comes for each.
fn end_at_second(mut heard: UnixStream, is_second: &AtomicBool) {
    let mut bytes = [0; 16];
    let mut count = 0;
    loop {
        match heard.read(&mut bytes) {
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

/// Says what is left behind and ends the process, without any clean-up.
pub fn end_now() -> ! {
    // Whoever holds the lock at this moment notes or forgets a directory: not worth waiting for.
    let directory = DIRECTORY.try_lock().ok().and_then(|directory| directory.clone());
    if let Some((name, place)) = directory {
        output::message(&left_behind(&name, &place));
    }
    low_level::exit(i32::from(End::Invalid.code()));
}

fn left_behind(name: &str, place: &str) -> String {
    format!(
        "interrupted twice, ended at once: the working directory `{name}` is left in {place} \
         (hint: `dfsbench clean` removes it, and restores what was changed on hosts)"
    )
}

/// Notes that a working directory is about to be made, for the last message of the process.
pub fn note_directory(name: &str, target: &Target) {
    let noted = (!target.keeps_nothing()).then(|| (name.to_owned(), target.to_string()));
    *DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner) = noted;
}

/// Notes that no working directory is there any more.
pub fn forget_directory() {
    *DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn lock_handled() -> MutexGuard<'static, Vec<i32>> {
    SIGNALS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Signals that are heard elsewhere, by a byte each, until this is dropped.
pub struct Heard {
    /// Brings the bytes.
    pub stream: UnixStream,
    ids: Vec<SigId>,
}

impl Drop for Heard {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            unregister(id);
        }
        IS_AWAITED_ELSEWHERE.store(false, Relaxed);
    }
}

/// Has a byte come for every signal, for the caller who restores something before a second one ends
/// the process by [`end_now`]; until the result is dropped nothing else ends it.
///
/// # Errors
/// When the system refuses it.
pub fn hear_all() -> io::Result<Heard> {
    let (stream, told) = UnixStream::pair()?;
    stream.set_nonblocking(true)?;
    let mut heard = Heard { stream, ids: Vec::new() };
    IS_AWAITED_ELSEWHERE.store(true, Relaxed);
    for &signal in lock_handled().iter() {
        heard.ids.push(pipe::register(signal, told.try_clone()?)?);
    }
    Ok(heard)
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
