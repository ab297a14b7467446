//! Clients of v4.1 and later, and their sessions.
//!
//! A backchannel is granted if requested, over each connection bound to it; it recalls delegations
//! and layouts, one at a time. Any state protection other than none is refused.
//!
//! **Source:** RFC 8881 sections 18.33 to 18.37, 18.50 and 18.51.

use nfs_proto::Status;
use nfs_proto::nfs4::{
    CallbackSecurity, ChannelAttributes, ClientId, ClientOwner, Implementation, List, OpOk,
    SessionId, StateProtection, StateProtectionReply, Time, create_session, direction, exchange,
};

use super::state::{CallbackCaller, CreatedSession, ExchangeKind, Identity, SessionRequest};
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

/// Slots granted on a backchannel: one recall is in flight at a time.
const BACK_SLOTS_MAX: u32 = 1;

/// The limits of both directions of a session, as a client requests them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channels {
    pub(super) fore: ChannelAttributes,
    pub(super) back: ChannelAttributes,
}

/// The sequence of a CREATE_SESSION and its flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionCreation {
    pub(super) sequence: u32,
    pub(super) flags: u32,
}

impl Service {
    /// Sets a new program and new credentials for callbacks.
    pub(super) fn op_backchannel_ctl(
        program: u32,
        security: &List<'_, CallbackSecurity<'_>>,
        run: &mut Run<'_>,
    ) -> Outcome {
        if let Some(session) = run.session {
            let caller = CallbackCaller::new(program, run.minor, security);
            session.backchannel.set_caller(caller);
        }
        run.succeed(&OpOk::BackchannelCtl)
    }

    pub(super) fn op_destroy_session(
        &mut self,
        SessionId(id): SessionId,
        run: &mut Run<'_>,
    ) -> Outcome {
        // The reply to a compound is cached in its session, so a session may only destroy itself in
        // the last operation (RFC 8881 section 18.37.3).
        if let Some(session) = run.session
            && session.id() == id
            && run.left > 0
        {
            return Err(Status::NotOnlyOp.into());
        }
        self.tables().destroy_session(id, run.now_ns)?;
        run.succeed(&OpOk::DestroySession)
    }

    pub(super) fn op_bind_conn_to_session(
        &mut self,
        session: SessionId,
        requested: u32,
        run: &mut Run<'_>,
    ) -> Outcome {
        if run.session.is_some() {
            return Err(Status::NotOnlyOp.into());
        }
        let found = self.tables().find_session(session.0, run.now_ns)?;
        let direction = match requested {
            direction::FORE => direction::FORE,
            direction::BACK => direction::BACK,
            direction::FORE_OR_BOTH | direction::BACK_OR_BOTH => direction::BOTH,
            _ => return Err(Status::Inval.into()),
        };
        if direction != direction::FORE {
            found.bind_backchannel(run.line);
        }
        run.succeed(&OpOk::BindConnToSession { session, direction, rdma: false })
    }

    pub(super) fn op_destroy_clientid(
        &mut self,
        ClientId(id): ClientId,
        run: &mut Run<'_>,
    ) -> Outcome {
        self.tables().destroy_client(id, run.now_ns)?;
        run.succeed(&OpOk::DestroyClientid)
    }

    pub(super) fn op_reclaim_complete(&mut self, run: &mut Run<'_>) -> Outcome {
        if let Some(session) = run.session {
            self.tables().reclaim_complete(&session.client)?;
        }
        run.succeed(&OpOk::ReclaimComplete)
    }

