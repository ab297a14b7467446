//! Parses levels of settings from text, and writes them as a plan does.
//!
//! A level is one value of one factor. What it means and where a run stores it is defined by its
//! setting (`model::setting`).

mod words;

use std::ops::RangeInclusive;

use model::setting::{Kind, Range as Limits, Setting, Value};
use model::units::{parse_bit_rate, parse_frequency_khz, parse_size, parse_time_ns};

use model::{NfsSettings, Pass, SizeDistribution};
use workload::opmix::PROFILES;

use crate::syntax::error::Fault;
use crate::syntax::limits;
use crate::syntax::suggestion::{known_word, nearest_word, unknown_word};
use crate::syntax::text;

pub(crate) use words::check_site_nfs_option;

/// Parses a level.
pub(crate) fn read(setting: Setting, text: &str) -> Result<Value, Fault> {
    let text = text.trim();
    if setting.open() == Some(text) {
        return Ok(Value::Open);
    }
    if setting.kind() == Kind::Threads && text.contains("..") {
        return read_span(setting, text);
    }
    if setting.takes_distribution() && SizeDistribution::is_named_in(text) {
        return Ok(match text.parse()? {
            SizeDistribution::Fixed(size) => check(setting, Value::Number(size), text)?,
            sizes => Value::Sizes(Box::new(sizes)),
        });
    }
    if let Some(number) = read_number(setting, text)? {
        return check(setting, Value::Number(number), text);
    }
    let value = match setting.kind() {
        Kind::Text if setting == Setting::ObjectSize => return read_sizes(text),
        Kind::Text => return words::read_name(setting, text).map(Value::Text),
        Kind::Words => return words::read(setting, text).map(Value::Words),
        Kind::Passes => return read_passes(text),
        Kind::Mix => return read_mix(text),
        Kind::Flag => match text {
            "true" | "yes" | "on" | "1" => Value::Flag(true),
            "false" | "no" | "off" | "0" => Value::Flag(false),
            _ => return Err(not_legal(setting, text)),
        },
        _ => match setting.words().iter().find(|word| **word == text) {
            Some(word) => Value::Word(word),
            None => return Err(not_legal(setting, text)),
        },
    };
    Ok(value)
}

/// Parses a number in the unit of its setting, without checking its limits; `None` if the levels of
/// the setting are not numbers.
fn read_number(setting: Setting, text: &str) -> Result<Option<u64>, Fault> {
    Ok(Some(match setting.kind() {
        // The unit already includes "per second", but people write it as well.
        Kind::Size if setting.unit().ends_with("/s") => {
            parse_size(text.strip_suffix("/s").unwrap_or(text))?
        }
        Kind::Size => parse_size(text)?,
        // The skew is stored in hundredths; with a decimal point it is the exponent itself.
        Kind::Percent if setting == Setting::Skew && text.contains('.') => read_hundredths(text)?,
        Kind::Percent => read_integer(text.trim_end_matches('%').trim_end())?,
        Kind::Count | Kind::Kib | Kind::Threads => read_integer(text)?,
        Kind::Time => read_time(text, 1_000_000, "milliseconds")?,
        Kind::Fraction => read_fraction(text)?,
        Kind::FineTime => parse_time_ns(text)?,
        Kind::MicroTime => read_time(text, 1_000, "microseconds")?,
        Kind::BitRate => parse_bit_rate(text)?,
        Kind::Frequency => parse_frequency_khz(text)?,
        _ => return Ok(None),
    }))
}

/// Parses one level or a range of numbers: `1..8`, `1..64*2`, `0..100+25`.
pub(crate) fn read_levels(setting: Setting, text: &str) -> Result<Vec<Value>, Fault> {
    let is_span = setting.kind() == Kind::Threads && !text.contains(['*', '+']);
    let Some((first_text, rest)) = text.split_once("..").filter(|_| !is_span) else {
        return match describe_dashes(setting, text) {
            Some(fault) => Err(fault),
            None => Ok(vec![read(setting, text)?]),
        };
    };
    let Some(first) = read_number(setting, first_text.trim())? else {
        // Names may contain two dots.
        return Ok(vec![read(setting, text)?]);
    };
    let (last_text, step) = match rest.find(['*', '+']) {
        Some(at) => (&rest[..at], Some(&rest[at..])),
        None => (rest, None),
    };
    let last = read_number(setting, last_text.trim())?.unwrap_or_default();
    let range = Range::read(setting, first..=last, step, text)?;
    let mut levels = Vec::new();
    let mut number = range.first;
    while number <= range.last {
        levels.push(check(setting, Value::Number(number), text)?);
        let next = number.saturating_mul(range.factor).saturating_add(range.step);
        if next <= number || levels.len() == LEVELS_MAX {
            let what = format!("`{text}` is not a range with at most {LEVELS_MAX} levels");
            return Err(Fault::new(what).hint("for example `1..64*2` or `0..100+25`"));
        }
        number = next;
    }
    Ok(levels)
}

