//! The layout of help texts: which of the many options `-h` shows, and which `--help` shows.
//!
//! [`command`] is the command line as users see it; completions and manual pages are made from it,
//! too. For a command that measures, `-h` is one screen: its own options and those of [`COMMON`].
//! Nothing here changes the meaning of an option.

use std::ffi::OsString;
use std::path::Path;

use clap::builder::{PossibleValuesParser, StyledStr};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, CommandFactory as _, FromArgMatches as _};
use clap_complete::Shell;
use model::printable::is_steering;
use model::setting::{Kind, Setting};
use model::{BackendKind, Workload};
use report::ReportDetail;
use workload::opmix::PROFILES;

use super::config_file::ConfigFile;
use super::defaults::Defaults;
use super::examples::fit_examples;
use super::groups::group_commands;
use super::run::FEW_EXAMPLES;
use super::settings::own_words;
use super::{Args, EXAMPLES, RunArgs, suggestion};
use crate::exit::{self, Failure};
use crate::files::user_dirs;
use crate::plans::presets::Preset;
use crate::terminal::output;

/// Commands that accept the options of `dfsbench run`.
const MEASURING: [&str; 6] = ["run", "ramp", "curve", "soak", "ladder", "resume"];

/// The most common options of `dfsbench run`, which `-h` shows, each with its text there; if the
/// text is empty, that of `--help` is used.
const COMMON: [(&str, &str); 23] = [
    ("target", "A directory, nfs://host[:port]/export, a plan file or a preset"),
    ("workload", "Kind of work: stream, mixed, metadata, op_mix, transactions, fio, dd, ..."),
    ("backend", "How ops are executed: posix or uring for a directory, nfs for a server"),
    ("io_size", "Size of one read or write [default: stream: 1MiB; mixed: 4KiB]"),
    ("file_size", "Size of each data file [default: 64MiB]"),
    ("files", "Total number of data files [default: one per worker]"),
    ("workers", "Threads that issue ops on each client host [default: 1]"),
    ("direct", "Bypass the page cache with O_DIRECT"),
    ("duration", "Duration of a pass of mixed, op_mix and database [default: 1s]"),
    ("rate", "Offered load in op/s (open loop) [default: 0, closed loop]"),
    ("durability", "Durability of writes: none, close, sync, dsync or osync [default: sync]"),
    ("nfsvers", "NFS version: 2, 3, 4.0, 4.1 or 4.2 [default: 3]"),
    ("proto", "NFS transport: tcp or udp [default: tcp]"),
    ("transfer_size", "Maximum payload of READ and WRITE (rsize, wsize) [default: server]"),
    ("quick", ""),
    ("thorough", ""),
    ("trials", "Repetitions of each run [default: 5]"),
    ("until", "Stop a run once half its 95 % interval is within this share, such as 5%"),
    ("name", ""),
    ("results", ""),
    ("format", ""),
    ("watch", "Show a full screen of live results; press q to stop"),
    ("dry_run", ""),
];

/// Headings of options that only one command has; its `-h` shows all of them.
const OWN_HEADINGS: [&str; 4] = ["Curve", "Ramp", "Soak", "Ladder"];

/// Builds the command line with its layout.
pub(crate) fn command() -> Command {
    // All at once, because `mut_subcommand` would move each one to the end of the list.
    group_commands(Args::command().mut_subcommands(|command| match command.get_name() {
        "run" => arrange(command).after_help(FEW_EXAMPLES).after_long_help(EXAMPLES),
        name if MEASURING.contains(&name) => arrange(command),
        _ => command,
    }))
}

/// Hides the rare options of a command from `-h`, and moves `--help` behind the command's own
/// options.
fn arrange(command: Command) -> Command {
    // Options without a heading come first, so `--help` would precede those of the command.
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::Help)
        .help("Print the common options (-h), or all (--help)")
        .help_heading("Output");
    let default = if command.get_name() == "run" { "quick" } else { "embedded" };
    command.disable_help_flag(true).arg(help).mut_args(|arg| {
        let is_own = arg.get_help_heading().is_some_and(|heading| OWN_HEADINGS.contains(&heading));
        let id = arg.get_id().as_str();
        let common = COMMON.iter().find(|(common, _)| *common == id);
        let is_rare = common.is_none() && !is_own && !arg.is_positional() && id != "help";
        // `--help` and manual pages use the long text, whatever `-h` shows.
        let long = arg.get_long_help().or_else(|| arg.get_help()).cloned().unwrap_or_default();
        let arg = arg.long_help(long.clone()).hide_short_help(is_rare);
        match common {
            Some(("target", text)) => {
                let short = format!("{text} [default: {default}]");
                arg.help(short).long_help(format!("{long} [default: {default}]"))
            }
            Some((_, text)) if !text.is_empty() => arg.help(*text),
            _ => arg,
        }
    })
}

