//! Accessors of settings: where a value is stored in a run, and how it is read and written there.
//!
//! [`FieldAccess`] is a pair of accessors, made by the macros `run`, `nfs` and `lab` from the path
//! of a field. [`Field`] is the common interface of all such fields. Data files and small files
//! share their fields, because a run has only one of them.

use std::collections::HashSet;

use super::Value;
use crate::runs::checkpoint::CheckpointModel;
use crate::runs::file_sizes::SizeDistribution;
use crate::runs::pass::Pass;
use crate::runs::spec::{Durability, RunSpec};
use crate::runs::training::{Shuffle, TrainedModel};
use crate::runs::work::{Arrivals, Fill, Sharing};
use crate::runs::workload::Workload;
use crate::systems::lab::{
    DataPath, FileSystem, Fresh, Host, Invalidation, LabSpec, MountSec, NfsdIo, Raid, ServerKind,
    ServerThreads, TunnelForwards,
};
use crate::targets::nfs::{
    ConnectionPolicy, NfsSettings, NfsVersion, Pnfs, Proto, Stable, UdpWindow, XprtSec,
};

/// Accessors of the field that stores a setting, by the part of a run that it belongs to.
#[derive(Clone, Copy)]
pub(super) enum FieldAccess {
    /// A field of the run itself.
    Run(fn(&RunSpec) -> &dyn Field, fn(&mut RunSpec) -> &mut dyn Field),
    /// A field of how NFS is spoken, by our client or by a kernel that mounts.
    Nfs(fn(&NfsSettings) -> &dyn Field, fn(&mut NfsSettings) -> &mut dyn Field),
    /// A field of how hosts are set up.
    Lab(fn(&LabSpec) -> &dyn Field, fn(&mut LabSpec) -> &mut dyn Field),
}

/// Names a field of [`RunSpec`].
macro_rules! run {
    ($($field:ident).+) => { FieldAccess::Run(|run| &run.$($field).+, |run| &mut run.$($field).+) };
}

/// Names a field of [`NfsSettings`].
macro_rules! nfs {
    ($($field:ident).+) => { FieldAccess::Nfs(|nfs| &nfs.$($field).+, |nfs| &mut nfs.$($field).+) };
}

/// Names a field of [`LabSpec`].
macro_rules! lab {
    ($($field:ident).+) => { FieldAccess::Lab(|lab| &lab.$($field).+, |lab| &mut lab.$($field).+) };
}

pub(super) use {lab, nfs, run};

/// The share of a model: of a checkpoint's bytes and ranks, or of the files of a data set.
pub(super) const MODEL_SCALE: FieldAccess = FieldAccess::Run(
    |run| match run.workload {
        Workload::Training => &run.training.scale_millionths,
        _ => &run.checkpoint.scale_millionths,
    },
    |run| match run.workload {
        Workload::Training => &mut run.training.scale_millionths,
        _ => &mut run.checkpoint.scale_millionths,
    },
);

/// A field that stores the value of a setting.
pub(super) trait Field {
    /// Reads the value.
    fn value(&self) -> Value;

    /// Writes a value; returns false for one of another kind.
    fn put(&mut self, value: Value) -> bool;
}
impl Field for u32 {
    fn value(&self) -> Value {
        Value::Number((*self).into())
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Number(number) = value else { return false };
        u32::try_from(number).map(|number| *self = number).is_ok()
    }
}

impl Field for u64 {
    fn value(&self) -> Value {
        Value::Number(*self)
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Number(number) = value else { return false };
        *self = number;
        true
    }
}

impl Field for bool {
    fn value(&self) -> Value {
        Value::Flag(*self)
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Flag(yes) = value else { return false };
        *self = yes;
        true
    }
}

/// Defines fields of numbers that may be unset, so that others decide.
macro_rules! open_numbers {
    ($($type:ident)+) => {
        $(impl Field for Option<$type> {
            fn value(&self) -> Value {
                self.map_or(Value::Open, |number| Value::Number(number.into()))
            }

            fn put(&mut self, value: Value) -> bool {
                // The old level is lost if the new one is of another kind, which the caller treats
                // as a bug.
                *self = None;
                value == Value::Open || self.insert(0).put(value)
            }
        })+
    };
}

open_numbers! { u32 u64 }

