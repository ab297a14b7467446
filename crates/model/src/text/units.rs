//! Parsing and formatting of sizes, rates and times.
//!
//! Sizes are binary and printed as KiB, MiB, GiB; rates are decimal and printed as MB/s. Output
//! never contains a bare "M". In input, the short forms of dd, fio and iozone (`4k`, `1M`) are
//! binary, as they are in those tools.
//!
//! **Source:** IEC 80000-13 (binary prefixes).

use std::fmt;

/// Why a size or a time could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The number or its unit is invalid.
    #[error("`{value}` is not a {what} (hint: {hint})")]
    Malformed {
        /// The expected kind of value: "size" or "time".
        what: &'static str,
        value: String,
        /// How to write it.
        hint: &'static str,
    },
    /// The number doesn't fit in 64 bits.
    #[error("`{value}` is too large for a {what}")]
    TooLarge {
        /// The expected kind of value.
        what: &'static str,
        value: String,
    },
}

const SIZE_HINT: &str = "write a whole number with B, KiB, MiB, GiB or TiB, such as `64KiB`";
const BIT_RATE_HINT: &str = "write a number with kbit, mbit or gbit, such as `100mbit`";
const FREQUENCY_HINT: &str = "write a number with kHz, MHz or GHz, such as `1200MHz`";
const TIME_HINT: &str = "write a number with ms, s, m or h, such as `500ms`, `2s` or `1h30m`";

/// Parses a size: `4096`, `64KiB`, `64k`, `1MB` (decimal), `0.5GiB`.
///
/// # Errors
/// If the text is not a number with a known unit, or not a whole number of bytes.
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split_unit(text.trim());
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "t" | "ti" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(malformed("size", text, SIZE_HINT)),
    };
    scaled(number, factor, "size", text, SIZE_HINT)
}

/// Parses a time into nanoseconds: `500ms`, `2s`, `1.5m`, `1h30m`. A bare number is in seconds.
///
/// # Errors
/// If the text is not a number with a known unit, or several of them with descending units.
pub fn parse_time_ns(text: &str) -> Result<u64, UnitError> {
    let mut rest = text.trim();
    let mut sum_ns = 0_u64;
    let mut last_factor = u64::MAX;
    loop {
        let (number, behind) = split_unit(rest);
        let end = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, next) = behind.split_at(end);
        let factor: u64 = match unit.trim_end() {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            // Only a single number defaults to seconds: `1h30` could mean minutes.
            "" if last_factor == u64::MAX => 1_000_000_000,
            "m" | "min" => 60 * 1_000_000_000,
            "h" => 3_600 * 1_000_000_000,
            _ => return Err(malformed("time", text, TIME_HINT)),
        };
        // Each unit may appear once, the largest first.
        if factor >= last_factor {
            return Err(malformed("time", text, TIME_HINT));
        }
        let part_ns = scaled(number, factor, "time", text, TIME_HINT)?;
        let Some(sum) = sum_ns.checked_add(part_ns) else {
            return Err(UnitError::TooLarge { what: "time", value: text.to_owned() });
        };
        if next.is_empty() {
            return Ok(sum);
        }
        sum_ns = sum;
        last_factor = factor;
        rest = next;
    }
}

/// Parses a link rate in the notation of tc(8) into bits per second: `100mbit`, `2.5gbit`.
///
/// # Errors
/// If the text is not a number with a known unit.
pub fn parse_bit_rate(text: &str) -> Result<u64, UnitError> {
    const WHAT: &str = "rate of a link";
    let (number, unit) = split_unit(text.trim());
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "bit" => 1,
        "kbit" => 1_000,
        "mbit" => 1_000_000,
        "gbit" => 1_000_000_000,
        _ => return Err(malformed(WHAT, text, BIT_RATE_HINT)),
    };
    scaled(number, factor, WHAT, text, BIT_RATE_HINT)
}

/// Parses a frequency into kHz: `1200MHz`, `2.4GHz`.
///
/// # Errors
/// If the text is not a number with a known unit, or not a whole number of kHz.
pub fn parse_frequency_khz(text: &str) -> Result<u64, UnitError> {
    const WHAT: &str = "frequency";
    let (number, unit) = split_unit(text.trim());
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "khz" => 1,
        "mhz" => 1_000,
        "ghz" => 1_000_000,
        _ => return Err(malformed(WHAT, text, FREQUENCY_HINT)),
    };
    scaled(number, factor, WHAT, text, FREQUENCY_HINT)
}

fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

fn malformed(what: &'static str, value: &str, hint: &'static str) -> UnitError {
    UnitError::Malformed { what, value: value.to_owned(), hint }
}

/// Multiplies a decimal number by its unit using integers, so that no digit is lost.
fn scaled(
    number: &str,
    factor: u64,
    what: &'static str,
    text: &str,
    hint: &'static str,
) -> Result<u64, UnitError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || whole.is_empty() || fraction.contains('.') {
        return Err(malformed(what, text, hint));
    }
    // `1.5` of a unit is 15 times the unit divided by ten: either exact or refused.
    let divisor = 10_u128.checked_pow(fraction.len() as u32);
    if let (Ok(digits), Some(divisor)) = (digits.parse::<u128>(), divisor)
        && let Some(product) = digits.checked_mul(u128::from(factor))
    {
        if product % divisor != 0 {
            return Err(malformed(what, text, hint));
        }
        if let Ok(number) = u64::try_from(product / divisor) {
            return Ok(number);
        }
    }
    Err(UnitError::TooLarge { what, value: text.to_owned() })
}

/// A size, printed with the largest binary unit that keeps it short: `64 KiB`, `1.5 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl Size {
    const UNITS: [(&'static str, u64); 6] = [
        ("EiB", 1 << 60),
        ("PiB", 1 << 50),
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];

    /// Formats without loss of precision, for sizes in plans: `1.5 GiB`, `1510 MiB`, `1 GB`,
    /// `1000001 B`. Different sizes always result in different text.
    pub fn exact(self) -> String {
        const DECIMAL: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
        for (unit, factor) in Self::UNITS {
            // One digit after the decimal point and few before it.
            let is_short = self.0 >= factor && self.0 / factor < 10_000;
            if is_short && u128::from(self.0) * 10 % u128::from(factor) == 0 {
                return self.in_unit(unit, factor);
            }
        }
        for (unit, factor) in DECIMAL {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return format!("{} {unit}", self.0 / factor);
            }
        }
        format!("{} B", self.0)
    }

    fn in_unit(self, unit: &str, factor: u64) -> String {
        if self.0.is_multiple_of(factor) {
            format!("{} {unit}", self.0 / factor)
        } else {
            format!("{:.1} {unit}", self.0 as f64 / factor as f64)
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((unit, factor)) = Self::UNITS.iter().find(|(_, factor)| self.0 >= *factor) else {
            return write!(f, "{} B", self.0);
        };
        f.write_str(&self.in_unit(unit, *factor))
    }
}

/// A time, printed with three digits and a suitable unit: `15.2 µs`, `1.03 s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Formats without loss of precision, for times in plans: `1.231 s`, `500 µs`. Different times
    /// always result in different text.
    pub fn exact(self) -> String {
        const UNITS: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)];
        let Some((unit, factor)) = UNITS.iter().find(|(_, factor)| self.0 >= *factor) else {
            return format!("{} ns", self.0);
        };
        let whole = self.0 / factor;
        let rest = self.0 % factor;
        let digits = factor.ilog10() as usize;
        let number = format!("{whole}.{rest:0digits$}");
        format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        match self.0 {
            0..=999 => write!(f, "{} ns", self.0),
            1_000..=999_949 => write!(f, "{} µs", three_digits(ns / 1e3)),
            999_950..=999_949_999 => write!(f, "{} ms", three_digits(ns / 1e6)),
            _ => write!(f, "{} s", three_digits(ns / 1e9)),
        }
    }
}

/// A time in nanoseconds that a user waits, in everyday units: `42.1 s`, `12 min 5 s`, `7 h 30
/// min`, `3 d 4 h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait(pub u64);

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.saturating_add(500_000_000) / 1_000_000_000;
        // Two units, with at least two of the larger one.
        let (large, large_unit, small, small_unit) = match seconds {
            ..120 => return Nanos(self.0).fmt(f),
            120..7_200 => (60, "min", 1, "s"),
            7_200..172_800 => (3_600, "h", 60, "min"),
            _ => (86_400, "d", 3_600, "h"),
        };
        let rounded = (seconds + small / 2) / small * small;
        write!(f, "{} {large_unit}", rounded / large)?;
        match rounded % large / small {
            0 => Ok(()),
            rest => write!(f, " {rest} {small_unit}"),
        }
    }
}