/// Returns the file with the user's defaults.
pub(crate) fn config_file() -> ConfigFile {
    ConfigFile::new(user_dirs::config_file())
}

/// Parses the command line with the user's defaults. Exits if it is wrong or requests help.
pub(crate) fn parse() -> Result<Args, Failure> {
    let mut words = fill_bare_flags(std::env::args_os().collect());
    if words.len() == 1 {
        // Without a command this is `run`, and its defaults apply.
        words.push("run".into());
    }
    name_search(&mut words);
    if ["compare", "--bisect"].iter().all(|word| words.iter().any(|it| it == word)) {
        exit::use_git_codes();
    }
    // The help of a command is printed here.
    let columns = output::screen(ReportDetail::Whole).columns();
    let mut plain = fit_examples(command(), columns);
    let given = match plain.try_get_matches_from_mut(&words) {
        Ok(matches) => Some(matches),
        // Help works even if the file has errors.
        Err(error) if error.exit_code() == 0 => return Err(end_with_help(&error)),
        Err(_) => None,
    };
    let defaults = Defaults::read(&mut plain, &config_file())?;
    let in_use = words.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let below = given.as_ref().and_then(|given| given.subcommand_matches(&in_use));
    let mut command = defaults.apply(command(), &in_use, below, &[])?;
    let parsed = command
        .try_get_matches_from_mut(words)
        .and_then(|matches| Args::from_arg_matches(&matches));
    match parsed {
        Ok(args) => Ok(args),
        Err(error) => {
            let error = suggestion::improve_suggestions(error, &in_use, &command);
            let error = suggest_run(error, &in_use, &command);
            let text = error.render().to_string();
            let is_for_git = exit::has_git_codes() && error.exit_code() != 0;
            // A shell pattern may expand to names that somebody else chose.
            if is_for_git || text.contains(is_steering) || output::fit_terminal(&text) != text {
                return Err(Failure::Usage(text.trim_start_matches("error: ").trim_end().into()));
            }
            error.exit()
        }
    }
}

/// Parses flags of `dfsbench run` in another command, with the user's defaults except for ignored
/// flags.
///
/// # Errors
/// If the configuration file can't be used, or clap's error about the flags.
pub(crate) fn parse_run(
    words: &[String],
    ignored: &[&str],
) -> Result<Result<RunArgs, clap::Error>, Failure> {
    let words: Vec<&str> =
        ["dfsbench", "run"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let mut plain = command();
    let given = plain.try_get_matches_from_mut(&words).ok();
    let defaults = Defaults::read(&mut plain, &config_file())?;
    let below = given.as_ref().and_then(|given| given.subcommand_matches("run"));
    let mut command = defaults.apply(command(), "run", below, ignored)?;
    Ok(command.try_get_matches_from_mut(words).and_then(|matches| {
        let (_, of_run) = matches.subcommand().expect("the words name one");
        RunArgs::from_arg_matches(of_run)
    }))
}

/// Prints a help text and exits with 0. If git reads the exit code, it would take the commit for a
/// good one, so this is a failure then.
pub(crate) fn end_with_help(help: &clap::Error) -> Failure {
    if !exit::has_git_codes() {
        help.exit();
    }
    // Git's answer doesn't depend on whether somebody reads the text.
    let _ = help.print();
    Failure::Usage("a help text is no answer about a commit (hint: omit --help)".to_owned())
}

/// Converts `ramp TRACE` and `curve TRACE` to a replay that searches for a limit, since they take
/// the options of `replay` and not those of `run`.
fn name_search(words: &mut Vec<OsString>) {
    let flag = match words.get(1).and_then(|word| word.to_str()) {
        Some("ramp") => "--ramp",
        Some("curve") => "--curve",
        _ => return,
    };
    let mut others = words[2..].iter();
    if others.any(|word| Path::new(word).extension().is_some_and(|end| end == "dfst")) {
        words[1] = "replay".into();
        words.insert(2, flag.into());
    }
}

fn is_plan(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "toml")
}

