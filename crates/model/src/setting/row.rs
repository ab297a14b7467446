//! One row of the table of settings, and the short constructors that the table is written with.
//!
//! Principal type: [`Row`]. The constructors are named after the kind of value; every further
//! method states one fact that differs from the usual. All of it is evaluated at compile time.

use super::field::Place;
use super::{Family, Kind, Range, Value};
use crate::runs::spec::RunSpec;
use crate::runs::workload::{SettingGroup, Workload};

/// Everything that is known about a setting.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub key: &'static str,
    pub kind: Kind,
    pub family: Family,
    /// Unit of a number; empty where there is none.
    pub unit: &'static str,
    pub place: Place,
    /// Legal values of a [`Kind::Word`].
    pub words: &'static [&'static str],
    /// Legal values of a number.
    pub range: Option<Range>,
    /// The word for a value that is left to the server or the host.
    pub open: Option<&'static str>,
    /// The separator between the items of a [`Kind::Words`].
    pub separator: char,
    /// The default, where it is another than in a run without settings.
    pub default: Option<Stated>,
    /// Describes a default that depends on other settings.
    pub default_rule: &'static str,
    pub workloads: &'static [Workload],
    /// Whether a run with this workload and family depends on it.
    pub when: fn(&RunSpec) -> bool,
    /// It may stand in a target's address: it says how the server is spoken to.
    pub of_targets: bool,
    /// Tables state it even at its default.
    pub always_shown: bool,
    pub meaning: &'static str,
}

/// A default that depends on no other setting.
#[derive(Clone, Copy)]
pub(super) enum Stated {
    Number(u64),
    Flag(bool),
    Word(&'static str),
    Text(&'static str),
}

impl Stated {
    pub(super) fn value(self) -> Value {
        match self {
            Self::Number(number) => Value::Number(number),
            Self::Flag(yes) => Value::Flag(yes),
            Self::Word(word) => Value::Word(word),
            Self::Text(text) => Value::Text(text.to_owned()),
        }
    }
}

/// The list of all workloads.
pub(super) const ALL: &[Workload] = Workload::ALL;

/// Makes lists of the workloads whose rows name a group of settings.
macro_rules! workloads_with {
    ($($(#[$doc:meta])* $name:ident $group:ident;)+) => {
        $($(#[$doc])*
        pub(super) const $name: &[Workload] = {
            const COUNT: usize = Workload::count_with(SettingGroup::$group);
            const LIST: [Workload; COUNT] = Workload::list_with(SettingGroup::$group);
            &LIST
        };)+
    };
}

workloads_with! {
    /// The workloads that this program executes itself.
    BUILT_IN Engine;
    /// The workloads with a number of threads to choose.
    WITH_WORKERS Workers;
    /// The workloads whose passes can be chosen.
    WITH_PASSES Passes;
    /// The workloads with a number of data files.
    WITH_FILES Files;
    /// The workloads on data files of one size.
    WITH_FILE_SIZE FileSize;
    /// The workloads that read and write, by this program or by a tool whose figures are read.
    OF_DATA Data;
    /// The workloads with a size of one read or write.
    WITH_IO_SIZE IoSize;
    /// All workloads but `metadata`, whose files are too small for more than one transfer.
    BUT_METADATA Transfers;
}

impl Row {
    const fn new(key: &'static str, kind: Kind, unit: &'static str, place: Place) -> Self {
        let (family, workloads) = match place {
            Place::Run(..) => (Family::Work, BUILT_IN),
            Place::Nfs(..) => (Family::Nfs, BUILT_IN),
            // A host is set up for whatever runs on it.
            Place::Lab(..) => (Family::Lab, ALL),
        };
        Self {
            key,
            kind,
            family,
            unit,
            place,
            words: &[],
            range: None,
            open: None,
            separator: ',',
            default: None,
            default_rule: "",
            workloads,
            when: |_| true,
            of_targets: false,
            always_shown: false,
            meaning: "",
        }
    }

    pub(super) const fn family(self, family: Family) -> Self {
        Self { family, ..self }
    }

    pub(super) const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Sets the legal values of a number; `reason` is the hint for those who want more.
    pub(super) const fn range(self, min: u64, max: u64, reason: &'static str) -> Self {
        Self { range: Some(Range { min, max, reason }), ..self }
    }

    pub(super) const fn open(self, word: &'static str) -> Self {
        Self { open: Some(word), ..self }
    }

    pub(super) const fn separator(self, separator: char) -> Self {
        Self { separator, ..self }
    }

    /// States the default.
    pub(super) const fn default(self, level: Stated) -> Self {
        Self { default: Some(level), ..self }
    }

    /// Describes a default that depends on the settings before it.
    pub(super) const fn default_rule(self, described: &'static str) -> Self {
        Self { default_rule: described, ..self }
    }

    /// Restricts it to some workloads.
    pub(super) const fn only(self, workloads: &'static [Workload]) -> Self {
        Self { workloads, ..self }
    }

    /// Restricts it to runs with certain settings before it.
    pub(super) const fn when(self, when: fn(&RunSpec) -> bool) -> Self {
        Self { when, ..self }
    }

    pub(super) const fn of_targets(self) -> Self {
        Self { of_targets: true, ..self }
    }

    pub(super) const fn always_shown(self) -> Self {
        Self { always_shown: true, ..self }
    }

    pub(super) const fn meaning(self, meaning: &'static str) -> Self {
        Self { meaning, ..self }
    }
}

/// Makes the constructors of rows, each with the kind and the unit of its values.
macro_rules! constructors {
    ($($name:ident $kind:ident $unit:literal;)+) => {
        $(pub(super) const fn $name(key: &'static str, place: Place) -> Row {
            Row::new(key, Kind::$kind, $unit, place)
        })+
    };
}

constructors! {
    size Size "bytes";
    count Count "";
    kib Kib "KiB";
    share Percent "percent";
    time Time "ms";
    fine_time FineTime "ns";
    micro_time MicroTime "us";
    bit_rate BitRate "bits/s";
    frequency Frequency "kHz";
    flag Flag "";
    mix Mix "";
    passes Passes "";
    text Text "";
    words Words "";
}

pub(super) const fn percent(key: &'static str, place: Place) -> Row {
    share(key, place).range(0, 100, "it is a share, in percent")
}

pub(super) const fn word(key: &'static str, place: Place, words: &'static [&'static str]) -> Row {
    Row { words, ..Row::new(key, Kind::Word, "", place) }
}
