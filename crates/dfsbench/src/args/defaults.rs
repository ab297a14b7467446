//! Defaults of flags that users set in a configuration file or in the environment.
//!
//! [`Defaults`] is the main type. Keys are the long names of flags, so there is no list of them
//! here: names, values and conflicts come from clap's own command. A value becomes the default of
//! its flag rather than a word of the command line. So a flag that is given wins, and a default
//! doesn't affect `requires` and `conflicts_with`.
//!
//! Agents don't read the file: a host does what its controller requests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Mutex;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};

use super::config_file::{ConfigFile, Entry, RESULTS_VARIABLE};
use crate::exit::Failure;
use crate::terminal::output::lock_always;

/// Flags that consent to data loss: they are only accepted on the command line.
const CONSENT: [&str; 6] = [
    "allow-destroy",
    "allow-program",
    "confirm-lose-server",
    "confirm-power-cut",
    "forget",
    "really",
];

/// A default that the current command uses.
#[derive(Clone, Debug)]
pub(crate) struct UsedDefault {
    /// Name of the command that the flag belongs to: another one for flags after `--`.
    pub command: String,
    /// The flag with its dashes.
    pub flag: String,
    /// Values of the flag.
    pub values: Vec<String>,
    /// The variable, or the file and line.
    pub origin: String,
}

static USED: Mutex<Vec<UsedDefault>> = Mutex::new(Vec::new());

/// Returns the defaults of this process that are not built in.
pub(crate) fn used_defaults() -> Vec<UsedDefault> {
    lock_always(&USED).clone()
}

/// All defaults set by the environment and the file.
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    entries: Vec<CheckedEntry>,
}

/// An entry, and the commands that it applies to.
#[derive(Debug)]
pub(crate) struct CheckedEntry {
    /// Entry of the file or the environment.
    pub entry: Entry,
    /// Names of the commands whose flag accepts the value.
    pub commands: Vec<String>,
}

impl Defaults {
    /// Reads the environment and the file, and checks them against the commands.
    ///
    /// # Errors
    /// If the file can't be read, isn't TOML, or has a key or a value that no flag accepts.
    pub(crate) fn read(command: &mut Command, file: &ConfigFile) -> Result<Self, Failure> {
        let mut defaults = Self::default();
        for entry in file.read()? {
            defaults.entries.push(CheckedEntry::new(entry, command)?);
        }
        if let Some(path) = results_of_environment()? {
            defaults
                .entries
                .push(CheckedEntry::new(Entry::from_variable("results", path), command)?);
        }
        Ok(defaults)
    }

    /// Returns the entries: those for all commands first, then those of tables, then those of the
    /// environment. Later ones win.
    pub(crate) fn entries(&self) -> Vec<&CheckedEntry> {
        let mut entries: Vec<&CheckedEntry> = self.entries.iter().collect();
        entries.sort_by_key(|checked| checked.entry.rank());
        entries
    }

    /// Returns the default of each flag of a command, by the flag's id.
    pub(crate) fn for_command(&self, command: &Command) -> BTreeMap<String, &Entry> {
        self.entries()
            .into_iter()
            .filter(|CheckedEntry { commands, .. }| {
                commands.iter().any(|name| name == command.get_name())
            })
            .filter_map(|CheckedEntry { entry, .. }| {
                find_flag(command, &entry.flag).map(|arg| (arg.get_id().to_string(), entry))
            })
            .collect()
    }

    /// Applies the defaults to a command, except for ignored flags and those that conflict with
    /// given ones.
    ///
    /// # Errors
    /// If two defaults of the file conflict with each other.
    pub(crate) fn apply(
        &self,
        command: Command,
        in_use: &str,
        given: Option<&ArgMatches>,
        ignored: &[&str],
    ) -> Result<Command, Failure> {
        let Some(used) = command.find_subcommand(in_use) else { return Ok(command) };
        let mut found = self.for_command(used);
        found.retain(|id, entry| {
            let is_ignored = ignored.iter().any(|flag| *flag == format!("--{}", entry.flag));
            !is_ignored && is_set(entry, used) && !is_excluded(used, id, given)
        });
        check_conflicts(used, &found)?;
        let mut noted = Vec::new();
        for (id, entry) in &found {
            let is_given = given.is_some_and(|given| is_given(given, id));
            if !is_given {
                noted.push(UsedDefault {
                    command: in_use.to_owned(),
                    flag: format!("--{}", entry.flag),
                    values: entry.values.clone(),
                    origin: entry.origin.to_string(),
                });
            }
        }
        lock_always(&USED).extend(noted);
        let mut values: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
        for (id, entry) in found {
            values.insert(id, leak(&entry.values));
        }
        Ok(command.mut_subcommands(|command| {
            if command.get_name() == in_use { with_defaults(command, &values) } else { command }
        }))
    }
}