/// Adds a suggestion to an error if the first word belongs to `dfsbench run`: one of its options,
/// or a target.
fn suggest_run(mut error: clap::Error, first: &str, command: &Command) -> clap::Error {
    let Some(run) = command.find_subcommand("run") else { return error };
    let flag = first.strip_prefix("--").map(|flag| flag.split('=').next().unwrap_or(flag));
    let belongs = match (error.kind(), flag) {
        (ErrorKind::UnknownArgument, Some(flag)) => {
            run.get_arguments().any(|arg| arg.get_long() == Some(flag))
        }
        (ErrorKind::InvalidSubcommand, None) => {
            let is_place = first.contains('/') || first == "." || first == "..";
            is_place || is_plan(Path::new(first)) || Preset::find_by_name(first).is_some()
        }
        _ => false,
    };
    if belongs {
        let word = flag.map_or_else(|| first.to_owned(), |flag| format!("--{flag}"));
        let tip = StyledStr::from(format!("did you mean `dfsbench run {word}`?"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// Adds the value `true` to `--direct` and other Boolean settings if the next word is no value, so
/// that `--direct DIR` and `--direct true DIR` mean the same.
fn fill_bare_flags(mut words: Vec<OsString>) -> Vec<OsString> {
    let mut position = 0;
    while position < words.len() {
        // There are no flags after `--`.
        if words[position] == "--" {
            break;
        }
        if let Some(setting) = flag_setting(&words[position].to_string_lossy()) {
            let has_value = words
                .get(position + 1)
                .is_some_and(|next| is_flag_value(setting, &next.to_string_lossy()));
            if !has_value {
                words[position].push("=true");
            }
        }
        position += 1;
    }
    words
}

fn flag_setting(word: &str) -> Option<Setting> {
    Setting::ALL.into_iter().find(|setting| setting.kind() == Kind::Flag && setting.flag() == word)
}

/// Returns true if a word is a Boolean, or several separated by commas.
fn is_flag_value(setting: Setting, word: &str) -> bool {
    const VALUES: [&str; 8] = ["true", "false", "yes", "no", "on", "off", "1", "0"];
    word.split(',').all(|part| VALUES.contains(&part) || setting.open() == Some(part))
}

/// Builds the command line with the words that options accept, for completions. It isn't used for
/// parsing, because the plan's own parsers have better messages.
pub(crate) fn command_with_words(shell: Shell) -> Command {
    // Hidden commands must not be completed, so the command is built again without them.
    let mut visible = Command::new("dfsbench").version(env!("CARGO_PKG_VERSION"));
    for below in command().get_subcommands() {
        let mut below = below.clone();
        let name = below.get_name();
        if below.is_hide_set() {
            continue;
        }
        if name == "serve" {
            let versions = PossibleValuesParser::new(own_words(Setting::NfsVers));
            below = below.mut_arg("nfsvers", |arg| arg.value_parser(versions));
        } else if MEASURING.contains(&name) {
            below = below.mut_args(|arg| {
                let id = arg.get_id().as_str();
                let words = words_of(id);
                // bash completes files as well as these words; other shells would only offer
                // presets.
                if words.is_empty() || (id == "target" && shell != Shell::Bash) {
                    return arg;
                }
                arg.value_parser(PossibleValuesParser::new(words))
            });
        }
        visible = visible.subcommand(below);
    }
    visible
}

/// Lists the words that an option accepts; empty if it accepts other values.
fn words_of(id: &str) -> Vec<&'static str> {
    match id {
        "workload" => Workload::NAMES.to_vec(),
        "backend" => BackendKind::NAMES.to_vec(),
        "order" => vec!["blocks", "random", "sequential", "grouped"],
        "discard" => vec!["none", "extremes", "outliers", "cached"],
        "mix" => PROFILES.iter().map(|profile| profile.name).collect(),
        "target" => {
            let mut words = Preset::ALL.map(|preset| preset.name).to_vec();
            words.extend(["embedded", "null"]);
            words
        }
        _ => match Setting::ALL.into_iter().find(|setting| setting.key() == id) {
            Some(setting) => own_words(setting),
            None => Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(words: &[&str]) -> Vec<String> {
        let words = words.iter().map(OsString::from).collect();
        let filled = fill_bare_flags(words);
        filled.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn separates_bare_flag_from_value() {
        assert_eq!(filled(&["run", "--direct", "DIR"]), ["run", "--direct=true", "DIR"]);
        assert_eq!(filled(&["run", "--direct"]), ["run", "--direct=true"]);
        assert_eq!(filled(&["--direct", "--mmap", "no"]), ["--direct=true", "--mmap", "no"]);
        assert_eq!(filled(&["--direct", "true,false"]), ["--direct", "true,false"]);
        assert_eq!(
            filled(&["--workers", "4", "--", "--direct"]),
            ["--workers", "4", "--", "--direct"]
        );
    }

    #[test]
    fn treats_search_with_trace_as_replay() {
        let mut words: Vec<OsString> =
            ["dfsbench", "ramp", "nfs.dfst", "/mnt", "--max", "8"].map(OsString::from).to_vec();
        name_search(&mut words);
        let matches = command().try_get_matches_from(&words).unwrap();
        assert_eq!(matches.subcommand_name(), Some("replay"));
        for others in [["dfsbench", "ramp", "plan.toml"], ["dfsbench", "report", "nfs.dfst"]] {
            let mut words: Vec<OsString> = others.map(OsString::from).to_vec();
            name_search(&mut words);
            assert_eq!(words, others.map(OsString::from));
        }
    }

    #[test]
    fn every_common_option_exists() {
        let run = command().find_subcommand("run").unwrap().clone();
        for (id, _) in COMMON {
            assert!(run.get_arguments().any(|arg| arg.get_id() == id), "{id}");
        }
        command_with_words(Shell::Bash).debug_assert();
    }
}