    pub(super) fn op_exchange_id(
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
        let kind = match flags & exchange::UPDATE_CONFIRMED {
            0 => ExchangeKind::Introduce,
            _ => ExchangeKind::Update,
        };
        let made = self.tables().exchange_id(identity, kind, run.now_ns)?;
        let confirmed = if made.confirmed { exchange::CONFIRMED } else { 0 };
        // The owner and scope tell a client whether two addresses are the same server. Both change
        // with the store, so that no state is carried over to a server that lost it (RFC 8881
        // sections 2.10.4 and 2.10.5).
        let name = self.shared.fs.boot_id().to_be_bytes();
        let date = Time { seconds: 0, nanos: 0 };
        run.succeed(&OpOk::ExchangeId {
            client: ClientId(made.id),
            sequence: made.sequence,
            flags: self.pnfs_role() | confirmed,
            protection: StateProtectionReply::None,
            server_minor_id: u64::from(self.shared.faults.minor_ids && made.confirmed),
            server_major_id: &name,
            scope: &name,
            implementation: Some(Implementation {
                domain: b"dfsbench",
                name: concat!("dfsbench ", env!("CARGO_PKG_VERSION")).as_bytes(),
                date,
            }),
        })
    }

    /// The role of this server in pNFS.
    fn pnfs_role(&self) -> u32 {
        match (&self.shared.pnfs, self.shared.is_data_server) {
            (Some(_), _) => exchange::USE_PNFS_MDS,
            (None, true) => exchange::USE_PNFS_DS | exchange::USE_NON_PNFS,
            (None, false) => exchange::USE_NON_PNFS,
        }
    }

    pub(super) fn op_create_session(
        &mut self,
        ClientId(client): ClientId,
        SessionCreation { sequence, flags }: SessionCreation,
        channels: Channels,
        caller: CallbackCaller,
        run: &mut Run<'_>,
    ) -> Outcome {
        let Channels { fore, back } = &channels;
        let request = SessionRequest {
            client,
            sequence,
            principal: run.principal(),
            // The reply cache does not outlive the server, and there is no RDMA.
            flags: flags & create_session::CONNECTION_BACKCHANNEL,
            fore: self.fore_channel(fore),
            back: back_channel(back),
        };
        // The arguments are checked after the sequence: a repeated call gets the first one's reply.
        let check = || check_session(flags, fore, back);
        let created = self.tables().create_session(&request, check, run.now_ns)?;
        let CreatedSession { id, sequence, flags, fore, back } = created;
        let session = self.tables().find_session(id, run.now_ns)?;
        session.backchannel.set_caller(caller);
        if flags & create_session::CONNECTION_BACKCHANNEL != 0 {
            session.bind_backchannel(run.line);
        }
        run.succeed(&OpOk::CreateSession { session: SessionId(id), sequence, flags, fore, back })
    }

    /// Returns the limits granted for the client's calls.
    fn fore_channel(&self, requested: &ChannelAttributes) -> ChannelAttributes {
        let planned = self.shared.faults.session_slots_max.unwrap_or(NFS4_SESSION_SLOTS_MAX);
        let slots_max = planned.clamp(1, NFS4_SESSION_SLOTS_MAX);
        ChannelAttributes {
            header_pad_bytes: 0,
            request_bytes_max: requested.request_bytes_max.min(self.shared.record_bytes_max as u32),
            response_bytes_max: requested.response_bytes_max.min(NFS4_REPLY_BYTES_MAX as u32),
            cached_bytes_max: requested.cached_bytes_max.min(NFS4_KEPT_REPLY_BYTES_MAX),
            operations_max: requested.operations_max.min(NFS4_OPERATIONS_MAX),
            requests_max: requested.requests_max.min(slots_max),
            rdma_ird: None,
        }
    }
}

/// Refuses a session whose limits would allow no useful call.
fn check_session(
    flags: u32,
    fore: &ChannelAttributes,
    back: &ChannelAttributes,
) -> Result<(), Status> {
    if flags & !SESSION_FLAGS != 0 {
        return Err(Status::Inval);
    }
    for channel in [fore, back] {
        if channel.request_bytes_max.min(channel.response_bytes_max) < NFS4_SESSION_BYTES_MIN {
            return Err(Status::TooSmall);
        }
    }
    if fore.requests_max == 0 || fore.operations_max == 0 {
        return Err(Status::TooSmall);
    }
    Ok(())
}

fn back_channel(requested: &ChannelAttributes) -> ChannelAttributes {
    let requests_max = requested.requests_max.min(BACK_SLOTS_MAX);
    ChannelAttributes { header_pad_bytes: 0, requests_max, rdma_ird: None, ..*requested }
}
