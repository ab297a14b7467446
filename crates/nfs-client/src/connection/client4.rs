//! An NFS v4 client as its server sees it.
//!
//! [`Client4`] is registered once; each of its connections then joins: in v4.0 with an owner range
//! of its own, in v4.1 and later also with a share of the slots of the client's only session (see
//! `shared_session`). The server forgets a client whose lease is not renewed: any call on a
//! connection renews it, and an idle connection renews it by itself. Unmounting destroys session
//! and client. All of this blocks and is for setup, recovery and shutdown only. **Source:** RFC
//! 7530 section 9.1, RFC 8881 sections 2.4, 2.10 and 18.35 to 18.51.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use nfs_proto::client::{Binding, Event, ProtocolVersion, WantedDelegation, is_unbound};
use nfs_proto::limits::RECORD_OVERHEAD_BYTES;
use nfs_proto::nfs3::Verifier;
use nfs_proto::nfs4::{
    self, Bitmap, CallbackSecurity, ChannelAttributes, ClientId, ClientOwner, List, NetAddress, Op,
    OpCode, OpOk, SessionId, StateProtection, attribute, direction, exchange,
};
use nfs_proto::{CallError, DecodeError, Status};

use super::Control;
use super::copies::{CopyUser, SharedCopies};
use super::delegations::{DelegationCounters, DelegationUser, Delegations};
use super::shared_session::{GrantedLimits, SessionSize, SessionUser, SharedSession};
use crate::error::{CallFailure, Difference, NotTrunked};
use crate::options::{PnfsRole, TRANSFER_BYTES_DEFAULT};
use crate::trunking::{ServerOwner, Trunking};

/// The program number of our callbacks, from the range for private use.
///
/// **Source:** RFC 7530 section 18.36.3; Linux uses the same number.
const CALLBACK_PROGRAM: u32 = 0x4000_0000;
/// Largest message of a channel: a payload plus overhead.
const CHANNEL_BYTES: u32 = TRANSFER_BYTES_DEFAULT + RECORD_OVERHEAD_BYTES as u32;
/// Largest reply that the server is asked to cache.
const CACHED_BYTES: u32 = 4 * 1024;
/// Maximum number of operations in our compounds, with some margin.
const OPERATIONS: u32 = 16;
/// Owners reserved for each connection.
const OWNERS_PER_CONNECTION: u64 = 1 << 32;

/// A client's identity at its server.
#[derive(Debug)]
pub(crate) struct Client4 {
    version: ProtocolVersion,
    name: String,
    verifier: Verifier,
    size: SessionSize,
    delegations: Arc<Delegations>,
    /// `None` if no copy may be asynchronous.
    copies: Option<Arc<SharedCopies>>,
    /// Whether the server may recall layouts.
    holds_layouts: bool,
    record: Mutex<Record>,
}

/// The mutable state of a client.
#[derive(Debug)]
struct Record {
    client: ClientId,
    /// Sequence number of the next session.
    sequence: u32,
    /// Whether an earlier session sent RECLAIM_COMPLETE, so the server knows that nothing will be
    /// reclaimed.
    complete: bool,
    connections: u64,
    lease: Duration,
    /// The server, as it names itself.
    server: ServerOwner,
    /// Whether it is a pNFS data server.
    is_data_server: bool,
    /// The parts of the server that have sessions of their own, by the group of addresses.
    minors: Vec<u64>,
    /// The session shared by connections, of each of these groups.
    shared: Vec<Option<SharedSession>>,
    /// Sessions of connections for which the shared one had no slots left.
    own_sessions: Vec<OwnSession>,
    /// Other clients of the same mount, for connections with their own identities.
    others: Vec<Arc<Client4>>,
}

/// A session of one connection.
#[derive(Debug)]
struct OwnSession {
    session: SessionId,
    user: Weak<SessionUser>,
}

