//! From a decoded request to an encoded reply.
//!
//! A [`Service`] belongs to one thread: it has that thread's scratch space and counters, and shares
//! everything else. It has no access to sockets: a request comes with its [`Origin`], and the reply
//! goes into an [`Outbox`], with READ payload as pieces of the store. Each NFS version is a module
//! with one entry point, such as `answer_nfs3`. All code that writes data goes through
//! [`Service::write_data`], so that planned faults and verifiers apply to all versions alike.

mod by_handle;
mod convert;
mod data_servers;
mod listing;
mod mount;
mod names;
mod nfs2;
mod nfs3;
mod nfs4;
mod portmap;
mod repeats;
mod sockaddr;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use nfs_proto::RpcError;
use nfs_proto::nfs3::{Reply, StableHow, Status, Verifier};
use nfs_proto::program;
use nfs_proto::rpc::{AUTH_TOO_WEAK, Credential, Groups};
use nfs_proto::server::{Request, encode_nfs3_reply, encode_refusal, encode_reply};

pub(crate) use self::nfs4::{BackgroundCopy, Tables};
pub(crate) use self::portmap::{Registered, registrations};
use crate::access::AllowList;
use crate::clock::{mix, monotonic_ns};
use crate::config::{Delegations, Versions};
use crate::counters::ThreadCounters;
use crate::fault::{
    CallPart, ChangingVerifier, FaultKind, FaultPlan, FaultState, FaultedCalls, Pipe,
};
use crate::fs::{
    Caller, Change, Context, DataPiece, FileKind, FileSystem, FileTime, FsError, InodeId, Payload,
    Permissions,
};
use crate::limits::{DATAGRAM_TRANSFER_BYTES_MAX, SWEEP_NS_MAX, SWEEP_NS_MIN};
use crate::memory::Memory;
use crate::origin::{Origin, Transport};
use crate::outbox::Outbox;
use crate::pnfs::Pnfs;
use crate::replies::{CallKey, Replies};
use crate::tls::TlsServer;

/// Owner of objects made by anonymous callers. **Source:** Linux, DEFAULT_OVERFLOWUID.
const ANONYMOUS_ID: u32 = 65_534;

/// Transfer sizes granted to a transport, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantedSizes {
    pub(crate) read_bytes_max: u32,
    pub(crate) write_bytes_max: u32,
    pub(crate) directory_bytes_preferred: u32,
}

impl GrantedSizes {
    /// The same, reduced so that each call and reply fits into a datagram.
    fn in_datagrams(self) -> Self {
        Self {
            read_bytes_max: self.read_bytes_max.min(DATAGRAM_TRANSFER_BYTES_MAX),
            write_bytes_max: self.write_bytes_max.min(DATAGRAM_TRANSFER_BYTES_MAX),
            directory_bytes_preferred: self
                .directory_bytes_preferred
                .min(DATAGRAM_TRANSFER_BYTES_MAX),
        }
    }
}

/// The state that all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) fs: FileSystem,
    /// The memory that is not for files.
    pub(crate) memory: Arc<Memory>,
    pub(crate) exports: Vec<String>,
    pub(crate) versions: Versions,
    pub(crate) permissions: Permissions,
    pub(crate) delegations: Delegations,
    pub(crate) lease_s: u32,
    pub(crate) granted: GrantedSizes,
    /// Longest call accepted: a WRITE of the configured size, even if a fault grants less.
    pub(crate) record_bytes_max: usize,
    pub(crate) partial_record_timeout_ns: u64,
    pub(crate) allowed: AllowList,
    pub(crate) tls: Option<TlsServer>,
    /// The data servers, if there are any.
    pub(crate) pnfs: Option<Arc<Pnfs>>,
    /// Whether this is a data server of another server.
    pub(crate) is_data_server: bool,
    pub(crate) faults: FaultPlan,
    pub(crate) pipe: Pipe,
    pub(crate) clock: fn() -> FileTime,
    /// The portmapper's registrations.
    pub(crate) registrations: Vec<Registered>,
    /// Host and path of each MNT without UMNT.
    pub(crate) mounts: Mutex<BTreeSet<(String, String)>>,
    /// Replies kept for repeated calls.
    pub(crate) replies: Replies,
    /// Tables of the clients of NFS v4.
    pub(crate) nfs4: Tables,
    /// Planned restarts so far.
    pub(crate) restarts: AtomicU64,
    /// How often the write verifier changed without a restart: a planned fault.
    pub(crate) verifier_changes: AtomicU64,
}

