//! The flags of settings, one for each [`Setting`].
//!
//! Their help is the reference of the plan's keys, so a flag and a key always have the same
//! description. Their values stay text for the plan's own parsers.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use model::setting::{Family, Kind, Setting};
use plan::KeyDoc;

/// Values of the flags of settings.
#[derive(Clone, Debug, Default)]
pub(super) struct SettingArgs {
    /// Levels of the given flags.
    pub levels: BTreeMap<Setting, Vec<String>>,
}

impl Args for SettingArgs {
    fn augment_args(command: Command) -> Command {
        // The most common settings come first; few users set up hosts.
        let mut settings = Setting::ALL;
        settings.sort_by_key(|setting| setting.family() == Family::Lab);
        command.args(settings.map(setting_arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut settings = Self::default();
        settings.update_from_arg_matches(matches)?;
        Ok(settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for setting in Setting::ALL {
            if let Some(levels) = matches.get_many::<String>(setting.key()) {
                self.levels.insert(setting, levels.cloned().collect());
            }
        }
        Ok(())
    }
}

fn setting_arg(setting: Setting) -> Arg {
    let arg = Arg::new(setting.key()).long(setting.flag().trim_start_matches("--"));
    // Option lists contain commas themselves, so each flag is one level.
    let arg = if setting.kind() == Kind::Words { arg } else { arg.value_delimiter(',') };
    // Without a value it means true; `layout` has already added that value, so that a target may
    // follow.
    let arg = if setting.kind() == Kind::Flag {
        arg.num_args(0..=1).default_missing_value("true")
    } else {
        arg
    };
    arg.value_name(value_name(setting.kind()))
        .action(ArgAction::Append)
        .help_heading(help_heading(setting.family()))
        .help(short_help(setting))
        .long_help(help_text(setting))
}

/// Lists the words that a setting accepts; empty if it accepts other values.
pub(super) fn own_words(setting: Setting) -> Vec<&'static str> {
    match setting.kind() {
        Kind::Flag => ["true", "false"].into_iter().chain(setting.open()).collect(),
        Kind::Word => setting.words().iter().copied().chain(setting.open()).collect(),
        _ => Vec::new(),
    }
}

const fn value_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Size => "SIZE",
        Kind::Count | Kind::Threads => "N",
        Kind::Kib => "KIB",
        Kind::Percent => "PERCENT",
        Kind::Fraction => "FRACTION",
        Kind::Time | Kind::FineTime | Kind::MicroTime => "TIME",
        Kind::BitRate => "RATE",
        Kind::Frequency => "FREQUENCY",
        Kind::Text => "NAME",
        Kind::Words => "TEXT",
        Kind::Flag => "BOOL",
        Kind::Word => "WORD",
        Kind::Mix => "MIX",
        Kind::Passes => "PASSES",
    }
}

const fn help_heading(family: Family) -> &'static str {
    match family {
        Family::Work => "Factors",
        Family::Names => "Factors of files and directories by name",
        Family::Load => "Factors of load",
        Family::Data => "Factors of data",
        Family::Nfs => "Factors of NFS",
        Family::Lab => "Factors of hosts",
    }
}

/// Returns the first sentence of a setting's description, and its default.
fn short_help(setting: Setting) -> String {
    let doc = KeyDoc::of_setting(setting);
    let first = doc.meaning.split(". ").next().unwrap_or_default();
    format!("{} [default: {}]", first.trim_end_matches('.'), doc.default)
}

/// Returns the description of a setting, its words if it has some, and its default.
fn help_text(setting: Setting) -> String {
    let doc = KeyDoc::of_setting(setting);
    let choice = match setting.kind() {
        Kind::Word | Kind::Mix | Kind::Flag => format!(" One of: {}.", doc.legal.replace('"', "")),
        _ => String::new(),
    };
    format!("{}{choice} [default: {}]", doc.meaning, doc.default)
}
