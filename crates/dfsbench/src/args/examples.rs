//! Fits the examples below the options of a help text to narrow terminals.
//!
//! Examples have two columns: a command, and its description next to it or on the lines below. If
//! there is no room, the description moves below its command. Paragraphs of text are rewrapped.

use clap::Command;
use report::document::text::wrap;
use unicode_width::UnicodeWidthStr as _;

/// Indentation of a command.
const COMMAND: &str = "  ";
/// Indentation of a description below its command.
const BELOW: &str = "      ";

/// Fits the examples of a command and its subcommands to a number of columns.
pub(super) fn fit_examples(mut command: Command, columns: usize) -> Command {
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        command = command.after_help(fit(&text, columns));
    }
    if let Some(text) = command.get_after_long_help().map(ToString::to_string) {
        command = command.after_long_help(fit(&text, columns));
    }
    command.mut_subcommands(|below| fit_examples(below, columns))
}

/// Rewraps the paragraphs that have a line that doesn't fit: examples, and plain text.
fn fit(text: &str, columns: usize) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        if paragraph.lines().all(|line| line.width() <= columns) {
            paragraph.to_owned()
        } else if paragraph.starts_with("Example") {
            stack(paragraph, columns)
        } else if paragraph.lines().all(|line| !line.starts_with(' ')) {
            wrap(paragraph, columns).join("\n")
        } else {
            paragraph.to_owned()
        }
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Moves descriptions below their commands.
fn stack(paragraph: &str, columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut description = String::new();
    for line in paragraph.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if indent > BELOW.len() {
            description = format!("{description} {text}");
            continue;
        }
        end_description(&mut lines, &mut description, columns);
        match text.split_once("  ") {
            Some((command, beside)) if indent == COMMAND.len() => {
                lines.push(format!("{COMMAND}{command}"));
                beside.trim_start().clone_into(&mut description);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    end_description(&mut lines, &mut description, columns);
    lines.join("\n")
}

/// Writes the description of the last command.
fn end_description(lines: &mut Vec<String>, description: &mut String, columns: usize) {
    let text = description.trim_start();
    if !text.is_empty() {
        let parts = wrap(text, columns.saturating_sub(BELOW.len()).max(1));
        lines.extend(parts.iter().map(|part| format!("{BELOW}{part}")));
    }
    description.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLES: &str = "\
Examples:
  dfsbench                       measure this machine
  dfsbench run DIR --workers 1,4
                                 two factors: every combination
                                 is a run
  dfsbench run plan.toml
Text behind the examples.

Exit codes: 0 ok, 1 a comparison failed,
2 usage";

    #[test]
    fn puts_descriptions_below_commands() {
        insta::assert_snapshot!(fit(EXAMPLES, 40), @"
        Examples:
          dfsbench
              measure this machine
          dfsbench run DIR --workers 1,4
              two factors: every combination is
              a run
          dfsbench run plan.toml
        Text behind the examples.

        Exit codes: 0 ok, 1 a comparison failed,
        2 usage
        ");
        let narrow = fit(EXAMPLES, 36);
        insta::assert_snapshot!(narrow.rsplit_once("\n\n").unwrap().1, @"
        Exit codes: 0 ok, 1 a comparison
        failed, 2 usage
        ");
    }

    #[test]
    fn leaves_what_has_room_alone() {
        assert_eq!(fit(EXAMPLES, 80), EXAMPLES);
    }

    #[test]
    fn examples_have_room_on_80_columns() {
        let command = fit_examples(crate::args::command(), 80);
        for below in command.get_subcommands().chain([&command]) {
            let text = below.get_after_long_help().or_else(|| below.get_after_help());
            let text = text.map(ToString::to_string).unwrap_or_default();
            let examples = text.split("\n\n").filter(|paragraph| paragraph.starts_with("Example"));
            // A command stays on one line, so that it can be copied.
            let descriptions = examples.flat_map(str::lines).filter(|line| line.starts_with(BELOW));
            for line in descriptions.filter(|line| !line.contains(" --")) {
                assert!(line.width() <= 80, "{}: {line}", below.get_name());
            }
        }
    }
}
