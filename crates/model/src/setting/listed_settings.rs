//! The settings of a run, listed for people and for programs.
//!
//! [`RunSpec::settings`] lists the values that distinguish runs, for rows of tables, `--where`, the
//! dry run and the results file. Most runs use the defaults of most settings, which tables omit:
//! see [`RunSpec::is_unset`].

use std::sync::LazyLock;

use super::{Kind, Setting, Value};
use crate::runs::pass::Pass;
use crate::runs::spec::RunSpec;
use crate::runs::workload::Workload;
use crate::text::units::{Nanos, Size};

/// Shown for an empty list, such as mount options.
const NO_WORDS: &str = "none";

impl Setting {
    /// Formats its level in a run for people: `64 KiB`, `1.5 s`, `write+read`.
    pub fn show(self, run: &RunSpec) -> String {
        self.show_level(self.get(run))
    }

    /// Returns true if it is an empty list in a run.
    pub(crate) fn has_no_words(self, run: &RunSpec) -> bool {
        matches!(self.get(run), Value::Words(words) if words.is_empty())
    }

    /// Formats a level for people.
    fn show_level(self, level: Value) -> String {
        match level {
            Value::Number(number) => match self.kind() {
                Kind::Size => Size(number).exact(),
                Kind::Kib => Size(number << 10).exact(),
                Kind::Time => Nanos(number.saturating_mul(1_000_000)).exact(),
                Kind::MicroTime => Nanos(number.saturating_mul(1_000)).exact(),
                Kind::FineTime => Nanos(number).exact(),
                Kind::Fraction => show_fraction(number),
                Kind::BitRate => show_bit_rate(number),
                Kind::Frequency => show_frequency(number),
                _ => number.to_string(),
            },
            Value::Open => self.open().unwrap_or_default().to_owned(),
            Value::Words(words) if words.is_empty() => NO_WORDS.to_owned(),
            other => self.show_words(other),
        }
    }

    /// Formats its level in a run for programs: a plain number in [`Setting::unit`], `true`, or
    /// words; empty if the server or the host decides.
    pub fn plain(self, run: &RunSpec) -> String {
        match self.get(run) {
            Value::Number(number) => number.to_string(),
            Value::Open => String::new(),
            other => self.show_words(other),
        }
    }

    /// Returns its column name for programs: the key with its unit, such as `io_size_bytes`.
    pub fn column(self) -> String {
        let unit = match self.unit() {
            unit if self.key().ends_with(unit) => "",
            "bytes" => "_bytes",
            "bytes/s" => "_bytes_per_s",
            "bits/s" => "_bits_per_s",
            "KiB" => "_kib",
            "kHz" => "_khz",
            "ms" => "_ms",
            "us" => "_us",
            "ns" => "_ns",
            "percent" => "_percent",
            "millionths" => "_millionths",
            "hundredths" => "_hundredths",
            // The key itself names the items that are counted.
            _ => "",
        };
        format!("{}{unit}", self.key())
    }

    fn show_words(self, value: Value) -> String {
        match value {
            Value::Span { min, max } => format!("{min}..{max}"),
            Value::Sizes(sizes) => sizes.to_string(),
            Value::Flag(yes) => yes.to_string(),
            Value::Word(word) => word.to_owned(),
            Value::Text(name) => name,
            Value::Words(words) => words.join(&self.separator().to_string()),
            Value::Passes(passes) => show_passes(&passes),
            Value::Number(_) | Value::Open => String::new(),
        }
    }
}

/// A run of each workload in which every setting has its initial value.
static PLAIN: LazyLock<Vec<RunSpec>> =
    LazyLock::new(|| Workload::ALL.iter().map(|workload| RunSpec::null(*workload)).collect());

