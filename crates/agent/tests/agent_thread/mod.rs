//! An agent in a thread of the test.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};

use agent::{Agent, LocalServer};
use engine::Clock;
use fleet::in_process::{self, InProcess};

/// Starts the agent, which ends when its transport is dropped. The thread returns what could not be
/// undone.
pub fn start(
    clock: Arc<dyn Clock>,
    stop: Arc<AtomicBool>,
    local_server: Option<LocalServer>,
) -> (InProcess, JoinHandle<Vec<String>>) {
    let (transport, end) = in_process::pair();
    let state_dir = std::env::temp_dir().join("dfsbench-no-state");
    let agent = Agent { clock, stop, state_dir, local_server, give_up: None };
    let thread = thread::Builder::new().name("agent-of-test".into());
    (transport, thread.spawn(move || agent::serve(&agent, &end)).unwrap())
}
