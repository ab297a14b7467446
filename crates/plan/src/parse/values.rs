//! Parses single values of a plan: numbers, sizes, names of backends and workloads, and levels of
//! settings.
//!
//! Several sections share these parsers. They check each value against its limits, but not how
//! values combine.

use model::setting::{Kind, Range, Setting, Value};
use model::units::parse_size;
use model::{BackendKind, Workload};

use crate::parse::document::{Field, Table};
use crate::parse::level::{self, in_range};
use crate::syntax::error::{Fault, Located, PlanError};
use crate::syntax::limits;
use crate::syntax::settings::Settings;
use crate::syntax::suggestion::{known_word, unknown_word};

/// Parses an integer within its limits.
pub(crate) fn bounded(field: &Field<'_>, range: Range) -> Result<Located<u64>, PlanError> {
    let legal = limits::span(range, &|number| number.to_string());
    let number = field.number(&legal, &range.min.to_string())?.value;
    field.accept(in_range(number, range, &legal, &field.shown()))
}

/// Parses an integer within limits of 32 bits.
pub(crate) fn bounded_u32(field: &Field<'_>, range: Range) -> Result<Located<u32>, PlanError> {
    Ok(field.located(bounded(field, range)?.value as u32))
}

/// Parses a size within its limits.
pub(crate) fn bounded_size(field: &Field<'_>, range: Range) -> Result<Located<u64>, PlanError> {
    let legal = limits::span(range, &limits::show_size);
    match (field.as_text(), field.as_number()) {
        (Some(text), _) => field.accept(size_in_range(text, range, &legal)),
        (None, Some(bytes)) => field.accept(in_range(bytes, range, &legal, &field.shown())),
        (None, None) => Err(field.wrong_type("a size", "\"192MiB\"")),
    }
}

/// Parses a size from text; `legal` describes the range for people.
pub(crate) fn size_in_range(text: &str, range: Range, legal: &str) -> Result<u64, Fault> {
    in_range(parse_size(text)?, range, legal, text)
}

pub(crate) fn backend(field: &Field<'_>) -> Result<Located<BackendKind>, PlanError> {
    field.parse("\"posix\"", backend_named)
}

/// fio's names of engines, with the equivalent backends.
///
/// **Source:** fio(1), `ioengine`.
const ENGINES: [(&str, BackendKind); 7] = [
    ("io_uring", BackendKind::Uring),
    ("libaio", BackendKind::Uring),
    ("posixaio", BackendKind::Uring),
    ("sync", BackendKind::Posix),
    ("psync", BackendKind::Posix),
    ("pvsync", BackendKind::Posix),
    ("libnfs", BackendKind::Nfs),
];

/// fio's patterns and names from other tools, with our equivalents.
///
/// **Source:** fio(1), `readwrite`.
const ELSEWHERE: [(&str, &str); 13] = [
    ("random", "it is called `mixed` now"),
    ("randread", "random reads are `mixed` with read_percent 100"),
    ("randwrite", "random writes are `mixed` with read_percent 0"),
    ("randrw", "random reads and writes are `mixed`; read_percent is the share of reads"),
    ("read", "sequential reads are a pass of `stream`, after its writes"),
    ("write", "sequential writes are `stream` with passes `write`"),
    ("rw", "sequential writes and reads are `stream`, one after the other"),
    ("readwrite", "sequential writes and reads are `stream`, one after the other"),
    ("seq", "sequential writes and reads are `stream`, one after the other"),
    ("sequential", "sequential writes and reads are `stream`, one after the other"),
    ("ior", "IOR's pattern is `stream`"),
    ("mdtest", "mdtest's operations are `metadata`"),
    ("postmark", "PostMark's operations are `transactions`"),
];

/// Finds a backend by name.
pub(crate) fn backend_named(name: &str) -> Result<BackendKind, Fault> {
    if let Some((_, backend)) = ENGINES.iter().find(|(engine, _)| *engine == name) {
        return Err(unknown_word("backend", name, BackendKind::NAMES)
            .hint(format!("did you mean `{backend}`?")));
    }
    known_word(BackendKind::from_name(name), "backend", name, BackendKind::NAMES)
}

