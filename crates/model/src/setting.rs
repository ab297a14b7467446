//! Settings of a run: names, values, meanings, and which runs depend on them.
//!
//! [`Setting`] is the only list of settings, generated from the rows of `setting/table.rs`. The
//! plan parser, flags, help, tables, exports and `--where` all use it. `setting/listed_settings.rs`
//! lists the settings of a run for people and programs.

mod applies;
mod field;
mod listed_settings;
mod row;
mod table;

use std::sync::LazyLock;

use crate::runs::file_sizes::SizeDistribution;
use crate::runs::pass::Pass;
use crate::runs::spec::RunSpec;
use crate::runs::workload::Workload;
use crate::systems::lab::{Host, LabSpec};
use crate::targets::nfs::{NfsSettings, NfsTarget};
use crate::targets::target::{Ability, Target};
use field::{Field, FieldAccess};
use row::Row;

pub use table::Setting;

/// The table as a static, so that rows can be referenced.
static ROWS: [Row; table::ROWS.len()] = table::ROWS;

/// The type of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A size in bytes.
    Size,
    /// A whole number.
    Count,
    /// A number of threads, or two numbers between which a server adapts it.
    Threads,
    /// A size in KiB.
    Kib,
    /// A share, in whole percent.
    Percent,
    /// A share, in millionths: written as `0.001` or `0.1%`.
    Fraction,
    /// A time in milliseconds.
    Time,
    /// A time in nanoseconds.
    FineTime,
    /// A time in microseconds.
    MicroTime,
    /// Bits per second.
    BitRate,
    /// A frequency in kHz.
    Frequency,
    /// Yes or no.
    Flag,
    /// One of [`Setting::words`].
    Word,
    /// Name of a mix of `workload::opmix`.
    Mix,
    /// Names of passes joined by `+`, or `usual`.
    Passes,
    /// A name with a meaning outside dfsbench, such as a cipher.
    Text,
    /// Several words, such as options; see [`Setting::separator`].
    Words,
}

/// The subject of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The workload, its concurrency and its data files.
    Work,
    /// Files and directories of metadata workloads.
    Names,
    /// When ops are scheduled, and when a pass ends.
    Load,
    /// Contents of written data, and its durability.
    Data,
    /// NFS version, transport and protocol options.
    Nfs,
    /// The setup of hosts.
    Lab,
}

/// One level of a setting, within its limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A number of bytes, items or percent, or of the unit of time, rate or frequency of
    /// [`Setting::kind`].
    Number(u64),
    /// Any number between these two, as the server decides from moment to moment.
    Span { min: u64, max: u64 },
    /// Sizes that differ from file to file; see [`Setting::takes_distribution`].
    Sizes(Box<SizeDistribution>),
    /// Yes or no.
    Flag(bool),
    /// One of [`Setting::words`].
    Word(&'static str),
    /// Passes in their order; empty for the default passes.
    Passes(Vec<Pass>),
    /// A name with a meaning outside dfsbench.
    Text(String),
    /// Words in their order; may be empty.
    Words(Vec<String>),
    /// The server or the host decides: see [`Setting::open`].
    Open,
}

/// Legal values of a number, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// The reason for the limits, shown as a hint for values outside.
    pub reason: &'static str,
}