/// A distribution of sizes, as it is written.
impl Field for SizeDistribution {
    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Text(text) = value else { return false };
        text.parse().map(|distribution| *self = distribution).is_ok()
    }
}

/// A fixed number of threads, or the limits of a dynamic one.
impl Field for ServerThreads {
    fn value(&self) -> Value {
        let max = self.max.into();
        if self.min == 0 { Value::Number(max) } else { Value::Span { min: self.min.into(), max } }
    }

    fn put(&mut self, value: Value) -> bool {
        let (min, max) = match value {
            Value::Number(number) => (0, number),
            Value::Span { min, max } => (min, max),
            _ => return false,
        };
        let (Ok(min), Ok(max)) = (u32::try_from(min), u32::try_from(max)) else { return false };
        *self = Self { max, min };
        true
    }
}

/// A switch that may be left to others.
impl Field for Option<bool> {
    fn value(&self) -> Value {
        self.map_or(Value::Open, Value::Flag)
    }

    fn put(&mut self, value: Value) -> bool {
        *self = match value {
            Value::Open => None,
            Value::Flag(yes) => Some(yes),
            _ => return false,
        };
        true
    }
}

/// A mode that may be left to others.
impl Field for Option<NfsdIo> {
    fn value(&self) -> Value {
        self.map_or(Value::Open, |mode| Value::Word(mode.name()))
    }

    fn put(&mut self, value: Value) -> bool {
        *self = match value {
            Value::Open => None,
            Value::Word(word) => NfsdIo::from_name(word),
            _ => return false,
        };
        self.is_some() || value == Value::Open
    }
}

/// A name that is known elsewhere, or left to others.
impl Field for Option<String> {
    fn value(&self) -> Value {
        self.clone().map_or(Value::Open, Value::Text)
    }

    fn put(&mut self, value: Value) -> bool {
        *self = match value {
            Value::Open => None,
            Value::Text(name) => Some(name),
            _ => return false,
        };
        true
    }
}

/// A name that is known elsewhere.
impl Field for String {
    fn value(&self) -> Value {
        Value::Text(self.clone())
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Text(name) = value else { return false };
        *self = name;
        true
    }
}

/// Options and arguments.
impl Field for Vec<String> {
    fn value(&self) -> Value {
        Value::Words(self.clone())
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Words(words) = value else { return false };
        *self = words;
        true
    }
}

/// Names with their values, each written `name=value`.
impl Field for Vec<(String, String)> {
    fn value(&self) -> Value {
        Value::Words(self.iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Words(words) = value else { return false };
        let mut pairs = Vec::with_capacity(words.len());
        for word in words {
            let Some((name, value)) = word.split_once('=') else { return false };
            pairs.push((name.to_owned(), value.to_owned()));
        }
        *self = pairs;
        true
    }
}

impl Field for Vec<Pass> {
    fn value(&self) -> Value {
        Value::Passes(self.clone())
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Passes(passes) = value else { return false };
        *self = passes;
        true
    }
}

/// Hosts: the value is how many of them are used, the first ones, each with all of its agents.
impl Field for Vec<Host> {
    fn value(&self) -> Value {
        Value::Number(Host::count_distinct(self).into())
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Number(number) = value else { return false };
        let mut first_hosts = HashSet::new();
        for host in self.iter() {
            if (first_hosts.len() as u64) < number {
                first_hosts.insert(host.name_and_slot().0.to_owned());
            }
        }
        self.retain(|host| first_hosts.contains(host.name_and_slot().0));
        // A list that is too short has no such level.
        first_hosts.len() as u64 == number
    }
}

/// Defines fields of settings with a fixed set of words.
macro_rules! words {
    ($($type:ident)+) => {
        $(impl Field for $type {
            fn value(&self) -> Value {
                Value::Word(self.name())
            }

            fn put(&mut self, value: Value) -> bool {
                let Value::Word(word) = value else { return false };
                Self::from_name(word).map(|known| *self = known).is_some()
            }
        })+
    };
}

words! {
    Arrivals CheckpointModel ConnectionPolicy DataPath Durability FileSystem Fill Fresh Invalidation
    MountSec NfsVersion Pnfs Proto Raid ServerKind Sharing Shuffle Stable TrainedModel
    TunnelForwards UdpWindow XprtSec
}
