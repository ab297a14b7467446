//! Scales a plan for a smaller machine, or a larger one: `--scale`.
//!
//! Principal type: [`Scale`]. What is scaled is what the plan writes: sizes of data files, times of
//! passes, and numbers of ops, bytes, transactions and small files. What is left as it is decides
//! what a run measures: sizes of ops and transfers, threads, clients, rates, trials and devices.

use model::setting::{Setting, Value};

use crate::written::error::{Fault, Located};
use crate::written::raw::RawPlan;
use crate::written::settings::Settings;

const MILLION: u64 = 1_000_000;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Times of passes, in milliseconds; the number is the shortest that is worth measuring.
const TIMES: [(Setting, u64); 4] =
    [(Setting::Duration, 100), (Setting::Warmup, 10), (Setting::Ramp, 10), (Setting::TimeMax, 100)];

/// Counts, with the smallest number; a count that is smaller already stays as it is.
const COUNTS: [(Setting, u64); 5] = [
    (Setting::SmallFiles, 20),
    (Setting::Transactions, 20),
    (Setting::Ops, 1),
    (Setting::Bytes, MIB),
    (Setting::SetPerRate, 64 * KIB),
];

/// By how much a plan is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// In millionths, so that all is computed in integers.
    millionths: u64,
}

impl Scale {
    /// Reads a factor such as `0.01` or `1%`.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let (number, unit) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim(), 0.01),
            None => (text.trim(), 1.0),
        };
        let factor = number.parse::<f64>().unwrap_or(0.0) * unit;
        if (0.000_1..=100.0).contains(&factor) {
            return Ok(Self { millionths: (factor * MILLION as f64).round() as u64 });
        }
        let hint = "0.01 or 1% makes files, times and counts a hundredth";
        Err(Fault::new(format!("must be a factor of 0.0001 to 100, not `{text}`")).hint(hint))
    }

    /// Scales a number.
    fn of(self, number: u64) -> u64 {
        (u128::from(number) * u128::from(self.millionths) / u128::from(MILLION)) as u64
    }
}

impl RawPlan {
    /// Scales what the plan writes; what is left out keeps its default.
    pub(crate) fn scale(&mut self, scale: Scale) {
        let of_factors = largest_io(&self.factors);
        for workload in &mut self.workloads {
            let io_bytes = largest_io(&workload.settings).or(of_factors);
            scale_settings(&mut workload.settings, scale, io_bytes);
        }
        // Sizes of the factors must suit the ops of every workload.
        let mut io_bytes = of_factors;
        for workload in &self.workloads {
            io_bytes = io_bytes.max(largest_io(&workload.settings));
        }
        scale_settings(&mut self.factors, scale, io_bytes);
    }
}

/// The largest `io_size` that is written among some settings.
fn largest_io(settings: &Settings) -> Option<u64> {
    let mut largest = None;
    for level in settings.get(Setting::IoSize)? {
        if let Value::Number(bytes) = level.value {
            largest = largest.max(Some(bytes));
        }
    }
    largest
}

fn scale_settings(settings: &mut Settings, scale: Scale, io_bytes: Option<u64>) {
    for (setting, least) in TIMES.into_iter().chain(COUNTS) {
        map_numbers(settings, setting, |number| scale.of(number).max(least.min(number)));
    }
    map_numbers(settings, Setting::FileSize, |bytes| {
        let scaled = scale.of(bytes).max(1);
        // A file has a whole number of ops. Where none is written, usual ops have 1 MiB at most.
        let step = match io_bytes {
            Some(bytes) => bytes.max(1),
            None if scaled >= MIB => MIB,
            None => 4 * KIB,
        };
        scaled.next_multiple_of(step)
    });
}

