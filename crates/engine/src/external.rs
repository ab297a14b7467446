//! Work done by another program: a user's command, or a tool whose results are parsed.
//!
//! An [`External`] is created for one trial in the target's working directory, and
//! [`External::run`] replaces [`crate::measure()`] for each pass. Programs are given as argument
//! vectors and run in their own process group. They are stopped on time-out, on a stop request, or
//! if their target is gone. Anything that a tool doesn't report is left out rather than guessed:
//! its histogram is empty in that case, and a fact explains why.

mod app;
mod bonnie;
mod dd;
mod figures;
mod fio;
mod iozone;
mod process;
mod tree;

use std::path::PathBuf;
use std::sync::Arc;

use model::{Executor, Fact, Pass, RunSpec, Workload};

use crate::clock::Clock;
use crate::measure::MeasuredPass;
use crate::stop::Stop;
use crate::target::{TargetError, TrialTarget};
use figures::{FailedPass, PassFigures};
pub use process::ProgramMoment;
use process::{FinishedProgram, Request, Watch};

/// Maximum number of bytes of a tool's output to keep for parsing. None of them prints that much.
const OUTPUT_KEPT: usize = 64 << 20;

/// Time limit for a program to print its version.
const VERSION_LIMIT_NS: u64 = 10_000_000_000;

/// An external tool in one trial.
pub struct External {
    spec: RunSpec,
    bench: ToolContext,
    facts: Vec<Fact>,
    /// Remaining passes of a program that runs all of them at once.
    made: Vec<PassFigures>,
}

/// Where external tools run, and who observes them.
struct ToolContext {
    directory: PathBuf,
    clock: Arc<dyn Clock>,
    stop: Stop,
    /// Time limit for one program, in nanoseconds; `None` for no limit.
    limit_ns: Option<u64>,
    /// Called at certain moments of each program.
    observe: Box<dyn Fn(ProgramMoment)>,
}

/// The result of a pass run by an external tool.
pub struct ExternalPass {
    /// Its results in the same form as our own.
    pub measured: MeasuredPass,
    /// Additional facts reported by the tool.
    pub facts: Vec<Fact>,
    /// Reads of the whole run that the pass belongs to, if they cannot be attributed to passes.
    pub whole_run: Option<RunReads>,
}

/// Bytes read by all tests in one run of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunReads {
    /// Bytes read according to the tool.
    pub read_bytes: u64,
    /// Bytes read from storage on its behalf.
    pub storage_read_bytes: u64,
}

impl ToolContext {
    /// Runs a program to its end.
    fn run(&self, request: &Request<'_>) -> Result<FinishedProgram, TargetError> {
        let watch =
            Watch { stop: &self.stop, clock: self.clock.as_ref(), observe: self.observe.as_ref() };
        process::run(request, watch).map_err(|error| not_started(request.command, &error))
    }

    /// Runs a tool in the working directory and keeps its output.
    fn run_tool(&self, command: &[String]) -> Result<FinishedProgram, TargetError> {
        self.tool_within(command, self.limit_ns)
    }

    fn tool_within(
        &self,
        command: &[String],
        limit_ns: Option<u64>,
    ) -> Result<FinishedProgram, TargetError> {
        self.run(&Request {
            command,
            directory: &self.directory,
            limit_ns,
            stdout_kept: OUTPUT_KEPT,
            plain_locale: true,
        })
    }

    /// Checks that a program exists by making it print its version.
    fn read_version(&self, program: &str, argument: &str) -> Result<Fact, TargetError> {
        let command = [program.to_owned(), argument.to_owned()];
        let ended = self.tool_within(&command, Some(VERSION_LIMIT_NS))?;
        let printed = String::from_utf8_lossy(&ended.stdout).into_owned() + &ended.stderr();
        // Use the first line with a digit, but prefer one that contains "version".
        let mut version = None;
        for line in printed.lines().map(str::trim) {
            if !line.contains(|sign: char| sign.is_ascii_digit()) {
                continue;
            }
            if line.to_ascii_lowercase().contains("version") {
                version = Some(line);
                break;
            }
            version = version.or(Some(line));
        }
        let source = command.join(" ");
        Ok(Fact::new("target", program, version.unwrap_or("unknown version"), source))
    }
}

