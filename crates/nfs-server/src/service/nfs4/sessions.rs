//! Clients of v4.1 and later, and their sessions.
//!
//! A backchannel is granted where one is asked for and never used: no delegation, layout or
//! notification is given that would need one. State protection other than none is refused.
//!
//! **Source:** RFC 8881 sections 18.33 to 18.37, 18.50 and 18.51.

use nfs_proto::Status;
use nfs_proto::nfs4::{
    ChannelAttributes, ClientId, ClientOwner, Implementation, OpOk, SessionId, StateProtection,
    StateProtectionReply, Time, create_session, direction, exchange,
};

use super::state::{Channel, CreatedSession, Identity, SessionAsk};
use super::{Outcome, Run};
use crate::limits::{
    NFS4_KEPT_REPLY_BYTES_MAX, NFS4_OPERATIONS_MAX, NFS4_OWNER_BYTES_MAX, NFS4_REPLY_BYTES_MAX,
    NFS4_SESSION_BYTES_MIN, NFS4_SESSION_SLOTS_MAX,
};
use crate::service::Service;

/// Flags that a client may set in EXCHANGE_ID. **Source:** RFC 8881 section 18.35.3.
const EXCHANGE_FLAGS: u32 = exchange::SUPPORTS_MOVED_REFERRAL
    | exchange::SUPPORTS_MOVED_MIGRATION
    | exchange::BIND_PRINCIPAL_STATEID
    | exchange::ROLE_MASK
    | exchange::UPDATE_CONFIRMED;
/// Flags that a client may set in CREATE_SESSION.
const SESSION_FLAGS: u32 = create_session::PERSISTENT
    | create_session::CONNECTION_BACKCHANNEL
    | create_session::CONNECTION_RDMA;

/// Slots and operations granted on a backchannel that is never used.
const BACK_SLOTS_MAX: u32 = 1;

impl Service {
    pub(super) fn destroy_session(
        &mut self,
        SessionId(id): SessionId,
        run: &mut Run<'_>,
    ) -> Outcome {
        let own = run.session.is_some_and(|session| session.id() == id);
        if own && run.left > 0 {
            return Err(Status::NotOnlyOp.into());
        }
        self.tables().destroy_session(id, run.now_ns)?;
        run.succeed(&OpOk::DestroySession)
    }

    pub(super) fn bind_connection(
        &mut self,
        session: SessionId,
        asked: u32,
        run: &mut Run<'_>,
    ) -> Outcome {
        if run.session.is_some() {
            return Err(Status::NotOnlyOp.into());
        }
        self.tables().session(session.0, run.now_ns)?;
        let direction = match asked {
            direction::FORE => direction::FORE,
            direction::BACK => direction::BACK,
            direction::FORE_OR_BOTH | direction::BACK_OR_BOTH => direction::BOTH,
            _ => return Err(Status::Inval.into()),
        };
        run.succeed(&OpOk::BindConnToSession { session, direction, rdma: false })
    }

    pub(super) fn destroy_client_id(
        &mut self,
        ClientId(id): ClientId,
        run: &mut Run<'_>,
    ) -> Outcome {
        self.tables().destroy_client(id, run.now_ns)?;
        run.succeed(&OpOk::DestroyClientid)
    }

    pub(super) fn reclaim_complete(&mut self, one_fs: bool, run: &mut Run<'_>) -> Outcome {
        if one_fs {
            run.current()?;
        } else if let Some(session) = run.session {
            self.tables().reclaim_complete(&session.client)?;
        }
        run.succeed(&OpOk::ReclaimComplete)
    }

