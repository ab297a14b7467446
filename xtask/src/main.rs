//! Developer commands: `cargo xtask setup|test|tidy|real|vm|static|dist|fuzz|
//! peers|book|python|ansible|grafana|crates|workflows`.
//!
//! Everything that a person or CI has to do to this repository is one of these commands, so that
//! there is one way to do it. Nothing here is part of the benchmark: xtask uses no crate of the
//! layers, it runs the `dfsbench` binary like a user.
//!
//! Invariants: commands are argument vectors, never shell strings, except on virtual machines;
//! every process that is started is ended through its own handle; nothing listens off loopback,
//! except in its own network namespace.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool: it prints, waits, reads the environment and exits"
)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use real::Selection;

// Setup shared by the tests against real peers.
use checks::{native, noise, proc, repo, setup};

mod ansible;
mod book;
mod crates;
mod dist;
mod doctable;
mod fuzz;
mod gallery;
mod grafana;
mod nextest;
mod peers;
mod portable;
mod programs;
mod python;
mod real;
mod steps;
mod test;
mod tidy;
mod tools;
mod vm;
mod workflows;

/// Developers' commands of the dfsbench repository.
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Installs the tests' requirements: packages of the distribution (root; Debian and
    /// derivatives), and tools below target/.
    Setup {
        /// Reports what is missing and installs nothing.
        #[arg(long)]
        check: bool,
    },
    /// Checks the rules of the project that the compiler doesn't check.
    Tidy,
    /// Everything that CI checks: setup, format, clippy, tidy, docs, tests, real peers, browser.
    Test {
        /// Makes only the checks of the inner loop: format, clippy, tidy, licenses, links, fast
        /// tests.
        #[arg(long)]
        quick: bool,
        /// Omits everything that needs root and packages: setup, real peers and browser.
        #[arg(long, conflicts_with = "quick")]
        no_real: bool,
    },
    /// Only the tests against real peers and a real browser.
    Real {
        /// Runs only the groups whose name contains this: interop, ganesha, server, disk, strace,
        /// browser, lab, ladder, loss, vm, vm_lab, vm_plans, hosts, agent_group, cluster, fuzz; or
        /// one that takes long: systems, unpackaged, kernel_clients, localio, vm_forky, vm_v2.
        group: Option<String>,
        /// Runs only the tests of these groups whose name contains this.
        test: Option<String>,
    },
    /// Virtual machines with the Linux kernel's NFS server and clients (root).
    Vm(vm::Options),
    /// Builds a `dfsbench` that needs no libraries, for machines of any age; prints its path.
    Static,
    /// Creates a release below target/dist: program, packages, image, licenses, hashes.
    Dist(dist::Options),
    /// Feeds the decoders and state machines with input that no peer would send.
    Fuzz(fuzz::Options),
    /// Creates the book of `docs/`, with search and the manual of each command, in `target/book`.
    Book,
    /// Tests the Python package and executes its notebook, with packages of an index.
    Python,
    /// Lints the Ansible role and runs it on two hosts that are network namespaces (root).
    Ansible,
    /// Checks the dashboard against Grafana's schema, with Go.
    Grafana,
    /// Packs the crates as for crates.io, and installs the program using only these packages.
    Crates,
    /// Lints the workflows for GitHub and the example of our action by actionlint.
    Workflows,
    /// Performance as ratios against fio, libnfs and iperf3, on the same work in the same minutes.
    Peers(peers::Options),
}

fn main() -> ExitCode {
    let outcome = run(Args::parse().command);
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one command; returns `false` if something that it checks failed.
fn run(task: Task) -> anyhow::Result<bool> {
    match task {
        Task::Setup { check: true } => {
            setup::check_installed()?;
            tools::check_installed()?;
            Ok(true)
        }
        Task::Setup { check: false } => {
            setup::install_missing()?;
            tools::install_missing()?;
            Ok(true)
        }
        Task::Tidy => tidy::run(),
        Task::Test { quick: true, .. } => Ok(test::quick()),
        Task::Test { no_real: true, .. } => Ok(test::without_real()),
        Task::Test { .. } => Ok(test::everything()),
        Task::Real { group, test } => {
            let selection = Selection { group: group.as_deref(), test: test.as_deref() };
            Ok(test::real_only(selection))
        }
        Task::Vm(options) => vm::run(&options),
        Task::Static => portable::build_and_print(),
        Task::Dist(options) => dist::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Book => book::build(),
        Task::Python => Ok(python::run()),
        Task::Ansible => Ok(ansible::run()),
        Task::Grafana => Ok(grafana::run()),
        Task::Crates => crates::run(),
        Task::Workflows => Ok(workflows::run()),
        Task::Peers(options) => peers::run(&options),
    }
}
