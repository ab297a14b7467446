//! Ctrl-C and SIGTERM: the first asks to stop, the second ends the process at once.
//!
//! Workers look at the flag between batches, preparations between writes, and the controller
//! between passes; then everything is saved and removed as at any other end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Failure;

/// Returns a flag that is set by the first signal.
///
/// # Errors
/// When the system refuses a handler.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        // In this order, so that the first signal finds the flag unset and only sets it.
        flag::register_conditional_shutdown(signal, 4, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::Lab(format!("can't handle signal {signal}: {error}")))?;
    }
    Ok(stop)
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
