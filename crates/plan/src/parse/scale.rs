//! Scales a plan down for a smaller machine, or up for a larger one: `--scale`.
//!
//! [`Scale`] applies to numbers that the plan contains: sizes of data files, times of passes, and
//! numbers of ops, bytes, transactions and small files. It does not touch anything that determines
//! what a run measures: sizes of ops and transfers, threads, clients, rates, trials and devices.
//! Ops larger than a scaled file are dropped, and so are most runs of a large matrix once it is
//! known ([`Scale::runs_kept`]); otherwise a hundredth of the bytes would take as long. A
//! checkpoint or a training without a `model_scale` has the factor itself.

use std::collections::BTreeMap;

use model::setting::{Setting, Value};
use model::{Conclusion, Limit, Workload};

use crate::parse::level;
use crate::syntax::error::{Fault, Located};
use crate::syntax::raw::{RawPlan, RawWorkload, Scale};
use crate::syntax::settings::Settings;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Times of passes, each with the shortest time worth measuring, in milliseconds.
const TIMES: [(Setting, u64); 4] =
    [(Setting::Duration, 100), (Setting::Warmup, 10), (Setting::Ramp, 10), (Setting::TimeMax, 100)];

/// Counts, each with its minimum; a count that is already smaller is not changed.
const COUNTS: [(Setting, u64); 8] = [
    (Setting::SmallFiles, 20),
    (Setting::Entries, 20),
    (Setting::Transactions, 20),
    (Setting::Ops, 1),
    (Setting::Bytes, MIB),
    (Setting::BootSize, 64 * KIB),
    (Setting::SetPerRate, 4 * KIB),
    (Setting::ModelScale, 1),
];

impl Scale {
    /// Parses a factor such as `0.01` or `1%`.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let (number, unit) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim(), 0.01),
            None => (text.trim(), 1.0),
        };
        let factor = number.parse::<f64>().unwrap_or(0.0) * unit;
        if (0.000_1..=100.0).contains(&factor) {
            return Ok(Self::from_millionths((factor * 1e6).round() as u64));
        }
        let hint = "0.01 or 1% scales files, times and counts to a hundredth";
        Err(Fault::new(format!("must be a factor of 0.0001 to 100, not `{text}`")).hint(hint))
    }
}

impl RawPlan {
    /// Scales the numbers that the plan contains; omitted ones keep their default.
    pub(crate) fn scale(&mut self, scale: Scale) {
        self.scale = Some(scale);
        self.drop_large_ops(scale);
        let of_factors = largest(&self.factors, Setting::IoSize);
        // Sizes in the factors must suit the ops of every workload.
        let mut of_all = Scaling { scale, io_bytes: of_factors };
        let mut of_each: Vec<(Workload, Scaling)> = Vec::new();
        for workload in &mut self.workloads {
            let own = largest(&workload.settings, Setting::IoSize);
            let scaling = Scaling { scale, io_bytes: own.or(of_factors) };
            scaling.change(&mut workload.settings);
            if let Some(load) = &mut workload.load {
                for time in [&mut load.start_ms, &mut load.end_ms].into_iter().flatten() {
                    time.value = scale.apply(time.value);
                }
            }
            of_all.io_bytes = of_all.io_bytes.max(own);
            if workload.settings.get(Setting::FileSize).is_some() {
                of_each.push((workload.kind.value, scaling));
            }
        }
        of_all.change(&mut self.factors);
        // Conclusions and requirements must refer to the levels that the plan has after scaling.
        let scaling_of = |passes: &[String]| {
            let is_of = |kind: &Workload| passes.iter().any(|pass| pass.starts_with(kind.name()));
            of_each.iter().rfind(|(kind, _)| is_of(kind)).map_or(of_all, |(_, scaling)| *scaling)
        };
        for conclusion in &mut self.conclusions {
            scaling_of(&conclusion.passes).change_conclusion(conclusion);
        }
        for requirement in &mut self.requirements {
            let requirement = &mut requirement.value;
            let pass = Limit::parse(&requirement.limit).map(|limit| limit.pass).ok();
            scaling_of(pass.as_slice()).change_conditions(&mut requirement.only);
        }
    }

