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
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order, so that the first signal finds the flag unset and only sets it.
        flag::register_conditional_shutdown(signal, 4, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::Lab(format!("can't handle signal {signal}: {error}")))?;
    }
    Ok(stop)
}
