//! Ctrl-C and SIGTERM: the first asks to stop, the second ends the process at once.
//!
//! Workers look at the flag between batches, preparations and clean-ups between calls and while
//! they wait, and the controller between passes; then everything is saved and removed as at any
//! other end. A thread waits for the second signal, says what is left behind, and ends the process;
//! should it not get to that, a third signal ends it without a word.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Target;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{self, pipe, unregister};
use signal_hook::{SigId, flag};

use crate::exit::{End, Failure};
use crate::output;

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
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    let signals: Vec<i32> = [SIGINT, SIGTERM].into_iter().chain(hangup).collect();
    let failed = |error| Failure::Lab(format!("can't handle signals: {error}"));
    let (heard, told) = UnixStream::pair().map_err(failed)?;
    for &signal in &signals {
        register(signal, &stop, &is_second, &told).map_err(failed)?;
    }
    let wait = move || end_at_second(heard, &is_second);
    std::thread::Builder::new().name("signals".into()).spawn(wait).map_err(failed)?;
    *handled() = signals;
    Ok(stop)
}

fn register(
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
         (hint: `dfsbench clean` restores what was changed on hosts; remove the directory, if it \
         is still there then)"
    )
}

/// Notes that a working directory is about to be made, for the last message of the process.
pub fn note_directory(name: &str, target: &Target) {
    let has_files = !matches!(target, Target::Null | Target::Memory | Target::Tcp(_));
    let noted = has_files.then(|| (name.to_owned(), target.to_string()));
    *DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner) = noted;
}

/// Notes that no working directory is there any more.
pub fn forget_directory() {
    *DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn handled() -> MutexGuard<'static, Vec<i32>> {
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
    for &signal in handled().iter() {
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
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&leave))
            .map_err(|error| Failure::Lab(format!("can't handle signal {signal}: {error}")))?;
    }
    Ok(leave)
}

/// Says whether whoever started us ignores a signal, as `nohup` does; then we do, too.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