    /// Drops ops that are larger than the largest scaled file: rounding the file up to them would
    /// make it as large as before. The smallest op is always kept.
    fn drop_large_ops(&mut self, scale: Scale) {
        let of_factors = largest(&self.factors, Setting::FileSize);
        let file_of = |workload: &RawWorkload| {
            largest(&workload.settings, Setting::FileSize)
                .or(of_factors)
                .map(|size| scale.apply(size))
        };
        let mut file_max = of_factors.map(|size| scale.apply(size));
        for workload in &self.workloads {
            file_max = file_max.max(file_of(workload));
        }
        for workload in &mut self.workloads {
            if let Some(bytes) = file_of(workload) {
                self.large_ops.extend(keep_ops_within(&mut workload.settings, bytes));
            }
        }
        if let Some(bytes) = file_max {
            self.large_ops.extend(keep_ops_within(&mut self.factors, bytes));
        }
        self.large_ops.sort_unstable();
        self.large_ops.dedup();
    }
}

/// Keeps the levels of `io_size` that fit a file, and the smallest one; returns the others.
fn keep_ops_within(settings: &mut Settings, file_bytes: u64) -> Vec<u64> {
    let Some(levels) = settings.get(Setting::IoSize) else { return Vec::new() };
    let mut smallest = u64::MAX;
    for level in levels {
        if let Value::Number(bytes) = level.value {
            smallest = smallest.min(bytes);
        }
    }
    let mut kept = Vec::new();
    let mut large = Vec::new();
    for level in levels {
        match level.value {
            Value::Number(bytes) if bytes > file_bytes.max(smallest) => large.push(bytes),
            _ => kept.push(level.clone()),
        }
    }
    settings.insert(Setting::IoSize, kept);
    large
}

/// Returns the largest number written for a setting.
fn largest(settings: &Settings, setting: Setting) -> Option<u64> {
    let mut largest = None;
    for level in settings.get(setting)? {
        if let Value::Number(bytes) = level.value {
            largest = largest.max(Some(bytes));
        }
    }
    largest
}

/// Scaling of the settings of one workload, or of all.
#[derive(Clone, Copy)]
struct Scaling {
    scale: Scale,
    /// The largest op size, if one was written.
    io_bytes: Option<u64>,
}

impl Scaling {
    fn change(self, settings: &mut Settings) {
        let lists = TIMES.into_iter().chain(COUNTS).map(|(setting, _)| setting);
        for setting in lists.chain([Setting::FileSize]) {
            map_numbers(settings, setting, |number| self.scaled(setting, number));
        }
    }

    /// Scales the levels that a conclusion refers to.
    fn change_conclusion(self, conclusion: &mut Conclusion) {
        let Conclusion { factor, from, to, only, .. } = conclusion;
        for level in [from, to] {
            self.change_level(factor, level);
        }
        self.change_conditions(only);
    }

    fn change_conditions(self, only: &mut BTreeMap<String, Vec<String>>) {
        for (name, levels) in only {
            for level in levels {
                self.change_level(name, level);
            }
        }
    }

    fn change_level(self, name: &str, text: &mut String) {
        let Some(setting) = Setting::from_key(name) else { return };
        if let Ok(Value::Number(number)) = level::read(setting, text) {
            let scaled = within_limits(setting, self.scaled(setting, number));
            if scaled != number {
                let written = level::write(setting, &Value::Number(scaled));
                written.trim_matches('"').clone_into(text);
            }
        }
    }

    /// Returns the scaled number; most settings are not scaled.
    fn scaled(self, setting: Setting, number: u64) -> u64 {
        for (scaled, least) in TIMES.into_iter().chain(COUNTS) {
            if scaled == setting {
                return self.scale.apply(number).max(least.min(number));
            }
        }
        if setting != Setting::FileSize {
            return number;
        }
        let bytes = self.scale.apply(number).max(1);
        // A file consists of whole ops. Without a written op size, ops have at most 1 MiB.
        let step = match self.io_bytes {
            Some(io_bytes) => io_bytes.max(1),
            None if bytes >= MIB => MIB,
            None => 4 * KIB,
        };
        bytes.next_multiple_of(step)
    }
}

