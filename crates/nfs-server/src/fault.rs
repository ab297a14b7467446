//! Planned faults: what the server does wrong on purpose, and when.
//!
//! A [`FaultPlan`] is plain data. Each connection, and each UDP socket, walks through it with its
//! own `FaultState`, seeded by the plan's seed and the connection's number, so the faults one
//! connection sees depend only on the calls it makes. Without a plan no connection has a state, and
//! each call costs one test of an `Option`. Every fault that strikes is counted by its
//! [`FaultKind`].

mod bandwidth;
mod damage;
mod service_time;
mod state;

use nfs_proto::Status;
use nfs_proto::mount3::MountStatus;
use nfs_proto::nfs3::{Procedure, StableHow};
use nfs_proto::nfs4::OpCode;

use crate::fs::Quirks;

pub use model::server_fault::{
    CappedBytes, ChangingVerifier, CopyFault, EndlessListing, PartsPerMillion, ServiceTime,
};

pub(crate) use self::bandwidth::Pipe;
pub use self::damage::Damage;
pub(crate) use self::damage::{DamagedReply, damage};
pub(crate) use self::state::{CallOutcome, CallPart, FaultState};

/// The calls affected by a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultedCalls {
    /// Every NFS call except NULL; for v4, every compound.
    All,
    /// One procedure of v2, by number. **Source:** RFC 1094 section 2.2.
    V2(u32),
    /// One procedure of v3, by number. **Source:** RFC 1813 section 3.3.
    V3(u32),
    /// One operation of v4, by number. **Source:** RFC 7530 section 16, RFC 8881, RFC 7862.
    V4(u32),
}

/// An error returned instead of executing the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorFault {
    /// The calls affected. `All` strikes a v4 compound at its first op after SEQUENCE.
    pub calls: FaultedCalls,
    /// The status returned, whether or not the protocol version defines it.
    pub status: Status,
    /// Share of the calls affected.
    pub share: PartsPerMillion,
}

/// A service time for certain calls only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallServiceTime {
    /// The calls it applies to; a v4 compound takes the longest among its operations.
    pub calls: FaultedCalls,
    /// The service time that replaces the general one.
    pub time: ServiceTime,
}

/// Replies that are sent late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayFault {
    /// Share of the replies that are late.
    pub share: PartsPerMillion,
    /// Extra delay in nanoseconds, on top of the service time.
    pub delay_ns: u64,
}

/// A rate that all clients share. Calls are executed at once, but replies wait as if they left
/// through a pipe of this rate, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandwidthCap {
    /// Bytes per second; 0 counts as 1.
    pub bytes_per_s: u64,
    /// Which bytes are counted.
    pub counts: CappedBytes,
    /// Bytes that pass freely before the rate applies, as with burst credits; they do not
    /// replenish.
    pub burst_bytes: u64,
}

/// An event that concerns the whole server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// Nothing is read or answered for a while.
    Stall {
        /// Duration in nanoseconds.
        duration_ns: u64,
    },
    /// All connections are closed; the write verifier changes, and clients, sessions, opens and
    /// cached replies are forgotten. File handles remain valid and data is kept, except as
    /// [`FaultPlan::lose_unstable`], [`FaultPlan::lose_committed`] and
    /// [`FaultPlan::lose_last_writes`] say.
    Restart,
    /// All connections and ports are closed, as if the process had ended.
    Die,
    /// Something happens to all layouts.
    Layouts(LayoutEvent),
}

/// What happens to the layouts of all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutEvent {
    /// They are recalled.
    Recall,
    /// They end without a recall, and their clients lose access to the data files.
    Revoke,
    /// Their clients lose access to the data files, and are not told.
    Fence,
}

/// What happens to a data server in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataServerEvent {
    /// READ, WRITE and COMMIT take longer.
    Slow {
        /// The extra time in nanoseconds.
        time_ns: u64,
    },
    /// An event at some time after the start.
    Scheduled(ScheduledEvent),
}

/// A fault of a data server in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataServerFault {
    /// Index of the data server.
    pub server: usize,
    /// What happens to it.
    pub event: DataServerEvent,
}