/// Finds a workload by name.
pub(crate) fn workload_named(name: &str) -> Result<Workload, Fault> {
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(theirs, _)| *theirs == name) {
        return Err(Fault::new(format!("unknown workload `{name}`")).hint(*ours));
    }
    known_word(Workload::from_name(name), "workload", name, Workload::NAMES)
}

/// Parses those of the given settings that a table contains.
pub(crate) fn settings_among(known: &[Setting], table: &Table<'_>) -> Result<Settings, PlanError> {
    let mut settings = Settings::default();
    for &setting in known {
        if let Some(levels) = table.read_each(setting.key(), |item| read_level(setting, item))? {
            settings.insert(setting, levels);
        }
    }
    Ok(settings)
}

/// Parses one level of a setting from a TOML string, number or boolean.
fn read_level(setting: Setting, item: &Field<'_>) -> Result<Located<Value>, PlanError> {
    let kind = setting.kind();
    let is_number = matches!(kind, Kind::Count | Kind::Kib | Kind::Percent);
    let by_text = !is_number && kind != Kind::Flag;
    let by_number = is_number || matches!(kind, Kind::Size | Kind::Threads);
    let read = match (item.as_text(), item.as_number(), item.as_flag()) {
        (Some(text), _, _) if by_text || setting.open() == Some(text) => level::read(setting, text),
        (_, Some(number), _) if by_number => {
            level::check(setting, Value::Number(number), &item.shown())
        }
        (_, _, Some(yes)) if kind == Kind::Flag => Ok(Value::Flag(yes)),
        // Versions look like numbers, so accept 3 and 4.1 as well as "3" and "4.1", and likewise a
        // fractional exponent: `skew = 1.1`.
        _ if is_read_as_text(setting) && item.is_numeric() => level::read(setting, &item.shown()),
        _ if by_number && item.is_integer() => {
            return Err(item.out_of_range(&limits::legal(setting)));
        }
        _ => return Err(wrong_level_type(setting, item)),
    };
    item.accept(read)
}

/// Refuses a level of the wrong type, with an example of the right one.
fn wrong_level_type(setting: Setting, item: &Field<'_>) -> PlanError {
    let (wanted, example) = match setting.kind() {
        Kind::Size => ("a size", "\"64KiB\""),
        Kind::Count | Kind::Kib => ("an integer", "4"),
        Kind::Threads => ("an integer, or a text with two", "\"4..64\""),
        Kind::Percent => ("an integer", "70"),
        Kind::Fraction => ("a fraction", "0.01"),
        Kind::Time | Kind::FineTime | Kind::MicroTime => ("a time", "\"500ms\""),
        Kind::BitRate => ("the rate of a link", "\"100mbit\""),
        Kind::Frequency => ("a frequency", "\"1200MHz\""),
        Kind::Text => ("a name", "\"..\""),
        Kind::Words => ("a text", words_example(setting)),
        Kind::Mix => ("the name of a mix", "\"sfs3-like-v3\""),
        Kind::Passes => ("names of passes", "\"write+read\""),
        Kind::Flag => ("true or false", "true"),
        Kind::Word => {
            return item.wrong_type(&limits::legal(setting), &limits::example(setting));
        }
    };
    match setting.open() {
        Some(word) => item.wrong_type(&format!("{wanted}, or \"{word}\""), example),
        None => item.wrong_type(wanted, example),
    }
}

/// Returns true if levels that look like numbers are parsed as text: `nfsvers = 4.1`.
fn is_read_as_text(setting: Setting) -> bool {
    setting == Setting::Skew
        || setting.kind() == Kind::Fraction
        || setting.words().iter().any(|word| word.parse::<f64>().is_ok())
}

const fn words_example(setting: Setting) -> &'static str {
    match setting {
        Setting::FormatOptions => "\"-b 4096\"",
        Setting::ServerSysctl | Setting::ClientSysctl => "\"vm.dirty_ratio=5\"",
        Setting::ExportOptions => "\"async,no_root_squash\"",
        _ => "\"noatime\"",
    }
}
