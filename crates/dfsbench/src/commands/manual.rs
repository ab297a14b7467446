//! Shell completions and man pages, generated from the same source as the help.
//!
//! Options, descriptions and examples are those of `args.rs`, so they are always up to date. Only
//! files, exit codes and references are added here.
//!
//! **Source:** man-pages(7) for the sections and their order.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args;
use crate::args::groups::GROUPS;
use crate::exit::{End, Failure};
use crate::files::output_file;
use crate::terminal::output;

/// Name of the program and of its main page.
const PROGRAM: &str = "dfsbench";

/// Exit codes of commands whose help lists none.
const EXIT_CODES: &str =
    "0 ok, 2 wrong usage, plan or results file, 3 a server, host or output can't be used";

/// Files that most commands use.
const FILES: [(&str, &str); 4] = [
    (
        "dfsbench.db, dfsbench.html",
        "Results of all campaigns, and the page of the last one; --results names others.",
    ),
    (
        "dfsbench.db-work-*.lock",
        "Records of running campaigns; `dfsbench clean` uses them to find what a killed one left \
         behind.",
    ),
    (
        "/var/lib/dfsbench, $XDG_STATE_HOME/dfsbench",
        "Undo logs of root, and of other users, on hosts that are set up.",
    ),
    (
        "$XDG_CONFIG_HOME/dfsbench/config.toml, ~/.config/dfsbench/config.toml",
        "Defaults of flags; see dfsbench-config(1). DFSBENCH_RESULTS names the results file.",
    ),
];

/// Prints the completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    let mut command = args::command_with_words(shell);
    clap_complete::generate(shell, &mut command, PROGRAM, &mut text);
    output::raw(&text)?;
    Ok(End::Ok.into())
}

/// Prints the main man page, or writes all pages to a directory.
pub(crate) fn man(directory: Option<&Path>) -> Result<ExitCode, Failure> {
    let mut root = args::command();
    // Gives each command the name of its page, such as `dfsbench-run`.
    root = root.disable_help_subcommand(true);
    root.build();
    match directory {
        Some(directory) => write_pages(&root, directory)?,
        None => output::raw(&render_page(&root)?)?,
    }
    Ok(End::Ok.into())
}

/// Writes the page of a command and of all its subcommands.
fn write_pages(command: &Command, directory: &Path) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    output_file::write(&directory.join(format!("{name}.1")), &render_page(command)?, None)?;
    for below in command.get_subcommands() {
        if !below.is_hide_set() {
            write_pages(below, directory)?;
        }
    }
    Ok(())
}

fn render_page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    match write_page(command, &mut text) {
        Ok(()) => Ok(text),
        Err(error) => Err(Failure::Output {
            what: "the manual page".to_owned(),
            reason: error.to_string(),
            hint: "this is a bug of dfsbench",
        }),
    }
}

fn write_page(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(page)?;
    }
    if command.get_name() == PROGRAM {
        page.extend_from_slice(list_commands(command).as_bytes());
    } else if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    page.extend_from_slice(more_sections(command).as_bytes());
    Ok(())
}

/// Lists the pages of all commands under the headings of the help.
fn list_commands(root: &Command) -> String {
    let mut text = ".SH COMMANDS\n".to_owned();
    for group in &GROUPS {
        // Writing to a `String` never fails.
        let _ = writeln!(text, ".SS {}", group.heading);
        for name in group.commands {
            // The help command has no page.
            let Some(below) = root.find_subcommand(name) else { continue };
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            let page = escape(&format!("{PROGRAM}-{name}(1)"));
            let _ = write!(text, ".TP\n{page}\n{}\n", escape(&about));
        }
    }
    text
}

/// Builds the sections from the text below the options, plus those that all pages have.
fn more_sections(command: &Command) -> String {
    let below = command.get_after_long_help().or_else(|| command.get_after_help());
    let below = below.map(ToString::to_string).unwrap_or_default();
    let mut examples = String::new();
    let mut notes = String::new();
    let mut exit_codes = EXIT_CODES.to_owned();
    for paragraph in below.trim().split("\n\n") {
        match paragraph.split_once(':') {
            Some(("Examples" | "Example", lines)) => examples = verbatim(lines),
            Some(("Exit codes", codes)) => exit_codes = codes.trim().replace('\n', " "),
            _ if paragraph.is_empty() => {}
            _ => notes.push_str(&verbatim(paragraph)),
        }
    }
    let mut text = section("NOTES", &notes) + &section("EXAMPLES", &examples);
    text.push_str(".SH FILES\n");
    for (file, meaning) in FILES {
        // Writing to a `String` never fails.
        let _ = write!(text, ".TP\n{}\n{}\n", escape(file), escape(meaning));
    }
    text.push_str(&section("EXIT STATUS", &format!("{}\n", escape(&exit_codes))));
    text.push_str(&section("SEE ALSO", &see_also(command)));
    text
}

fn section(title: &str, content: &str) -> String {
    if content.is_empty() { String::new() } else { format!(".SH \"{title}\"\n{content}") }
}

/// Formats lines as a verbatim block in roff.
fn verbatim(lines: &str) -> String {
    let mut text = String::from(".nf\n");
    for line in lines.trim_matches('\n').lines() {
        text.push_str(&escape(line));
        text.push('\n');
    }
    text.push_str(".fi\n.PP\n");
    text
}

/// Lists the pages of all commands on the main page, and the main page on all others.
fn see_also(command: &Command) -> String {
    let mut pages: Vec<_> = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .map(|below| format!("{}(1)", below.get_display_name().unwrap_or(below.get_name())))
        .collect();
    if pages.is_empty() {
        pages.push("dfsbench(1)".to_owned());
    }
    pages.extend(["nfs(5)", "mount.nfs(8)", "fio(1)"].map(str::to_owned));
    format!("{}\n", escape(&pages.join(", ")))
}

/// Escapes a line for roff: backslashes, hyphens, and a leading character that starts a request.
fn escape(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
