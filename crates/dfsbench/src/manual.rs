//! Completions and manual pages, from the same source as the help.
//!
//! Nothing here is written by hand, so nothing can lag behind: `args.rs` is the source of all
//! three.

use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _};

use crate::args::Args;
use crate::exit::{End, Failure};
use crate::output;
use crate::output_file;

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
    let mut root = Args::command();
    let Some(directory) = directory else {
        output::data(&render_page(&root)?)?;
        return Ok(End::Ok.into());
    };
    // Gives each command the name of its page, such as `dfsbench-run`.
    root = root.disable_help_subcommand(true);
    root.build();
    write_pages(&root, directory)?;
    Ok(End::Ok.into())
}

/// Writes the page of a command and of all below it.
fn write_pages(command: &Command, directory: &Path) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    output_file::write(&directory.join(format!("{name}.1")), &render_page(command)?, None)?;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, directory)?;
    }
    Ok(())
}

fn render_page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(|error| Failure::Output {
        what: "the manual page".to_owned(),
        reason: error.to_string(),
        hint: "this is a bug of dfsbench",
    })?;
    Ok(text)
}
