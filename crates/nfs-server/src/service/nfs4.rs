//! NFS v4.0, 4.1 and 4.2: compounds executed on the one file system.
//!
//! `compound` walks through the operations of a call and `answer` writes the reply; the other
//! modules are the operations by kind, and `state` is what the server remembers about its clients.
//! The root of the file system is the pseudo root: exports are reached from it by LOOKUP. Clients
//! of v4.1 and later get read delegations and, from a metadata server, layouts; callbacks recall
//! them, and report the ends of copies.
//!
//! **Source:** RFC 7530 (v4.0), RFC 8881 (v4.1), RFC 7862 and 8276 (v4.2).

mod answer;
mod attributes;
mod clients;
mod compound;
mod copies;
mod data;
mod delegations;
mod layouts;
mod listing;
mod locks;
mod names;
mod numbered_calls;
mod objects;
mod opens;
mod sessions;
mod sparse;
mod state;
mod xattrs;

use std::net::IpAddr;

use nfs_proto::Status;
use nfs_proto::nfs4::{OpOk, Stateid};

pub(crate) use self::state::{BackgroundCopy, Tables};

use self::answer::{CompoundAnswer, Failure};
use self::state::{Principal, Requester, Session};
use crate::callback_line::CallbackLine;
use crate::fs::{Context, InodeId};

/// The state that the operations of a compound pass on to each other.
#[derive(Debug)]
pub(super) struct Run<'s> {
    minor: u32,
    context: Context,
    /// The callback line to the client.
    line: Option<&'s std::sync::Arc<CallbackLine>>,
    /// Our address on the connection of the call.
    local_ip: Option<IpAddr>,
    now_ns: u64,
    /// The reply written so far.
    answer: CompoundAnswer<'s>,
    /// The session that SEQUENCE named, from v4.1 on.
    session: Option<&'s std::sync::Arc<Session>>,
    current: Option<InodeId>,
    saved: Option<InodeId>,
    /// The current and the saved stateid, from v4.1 on.
    stateid: Option<Stateid>,
    saved_stateid: Option<Stateid>,
    /// A planned error for an operation with a sequence number, which still has to be counted.
    planned: Option<Status>,
    /// Number of operations after the current one.
    left: u32,
}

/// The outcome of an operation; on success its result has been written.
type Outcome = Result<(), Failure>;

impl<'s> Run<'s> {
    /// The current object.
    ///
    /// # Errors
    /// `NoFileHandle`.
    fn current(&self) -> Result<InodeId, Status> {
        self.current.ok_or(Status::NoFileHandle)
    }

    /// The saved object.
    ///
    /// # Errors
    /// `NoFileHandle`.
    fn saved(&self) -> Result<InodeId, Status> {
        self.saved.ok_or(Status::NoFileHandle)
    }

    /// Makes an object the current one.
    fn set_current(&mut self, id: InodeId) {
        self.current = Some(id);
        self.stateid = None;
    }

    /// Writes a success.
    #[allow(clippy::unnecessary_wraps)] // The outcome of the operation that it ends.
    fn succeed(&mut self, ok: &OpOk<'_>) -> Outcome {
        self.answer.write_ok(ok);
        Ok(())
    }

    fn put_handle(&mut self, id: InodeId, ok: &OpOk<'_>) -> Outcome {
        self.set_current(id);
        self.succeed(ok)
    }

    /// Saves the current handle and, from v4.1 on, the current stateid with it.
    fn save_handle(&mut self) -> Outcome {
        self.saved = Some(self.current()?);
        self.saved_stateid = self.stateid;
        self.succeed(&OpOk::Savefh)
    }

    fn restore_handle(&mut self) -> Outcome {
        self.set_current(self.saved.ok_or(Status::RestoreFh)?);
        self.stateid = self.saved_stateid;
        self.succeed(&OpOk::Restorefh)
    }

    /// Returns the caller.
    fn principal(&self) -> Principal {
        self.context.caller.uid
    }

    /// Returns the sender of stateids.
    fn requester(&self) -> Requester<'s> {
        let Some(session) = self.session else { return Requester::WithoutSession };
        Requester::Session(&session.client)
    }

    /// Resolves a stateid in a request: from v4.1 on, one special value means the current one.
    ///
    /// # Errors
    /// `BadStateid` if there is no current one, and for the special value that is always invalid.
    fn resolve_stateid(&self, stateid: Stateid) -> Result<Stateid, Status> {
        match stateid {
            Stateid::CURRENT if self.minor > 0 => self.stateid.ok_or(Status::BadStateid),
            Stateid::INVALID => Err(Status::BadStateid),
            other => Ok(other),
        }
    }
}
