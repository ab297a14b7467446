//! Suggestions for unknown words on the command line.
//!
//! clap suggests anything that looks similar: `--depth` for fio's `--iodepth`.
//! [`improve_suggestions`] uses the names that other tools have for our options, detects typos such
//! as `rnu`, and otherwise suggests nothing.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use plan::{key_elsewhere, nearest_word};

/// Replaces the suggestions of an error; `first` is the current command.
pub(super) fn improve_suggestions(
    error: clap::Error,
    first: &str,
    command: &Command,
) -> clap::Error {
    match error.kind() {
        ErrorKind::InvalidSubcommand => suggest_command(error, command),
        ErrorKind::UnknownArgument => match command.find_subcommand(first) {
            Some(below) => suggest_option(error, below),
            None => error,
        },
        _ => error,
    }
}

/// Suggests the visible command that was most likely meant.
fn suggest_command(mut error: clap::Error, command: &Command) -> clap::Error {
    let names: Vec<_> = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .map(Command::get_name)
        .collect();
    error.remove(ContextKind::SuggestedSubcommand);
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(name) = nearest_word(given, &names)
    {
        let names = ContextValue::Strings(vec![name.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, names);
    }
    error
}

/// Returns true for the beginning of a value such as `-5s`, which clap takes for an option.
fn is_negative(given: &str) -> bool {
    given.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Suggests the option that another tool calls by this name, or that is spelled similarly.
fn suggest_option(mut error: clap::Error, below: &Command) -> clap::Error {
    let given = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(given)) if given.starts_with("--") => given.clone(),
        Some(ContextValue::String(given)) if is_negative(given) => {
            error.remove(ContextKind::Suggested);
            let tip = StyledStr::from("values can't be negative");
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
            return error;
        }
        _ => return error,
    };
    let options: Vec<_> = below
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .filter_map(|arg| arg.get_long())
        .collect();
    // clap made both for a different option.
    error.remove(ContextKind::Suggested);
    error.remove(ContextKind::Usage);
    error.remove(ContextKind::SuggestedArg);
    let name = given.trim_start_matches('-');
    let key = match key_elsewhere(name) {
        Some("kind") => Some("workload".to_owned()),
        other => other.map(|key| key.replace('_', "-")),
    };
    if let Some(ours) = key.filter(|key| options.contains(&key.as_str())) {
        let tip = StyledStr::from(format!("it is called '--{ours}' here"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    } else if let Some(near) = nearest_word(name, &options) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{near}")));
    }
    error
}
