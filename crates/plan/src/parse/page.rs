//! The plan reference as a page of Markdown, generated from the table that the parser uses.
//!
//! `cargo run -p dfsbench-plan --example reference > docs/plan.md` writes it; a test checks that
//! the page is up to date.

use std::fmt::Write as _;

use crate::parse::keys::reference;
use crate::parse::section::{KeyDoc, Section};

/// Text before the first table.
const BEGIN: &str = "\
# Plans: every key

A plan is a TOML file. `dfsbench run plan.toml --dry-run` shows what it would do. An unknown key,
an invalid value or a contradiction is an error with its line. The presets are plans with comments:
copy the closest one. `dfsbench run -` reads a plan of up to 16 MiB from stdin, as does
`dfsbench run <(make-plan)` in bash.

Below the meaning of each key are its values and its default; `default: true` and `default: false`
are switches. Keys may be omitted unless they are required. Sizes are in bytes or have a unit in
powers of 1024 (`64KiB`), times the unit `us`, `ms`, `s`, `m` or `h`. A setting with a list of
values is a factor: all combinations are run.
";

/// The sections in the order recommended for writing a plan, with their descriptions.
const SECTIONS: [(Section, &str); 11] = [
    (Section::Plan, "Before any table."),
    (Section::Host, "Once for each host to set up or work on."),
    (
        Section::Target,
        "Once for each target to measure. May contain these settings: nfsvers, proto, xprtsec, \
         nconnect, max_connect, transfer_size, timeo, retrans, udp_window.",
    ),
    (
        Section::Workload,
        "Once for each workload; may contain any setting, which overrides `[factors]`.",
    ),
    (
        Section::Load,
        "Once for each of several loads that run alone and together; see docs/loads.md. May \
         contain any setting with one value, and `kind`, `shares`, `mix_from` and `mix_since` of \
         `[[workload]]`.",
    ),
    (Section::Settings, "Settings for all workloads. Each is also a flag of `dfsbench run`."),
    (Section::Server, "The in-memory server, for targets with `embedded = true`."),
    (Section::Faults, "Faults to inject in the in-memory server; a list of texts injects several."),
    (
        Section::Disturb,
        "Once for each disturbance of a host during `dfsbench soak`; see docs/soak.md.",
    ),
    (
        Section::Conclusion,
        "Once for each sentence that the report checks against the data: borne out, contradicted, \
         or undecided; see docs/statistics.md.",
    ),
    (
        Section::Require,
        "Once for each limit that results must keep; see docs/requirements.md. Also a flag of \
         `dfsbench run` and `dfsbench report`.",
    ),
];

pub fn reference_page() -> String {
    let mut page = BEGIN.to_owned();
    for (section, about) in SECTIONS {
        let title = section.title();
        // Writing to a string can't fail.
        let _ = write!(page, "\n## {title}\n\n{about}\n\n| key | what it does |\n|---|---|\n");
        page.extend(reference().iter().filter(|doc| doc.section == section).map(key_row));
    }
    page
}

fn key_row(doc: &KeyDoc) -> String {
    let KeyDoc { key, meaning, .. } = doc;
    format!("| `{key}` | {} |\n", cell(&format!("{meaning}<br>*{}*", describe_values(doc))))
}

/// Describes the legal values and the default of a key. Units that every value carries itself, and
/// what the default shows anyway, are omitted.
fn describe_values(doc: &KeyDoc) -> String {
    let KeyDoc { kind, unit, legal, default, .. } = doc;
    if legal == "true or false" && matches!(default.as_ref(), "true" | "false") {
        return format!("default: {default}");
    }
    let is_range = legal.starts_with(|c: char| c.is_ascii_digit() || c == '"' || c == '-');
    let values = match *kind {
        "text" if !legal.is_empty() => legal.to_string(),
        _ if doc.section == Section::Faults && *kind == "text or list" => legal.to_string(),
        // Their units are part of the values.
        "size" if is_range => written_sizes(legal),
        "time" | "rate" | "frequency" if is_range => legal.to_string(),
        "integer" if unit.is_empty() => legal.to_string(),
        "integer" => match legal.split_once(", ") {
            None => format!("{legal} {unit}"),
            Some((range, rest)) => format!("{range} {unit}, {rest}"),
        },
        _ => {
            let is_named = unit.is_empty() || unit == kind;
            let unit = if is_named { String::new() } else { format!(" ({unit})") };
            match legal.strip_prefix(*kind) {
                // The kind itself, with another word at most.
                Some(rest) => format!("{kind}{unit}{rest}"),
                None if legal.is_empty() => format!("{kind}{unit}"),
                None => format!("{kind}{unit}, {legal}"),
            }
        }
    };
    let values = match values.strip_suffix(&format!(", or \"{default}\"")) {
        Some(rest) => rest.to_owned(),
        None => values,
    };
    match default.as_ref() {
        default if default.starts_with("required") => format!("{values}; {default}"),
        "none" if !legal.contains("\"none\"") => values,
        default => format!("{values}; default: {default}"),
    }
}

/// Writes sizes such as `4 KiB` as a plan does: `4KiB`.
fn written_sizes(legal: &str) -> String {
    let mut words = legal.to_owned();
    for unit in ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] {
        words = words.replace(&format!(" {unit}"), unit);
    }
    words
}

/// Escapes a text so that it can't end its table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