/// Applies a function to the numbers of a setting, within its limits, and removes duplicates.
fn map_numbers(settings: &mut Settings, setting: Setting, change: impl Fn(u64) -> u64) {
    let Some(levels) = settings.get(setting) else { return };
    let mut changed: Vec<Located<Value>> = Vec::with_capacity(levels.len());
    for level in levels {
        let value = match level.value {
            Value::Number(number) => Value::Number(within_limits(setting, change(number))),
            Value::Sizes(ref sizes) => {
                let change = |size| if size == 0 { 0 } else { change(size) };
                Value::Sizes(Box::new(sizes.map_sizes(change)))
            }
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
    fn parses_scale_as_number_or_percent() {
        let read = |text| Scale::parse(text).map(|scale| scale.apply(1_000_000)).ok();
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
    fn scales_sizes_times_and_counts() {
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
    fn scales_share_of_model() {
        let own = "kind = \"checkpoint\"\nmodel_scale = [0.5, 0.01]\n";
        let raw = scaled("", own, "0.1");
        assert_eq!(numbers(&raw.workloads[0].settings, Setting::ModelScale), [50_000, 1_000]);
    }

    #[test]
    fn merges_equal_scaled_levels() {
        let sizes = "file_size = [\"1GiB\", \"1023MiB\"]\nio_size = [\"4KiB\", \"8MiB\"]\n";
        let raw = scaled(sizes, "kind = \"mixed\"\n", "0.01");
        assert_eq!(numbers(&raw.factors, Setting::FileSize), [16 << 20]);
        // Ops larger than a file of 10 MiB are dropped.
        let sizes = "file_size = \"1GiB\"\nio_size = [\"4KiB\", \"8MiB\", \"64MiB\"]\n";
        let raw = scaled(sizes, "kind = \"mixed\"\n", "0.01");
        assert_eq!(numbers(&raw.factors, Setting::IoSize), [4 << 10, 8 << 20]);
        assert_eq!(numbers(&raw.factors, Setting::FileSize), [16 << 20]);
        assert_eq!(raw.large_ops, [64 << 20]);
        // The smallest is kept, and a workload's ops are compared with its own files.
        let own = "kind = \"mixed\"\nfile_size = \"1MiB\"\nio_size = [\"8MiB\", \"64MiB\"]\n";
        let raw = scaled("file_size = \"64GiB\"\n", own, "0.01");
        assert_eq!(numbers(&raw.workloads[0].settings, Setting::IoSize), [8 << 20]);
        // Without a written op size.
        let raw = scaled("file_size = [\"250MiB\", \"1MiB\"]\n", "kind = \"stream\"\n", "0.01");
        assert_eq!(numbers(&raw.factors, Setting::FileSize), [3 << 20, 12 << 10]);
        // A factor of 1 changes nothing.
        let raw = scaled("file_size = \"250MiB\"\n", "kind = \"stream\"\n", "1");
        assert_eq!(numbers(&raw.factors, Setting::FileSize), [250 << 20]);
    }

    #[test]
    fn sentences_are_about_the_scaled_levels() {
        let workloads = "kind = \"stream\"\nio_size = \"64KiB\"\n[[workload]]\n\
            kind = \"bonnie\"\nio_size = \"8KiB\"\nfile_size = [\"1MiB\", \"100MiB\"]\n\
            [[conclusion]]\ntext = \"a\"\n\
            factor = \"file_size\"\nfrom = \"1MiB\"\nto = \"100MiB\"\nexpect = \"slower\"\n\
            passes = [\"bonnie read\"]\n[[conclusion]]\ntext = \"b\"\nfactor = \"nfsvers\"\n\
            from = 2\nto = 3\nexpect = \"faster\"\nwhere = { file_size = \"1MiB\" }\n";
        let raw = scaled("file_size = [\"1MiB\", \"100MiB\"]\n", workloads, "0.02");
        assert_eq!(numbers(&raw.factors, Setting::FileSize), [64 << 10, 2 << 20]);
        let [sizes, versions] = raw.conclusions.as_slice() else { panic!("two sentences") };
        assert_eq!((sizes.from.as_str(), sizes.to.as_str()), ("24KiB", "2MiB"));
        assert_eq!((versions.from.as_str(), versions.to.as_str()), ("2", "3"));
        assert_eq!(versions.only["file_size"], ["64KiB"]);
    }
}
