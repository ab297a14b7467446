//! Counters of the server.
//!
//! Each thread counts into a block of its own that only it writes, so counting is a plain load
//! and store; [`ServerCounters`] is the sum of all blocks at the moment of reading. Plain counts
//! are listed once, in `counted!`; those by procedure, operation, status and fault are arrays.

use std::array::from_fn;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs_proto::Status;
use nfs_proto::client::OperationKind;
use nfs_proto::nfs2;
use nfs_proto::nfs3::Procedure;
use nfs_proto::nfs4::OpCode;

use crate::fault::FaultKind;
use crate::pnfs::ProxiedCounts;

const PROCEDURES: usize = Procedure::ALL.len();
const FAULT_KINDS: usize = FaultKind::ALL.len();
const NFS2_PROCEDURES: usize = nfs2::Procedure::ALL.len();
/// Operations of NFS v4 are numbered from 3 on without a gap, except for ILLEGAL, which has no
/// counter.
const NFS4_OPERATIONS: usize = OpCode::ALL.len() - 1 + 3;
/// Statuses of all versions are below this number, or less than it above `STATUS_EXTRA`.
const STATUS_RANGE: u32 = 128;
/// Start of the second range of statuses. **Source:** RFC 1813 section 2.6, RFC 8881 section 15.1.
const STATUS_EXTRA: u32 = 10_000;
/// The last slot is for numbers outside of both ranges.
const STATUSES: usize = 2 * STATUS_RANGE as usize + 1;

/// A counter that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the owning thread may call it.
    pub(crate) fn add(&self, amount: u64) {
        // No read-modify-write: the block has one writer, so a locked instruction would be wasted.
        // A reader on another thread sees some recent value, which is all it needs.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counted {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One thread's counts; aligned so that two threads never share a cache line.
        #[derive(Debug)]
        #[repr(align(128))]
        pub(crate) struct ThreadCounters {
            nfs2_calls: [Counter; NFS2_PROCEDURES],
            calls: [Counter; PROCEDURES],
            nfs4_operations: [Counter; NFS4_OPERATIONS],
            statuses: [Counter; STATUSES],
            faults: [Counter; FAULT_KINDS],
            pub(crate) connections_closed: Counter,
            $(pub(crate) $name: Counter,)*
        }

        impl Default for ThreadCounters {
            fn default() -> Self {
                Self {
                    nfs2_calls: from_fn(|_| Counter::default()),
                    calls: from_fn(|_| Counter::default()),
                    nfs4_operations: from_fn(|_| Counter::default()),
                    statuses: from_fn(|_| Counter::default()),
                    faults: from_fn(|_| Counter::default()),
                    connections_closed: Counter::default(),
                    $($name: Counter::default(),)*
                }
            }
        }

        /// Sums over all threads since the start.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct ServerCounters {
            /// NFS v2 calls by procedure number; see [`ServerCounters::nfs2_calls_of`].
            pub nfs2_calls: [u64; NFS2_PROCEDURES],
            /// NFS v3 calls by procedure number; see [`ServerCounters::calls_of`].
            pub calls: [u64; PROCEDURES],
            /// NFS v4 operations by number.
            pub nfs4_operations: [u64; NFS4_OPERATIONS],
            /// Errors of all versions of NFS, planned ones included; numbers that no version
            /// defines are counted together.
            pub errors: BTreeMap<Status, u64>,
            /// Planned faults by kind; see [`ServerCounters::faults_of`].
            pub faults: [u64; FAULT_KINDS],
            /// Connections open now.
            pub connections_open: u64,
            /// Calls of v4 that were deferred or refused because the memory for clients ran out.
            pub clients_out_of_memory: u64,
            /// Delegations granted.
            pub delegations_granted: u64,
            /// Delegations that were recalled, each counted once.
            pub delegations_recalled: u64,
            /// Delegations that clients returned, recalled or not.
            pub delegations_returned: u64,
            /// Delegations that ended because their client kept them after a recall.
            pub delegations_revoked: u64,
            /// Layouts granted.
            pub layouts_granted: u64,
            /// Files whose layouts were recalled from a client, each counted once.
            pub layouts_recalled: u64,
            /// Files whose layouts a client returned, or gave up with its last CLOSE.
            pub layouts_returned: u64,
            /// Files whose layouts ended in any other way.
            pub layouts_revoked: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Default for ServerCounters {
            fn default() -> Self {
                Self {
                    nfs2_calls: [0; NFS2_PROCEDURES],
                    calls: [0; PROCEDURES],
                    nfs4_operations: [0; NFS4_OPERATIONS],
                    errors: BTreeMap::new(),
                    faults: [0; FAULT_KINDS],
                    connections_open: 0,
                    clients_out_of_memory: 0,
                    delegations_granted: 0,
                    delegations_recalled: 0,
                    delegations_returned: 0,
                    delegations_revoked: 0,
                    layouts_granted: 0,
                    layouts_recalled: 0,
                    layouts_returned: 0,
                    layouts_revoked: 0,
                    $($name: 0,)*
                }
            }
        }

        impl ServerCounters {
            fn merge_plain(&mut self, thread: &ThreadCounters) {
                $(self.$name += thread.$name.get();)*
            }
        }
    };
}

