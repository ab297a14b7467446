//! Formats values for a plan: exactly, so that they parse back to the same number.
//!
//! `model::units` formats for people and may round.

use model::Pass;

/// Adds the article to a word.
pub(crate) fn with_article(word: &str) -> String {
    let article = if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {word}")
}

/// Formats a number with the largest unit that divides it, so that it parses back exactly.
///
/// `units` has the units with their factors, largest first; `base` is the unit of the number
/// itself.
fn in_largest_unit(number: u64, units: &[(&str, u64)], base: &str) -> String {
    for (name, factor) in units {
        // Zero is a multiple of everything, and `0B` reads better than `0TiB`.
        if number > 0 && number.is_multiple_of(*factor) {
            return format!("{}{name}", number / factor);
        }
    }
    format!("{number}{base}")
}

/// Writes bytes with the largest unit that divides them: `64KiB`, `1000B`.
pub(crate) fn size(bytes: u64) -> String {
    let units = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    in_largest_unit(bytes, &units, "B")
}

/// Writes milliseconds with the largest unit that divides them: `10m`, `1s`, `1500ms`.
pub(crate) fn time(ms: u64) -> String {
    in_largest_unit(ms, &[("h", 3_600_000), ("m", 60_000), ("s", 1_000)], "ms")
}

/// Writes nanoseconds with the largest unit that divides them: `2s`, `1500us`.
pub(crate) fn time_ns(ns: u64) -> String {
    in_largest_unit(ns, &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)], "ns")
}

/// Writes bits per second with the largest unit that divides them: `100mbit`, `1500kbit`.
pub(crate) fn bit_rate(bits_per_s: u64) -> String {
    let units = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000)];
    in_largest_unit(bits_per_s, &units, "bit")
}

/// Writes kHz with the largest unit that divides them: `2GHz`, `1200MHz`.
pub(crate) fn frequency(khz: u64) -> String {
    in_largest_unit(khz, &[("GHz", 1_000_000), ("MHz", 1_000)], "kHz")
}

/// Writes millionths as a decimal number: `0.001`, `1`.
pub(crate) fn fraction(millionths: u64) -> String {
    let decimals = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    decimals.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The word for a workload's default passes.
pub(crate) const USUAL: &str = "usual";

/// Writes passes as a plan does: `write+read`.
pub(crate) fn passes(passes: &[Pass]) -> String {
    let names: Vec<&str> = passes.iter().map(|pass| pass.name()).collect();
    if names.is_empty() { USUAL.to_owned() } else { names.join("+") }
}

/// Writes a string of TOML, quoted and escaped.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Writes texts as a list of TOML: `["a", "b"]`.
pub(crate) fn list_of(texts: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", quoted.join(", "))
}

/// Writes words as people read a choice: `a, b or c`.
pub(crate) fn join_with_or(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_read_back_exactly() {
        for bytes in [0, 1, 1000, 1 << 10, 3 << 19, 1 << 40, u64::MAX] {
            assert_eq!(model::units::parse_size(&size(bytes)), Ok(bytes));
        }
        for ms in [0, 1, 1_500, 60_000, 86_400_000] {
            assert_eq!(model::units::parse_time_ns(&time(ms)), Ok(ms * 1_000_000));
        }
        for bits in [8_000, 2_500_000, 1_000_000_000, 1_001] {
            assert_eq!(model::units::parse_bit_rate(&bit_rate(bits)), Ok(bits));
        }
        for khz in [1, 1_200_000, 3_000_000] {
            assert_eq!(model::units::parse_frequency_khz(&frequency(khz)), Ok(khz));
        }
        assert_eq!((size(65_536), time(1_500), time(600_000)).0, "64KiB");
        assert_eq!(join_with_or(&["a", "b", "c"]), "a, b or c");
    }
}
