//! A client of NFS version 4, as its server knows it.
//!
//! [`Client4`] is introduced once; each connection of it then joins: in v4.0 by an owner range of
//! its own, in v4.1 and later by a session of its own. The server forgets a client whose lease is
//! not renewed: whatever a connection does renews it, and a connection that is idle does so by
//! itself. Sessions end when their connections are gone, by the next connection that is opened or
//! by the unmount, and the client ends after all of its sessions. All of this blocks and belongs
//! to set-up, recovery and the end.
//! **Source:** RFC 7530 section 9.1, RFC 8881 sections 2.4, 2.10 and 18.35 to 18.51.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use nfs_proto::client::{Binding, Event, ProtocolVersion};
use nfs_proto::limits::RECORD_OVERHEAD_BYTES;
use nfs_proto::nfs3::Verifier;
use nfs_proto::nfs4::{
    self, Bitmap, CallbackSecurity, ChannelAttributes, ClientId, ClientOwner, List, NetAddress, Op,
    OpCode, OpOk, SessionId, StateProtection, attribute, direction, exchange,
};
use nfs_proto::{CallError, DecodeError, Status};

use super::Control;
use crate::error::CallFailure;
use crate::options::TRANSFER_BYTES_DEFAULT;

/// The program of our callbacks, from the range that is free for such use.
///
/// **Source:** RFC 7530 section 18.36.3; Linux uses the same number.
const CALLBACK_PROGRAM: u32 = 0x4000_0000;
/// The largest message of a channel: a payload and what surrounds it.
const CHANNEL_BYTES: u32 = TRANSFER_BYTES_DEFAULT + RECORD_OVERHEAD_BYTES as u32;
/// The largest reply that the server must be consulted to keep.
const CACHED_BYTES: u32 = 4 * 1024;
/// The most operations of one of our compounds, generously.
const OPERATIONS: u32 = 16;
/// Owners that are set apart for each connection.
const OWNERS_PER_CONNECTION: u64 = 1 << 32;

/// The identity that servers know a client by.
#[derive(Debug)]
pub(crate) struct Client4 {
    version: ProtocolVersion,
    name: String,
    verifier: Verifier,
    record: Mutex<Record>,
}

/// The part that changes over the life of a client.
#[derive(Debug)]
struct Record {
    client: ClientId,
    /// Sequence number of the next session.
    sequence: u32,
    /// Sessions were made before, so the server knows that nothing is to be reclaimed.
    complete: bool,
    connections: u64,
    lease: Duration,
    /// Sessions that were made and not destroyed.
    sessions: Vec<OpenSession>,
    /// Further clients of the same mount, whose connections have identities of their own.
    others: Vec<Arc<Client4>>,
}

/// A session that the server holds for this client.
#[derive(Debug)]
struct OpenSession {
    session: SessionId,
    user: Weak<SessionUser>,
}

/// Proof that a connection uses its session, for as long as it is there.
#[derive(Debug)]
pub(crate) struct SessionUser;

/// The limits that the server granted a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) read_bytes: u32,
    pub(crate) write_bytes: u32,
}

impl Client4 {
    /// Introduces a client that no server has seen before.
    pub(crate) fn introduce(
        control: &mut Control,
        machine_name: &str,
    ) -> Result<Self, CallFailure> {
        // The name must differ between processes and the verifier between lives of one: the server
        // discards all state of a name that comes with another verifier. RFC 8881 section 2.4.
        let random = RandomState::new().hash_one(std::process::id());
        let record = Record {
            client: ClientId::default(),
            sequence: 0,
            complete: false,
            connections: 0,
            lease: Duration::from_secs(90),
            sessions: Vec::new(),
            others: Vec::new(),
        };
        let client = Self {
            version: control.version(),
            name: format!("{machine_name}/{}/{random:016x}", std::process::id()),
            verifier: Verifier(random.to_be_bytes()),
            record: Mutex::new(record),
        };
        client.introduce_to(control, &mut client.lock_record())?;
        Ok(client)
    }

    /// Introduces the client to a server that does not know it (any more).
    fn introduce_to(&self, control: &mut Control, record: &mut Record) -> Result<(), CallFailure> {
        let owner = ClientOwner { verifier: self.verifier, id: self.name.as_bytes() };
        let (client, sequence) = if self.version.has_sessions() {
            exchange_id(control, owner)?
        } else {
            (set_client_id(control, owner)?, 0)
        };
        (record.client, record.sequence, record.complete) = (client, sequence, false);
        // A server that has forgotten the client has none of its sessions, and may give their ids
        // to others.
        record.sessions.clear();
        Ok(())
    }