    pub(super) fn exchange_id(
        &mut self,
        owner: &ClientOwner<'_>,
        flags: u32,
        protection: StateProtection,
        run: &mut Run<'_>,
    ) -> Outcome {
        if owner.id.len() > NFS4_OWNER_BYTES_MAX {
            return Err(Status::BadXdr.into());
        }
        if flags & !EXCHANGE_FLAGS != 0 {
            return Err(Status::Inval.into());
        }
        match protection {
            StateProtection::None => {}
            StateProtection::MachineCredential(_) => return Err(Status::Inval.into()),
            StateProtection::Secret(_) => return Err(Status::EncrAlgUnsupp.into()),
        }
        let principal = run.principal();
        let identity = Identity { owner: owner.id, verifier: owner.verifier.0, principal };
        let update = flags & exchange::UPDATE_CONFIRMED != 0;
        let made = self.tables().exchange_id(identity, update, run.now_ns)?;
        let confirmed = if made.confirmed { exchange::CONFIRMED } else { 0 };
        let name = self.shared.fs.boot_id().to_be_bytes();
        let date = Time { seconds: 0, nanos: 0 };
        run.succeed(&OpOk::ExchangeId {
            client: ClientId(made.id),
            sequence: made.sequence,
            flags: exchange::USE_NON_PNFS | confirmed,
            protection: StateProtectionReply::None,
            server_minor_id: 0,
            server_major_id: &name,
            scope: &name,
            implementation: Some(Implementation {
                domain: b"dfsbench",
                name: concat!("dfsbench ", env!("CARGO_PKG_VERSION")).as_bytes(),
                date,
            }),
        })
    }

    pub(super) fn create_session(
        &mut self,
        ClientId(client): ClientId,
        sequence: u32,
        flags: u32,
        fore: &ChannelAttributes,
        back: &ChannelAttributes,
        run: &mut Run<'_>,
    ) -> Outcome {
        let ask = SessionAsk {
            client,
            sequence,
            principal: run.principal(),
            // The reply cache does not outlive the server, and there is no RDMA.
            flags: flags & create_session::CONNECTION_BACKCHANNEL,
            fore: self.fore_channel(fore),
            back: back_channel(back),
        };
        let check = || {
            if flags & !SESSION_FLAGS != 0 {
                return Err(Status::Inval);
            }
            let sizes = [fore, back].map(|it| it.request_bytes_max.min(it.response_bytes_max));
            let too_small = sizes.iter().any(|size| *size < NFS4_SESSION_BYTES_MIN);
            if too_small || fore.requests_max == 0 || fore.operations_max == 0 {
                return Err(Status::TooSmall);
            }
            Ok(())
        };
        let created = self.tables().create_session(&ask, check, run.now_ns)?;
        let CreatedSession { id, sequence, flags, fore, back } = created;
        let (fore, back) = (on_wire(&fore), on_wire(&back));
        run.succeed(&OpOk::CreateSession { session: SessionId(id), sequence, flags, fore, back })
    }

    /// Returns the limits that are granted of those that a client asks for its calls.
    fn fore_channel(&self, asked: &ChannelAttributes) -> Channel {
        let planned = self.shared.faults.session_slots_max.unwrap_or(NFS4_SESSION_SLOTS_MAX);
        let slots_max = planned.clamp(1, NFS4_SESSION_SLOTS_MAX);
        Channel {
            request_bytes_max: asked.request_bytes_max.min(self.shared.record_bytes_max as u32),
            reply_bytes_max: asked.response_bytes_max.min(NFS4_REPLY_BYTES_MAX as u32),
            kept_bytes_max: asked.cached_bytes_max.min(NFS4_KEPT_REPLY_BYTES_MAX),
            operations_max: asked.operations_max.min(NFS4_OPERATIONS_MAX),
            slots: asked.requests_max.min(slots_max),
        }
    }
}

fn back_channel(asked: &ChannelAttributes) -> Channel {
    Channel {
        request_bytes_max: asked.request_bytes_max,
        reply_bytes_max: asked.response_bytes_max,
        kept_bytes_max: asked.cached_bytes_max,
        operations_max: asked.operations_max,
        slots: asked.requests_max.min(BACK_SLOTS_MAX),
    }
}

fn on_wire(channel: &Channel) -> ChannelAttributes {
    ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: channel.request_bytes_max,
        response_bytes_max: channel.reply_bytes_max,
        cached_bytes_max: channel.kept_bytes_max,
        operations_max: channel.operations_max,
        requests_max: channel.slots,
        rdma_ird: None,
    }
}
