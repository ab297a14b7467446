//! A user's command, timed as a whole: wall, user and system time, and peak memory.
//!
//! Setup and cleanup are commands, too, but aren't timed. A setup that begins with [`tree::WORD`]
//! creates the source tree used by the plans we ship.

use model::units::{Nanos, Size};
use model::work::Command;
use model::{Fact, Histogram, OpKind, ProgramUse};

use super::figures::{FailedPass, Figures, Kind};
use super::process::{FinishedProgram, Request};
use super::{ToolContext, tree};
use crate::target::TargetError;

/// Maximum number of bytes of a command's output to keep, for error messages.
const OUTPUT_KEPT: usize = 4 << 10;

/// Runs the setup and returns what will be run as a fact.
///
/// # Errors
/// If the setup fails or there is nothing to run.
pub(super) fn set_up(bench: &ToolContext, command: &Command) -> Result<Vec<Fact>, TargetError> {
    if command.run.is_empty() {
        return Err(TargetError::Program("the plan has no command to run".to_owned()));
    }
    match command.setup.split_first() {
        None => {}
        Some((word, arguments)) if word == tree::WORD => make_tree(bench, arguments)?,
        Some(_) => run_untimed(bench, "setup", &command.setup)?,
    }
    Ok(vec![Fact::new("target", "command", command.run.join(" "), "plan")])
}

/// Runs the cleanup command, if there is one.
pub(super) fn clean_up(bench: &ToolContext, command: &Command) -> Result<(), TargetError> {
    if command.cleanup.is_empty() {
        return Ok(());
    }
    run_untimed(bench, "cleanup", &command.cleanup)
}

pub(super) fn run(bench: &ToolContext, command: &Command) -> Result<Figures, FailedPass> {
    let ended = execute(bench, &command.run)?;
    if let Some(why) = ended.failure() {
        return Err(FailedPass::tool(&command.run[0], &why, &ended));
    }
    let mut times = Histogram::new();
    times.record(ended.wall_ns);
    let usage = ended.usage;
    let fact = |name: &str, value: String| Fact::new("target", name, value, "wait4(2)");
    Ok(Figures {
        kinds: vec![Kind { kind: OpKind::Execute, ops: 1, bytes: 0, times }],
        window_ns: ended.wall_ns,
        cpu_ns: usage.user_ns + usage.system_ns,
        program: Some(ProgramUse {
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
            rss_max_bytes: usage.rss_max_bytes,
        }),
        facts: vec![
            fact("wall time", Nanos(ended.wall_ns).to_string()),
            fact("user time", Nanos(usage.user_ns).to_string()),
            fact("system time", Nanos(usage.system_ns).to_string()),
            fact("largest memory", Size(usage.rss_max_bytes).to_string()),
        ],
        ..Figures::default()
    })
}

fn execute(bench: &ToolContext, words: &[String]) -> Result<FinishedProgram, TargetError> {
    bench.run(&Request {
        command: words,
        directory: &bench.directory,
        limit_ns: bench.limit_ns,
        stdout_kept: OUTPUT_KEPT,
        plain_locale: false,
    })
}

fn run_untimed(bench: &ToolContext, what: &str, words: &[String]) -> Result<(), TargetError> {
    let ended = execute(bench, words)?;
    ended.failure().map_or(Ok(()), |why| {
        Err(TargetError::Program(format!("{what} `{}` failed: {why}", words.join(" "))))
    })
}

fn make_tree(bench: &ToolContext, arguments: &[String]) -> Result<(), TargetError> {
    let wrong = |why| TargetError::Program(format!("setup {}: {why}", tree::WORD));
    let wanted = tree::parse_request(arguments).map_err(wrong)?;
    for program in wanted.needs {
        bench.read_version(program, "--version")?;
    }
    if let Some(form) = wanted.form {
        bench.read_version(form.program, "--version")?;
    }
    tree::make(&bench.directory, wanted.files).map_err(|error| wrong(error.to_string()))?;
    for command in wanted.form.map_or(&[][..], |form| form.commands) {
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        run_untimed(bench, "setup", &words)?;
    }
    Ok(())
}