impl Setting {
    /// Settings of how to speak to a server, which are also allowed in an address or a
    /// `[[target]]`.
    pub const OF_TARGETS: [Self; 9] = [
        Self::NfsVers,
        Self::Proto,
        Self::XprtSec,
        Self::Nconnect,
        Self::MaxConnect,
        Self::TransferSize,
        Self::Timeo,
        Self::Retrans,
        Self::UdpWindow,
    ];

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    pub fn key(self) -> &'static str {
        self.row().key
    }

    /// Finds a setting by key.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.key() == key)
    }

    /// Returns the command-line flag: the key with dashes.
    pub fn flag(self) -> &'static str {
        static FLAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
            ROWS.iter().map(|row| format!("--{}", row.key.replace('_', "-"))).collect()
        });
        &FLAGS[self as usize]
    }

    /// Returns the type of its values.
    pub fn kind(self) -> Kind {
        self.row().kind
    }

    /// Returns its subject.
    pub fn family(self) -> Family {
        self.row().family
    }

    /// Returns the unit of its number; empty if it has none.
    pub fn unit(self) -> &'static str {
        self.row().unit
    }

    /// Returns its description for people.
    pub fn meaning(self) -> &'static str {
        self.row().meaning.trim()
    }

    /// Returns the legal values of a number; `None` for other kinds.
    pub fn range(self) -> Option<Range> {
        self.row().range
    }

    /// Returns the legal words; empty if its values are not words.
    pub fn words(self) -> &'static [&'static str] {
        self.row().words
    }

    /// Returns the word for a value that the server or the host decides.
    pub fn open(self) -> Option<&'static str> {
        self.row().open
    }

    /// Returns the separator of the words in a level of [`Kind::Words`].
    pub fn separator(self) -> char {
        self.row().separator
    }

    /// Returns its default if that depends on no other setting.
    pub fn default_level(self) -> Option<Value> {
        // Without a stated default and a rule, the default is the initial value of the field.
        match self.row().default {
            Some(stated) => Some(stated.value()),
            None if self.row().default_rule.is_empty() => Some(self.unset()),
            None => None,
        }
    }

    /// Describes a default that depends on other settings.
    pub fn default_rule(self) -> Option<&'static str> {
        Some(self.row().default_rule).filter(|rule| !rule.is_empty())
    }

    /// Returns true if it is one of [`Self::OF_TARGETS`].
    pub fn is_of_targets(self) -> bool {
        self.row().of_targets
    }

    /// Returns true if some runs of this workload depend on it.
    pub fn has_workload(self, workload: Workload) -> bool {
        self.row().workloads.contains(&workload)
    }

    /// Returns the equivalent setting for other workloads: the number and size of files have two
    /// names each.
    pub fn counterpart(self) -> Option<Self> {
        match self {
            Self::Files => Some(Self::SmallFiles),
            Self::FileSize => Some(Self::SmallFileSize),
            Self::SmallFiles => Some(Self::Files),
            Self::SmallFileSize => Some(Self::FileSize),
            _ => None,
        }
    }

    /// Returns true if its levels may be distributions of sizes.
    pub const fn takes_distribution(self) -> bool {
        matches!(self, Self::FileSize | Self::SmallFileSize)
    }

    /// Returns true if a run depends on it, given the earlier settings. A setting that does not
    /// apply never multiplies runs, is not shown, and keeps its fixed value.
    pub fn applies(self, run: &RunSpec) -> bool {
        let row = self.row();
        self.has_workload(run.workload) && self.suits_backend(run) && (row.when)(run)
    }

    /// Returns true if the run's backend has a use for settings of this family.
    fn suits_backend(self, run: &RunSpec) -> bool {
        match self.family() {
            Family::Work | Family::Names | Family::Load => true,
            Family::Data => run.backend.has_ability(Ability::MoveData),
            Family::Lab => run.lab.is_some(),
            // Our own client supports all of them, as long as it speaks NFS.
            Family::Nfs if run.backend.has_ability(Ability::SpeakNfs) => {
                let is_served = run.lab.as_deref().is_none_or(LabSpec::is_served);
                is_served && !run.workload.is_external()
            }
            // Kernel mounts support the settings that have a mount option.
            Family::Nfs => {
                let mounts_nfs = run.lab.as_deref().is_some_and(LabSpec::mounts_nfs);
                run.backend.has_ability(Ability::MakeSystemCalls)
                    && self.is_of_targets()
                    && mounts_nfs
            }
        }
    }

    /// Returns its level in a run.
    pub fn get(self, run: &RunSpec) -> Value {
        if self.takes_distribution()
            && let Some(sizes) = &run.file_sizes
        {
            return Value::Sizes(sizes.clone());
        }
        match self.row().place {
            FieldAccess::Run(get, _) => get(run).value(),
            FieldAccess::Nfs(get, _) => get(&run.nfs()).value(),
            FieldAccess::Lab(get, _) => get(run.lab.as_deref().unwrap_or(&PLAIN_LAB)).value(),
        }
    }

    /// Sets a level in a run. Returns false if the level is of the wrong kind or the run has no
    /// such part; the run may then have lost its old level.
    #[must_use]
    pub fn put(self, run: &mut RunSpec, value: Value) -> bool {
        // The mean depends on the number of files, which is known by now.
        if self.takes_distribution() {
            run.file_sizes = None;
            if let Value::Sizes(sizes) = value {
                *run = run.clone().with_sizes(*sizes);
                return true;
            }
        }
        // NFS settings are stored in the target if our client speaks NFS, and in the mount if the
        // kernel does.
        let field: &mut dyn Field = match (self.row().place, &mut run.target, &mut run.lab) {
            (FieldAccess::Run(_, get), ..) => get(run),
            (FieldAccess::Lab(_, get), _, Some(lab)) => get(lab),
            (FieldAccess::Nfs(_, get), Target::Nfs(nfs), _) => get(&mut nfs.settings),
            (FieldAccess::Nfs(_, get), _, Some(lab)) => get(&mut lab.mounting.nfs),
            (FieldAccess::Lab(..) | FieldAccess::Nfs(..), ..) => return false,
        };
        field.put(value)
    }

    /// Sets a level in NFS settings; returns false if it is not an NFS setting, or of the wrong
    /// kind.
    #[must_use]
    pub fn put_nfs(self, nfs: &mut NfsSettings, value: Value) -> bool {
        let FieldAccess::Nfs(_, get) = self.row().place else { return false };
        get(nfs).put(value)
    }

    /// Returns its level in a run where it was never set.
    pub fn unset(self) -> Value {
        self.get(&PLAIN_RUN)
    }
}

