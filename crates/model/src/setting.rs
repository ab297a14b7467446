//! Settings of a run: what each is called, holds and means, and which runs depend on it.
//!
//! [`Setting`] is the one list of them, made from the rows of `setting/table.rs`; plan reader,
//! flags, help, tables, exports and `--where` ask it. `setting/shown.rs` lists the settings of a
//! run for people and programs.

mod applies;
mod field;
mod row;
mod shown;
mod table;

use std::sync::LazyLock;

use crate::runs::pass::Pass;
use crate::runs::spec::RunSpec;
use crate::runs::workload::Workload;
use crate::systems::lab::{Host, LabSpec};
use crate::targets::nfs::{NfsSettings, NfsTarget};
use crate::targets::target::{Ability, Target};
use field::{Field, Place};
use row::Row;

pub use table::Setting;

/// The table as a static, so that a row is a reference into it.
static ROWS: [Row; table::ROWS.len()] = table::ROWS;

/// The type of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A size in bytes.
    Size,
    /// A whole number.
    Count,
    /// A size in KiB.
    Kib,
    /// A share, in whole percent.
    Percent,
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
    /// The name of a mix of `workload::opmix`.
    Mix,
    /// Names of passes with `+` between them, or `usual`.
    Passes,
    /// A name that is known elsewhere.
    Text,
    /// Several words, such as options; see [`Setting::separator`].
    Words,
}

/// The subject of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The kind of work, its concurrency and its data files.
    Work,
    /// Files and directories by name.
    Names,
    /// When ops are scheduled, and what bounds a pass.
    Load,
    /// The written data, and its durability.
    Data,
    /// How NFS is spoken.
    Nfs,
    /// How hosts are set up.
    Lab,
}

/// One level of a setting, within its limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// In bytes, pieces, percent or units of time, rate and frequency, as [`Setting::kind`] says.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// One of [`Setting::words`].
    Word(&'static str),
    /// Passes in their order; empty for the usual ones.
    Passes(Vec<Pass>),
    /// A name that is known elsewhere.
    Text(String),
    /// Several words in their order; none where there are none.
    Words(Vec<String>),
    /// Left to the server or the host: see [`Setting::open`].
    Open,
}

/// Legal values of a number, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// Why it ends there; the hint for those who want more.
    pub reason: &'static str,
}

