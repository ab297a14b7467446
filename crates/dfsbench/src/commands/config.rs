//! `dfsbench config`: shows which defaults are in effect and where each one is set.
//!
//! Nothing is changed. The defaults are read by `crate::args`.

use std::process::ExitCode;

use clap::{Arg, Command};
use serde_json::{Value, json};

use crate::args::defaults::{CheckedEntry, Defaults, is_switch, settable_name};
use crate::args::{self, ConfigArgs};
use crate::exit::{End, Failure};
use crate::terminal::output::{self, Printable};

/// Shows the defaults that are set, or all flags of a command.
///
/// # Errors
/// If the configuration is invalid or there is no such command.
pub(crate) fn run(args: &ConfigArgs) -> Result<ExitCode, Failure> {
    let mut command = args::command();
    let file = args::config_file();
    let defaults = Defaults::read(&mut command, &file)?;
    let shown = match &args.command {
        None => list_entries(&defaults, &command),
        Some(name) => list_flags(&defaults, find_command(&command, name)?),
    };
    if args.json {
        let path = file.path().map(|path| path.display().to_string());
        let exists = file.path().is_some_and(std::path::Path::exists);
        let rows: Vec<Value> = shown.iter().map(Row::json).collect();
        let text = json!({ "file": path, "exists": exists, "defaults": rows });
        output::print(&Printable::json(&format!("{text:#}\n")))?;
        return Ok(End::Ok.into());
    }
    let place = match file.path() {
        Some(path) if path.exists() => format!("file: {}\n", path.display()),
        Some(path) => format!("file: {} (does not exist)\n", path.display()),
        None => "file: none (HOME is not set)\n".to_owned(),
    };
    let mut table = vec![["flag", "value", "from", "commands"].map(str::to_owned).to_vec()];
    table.extend(shown.iter().map(Row::cells));
    let text = match shown.as_slice() {
        [] => format!("{place}only built-in defaults\n"),
        _ => format!("{place}{}", report::align_columns(&table)),
    };
    output::text(&text)?;
    Ok(End::Ok.into())
}

struct Row {
    flag: String,
    value: String,
    from: String,
    /// Names of the commands in which the default takes effect.
    commands: Vec<String>,
    /// Number of all commands with this flag; 0 if only one command is shown.
    with_flag: usize,
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let commands = match self.commands.len() {
            0 => "none (overridden)".to_owned(),
            count if count == self.with_flag && count > 1 => "all with this flag".to_owned(),
            _ => self.commands.join(" "),
        };
        vec![format!("--{}", self.flag), self.value.clone(), self.from.clone(), commands]
    }

    fn json(&self) -> Value {
        json!({
            "flag": self.flag,
            "value": self.value,
            "from": self.from,
            "commands": self.commands,
        })
    }
}

fn find_command<'a>(command: &'a Command, name: &str) -> Result<&'a Command, Failure> {
    let mut known = Vec::new();
    for below in command.get_subcommands() {
        if !below.is_hide_set() {
            known.push(below.get_name());
        }
        if below.get_name() == name && !below.is_hide_set() {
            return Ok(below);
        }
    }
    let hint = match plan::nearest_word(name, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`dfsbench --help` lists the commands".to_owned(),
    };
    Err(Failure::Usage(format!("there is no command `{name}` (hint: {hint})")))
}

/// Lists everything set by the environment and the file, and in which commands it takes effect.
fn list_entries(defaults: &Defaults, command: &Command) -> Vec<Row> {
    let mut rows = Vec::new();
    for CheckedEntry { entry, .. } in defaults.entries() {
        let mut commands = Vec::new();
        let mut with_flag = 0;
        for below in command.get_subcommands() {
            let has_it = |arg: &Arg| settable_name(arg) == Some(entry.flag.as_str());
            with_flag += usize::from(!below.is_hide_set() && below.get_arguments().any(has_it));
            if defaults.for_command(below).values().any(|winner| std::ptr::eq(*winner, entry)) {
                commands.push(below.get_name().to_owned());
            }
        }
        rows.push(Row {
            flag: entry.flag.clone(),
            value: entry.values.join(","),
            from: entry.origin.to_string(),
            commands,
            with_flag,
        });
    }
    rows
}

/// Lists all flags of a command with their defaults.
fn list_flags(defaults: &Defaults, command: &Command) -> Vec<Row> {
    let found = defaults.for_command(command);
    let mut rows = Vec::new();
    for arg in command.get_arguments() {
        let Some(flag) = settable_name(arg) else { continue };
        let (value, from) = match found.get(arg.get_id().as_str()) {
            Some(entry) => (entry.values.join(","), entry.origin.to_string()),
            None => (built_in(arg), "built in".to_owned()),
        };
        rows.push(Row {
            flag: flag.to_owned(),
            value,
            from,
            commands: vec![command.get_name().to_owned()],
            with_flag: 0,
        });
    }
    rows
}

/// Returns the built-in default: the one known to clap or the one given in the help.
fn built_in(arg: &Arg) -> String {
    let values: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if !values.is_empty() {
        return values.join(",");
    }
    if is_switch(arg) {
        return "false".to_owned();
    }
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    match help.rsplit_once("[default: ") {
        Some((_, rest)) => rest.split(']').next().unwrap_or_default().replace('\n', " "),
        None => "-".to_owned(),
    }
}