/// An event and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledEvent {
    /// Time in nanoseconds after the start.
    pub after_ns: u64,
    /// The event.
    pub event: ServerEvent,
}

/// All faults of a server; the default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per fault")]
pub struct FaultPlan {
    /// Seed of all random choices.
    pub seed: u64,
    /// How long each NFS reply is held back; the call is executed at once.
    pub service_time: Option<ServiceTime>,
    /// Service times of certain calls, instead of the general one; the first match wins.
    pub service_times: Vec<CallServiceTime>,
    /// Rate that all clients share.
    pub bandwidth: Option<BandwidthCap>,
    /// Largest READ granted, in bytes, if below the configured one.
    pub read_bytes_max: Option<u32>,
    /// Largest WRITE granted, in bytes, if below the configured one.
    pub write_bytes_max: Option<u32>,
    /// Errors to return; the first that strikes wins.
    pub errors: Vec<ErrorFault>,
    /// MNT is refused to calls from ports 1024 and up, as Linux does without `insecure`.
    pub reserved_ports_only: bool,
    /// A client that is known already gets another `so_minor_id` from EXCHANGE_ID, as if its second
    /// address had sessions of its own.
    pub minor_ids: bool,
    /// Status returned for every MNT.
    pub refuse_mount: Option<MountStatus>,
    /// How often a call is executed but never answered.
    pub drop_reply: PartsPerMillion,
    /// How often a reply is late.
    pub delay_reply: DelayFault,
    /// How often a reply is sent twice.
    pub duplicate_reply: PartsPerMillion,
    /// How often a READ of two bytes or more returns at most the first half of the requested data.
    pub short_read: PartsPerMillion,
    /// How often a WRITE of two bytes or more stores only the first half of its data, and reports
    /// that.
    pub short_write: PartsPerMillion,
    /// How often the data of a WRITE within the file's current size is dropped, although the reply
    /// reports it as stored.
    pub lose_write: PartsPerMillion,
    /// The stability that WRITE replies claim, whatever the client requested.
    pub write_stability: Option<StableHow>,
    /// Stalls and restarts, in any order.
    pub schedule: Vec<ScheduledEvent>,
    /// A restart loses data that was written UNSTABLE and not committed.
    pub lose_unstable: bool,
    /// A restart loses uncommitted data and, for each file, whatever was most recently acknowledged
    /// as stable: by the last COMMIT, or the last WRITE that was not UNSTABLE. No server that
    /// follows its RFC does this.
    pub lose_committed: bool,
    /// Number of the latest WRITEs that a restart loses, whatever was promised for them; replaces
    /// `lose_unstable` and `lose_committed`.
    pub lose_last_writes: u32,
    /// Length of the grace period after a restart, in nanoseconds: v4 clients may reclaim the state
    /// they had, and may not open or lock anything else.
    pub grace_ns: Option<u64>,
    /// Number of open connections beyond which further ones are accepted but never answered.
    pub hang_from_clients: Option<usize>,
    /// Calls answered on a connection before it goes silent but stays open.
    pub hang_after_calls: Option<u64>,
    /// Calls answered on a connection before it is closed.
    pub close_after_calls: Option<u64>,
    /// Nanoseconds without a call after which a connection is closed, with up to half a second of
    /// extra delay.
    pub close_idle_after_ns: Option<u64>,
    /// Rate at which replies are trickled out on each TCP connection, in bytes per second.
    pub trickle_bytes_per_s: Option<u64>,
    /// How replies are damaged on their way out.
    pub damage: Damage,
    /// Calls that change the write verifier.
    pub changing_verifier: Option<ChangingVerifier>,
    /// How the server misbehaves on asynchronous copies.
    pub copies: Option<CopyFault>,
    /// Maximum number of slots granted to a session of v4.1 and later.
    pub session_slots_max: Option<u32>,
    /// Faults in the file system.
    pub quirks: Quirks,
    /// Faults of data servers in this process.
    pub data_servers: Vec<DataServerFault>,
}

