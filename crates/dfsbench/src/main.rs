//! dfsbench: benchmarks NFS and other distributed file systems, and reports how far each number can
//! be trusted.
//!
//! This is the only crate that prints, exits the process, or accesses the environment and the
//! calendar. Data goes to stdout, progress and messages go to stderr; exit codes are defined in
//! `exit.rs`.
#![warn(unreachable_pub)]
#![allow(
    clippy::disallowed_methods,
    reason = "the binary owns the calendar, the environment and the exit"
)]

mod args;
mod calendar;
mod commands;
mod exit;
mod files;
mod hosts;
mod http;
mod metrics;
mod plans;
mod server;
mod signals;
mod stored;
mod terminal;

use std::process::ExitCode;

use args::defaults::UsedDefault;
use args::{AgentArgs, Command};
use commands::{
    agent, bisect, bundle, campaign, capture, catalog, clean, compare, config, contenders,
    contents, curve, describe, durability, k8s, ladder, manual, pace, probe, ramp, render, replay,
    resume, serve, slurm, soak, systems, verify, view,
};
use exit::Failure;
use plans::presets;

fn main() -> ExitCode {
    signals::make_file_limit_an_error();
    exit::note_panics();
    let run = || run_command().and_then(exit::check_restored);
    exit::catch_panics(run).unwrap_or_else(|failure| {
        let failure = if signals::is_stopped() { failure.after_stop() } else { failure };
        Failure::end(&with_origin(failure))
    })
}

/// Adds the origin of a wrong value to the message, if it wasn't set on the command line.
fn with_origin(failure: Failure) -> Failure {
    if failure.code() != 2 {
        return failure;
    }
    let message = failure.to_string();
    for default in args::defaults::used_defaults() {
        let mut words = message.split(|c: char| !c.is_alphanumeric() && c != '-');
        let names_value =
            default.values.iter().any(|value| value.len() > 3 && message.contains(value));
        if names_value || words.any(|word| word == default.flag) {
            let UsedDefault { flag, origin, .. } = default;
            return Failure::Usage(format!("{message}; {flag} is set by {origin}"));
        }
    }
    failure
}

fn run_command() -> Result<ExitCode, Failure> {
    if let Some(args) = AgentArgs::alone(std::env::args_os()) {
        return agent::run(&args);
    }
    let args = args::parse()?;
    match args.command.unwrap_or_else(Command::quick) {
        Command::Run(run) => match run.until_broken {
            Some(clients_max) => ramp::until_broken(&run, clients_max),
            None if run.estimate.probe => pace::run(&run),
            None => campaign::run(&run),
        },
        Command::Ramp(args) => ramp::run(&args),
        Command::Curve(args) => curve::run(&args),
        Command::Soak(soak) => soak::run(&soak),
        Command::Durability(args) => durability::run(&args),
        Command::DurabilityClient => durability::run_client(),
        Command::Ladder(args) => ladder::run(&args),
        Command::Preset(args) => presets::run(args.name.as_deref()),
        Command::Systems(args) => systems::run(&args),
        Command::Resume(args) => resume::run(&args),
        Command::List(args) => catalog::list(&args),
        Command::Show(args) => catalog::show(&args),
        Command::Note(args) => catalog::note(&args),
        Command::Tag(args) => catalog::tag(&args),
        Command::Rm(args) => catalog::rm(&args),
        Command::Import(args) => catalog::import(&args),
        Command::Export(args) => catalog::export(&args),
        Command::Bundle(args) => bundle::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Report(report) => render::report(&report),
        Command::View(args) => view::run(&args),
        Command::Compare(args) if args.bisect => bisect::run(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Contenders(args) => contenders::run(&args),
        Command::Factors(args) => compare::factors(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Describe(args) => describe::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Probe(probe) => probe::run(&probe),
        Command::Serve(serve) => serve::run(&serve),
        Command::Cat(cat) => contents::cat(&cat),
        Command::Pattern(pattern) => contents::pattern(&pattern),
        Command::Clean(args) => clean::run(&args),
        Command::Slurm(args) => slurm::run(&args),
        Command::K8s(args) => k8s::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { directory } => manual::man(directory.as_deref()),
    }
}