impl RunSpec {
    /// Returns every setting that this run depends on with its shown value: target, backend and
    /// workload, then the settings in the order of the matrix, then how the run is repeated.
    ///
    /// The names are those of plans and of `--where`.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut shown = vec![
            ("target", self.target_name.clone()),
            ("backend", self.backend.name().to_owned()),
            ("workload", self.workload.name().to_owned()),
        ];
        shown.extend(self.named_load.iter().flat_map(|load| load.settings()));
        for setting in Setting::ALL {
            if setting.applies(self) {
                shown.push((setting.key(), setting.show(self)));
            }
        }
        shown.extend(self.repetition_settings());
        if !self.command.run.is_empty() {
            shown.push(("run", self.command.run.join(" ")));
        }
        shown
    }

    /// Returns how the run is repeated.
    fn repetition_settings(&self) -> [(&'static str, String); 3] {
        [
            ("discard", self.repetition.discard.to_string()),
            ("until", self.repetition.until()),
            ("warmup_trials", self.repetition.warmup_trials.to_string()),
        ]
    }

    /// Returns true if the shown value of a setting is its default, unless tables always show it.
    pub fn is_unset(&self, name: &str, value: &str) -> bool {
        let is_always_shown = Setting::from_key(name).is_some_and(|it| it.row().always_shown);
        !is_always_shown && self.is_default(name, value)
    }

    /// Returns true if the shown value of a setting is its default.
    pub(crate) fn is_default(&self, name: &str, value: &str) -> bool {
        let plain = &PLAIN[self.workload as usize];
        if let Some(setting) = Setting::from_key(name) {
            // A default by rule depends on the run; the plain run has the right value.
            let default = setting.default_level().unwrap_or_else(|| setting.get(plain));
            return setting.show_level(default) == value;
        }
        let repetition = plain.repetition_settings();
        repetition.iter().any(|(known, unset)| *known == name && unset == value)
    }
}

fn show_passes(passes: &[Pass]) -> String {
    let names: Vec<&str> = passes.iter().map(|pass| pass.name()).collect();
    if names.is_empty() { "usual".to_owned() } else { names.join("+") }
}

