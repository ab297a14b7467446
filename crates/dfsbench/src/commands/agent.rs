//! `dfsbench agent`: the agent on one host, started there by a controller.
//!
//! Orders are read from stdin and reports are written to stdout, so nothing else may use them. If
//! some other program than the controller started the agent, both go over TCP. The agent exits
//! together with its controller and removes its own binary if that was copied here just for this.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::Agent;
use engine::SystemClock;
use fleet::job;
use fleet::rendezvous::{self, AgentRank, ControllerStream, Hello};
use fleet::stdio::Flags;
use model::units;

use crate::args::AgentArgs;
use crate::exit::{self, End, Failure};
use crate::files::user_dirs;
use crate::plans::surroundings;
use crate::server::embedded;
use crate::signals;
use crate::terminal::output;

/// Variables that may name this host. Without them, the kernel's host name is used.
///
/// **Source:** srun(1), SLURMD_NODENAME.
const HOST_NAMES: [&str; 2] = ["DFSBENCH_HOST", "SLURMD_NODENAME"];

/// Modification time of this binary when it was copied here; unset if it wasn't copied.
static PUSHED: OnceLock<String> = OnceLock::new();

/// Exits an agent whose threads are stuck forever, leaving no more behind than a regular exit.
fn give_up(why: &str) {
    remove_pushed();
    exit::give_up(why);
}

/// Removes this binary if it was copied here by a controller.
fn remove_pushed() {
    if let (Some(seen), Ok(program)) = (PUSHED.get(), std::env::current_exe()) {
        remove_program(&program, seen);
    }
}

/// Serves a controller until it disconnects.
///
/// # Errors
/// If the system refuses something that every agent needs.
pub(crate) fn run(args: &AgentArgs) -> Result<ExitCode, Failure> {
    let leave = signals::leave_flag()?;
    embedded::raise_descriptor_limit();
    let stop = Arc::new(AtomicBool::new(false));
    let clock = SystemClock::new();
    if let Some(seen) = &args.pushed {
        // This can't fail: a process is a single agent, so it is only set once.
        let _ = PUSHED.set(seen.clone());
    }
    if args.replay {
        let around = surroundings::for_process(0);
        replay::serve_share(io::stdin(), io::stdout(), clock, Flags { stop, leave }, around);
        remove_pushed();
        return Ok(End::Ok.into());
    }
    let agent = Agent {
        clock: Arc::new(clock),
        stop: Arc::clone(&stop),
        state_dir: user_dirs::state_dir(),
        local_server: None,
        give_up: Some(give_up),
    };
    let read_clocks = move || agent::read(&clock);
    let end = if args.meet {
        let ControllerStream { input, output } = connect_to_controller(&args.meet_within, &leave)?;
        fleet::stdio::agent_end(input, output, read_clocks, Flags { stop, leave })
    } else {
        fleet::stdio::agent_end(io::stdin(), io::stdout(), read_clocks, Flags { stop, leave })
    };
    let left = agent::serve(&agent, &end);
    for sentence in &left {
        output::message(sentence);
    }
    remove_pushed();
    Ok(if left.is_empty() { End::Ok } else { End::Invalid }.into())
}

/// Connects to the controller named in the environment.
fn connect_to_controller(within: &str, leave: &AtomicBool) -> Result<ControllerStream, Failure> {
    let rank = AgentRank::from_environment(&read_variable).map_err(Failure::Usage)?;
    match join_controller(rank, within, leave) {
        Ok(joined) => Ok(joined),
        // Many agents write to the same log, so include the rank.
        Err(why) => Err(Failure::Lab(format!("agent, {rank}: {why}"))),
    }
}

fn read_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn need_variable(name: &str) -> Result<String, String> {
    let hint = "(hint: `dfsbench run --launcher` sets it for its agents)";
    read_variable(name).ok_or_else(|| format!("{name} is not set {hint}"))
}

fn join_controller(
    rank: AgentRank,
    within: &str,
    leave: &AtomicBool,
) -> Result<ControllerStream, String> {
    let address = need_variable(job::MEET)?;
    let token =
        need_variable(job::TOKEN)?.parse().map_err(|error| format!("{}: {error}", job::TOKEN))?;
    let within = units::parse_time_ns(within).map_err(|error| error.to_string())?;
    let mut host = job::host_name();
    for name in HOST_NAMES.iter().rev() {
        // Reversed, so that the first variable that is set wins.
        host = read_variable(name).unwrap_or(host);
    }
    let hello = Hello { rank: rank.rank, size: rank.size, host, kernel: lab::boot_id() };
    if !hello.is_plain() {
        let why = "DFSBENCH_HOST: host names consist of letters, digits, `.`, `_` and `-`";
        return Err(format!("{why}, not `{}`", hello.host.escape_default()));
    }
    let within = Duration::from_nanos(within);
    rendezvous::join(&address, &token, &hello, within, leave).map_err(|error| error.to_string())
}

/// Removes a binary that a controller copied here, and its folder if that is empty then. If another
/// controller has used the binary since `seen`, it is left for that one to remove.
fn remove_program(program: &Path, seen: &str) {
    let name = program.file_name().unwrap_or_default();
    if !name.to_string_lossy().contains("dfsbench-") {
        return;
    }
    let is_used_since = match time_of(program) {
        // A host without file times passes a word instead of a number, which proves nothing.
        Some(time) => seen != time && seen.parse::<f64>().is_ok(),
        None => false,
    };
    // The controller is gone, so there is nobody to report a failure to.
    if !is_used_since {
        let _ = std::fs::remove_file(program);
    }
    if let Some(folder) = program.parent() {
        let _ = std::fs::remove_dir(folder);
    }
}

/// Returns a file's modification time in seconds since 1970, formatted like `stat -c %.9Y`.
fn time_of(file: &Path) -> Option<String> {
    let modified = std::fs::metadata(file).ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(format!("{}.{:09}", since.as_secs(), since.subsec_nanos()))
}