counted! {
    /// NFS v4 compounds of all minor versions.
    nfs4_compounds,
    /// Calls of MOUNT.
    mount_calls,
    /// Calls of the portmapper and rpcbind.
    portmap_calls,
    /// Calls refused at the RPC level: unknown program or procedure, garbage, bad credential.
    refused_calls,
    /// Payload of READ replies, in bytes.
    payload_read_bytes,
    /// Payload of WRITE calls that was taken, in bytes.
    payload_written_bytes,
    /// The part of it that was received into the blocks of the store, and not copied, in bytes.
    payload_in_place_bytes,
    /// Bytes that COPY and CLONE moved within the server.
    copied_bytes,
    /// COPY calls whose copies continued after the reply.
    background_copies,
    /// Reports of clients about their use of a data server, by LAYOUTSTATS or LAYOUTRETURN.
    usage_reports,
    /// Bytes that clients read from data servers, according to their LAYOUTRETURNs.
    reported_read_bytes,
    /// Bytes that clients wrote to data servers, according to their LAYOUTRETURNs.
    reported_written_bytes,
    /// Bytes received from sockets.
    wire_in_bytes,
    /// Bytes handed to sockets.
    wire_out_bytes,
    /// Connections that were accepted.
    connections_accepted,
    /// Connections closed at once because of `clients_max` or a lack of descriptors.
    connections_turned_away,
    /// Connections closed, or not served at all, because the memory for connections ran out.
    connections_out_of_memory,
    /// Connections closed because their stream was not valid RPC.
    broken_streams,
    /// Connections closed because a started record did not arrive in time.
    stalled_records,
    /// Connections closed and datagrams ignored because of their sender's address.
    peers_refused,
    /// Datagrams received from peers that are let in.
    datagrams_in,
    /// Datagrams that were sent.
    datagrams_out,
    /// Datagrams that were malformed or truncated; they are not answered.
    datagrams_broken,
    /// Replies that the system did not accept, or that do not fit a datagram.
    datagrams_unsent,
    /// Repeated calls that were answered from the cache of replies.
    cache_hits,
    /// Calls that were looked up in the cache of replies and were new.
    cache_misses,
    /// Repeated calls that were ignored because the first one is still in progress.
    cache_busy,
    /// TLS handshakes completed.
    tls_handshakes,
    /// TLS handshakes, or streams, that failed.
    tls_failures,
}

impl ThreadCounters {
    /// Counts a call of NFS v2.
    pub(crate) fn nfs2_call(&self, procedure: nfs2::Procedure) {
        self.nfs2_calls[procedure.number() as usize].add(1);
    }

    /// Counts a call of NFS v3.
    pub(crate) fn call(&self, procedure: Procedure) {
        self.calls[procedure.number() as usize].add(1);
    }

    /// Counts an operation of NFS v4 by its number.
    pub(crate) fn nfs4_operation(&self, operation: u32) {
        if let Some(counter) = self.nfs4_operations.get(operation as usize) {
            counter.add(1);
        }
    }

    /// Counts an error reply of any version.
    pub(crate) fn error(&self, status: Status) {
        let slot = match status.number() {
            low if low < STATUS_RANGE => low,
            high if (STATUS_EXTRA..STATUS_EXTRA + STATUS_RANGE).contains(&high) => {
                high - STATUS_EXTRA + STATUS_RANGE
            }
            _ => STATUSES as u32 - 1,
        };
        self.statuses[slot as usize].add(1);
    }

    /// Counts a planned fault that struck.
    pub(crate) fn fault(&self, kind: FaultKind) {
        self.faults[kind as usize].add(1);
    }
}

fn add_all(sums: &mut [u64], counters: &[Counter]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum += counter.get();
    }
}

/// The status counted in a slot.
fn status_of_slot(slot: usize) -> Status {
    Status::from_number(match slot as u32 {
        low if low < STATUS_RANGE => low,
        high if high < 2 * STATUS_RANGE => high - STATUS_RANGE + STATUS_EXTRA,
        _ => u32::MAX,
    })
}