impl Client4 {
    /// Registers a new client; its delegations are counted together with the others.
    pub(crate) fn introduce(
        control: &mut Control,
        machine_name: &str,
        size: SessionSize,
        counters: Arc<DelegationCounters>,
    ) -> Result<Self, CallFailure> {
        // The name must differ between processes, and the verifier between runs of one: the server
        // discards all state of a name that comes with another verifier. RFC 8881 section 2.4.
        let random = RandomState::new().hash_one(std::process::id());
        let record = Record {
            client: ClientId::default(),
            sequence: 0,
            complete: false,
            connections: 0,
            lease: Duration::from_secs(90),
            server: ServerOwner::default(),
            is_data_server: false,
            minors: Vec::new(),
            shared: Vec::new(),
            own_sessions: Vec::new(),
            others: Vec::new(),
        };
        let wanted = if control.target().options.delegations {
            WantedDelegation::Read
        } else {
            WantedDelegation::Nothing
        };
        let wants_copies =
            control.target().options.async_copies && control.version() == ProtocolVersion::V4_2;
        let client = Self {
            copies: wants_copies.then(Arc::default),
            delegations: Arc::new(Delegations::new(wanted, counters)),
            holds_layouts: control.target().options.pnfs == PnfsRole::MetadataClient,
            version: control.version(),
            name: format!("{machine_name}/{}/{random:016x}", std::process::id()),
            verifier: Verifier(random.to_be_bytes()),
            size,
            record: Mutex::new(record),
        };
        client.register(control, &mut client.lock_record())?;
        Ok(client)
    }

    /// Registers the client with a server that does not know it (any more).
    fn register(&self, control: &mut Control, record: &mut Record) -> Result<(), CallFailure> {
        let owner = ClientOwner { verifier: self.verifier, id: self.name.as_bytes() };
        let (client, sequence) = if self.version.has_sessions() {
            let exchanged = exchange_id(control, owner)?;
            if record.minors.is_empty() {
                record.minors.push(exchanged.server.minor);
            }
            record.server = exchanged.server;
            record.is_data_server = exchanged.is_data_server;
            (exchanged.client, exchanged.sequence)
        } else {
            (set_client_id(control, owner)?, 0)
        };
        // EXCHANGE_ID returns the sequence number for this client's first CREATE_SESSION. A client
        // that is new to the server may reclaim until it sends RECLAIM_COMPLETE, so that has to be
        // sent again, too.
        record.client = client;
        record.sequence = sequence;
        record.complete = false;
        // A server that has forgotten the client has none of its sessions, and may reuse their ids.
        record.own_sessions.clear();
        record.shared.clear();
        self.delegations.clear();
        Ok(())
    }

    /// Makes a connection part of this client again, after it belonged to `former` and was refused
    /// in `session`. State that the server has forgotten is re-created once for all connections:
    /// they take turns here, and the first one still finds the session it had.
    pub(crate) fn join_again(
        &self,
        control: &mut Control,
        former: ClientId,
        session: SessionId,
    ) -> Result<(), CallFailure> {
        // The lock is held during the calls below: after a server restart all connections arrive
        // here at once, and only the first of them should create another client and session.
        let mut record = self.lock_record();
        let forgotten = if self.version.has_sessions() {
            // Drop only the session that refused this connection. Another connection may already
            // have created its successor, which we then join.
            for shared in &mut record.shared {
                if shared.as_ref().is_some_and(|shared| shared.id == session) {
                    *shared = None;
                }
            }
            // BADSESSION only means that the session is gone, not the client: an administrator can
            // destroy a session. Only CREATE_SESSION shows whether the client is still known; after
            // a restart the server returns STALE_CLIENTID.
            match self.join_as(control, &mut record) {
                Err(failure) if failure.status() == Some(Status::StaleClientId) => true,
                result => return result.map(drop),
            }
        } else {
            // In v4.0 the refusal itself means that the client id is stale. If the id has changed
            // since, another connection has registered the client again, and this one only joins.
            record.client == former
        };
        if forgotten {
            self.register(control, &mut record)?;
        }
        self.join_as(control, &mut record).map(drop)
    }

