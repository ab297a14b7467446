//! Planned faults of the in-memory server, as people write them.
//!
//! A [`PlannedFault`] is one fault, written as `--fault 'KIND VALUE'` on the command line, or as a
//! key of `[server.faults]` with the same kind and value. `PlannedFault::read` parses both, and
//! [`PlannedFault::value`] writes text that parses back to the same fault. Calls and errors are
//! plain words here, listed in `words`; the server maps them to numbers.

mod words;

pub use model::server_fault::{
    CappedBytes, ChangingVerifier, CopyFault, EndlessListing, PartsPerMillion, ServiceTime,
};
pub use words::{CALLS, ERRORS};

/// The calls affected by a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calls {
    /// Every call except NULL.
    All,
    /// Calls of one procedure or operation, which is one of [`CALLS`].
    Named {
        /// Only in this major version (2, 3 or 4); `None` means all versions that have it.
        version: Option<u32>,
        /// Name of the procedure or operation.
        name: &'static str,
    },
}

/// The stability that WRITE replies claim, regardless of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimedStability {
    /// UNSTABLE, even if more was requested; this violates the RFC.
    Unstable,
    /// FILE_SYNC, like a server that needs no COMMIT.
    FileSync,
}

/// A planned fault of the in-memory server. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlannedFault {
    /// Replies are delayed by a service time.
    ServiceTime { time: ServiceTime, calls: Calls },
    /// All clients share a limited rate.
    Bandwidth {
        bytes_per_s: u64,
        /// Which bytes count toward the limit.
        counts: CappedBytes,
        /// Number of bytes that pass before the limit applies.
        burst_bytes: u64,
    },
    /// A call is executed but not answered.
    Drop(PartsPerMillion),
    /// A reply is late.
    Delay { share: PartsPerMillion, time_ns: u64 },
    /// A reply is sent twice.
    Duplicate(PartsPerMillion),
    /// A READ returns only the first half of the requested data.
    ShortReads(PartsPerMillion),
    /// A WRITE stores only the first half of its data.
    ShortWrites(PartsPerMillion),
    /// A WRITE over existing data is acknowledged, but its data is dropped.
    LoseWrites(PartsPerMillion),
    /// WRITE replies claim a stability regardless of the request.
    WriteStability(ClaimedStability),
    /// A call is answered with an error.
    Error {
        calls: Calls,
        /// The error: one of [`ERRORS`].
        error: &'static str,
        share: PartsPerMillion,
    },
    /// For some time, the server neither reads nor answers.
    Stall {
        lasts_ns: u64,
        /// Time since the start.
        at_ns: u64,
    },
    /// Connections, clients and sessions are forgotten, and the write verifier changes.
    Restart {
        /// Time since the start.
        at_ns: u64,
    },
    /// A restart reverts what was written UNSTABLE and not committed.
    LoseUnstable,
    /// A restart also reverts the most recent writes that were acknowledged as stable.
    LoseCommitted,
    /// A restart reverts this many of the last WRITEs, regardless of their stability.
    LoseLast(u32),
    /// Grace period after a restart, in which v4 clients reclaim their open files and others wait.
    Grace(u64),
    /// Connections beyond this number are never answered.
    HangFromClients(u64),
    /// A connection stops replying after this many calls.
    HangAfter(u64),
    /// A connection is closed after this many calls.
    CloseAfter(u64),
    /// A connection without calls is closed after this time.
    IdleClose(u64),
    /// Every mount is refused.
    RefuseMount,
    /// Mounts from a port of 1024 or above are refused.
    ReservedPorts,
    /// Further addresses of a v4.1 client have sessions of their own.
    MinorIds,
    /// READ and WRITE of one file have a service time.
    SlowFile {
        /// The number that its name ends with.
        number: u32,
        time_ns: u64,
    },
    /// Maximum size of a READ, in bytes.
    ReadSize(u32),
    /// Maximum size of a WRITE, in bytes.
    WriteSize(u32),
    /// READDIR never reaches the end of a directory.
    EndlessReaddir(EndlessListing),
    /// Replies are sent at this many bytes per second and connection.
    Trickle(u64),
    /// The write verifier changes after some calls.
    ChangingVerifier(ChangingVerifier),
    /// Asynchronous copies are made at once, or their ends are not reported.
    Copies(CopyFault),
    /// Maximum number of slots in a session of v4.1 and later.
    SessionSlots(u32),
    /// A reply has an xid that belongs to no call.
    WrongXid(PartsPerMillion),
    /// The second half of a reply is missing.
    CutReplies {
        share: PartsPerMillion,
        /// Closes the connection in the middle of the reply; otherwise the reply is a complete
        /// record that is too short.
        close: bool,
    },
    /// The record mark of a reply announces 2 GiB.
    OversizedRecords(PartsPerMillion),
    /// LOOKUP of a directory below an export returns the directory in which it was looked up.
    DirectoryLoops,
    /// LOOKUP of a directory below an export leads to a symbolic link to itself.
    SymlinkLoops,
    /// A file handle becomes stale after this many calls, or up to twice as many.
    ChangingHandles(u64),
    /// Something happens to a data server of the same process.
    DataServer {
        /// Its number, from 1 on.
        number: u32,
        fate: DataServerFate,
    },
    /// Something happens to all pNFS layouts.
    Layouts {
        fate: LayoutFate,
        /// Time since the start.
        at_ns: u64,
    },
}

