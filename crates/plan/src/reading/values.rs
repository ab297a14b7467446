//! Reads single values of a plan's text, each within its own limits.
//!
//! Numbers, sizes, names of backends and workloads, and the levels of settings: what several
//! sections hold. A value that passes is within its limits; how values go together is not judged.

use model::setting::{Kind, Range, Setting, Value};
use model::units::parse_size;
use model::{BackendKind, Workload};

use crate::reading::document::{Field, Table};
use crate::reading::level::{self, in_range};
use crate::written::error::{Fault, Located, PlanError};
use crate::written::limits;
use crate::written::near::unknown_word;
use crate::written::settings::Settings;

const BACKENDS: [BackendKind; 6] = [
    BackendKind::Null,
    BackendKind::Posix,
    BackendKind::Uring,
    BackendKind::Nfs,
    BackendKind::Memory,
    BackendKind::Tcp,
];

/// Reads a whole number within its limits.
pub(crate) fn bounded(field: &Field<'_>, range: Range) -> Result<Located<u64>, PlanError> {
    let legal = limits::span(range, &|number| number.to_string());
    let number = field.number(&legal, &range.min.to_string())?;
    in_range(number.value, range, &legal, &field.shown()).map_err(|fault| field.error(fault))?;
    Ok(number)
}

/// Reads a size within its limits.
pub(crate) fn bounded_size(field: &Field<'_>, range: Range) -> Result<Located<u64>, PlanError> {
    let legal = limits::span(range, &limits::show_size);
    let read = match (field.as_text(), field.as_number()) {
        (Some(text), _) => parse_size(text).map_err(Fault::from),
        (None, Some(bytes)) => Ok(bytes),
        (None, None) => return Err(field.wrong_type("a size", "\"192MiB\"")),
    };
    let shown = || field.as_text().map_or_else(|| field.shown(), str::to_owned);
    let bytes = read.and_then(|bytes| in_range(bytes, range, &legal, &shown()).map(|()| bytes));
    let value = bytes.map_err(|fault| field.error(fault))?;
    Ok(Located { value, place: field.place() })
}

/// Reads a backend.
pub(crate) fn backend(field: &Field<'_>) -> Result<Located<BackendKind>, PlanError> {
    let name = field.text("\"posix\"")?;
    let value = backend_named(name.value).map_err(|fault| field.error(fault))?;
    Ok(Located { value, place: name.place })
}

/// Finds a backend by its name.
pub(crate) fn backend_named(name: &str) -> Result<BackendKind, Fault> {
    let known = BACKENDS.map(BackendKind::name);
    BACKENDS
        .into_iter()
        .find(|backend| backend.name() == name)
        .ok_or_else(|| unknown_word("backend", name, &known))
}

/// Finds a workload by its name.
pub(crate) fn workload_named(name: &str) -> Result<Workload, Fault> {
    Workload::from_name(name).ok_or_else(|| match name {
        "random" => Fault::new("unknown workload `random`").hint("it is called `mixed` now"),
        _ => unknown_word("workload", name, Workload::NAMES),
    })
}

/// Reads each value of a list that may be left out.
pub(crate) fn each<T>(
    field: Option<Field<'_>>,
    read: impl Fn(&Field<'_>) -> Result<T, PlanError>,
) -> Result<Option<Vec<T>>, PlanError> {
    field.map(|field| field.items()?.iter().map(read).collect()).transpose()
}

/// Reads those of some settings that a table holds.
pub(crate) fn settings_among(known: &[Setting], table: &Table<'_>) -> Result<Settings, PlanError> {
    let mut settings = Settings::default();
    for &setting in known {
        if let Some(levels) = each(table.field(setting.key()), |item| read_level(setting, item))? {
            settings.insert(setting, levels);
        }
    }
    Ok(settings)
}

fn read_level(setting: Setting, item: &Field<'_>) -> Result<Located<Value>, PlanError> {
    let (wanted, example) = match setting.kind() {
        Kind::Size => ("a size", "\"64KiB\""),
        Kind::Count | Kind::Kib => ("an integer", "4"),
        Kind::Percent => ("an integer", "70"),
        Kind::Time | Kind::FineTime | Kind::MicroTime => ("a time", "\"500ms\""),
        Kind::BitRate => ("the rate of a link", "\"100mbit\""),
        Kind::Frequency => ("a frequency", "\"1200MHz\""),
        Kind::Text => ("a name", "\"..\""),
        Kind::Words => ("a text", words_example(setting)),
        Kind::Mix => ("the name of a mix", "\"sfs3-like-v3\""),
        Kind::Passes => ("names of passes", "\"write+read\""),
        Kind::Flag => ("true or false", "true"),
        Kind::Word => ("a word", "\"..\""),
    };
    let open = |text| setting.open() == Some(text);
    let is_number = matches!(setting.kind(), Kind::Count | Kind::Kib | Kind::Percent);
    let by_text = !is_number && setting.kind() != Kind::Flag;
    let by_number = is_number || setting.kind() == Kind::Size;
    let read = match (item.as_text(), item.as_number(), item.as_flag()) {
        (Some(text), _, _) if by_text || open(text) => level::read(setting, text),
        (_, Some(number), _) if by_number => {
            level::check(setting, Value::Number(number), &item.shown())
        }
        (_, _, Some(yes)) if setting.kind() == Kind::Flag => Ok(Value::Flag(yes)),
        // Versions look like numbers: 3 and 4.1 are as good as "3" and "4.1".
        _ if has_numeric_words(setting) && item.is_numeric() => level::read(setting, &item.shown()),
        _ if by_number && item.is_integer() => {
            return Err(item.out_of_range(&limits::legal(setting)));
        }
        _ if setting.kind() == Kind::Word => {
            return Err(item.wrong_type(&limits::legal(setting), &limits::example(setting)));
        }
        _ => {
            let open = setting.open().map(|word| format!("{wanted}, or \"{word}\""));
            return Err(item.wrong_type(open.as_deref().unwrap_or(wanted), example));
        }
    };
    let value = read.map_err(|fault| item.error(fault))?;
    Ok(Located { value, place: item.place() })
}

/// Says whether its words look like numbers, and may be written as such: `nfsvers = 4.1`.
fn has_numeric_words(setting: Setting) -> bool {
    setting.words().iter().any(|word| word.parse::<f64>().is_ok())
}

/// How the words of a setting are written, for people.
const fn words_example(setting: Setting) -> &'static str {
    match setting {
        Setting::FormatOptions => "\"-b 4096\"",
        Setting::ServerSysctl | Setting::ClientSysctl => "\"vm.dirty_ratio=5\"",
        Setting::ExportOptions => "\"async,no_root_squash\"",
        _ => "\"noatime\"",
    }
}
