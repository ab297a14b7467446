//! The place of each setting in a run.
//!
//! [`Field`] is what all places have in common: a value that can be taken and put. Data files and
//! small files share their fields, because a run has only one of them.

use model::{
    Arrivals, Durability, Fill, NfsSettings, NfsTarget, NfsVersion, Pass, Proto, RunSpec, Sharing,
    Stable, Target, Workload, XprtSec,
};

use workload::opmix::Profile;

use crate::setting::{Setting, Value};
use crate::work::OWN_MIX;

/// A place that holds a level.
pub(crate) trait Field {
    /// Takes the level.
    fn value(&self) -> Value;

    /// Puts a level; says whether it is one for such a place.
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

/// A transfer size, which the server may decide.
impl Field for Option<u32> {
    fn value(&self) -> Value {
        self.map_or(Value::Server, |bytes| Value::Number(bytes.into()))
    }

    fn put(&mut self, value: Value) -> bool {
        let mut bytes = 0;
        let known = value == Value::Server || bytes.put(value.clone());
        *self = (value != Value::Server).then_some(bytes);
        known
    }
}

impl Field for String {
    fn value(&self) -> Value {
        Profile::named(self).map_or_else(
            || Value::Word(if self.is_empty() { "" } else { OWN_MIX }),
            |profile| Value::Word(profile.name),
        )
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Word(name) = value else { return false };
        name.clone_into(self);
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

/// Makes places of settings that are one of a few words.
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

words! { Arrivals Durability Fill NfsVersion Proto Sharing Stable XprtSec }

/// Makes the two ways to the places of settings in a type.
macro_rules! places {
    ($get:ident $get_mut:ident $type:ident: $($setting:ident $($field:ident).+;)+) => {
        fn $get(setting: Setting, of: &$type) -> Option<&dyn Field> {
            Some(match setting {
                $(Setting::$setting => &of.$($field).+,)+
                _ => return None,
            })
        }

        fn $get_mut(setting: Setting, of: &mut $type) -> Option<&mut dyn Field> {
            Some(match setting {
                $(Setting::$setting => &mut of.$($field).+,)+
                _ => return None,
            })
        }
    };
}

places! { of_run of_run_mut RunSpec:
    Passes passes;
    Workers workers;
    Clients clients;
    Rate load.rate_per_s;
    Arrivals load.arrivals;
    Mix op_mix.name;
    SetPerRate op_mix.set_bytes_per_rate;
    AccessedPercent op_mix.accessed_percent;
    AppendPercent op_mix.append_percent;
    FilesPerDirectory op_mix.files_per_directory;
    Files files;
    FileSize file_size_bytes;
    SmallFiles files;
    SmallFileSize file_size_bytes;
    TreeSharing tree.sharing;
    Depth tree.depth;
    Branching tree.branching;
    Transactions transactions.count;
    SizeMin transactions.size_min_bytes;
    SizeMax transactions.size_max_bytes;
    ReadBias transactions.read_percent;
    CreateBias transactions.create_percent;
    Subdirectories transactions.directories;
    IoSize io_size_bytes;
    Sharing layout.sharing;
    BlockSize layout.block_size_bytes;
    Stride layout.stride;
    QueueDepth queue_depth;
    TransferSize transfer_size_bytes;
    ReadPercent read_percent;
    RandomPercent layout.random_percent;
    Skew layout.skew_percent;
    Duration duration_ms;
    TimeMax load.time_max_ms;
    Warmup load.warmup_ms;
    Ramp load.ramp_ms;
    ThinkTime load.think_time_ns;
    Bandwidth load.bytes_per_s;
    Ops load.ops_max;
    Bytes load.bytes_max;
    Direct direct;
    Mmap layout.mmap;
    Durability durability;
    TimedClose layout.timed_close;
    Invalidate invalidate;
    Data data.fill;
    Compress data.compress_percent;
    Dedup data.dedup_percent;
    Stamp data.stamp;
    Verify verify;
    Timeout timeout_ms;
}

places! { of_nfs of_nfs_mut NfsSettings:
    ClientUids client_uids;
    PerClient per_client;
    NfsVers version;
    Proto proto;
    XprtSec xprtsec;
    Nconnect nconnect;
    ReadAhead read_ahead;
    WriteBehind write_behind;
    Stable stable;
    Timeo timeo_ms;
    Retrans retrans;
}

impl Setting {
    /// Takes this setting's level from a run.
    ///
    /// # Panics
    /// Where the setting has no place: a bug of this crate.
    pub fn get(self, spec: &RunSpec) -> Value {
        let nfs = spec.nfs();
        let field = of_run(self, spec).or_else(|| of_nfs(self, &nfs));
        field.unwrap_or_else(|| unreachable!("{self:?} has no place")).value()
    }

    /// Its level where nothing was ever asked for.
    pub(crate) fn unset(self) -> Value {
        let plain = RunSpec {
            target: Target::Nfs(NfsTarget::new("", "")),
            ..RunSpec::null(Workload::Stream)
        };
        self.get(&plain)
    }

    /// Puts a level of this setting into a run.
    ///
    /// # Panics
    /// Where the level is of another setting's kind, or one of NFS meets another target: a bug of
    /// this crate.
    pub(crate) fn set(self, spec: &mut RunSpec, value: Value) {
        let done = match of_run_mut(self, spec) {
            Some(field) => field.put(value),
            None => match &mut spec.target {
                Target::Nfs(nfs) => {
                    of_nfs_mut(self, &mut nfs.settings).is_some_and(|field| field.put(value))
                }
                Target::Null | Target::Directory { .. } | Target::Directories { .. } => false,
            },
        };
        assert!(done, "{self:?} has no place in {spec:?}, or is of another kind");
    }

    /// Puts a level into the settings of NFS.
    ///
    /// # Panics
    /// As [`Setting::set`].
    pub(crate) fn set_nfs(self, nfs: &mut NfsSettings, value: Value) {
        let done = of_nfs_mut(self, nfs).is_some_and(|field| field.put(value));
        assert!(done, "{self:?} is no setting of NFS, or of another kind");
    }
}
