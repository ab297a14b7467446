//! Numeric value of a displayed setting, used for trends, axes and the order of tables.
//!
//! [`quantity`] parses the displayed value, so a new numeric setting need not be listed anywhere.
//! Protocol versions look like numbers but are names.

use model::setting::Setting;

/// Factor from each unit to the smallest of its kind. A setting never mixes kinds.
const UNITS: [(&str, f64); 22] = [
    ("", 1.0),
    ("B", 1.0),
    ("KiB", 1_024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("ns", 1.0),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 6e10),
    ("h", 3.6e12),
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("kHz", 1.0),
    ("MHz", 1e3),
    ("GHz", 1e6),
    ("%", 1.0),
    ("op/s", 1.0),
    ("kop/s", 1e3),
];

/// Settings whose values look like numbers but are names: there is nothing between 3 and 4.
const NAMES: [&str; 2] = ["nfsvers", "xprtsec"];

/// Parses the value of a setting: `64 KiB`, `4`, `2.5 Gbit/s`, `256 KiB (granted 64 KiB)`. `None`
/// if it is not a number.
pub(crate) fn quantity(name: &str, shown: &str) -> Option<f64> {
    if NAMES.contains(&name) {
        return None;
    }
    // If the server decides, a transfer is as large as it allows.
    let is_server_s_choice = Setting::TransferSize.open() == Some(shown);
    if name == Setting::TransferSize.key() && is_server_s_choice {
        return Some(f64::INFINITY);
    }
    // For `256 KiB (granted 64 KiB)`, rows are sorted by what was requested, as in the plan.
    let value = shown.split(" (").next().unwrap_or(shown);
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let (_, factor) = UNITS.iter().find(|(known, _)| *known == unit.trim_start())?;
    number.parse::<f64>().ok().map(|number| number * factor)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact figures are the point
mod tests {
    use model::units::{Nanos, Size};

    use super::*;

    #[test]
    fn parses_values_as_shown() {
        let read = |shown: &str| quantity("x", shown);
        for bytes in [0, 512, 4_096, 96 << 10, 1 << 20, 3 << 40] {
            assert_eq!(read(&Size(bytes).to_string()), Some(bytes as f64), "{bytes}");
        }
        for ns in [0, 999, 1_000, 5_000_000, 90_000_000_000] {
            assert_eq!(read(&Nanos(ns).to_string()), Some(ns as f64), "{}", Nanos(ns));
        }
        assert_eq!(
            ["2.5 Gbit/s", "9000", "256 KiB (granted 64 KiB)"].map(read),
            [Some(2.5e9), Some(9e3), Some(262_144.0)]
        );
        assert_eq!(quantity("transfer_size", "server"), Some(f64::INFINITY));
        let names = ["true", "unchanged", "usual", "", ".", "1.2.3", "4 parsecs", "a=1+b=2"];
        assert!(names.iter().all(|name| read(name).is_none()));
        assert_eq!(quantity("nfsvers", "4.1"), None);
    }
}
