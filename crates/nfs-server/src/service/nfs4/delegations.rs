//! Delegations on the wire: grants in OPEN, DELEGRETURN, and the replies to recalls.
//!
//! Only read delegations are granted, and only to clients of v4.1 and later: v4.0 would need a
//! connection from the server to the client.
//!
//! **Source:** RFC 8881 sections 10.4, 18.6, 18.16 and 20.2.

use nfs_proto::DecodeError;
use nfs_proto::Status;
use nfs_proto::nfs4::{
    Ace, CallbackOk, CallbackResult, Claim, DELEGATE_READ, Delegation, NoDelegation, OpOk, Stateid,
    decode_callback_reply, share,
};
use nfs_proto::rpc::ReplyHeader;
use nfs_proto::xdr::Reader;

use super::state::{READ, RecallReply, Share};
use super::{Outcome, Run};
use crate::config::Delegations;
use crate::fs::InodeId;
use crate::origin::Origin;
use crate::service::Service;

/// The share of opens that a delegation may be granted with.
const READS_ONLY: Share = Share { access: READ, deny: 0 };

/// Users who may open without contacting the server: none, so that clients ask with ACCESS, as with
/// the Linux server.
const NO_PERMISSIONS: Ace<'static> = Ace { ace_type: 0, flags: 0, access: 0, who: b"" };

/// The share, wanted delegation and claim of an OPEN, which decide whether it gets a delegation.
#[derive(Clone, Copy, Debug)]
pub(super) struct DelegationRequest<'a> {
    pub(super) share: Share,
    /// Its share bits beyond access.
    pub(super) want: u32,
    pub(super) claim: Claim<'a>,
}

impl Service {
    /// Delegates a file that was just opened, or returns the reason for not doing so.
    pub(super) fn delegate(
        &self,
        file: InodeId,
        wanted: DelegationRequest<'_>,
        run: &Run<'_>,
    ) -> Delegation<'static> {
        let mut want = wanted.want & share::WANT_MASK;
        if want == share::WANT_NO_DELEGATION && self.shared.delegations == Delegations::Unasked {
            want = 0;
        }
        let Some(session) = run.session else { return Delegation::None };
        let is_fit = match wanted.claim {
            Claim::Name(_) | Claim::Current => {
                let kinds = [0, share::WANT_READ_DELEGATION, share::WANT_ANY_DELEGATION];
                wanted.share == READS_ONLY && kinds.contains(&want)
            }
            Claim::Previous(kind) => kind == DELEGATE_READ,
            _ => false,
        };
        if want == share::WANT_NO_DELEGATION {
            return Delegation::NoneExt(NoDelegation::NotWanted, false);
        }
        let mut reason = NoDelegation::Resource;
        if is_fit
            && self.shared.delegations != Delegations::Off
            && let Ok(pin) = self.shared.fs.pin(file)
        {
            let handle = self.handle_of(file);
            match self.tables().grant_delegation(session, pin, handle, run.now_ns) {
                Ok(stateid) => {
                    return Delegation::Read {
                        stateid,
                        recall: false,
                        permissions: NO_PERMISSIONS,
                    };
                }
                Err(why) => reason = why,
            }
        }
        // The reason is for clients that mentioned delegations: older ones don't know it.
        if want == 0 { Delegation::None } else { Delegation::NoneExt(reason, false) }
    }

    pub(super) fn op_delegreturn(&mut self, stateid: Stateid, run: &mut Run<'_>) -> Outcome {
        let file = run.current()?;
        let stateid = run.resolve_stateid(stateid)?;
        let requester = run.requester();
        let now_ns = run.now_ns;
        let state = self.tables().find_delegation(&stateid, requester, file, now_ns)?;
        self.tables().return_delegation(&state)?;
        run.succeed(&OpOk::Delegreturn)
    }

    /// Makes other clients return their delegations of a file before it changes.
    ///
    /// # Errors
    /// `Jukebox` until they have.
    pub(super) fn recall_for(&self, file: InodeId, run: &Run<'_>) -> Result<(), Status> {
        if !self.tables().has_delegations() {
            return Ok(());
        }
        let client = run.session.map(|session| &session.client);
        self.tables().recall_from_others(file, client, run.now_ns)
    }

    /// Makes other clients return their layouts of a file before its size is set.
    ///
    /// # Errors
    /// `Jukebox` until they have.
    pub(super) fn recall_layouts_for(&self, file: InodeId, run: &Run<'_>) -> Result<(), Status> {
        let client = run.session.map(|session| &session.client);
        self.tables().recall_layouts_of_others(file, client, run.now_ns)
    }

    /// Makes other clients return their delegations of the object behind a name, before the name or
    /// the number of links changes.
    ///
    /// # Errors
    /// `Jukebox` until they have.
    pub(super) fn recall_for_name(
        &self,
        directory: InodeId,
        name: &[u8],
        run: &Run<'_>,
    ) -> Result<(), Status> {
        if !self.tables().has_delegations() {
            return Ok(());
        }
        // If the name is not found, or may not be, the operation itself reports it.
        match self.shared.fs.lookup(directory, name, &run.context.caller) {
            Ok(found) => self.recall_for(found.id, run),
            Err(_) => Ok(()),
        }
    }

    /// Handles the reply to a callback; returns false if there was no such call.
    pub(crate) fn note_callback_reply(&self, origin: &Origin, reply: &[u8]) -> bool {
        let mut reader = Reader::new(reply);
        let (Some(line), Ok(header)) = (&origin.line, ReplyHeader::decode(&mut reader)) else {
            return false;
        };
        let Some(session) = line.end_call(header.xid) else { return false };
        let outcome = match header.result {
            Ok(()) => decode_recall_reply(&mut reader).unwrap_or(RecallReply::NotTaken),
            Err(_) => RecallReply::NotTaken,
        };
        self.tables().note_callback_reply(session, outcome);
        true
    }
}

/// Decodes the results of CB_SEQUENCE and of the operation behind it.
fn decode_recall_reply(reader: &mut Reader<'_>) -> Result<RecallReply, DecodeError> {
    let (status, count) = decode_callback_reply(reader)?;
    if count == 0 {
        return Ok(RecallReply::NotTaken);
    }
    Ok(match CallbackResult::decode(reader)? {
        CallbackResult::Ok(CallbackOk::Sequence { .. }) if status == Status::Ok => {
            RecallReply::Confirmed
        }
        // If the client executed the call before its connection was lost, the reply is no longer
        // available.
        CallbackResult::Ok(CallbackOk::Sequence { .. }) if status == Status::NoMatchingLayout => {
            RecallReply::Nothing
        }
        CallbackResult::Ok(CallbackOk::Sequence { .. })
        | CallbackResult::Failed(_, Status::RetryUncachedRep) => RecallReply::Failed,
        _ => RecallReply::NotTaken,
    })
}