impl Shared {
    /// Verifier that tells clients when the server may have lost their unstable writes: changes at
    /// each start and each planned restart.
    pub(crate) fn verifier(&self) -> Verifier {
        // The first start uses the boot id itself; each restart, and each planned change without
        // one, mixes a count into it. In practice two restarts never produce the same value: `mix`
        // is a bijection of 64 bits.
        let restarts = self.restarts.load(Ordering::Acquire);
        let boot_id = self.fs.boot_id();
        let mut value = if restarts == 0 { boot_id } else { mix(boot_id ^ restarts) };
        let changes = self.verifier_changes.load(Ordering::Acquire);
        if changes > 0 {
            value = mix(value ^ changes);
        }
        Verifier(value.to_be_bytes())
    }

    /// Changes the verifier if that is planned for a call that `changes` it, and returns whether it
    /// did.
    fn change_verifier(&self, changes: ChangingVerifier) -> bool {
        let is_planned = self.faults.changing_verifier >= Some(changes);
        if is_planned {
            self.verifier_changes.fetch_add(1, Ordering::AcqRel);
        }
        is_planned
    }

    /// Verifier of directory cookies: they stay valid as long as the store lives.
    pub(crate) fn cookie_verifier(&self) -> Verifier {
        Verifier(self.fs.boot_id().to_be_bytes())
    }

    /// Time between two checks of the connections' time-outs, in nanoseconds: half of the shortest
    /// one.
    pub(crate) fn sweep_ns(&self) -> u64 {
        let idle_ns = self.faults.close_idle_after_ns.unwrap_or(u64::MAX);
        let shortest_ns = idle_ns.min(self.partial_record_timeout_ns);
        (shortest_ns / 2).clamp(SWEEP_NS_MIN, SWEEP_NS_MAX)
    }

    /// Forgets the state that a restart loses; no loop serves anyone meanwhile.
    pub(crate) fn forget_state(&self) {
        // Data is lost before the verifier changes: a WRITE that reads the new verifier can only
        // store data after the loss. No loop answers meanwhile, so the order matters only to
        // callers that use the file system directly.
        self.replies.clear();
        if self.faults.lose_last_writes > 0 {
            self.fs.lose_last_writes();
        } else if self.faults.lose_committed {
            self.fs.lose_committed();
        } else if self.faults.lose_unstable {
            self.fs.lose_unstable();
        }
        self.restarts.fetch_add(1, Ordering::AcqRel);
        let boot_id = u64::from_be_bytes(self.verifier().0);
        self.nfs4.restart(boot_id, monotonic_ns(), self.faults.grace_ns);
    }
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteOutcome {
    pub(crate) change: Change,
    /// Bytes written, possibly fewer than given.
    pub(crate) count: u32,
    pub(crate) verifier: Verifier,
}

/// The request handler of one thread; see the module.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<ThreadCounters>,
    /// Time of the current calls: read once per turn of the event loop.
    pub(crate) now: FileTime,
    /// The planned faults of the current caller, if any.
    pub(crate) faults: Option<Box<FaultState>>,
    /// The limits granted to the current transport.
    granted: GrantedSizes,
    /// Whether the current call has to wait if another client has a delegation.
    waits_for_recalls: bool,
    /// Length of the current call in bytes.
    pub(crate) call_bytes: usize,
    /// Payload of the first WRITE of the current call, if it was received apart from it.
    pub(crate) received: Option<Box<Payload>>,
    /// The current call, if its reply is kept for repeats.
    repeatable: Option<CallKey>,
    pieces: Vec<DataPiece>,
    page: Vec<u8>,
    /// Copies that continue after their replies; this thread copies a step of the first one at a
    /// time.
    pub(crate) copies: VecDeque<Arc<BackgroundCopy>>,
}