    /// Introduces the client at a further address of its server, and returns the group of addresses
    /// that it belongs to.
    ///
    /// **Source:** RFC 8881 sections 2.10.5 and 2.10.5.1.
    pub(crate) fn find_group(
        &self,
        control: &mut Control,
        first: SocketAddr,
    ) -> Result<Result<usize, NotTrunked>, CallFailure> {
        let owner = ClientOwner { verifier: self.verifier, id: self.name.as_bytes() };
        let found = exchange_id(control, owner)?;
        let mut record = self.lock_record();
        let server = control.server();
        let refused = |why| Ok(Err(NotTrunked { first, server, why }));
        match record.server.trunking_with(&found.server) {
            Trunking::Nothing => {
                let (of_first, of_other) = (record.server.to_string(), found.server.to_string());
                return refused(Difference::Owner { of_first, of_other });
            }
            Trunking::Session | Trunking::ClientId => {}
        }
        if found.client != record.client {
            return refused(Difference::Client { owner: found.server.to_string() });
        }
        let known = record.minors.iter().position(|minor| *minor == found.server.minor);
        let group = known.unwrap_or(record.minors.len());
        if known.is_none() {
            record.minors.push(found.server.minor);
        }
        // A server may claim to be another one: only the other one knows the session.
        if let Some(Some(shared)) = record.shared.get(group)
            && !bind_connection(control, shared.id, direction::FORE)?
        {
            return refused(Difference::Session { owner: found.server.to_string() });
        }
        Ok(Ok(group))
    }

    /// Returns true if the server says that it is a pNFS data server.
    pub(crate) fn is_at_data_server(&self) -> bool {
        self.lock_record().is_data_server
    }

    /// Makes a connection part of this client.
    pub(crate) fn join(&self, control: &mut Control) -> Result<GrantedLimits, CallFailure> {
        self.join_as(control, &mut self.lock_record())
    }

    fn join_as(
        &self,
        control: &mut Control,
        record: &mut Record,
    ) -> Result<GrantedLimits, CallFailure> {
        record.connections += 1;
        // The server merges opens of the same owner, and in v4.0 an owner's calls are serialized.
        // Each connection numbers its owners from its own base, so that they never coincide.
        let binding = Binding {
            client: record.client,
            owner_base: record.connections * OWNERS_PER_CONNECTION,
            slots: control.slots() as u32,
            ..Binding::default()
        };
        let mut granted = GrantedLimits { read_bytes: u32::MAX, write_bytes: u32::MAX };
        if self.version.has_sessions() {
            let number = record.connections;
            let user = DelegationUser::new(Arc::clone(&self.delegations), number);
            granted = self.join_session(control, record, binding)?;
            control.set_delegations(user);
            let copies = self.copies.clone().and_then(|shared| CopyUser::new(shared, number));
            control.set_copies(copies);
            if self.holds_layouts {
                control.session().hold_layouts();
            }
        } else {
            control.session().bind(&binding);
        }
        if self.version.has_sessions() && !record.complete {
            // The server grants nothing that might conflict with a reclaim until this client has
            // declared that it has none; without it OPEN would return GRACE. RFC 8881 section
            // 18.51.
            let complete = Op::ReclaimComplete { one_fs: false };
            let result =
                control.compound(&[complete], |event| check_result(event, OpCode::ReclaimComplete));
            match result {
                // The server already knew the client, which then need not send it again.
                Err(failure) if failure.status() == Some(Status::CompleteAlready) => {}
                // A data server need not support it: RFC 8881 section 13.6.
                Err(failure) if is_data_server(control) && failure.status().is_some() => {}
                result => result?,
            }
            record.complete = true;
        }
        match get_lease(control) {
            Ok(lease) => record.lease = lease,
            Err(failure) if is_data_server(control) && failure.status().is_some() => {}
            Err(failure) => return Err(failure),
        }
        Ok(granted)
    }

