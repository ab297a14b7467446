//! The settings of a run: what each is called, what it holds, and where it counts.
//!
//! [`Setting`] is the one list that the reader of plans, the flags, the matrix and the writer
//! share; a new setting is a line here plus a row in `keys`, `limits` and `defaults`, and its
//! place in a run in `level`. Its order is the order of the matrix: the last one varies fastest.

use model::{BackendKind, NfsVersion, Proto, RunSpec, Stable, Workload, XprtSec};

/// Makes the enum, with key, flag and kind of each setting.
macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident $key:literal $flag:literal $kind:ident;)+) => {
        /// A setting that may be a factor.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Setting {
            $($(#[$doc])* $name,)+
        }

        impl Setting {
            /// All of them, in the order of the matrix.
            pub const ALL: [Self; [$($key),+].len()] = [$(Self::$name,)+];

            /// The key in a plan.
            pub const fn key(self) -> &'static str {
                match self { $(Self::$name => $key,)+ }
            }

            /// The flag of the command line.
            pub const fn flag(self) -> &'static str {
                match self { $(Self::$name => $flag,)+ }
            }

            /// What it holds.
            pub const fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)+ }
            }
        }
    };
}

settings! {
    /// Threads with a recorder each.
    Workers "workers" "--workers" Count;
    /// NFS clients that are emulated.
    Clients "clients" "--clients" Count;
    /// User ids that emulated clients have in turn.
    ClientUids "client_uids" "--client-uids" Count;
    /// Record each emulated client apart.
    PerClient "per_client" "--per-client" Flag;
    /// Data files of stream and mixed, all workers together.
    Files "files" "--files" Count;
    /// Bytes of each data file.
    FileSize "file_size" "--file-size" Size;
    /// Files of metadata, all workers together.
    SmallFiles "small_files" "--small-files" Count;
    /// Bytes written to each file of metadata when it is created.
    SmallFileSize "small_file_size" "--small-file-size" Size;
    /// Bytes of one read or write.
    IoSize "io_size" "--io-size" Size;
    /// Ops in flight per worker.
    QueueDepth "queue_depth" "--queue-depth" Count;
    /// Version of NFS.
    NfsVers "nfsvers" "--nfsvers" Word;
    /// What RPC runs over.
    Proto "proto" "--proto" Word;
    /// How the transport is protected.
    XprtSec "xprtsec" "--xprtsec" Word;
    /// Connections of one client.
    Nconnect "nconnect" "--nconnect" Count;
    /// Largest payload of one READ or WRITE on the wire.
    TransferSize "transfer_size" "--transfer-size" TransferSize;
    /// Transfers in flight beyond what a sequential reader asks for.
    ReadAhead "read_ahead" "--read-ahead" Count;
    /// Transfers in flight after the ops of a sequential writer have ended.
    WriteBehind "write_behind" "--write-behind" Count;
    /// How safe a WRITE must be before it is answered.
    Stable "stable" "--stable" Word;
    /// How long an answer over UDP is waited for before the call is sent again.
    Timeo "timeo" "--timeo" Time;
    /// How often a call over UDP is sent again.
    Retrans "retrans" "--retrans" Count;
    /// Share of reads in a mix.
    ReadPercent "read_percent" "--read-percent" Percent;
    /// How long a mix runs.
    Duration "duration" "--duration" Time;
    /// Bypass the page cache.
    Direct "direct" "--direct" Flag;
    /// When written data must be safe.
    Durability "durability" "--durability" Word;
    /// Drop the files from the page cache before they are read.
    Invalidate "invalidate" "--invalidate" Flag;
    /// Compare what is read with what was written.
    Verify "verify" "--verify" Flag;
    /// An answer that takes longer is a failure.
    Timeout "timeout" "--timeout" Time;
}

/// What a setting holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    Size,
    /// Bytes, or what the server offers.
    TransferSize,
    /// A whole number.
    Count,
    /// A share, in whole percent.
    Percent,
    /// Milliseconds.
    Time,
    /// Yes or no.
    Flag,
    /// One of [`Setting::words`].
    Word,
}