impl Setting {
    /// Those that may also stand in an address or a `[[target]]`: how the server is spoken to.
    pub const OF_TARGETS: [Self; 8] = [
        Self::NfsVers,
        Self::Proto,
        Self::XprtSec,
        Self::Nconnect,
        Self::TransferSize,
        Self::Timeo,
        Self::Retrans,
        Self::UdpWindow,
    ];

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Returns the key in a plan.
    pub fn key(self) -> &'static str {
        self.row().key
    }

    /// Finds a setting by its key.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.key() == key)
    }

    /// Returns the flag of the command line: the key with dashes.
    pub fn flag(self) -> &'static str {
        static FLAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
            ROWS.iter().map(|row| format!("--{}", row.key.replace('_', "-"))).collect()
        });
        &FLAGS[self as usize]
    }

    /// Returns what it holds.
    pub fn kind(self) -> Kind {
        self.row().kind
    }

    /// Returns what it is about.
    pub fn family(self) -> Family {
        self.row().family
    }

    /// Returns the unit of its number; empty where it has none.
    pub fn unit(self) -> &'static str {
        self.row().unit
    }

    /// Says what it does, for people.
    pub fn meaning(self) -> &'static str {
        self.row().meaning.trim()
    }

    /// Returns the legal values of a number; `None` for other kinds.
    pub fn range(self) -> Option<Range> {
        self.row().range
    }

    /// Returns the words that it may be; none where it holds no word.
    pub fn words(self) -> &'static [&'static str] {
        self.row().words
    }

    /// Returns the word for a level that is left to the server, or as a host has it.
    pub fn open(self) -> Option<&'static str> {
        self.row().open
    }

    /// Returns what stands between the words of one level of [`Kind::Words`].
    pub fn separator(self) -> char {
        self.row().separator
    }

    /// Returns its default where that depends on no other setting.
    pub fn default_level(self) -> Option<Value> {
        // A stated default wins; without one and without a rule it is what the field holds when
        // nothing was put into it.
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

    /// Says whether it is one of [`Self::OF_TARGETS`].
    pub fn is_of_targets(self) -> bool {
        self.row().of_targets
    }

    /// Says whether some runs of this workload depend on it.
    pub fn has_workload(self, workload: Workload) -> bool {
        self.row().workloads.contains(&workload)
    }

    /// Returns the setting that holds the same for other workloads: the number and the size of
    /// files go by two names each.
    pub fn counterpart(self) -> Option<Self> {
        match self {
            Self::Files => Some(Self::SmallFiles),
            Self::FileSize => Some(Self::SmallFileSize),
            Self::SmallFiles => Some(Self::Files),
            Self::SmallFileSize => Some(Self::FileSize),
            _ => None,
        }
    }

    /// Says whether a run depends on it; only the settings before it need be known. What does not
    /// apply never multiplies runs, is not shown, and keeps its one value.
    pub fn applies(self, run: &RunSpec) -> bool {
        let row = self.row();
        self.has_workload(run.workload) && self.suits_backend(run) && (row.when)(run)
    }

    /// Says whether the way ops are executed leaves a choice to settings of this family.
    fn suits_backend(self, run: &RunSpec) -> bool {
        match self.family() {
            Family::Work | Family::Names | Family::Load => true,
            Family::Data => run.backend.can(Ability::MoveData),
            Family::Lab => run.lab.is_some(),
            // Our own client: all of them, where there is anything to speak with.
            Family::Nfs if run.backend.can(Ability::SpeakNfs) => {
                let is_served = run.lab.as_deref().is_none_or(LabSpec::is_served);
                is_served && !run.workload.is_external()
            }
            // The kernel mounts with those settings that mount options exist for.
            Family::Nfs => {
                let mounts_nfs = run.lab.as_deref().is_some_and(LabSpec::mounts_nfs);
                run.backend.can(Ability::MakeSystemCalls) && self.is_of_targets() && mounts_nfs
            }
        }
    }

    /// Reads its level in a run.
    pub fn get(self, run: &RunSpec) -> Value {
        match self.row().place {
            Place::Run(get, _) => get(run).value(),
            Place::Nfs(get, _) => get(&run.nfs()).value(),
            Place::Lab(get, _) => get(run.lab.as_deref().unwrap_or(&PLAIN_LAB)).value(),
        }
    }

    /// Writes a level into a run; returns false, with the run unchanged or its old level lost,
    /// where the level is of another kind or the run has no such part.
    #[must_use]
    pub fn put(self, run: &mut RunSpec, value: Value) -> bool {
        // What NFS is spoken by decides where its settings are: in the target where our client
        // speaks it, in the mount where a kernel does.
        let field: &mut dyn Field = match (self.row().place, &mut run.target, &mut run.lab) {
            (Place::Run(_, get), ..) => get(run),
            (Place::Lab(_, get), _, Some(lab)) => get(lab),
            (Place::Nfs(_, get), Target::Nfs(nfs), _) => get(&mut nfs.settings),
            (Place::Nfs(_, get), _, Some(lab)) => get(&mut lab.mounting.nfs),
            (Place::Lab(..) | Place::Nfs(..), ..) => return false,
        };
        field.put(value)
    }

    /// Writes a level into settings of NFS; returns false where it is none of them, or of another
    /// kind.
    #[must_use]
    pub fn put_nfs(self, nfs: &mut NfsSettings, value: Value) -> bool {
        let Place::Nfs(_, get) = self.row().place else { return false };
        get(nfs).put(value)
    }

    /// Reads its level where it was never set.
    pub fn unset(self) -> Value {
        self.get(&PLAIN_RUN)
    }
}

/// Hosts that nothing is done to.
static PLAIN_LAB: LazyLock<LabSpec> =
    LazyLock::new(|| LabSpec::new(Host::here(""), Host::here("")));

/// A run with every setting as plain as can be.
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
                || !matches!(setting.kind(), Kind::Text) && setting.open().is_some();
            assert_eq!(setting.range().is_some(), is_number, "{setting:?}");
            assert_eq!(setting.words().is_empty(), setting.kind() != Kind::Word, "{setting:?}");
            let is_of_targets = Setting::OF_TARGETS.contains(&setting);
            assert_eq!(setting.is_of_targets(), is_of_targets, "{setting:?}");
        }
    }

    #[test]
    fn every_level_reads_back() {
        let lab = LabSpec::new(Host::here("s"), Host::here("c"));
        for setting in Setting::ALL {
            let mut run = PLAIN_RUN.clone();
            run.lab = Some(Box::new(lab.clone()));
            // Three hosts, the first with two agents.
            run.placement.hosts = ["a", "b", "c"].map(Host::here).to_vec();
            run.placement.hosts.push(Host::here("a").further(2));
            let level = match setting.range() {
                Some(_) if setting == Setting::ClientHosts => Value::Number(2),
                Some(range) => Value::Number(range.min + 1),
                None => match setting.unset() {
                    Value::Flag(yes) => Value::Flag(!yes),
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