    /// Gives a connection its slots of the client's session, or its own session if there are none
    /// left.
    fn join_session(
        &self,
        control: &mut Control,
        record: &mut Record,
        mut binding: Binding,
    ) -> Result<GrantedLimits, CallFailure> {
        let group = control.target().group;
        let shared = match record.take_shared(group) {
            // The server may have forgotten it since, in a restart between two passes.
            Some(shared) if bind_connection(control, shared.id, self.direction())? => shared,
            _ => {
                let slots = self.size.slots.max(binding.slots);
                let (id, channel) = create_session(control, record, slots)?;
                SharedSession::new(id, &channel)
            }
        };
        let shared = record.shared[group].insert(shared);
        if let Some(slots) = shared.take_slots(binding.slots, self.size) {
            binding.session = shared.id;
            control.session().bind_share(&binding, &shared.share(&slots));
            control.set_session_user(Arc::new(shared.add_user()));
            return Ok(shared.granted);
        }
        let (session, channel) = create_session(control, record, binding.slots)?;
        binding.session = session;
        binding.slots = channel.requests_max;
        let user = Arc::new(SessionUser::of_own());
        record.own_sessions.push(OwnSession { session, user: Arc::downgrade(&user) });
        control.set_session_user(user);
        control.session().bind(&binding);
        Ok(GrantedLimits::from_channel(&channel))
    }

    pub(crate) fn delegations(&self) -> &Delegations {
        &self.delegations
    }

    /// Returns the directions in which calls may go over a connection; the server needs one to
    /// recall delegations and layouts, and to report the ends of copies.
    pub(super) fn direction(&self) -> u32 {
        match self.delegations.wanted() {
            WantedDelegation::Nothing if !self.holds_layouts && self.copies.is_none() => {
                direction::FORE
            }
            _ => direction::FORE_OR_BOTH,
        }
    }

    /// Returns the interval at which an idle connection renews the lease.
    pub(crate) fn renewal_interval(&self) -> Duration {
        // Two renewals may get lost before the lease does: RFC 7530 section 9.5 leaves the rate
        // open.
        self.lock_record().lease / 3
    }

    /// Adds a client that is destroyed together with this one, which is the mount's.
    pub(crate) fn add_other(&self, client: &Arc<Self>) {
        if self.version.has_sessions() {
            self.lock_record().others.push(Arc::clone(client));
        }
    }

