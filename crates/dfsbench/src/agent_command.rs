//! `dfsbench agent`: one host's half, started there by a controller.
//!
//! Orders come from stdin and reports go to stdout, so nothing else may use them; or both go over
//! TCP, where something else than the controller started it. It ends with its controller, and takes
//! away its own file where it was put there for this.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use agent::Agent;
use engine::SystemClock;
use fleet::rendezvous::{self, AgentRank, Hello, Joined};
use fleet::stdio::Flags;
use model::units;

use crate::args::AgentArgs;
use crate::exit::{self, End, Failure};
use crate::{agents, embedded, job, output, signals};

/// The variables that may name this host; without them the name is the kernel's.
///
/// **Source:** srun(1), SLURMD_NODENAME.
const HOST_NAMES: [&str; 2] = ["DFSBENCH_HOST", "SLURMD_NODENAME"];

/// Obeys a controller until it is gone.
///
/// # Errors
/// When the system refuses what every agent needs.
pub fn run(args: &AgentArgs) -> Result<ExitCode, Failure> {
    let leave = signals::leave_flag()?;
    embedded::raise_descriptor_limit();
    let stop = Arc::new(AtomicBool::new(false));
    let clock = SystemClock::new();
    let agent = Agent {
        clock: Arc::new(clock),
        stop: Arc::clone(&stop),
        state_dir: agents::state_dir(),
        local_server: None,
        give_up: Some(exit::give_up),
    };
    let read_clocks = move || agent::read(&clock);
    let end = if args.meet {
        let Joined { input, output } = connect_to_controller(&args.meet_within, &leave)?;
        fleet::stdio::agent_end(input, output, read_clocks, Flags { stop, leave })
    } else {
        fleet::stdio::agent_end(io::stdin(), io::stdout(), read_clocks, Flags { stop, leave })
    };
    let left = agent::serve(&agent, &end);
    for sentence in &left {
        output::message(sentence);
    }
    if let (Some(seen), Ok(program)) = (&args.pushed, std::env::current_exe()) {
        remove_program(&program, seen);
    }
    Ok(if left.is_empty() { End::Ok } else { End::Invalid }.into())
}

/// Goes to the controller that the environment names.
fn connect_to_controller(within: &str, leave: &AtomicBool) -> Result<Joined, Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    let place = AgentRank::from_environment(&variable).map_err(Failure::Usage)?;
    let failed = |why: &dyn std::fmt::Display| Failure::Lab(format!("agent, {place}: {why}"));
    let needed = |name: &str| {
        let hint = "(hint: `dfsbench run --launcher` sets it for its agents)";
        variable(name).ok_or_else(|| failed(&format!("{name} is not there {hint}")))
    };
    let address = needed(job::MEET)?;
    let token = needed(job::TOKEN)?.parse();
    let token = token.map_err(|error| failed(&format!("{}: {error}", job::TOKEN)))?;
    let within = units::parse_time_ns(within).map_err(|error| failed(&error))?;
    let host = HOST_NAMES.iter().find_map(|name| variable(name));
    let host = host.unwrap_or_else(job::host_name);
    let hello = Hello { rank: place.rank, size: place.size, host };
    if !hello.is_plain() {
        let why = "DFSBENCH_HOST: a host is called by letters, digits, `.`, `_` and `-`";
        return Err(failed(&format!("{why}, and not `{}`", hello.host.escape_default())));
    }
    let within = Duration::from_nanos(within);
    rendezvous::join(&address, &token, &hello, within, leave).map_err(|error| failed(&error))
}

/// Removes a program that a controller put here, and its folder unless others use it; where another
/// one has looked at the program since it was `seen`, that one takes it away.
fn remove_program(program: &Path, seen: &str) {
    let ours = program.file_name().is_some_and(|name| name.to_string_lossy().contains("dfsbench-"));
    if !ours {
        return;
    }
    // Nobody is left to be told of a failure; `dfsbench clean` would meet it again.
    if time_of(program).is_none_or(|time| seen == time || seen.parse::<f64>().is_err()) {
        let _ = std::fs::remove_file(program);
    }
    let _ = program.parent().map(std::fs::remove_dir);
}

/// When a file was last looked at, in seconds since 1970, as `stat -c %.9Y` has it.
fn time_of(file: &Path) -> Option<String> {
    let modified = std::fs::metadata(file).and_then(|it| it.modified()).ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(format!("{}.{:09}", since.as_secs(), since.subsec_nanos()))
}