/// Leaks the strings: clap's defaults are static, and the command line lives as long as the
/// process.
fn leak(values: &[String]) -> Vec<&'static str> {
    let mut kept: Vec<&'static str> = Vec::new();
    for value in values {
        kept.push(value.clone().leak());
    }
    kept
}

fn with_defaults(command: Command, values: &BTreeMap<String, Vec<&'static str>>) -> Command {
    command.mut_args(|arg| match values.get(arg.get_id().as_str()) {
        // A required flag has its value now.
        Some(values) => arg.required(false).default_values(values.clone()),
        None => arg,
    })
}

/// Reads the variable for the results file; an empty one counts as unset.
fn results_of_environment() -> Result<Option<String>, Failure> {
    match std::env::var_os(RESULTS_VARIABLE) {
        None => Ok(None),
        Some(path) if path.is_empty() => Ok(None),
        Some(path) => match path.into_string() {
            Ok(path) => Ok(Some(path)),
            Err(path) => Err(Failure::Usage(format!(
                "{RESULTS_VARIABLE}: {} is not valid UTF-8 (hint: --results accepts any path)",
                path.display()
            ))),
        },
    }
}

impl CheckedEntry {
    /// Finds the commands that accept an entry.
    fn new(mut entry: Entry, command: &mut Command) -> Result<Self, Failure> {
        if CONSENT.contains(&entry.flag.as_str()) {
            let what = format!("`{}` can't have a default", entry.flag);
            let hint = format!("pass --{} on the command line", entry.flag);
            return Err(entry.refused(&what, &hint));
        }
        let scope = commands_in_scope(&entry, command)?;
        let mut commands = Vec::new();
        let mut refusal = None;
        let mut is_known = false;
        for name in scope {
            let below = command.find_subcommand(&name);
            let Some(arg) = below.and_then(|below| find_flag(below, &entry.flag)) else {
                continue;
            };
            is_known = true;
            let arg = arg.clone();
            entry.expand_home(arg.get_value_hint());
            match check_values(command, &name, &arg, &entry) {
                Ok(()) => commands.push(name),
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        match refusal {
            _ if !is_known => Err(unknown_flag(&entry, command)),
            Some((what, hint)) if commands.is_empty() => Err(entry.refused(&what, &hint)),
            // A value for all commands is ignored by those whose flag has other values.
            _ => Ok(Self { entry, commands }),
        }
    }
}

/// Lists the commands that an entry is intended for.
fn commands_in_scope(entry: &Entry, command: &Command) -> Result<Vec<String>, Failure> {
    let names: Vec<_> = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .map(|below| below.get_name().to_owned())
        .collect();
    let Some(table) = &entry.table else { return Ok(names) };
    if names.contains(table) {
        return Ok(vec![table.clone()]);
    }
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let hint = match plan::nearest_word(table, &known) {
        Some(near) => format!("did you mean [{near}]?"),
        None => "tables have the names of commands, such as [run]".to_owned(),
    };
    Err(entry.refused(&format!("there is no command `{table}`"), &hint))
}

fn unknown_flag(entry: &Entry, command: &Command) -> Failure {
    let mut known: Vec<&str> = Vec::new();
    for below in command.get_subcommands() {
        let is_meant = match &entry.table {
            Some(table) => below.get_name() == table,
            None => !below.is_hide_set(),
        };
        for arg in below.get_arguments() {
            if is_meant && let Some(long) = settable_name(arg) {
                known.push(long);
            }
        }
    }
    let of = match &entry.table {
        Some(table) => format!("`dfsbench {table}` has no flag"),
        None => "no command has a flag".to_owned(),
    };
    let hint = match plan::nearest_word(&entry.flag, &known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("`dfsbench {} --help` lists them", entry.table.as_deref().unwrap_or("run")),
    };
    entry.refused(&format!("{of} `--{}`", entry.flag), &hint)
}

/// Finds the flag with a long name.
fn find_flag<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| settable_name(arg) == Some(name))
}

/// Returns the long name of a flag that can have a default.
pub(crate) fn settable_name(arg: &Arg) -> Option<&str> {
    let long = arg.get_long()?;
    let is_help = matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    );
    if is_help { None } else { Some(long) }
}