    /// Makes a connection a part of this client, in place of one that belonged to `former` and
    /// was refused; a client that the server has forgotten is introduced again.
    pub(crate) fn join_again(
        &self,
        control: &mut Control,
        former: ClientId,
    ) -> Result<(), CallFailure> {
        let mut record = self.lock_record();
        // Of several connections only the first one to come here has to introduce it.
        let forgotten = if self.version.has_sessions() {
            match self.join_as(control, &mut record) {
                Err(failure) if failure.status() == Some(Status::StaleClientId) => true,
                result => return result.map(drop),
            }
        } else {
            record.client == former
        };
        if forgotten {
            self.introduce_to(control, &mut record)?;
        }
        self.join_as(control, &mut record).map(drop)
    }

    /// Makes a connection a part of this client.
    pub(crate) fn join(&self, control: &mut Control) -> Result<Granted, CallFailure> {
        self.join_as(control, &mut self.lock_record())
    }

    fn join_as(&self, control: &mut Control, record: &mut Record) -> Result<Granted, CallFailure> {
        let slots = control.slots() as u32;
        record.connections += 1;
        // Opens of one owner are merged by the server, and in v4.0 its calls take turns. Each
        // connection numbers its owners from a base of its own, so that none meets another's.
        let mut binding = Binding {
            client: record.client,
            owner_base: record.connections * OWNERS_PER_CONNECTION,
            slots,
            ..Binding::default()
        };
        let mut granted = Granted { read_bytes: u32::MAX, write_bytes: u32::MAX };
        if self.version.has_sessions() {
            let channel = create_session(control, record, slots, &mut binding)?;
            // CREATE_SESSION has a sequence number of its own for each client, so that a retry
            // makes no second session: RFC 8881 section 18.36.4.
            record.sequence += 1;
            let user = Arc::new(SessionUser);
            let (session, weak_user) = (binding.session, Arc::downgrade(&user));
            record.sessions.retain(|open| open.session != session);
            record.sessions.push(OpenSession { session, user: weak_user });
            control.set_session_user(user);
            granted.read_bytes = payload_bytes(channel.response_bytes_max);
            granted.write_bytes = payload_bytes(channel.request_bytes_max);
        }
        control.session().bind(&binding);
        if self.version.has_sessions() && !record.complete {
            // The server grants nothing that might conflict with a reclaim before this client has
            // stated that it has none; without it OPEN would be answered GRACE. RFC 8881 section
            // 18.51.
            let complete = Op::ReclaimComplete { one_fs: false };
            let result =
                control.compound(&[complete], |event| check_result(event, OpCode::ReclaimComplete));
            match result {
                // A client that the server knew already need not say it twice.
                Err(failure) if failure.status() == Some(Status::CompleteAlready) => {}
                result => result?,
            }
            record.complete = true;
        }
        record.lease = get_lease(control)?;
        Ok(granted)
    }

    /// Returns how often an idle connection renews the lease.
    pub(crate) fn renewal_interval(&self) -> Duration {
        // Two renewals may be lost before the lease is: RFC 7530 section 9.5 leaves the rate open.
        self.lock_record().lease / 3
    }

    /// Adds a client whose end is a matter of this one, the mount's.
    pub(crate) fn add_other(&self, client: &Arc<Self>) {
        if self.version.has_sessions() {
            self.lock_record().others.push(Arc::clone(client));
        }
    }

    /// Destroys the sessions whose connections are gone, and the further clients that have no
    /// other. Servers bound both, so that what a pass leaves would be missing in the next one.
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

    /// Destroys the client where none of its connections is there any more, and says whether it
    /// did.
    fn destroy_if_unused(&self, control: &mut Control) -> Result<bool, CallFailure> {
        let mut record = self.lock_record();
        if record.sessions.iter().any(OpenSession::is_used) {
            return Ok(false);
        }
        record.destroy_unused_sessions(control)?;
        destroy_client(control, record.client)?;
        Ok(true)
    }

    /// Takes leave of the server, which forgets the client then.
    pub(crate) fn leave(&self, control: &mut Control) -> Result<(), CallFailure> {
        if !self.version.has_sessions() {
            return Ok(());
        }
        self.destroy_unused(control)?;
        // The session of the connection that says all this is the last one. A client is only
        // destroyed once it has no session: RFC 8881 section 18.50.3.
        let session = control.session().session_id();
        let mut record = self.lock_record();
        record.sessions.retain(|open| open.session != session);
        ignore_refusal(control.compound(&[Op::DestroySession { session }], |event| {
            check_result(event, OpCode::DestroySession)
        }))?;
        destroy_client(control, record.client)
    }

