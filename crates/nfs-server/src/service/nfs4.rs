//! NFS v4.0, 4.1 and 4.2: compounds carried out on the one file system.
//!
//! `compound` walks through the operations of a call and `answer` writes the reply; the other
//! modules are the operations by kind, and `state` is what the server remembers of its clients.
//! The root of the file system is the pseudo root: exports are reached from it by LOOKUP. Clients
//! of v4.1 and later get delegations to read, and are called back for nothing else.
//!
//! **Source:** RFC 7530 (v4.0), RFC 8881 (v4.1), RFC 7862 and 8276 (v4.2).

mod answer;
mod attributes;
mod clients;
mod compound;
mod data;
mod delegations;
mod listing;
mod locks;
mod names;
mod numbered;
mod objects;
mod opens;
mod sessions;
mod sparse;
mod state;
mod xattrs;

use nfs_proto::Status;
use nfs_proto::nfs4::{OpOk, Stateid};

pub(crate) use self::state::Tables;

use self::answer::{Answer, Failure};
use self::state::{Principal, Requester, Session};
use crate::callback_line::CallbackLine;
use crate::fs::{Context, InodeId};

/// The state that the operations of one compound hand on to each other.
#[derive(Debug)]
pub(super) struct Run<'s> {
    minor: u32,
    context: Context,
    /// The way back to the caller.
    line: Option<&'s std::sync::Arc<CallbackLine>>,
    now_ns: u64,
    /// The reply, as far as it is written.
    answer: Answer<'s>,
    /// The session that SEQUENCE named, from v4.1 on.
    session: Option<&'s std::sync::Arc<Session>>,
    current: Option<InodeId>,
    saved: Option<InodeId>,
    /// The current and the saved stateid, from v4.1 on.
    stateid: Option<Stateid>,
    saved_stateid: Option<Stateid>,
    /// An error that was planned for an operation with a number, which has to count.
    planned: Option<Status>,
    /// Operations left after the one at hand.
    left: u32,
}

/// The outcome of an operation; a success has written its result.
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
        (self.saved, self.saved_stateid) = (Some(self.current()?), self.stateid);
        self.succeed(&OpOk::Savefh)
    }

    fn restore_handle(&mut self) -> Outcome {
        self.set_current(self.saved.ok_or(Status::RestoreFh)?);
        self.stateid = self.saved_stateid;
        self.succeed(&OpOk::Restorefh)
    }

    /// Returns who calls.
    fn principal(&self) -> Principal {
        self.context.caller.uid
    }

    /// Who sends stateids.
    fn requester(&self) -> Requester<'s> {
        let Some(session) = self.session else { return Requester::WithoutSession };
        Requester::Session(&session.client)
    }

    /// The stateid that a request means: from v4.1 on one of them stands for the current one.
    ///
    /// # Errors
    /// `BadStateid` where there is no current one, and for the one that is never valid.
    fn resolve_stateid(&self, stateid: Stateid) -> Result<Stateid, Status> {
        match stateid {
            Stateid::CURRENT if self.minor > 0 => self.stateid.ok_or(Status::BadStateid),
            Stateid::INVALID => Err(Status::BadStateid),
            other => Ok(other),
        }
    }
}
