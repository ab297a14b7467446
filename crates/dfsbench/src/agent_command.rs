//! `dfsbench agent`: one host's half, started there by a controller.
//!
//! Orders come from stdin and reports go to stdout, so nothing else may use them. It ends with its
//! controller, and takes away its own file where it was put there for this.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agent::Agent;
use engine::SystemClock;

use crate::args::AgentArgs;
use crate::exit::{End, Failure};
use crate::{embedded, hosts, output, signals};

/// Obeys a controller until it is gone.
///
/// # Errors
/// When the system refuses what every agent needs.
pub fn run(args: &AgentArgs) -> Result<ExitCode, Failure> {
    let leave = signals::leave_flag()?;
    embedded::raise_descriptor_limit();
    let stop = Arc::new(AtomicBool::new(false));
    let agent = Agent {
        clock: Arc::new(SystemClock::new()),
        stop: Arc::clone(&stop),
        state_dir: hosts::state_dir(),
        local_server: None,
    };
    let end = fleet::stdio::agent_end(io::stdin(), io::stdout(), stop, leave);
    let left = agent::serve(&agent, &end);
    for sentence in &left {
        output::message(sentence);
    }
    if args.pushed
        && let Ok(program) = std::env::current_exe()
    {
        remove(&program);
    }
    Ok(if left.is_empty() { End::Ok } else { End::Invalid }.into())
}

/// Removes a program that a controller put here, and its folder unless others use it.
fn remove(program: &Path) {
    let ours = program.file_name().is_some_and(|name| name.to_string_lossy().contains("dfsbench-"));
    if !ours {
        return;
    }
    // Nobody is left to be told of a failure; `dfsbench clean` would meet it again.
    let _ = std::fs::remove_file(program);
    let _ = program.parent().map(std::fs::remove_dir);
}