fn show_bit_rate(bits_per_s: u64) -> String {
    show_scaled(bits_per_s, &[("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000)])
        .unwrap_or_else(|| format!("{bits_per_s} bit/s"))
}

fn show_frequency(khz: u64) -> String {
    show_scaled(khz, &[("GHz", 1_000_000), ("MHz", 1_000)]).unwrap_or_else(|| format!("{khz} kHz"))
}

/// Formats millionths as percent: `0.1 %`.
fn show_fraction(millionths: u64) -> String {
    format!("{} %", millionths as f64 / 10_000.0)
}

/// Formats a number in the largest unit that it reaches.
fn show_scaled(value: u64, units: &[(&str, u64)]) -> Option<String> {
    let (unit, factor) = units.iter().find(|(_, factor)| value >= *factor)?;
    Some(format!("{} {unit}", value as f64 / *factor as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::work::Sharing;
    use crate::systems::lab::{DataPath, Host, LabSpec};
    use crate::targets::nfs::{NfsTarget, NfsVersion, Proto};
    use crate::targets::target::{BackendKind, Target};
    use crate::testing::RunBuilder;

    /// A run over NFS by our own client.
    fn nfs_run(workload: Workload) -> RunSpec {
        RunBuilder::new(workload)
            .target(Target::Nfs(NfsTarget::new("h", "/e")))
            .backend(BackendKind::Nfs)
            .build()
    }

    /// A run on hosts with this setup.
    fn lab_run(change: impl Fn(&mut LabSpec)) -> RunSpec {
        let mut lab = LabSpec::new(Host::local("s"), Host::local("c"));
        change(&mut lab);
        RunBuilder::new(Workload::Stream)
            .target(Target::Directory { path: "/m".into() })
            .backend(BackendKind::Posix)
            .lab(Some(Box::new(lab)))
            .build()
    }

    fn names(run: &RunSpec) -> Vec<&'static str> {
        run.settings().into_iter().map(|(name, _)| name).collect()
    }

    /// The settings that a table with only this run would show.
    fn stated(run: &RunSpec) -> Vec<(&'static str, String)> {
        let mut settings = run.settings();
        settings.retain(|(name, value)| !run.is_unset(name, value));
        settings
    }

    #[test]
    fn shows_only_relevant_settings() {
        let mut run = RunBuilder::new(Workload::Stream).backend(BackendKind::Uring).build();
        run.layout.sharing = Sharing::Shared;
        run.load.rate_per_s = 100;
        let all = names(&run);
        assert!(["sharing", "block_size", "arrivals", "ramp"].iter().all(|n| all.contains(n)));
        assert!(["think_time", "depth", "small_files", "nfsvers"].iter().all(|n| !all.contains(n)));
        run.backend = BackendKind::Posix;
        assert!(!names(&run).contains(&"queue_depth"));
        // An external tool is not confined, so the setting must not appear to have an effect.
        let has_cpus = |workload| Setting::Cpus.applies(&RunSpec::null(workload));
        assert!(has_cpus(Workload::Stream) && !has_cpus(Workload::Fio));
        let metadata = names(&RunSpec::null(Workload::Metadata));
        assert!(metadata.contains(&"small_files") && !metadata.contains(&"files"));
    }

    #[test]
    fn shows_nfs_settings_of_version() {
        let has = |version, proto, name: &str| {
            let mut run = nfs_run(Workload::Stream);
            if let Target::Nfs(nfs) = &mut run.target {
                nfs.settings.version = version;
                nfs.settings.proto = proto;
            }
            names(&run).contains(&name)
        };
        assert!(has(NfsVersion::V3, Proto::Tcp, "stable"));
        assert!(!has(NfsVersion::V3, Proto::Tcp, "retrans"));
        assert!(!has(NfsVersion::V2, Proto::Udp, "stable"));
        assert!(has(NfsVersion::V2, Proto::Udp, "retrans"));
        assert!(!names(&nfs_run(Workload::Metadata)).contains(&"transfer_size"));
    }

    #[test]
    fn shows_nfs_settings_of_mount() {
        let mounted = names(&lab_run(|_| ()));
        assert!(["data_path", "nfsvers", "mtu"].iter().all(|name| mounted.contains(name)));
        assert!(["invalidate", "clients"].iter().all(|name| !mounted.contains(name)));
        let disk = names(&lab_run(|lab| lab.path = DataPath::Disk));
        assert!(disk.contains(&"data_path") && !disk.contains(&"nfsvers"));
        let local = names(&lab_run(|lab| lab.path = DataPath::Loopback));
        assert!(local.contains(&"nfsvers") && !local.contains(&"mtu"));
    }

    #[test]
    fn states_changes_with_units() {
        let shown = stated(&lab_run(|lab| {
            lab.tuning.mtu_bytes = Some(9_000);
            lab.tuning.rate_bits_per_s = Some(2_500_000_000);
            lab.tuning.delay_us = Some(500);
            lab.tuning.cpu_khz = Some(1_200_000);
            lab.tuning.server_sysctls = vec![("a.b".into(), "1".into()), ("c".into(), "2".into())];
            lab.mounting.read_ahead_kib = Some(128);
        }));
        let value = |name| shown.iter().find(|(known, _)| *known == name).unwrap().1.as_str();
        assert_eq!((value("mtu"), value("rate_limit")), ("9000", "2.5 Gbit/s"));
        assert_eq!((value("delay"), value("cpu_frequency")), ("500 µs", "1.2 GHz"));
        assert_eq!((value("server_sysctl"), value("bdi_read_ahead")), ("a.b=1+c=2", "128 KiB"));
        assert!(stated(&lab_run(|_| ())).iter().all(|(name, _)| *name != "mtu"));
    }

    #[test]
    fn omits_default_duration_of_program() {
        let run = RunSpec::null(Workload::App);
        assert!(stated(&run).iter().all(|(name, _)| *name != "timeout"));
        let longer = RunBuilder::from(run).timeout_ms(7_200_000).build();
        assert!(stated(&longer).iter().any(|(name, _)| *name == "timeout"));
    }

    #[test]
    fn names_units_in_unique_columns() {
        let mut columns = Setting::ALL.map(Setting::column);
        assert!(columns.contains(&"io_size_bytes".to_owned()));
        assert!(columns.contains(&"read_percent".to_owned()));
        assert_eq!(Setting::Bandwidth.column(), "bandwidth_bytes_per_s");
        columns.sort_unstable();
        assert!(columns.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(Setting::TransferSize.plain(&nfs_run(Workload::Stream)), "");
        assert_eq!(Setting::FileSize.plain(&nfs_run(Workload::Stream)), "4096");
    }
}