/// Parses a distribution of sizes.
fn read_sizes(text: &str) -> Result<Value, Fault> {
    match text.parse::<SizeDistribution>() {
        Ok(distribution) => Ok(Value::Text(distribution.to_string())),
        Err(error) => Err(Fault::new(error.what).hint(error.hint)),
    }
}

/// Parses the limits of a dynamic number: `4..64`.
fn read_span(setting: Setting, text: &str) -> Result<Value, Fault> {
    let (first, last) = text.split_once("..").unwrap_or((text, ""));
    if first.trim().is_empty() || last.trim().is_empty() {
        return Err(
            Fault::new(format!("`{text}` has only one limit")).hint("write both, such as `4..64`")
        );
    }
    let min = read_integer(first.trim())?;
    let max = read_integer(last.trim())?;
    check(setting, Value::Number(max), text)?;
    if max < min {
        return Err(Fault::new(format!("`{text}` falls"))
            .hint("the smallest number comes first, such as `4..64`"));
    }
    if min == 0 || min == max {
        let hint = format!("at least `1..`, or the fixed number `{max}`");
        return Err(Fault::new(format!("`{text}` does not limit a dynamic number")).hint(hint));
    }
    Ok(Value::Span { min, max })
}

/// Refuses `1-4`, which may mean a range or just its two ends.
fn describe_dashes(setting: Setting, text: &str) -> Option<Fault> {
    let (first, last) = text.split_once('-')?;
    for end in [first, last] {
        read_number(setting, end.trim()).ok()??;
    }
    let step = match setting.kind() {
        Kind::Count | Kind::Kib | Kind::Percent | Kind::Threads => "",
        _ => "*2",
    };
    let hint = format!("a range is `{first}..{last}{step}`, a list `{first},{last}`");
    Some(Fault::new(format!("`{text}` is not a single value")).hint(hint))
}

/// Maximum number of levels in a range.
const LEVELS_MAX: usize = 1_000;

/// A range of numbers: each level is the previous one times `factor`, plus `step`.
struct Range {
    first: u64,
    last: u64,
    factor: u64,
    step: u64,
}

impl Range {
    fn read(
        setting: Setting,
        ends: RangeInclusive<u64>,
        step: Option<&str>,
        text: &str,
    ) -> Result<Self, Fault> {
        let (first, last) = ends.into_inner();
        if last < first {
            return Err(Fault::new(format!("`{text}` falls"))
                .hint("the smallest level comes first, such as `1..8`"));
        }
        let counts = matches!(setting.kind(), Kind::Count | Kind::Kib | Kind::Percent);
        let (factor, step) = match step {
            None if counts => (1, 1),
            None => {
                let what = format!("`{text}` has no step");
                return Err(Fault::new(what).hint("for example `4KiB..1MiB*2` or `1s..10s+1s`"));
            }
            Some(step) => match step.strip_prefix('*') {
                Some(factor) => (read_integer(factor.trim())?, 0),
                None => (1, read_number(setting, step[1..].trim())?.unwrap_or_default()),
            },
        };
        Ok(Self { first, last, factor, step })
    }
}

/// Parses a number with at most two decimals into hundredths.
fn read_hundredths(text: &str) -> Result<u64, Fault> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let hundredths = match part.len() {
        1 => read_integer(part)? * 10,
        2 => read_integer(part)?,
        _ => {
            return Err(Fault::new(format!("`{text}` has too many decimals"))
                .hint("one or two decimals, such as `1.1`"));
        }
    };
    Ok(read_integer(whole)?.saturating_mul(100).saturating_add(hundredths))
}

/// Parses a fraction such as `0.001` or `0.1%` into millionths.
pub(crate) fn read_fraction(text: &str) -> Result<u64, Fault> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim(), 10_000.0),
        None => (text.trim(), 1e6),
    };
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok((number * unit).round() as u64),
        _ => Err(Fault::new(format!("`{text}` is not a fraction")).hint("0.01 or 1%")),
    }
}

/// Returns the level if it is within its limits; `shown` is the original text.
pub(crate) fn check(setting: Setting, value: Value, shown: &str) -> Result<Value, Fault> {
    if let (Value::Number(number), Some(range)) = (&value, setting.range()) {
        in_range(*number, range, &limits::legal(setting), shown)?;
    }
    Ok(value)
}