macro_rules! fault_kinds {
    ($($(#[$doc:meta])* $kind:ident => $name:literal,)*) => {
        /// The kind of a fault, for counting.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FaultKind {
            $($(#[$doc])* $kind,)*
        }

        impl FaultKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];

            /// Returns the name of the fault as shown in tables.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

fault_kinds! {
    /// A reply was held back by a service time.
    ServiceTime => "service time",
    /// A reply was held back by the bandwidth cap.
    Bandwidth => "bandwidth cap",
    /// A call was answered with an error.
    Error => "error",
    /// An MNT was refused.
    RefusedMount => "refused mount",
    /// A reply was never sent.
    Drop => "dropped reply",
    /// A reply was sent late.
    Delay => "delayed reply",
    /// A reply was sent twice.
    Duplicate => "duplicated reply",
    /// A READ returned less than requested.
    ShortRead => "short read",
    /// A WRITE stored less than it was given.
    ShortWrite => "short write",
    /// The data of a WRITE was dropped.
    LostWrite => "lost write",
    /// A connection went silent.
    Hang => "hung connection",
    /// A connection was closed.
    Close => "closed connection",
    /// A connection was closed because it was idle.
    CloseIdle => "closed idle connection",
    /// The server stalled.
    Stall => "stall",
    /// The server restarted.
    Restart => "restart",
    /// The server died.
    Die => "death",
    /// All layouts were recalled, revoked or fenced.
    Layouts => "layouts taken back",
    /// A reply was trickled out.
    Trickle => "trickled reply",
    /// A reply had an xid that belongs to no call.
    WrongXid => "wrong xid",
    /// A reply ended in the middle.
    Cut => "cut reply",
    /// A reply announced a record that is too long.
    Oversized => "oversized record",
    /// The write verifier changed.
    NewVerifier => "changed verifier",
    /// An asynchronous copy was made at once, or its end was not reported.
    CopyReport => "missing report of a copy",
}

impl FaultKind {
    /// Whether the fault only delays replies and returns nothing wrong.
    pub const fn is_pace(self) -> bool {
        matches!(self, Self::ServiceTime | Self::Bandwidth | Self::Trickle)
    }
}

impl FaultPlan {
    /// The plan of one of the data servers in this process.
    pub(crate) fn for_data_server(&self, server: usize) -> Self {
        let mut plan = Self { seed: self.seed.wrapping_add(server as u64 + 1), ..Self::default() };
        for fault in self.data_servers.iter().filter(|fault| fault.server == server) {
            match fault.event {
                DataServerEvent::Scheduled(event) => plan.schedule.push(event),
                DataServerEvent::Slow { time_ns } => {
                    let time = ServiceTime::Fixed { time_ns };
                    let v3 = [Procedure::Read, Procedure::Write, Procedure::Commit];
                    let v4 = [OpCode::Read, OpCode::Write, OpCode::Commit];
                    let v3 = v3.map(|call| FaultedCalls::V3(call.number()));
                    let v4 = v4.map(|call| FaultedCalls::V4(call.number()));
                    let all = v3.into_iter().chain(v4);
                    plan.service_times.extend(all.map(|calls| CallServiceTime { calls, time }));
                }
            }
        }
        plan
    }

    /// Whether the plan has faults that are drawn for each call.
    fn touches_calls(&self) -> bool {
        self.service_time.is_some()
            || !self.service_times.is_empty()
            || self.quirks.slow_file.is_some()
            || self.bandwidth.is_some()
            || !self.errors.is_empty()
            || self.drop_reply.0 > 0
            || self.delay_reply.share.0 > 0
            || self.duplicate_reply.0 > 0
            || self.short_read.0 > 0
            || self.short_write.0 > 0
            || self.lose_write.0 > 0
            || self.hang_after_calls.is_some()
            || self.close_after_calls.is_some()
            || self.trickle_bytes_per_s.is_some()
            || !self.damage.is_none()
    }

    /// Makes the state of connection `number`, or `None` if no fault concerns calls.
    pub(crate) fn start_on(&self, number: u64) -> Option<Box<FaultState>> {
        // Without faults of calls there is no state: a connection pays one test of an `Option` per
        // call and holds no memory.
        if !self.touches_calls() {
            return None;
        }
        Some(Box::new(FaultState::new(self.seed, number)))
    }
}
