//! The place of each setting in a run.
//!
//! [`Field`] is what all places have in common: a value that can be taken and put. Data files and
//! small files share their fields, because a run has only one of them.

use std::sync::LazyLock;

use model::{
    Arrivals, DataPath, Durability, FileSystem, Fill, Host, Invalidation, LabSpec, NfsSettings,
    NfsTarget, NfsVersion, Pass, Proto, Raid, RunSpec, ServerKind, Sharing, Stable, Target,
    Workload, XprtSec,
};

use workload::opmix::Profile;

use crate::lab;
use crate::setting::{Family, Setting, Value};
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

/// Makes places of numbers that may be left to others.
macro_rules! open_numbers {
    ($($type:ident)+) => {
        $(impl Field for Option<$type> {
            fn value(&self) -> Value {
                self.map_or(Value::Open, |number| Value::Number(number.into()))
            }

            fn put(&mut self, value: Value) -> bool {
                *self = None;
                value == Value::Open || self.insert(0).put(value)
            }
        })+
    };
}

open_numbers! { u32 u64 }

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

/// Names with their values.
impl Field for Vec<(String, String)> {
    fn value(&self) -> Value {
        Value::Words(self.iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Words(words) = value else { return false };
        let pair = |word: String| {
            word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        words.into_iter().map(pair).collect::<Option<_>>().map(|pairs| *self = pairs).is_some()
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

/// Hosts, the first so many of which are taken.
impl Field for Vec<Host> {
    fn value(&self) -> Value {
        Value::Number(self.len() as u64)
    }

    fn put(&mut self, value: Value) -> bool {
        let Value::Number(number) = value else { return false };
        self.truncate(usize::try_from(number).unwrap_or(usize::MAX));
        self.len() as u64 == number
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

words! {
    Arrivals DataPath Durability FileSystem Fill Invalidation NfsVersion Proto Raid ServerKind
    Sharing Stable XprtSec
}

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
    ClientHosts placement.hosts;
    Neighbour placement.neighbour;
    OnLost placement.lost_wait_ms;
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
    Interval sampling.interval_ms;
    Stall sampling.stall_ms;
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

places! { of_lab of_lab_mut LabSpec:
    DataPath path;
    CpuFrequency tuning.cpu_khz;
    Cores tuning.cores;
    ServerSysctl tuning.server_sysctls;
    ClientSysctl tuning.client_sysctls;
    Mtu tuning.mtu_bytes;
    RateLimit tuning.rate_bits_per_s;
    Delay tuning.delay_us;
    Congestion tuning.congestion;
    TcpBuffer tuning.tcp_buffer_bytes;
    Slots tuning.slots;
    FileSystem storage.file_system;
    Raid storage.raid;
    Crypt storage.crypt;
    FormatOptions storage.format_options;
    FsMountOptions storage.mount_options;
    ServerKind serving.kind;
    ExportOptions serving.export_options;
    NfsdThreads serving.threads;
    TunnelCompression tunnelling.compression;
    TunnelCipher tunnelling.cipher;
    MountOptions mounting.options;
    BdiReadAhead mounting.read_ahead_kib;
    Invalidation invalidation;
    Strict strict;
}

/// Hosts that nothing is done to, for runs that are not about hosts.
static PLAIN: LazyLock<LabSpec> = LazyLock::new(|| LabSpec::new(Host::here(""), Host::here("")));

impl Setting {
    /// Takes this setting's level from a run.
    ///
    /// # Panics
    /// Where the setting has no place: a bug of this crate.
    pub fn get(self, spec: &RunSpec) -> Value {
        let nfs = spec.nfs();
        let lab = spec.lab.as_deref().unwrap_or(&PLAIN);
        let field = of_run(self, spec).or_else(|| of_lab(self, lab)).or_else(|| of_nfs(self, &nfs));
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

    /// Puts a level of this setting into a run, and what follows from it.
    ///
    /// # Panics
    /// Where the level is of another setting's kind, or one of NFS or hosts meets a run without
    /// any: a bug of this crate.
    pub(crate) fn set(self, spec: &mut RunSpec, value: Value) {
        let place = if of_run(self, spec).is_some() {
            of_run_mut(self, spec)
        } else {
            match (&mut spec.target, spec.lab.as_deref_mut()) {
                (_, Some(lab)) if self.family() == Family::Lab => of_lab_mut(self, lab),
                (Target::Nfs(nfs), _) => of_nfs_mut(self, &mut nfs.settings),
                (_, Some(lab)) => of_nfs_mut(self, &mut lab.mounting.nfs),
                _ => None,
            }
        };
        let done = place.is_some_and(|field| field.put(value));
        assert!(done, "{self:?} has no place in {spec:?}, or is of another kind");
        if matches!(self.family(), Family::Lab | Family::Nfs) || self == Self::ClientHosts {
            lab::aim(spec);
        }
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