impl Service {
    pub(crate) fn new(shared: Arc<Shared>, counters: Arc<ThreadCounters>) -> Self {
        let now = (shared.clock)();
        let granted = shared.granted;
        Self {
            shared,
            counters,
            now,
            faults: None,
            granted,
            waits_for_recalls: true,
            call_bytes: 0,
            received: None,
            repeatable: None,
            pieces: Vec::new(),
            page: Vec::new(),
            copies: VecDeque::new(),
        }
    }

    /// Executes a request and puts its reply, framed as a record, into `out`. A request that the
    /// session refused has already been answered and is only counted.
    pub(crate) fn answer(&mut self, request: &Request<'_>, origin: &Origin, out: &mut Outbox) {
        let xid = request.xid;
        let apart = self.received.as_ref().map_or(0, |payload| payload.len_bytes());
        self.call_bytes = request.record.len() + apart;
        self.repeatable = None;
        let Ok(call) = &request.body else {
            return self.counters.refused_calls.add(1);
        };
        let permissions = self.shared.permissions;
        let known =
            caller_of(&request.credential, permissions).filter(|_| !self.lacks_tls(call, origin));
        let Some(caller) = known else {
            self.counters.refused_calls.add(1);
            encode_refusal(out.head(), xid, RpcError::Authentication(AUTH_TOO_WEAK));
            return out.seal();
        };
        self.granted = match origin.transport {
            Transport::Udp => self.shared.granted.in_datagrams(),
            Transport::Tcp | Transport::Tls => self.shared.granted,
        };
        self.shared.tend_lost_layouts(self.now);
        self.repeatable = repeats::key_of(&self.shared.replies, request, call, origin);
        match self.repeatable {
            Some(key) => self.carry_out_once(key, call, caller, origin, xid, out),
            None => self.carry_out(call, caller, origin, xid, out),
        }
    }

    /// Executes a call whose reply is not kept.
    fn carry_out(
        &mut self,
        call: &program::Call<'_>,
        caller: Caller,
        origin: &Origin,
        xid: u32,
        out: &mut Outbox,
    ) {
        match call {
            program::Call::Nfs2(call) => {
                let procedure = call.procedure();
                self.counters.nfs2_call(procedure);
                let called = FaultedCalls::V2(procedure.number());
                if let Some(status) = self.planned_error(called, CallPart::First) {
                    self.counters.error(status);
                    let reply = nfs_proto::nfs2::Reply::failure(procedure, status);
                    encode_reply(out.head(), xid, &program::Reply::Nfs2(reply));
                } else {
                    let context = Context { caller, now: self.now };
                    // v2 has no status for "try again later" (RFC 1094 section 2.3.1): its calls
                    // are executed while the delegation is being recalled.
                    self.waits_for_recalls = false;
                    self.answer_nfs2(call, &context, xid, out);
                    self.waits_for_recalls = true;
                }
            }
            program::Call::Nfs3(call) => {
                let procedure = call.procedure();
                self.counters.call(procedure);
                let called = FaultedCalls::V3(procedure.number());
                if let Some(status) = self.planned_error(called, CallPart::First) {
                    self.counters.error(status);
                    encode_nfs3_reply(out.head(), xid, &Reply::failure(procedure, status));
                } else {
                    let context = Context { caller, now: self.now };
                    self.answer_nfs3(call, &context, xid, out);
                }
            }
            program::Call::Mount1(call) => self.answer_mount1(*call, origin, xid, out),
            program::Call::Mount3(call) => self.answer_mount(*call, origin, xid, out),
            program::Call::Portmap(call) => self.answer_portmap(*call, xid, out),
            program::Call::Rpcbind3(call) | program::Call::Rpcbind4(call) => {
                self.answer_rpcbind(*call, xid, out);
            }
            program::Call::Nfs4(call) => {
                let context = Context { caller, now: self.now };
                self.answer_nfs4(call, context, xid, origin, out);
            }
        }
        out.seal();
    }

