//! Completions and manual pages, from the same source as the help.
//!
//! Nothing here is written by hand, so nothing can lag behind: `args.rs` is the source of all
//! three.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::args::Args;
use crate::exit::{End, Failure};
use crate::output;

/// Prints the completions of a shell.
///
/// # Errors
/// When stdout can't be written.
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "dfsbench", &mut text);
    output::data(&text)?;
    Ok(End::Ok.into())
}

/// Prints the main manual page, or writes all pages to a directory.
///
/// # Errors
/// When they can't be written.
pub fn man(directory: Option<&Path>) -> Result<ExitCode, Failure> {
    let failed = |what: String, error: std::io::Error| Failure::Output {
        what,
        reason: error.to_string(),
        hint: "name a directory that exists",
    };
    if let Some(directory) = directory {
        clap_mangen::generate_to(Args::command(), directory)
            .map_err(|error| failed(format!("manual pages to {}", directory.display()), error))?;
    } else {
        let mut text = Vec::new();
        clap_mangen::Man::new(Args::command())
            .render(&mut text)
            .map_err(|error| failed("the manual page".to_owned(), error))?;
        output::data(&text)?;
    }
    Ok(End::Ok.into())
}
