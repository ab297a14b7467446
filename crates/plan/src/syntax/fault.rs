//! Planned faults of the in-memory server, as people write them.
//!
//! A [`PlannedFault`] is one fault. On the command line it is `--fault 'KIND VALUE'`, in a plan a
//! key of `[server.faults]` with the same kind and value; both come to `PlannedFault::read`,
//! and [`PlannedFault::value`] writes what reads back to the same. Numbers of procedures and
//! errors are the server's business: here they are words, `words` lists them.

mod words;

pub use model::server_fault::{
    CappedBytes, ChangingVerifier, EndlessListing, PartsPerMillion, ServiceTime,
};
pub use words::{CALLS, ERRORS};

/// The calls that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calls {
    /// Every one but NULL.
    All,
    /// Those of one procedure or operation: one of [`CALLS`].
    Named {
        /// In this major version (2, 3 or 4) only; `None` in all that have it.
        version: Option<u32>,
        /// Name of the procedure or operation.
        name: &'static str,
    },
}

/// The stability that WRITE replies claim, whatever was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimedStability {
    /// UNSTABLE, also where more was requested: no server that obeys its RFC does.
    Unstable,
    /// FILE_SYNC: a server that needs no COMMIT.
    FileSync,
}

/// A planned fault of the in-memory server. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlannedFault {
    /// Answers are held back.
    ServiceTime {
        /// For how long.
        time: ServiceTime,
        /// The calls that are affected.
        calls: Calls,
    },
    /// A rate that all clients share.
    Bandwidth {
        /// Bytes per second.
        bytes_per_s: u64,
        /// The bytes that are counted.
        counts: CappedBytes,
        /// Bytes that pass freely before the rate applies.
        burst_bytes: u64,
    },
    /// A call is carried out and not answered.
    Drop(PartsPerMillion),
    /// An answer is late.
    Delay {
        /// Share of the calls that are affected.
        share: PartsPerMillion,
        /// Delay of the reply.
        time_ns: u64,
    },
    /// An answer is sent twice.
    Duplicate(PartsPerMillion),
    /// A READ returns only the first half of the requested data.
    ShortReads(PartsPerMillion),
    /// A WRITE stores only the first half of its data.
    ShortWrites(PartsPerMillion),
    /// The data of a WRITE over data that is there is dropped, and the reply says that it was
    /// stored.
    LoseWrites(PartsPerMillion),
    /// WRITE replies claim a stability whatever was requested.
    WriteStability(ClaimedStability),
    /// A call is answered with an error.
    Error {
        /// The calls that are affected.
        calls: Calls,
        /// The error: one of [`ERRORS`].
        error: &'static str,
        /// Share of the calls that are affected.
        share: PartsPerMillion,
    },
    /// Nothing is read or answered for a time.
    Stall {
        /// For how long.
        lasts_ns: u64,
        /// When, after the start.
        at_ns: u64,
    },
    /// Connections, clients and sessions are forgotten, and the write verifier changes.
    Restart {
        /// When, after the start.
        at_ns: u64,
    },
    /// A restart reverts what was written UNSTABLE and not committed.
    LoseUnstable,
    /// It reverts what was acknowledged as safe last, too.
    LoseCommitted,
    /// It reverts so many of the last WRITEs, whatever was promised of them.
    LoseLast(u32),
    /// For so long after a restart clients of v4 reclaim what they had open, and others wait.
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
    /// Mounts that come from a port of 1024 or above are refused.
    ReservedPorts,
    /// The largest READ that is granted, in bytes.
    ReadSize(u32),
    /// The largest WRITE that is granted, in bytes.
    WriteSize(u32),
    /// READDIR never comes to the end of a directory.
    EndlessReaddir(EndlessListing),
    /// Replies of a stream leave at so many bytes per second and connection.
    Trickle(u64),
    /// The write verifier is another one after each of some calls.
    ChangingVerifier(ChangingVerifier),
    /// Slots that a session of v4.1 and later is granted at most.
    SessionSlots(u32),
    /// A reply bears the xid of no call.
    WrongXid(PartsPerMillion),
    /// The second half of a reply is missing.
    CutReplies {
        /// Share of the calls that are affected.
        share: PartsPerMillion,
        /// Closes the connection in the middle of the reply; else the reply is a whole record that
        /// is too short.
        close: bool,
    },
    /// The mark of a reply announces a record of 2 GiB.
    OversizedRecords(PartsPerMillion),
    /// LOOKUP of a directory below an export leads back to where it was looked up.
    DirectoryLoops,
    /// LOOKUP of a directory below an export leads to a symbolic link to itself.
    SymlinkLoops,
    /// A file handle goes stale after so many calls, up to twice as many.
    ChangingHandles(u64),
}

/// A kind of fault: its word and how its value is written.
pub struct FaultKind {
    /// The word, as a plan's key has it; on the command line `-` stands for `_`.
    pub name: &'static str,
    /// The form of its value; empty where it has none.
    pub form: &'static str,
    /// The effect of the fault.
    pub meaning: &'static str,
}

const fn kind(name: &'static str, form: &'static str, meaning: &'static str) -> FaultKind {
    FaultKind { name, form, meaning }
}

/// Every kind, in the order in which they are best read.
pub const KINDS: [FaultKind; 34] = [
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
];

impl PlannedFault {
    /// Its kind, as a plan's key has it.
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
            Self::ReservedPorts => "reserved_ports",
            Self::ReadSize(_) => "read_size",
            Self::WriteSize(_) => "write_size",
            Self::EndlessReaddir(_) => "endless_readdir",
            Self::Trickle(_) => "trickle",
            Self::ChangingVerifier(_) => "changing_verifier",
            Self::SessionSlots(_) => "session_slots",
            Self::WrongXid(_) => "wrong_xid",
            Self::CutReplies { .. } => "cut_replies",
            Self::OversizedRecords(_) => "oversized_records",
            Self::DirectoryLoops => "directory_loops",
            Self::SymlinkLoops => "symlink_loops",
            Self::ChangingHandles(_) => "changing_handles",
        }
    }

    /// Says whether several of its kind go together: others would contradict each other.
    const fn repeats(self) -> bool {
        matches!(
            self,
            Self::ServiceTime { calls: Calls::Named { .. }, .. }
                | Self::Error { .. }
                | Self::Stall { .. }
                | Self::Restart { .. }
        )
    }

    /// Says whether the server can't have both faults.
    fn contradicts(self, earlier: Self) -> bool {
        match (self, earlier) {
            (Self::ServiceTime { calls, .. }, Self::ServiceTime { calls: other, .. }) => {
                calls == other
            }
            _ => self == earlier || (!self.repeats() && self.kind() == earlier.kind()),
        }
    }

    /// Finds a fault that says what an earlier one says already.
    pub(crate) fn contradiction(faults: &[Self]) -> Option<Self> {
        for (index, fault) in faults.iter().enumerate() {
            if faults[..index].iter().any(|earlier| fault.contradicts(*earlier)) {
                return Some(*fault);
            }
        }
        None
    }
}