    /// Returns true if a call lacks the TLS that is required; the portmapper is open to everyone.
    fn lacks_tls(&self, call: &program::Call<'_>, origin: &Origin) -> bool {
        let open = matches!(
            call,
            program::Call::Portmap(_) | program::Call::Rpcbind3(_) | program::Call::Rpcbind4(_)
        );
        self.shared
            .tls
            .as_ref()
            .is_some_and(|tls| tls.required && origin.transport != Transport::Tls && !open)
    }

    /// Draws the planned faults of a procedure, or of an operation of a compound, before it is
    /// executed; returns the status to answer with instead, if one strikes.
    pub(crate) fn planned_error(&mut self, called: FaultedCalls, part: CallPart) -> Option<Status> {
        let status = self.faults.as_mut()?.draw_error(&self.shared.faults, called, part)?;
        self.counters.fault(FaultKind::Error);
        Some(status)
    }

    /// Maximum number of bytes that a READ may return: the RFCs allow fewer than requested.
    pub(crate) fn granted_read(&mut self, count: u32) -> u32 {
        let granted = count.min(self.granted.read_bytes_max);
        if let Some(faults) = &mut self.faults
            && granted > 1
            && faults.draw_strike(self.shared.faults.short_read)
        {
            self.counters.fault(FaultKind::ShortRead);
            return granted / 2;
        }
        granted
    }

    /// Holds the reply of a READ or WRITE of the slow file.
    pub(crate) fn hold_slow_file(&mut self, id: InodeId) {
        if let Some(faults) = &mut self.faults
            && let Some(time_ns) = self.shared.fs.slow_file_ns(id)
        {
            faults.hold(time_ns);
        }
    }

    /// Writes to a file, never more than is granted: the RFCs allow short writes. A planned restart
    /// may lose unstable data until it is committed.
    pub(crate) fn write_data(
        &mut self,
        id: InodeId,
        offset: u64,
        data: &[u8],
        stable: StableHow,
        context: &Context,
    ) -> Result<WriteOutcome, FsError> {
        self.hold_slow_file(id);
        if self.shared.change_verifier(ChangingVerifier::EveryWrite) {
            self.counters.fault(FaultKind::NewVerifier);
        }
        // Read the verifier before storing the data. If a restart loses the data after that, the
        // client sees the old verifier here and the new one in its COMMIT, and writes again. In the
        // other order it would believe that lost data is safe (RFC 1813 section 3.3.7).
        let verifier = self.shared.verifier();
        let apart = match self.received.take() {
            Some(payload) if self.can_keep(&payload, stable) => {
                return self.write_in_place(id, *payload, verifier, context);
            }
            Some(payload) => payload.to_vec(),
            None => Vec::new(),
        };
        let data = if apart.is_empty() { data } else { &apart };
        let mut data = &data[..data.len().min(self.granted.write_bytes_max as usize)];
        if let Some(faults) = &mut self.faults
            && data.len() > 1
            && faults.draw_strike(self.shared.faults.short_write)
        {
            data = &data[..data.len() / 2];
            self.counters.fault(FaultKind::ShortWrite);
        }
        let unstable = stable == StableHow::Unstable;
        // Undo data costs memory, so it is kept only if a planned restart will need it.
        if let Some(faults) = &mut self.faults
            && self.shared.faults.lose_write.0 > 0
            && offset.saturating_add(data.len() as u64) <= self.shared.fs.attributes(id)?.size
            && faults.draw_strike(self.shared.faults.lose_write)
        {
            self.counters.fault(FaultKind::LostWrite);
            let (change, _) = self.shared.fs.write(id, offset, &[], context)?;
            self.counters.payload_written_bytes.add(data.len() as u64);
            return Ok(WriteOutcome { change, count: data.len() as u32, verifier });
        }
        let elsewhere = self.write_to_data_servers(id, offset, data, context)?;
        let Shared { fs, faults, .. } = &*self.shared;
        let (change, count) = if let Some(written) = elsewhere {
            written
        } else if faults.lose_last_writes > 0 {
            fs.write_revocable(id, offset, data, context, faults.lose_last_writes as usize)?
        } else if faults.lose_committed || (unstable && faults.lose_unstable) {
            let written = fs.write_unstable(id, offset, data, context)?;
            if !unstable {
                fs.claim_stable(id)?;
            }
            written
        } else {
            fs.write(id, offset, data, context)?
        };
        self.counters.payload_written_bytes.add(count as u64);
        Ok(WriteOutcome { change, count: count as u32, verifier })
    }