    /// Destroys the sessions of closed connections, and the additional clients without any
    /// connection left. Servers limit both, so anything left behind by a pass would be missing in
    /// the next one.
    pub(crate) fn destroy_unused(&self, control: &mut Control) -> Result<(), CallFailure> {
        let mut record = self.lock_record();
        record.destroy_unused_sessions(control)?;
        let mut index = 0;
        while let Some(other) = record.others.get(index) {
            if other.destroy_if_unused(control)? {
                record.others.swap_remove(index);
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// Destroys the client if all its connections are closed, and returns whether it did.
    fn destroy_if_unused(&self, control: &mut Control) -> Result<bool, CallFailure> {
        let mut record = self.lock_record();
        if record.users() > 0 {
            return Ok(false);
        }
        record.destroy_all(control)?;
        Ok(true)
    }

    /// Destroys the client at the server. While connections are in use the server would refuse
    /// (CLIENTID_BUSY); it drops the client when its lease expires.
    pub(crate) fn leave(&self, control: &mut Control) -> Result<(), CallFailure> {
        if !self.version.has_sessions() {
            return Ok(());
        }
        self.destroy_unused(control)?;
        let mut record = self.lock_record();
        let own = control.session().session_id();
        let is_shared = record.shared.iter().flatten().any(|shared| shared.id == own);
        if record.users() > u32::from(is_shared) {
            return Ok(());
        }
        record.destroy_all(control)
    }

    fn lock_record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    /// Takes the session shared by the connections to a group of addresses.
    fn take_shared(&mut self, group: usize) -> Option<SharedSession> {
        if self.shared.len() <= group {
            self.shared.resize_with(group + 1, || None);
        }
        self.shared[group].take()
    }

    /// Returns the number of connections in sessions, including the mount's.
    fn users(&self) -> u32 {
        let mut users = self.shared.iter().flatten().map(SharedSession::users).sum::<u32>();
        users += self.own_sessions.iter().map(|own| u32::from(own.is_used())).sum::<u32>();
        users
    }

    /// Destroys the sessions of closed connections.
    fn destroy_unused_sessions(&mut self, control: &mut Control) -> Result<(), CallFailure> {
        while let Some(index) = self.own_sessions.iter().position(|own| !own.is_used()) {
            destroy_session(control, self.own_sessions[index].session)?;
            self.own_sessions.swap_remove(index);
        }
        Ok(())
    }

    /// Destroys all sessions, then the client: it can only be destroyed once it has none.
    ///
    /// **Source:** RFC 8881 section 18.50.3.
    fn destroy_all(&mut self, control: &mut Control) -> Result<(), CallFailure> {
        self.destroy_unused_sessions(control)?;
        for shared in self.shared.drain(..).flatten() {
            destroy_session(control, shared.id)?;
        }
        destroy_client(control, self.client)
    }
}

impl OwnSession {
    fn is_used(&self) -> bool {
        self.user.strong_count() > 0
    }
}

/// Binds a connection to a session, and returns whether the server knows the session. A server that
/// refuses for another reason binds it implicitly, with the first SEQUENCE. **Source:** RFC 8881
/// sections 2.10.3.1 and 18.34.
fn bind_connection(
    control: &mut Control,
    session: SessionId,
    direction: u32,
) -> Result<bool, CallFailure> {
    let bind = Op::BindConnToSession { session, direction, rdma: false };
    let bound = control.compound(&[bind], |event| check_result(event, OpCode::BindConnToSession));
    match bound {
        Err(failure) => match failure.status() {
            Some(status) => Ok(!is_unbound(status)),
            None => Err(failure),
        },
        Ok(()) => Ok(true),
    }
}

/// Destroys a session. That requires a connection bound to it: RFC 8881 sections 18.34 and 18.37.3.
fn destroy_session(control: &mut Control, session: SessionId) -> Result<(), CallFailure> {
    let is_bound = control.session().session_id() == session;
    if !is_bound && !bind_connection(control, session, direction::FORE)? {
        return Ok(());
    }
    ignore_refusal(control.compound(&[Op::DestroySession { session }], |event| {
        check_result(event, OpCode::DestroySession)
    }))
}

/// Destroys a client that has no sessions.
fn destroy_client(control: &mut Control, client: ClientId) -> Result<(), CallFailure> {
    ignore_refusal(control.compound(&[Op::DestroyClientid { client }], |event| {
        check_result(event, OpCode::DestroyClientid)
    }))
}

/// Ignores a server's refusal to forget something: it has already forgotten it, as after a restart,
/// or will when the lease expires. A server that does not answer is an error.
fn ignore_refusal(result: Result<(), CallFailure>) -> Result<(), CallFailure> {
    match result {
        Err(failure) if failure.status().is_some() => Ok(()),
        result => result,
    }
}

/// The answer to EXCHANGE_ID.
struct Exchanged {
    client: ClientId,
    sequence: u32,
    server: ServerOwner,
    is_data_server: bool,
}

/// Registers a client in v4.1 and later. **Source:** RFC 8881 section 18.35.
fn exchange_id(control: &mut Control, owner: ClientOwner<'_>) -> Result<Exchanged, CallFailure> {
    let op = Op::ExchangeId {
        owner,
        flags: match control.target().options.pnfs {
            PnfsRole::None => exchange::USE_NON_PNFS,
            PnfsRole::MetadataClient => exchange::USE_NON_PNFS | exchange::USE_PNFS_MDS,
            PnfsRole::DataClient => exchange::USE_NON_PNFS | exchange::USE_PNFS_DS,
        },
        protection: StateProtection::None,
        implementation: None,
    };
    control.compound(&[op], |event| match event.result_of(OpCode::ExchangeId)? {
        OpOk::ExchangeId {
            client,
            sequence,
            flags,
            server_minor_id,
            server_major_id,
            scope,
            ..
        } => {
            let (major, scope) = (server_major_id.to_vec(), scope.to_vec());
            let server = ServerOwner { major, minor: server_minor_id, scope };
            let is_data_server = flags & exchange::USE_PNFS_DS != 0;
            Ok(Exchanged { client, sequence, server, is_data_server })
        }
        _ => Err(unexpected_result()),
    })
}

/// Registers a client in v4.0. Its callback address is invalid, so no server delegates to it.
/// **Source:** RFC 7530 sections 16.33 and 16.34.
fn set_client_id(control: &mut Control, owner: ClientOwner<'_>) -> Result<ClientId, CallFailure> {
    let op = Op::Setclientid {
        owner,
        callback_program: CALLBACK_PROGRAM,
        callback_address: NetAddress { netid: b"tcp", address: b"0.0.0.0.0.0" },
        callback_ident: 1,
    };
    let (client, confirm) =
        control.compound(&[op], |event| match event.result_of(OpCode::Setclientid)? {
            OpOk::Setclientid { client, confirm } => Ok((client, confirm)),
            _ => Err(unexpected_result()),
        })?;
    let op = Op::SetclientidConfirm { client, confirm };
    control.compound(&[op], |event| check_result(event, OpCode::SetclientidConfirm))?;
    Ok(client)
}

/// Creates a session; returns it and the limits of its fore channel. **Source:** RFC 8881 section
/// 18.36.
fn create_session(
    control: &mut Control,
    record: &mut Record,
    slots: u32,
) -> Result<(SessionId, ChannelAttributes), CallFailure> {
    // The fore channel carries our calls. `cached_bytes_max` bounds the replies that the server has
    // to keep for a retry: we never ask it to keep READ replies, so they may be larger.
    let fore = ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: CHANNEL_BYTES,
        response_bytes_max: CHANNEL_BYTES,
        cached_bytes_max: CACHED_BYTES,
        operations_max: OPERATIONS,
        requests_max: slots,
        rdma_ird: None,
    };
    // The back channel carries recalls of delegations, one at a time. OPEN requests none, but a
    // server may still grant one, and its recall has to be answered.
    let back = ChannelAttributes {
        request_bytes_max: CACHED_BYTES,
        response_bytes_max: CACHED_BYTES,
        requests_max: 1,
        ..fore
    };
    let mut scratch = Vec::new();
    let op = Op::CreateSession {
        client: record.client,
        sequence: record.sequence,
        flags: nfs4::create_session::CONNECTION_BACKCHANNEL,
        fore,
        back,
        callback_program: CALLBACK_PROGRAM,
        security: List::build(&mut scratch, [CallbackSecurity::None]),
    };
    let (session, mut granted) =
        control.compound(&[op], |event| match event.result_of(OpCode::CreateSession)? {
            OpOk::CreateSession { session, fore, .. } => Ok((session, fore)),
            _ => Err(unexpected_result()),
        })?;
    // CREATE_SESSION has its own sequence number per client, so that a retry does not create a
    // second session: RFC 8881 section 18.36.4.
    record.sequence += 1;
    // The server decides on the number of slots: it may grant fewer than requested, and if it
    // grants more, we still keep no more calls in flight than planned.
    granted.requests_max = granted.requests_max.clamp(1, slots);
    Ok((session, granted))
}

/// Returns true if the server need only read and write data.
fn is_data_server(control: &Control) -> bool {
    control.target().options.pnfs == PnfsRole::DataClient
}

/// Queries how long the server keeps an idle client.
fn get_lease(control: &mut Control) -> Result<Duration, CallFailure> {
    let request = Bitmap::from_numbers(&[attribute::LEASE_TIME]);
    let seconds =
        control.compound(&[Op::Putrootfh, Op::Getattr { request }], |event| {
            match event.result_of(OpCode::Getattr)? {
                OpOk::Getattr { attributes } => Ok(attributes.decode_values()?.lease_seconds),
                _ => Err(unexpected_result()),
            }
        })?;
    Ok(Duration::from_secs(u64::from(seconds.unwrap_or(90).max(3))))
}

/// Checks that an operation without result fields succeeded.
fn check_result(event: &Event<'_>, code: OpCode) -> Result<(), CallError> {
    event.result_of(code).map(drop)
}

fn unexpected_result() -> CallError {
    DecodeError::BadValue { what: "the result", value: 0 }.into()
}
