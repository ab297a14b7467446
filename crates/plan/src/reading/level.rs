//! Levels of settings: from text, and as a plan writes them.
//!
//! One level is one value of one factor; what a value means, and where it lives in a run, is its
//! setting's to say (`model::setting`).

mod words;

use model::setting::{Kind, Range, Setting, Value};
use model::units::{parse_bit_rate, parse_frequency_khz, parse_size, parse_time_ns};

use model::{NfsSettings, Pass};
use workload::opmix::PROFILES;

use crate::written::error::Fault;
use crate::written::limits;
use crate::written::near::{known_word, unknown_word};
use crate::written::text;

/// Reads a level from text.
pub(crate) fn read(setting: Setting, text: &str) -> Result<Value, Fault> {
    let text = text.trim();
    if setting.open() == Some(text) {
        return Ok(Value::Open);
    }
    let value = match setting.kind() {
        Kind::Size => Value::Number(parse_size(text)?),
        Kind::Count | Kind::Kib | Kind::Percent => Value::Number(read_integer(text)?),
        Kind::Time => Value::Number(read_time(text, 1_000_000, "milliseconds")?),
        Kind::FineTime => Value::Number(parse_time_ns(text)?),
        Kind::MicroTime => Value::Number(read_time(text, 1_000, "microseconds")?),
        Kind::BitRate => Value::Number(parse_bit_rate(text)?),
        Kind::Frequency => Value::Number(parse_frequency_khz(text)?),
        Kind::Text => return words::read_name(setting, text).map(Value::Text),
        Kind::Words => return words::read(setting, text).map(Value::Words),
        Kind::Passes => return read_passes(text),
        Kind::Mix => return read_mix(text),
        Kind::Flag => match text {
            "true" => Value::Flag(true),
            "false" => Value::Flag(false),
            _ => return Err(not_legal(setting, text)),
        },
        Kind::Word => match setting.words().iter().find(|word| **word == text) {
            Some(word) => Value::Word(word),
            None => return Err(not_legal(setting, text)),
        },
    };
    check(setting, value, text)
}

/// Returns a level that is within its limits; `shown` is how it was written.
pub(crate) fn check(setting: Setting, value: Value, shown: &str) -> Result<Value, Fault> {
    if let (Value::Number(number), Some(range)) = (&value, setting.range()) {
        in_range(*number, range, &limits::legal(setting), shown)?;
    }
    Ok(value)
}

/// Refuses a text that is none of a setting's words.
fn not_legal(setting: Setting, text: &str) -> Fault {
    let fault = Fault::new(format!("must be {}, not `{text}`", limits::legal(setting)));
    match (setting, text) {
        (Setting::NfsVers, "4") => {
            fault.hint("no minor version is negotiated: write 4.0, 4.1 or 4.2")
        }
        _ => fault,
    }
}

/// Writes a level as a plan does.
pub(crate) fn write(setting: Setting, value: &Value) -> String {
    match value {
        Value::Number(number) => match setting.kind() {
            Kind::Size => text::quoted(&text::size(*number)),
            Kind::Time => text::quoted(&text::time(*number)),
            Kind::FineTime => text::quoted(&text::time_ns(*number)),
            Kind::MicroTime => text::quoted(&text::time_ns(*number * 1_000)),
            Kind::BitRate => text::quoted(&text::bit_rate(*number)),
            Kind::Frequency => text::quoted(&text::frequency(*number)),
            _ => number.to_string(),
        },
        Value::Flag(yes) => yes.to_string(),
        Value::Word(word) => text::quoted(word),
        Value::Passes(passes) => text::quoted(&text::passes(passes)),
        Value::Text(name) => text::quoted(name),
        Value::Words(words) => text::quoted(&words.join(&setting.separator().to_string())),
        Value::Open => text::quoted(setting.open().unwrap_or_default()),
    }
}

/// Puts a level into settings of NFS.
///
/// # Panics
/// Where it is no level of such a setting: a bug of this crate.
pub(crate) fn put_nfs(setting: Setting, nfs: &mut NfsSettings, value: Value) {
    let done = setting.put_nfs(nfs, value);
    assert!(done, "{setting:?} is no setting of NFS, or of another kind");
}

/// Returns a number that is within its range; `legal` says the range for people.
pub(crate) fn in_range(number: u64, range: Range, legal: &str, shown: &str) -> Result<u64, Fault> {
    if (range.min..=range.max).contains(&number) {
        return Ok(number);
    }
    let fault = Fault::new(format!("must be {legal}, not `{shown}`"));
    Err(if number > range.max { fault.hint(range.reason) } else { fault })
}

/// Reads a whole number.
pub(crate) fn read_integer(text: &str) -> Result<u64, Fault> {
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) => Err(Fault::new(format!("`{text}` is not a whole number"))
            .hint("write digits only, such as `4`")),
    }
}

/// Reads a time in whole units of so many nanoseconds.
fn read_time(text: &str, unit_ns: u64, unit: &str) -> Result<u64, Fault> {
    let ns = parse_time_ns(text)?;
    if !ns.is_multiple_of(unit_ns) {
        return Err(Fault::new(format!("`{text}` is not a whole number of {unit}")));
    }
    Ok(ns / unit_ns)
}

/// Finds a mix that is known by its name.
fn read_mix(text: &str) -> Result<Value, Fault> {
    let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
    if names.contains(&text) {
        return Ok(Value::Text(text.to_owned()));
    }
    Err(unknown_word("mix", text, &names))
}

/// Reads names of passes with `+` between them.
fn read_passes(text: &str) -> Result<Value, Fault> {
    if text == text::USUAL {
        return Ok(Value::Passes(Vec::new()));
    }
    let mut passes = Vec::new();
    for name in text.split('+') {
        let name = name.trim();
        if name.is_empty() {
            return Err(Fault::new(format!("a name is missing in `{text}`"))
                .hint("names with `+` between them, such as `write+read`"));
        }
        passes.push(known_word(Pass::from_name(name), "pass", name, Pass::NAMES)?);
    }
    Ok(Value::Passes(passes))
}