/// Formats a number with three significant digits and no exponent: `1.23`, `45.6`, `12345`.
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.995 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_read_as_people_say_them() {
        for (seconds, text) in [
            (0.4, "400 ms"),
            (42.1, "42.1 s"),
            (119.4, "119 s"),
            (119.6, "2 min"),
            (725.0, "12 min 5 s"),
            (7_199.0, "119 min 59 s"),
            (27_002.0, "7 h 30 min"),
            (172_799.0, "48 h"),
            (172_800.0, "2 d"),
            (273_600.0, "3 d 4 h"),
        ] {
            assert_eq!(Wait((seconds * 1e9) as u64).to_string(), text, "{seconds}");
        }
    }

    #[test]
    fn formats_sizes_as_usual() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65536),
            ("64k", 65536),
            ("1 MiB", 1 << 20),
            ("0.5GiB", 1 << 29),
            ("1MB", 1_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["12XB", "", "MiB", "-1", "1.3B", "1..2k", ".5k", "99999999999TiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        let error = parse_size("12XB").unwrap_err().to_string();
        assert!(error.contains("`12XB`") && error.contains("64KiB"), "{error}");
    }

    #[test]
    fn times_read_and_print() {
        assert_eq!(parse_time_ns("500ms"), Ok(500_000_000));
        assert_eq!(parse_time_ns("2"), Ok(2_000_000_000));
        assert_eq!(parse_time_ns("1.5m"), Ok(90_000_000_000));
        assert_eq!(parse_time_ns("1h30m"), Ok(5_400_000_000_000));
        assert_eq!(parse_time_ns("1h 30min 0.5s"), Ok(5_400_500_000_000));
        for text in ["2 fortnights", "1h30", "30m1h", "1m2m", "1h30x", "1.2.3s", "h", "1s-1ms"] {
            assert!(parse_time_ns(text).is_err(), "{text}");
        }
        assert!(parse_time_ns("5124095h3000000000m").is_err());
        let shown: Vec<String> = [999, 1_000, 15_234, 2_500_000, 1_030_000_000, 75_000_000_000]
            .map(|ns| Nanos(ns).to_string())
            .to_vec();
        assert_eq!(shown, ["999 ns", "1.00 µs", "15.2 µs", "2.50 ms", "1.03 s", "75.0 s"]);
    }

    #[test]
    fn times_that_were_set_lose_nothing() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (500_000, "500 µs"),
            (1_001_000, "1.001 ms"),
            (1_100_000_000, "1.1 s"),
            (1_231_000_000, "1.231 s"),
            (60_000_000_000, "60 s"),
            (u64::MAX, "18446744073.709551615 s"),
        ] {
            assert_eq!(Nanos(ns).exact(), text);
            assert_eq!(parse_time_ns(text).unwrap(), ns);
        }
    }

    #[test]
    fn formats_link_and_cpu_units() {
        assert_eq!(parse_bit_rate("100mbit"), Ok(100_000_000));
        assert_eq!(parse_bit_rate("2.5Gbit"), Ok(2_500_000_000));
        assert_eq!(parse_frequency_khz("1.2GHz"), Ok(1_200_000));
        // A bare number or a size in bytes would be misinterpreted.
        assert!(["100", "10MB", "", "1.00001kbit"].iter().all(|t| parse_bit_rate(t).is_err()));
        assert!(["2400", "2.4Ghz0", "0.5kHz"].iter().all(|t| parse_frequency_khz(t).is_err()));
    }

    #[test]
    fn sizes_that_were_set_lose_nothing() {
        for (bytes, text) in [
            (1_610_612_736, "1.5 GiB"),
            (1_583_349_760, "1510 MiB"),
            (1_000_000_000, "1 GB"),
            (100_000_000, "100 MB"),
            (65_536, "64 KiB"),
            (1_000_001, "1000001 B"),
            (0, "0 B"),
            (u64::MAX, "18446744073709551615 B"),
        ] {
            assert_eq!(Size(bytes).exact(), text);
            assert_eq!(parse_size(text).unwrap(), bytes);
        }
    }

    #[test]
    fn sizes_print_with_their_unit() {
        let shown: Vec<String> =
            [512, 4096, 1_572_864, 1 << 30].map(|b| Size(b).to_string()).to_vec();
        assert_eq!(shown, ["512 B", "4 KiB", "1.5 MiB", "1 GiB"]);
    }
}