impl ServerCounters {
    /// Adds one thread's counts.
    pub(crate) fn merge(&mut self, thread: &ThreadCounters) {
        add_all(&mut self.nfs2_calls, &thread.nfs2_calls);
        add_all(&mut self.calls, &thread.calls);
        add_all(&mut self.nfs4_operations, &thread.nfs4_operations);
        add_all(&mut self.faults, &thread.faults);
        for (slot, counter) in thread.statuses.iter().enumerate() {
            if counter.get() > 0 {
                *self.errors.entry(status_of_slot(slot)).or_default() += counter.get();
            }
        }
        // The two counters are read one after the other while the thread keeps running, so the
        // difference of a busy thread could be negative for a moment.
        let accepted = thread.connections_accepted.get();
        self.connections_open += accepted.saturating_sub(thread.connections_closed.get());
        self.merge_plain(thread);
    }

    /// Adds what clients read and wrote on a data server, without what their metadata server did
    /// there for them.
    pub(crate) fn add_data_server(&mut self, server: &Self, proxied: &ProxiedCounts) {
        for procedure in [Procedure::Read, Procedure::Write, Procedure::Commit] {
            let index = procedure.number() as usize;
            let own = match procedure {
                Procedure::Read => proxied.read_calls,
                Procedure::Write => proxied.write_calls,
                _ => 0,
            };
            // The counts of a running server are from slightly different instants.
            self.calls[index] += server.calls[index].saturating_sub(own);
        }
        for code in [OpCode::Read, OpCode::Write, OpCode::Commit] {
            let index = code.number() as usize;
            self.nfs4_operations[index] += server.nfs4_operations[index];
        }
        let less = |bytes: u64, own: u64| bytes.saturating_sub(own);
        self.payload_read_bytes += less(server.payload_read_bytes, proxied.read_bytes);
        self.payload_written_bytes += less(server.payload_written_bytes, proxied.written_bytes);
    }

    /// Calls of one procedure of NFS v2.
    pub fn nfs2_calls_of(&self, procedure: nfs2::Procedure) -> u64 {
        self.nfs2_calls[procedure.number() as usize]
    }

    /// Calls of one procedure of NFS v3.
    pub fn calls_of(&self, procedure: Procedure) -> u64 {
        self.calls[procedure.number() as usize]
    }

    /// Calls of all versions that carried out an operation, including failed ones. They are
    /// compared with the clients' own counts.
    pub fn calls_of_kind(&self, kind: OperationKind) -> u64 {
        let v2 = kind.nfs2_procedure();
        let v3 = kind.nfs3_procedure();
        v2.map_or(0, |procedure| self.nfs2_calls_of(procedure))
            + v3.map_or(0, |procedure| self.calls_of(procedure))
            + kind.nfs4_operation().map_or(0, |code| self.nfs4_operations[code.number() as usize])
    }

    /// All calls of NFS: v2 and v3 calls and v4 compounds.
    pub fn calls_total(&self) -> u64 {
        let calls = self.nfs2_calls.iter().sum::<u64>() + self.calls.iter().sum::<u64>();
        calls + self.nfs4_compounds
    }

    /// COMMIT calls of NFS v3.
    pub fn commits(&self) -> u64 {
        self.calls_of(Procedure::Commit)
    }

    /// Returns how often planned faults of one kind struck.
    pub fn faults_of(&self, kind: FaultKind) -> u64 {
        self.faults[kind as usize]
    }

    /// All planned faults except those that only slow replies down: service times and the bandwidth
    /// cap.
    pub fn planned_faults(&self) -> u64 {
        FaultKind::ALL
            .into_iter()
            .filter(|kind| !kind.is_pace())
            .map(|kind| self.faults_of(kind))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_status_numbers_of_all_versions() {
        let thread = ThreadCounters::default();
        let statuses = [5, 99, 10_001, 10_008, 10_096, 127, 128, 9_999, 70_000];
        for number in statuses {
            thread.error(Status::from_number(number));
        }
        let mut sum = ServerCounters::default();
        sum.merge(&thread);
        let expected = [(5, 1), (99, 1), (127, 1), (10_001, 1), (10_008, 1), (10_096, 1)];
        let mut errors: BTreeMap<_, u64> =
            expected.map(|(number, count)| (Status::from_number(number), count)).into();
        errors.insert(Status::Other(u32::MAX), 3);
        assert_eq!(sum.errors, errors);
    }

    #[test]
    fn counts_fault_kinds_separately() {
        let thread = ThreadCounters::default();
        for kind in FaultKind::ALL {
            thread.fault(kind);
        }
        let mut sum = ServerCounters::default();
        sum.merge(&thread);
        assert!(FaultKind::ALL.iter().all(|kind| sum.faults_of(*kind) == 1));
        assert_eq!(sum.planned_faults(), FaultKind::ALL.len() as u64 - 3);
    }
}
