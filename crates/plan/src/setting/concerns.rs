//! Which settings a run depends on: by its workload, its backend, and the settings before it.
//!
//! What doesn't matter never multiplies runs, has its one value, and is not written; what matters
//! to no run of a plan is a warning, or an error where it was a flag.

use model::{
    BackendKind, DataPath, FileSystem, Fill, LabSpec, NfsVersion, Pass, Proto, RunSpec, ServerKind,
    Sharing, Workload,
};

use super::Setting;

impl Setting {
    /// Says whether any run of this workload depends on it.
    pub const fn concerns(self, workload: Workload) -> bool {
        use Workload as W;
        let data = matches!(workload, W::Stream | W::Mixed | W::Bonnie | W::OpMix);
        let names = workload.is_about_names();
        match self {
            Self::Timeout | Self::ClientHosts => true,
            Self::Workers => !matches!(workload, W::App | W::Dd | W::Bonniexx),
            Self::Passes => !workload.passes_allowed().is_empty(),
            Self::Files => matches!(workload, W::Stream | W::Mixed | W::Bonnie),
            Self::FileSize => !names && !matches!(workload, W::App | W::OpMix),
            Self::SmallFiles => names,
            Self::SmallFileSize | Self::TreeSharing | Self::Depth | Self::Branching => {
                matches!(workload, W::Metadata)
            }
            Self::Transactions
            | Self::SizeMin
            | Self::SizeMax
            | Self::ReadBias
            | Self::CreateBias
            | Self::Subdirectories => matches!(workload, W::Transactions),
            Self::Mix
            | Self::SetPerRate
            | Self::AccessedPercent
            | Self::AppendPercent
            | Self::FilesPerDirectory => matches!(workload, W::OpMix),
            Self::Sharing | Self::BlockSize | Self::Stride | Self::Mmap | Self::TimedClose => {
                matches!(workload, W::Stream)
            }
            Self::ReadAhead | Self::WriteBehind => matches!(workload, W::Stream | W::Bonnie),
            Self::ReadPercent | Self::RandomPercent | Self::Skew => matches!(workload, W::Mixed),
            Self::TimeMax => !workload.is_external() && !matches!(workload, W::Mixed | W::OpMix),
            Self::Duration => matches!(workload, W::Mixed | W::OpMix),
            Self::IoSize => !matches!(workload, W::Metadata | W::App),
            Self::Invalidate => data,
            Self::Verify => matches!(workload, W::Stream | W::Mixed | W::Bonnie),
            Self::TransferSize | Self::Stable => !matches!(workload, W::Metadata),
            Self::Direct | Self::Durability => data || workload.is_adapter(),
            _ if self.is_of_targets() => true,
            _ => matches!(self.family(), Family::Lab) || !workload.is_external(),
        }
    }