/// What happens to a data server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataServerFate {
    /// Replies to READ, WRITE and COMMIT are delayed by this time.
    Slow { time_ns: u64 },
    /// It stops answering at this time after the start: for a time, or for good.
    Hang { lasts_ns: Option<u64>, at_ns: u64 },
    /// It closes its connections and its port.
    Die { at_ns: u64 },
}

/// What happens to layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayoutFate {
    /// Clients are asked to return them.
    Recall,
    /// Clients lose them without being asked, and access to the data files.
    Revoke,
    /// Clients keep them, but lose access to the data files.
    Fence,
}

impl LayoutFate {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Recall, Self::Revoke, Self::Fence];

    /// Returns the word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recall => "recall",
            Self::Revoke => "revoke",
            Self::Fence => "fence",
        }
    }
}

/// A kind of fault: its word and how its value is written.
pub struct FaultKind {
    /// The kind's key in a plan; the command line also accepts `-` for `_`.
    pub name: &'static str,
    /// The form of its value; empty if it takes none.
    pub form: &'static str,
    /// The effect of the fault.
    pub meaning: &'static str,
}

const fn kind(name: &'static str, form: &'static str, meaning: &'static str) -> FaultKind {
    FaultKind { name, form, meaning }
}

/// Every kind, in the order in which they are listed for people.
pub const KINDS: [FaultKind; 39] = [
    kind(
        "service_time",
        "TIME | uniform TIME TIME | exponential TIME [on CALL]",
        "Replies are delayed: by a fixed time, a uniform random time, or an exponential one with \
         this mean.",
    ),
    kind(
        "bandwidth",
        "SIZE/s [wire] [after SIZE]",
        "Limits the total rate of payload, or of everything on the wire, `after` this many bytes.",
    ),
    kind(
        "slow_file",
        "N TIME",
        "Replies to READ and WRITE of the file whose name ends with this number are delayed, as on a \
         failing disk.",
    ),
    kind("drop", "SHARE", "Calls are executed but not answered."),
    kind("delay", "SHARE TIME", "Replies are late."),
    kind("duplicate", "SHARE", "Replies are sent twice."),
    kind("short_reads", "SHARE", "A READ returns only the first half of the requested data."),
    kind("short_writes", "SHARE", "A WRITE stores only the first half of its data."),
    kind("lose_writes", "SHARE", "WRITEs over existing data succeed but change nothing."),
    kind(
        "write_stability",
        "UNSTABLE | FILE_SYNC",
        "WRITE replies claim this stability, regardless of the request.",
    ),
    kind("error", "CALL ERROR SHARE", "Calls are answered with an error, such as READ IO 1%."),
    kind("stall", "TIME at TIME", "No replies for a time, at a time after the start."),
    kind(
        "restart",
        "at TIME",
        "Connections and sessions are lost, and the write verifier changes.",
    ),
    kind("lose_unstable", "", "A restart reverts uncommitted data."),
    kind("lose_committed", "", "A restart also reverts the last data acknowledged as stable."),
    kind("lose_last", "N", "A restart reverts the last N WRITEs, even if acknowledged as stable."),
    kind("grace", "TIME", "After a restart, v4 clients may reclaim their opens; others wait."),
    kind("hang_from_clients", "N", "Connections beyond this number are never answered."),
    kind("hang_after", "N", "A connection stops replying after this many calls."),
    kind("close_after", "N", "A connection is closed after this many calls."),
    kind("idle_close", "TIME", "A connection without calls is closed after this time."),
    kind("refuse_mount", "", "Every mount is refused."),
    kind("minor_ids", "", "Further addresses have sessions of their own (so_minor_id); v4.1."),
    kind("reserved_ports", "", "Mounts from ports of 1024 and above are refused, as by Linux."),
    kind("read_size", "SIZE", "Maximum size of a READ."),
    kind("write_size", "SIZE", "Maximum size of a WRITE."),
    kind(
        "endless_readdir",
        "cookies | names",
        "READDIR never ends: cookies repeat, or new names keep coming.",
    ),
    kind("trickle", "SIZE/s", "Replies over TCP are sent at this rate, on each connection."),
    kind(
        "changing_verifier",
        "COMMIT | WRITE",
        "The write verifier changes with every COMMIT, or also with every WRITE.",
    ),
    kind(
        "copies",
        "synchronous | unreported",
        "Asynchronous copies of v4.2 are complete with the reply, or their ends are not reported.",
    ),
    kind("session_slots", "N", "Maximum number of slots granted to a v4.1 session."),
    kind("wrong_xid", "SHARE", "Replies have an xid that matches no call."),
    kind(
        "cut_replies",
        "SHARE [close]",
        "Replies are truncated, as shorter records, or by closing the connection.",
    ),
    kind("oversized_records", "SHARE", "Replies over TCP announce records of 2 GiB."),
    kind("directory_loops", "", "LOOKUP of a directory below an export leads to its parent."),
    kind("symlink_loops", "", "LOOKUP of such a directory leads to a symbolic link to itself."),
    kind("changing_handles", "N", "File handles become stale after N to 2N calls."),
    kind(
        "data_server",
        "N slow TIME | N hang [TIME] at TIME | N die at TIME",
        "Data server N (from 1 on) delays READ, WRITE and COMMIT, stops answering (for a time, \
         or for good), or closes its port.",
    ),
    kind(
        "layouts",
        "recall at TIME | revoke at TIME | fence at TIME",
        "Clients are asked for their pNFS layouts, lose them, or only lose access to data files.",
    ),
];