/// Returns true if a flag takes no value.
pub(crate) fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse)
}

/// Checks the values as clap checks those of the command line.
///
/// # Errors
/// The problem, and a hint.
fn check_values(
    command: &mut Command,
    name: &str,
    arg: &Arg,
    entry: &Entry,
) -> Result<(), (String, String)> {
    let flag = &entry.flag;
    let shown = entry.values.join(",");
    if is_switch(arg) {
        return match entry.values.as_slice() {
            [one] if one == "true" || one == "false" => Ok(()),
            _ => Err((format!("`{flag} = {shown}`"), "write true or false".to_owned())),
        };
    }
    let takes_many =
        matches!(arg.get_action(), ArgAction::Append) || arg.get_value_delimiter().is_some();
    if entry.values.len() != 1 && !takes_many {
        return Err((
            format!("`{flag}` has {} values", entry.values.len()),
            "it takes one".to_owned(),
        ));
    }
    let mut words = vec![OsString::from("dfsbench"), OsString::from(name)];
    words.extend(entry.values.iter().map(|value| format!("--{flag}={value}").into()));
    let Err(error) = command.try_get_matches_from_mut(words) else { return Ok(()) };
    // Other arguments that a command requires or excludes don't matter for a default.
    if !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        return Ok(());
    }
    let text = error.to_string();
    let mut lines = text.trim_start_matches("error: ").lines();
    let what = lines.next().unwrap_or_default().to_owned();
    let words = lines.find(|line| line.contains("[possible values"));
    let hint = match words {
        Some(words) => words.trim().trim_matches(['[', ']']).to_owned(),
        None => format!("`dfsbench {name} --help` describes --{flag}"),
    };
    Err((what, hint))
}