    /// Says whether it is one of [`Self::OF_TARGETS`]: how NFS is spoken, by whomever.
    pub(crate) const fn is_of_targets(self) -> bool {
        matches!(
            self,
            Self::NfsVers
                | Self::Proto
                | Self::XprtSec
                | Self::Nconnect
                | Self::TransferSize
                | Self::Timeo
                | Self::Retrans
        )
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

    /// Says whether some run of this workload on this backend depends on it; `on_lab` says that
    /// hosts are set up for it.
    pub const fn matters(self, workload: Workload, backend: BackendKind, on_lab: bool) -> bool {
        let by_calls = matches!(backend, BackendKind::Posix | BackendKind::Uring);
        let by_backend = match self {
            // A synchronous call is one op in flight.
            Self::QueueDepth => !matches!(backend, BackendKind::Posix),
            Self::Direct => by_calls,
            // There it follows from `invalidation`.
            Self::Invalidate => by_calls && !on_lab,
            Self::Mmap => matches!(backend, BackendKind::Posix),
            _ => match self.family() {
                // A kernel mounts with them.
                Family::Nfs if on_lab && by_calls => self.is_of_targets(),
                Family::Nfs => matches!(backend, BackendKind::Nfs) && !workload.is_external(),
                Family::Lab => on_lab,
                // The null backend moves no data.
                Family::Data => !matches!(backend, BackendKind::Null),
                Family::Work | Family::Names | Family::Load => true,
            },
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
            Self::ClientHosts | Self::OnLost => !run.placement.hosts.is_empty(),
            Self::Neighbour => run.agents() > 1,
            Self::Arrivals | Self::Ramp => run.load.rate_per_s > 0,
            Self::Mix => run.op_mix.shares.is_empty(),
            Self::ThinkTime => run.load.rate_per_s == 0,
            Self::BlockSize => run.layout.sharing == Sharing::Shared,
            Self::Stride => run.passes().contains(&Pass::StrideRead),
            Self::Branching => run.tree.depth > 0,
            Self::Compress | Self::Dedup => run.data.fill == Fill::Random,
            _ => true,
        };
        by_settings
            && self.matters(run.workload, run.backend, run.lab.is_some())
            && run.lab.as_ref().is_none_or(|lab| self.matters_on(lab))
    }

    /// Says whether a run depends on it whose hosts are set up so.
    fn matters_on(self, lab: &LabSpec) -> bool {
        match self {
            Self::Mtu | Self::RateLimit | Self::Delay | Self::ClientSysctl => lab.leaves_server(),
            Self::Congestion | Self::TcpBuffer | Self::ServerKind => lab.is_served(),
            Self::Raid | Self::Crypt | Self::FormatOptions => lab.storage.is_formatted(),
            Self::FsMountOptions => lab.storage.file_system != FileSystem::Existing,
            Self::ExportOptions => lab.is_served() && lab.serving.kind == ServerKind::Knfsd,
            Self::NfsdThreads => {
                let ours = matches!(lab.serving.kind, ServerKind::Knfsd | ServerKind::Ganesha);
                lab.is_served() && ours
            }
            Self::TunnelCompression | Self::TunnelCipher => lab.path == DataPath::Tunnel,
            Self::MountOptions | Self::BdiReadAhead | Self::Slots => lab.is_mounted(),
            _ => self.family() != Family::Nfs || lab.is_served(),
        }
    }
}

/// What a setting is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// What is done, by how many, to which data files.
    Work,
    /// Files and directories by name.
    Names,
    /// When ops are due, and what bounds a pass.
    Load,
    /// What is written, and how safe it is.
    Data,
    /// How NFS is spoken.
    Nfs,
    /// How hosts are set up.
    Lab,
}

impl Setting {
    /// What it is about.
    pub const fn family(self) -> Family {
        match self {
            Self::DataPath
            | Self::CpuFrequency
            | Self::Cores
            | Self::ServerSysctl
            | Self::ClientSysctl
            | Self::Mtu
            | Self::RateLimit
            | Self::Delay
            | Self::Congestion
            | Self::TcpBuffer
            | Self::Slots
            | Self::FileSystem
            | Self::Raid
            | Self::Crypt
            | Self::FormatOptions
            | Self::FsMountOptions
            | Self::ServerKind
            | Self::ExportOptions
            | Self::NfsdThreads
            | Self::TunnelCompression
            | Self::TunnelCipher
            | Self::MountOptions
            | Self::BdiReadAhead
            | Self::Invalidation
            | Self::Strict => Family::Lab,
            Self::SmallFiles
            | Self::SmallFileSize
            | Self::TreeSharing
            | Self::Depth
            | Self::Branching
            | Self::Transactions
            | Self::SizeMin
            | Self::SizeMax
            | Self::ReadBias
            | Self::CreateBias
            | Self::Subdirectories
            | Self::Mix
            | Self::SetPerRate
            | Self::AccessedPercent
            | Self::AppendPercent
            | Self::FilesPerDirectory => Family::Names,
            Self::Rate
            | Self::Arrivals
            | Self::Warmup
            | Self::Ramp
            | Self::ThinkTime
            | Self::Bandwidth
            | Self::Ops
            | Self::Bytes
            | Self::TimeMax
            | Self::Interval
            | Self::Stall
            | Self::Duration => Family::Load,
            Self::Durability
            | Self::TimedClose
            | Self::Data
            | Self::Compress
            | Self::Dedup
            | Self::Stamp
            | Self::Verify => Family::Data,
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
            | Self::Retrans => Family::Nfs,
            _ => Family::Work,
        }
    }
}