/// Refuses a text that is not one of the words of a setting.
fn not_legal(setting: Setting, text: &str) -> Fault {
    let fault = Fault::new(format!("must be {}, not `{text}`", limits::legal(setting)));
    match (setting, text) {
        (Setting::NfsVers, "4") => {
            fault.hint("the minor version is not negotiated: write 4.0, 4.1 or 4.2")
        }
        // Suggesting the nearest word makes no sense for a number.
        _ if text.parse::<f64>().is_ok() => fault,
        _ => match nearest_word(text, setting.words()) {
            Some(near) => fault.hint(format!("did you mean `{near}`?")),
            None => fault,
        },
    }
}

/// Writes a level in the form of a plan.
pub(crate) fn write(setting: Setting, value: &Value) -> String {
    match value {
        Value::Number(number) => match setting.kind() {
            Kind::Size => text::quoted(&text::size(*number)),
            Kind::Time => text::quoted(&text::time(*number)),
            Kind::FineTime => text::quoted(&text::time_ns(*number)),
            Kind::MicroTime => text::quoted(&text::time_ns(*number * 1_000)),
            Kind::BitRate => text::quoted(&text::bit_rate(*number)),
            Kind::Frequency => text::quoted(&text::frequency(*number)),
            Kind::Fraction => text::fraction(*number),
            _ => number.to_string(),
        },
        Value::Span { min, max } => text::quoted(&format!("{min}..{max}")),
        Value::Sizes(sizes) => text::quoted(&sizes.to_string()),
        Value::Flag(yes) => yes.to_string(),
        Value::Word(word) => text::quoted(word),
        Value::Passes(passes) => text::quoted(&text::passes(passes)),
        Value::Text(name) => text::quoted(name),
        Value::Words(words) => text::quoted(&words.join(&setting.separator().to_string())),
        Value::Open => text::quoted(setting.open().unwrap_or_default()),
    }
}

/// Sets a level in NFS settings.
///
/// # Panics
/// If the level does not belong to an NFS setting, which is a bug in this crate.
pub(crate) fn put_nfs(setting: Setting, nfs: &mut NfsSettings, value: Value) {
    let done = setting.put_nfs(nfs, value);
    assert!(done, "{setting:?} is not a setting of NFS, or of another kind");
}

/// Returns the number if it is within its range; `legal` describes the range for people.
pub(crate) fn in_range(number: u64, range: Limits, legal: &str, shown: &str) -> Result<u64, Fault> {
    if (range.min..=range.max).contains(&number) {
        return Ok(number);
    }
    let fault = Fault::new(format!("must be {legal}, not `{shown}`"));
    Err(if number > range.max { fault.hint(range.reason) } else { fault })
}

/// Parses an integer.
pub(crate) fn read_integer(text: &str) -> Result<u64, Fault> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    // `1k` means a thousand for counts, whatever it means for bytes.
    let example = match text.strip_suffix(['k', 'K']).map(str::parse::<u64>) {
        Some(Ok(thousands)) => thousands.saturating_mul(1_000),
        _ => 4,
    };
    Err(Fault::new(format!("`{text}` is not a whole number"))
        .hint(format!("write digits only, such as `{example}`")))
}

/// Parses a time in whole units of `unit_ns`.
fn read_time(text: &str, unit_ns: u64, unit: &str) -> Result<u64, Fault> {
    let ns = parse_time_ns(text)?;
    if !ns.is_multiple_of(unit_ns) {
        return Err(Fault::new(format!("`{text}` is not a whole number of {unit}")));
    }
    Ok(ns / unit_ns)
}

/// Finds a mix by name.
fn read_mix(text: &str) -> Result<Value, Fault> {
    let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
    if names.contains(&text) {
        return Ok(Value::Text(text.to_owned()));
    }
    Err(unknown_word("mix", text, &names))
}

/// Parses names of passes joined by `+`.
fn read_passes(text: &str) -> Result<Value, Fault> {
    if text == text::USUAL {
        return Ok(Value::Passes(Vec::new()));
    }
    let mut passes = Vec::new();
    for name in text.split('+') {
        let name = name.trim();
        if name.is_empty() {
            return Err(Fault::new(format!("a name is missing in `{text}`"))
                .hint("join names with `+`, such as `write+read`"));
        }
        passes.push(known_word(Pass::from_name(name), "pass", name, Pass::NAMES)?);
    }
    Ok(Value::Passes(passes))
}