/// One level of a setting, within its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// In bytes, milliseconds, percent or pieces, as [`Setting::kind`] says.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// When written data must be safe.
    Durability(model::Durability),
    /// A version of NFS.
    Version(NfsVersion),
    /// What RPC runs over.
    Proto(Proto),
    /// How the transport is protected.
    XprtSec(XprtSec),
    /// How safe a WRITE must be before it is answered.
    Stable(Stable),
    /// What the server offers.
    Server,
}

impl Setting {
    /// Those that may also stand in an address or a `[[target]]`: how the server is spoken to.
    pub const OF_TARGETS: [Self; 7] = [
        Self::NfsVers,
        Self::Proto,
        Self::XprtSec,
        Self::Nconnect,
        Self::TransferSize,
        Self::Timeo,
        Self::Retrans,
    ];

    /// The words that it may be; none where it holds no word.
    pub const fn words(self) -> &'static [&'static str] {
        match self {
            Self::NfsVers => NfsVersion::NAMES,
            Self::Proto => Proto::NAMES,
            Self::XprtSec => XprtSec::NAMES,
            Self::Stable => Stable::NAMES,
            Self::Durability => model::Durability::NAMES,
            _ => &[],
        }
    }

    /// Says whether any run of this workload depends on it.
    pub const fn concerns(self, workload: Workload) -> bool {
        let metadata = matches!(workload, Workload::Metadata);
        match self {
            Self::ReadPercent | Self::Duration => matches!(workload, Workload::Mixed),
            Self::ReadAhead | Self::WriteBehind => matches!(workload, Workload::Stream),
            Self::SmallFiles | Self::SmallFileSize => metadata,
            Self::Files
            | Self::FileSize
            | Self::IoSize
            | Self::TransferSize
            | Self::Direct
            | Self::Durability
            | Self::Stable
            | Self::Invalidate
            | Self::Verify => !metadata,
            _ => true,
        }
    }

    /// The setting that serves a workload for this one, which serves others: the number and the
    /// size of files go by two names each.
    pub(crate) const fn counterpart(self) -> Option<Self> {
        match self {
            Self::Files => Some(Self::SmallFiles),
            Self::FileSize => Some(Self::SmallFileSize),
            Self::SmallFiles => Some(Self::Files),
            Self::SmallFileSize => Some(Self::FileSize),
            _ => None,
        }
    }

    /// Says whether some run of this workload on this backend depends on it.
    pub const fn matters(self, workload: Workload, backend: BackendKind) -> bool {
        let by_backend = match self {
            // A synchronous call is one op in flight.
            Self::QueueDepth => !matches!(backend, BackendKind::Posix),
            Self::Clients
            | Self::ClientUids
            | Self::PerClient
            | Self::NfsVers
            | Self::Proto
            | Self::XprtSec
            | Self::Nconnect
            | Self::TransferSize
            | Self::ReadAhead
            | Self::WriteBehind
            | Self::Stable
            | Self::Timeo
            | Self::Retrans => matches!(backend, BackendKind::Nfs),
            Self::Direct | Self::Invalidate => {
                matches!(backend, BackendKind::Posix | BackendKind::Uring)
            }
            // The null backend moves no data.
            Self::Durability | Self::Verify => !matches!(backend, BackendKind::Null),
            _ => true,
        };
        by_backend && self.concerns(workload)
    }

    /// Says whether a run depends on it, whose settings before this one are known; what doesn't
    /// matter never multiplies runs.
    pub fn matters_in(self, run: &RunSpec) -> bool {
        let by_settings = match self {
            // A stream repeats what is lost by itself.
            Self::Timeo | Self::Retrans => run.nfs().proto == Proto::Udp,
            // A WRITE of v2 always is.
            Self::Stable => run.nfs().version != NfsVersion::V2,
            _ => true,
        };
        by_settings && self.matters(run.workload, run.backend)
    }
}
