//! Tips for words of the command line that this program doesn't have.
//!
//! clap suggests whatever looks alike: `--depth` for fio's `--iodepth`. [`improve_suggestions`]
//! knows what other tools call our options, looks for slips such as `rnu`, and else suggests
//! nothing.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use plan::{key_elsewhere, nearest_word};

/// Replaces the suggestions of an error; `first` is the command in use.
pub fn improve_suggestions(error: clap::Error, first: &str, command: &Command) -> clap::Error {
    match error.kind() {
        ErrorKind::InvalidSubcommand => suggest_command(error, command),
        ErrorKind::UnknownArgument => match command.find_subcommand(first) {
            Some(below) => suggest_option(error, below),
            None => error,
        },
        _ => error,
    }
}

/// Suggests the visible command that a word was most likely meant to be.
fn suggest_command(mut error: clap::Error, command: &Command) -> clap::Error {
    let mut names = Vec::new();
    for below in command.get_subcommands() {
        if !below.is_hide_set() {
            names.push(below.get_name());
        }
    }
    error.remove(ContextKind::SuggestedSubcommand);
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(name) = nearest_word(given, &names)
    {
        let names = ContextValue::Strings(vec![name.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, names);
    }
    error
}

/// Returns true for the begin of a value such as `-5s`, which was taken for an option.
fn is_negative(given: &str) -> bool {
    given.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Suggests the option that another tool calls so, or that is spelled much alike.
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
    let mut options = Vec::new();
    for arg in below.get_arguments().filter(|arg| !arg.is_hide_set()) {
        options.extend(arg.get_long());
    }
    // Both were made for an option that is none of these.
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
