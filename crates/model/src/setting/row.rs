//! A row of the table of settings, and the constructors with which the table is written.
//!
//! The constructors are named after the kind of value; each further method states one deviation
//! from the default [`Row`]. Everything is evaluated at compile time.

use super::field::FieldAccess;
use super::{Family, Kind, Range, Value};
use crate::runs::spec::RunSpec;
use crate::runs::workload::{SettingGroup, Workload};

/// All properties of a setting.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub key: &'static str,
    pub kind: Kind,
    pub family: Family,
    /// Unit of a number; empty if it has none.
    pub unit: &'static str,
    pub place: FieldAccess,
    /// Legal values of a [`Kind::Word`].
    pub words: &'static [&'static str],
    /// Legal values of a number.
    pub range: Option<Range>,
    /// The word for a value that the server or the host decides.
    pub open: Option<&'static str>,
    /// The separator between the items of a [`Kind::Words`].
    pub separator: char,
    /// The default, if it differs from the initial value of the field.
    pub default: Option<FixedDefault>,
    /// Describes a default that depends on other settings.
    pub default_rule: &'static str,
    pub workloads: &'static [Workload],
    /// Whether a run with this workload and family depends on the setting.
    pub when: fn(&RunSpec) -> bool,
    /// Whether it is about how to speak to a server, and so allowed in a target's address.
    pub of_targets: bool,
    /// Whether tables show it even at its default.
    pub always_shown: bool,
    pub meaning: &'static str,
}

/// A default that depends on no other setting.
#[derive(Clone, Copy)]
pub(super) enum FixedDefault {
    Number(u64),
    Flag(bool),
    Word(&'static str),
    Text(&'static str),
}

impl FixedDefault {
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

/// Defines lists of the workloads whose rows contain a group of settings.
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
    /// Workloads that dfsbench executes itself.
    BUILT_IN Engine;
    /// Workloads with a choice of threads.
    WITH_WORKERS Workers;
    /// Workloads with a choice of passes.
    WITH_PASSES Passes;
    /// Workloads with a number of data files.
    WITH_FILES Files;
    /// Workloads on data files of a fixed size.
    WITH_FILE_SIZE FileSize;
    /// Workloads that read and write data, in dfsbench or in a tool whose results are parsed.
    OF_DATA Data;
    /// Workloads with a size of each read or write.
    WITH_IO_SIZE IoSize;
    /// All workloads except `metadata`, whose files are too small for more than one transfer.
    BUT_METADATA Transfers;
}

impl Row {
    const fn new(key: &'static str, kind: Kind, unit: &'static str, place: FieldAccess) -> Self {
        let (family, workloads) = match place {
            FieldAccess::Run(..) => (Family::Work, BUILT_IN),
            FieldAccess::Nfs(..) => (Family::Nfs, BUILT_IN),
            // Hosts are set up regardless of the workload.
            FieldAccess::Lab(..) => (Family::Lab, ALL),
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

    /// Sets the legal values of a number; `reason` is the hint for values outside.
    pub(super) const fn range(self, min: u64, max: u64, reason: &'static str) -> Self {
        Self { range: Some(Range { min, max, reason }), ..self }
    }

    pub(super) const fn open(self, word: &'static str) -> Self {
        Self { open: Some(word), ..self }
    }

    pub(super) const fn separator(self, separator: char) -> Self {
        Self { separator, ..self }
    }

    /// Sets the default.
    pub(super) const fn default(self, level: FixedDefault) -> Self {
        Self { default: Some(level), ..self }
    }

    /// Describes a default that depends on earlier settings.
    pub(super) const fn default_rule(self, described: &'static str) -> Self {
        Self { default_rule: described, ..self }
    }

    /// Restricts it to some workloads.
    pub(super) const fn only(self, workloads: &'static [Workload]) -> Self {
        Self { workloads, ..self }
    }

    /// Restricts it to runs in which earlier settings satisfy a condition.
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

/// Defines the constructors of rows, each with the kind and the unit of its values.
macro_rules! constructors {
    ($($name:ident $kind:ident $unit:literal;)+) => {
        $(pub(super) const fn $name(key: &'static str, place: FieldAccess) -> Row {
            Row::new(key, Kind::$kind, $unit, place)
        })+
    };
}

constructors! {
    size Size "bytes";
    count Count "";
    threads Threads "threads";
    kib Kib "KiB";
    share Percent "percent";
    fraction Fraction "millionths";
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

pub(super) const fn percent(key: &'static str, place: FieldAccess) -> Row {
    share(key, place).range(0, 100, "it is a share, in percent")
}

pub(super) const fn word(
    key: &'static str,
    place: FieldAccess,
    words: &'static [&'static str],
) -> Row {
    Row { words, ..Row::new(key, Kind::Word, "", place) }
}