/// Hosts to which nothing is done.
static PLAIN_LAB: LazyLock<LabSpec> =
    LazyLock::new(|| LabSpec::new(Host::local(""), Host::local("")));

/// A run in which every setting has its initial value.
static PLAIN_RUN: LazyLock<RunSpec> = LazyLock::new(|| RunSpec {
    target: Target::Nfs(NfsTarget::new("", "")),
    ..RunSpec::null(Workload::Stream)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete() {
        for (index, setting) in Setting::ALL.into_iter().enumerate() {
            assert_eq!(setting as usize, index);
            assert_eq!(Setting::from_key(setting.key()), Some(setting));
            assert!(setting.meaning().ends_with('.'), "{setting:?}");
            let is_number = matches!(setting.unset(), Value::Number(_))
                || !matches!(setting.kind(), Kind::Text | Kind::Flag | Kind::Word)
                    && setting.open().is_some();
            assert_eq!(setting.range().is_some(), is_number, "{setting:?}");
            assert_eq!(setting.words().is_empty(), setting.kind() != Kind::Word, "{setting:?}");
            let is_of_targets = Setting::OF_TARGETS.contains(&setting);
            assert_eq!(setting.is_of_targets(), is_of_targets, "{setting:?}");
        }
    }

    #[test]
    fn every_level_reads_back() {
        let lab = LabSpec::new(Host::local("s"), Host::local("c"));
        for setting in Setting::ALL {
            let mut run = PLAIN_RUN.clone();
            run.lab = Some(Box::new(lab.clone()));
            // Three hosts, the first with two agents.
            run.placement.hosts = ["a", "b", "c"].map(Host::local).to_vec();
            run.placement.hosts.push(Host::local("a").for_agent(2));
            let level = match setting.range() {
                Some(_) if setting == Setting::ClientHosts => Value::Number(2),
                Some(range) => Value::Number(range.min + 1),
                None if setting == Setting::ObjectSize => {
                    Value::Text("uniform 4KiB 1MiB".to_owned())
                }
                None => match setting.unset() {
                    Value::Flag(yes) => Value::Flag(!yes),
                    Value::Open if setting.kind() == Kind::Flag => Value::Flag(true),
                    Value::Open if setting.kind() == Kind::Word => Value::Word(setting.words()[1]),
                    Value::Word(_) => Value::Word(setting.words()[1]),
                    Value::Words(_) => Value::Words(vec!["a=1".to_owned()]),
                    Value::Passes(_) => Value::Passes(vec![Pass::Read]),
                    _ => Value::Text("name".to_owned()),
                },
            };
            assert!(setting.put(&mut run, level.clone()), "{setting:?}");
            assert_eq!(setting.get(&run), level, "{setting:?}");
            let other =
                if level == Value::Flag(true) { Value::Number(1) } else { Value::Flag(true) };
            let refuses = !setting.put(&mut run, other);
            assert!(refuses || setting.kind() == Kind::Flag, "{setting:?}");
        }
    }
}