    fn lock_record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    /// Destroys the sessions whose connections are gone.
    fn destroy_unused_sessions(&mut self, control: &mut Control) -> Result<(), CallFailure> {
        while let Some(index) = self.sessions.iter().position(|open| !open.is_used()) {
            destroy_session(control, self.sessions[index].session)?;
            self.sessions.swap_remove(index);
        }
        Ok(())
    }
}

impl OpenSession {
    fn is_used(&self) -> bool {
        self.user.strong_count() > 0
    }
}

/// Destroys a session that another connection had. That takes a connection that is bound to it:
/// RFC 8881 sections 18.34 and 18.37.3.
fn destroy_session(control: &mut Control, session: SessionId) -> Result<(), CallFailure> {
    let bind = Op::BindConnToSession { session, direction: direction::FORE, rdma: false };
    ignore_refusal(
        control.compound(&[bind], |event| check_result(event, OpCode::BindConnToSession)),
    )?;
    ignore_refusal(control.compound(&[Op::DestroySession { session }], |event| {
        check_result(event, OpCode::DestroySession)
    }))
}

/// Destroys a client that has no session any more.
fn destroy_client(control: &mut Control, client: ClientId) -> Result<(), CallFailure> {
    // Where connections are in use yet, their sessions are, too: CLIENTID_BUSY. The server forgets
    // all of it with the lease.
    ignore_refusal(control.compound(&[Op::DestroyClientid { client }], |event| {
        check_result(event, OpCode::DestroyClientid)
    }))
}

/// Passes over a server's refusal to forget something: it has forgotten it already, as after a
/// restart, or will do so with the lease. A server that does not answer is a failure.
fn ignore_refusal(result: Result<(), CallFailure>) -> Result<(), CallFailure> {
    match result {
        Err(failure) if failure.status().is_some() => Ok(()),
        result => result,
    }
}

/// Introduces a client in v4.1 and later. **Source:** RFC 8881 section 18.35.
fn exchange_id(
    control: &mut Control,
    owner: ClientOwner<'_>,
) -> Result<(ClientId, u32), CallFailure> {
    let op = Op::ExchangeId {
        owner,
        flags: exchange::USE_NON_PNFS,
        protection: StateProtection::None,
        implementation: None,
    };
    control.compound(&[op], |event| match event.result_of(OpCode::ExchangeId)? {
        OpOk::ExchangeId { client, sequence, .. } => Ok((client, sequence)),
        _ => Err(unexpected_result()),
    })
}

/// Introduces a client in v4.0. Its callbacks lead nowhere, so no server delegates to it.
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

/// Returns the largest payload of a message of a channel; never less than any server can carry.
fn payload_bytes(message_bytes: u32) -> u32 {
    message_bytes.saturating_sub(RECORD_OVERHEAD_BYTES as u32).max(4096)
}

/// Makes a session and returns the limits of its fore channel.
/// **Source:** RFC 8881 section 18.36.
fn create_session(
    control: &mut Control,
    record: &Record,
    slots: u32,
    binding: &mut Binding,
) -> Result<ChannelAttributes, CallFailure> {
    let fore = ChannelAttributes {
        header_pad_bytes: 0,
        request_bytes_max: CHANNEL_BYTES,
        response_bytes_max: CHANNEL_BYTES,
        cached_bytes_max: CACHED_BYTES,
        operations_max: OPERATIONS,
        requests_max: slots,
        rdma_ird: None,
    };
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
    let (session, granted) =
        control.compound(&[op], |event| match event.result_of(OpCode::CreateSession)? {
            OpOk::CreateSession { session, fore, .. } => Ok((session, fore)),
            _ => Err(unexpected_result()),
        })?;
    binding.session = session;
    binding.slots = granted.requests_max.clamp(1, slots);
    Ok(granted)
}

/// Asks for how long the server keeps a client that is silent.
fn get_lease(control: &mut Control) -> Result<Duration, CallFailure> {
    let request = Bitmap::of(&[attribute::LEASE_TIME]);
    let seconds =
        control.compound(&[Op::Putrootfh, Op::Getattr { request }], |event| {
            match event.result_of(OpCode::Getattr)? {
                OpOk::Getattr { attributes } => Ok(attributes.decode_values()?.lease_seconds),
                _ => Err(unexpected_result()),
            }
        })?;
    Ok(Duration::from_secs(u64::from(seconds.unwrap_or(90).max(3))))
}

/// Checks that an operation with nothing to tell succeeded.
fn check_result(event: &Event<'_>, code: OpCode) -> Result<(), CallError> {
    event.result_of(code).map(drop)
}

fn unexpected_result() -> CallError {
    DecodeError::BadValue { what: "the result", value: 0 }.into()
}