impl External {
    /// Locates the program and does all untimed preparation.
    ///
    /// # Errors
    /// If the program doesn't exist or its setup fails.
    pub fn begin(target: &TrialTarget, spec: &RunSpec, stop: &Stop) -> Result<Self, TargetError> {
        let Some(directory) = target.local_paths().into_iter().next() else {
            return Err(TargetError::Program("a program needs a directory target".to_owned()));
        };
        let limit_ms = match spec.workload {
            Workload::App => spec.command.limit_ms,
            _ => spec.timeout_ms,
        };
        let bench = ToolContext {
            directory,
            clock: Arc::clone(target.clock()),
            stop: stop.clone(),
            limit_ns: if limit_ms > 0 { Some(limit_ms.saturating_mul(1_000_000)) } else { None },
            observe: Box::new(|_| {}),
        };
        let facts = match spec.workload.row().executor {
            Executor::Tool { program, version_argument } => {
                vec![bench.read_version(program, version_argument)?]
            }
            _ => app::set_up(&bench, &spec.command)?,
        };
        Ok(Self { spec: spec.clone(), bench, facts, made: Vec::new() })
    }

    /// Sets the observer of the programs from now on.
    pub fn observe_with(&mut self, observe: impl Fn(ProgramMoment) + 'static) {
        self.bench.observe = Box::new(observe);
    }

    /// Returns facts that identify the tool.
    pub fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// Returns true if the next pass starts a program, as opposed to one whose results are already
    /// there.
    pub const fn starts_program(&self) -> bool {
        self.made.is_empty()
    }

    /// Runs one pass.
    ///
    /// # Errors
    /// If the program cannot be started or cannot run this pass, or its output cannot be parsed.
    pub fn run(&mut self, pass: Pass) -> Result<ExternalPass, TargetError> {
        let spec = &self.spec;
        let bench = &self.bench;
        let made = match spec.workload {
            Workload::Fio => fio::run(bench, spec, pass),
            Workload::Dd => dd::run(bench, spec, pass),
            Workload::Iozone | Workload::Bonniexx => {
                if self.made.is_empty() {
                    let run =
                        if spec.workload == Workload::Iozone { iozone::run } else { bonnie::run };
                    match run(bench, spec) {
                        Ok(made) => self.made = made,
                        Err(failed) => return failed.into_external_pass(pass),
                    }
                }
                let known = self.made.iter().position(|known| known.pass == pass);
                let Some(at) = known else {
                    let tool = spec.workload.name();
                    let pass = pass.name();
                    return Err(TargetError::Program(format!(
                        "{tool} reported no result for {pass}"
                    )));
                };
                Ok(self.made.swap_remove(at).figures)
            }
            _ => app::run(bench, &spec.command),
        };
        match made {
            Ok(figures) => Ok(figures.into_external_pass(pass)),
            Err(failed) => failed.into_external_pass(pass),
        }
    }

    /// Cleans up after a command.
    pub fn end(self) -> Result<(), TargetError> {
        app::clean_up(&self.bench, &self.spec.command)
    }
}

/// Returns the Debian package that contains a program, if known.
fn package_of(program: &str) -> Option<&'static str> {
    Some(match program {
        "fio" => "fio",
        "iozone" => "iozone3, in Debian's non-free part",
        "bonnie++" => "bonnie++",
        "dd" => "coreutils",
        "tar" => "tar",
        "make" => "make",
        "cc" | "gcc" => "gcc",
        _ => return None,
    })
}

fn not_started(command: &[String], error: &std::io::Error) -> TargetError {
    let program = command.first().map_or("", String::as_str);
    let hint = match package_of(program) {
        Some(package) if error.kind() == std::io::ErrorKind::NotFound => {
            format!(" (hint: install the package {package})")
        }
        _ => String::new(),
    };
    TargetError::Program(format!("cannot run `{program}`: {error}{hint}"))
}

/// Fails the pass with the tool's reason if the tool has failed.
fn ended_well(tool: &str, ended: &FinishedProgram) -> Result<(), FailedPass> {
    match ended.failure() {
        None => Ok(()),
        Some(why) => Err(FailedPass::tool(tool, &why, ended)),
    }
}