/// Changes the numbers of a setting, each within its limits; of equal levels the first is kept.
fn map_numbers(settings: &mut Settings, setting: Setting, change: impl Fn(u64) -> u64) {
    let Some(levels) = settings.get(setting) else { return };
    let mut changed: Vec<Located<Value>> = Vec::with_capacity(levels.len());
    for level in levels {
        let value = match level.value {
            Value::Number(number) => Value::Number(within_limits(setting, change(number))),
            ref other => other.clone(),
        };
        if !changed.iter().any(|known| known.value == value) {
            changed.push(Located { value, place: level.place });
        }
    }
    settings.insert(setting, changed);
}

fn within_limits(setting: Setting, number: u64) -> u64 {
    match setting.range() {
        Some(range) => number.clamp(range.min, range.max),
        None => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_a_number_or_a_share() {
        let read = |text| Scale::parse(text).map(|scale| scale.millionths).ok();
        assert_eq!(
            [read("0.01"), read("1%"), read(" 2 ")],
            [Some(10_000), Some(10_000), Some(2_000_000)]
        );
        assert_eq!([read("0"), read("-1"), read("x"), read("101"), read("")], [None; 5]);
    }

    fn scaled(factors: &str, workload: &str, factor: &str) -> RawPlan {
        let text = format!(
            "name = \"t\"\n[factors]\n{factors}[[target]]\nname = \"n\"\npath = \"m\"\n\
             [[workload]]\n{workload}"
        );
        let mut raw = RawPlan::parse(&text, "p.toml").unwrap();
        raw.scale(Scale::parse(factor).unwrap());
        raw
    }

    fn numbers(settings: &Settings, setting: Setting) -> Vec<u64> {
        let mut numbers = Vec::new();
        for level in settings.get(setting).unwrap_or_default() {
            if let Value::Number(number) = level.value {
                numbers.push(number);
            }
        }
        numbers
    }

    #[test]
    fn sizes_times_and_counts_are_scaled_and_nothing_else() {
        let factors = "duration = \"30s\"\nworkers = [1, 20]\ntransfer_size = \"32KiB\"\n";
        let workload = "kind = \"stream\"\nfile_size = [\"2000MiB\", \"1000MiB\", \"100MiB\"]\n\
                        io_size = \"64KiB\"\n";
        let raw = scaled(factors, workload, "0.01");
        let own = &raw.workloads[0].settings;
        assert_eq!(numbers(own, Setting::FileSize), [20 << 20, 10 << 20, 1 << 20]);
        assert_eq!(numbers(own, Setting::IoSize), [64 << 10]);
        assert_eq!(numbers(&raw.factors, Setting::Duration), [300]);
        assert_eq!(numbers(&raw.factors, Setting::Workers), [1, 20]);
        assert_eq!(numbers(&raw.factors, Setting::TransferSize), [32 << 10]);
        let workload = "kind = \"transactions\"\nsmall_files = 500\ntransactions = 5000\n";
        let own = &scaled("", workload, "1%").workloads[0].settings;
        assert_eq!(numbers(own, Setting::SmallFiles), [20]);
        assert_eq!(numbers(own, Setting::Transactions), [50]);
    }

    #[test]
    fn files_hold_whole_ops_and_equal_levels_are_one() {
        let sizes = "file_size = [\"1GiB\", \"1023MiB\"]\nio_size = [\"4KiB\", \"64MiB\"]\n";
        let raw = scaled(sizes, "kind = \"mixed\"\n", "0.01");
        assert_eq!(numbers(&raw.factors, Setting::FileSize), [64 << 20]);
        // Without a written size of ops.
        let raw = scaled("file_size = [\"250MiB\", \"1MiB\"]\n", "kind = \"stream\"\n", "0.01");
        assert_eq!(numbers(&raw.factors, Setting::FileSize), [3 << 20, 12 << 10]);
        // As it is.
        let raw = scaled("file_size = \"250MiB\"\n", "kind = \"stream\"\n", "1");
        assert_eq!(numbers(&raw.factors, Setting::FileSize), [250 << 20]);
    }
}