    /// Whether nothing is planned or configured for a WRITE that needs its data in one piece.
    fn can_keep(&self, payload: &Payload, stable: StableHow) -> bool {
        let Shared { faults, pnfs, .. } = &*self.shared;
        let loses = faults.lose_last_writes > 0
            || faults.lose_committed
            || stable == StableHow::Unstable && faults.lose_unstable;
        let is_plain = self.faults.is_none() && pnfs.is_none() && !loses;
        is_plain && payload.len_bytes() <= self.granted.write_bytes_max as usize
    }

    /// Writes a payload whose buffers become blocks of the file.
    fn write_in_place(
        &self,
        id: InodeId,
        payload: Payload,
        verifier: Verifier,
        context: &Context,
    ) -> Result<WriteOutcome, FsError> {
        let (change, count) = self.shared.fs.write_payload(id, payload, context)?;
        self.counters.payload_written_bytes.add(count as u64);
        self.counters.payload_in_place_bytes.add(count as u64);
        Ok(WriteOutcome { change, count: count as u32, verifier })
    }

    /// Returns the stability that a WRITE reply claims.
    pub(crate) fn claimed_stability(&self, requested: StableHow) -> StableHow {
        self.shared.faults.write_stability.unwrap_or(requested)
    }

    /// Makes unstably written data safe from a planned restart, and returns the verifier.
    pub(crate) fn commit_data(&self, id: InodeId) -> Result<Verifier, FsError> {
        // The verifier tells the client whether the server lost unstable data since its WRITEs. A
        // planned change makes it send them again, as after a crash (RFC 1813 section 3.3.21).
        if self.shared.change_verifier(ChangingVerifier::EveryCommit) {
            self.counters.fault(FaultKind::NewVerifier);
        }
        // Read before committing, as for a write: if a restart comes in between, the client writes
        // again.
        let verifier = self.shared.verifier();
        let Shared { fs, faults, .. } = &*self.shared;
        let is_regular = fs.attributes(id)?.kind == FileKind::Regular;
        if faults.lose_committed && is_regular {
            fs.claim_stable(id)?;
        } else if faults.lose_unstable && is_regular {
            fs.commit(id)?;
        }
        Ok(verifier)
    }
}

/// Returns the caller; `None` for an unsupported flavor.
fn caller_of(credential: &Credential<'_>, permissions: Permissions) -> Option<Caller> {
    match credential {
        Credential::Sys(sys) => Some(Caller::new(sys.uid, sys.gid, sys.groups, permissions)),
        Credential::None => {
            Some(Caller::new(ANONYMOUS_ID, ANONYMOUS_ID, Groups::default(), permissions))
        }
        Credential::Other { .. } => None,
    }
}