/// Returns true if an entry sets its flag: `quick = false` sets nothing.
fn is_set(entry: &Entry, command: &Command) -> bool {
    let is_off = entry.values == ["false"];
    !(is_off && find_flag(command, &entry.flag).is_some_and(is_switch))
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.ids().any(|known| known.as_str() == id)
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Returns true if a given flag excludes another one.
fn is_excluded(command: &Command, id: &str, given: Option<&ArgMatches>) -> bool {
    let Some(given) = given else { return false };
    command.get_arguments().map(|arg| arg.get_id().as_str()).any(|other| {
        other != id && is_given(given, other) && exclude_each_other(command, id, other)
    })
}

fn check_conflicts(command: &Command, found: &BTreeMap<String, &Entry>) -> Result<(), Failure> {
    for (id, entry) in found {
        for (other_id, other) in found {
            if entry.line() > other.line() && exclude_each_other(command, id, other_id) {
                let what = format!(
                    "`{}` and `{}` of line {} cannot be combined",
                    entry.flag,
                    other.flag,
                    other.line()
                );
                return Err(entry.refused(&what, "remove one, or set it to false"));
            }
        }
    }
    Ok(())
}

/// Returns true if two flags exclude each other, by clap's rules or like `--udp` and `--no-udp`.
fn exclude_each_other(command: &Command, one: &str, other: &str) -> bool {
    for (id, excluded) in [(one, other), (other, one)] {
        if id.strip_prefix("no_") == Some(excluded) {
            return true;
        }
        let Some(arg) = command.get_arguments().find(|arg| arg.get_id() == id) else { continue };
        if command.get_arg_conflicts_with(arg).iter().any(|arg| arg.get_id() == excluded) {
            return true;
        }
    }
    false
}

impl Entry {
    /// Expands `~/` in flags that take a path, since no shell has read the file.
    fn expand_home(&mut self, hint: ValueHint) {
        let is_path = matches!(
            hint,
            ValueHint::AnyPath
                | ValueHint::FilePath
                | ValueHint::DirPath
                | ValueHint::ExecutablePath
        );
        let Some(home) = std::env::var("HOME").ok().filter(|_| is_path && self.line() > 0) else {
            return;
        };
        for value in &mut self.values {
            if let Some(rest) = value.strip_prefix("~/") {
                *value = format!("{}/{rest}", home.trim_end_matches('/'));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values to try for a flag until it accepts one.
    const SAMPLES: [&str; 8] = ["1", "1s", "8", "20", "200", "127.0.0.1:0", "x", "true"];

    fn defaults(text: &str) -> Result<Defaults, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        let read = Defaults::read(&mut super::super::command(), &ConfigFile::new(Some(path)));
        read.map_err(|failure| failure.to_string())
    }

    fn sample(arg: &Arg) -> Vec<String> {
        let mut samples: Vec<_> =
            arg.get_possible_values().into_iter().map(|word| word.get_name().to_owned()).collect();
        samples.extend(SAMPLES.map(str::to_owned));
        samples
    }

    /// Words of a command line with all arguments that the command requires, except for one flag.
    fn words(command: &Command, but_for: &Arg) -> Vec<String> {
        let mut words = vec!["dfsbench".to_owned(), command.get_name().to_owned()];
        for arg in command.get_arguments() {
            if arg.is_required_set() && arg.get_id() != but_for.get_id() {
                let value = sample(arg)[0].clone();
                match arg.get_long() {
                    Some(long) => words.push(format!("--{long}={value}")),
                    None => words.push(value),
                }
            }
        }
        // These are only required without the other argument.
        match command.get_name() {
            "tag" => words.push("a-tag".to_owned()),
            "capture" => words.push("traffic.pcap".to_owned()),
            "verify" => words.push("a.dfsb".to_owned()),
            _ => {}
        }
        words
    }

    #[test]
    fn configures_every_flag() {
        let command = super::super::command();
        let mut set = 0;
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            for arg in below.get_arguments() {
                let Some(flag) = settable_name(arg).filter(|flag| !CONSENT.contains(flag)) else {
                    continue;
                };
                let name = below.get_name();
                let found = sample(arg).into_iter().find_map(|value| {
                    let value =
                        if is_switch(arg) { "true".to_owned() } else { format!("'{value}'") };
                    defaults(&format!("[{name}]\n{flag} = {value}")).ok()
                });
                let defaults = found.unwrap_or_else(|| panic!("[{name}] {flag}"));
                let found = defaults.for_command(below);
                let entry = found[arg.get_id().as_str()];
                let values = [(arg.get_id().to_string(), leak(&entry.values))].into();
                let mut with = command.clone().mut_subcommands(|command| {
                    if command.get_name() == name {
                        with_defaults(command, &values)
                    } else {
                        command
                    }
                });
                let matches = with.try_get_matches_from_mut(words(below, arg)).unwrap();
                let id = arg.get_id().as_str();
                let matches = matches.subcommand_matches(name).unwrap();
                let raw: Vec<_> = matches.get_raw(id).unwrap().collect();
                assert_eq!(raw, [entry.values[0].as_str()], "[{name}] {flag}");
                assert_eq!(matches.value_source(id), Some(ValueSource::DefaultValue));
                set += 1;
            }
        }
        assert!(set > 700, "{set} flags");
    }

    #[test]
    fn rejects_unknown_key_with_line() {
        let errors = [
            "\nresult = 'a'",
            "[run]\nio_sice = '4KiB'",
            "[list]\nio_size = '4KiB'",
            "[runn]\nquick = true",
            "[agent]\nstdio = true",
            "[run]\nquick = 'yes'",
            "[run]\nformat = 'tabel'",
            "format = 'tabel'",
            "[run]\ntrials = [1, 2]",
            "[run]\nallow_destroy = '/dev/sda'",
            "[run]\nhelp = true",
        ]
        .map(|text| {
            let error = defaults(text).unwrap_err();
            error.split_once("/config.toml:").unwrap().1.to_owned()
        });
        for error in &errors {
            assert_eq!(error.matches("(hint: ").count(), 1, "{error}");
        }
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn prefers_values_from_command_table() {
        let defaults =
            defaults("format = 'markdown'\nresults = 'a.db'\n[report]\nformat = 'csv'").unwrap();
        let command = super::super::command();
        for (name, format) in
            [("run", Some("markdown")), ("report", Some("csv")), ("export", None), ("show", None)]
        {
            let found = defaults.for_command(command.find_subcommand(name).unwrap());
            assert_eq!(found.get("format").map(|it| it.values[0].as_str()), format, "{name}");
            assert_eq!(found["results"].values, ["a.db"]);
        }
    }

    #[test]
    fn finds_exclusive_flags() {
        let command = super::super::command();
        let below = |name| command.find_subcommand(name).unwrap();
        assert!(exclude_each_other(below("run"), "quick", "thorough"));
        assert!(exclude_each_other(below("run"), "thorough", "quick"));
        assert!(exclude_each_other(below("serve"), "udp", "no_udp"));
        assert!(!exclude_each_other(below("run"), "quick", "trials"));
    }
}
