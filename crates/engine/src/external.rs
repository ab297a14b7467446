//! Work that another program does: a command of the user's, or a tool whose figures are read.
//!
//! An [`External`] is made for one trial in the target's working directory; [`External::run`] takes
//! the place of [`crate::measure()`] for each pass. Programs are argument vectors, run in a process
//! group of their own, and end with their time-out, a request to stop or their target. What a tool
//! does not report is left out, never guessed: its histogram is empty then, and a fact says why.

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
use crate::measure::Measured;
use crate::stop::Stop;
use crate::target::{TargetError, TrialTarget};
use figures::{Failed, PassFigures};
pub use process::Moment;
use process::{Finished, Request, Watch};

/// Bytes of a tool's output that are kept to be read; none of them prints as much.
const OUTPUT_KEPT: usize = 64 << 20;

/// Longest time that a program may take to print its version.
const VERSION_LIMIT_NS: u64 = 10_000_000_000;

/// The work of an external tool in one trial.
pub struct External {
    spec: RunSpec,
    bench: Bench,
    facts: Vec<Fact>,
    /// Passes of a program that makes all of them in one go.
    made: Vec<PassFigures>,
}

/// The place where external tools run, and who watches them.
struct Bench {
    directory: PathBuf,
    clock: Arc<dyn Clock>,
    stop: Stop,
    /// Longest time that one program may take, in nanoseconds; `None` is no limit.
    limit_ns: Option<u64>,
    /// Called with the moments of each program.
    observe: Box<dyn Fn(Moment)>,
}

/// A pass that an external tool made.
pub struct Outside {
    /// Its figures, in the shape of our own.
    pub measured: Measured,
    /// Facts that the tool reported beyond them.
    pub facts: Vec<Fact>,
    /// Reads of the whole run that the pass is part of, where they can't be separated.
    pub whole_run: Option<RunReads>,
}

/// Bytes that all tests of one run of a tool read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunReads {
    /// Those that the tool says it read.
    pub read_bytes: u64,
    /// Those that storage read for it.
    pub storage_read_bytes: u64,
}

impl Bench {
    /// Runs a program to its end.
    fn run(&self, request: &Request<'_>) -> Result<Finished, TargetError> {
        let watch =
            Watch { stop: &self.stop, clock: self.clock.as_ref(), observe: self.observe.as_ref() };
        process::run(request, watch).map_err(|error| not_started(request.command, &error))
    }

    /// Runs a tool in the working directory, and keeps what it prints.
    fn run_tool(&self, command: &[String]) -> Result<Finished, TargetError> {
        self.tool_within(command, self.limit_ns)
    }

    fn tool_within(
        &self,
        command: &[String],
        limit_ns: Option<u64>,
    ) -> Result<Finished, TargetError> {
        self.run(&Request {
            command,
            directory: &self.directory,
            limit_ns,
            stdout_kept: OUTPUT_KEPT,
            plain_locale: true,
        })
    }

    /// Checks that a program is there, by the version that it prints.
    fn read_version(&self, program: &str, argument: &str) -> Result<Fact, TargetError> {
        let command = [program.to_owned(), argument.to_owned()];
        let ended = self.tool_within(&command, Some(VERSION_LIMIT_NS))?;
        let printed = String::from_utf8_lossy(&ended.stdout).into_owned() + &ended.stderr();
        // The first line with a number in it, but rather one that has the word.
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
    /// Looks for the program and sets everything up, untimed.
    ///
    /// # Errors
    /// When the program is not there, or its set-up fails.
    pub fn begin(target: &TrialTarget, spec: &RunSpec, stop: &Stop) -> Result<Self, TargetError> {
        let Some(directory) = target.local_paths().into_iter().next() else {
            return Err(TargetError::Program("a program needs a directory to work in".to_owned()));
        };
        let limit_ms = match spec.workload {
            Workload::App => spec.command.limit_ms,
            _ => spec.timeout_ms,
        };
        let bench = Bench {
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

    /// Has the programs of the passes observed from now on, in place of an earlier observer.
    pub fn observe_with(&mut self, observe: impl Fn(Moment) + 'static) {
        self.bench.observe = Box::new(observe);
    }

    /// Returns which tool it is.
    pub fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// Says whether the next pass starts a program, or is one that a program has made already.
    pub const fn starts_program(&self) -> bool {
        self.made.is_empty()
    }

    /// Runs one pass.
    ///
    /// # Errors
    /// When the program can't be started, can't make this pass, or prints what can't be read.
    pub fn run(&mut self, pass: Pass) -> Result<Outside, TargetError> {
        let (spec, bench) = (&self.spec, &self.bench);
        let made = match spec.workload {
            Workload::Fio => fio::run(bench, spec, pass),
            Workload::Dd => dd::run(bench, spec, pass),
            Workload::Iozone | Workload::Bonniexx => {
                if self.made.is_empty() {
                    let run =
                        if spec.workload == Workload::Iozone { iozone::run } else { bonnie::run };
                    match run(bench, spec) {
                        Ok(made) => self.made = made,
                        Err(failed) => return failed.outside(pass),
                    }
                }
                let known = self.made.iter().position(|known| known.pass == pass);
                let Some(at) = known else {
                    let (tool, pass) = (spec.workload.name(), pass.name());
                    return Err(TargetError::Program(format!("{tool} reported nothing of {pass}")));
                };
                Ok(self.made.swap_remove(at).figures)
            }
            _ => app::run(bench, &spec.command),
        };
        match made {
            Ok(figures) => Ok(figures.outside(pass)),
            Err(failed) => failed.outside(pass),
        }
    }

    /// Cleans up behind a command.
    ///
    /// # Errors
    /// When its clean-up fails.
    pub fn end(self) -> Result<(), TargetError> {
        app::clean_up(&self.bench, &self.spec.command)
    }
}

/// Returns the package of Debian that has a program, where it is a known one.
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
    TargetError::Program(format!("can't run `{program}`: {error}{hint}"))
}

/// Fails the pass, with the reason that a tool gave.
fn ended_well(tool: &str, ended: &Finished) -> Result<(), Failed> {
    match ended.failure() {
        None => Ok(()),
        Some(why) => Err(Failed::tool(tool, &why, ended)),
    }
}
