//! Groups the commands under headings, for `dfsbench --help` and the manual page. clap only
//! supports headings for options.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::StyledStr;
use report::ReportDetail;
use report::document::text::wrap;

use crate::terminal::output;

/// Maximum width of the help, in columns.
const COLUMNS_MAX: usize = 100;
/// Spaces before a command's name, and after the longest one.
const GAP: &str = "  ";

/// Commands under one heading.
pub(crate) struct Group {
    /// The heading.
    pub heading: &'static str,
    /// Names of the commands, the most common ones first.
    pub commands: &'static [&'static str],
}

/// Every visible command, exactly once.
pub(crate) const GROUPS: [Group; 6] = [
    Group {
        heading: "Measure",
        commands: &["run", "ladder", "curve", "ramp", "soak", "durability", "preset", "resume"],
    },
    Group {
        heading: "Understand",
        commands: &["report", "view", "compare", "factors", "contenders"],
    },
    Group {
        heading: "Results",
        commands: &["list", "show", "note", "tag", "rm", "import", "export", "bundle", "verify"],
    },
    Group { heading: "Traffic", commands: &["capture", "describe", "replay"] },
    Group { heading: "Hosts", commands: &["probe", "serve", "systems", "clean", "slurm", "k8s"] },
    Group { heading: "Setup", commands: &["config", "completions", "man", "help"] },
];

/// Groups the commands of the help under their headings.
pub(crate) fn group_commands(command: Command) -> Command {
    let template = template(&command);
    command.help_template(template)
}

/// Returns the description of a command; clap adds the `help` command only later.
fn describe(command: &Command, name: &str) -> Option<String> {
    if name == "help" {
        return Some("Print the help of a command".to_owned());
    }
    let found = command.find_subcommand(name)?;
    Some(found.get_about().map(ToString::to_string).unwrap_or_default())
}

/// Returns clap's template with grouped commands instead of one list.
fn template(command: &Command) -> StyledStr {
    let styles = command.get_styles();
    let header = styles.get_header();
    let literal = styles.get_literal();
    let columns = output::screen(ReportDetail::Whole).columns().min(COLUMNS_MAX);
    let names = GROUPS.iter().flat_map(|group| group.commands);
    let longest = names.map(|name| name.len()).max().unwrap_or(0);
    let indent = GAP.len() + longest + GAP.len();
    let mut text = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for group in &GROUPS {
        // Writing to a String never fails.
        let _ = writeln!(text, "\n{header}{}:{header:#}", group.heading);
        for name in group.commands {
            let about = describe(command, name).unwrap_or_default();
            for (number, line) in wrap(&about, columns.saturating_sub(indent)).iter().enumerate() {
                let _ = match number {
                    0 => {
                        let space = " ".repeat(longest - name.len());
                        writeln!(text, "{GAP}{literal}{name}{literal:#}{space}{GAP}{line}")
                    }
                    _ => writeln!(text, "{:indent$}{line}", ""),
                };
            }
        }
    }
    let _ = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    StyledStr::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = args::command();
        command.build();
        let visible = command.get_subcommands().filter(|below| !below.is_hide_set());
        let mut visible: Vec<&str> = visible.map(Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|group| group.commands).copied().collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, visible);
    }

    #[test]
    fn help_lists_every_command_once() {
        let help = args::command().render_help().to_string();
        for group in &GROUPS {
            assert!(help.contains(&format!("\n{}:\n", group.heading)), "{help}");
            for name in group.commands {
                let lines = help.lines().filter(|line| line.starts_with(&format!("  {name} ")));
                assert_eq!(lines.count(), 1, "{name}: {help}");
            }
        }
    }
}