impl PlannedFault {
    /// The fault's kind, as a key of a plan.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::ServiceTime { .. } => "service_time",
            Self::Bandwidth { .. } => "bandwidth",
            Self::Drop(_) => "drop",
            Self::Delay { .. } => "delay",
            Self::Duplicate(_) => "duplicate",
            Self::ShortReads(_) => "short_reads",
            Self::ShortWrites(_) => "short_writes",
            Self::LoseWrites(_) => "lose_writes",
            Self::WriteStability(_) => "write_stability",
            Self::Error { .. } => "error",
            Self::Stall { .. } => "stall",
            Self::Restart { .. } => "restart",
            Self::LoseUnstable => "lose_unstable",
            Self::LoseCommitted => "lose_committed",
            Self::LoseLast(_) => "lose_last",
            Self::Grace(_) => "grace",
            Self::HangFromClients(_) => "hang_from_clients",
            Self::HangAfter(_) => "hang_after",
            Self::CloseAfter(_) => "close_after",
            Self::IdleClose(_) => "idle_close",
            Self::RefuseMount => "refuse_mount",
            Self::MinorIds => "minor_ids",
            Self::ReservedPorts => "reserved_ports",
            Self::SlowFile { .. } => "slow_file",
            Self::ReadSize(_) => "read_size",
            Self::WriteSize(_) => "write_size",
            Self::EndlessReaddir(_) => "endless_readdir",
            Self::Trickle(_) => "trickle",
            Self::ChangingVerifier(_) => "changing_verifier",
            Self::Copies(_) => "copies",
            Self::SessionSlots(_) => "session_slots",
            Self::WrongXid(_) => "wrong_xid",
            Self::CutReplies { .. } => "cut_replies",
            Self::OversizedRecords(_) => "oversized_records",
            Self::DirectoryLoops => "directory_loops",
            Self::SymlinkLoops => "symlink_loops",
            Self::ChangingHandles(_) => "changing_handles",
            Self::DataServer { .. } => "data_server",
            Self::Layouts { .. } => "layouts",
        }
    }

    /// Returns true if several faults of this kind can be combined.
    const fn repeats(self) -> bool {
        matches!(
            self,
            Self::ServiceTime { calls: Calls::Named { .. }, .. }
                | Self::Error { .. }
                | Self::Stall { .. }
                | Self::Restart { .. }
                | Self::DataServer { .. }
                | Self::Layouts { .. }
        )
    }

    /// Returns true if the server can't have both faults.
    fn contradicts(self, earlier: Self) -> bool {
        match (self, earlier) {
            (Self::ServiceTime { calls, .. }, Self::ServiceTime { calls: other, .. }) => {
                calls == other
            }
            _ => self == earlier || (!self.repeats() && self.kind() == earlier.kind()),
        }
    }

    /// Finds a fault that repeats or contradicts an earlier one.
    pub(crate) fn contradiction(faults: &[Self]) -> Option<Self> {
        for (index, fault) in faults.iter().enumerate() {
            if faults[..index].iter().any(|earlier| fault.contradicts(*earlier)) {
                return Some(*fault);
            }
        }
        None
    }
}
