//! Formats numbers and dates for people: times, shares, dates in UTC.
//!
//! Independent of locale and time zone, so that reports are the same everywhere.

use model::Histogram;
use model::units::Nanos;
use stats::{Judged, Summary};

/// Median, 99th percentile and maximum with units; dashes if nothing was recorded.
pub(crate) fn times(histogram: &Histogram) -> [String; 3] {
    // An empty histogram returns 0, which would look like a very short time.
    if histogram.count() == 0 {
        return ["–"; 3].map(str::to_owned);
    }
    [histogram.quantile(0.5), histogram.quantile(0.99), histogram.max()]
        .map(|ns| Nanos(ns).to_string())
}

/// Formats a share with a digit after the point: `93.1 %`.
pub(crate) fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Formats a share as a percentage with a suitable number of digits: `0.4 %`, `12 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Half the interval relative to the median: `±1.2 %`; a dash if there is no interval.
pub(crate) fn spread(rate: &Summary) -> String {
    rate.half_width_share().map_or_else(|| "–".to_owned(), |share| format!("±{}", percent(share)))
}

/// CPU time of the client with its unit: `0.52 s/GiB`; a dash if unknown.
pub(crate) fn cpu(judged: &Judged) -> String {
    judged.cpu.as_ref().map_or_else(|| "–".to_owned(), |cpu| cpu.unit.shown(cpu.client))
}

/// CPU time of the server, to be added to the client's: `+0.31 s/GiB`.
pub(crate) fn server_cpu(judged: &Judged) -> Option<String> {
    let cpu = judged.cpu.as_ref()?;
    Some(format!("+{}", cpu.unit.shown(cpu.server?)))
}

/// Byte rate of a mix, whose primary rate is in ops.
pub(crate) fn second_rate(judged: &Judged) -> Option<String> {
    let bytes = judged.bytes_per_s.as_ref()?;
    if judged.pass.is_byte_rate() {
        return None;
    }
    Some(stats::Rate::Bytes(bytes.median).to_string())
}

/// Number of trials used: `5`, or `3/5` if some were not used.
pub(crate) fn trials(judged: &Judged) -> String {
    if judged.trials_used == judged.trials_made {
        judged.trials_used.to_string()
    } else {
        format!("{}/{}", judged.trials_used, judged.trials_made)
    }
}

/// Formats a number with its noun: `1 trial`, `5 trials`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Formats seconds with three digits and a suitable unit: `4.10 s`, `85.2 ms`.
pub(crate) fn seconds(seconds: f64) -> String {
    Nanos((seconds * 1e9) as u64).to_string()
}

/// Formats a number in groups of three digits: `50,000`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Lists names in a sentence: `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Formats a time in UTC: `2026-11-21 19:17:03 UTC`.
///
/// **Source:** Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
pub fn utc(unix_ms: u64) -> String {
    let seconds = unix_ms / 1_000;
    let days = seconds / 86_400;
    let second = seconds % 86_400;
    // Days since 0000-03-01, so that years end with the leap day.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let hour = second / 3_600;
    let minute = second / 60 % 60;
    let second = second % 60;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Formats a time in UTC to the minute: `2025-11-21 19:17 UTC`.
pub fn utc_minute(unix_ms: u64) -> String {
    let instant = utc(unix_ms);
    // The seconds follow the last colon.
    let minute = instant.rsplit_once(':').map_or(instant.as_str(), |(minute, _)| minute);
    format!("{minute} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups_of_digits() {
        let numbers = [0, 999, 1_000, 50_000, 1_234_567];
        assert_eq!(numbers.map(grouped), ["0", "999", "1,000", "50,000", "1,234,567"]);
    }

    #[test]
    fn instants_are_those_of_date_u() {
        // From `date -u -d @N` of GNU coreutils.
        for (seconds, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds * 1_000), shown);
        }
        assert_eq!(utc_minute(951_782_399_000), "2000-02-28 23:59 UTC");
    }

    #[test]
    fn shares_and_lists_read_well() {
        assert_eq!(
            [0.0, 0.0123, 0.0994, 0.0996, 1.5].map(percent),
            ["0.0 %", "1.2 %", "9.9 %", "10 %", "150 %"]
        );
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(
            [listed(&names[..1]), listed(&names[..2]), listed(&names)],
            ["a", "a and b", "a, b and c"]
        );
        assert_eq!(
            (counted(1, "trial"), counted(0, "trial")),
            ("1 trial".into(), "0 trials".into())
        );
    }
}
