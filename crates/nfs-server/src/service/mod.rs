//! From a decoded request to an encoded reply.
//!
//! A [`Service`] belongs to one thread: it holds that thread's scratch space and counters, and
//! shares everything else. Nothing here knows sockets; the reply goes into an [`Outbox`], READ
//! payload as pieces of the store. Another version of NFS becomes a module beside `nfs3`.

mod convert;
mod listing;
mod mount;
mod names;
mod nfs3;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use nfs_proto::RpcError;
use nfs_proto::nfs3::{Procedure, Reply, Status, Verifier};
use nfs_proto::program;
use nfs_proto::rpc::{AUTH_TOO_WEAK, Credential};
use nfs_proto::server::{Request, encode_nfs3_reply, encode_refusal};

use crate::counters::ThreadCounters;
use crate::fault::FaultPlan;
use crate::fs::{Caller, Context, FileSystem, FileTime, Piece};
use crate::outbox::Outbox;

/// Owner of what a caller without a name makes. **Source:** `nobody` of Linux.
const NOBODY: u32 = 65_534;

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) fs: FileSystem,
    pub(crate) exports: Vec<String>,
    /// Granted sizes in bytes: READ, WRITE, READDIR.
    pub(crate) read_bytes_max: u32,
    pub(crate) write_bytes_max: u32,
    pub(crate) directory_bytes_preferred: u32,
    /// Longest call taken: a WRITE of the configured size, though a fault may grant less.
    pub(crate) record_bytes_max: usize,
    pub(crate) faults: FaultPlan,
    pub(crate) clock: fn() -> FileTime,
    /// Port of NFS and MOUNT, and that of the portmapper where it has one.
    pub(crate) port: u16,
    pub(crate) portmap_port: Option<u16>,
    /// Host and path of each MNT not taken back.
    pub(crate) mounts: Mutex<BTreeSet<(String, String)>>,
}

impl Shared {
    /// Tells clients when the server may have lost their unstable writes: changes at each start.
    pub(crate) fn verifier(&self) -> Verifier {
        Verifier(self.fs.boot_id().to_be_bytes())
    }
}

/// One thread's way of answering; see the module.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Arc<ThreadCounters>,
    /// Time of the calls at hand: read once for each turn of the event loop.
    pub(crate) now: FileTime,
    pieces: Vec<Piece>,
    page: Vec<u8>,
}

impl Service {
    pub(crate) fn new(shared: Arc<Shared>, counters: Arc<ThreadCounters>) -> Self {
        let now = (shared.clock)();
        Self { shared, counters, now, pieces: Vec::new(), page: Vec::new() }
    }

    /// Carries a request out and puts its reply into `out`. A request that the session refused is
    /// answered already and only counted.
    pub(crate) fn answer(&mut self, request: &Request<'_>, peer: IpAddr, out: &mut Outbox) {
        let xid = request.xid;
        let Ok(call) = &request.body else {
            return self.counters.refused_calls.add(1);
        };
        let Some(caller) = caller(&request.credential) else {
            self.counters.refused_calls.add(1);
            encode_refusal(out.head(), xid, RpcError::Authentication(AUTH_TOO_WEAK));
            return out.seal();
        };
        match call {
            program::Call::Nfs3(call) => {
                self.counters.call(call.procedure());
                let context = Context { caller, now: self.now };
                self.answer_nfs3(call, context, xid, out);
            }
            program::Call::Mount3(call) => self.answer_mount(*call, peer, xid, out),
            program::Call::Portmap(call) => self.answer_portmap(*call, xid, out),
            program::Call::Nfs2(_)
            | program::Call::Mount1(_)
            | program::Call::Rpcbind3(_)
            | program::Call::Rpcbind4(_) => {
                self.counters.refused_calls.add(1);
                encode_refusal(out.head(), xid, RpcError::ProgramUnavailable);
            }
        }
        out.seal();
    }

    /// Answers a call of NFS v3 with an error, doing nothing.
    pub(crate) fn fail(&self, xid: u32, procedure: Procedure, status: Status, out: &mut Outbox) {
        self.counters.call(procedure);
        self.counters.error(status);
        encode_nfs3_reply(out.head(), xid, &Reply::failure(procedure, status));
        out.seal();
    }
}

/// Who calls; `None` for a flavor that is not understood.
fn caller(credential: &Credential<'_>) -> Option<Caller> {
    match credential {
        Credential::Sys(sys) => Some(Caller { uid: sys.uid, gid: sys.gid }),
        Credential::None => Some(Caller { uid: NOBODY, gid: NOBODY }),
        Credential::Other { .. } => None,
    }
}
