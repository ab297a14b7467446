//! NFS v4: minor versions, and what the root and the exports report.
//!
//! A compound with only PUTROOTFH shows whether a minor version is supported: with sessions it
//! fails because it has none, and an unsupported version fails with MINOR_VERS_MISMATCH.
//! [`Conversation`] then asks in the lowest supported minor version, v4.0 without any state, others
//! in a session that is destroyed at the end.
//!
//! **Source:** RFC 7530 sections 15.2 and 16, RFC 8881 sections 2.10 and 18.

use std::net::SocketAddr;

use nfs_proto::nfs3::Verifier;
use nfs_proto::nfs4::{
    Attributes, Bitmap, CallbackSecurity, ChannelAttributes, ClientId, ClientOwner, Compound,
    CompoundBuilder, CompoundReply, Implementation, List, Op, OpOk, SecurityFlavor, SessionId,
    StateProtection, attribute, exchange,
};
use nfs_proto::program::Call;
use nfs_proto::xdr::Reader;
use nfs_proto::{DecodeError, ProtocolVersion, Status, nfs4};

use super::ask::Asker;
use super::data::{Answer, Flavor, Limits, NoAnswer, ServerIdentity, V4Root};
use super::options::ProbeOptions;
use crate::options::Proto;

/// Maximum number of names kept of the root.
const NAMES_MAX: usize = 256;
/// Size requested for a listing of the root, in bytes.
const LISTING_BYTES: u32 = 32 * 1024;
/// Size requested for the channels of the probe's session, in bytes; small, so that all servers
/// grant it.
const CHANNEL_BYTES: u32 = 64 * 1024;

/// Kerberos flavors by service number. **Source:** RFC 2623 section 2.1.
const KERBEROS: u32 = 390_002;

const LIMITS: Bitmap = Bitmap::from_numbers(&[
    attribute::LEASE_TIME,
    attribute::MAXFILESIZE,
    attribute::MAXREAD,
    attribute::MAXWRITE,
]);

/// Tries a minor version, and returns the status of the compound that does it.
pub(super) fn try_version(
    address: SocketAddr,
    version: ProtocolVersion,
    options: &ProbeOptions,
) -> Answer<Status> {
    let mut asker = Asker::connect(Proto::Tcp, address, options)?;
    call_compound(&mut asker, version, &[Op::Putrootfh], |reply| Ok(reply.status))
}

/// Makes a compound and passes its reply to `done`, whatever its status.
fn call_compound<T>(
    asker: &mut Asker,
    version: ProtocolVersion,
    ops: &[Op<'_>],
    done: impl FnOnce(CompoundReply<'_>) -> Result<T, DecodeError>,
) -> Answer<T> {
    let mut bytes = Vec::new();
    let minor = version.minor().unwrap_or(0);
    let mut builder = CompoundBuilder::new(&mut bytes, b"probe", minor);
    for op in ops {
        builder.push(op);
    }
    builder.finish();
    let compound = Compound::decode(Reader::new(&bytes)).map_err(NoAnswer::Malformed)?;
    asker.call(&Call::Nfs4(nfs4::Call::Compound(compound)), |results| {
        done(CompoundReply::decode(results)?)
    })
}

/// A conversation in one minor version.
#[derive(Debug)]
pub(super) struct Conversation {
    asker: Asker,
    version: ProtocolVersion,
    session: Option<Session>,
}

#[derive(Debug)]
struct Session {
    client: ClientId,
    id: SessionId,
    sequence: u32,
    /// The name that the client introduced itself with.
    owner: String,
    server: ServerIdentity,
}

impl Conversation {
    /// Starts a conversation in a supported version.
    pub(super) fn start(
        address: SocketAddr,
        version: ProtocolVersion,
        options: &ProbeOptions,
    ) -> Answer<Self> {
        let asker = Asker::connect(Proto::Tcp, address, options)?;
        let mut conversation = Self { asker, version, session: None };
        if version.has_sessions() {
            conversation.session = Some(conversation.make_session()?);
        }
        Ok(conversation)
    }

    pub(super) fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Returns the client id, and who the server is.
    pub(super) fn identity(&self) -> Answer<(ClientId, ServerIdentity)> {
        match &self.session {
            Some(session) => Ok((session.client, session.server.clone())),
            None => Err(NoAnswer::NotRequested("v4.0 has no EXCHANGE_ID")),
        }
    }

    /// Introduces the same client at another address, and returns what the server there calls it.
    /// A server that does not know it yet forgets it again.
    pub(super) fn introduce_at(
        &self,
        address: SocketAddr,
        options: &ProbeOptions,
    ) -> Answer<(ClientId, ServerIdentity)> {
        let Some(session) = &self.session else {
            return Err(NoAnswer::NotRequested("v4.0 has no EXCHANGE_ID"));
        };
        let asker = Asker::connect(Proto::Tcp, address, options)?;
        let mut other = Self { asker, version: self.version, session: None };
        let (client, _, server) = other.introduce(&session.owner)?;
        if client != session.client || server.major_id != session.server.major_id {
            let _ = other.ask_for(&[Op::DestroyClientid { client }], |_| Ok(Some(())));
        }
        Ok((client, server))
    }

    /// Registers a client; returns its id, the sequence of its first session, and the server.
    fn introduce(&mut self, owner: &str) -> Answer<(ClientId, u32, ServerIdentity)> {
        let exchange_id = Op::ExchangeId {
            owner: ClientOwner { verifier: Verifier(*b"dfsprobe"), id: owner.as_bytes() },
            flags: exchange::USE_NON_PNFS | exchange::USE_PNFS_MDS,
            protection: StateProtection::None,
            implementation: None,
        };
        self.ask_for(&[exchange_id], |ok| {
            let OpOk::ExchangeId {
                client,
                sequence,
                flags,
                server_minor_id,
                server_major_id,
                scope,
                implementation,
                ..
            } = ok
            else {
                return Ok(None);
            };
            let name = |found: Implementation<'_>| String::from_utf8_lossy(found.name).into_owned();
            let server = ServerIdentity {
                major_id: server_major_id.to_vec(),
                minor_id: server_minor_id,
                scope: scope.to_vec(),
                roles: roles_in(flags),
                implementation: implementation.map(name),
            };
            Ok(Some((client, sequence, server)))
        })
    }

    /// Types of the layouts that the file system at a path of names offers.
    pub(super) fn layout_types_at(&mut self, names: &[&[u8]]) -> Answer<Vec<u32>> {
        if self.session.is_none() {
            return Err(NoAnswer::NotRequested("v4.0 has no layouts"));
        }
        let mut ops = walk_from_root(names);
        ops.push(Op::Getattr { request: Bitmap::from_numbers(&[attribute::FS_LAYOUT_TYPES]) });
        self.ask_for(&ops, |ok| {
            let OpOk::Getattr { attributes } = ok else { return Ok(None) };
            // A server without pNFS leaves the attribute out.
            let types = attributes.decode_values()?.layout_types.unwrap_or_default();
            Ok(Some(types.iter().collect()))
        })
    }

    /// Asks for the attributes of the root.
    pub(super) fn describe_root(&mut self) -> V4Root {
        let (limits, lease_seconds) = match self.limits_at(&[]) {
            Ok((limits, Some(seconds))) => (Ok(limits), Ok(seconds)),
            Ok((limits, None)) => {
                let reason = NoAnswer::NotRequested("the server does not report its lease time");
                (Ok(limits), Err(reason))
            }
            Err(reason) => (Err(reason.clone()), Err(reason)),
        };
        V4Root { limits, lease_seconds, names: self.root_names(), flavors: self.root_flavors() }
    }

    /// Flavors of the root.
    pub(super) fn root_flavors(&mut self) -> Answer<Vec<Flavor>> {
        if !self.version.has_sessions() {
            return Err(NoAnswer::NotRequested("v4.0 has no SECINFO_NO_NAME"));
        }
        self.list_flavors(&[Op::Putrootfh, Op::SecinfoNoName { style: 0 }])
    }

    /// Limits of the file system at a path of names, and the lease in seconds if reported.
    pub(super) fn limits_at(&mut self, names: &[&[u8]]) -> Answer<(Limits, Option<u32>)> {
        let mut ops = walk_from_root(names);
        ops.push(Op::Getattr { request: LIMITS });
        self.ask_for(&ops, |ok| {
            let OpOk::Getattr { attributes } = ok else { return Ok(None) };
            let found = attributes.decode_values()?;
            Ok(Some((limits_from(&found), found.lease_seconds)))
        })
    }

    /// Whether the file system at a path of names has extended attributes.
    pub(super) fn has_xattrs_at(&mut self, names: &[&[u8]]) -> Answer<bool> {
        let mut ops = walk_from_root(names);
        ops.push(Op::Getattr { request: Bitmap::from_numbers(&[attribute::XATTR_SUPPORT]) });
        self.ask_for(&ops, |ok| {
            let OpOk::Getattr { attributes } = ok else { return Ok(None) };
            // A server that does not know the attribute leaves it out.
            Ok(Some(attributes.decode_values()?.xattr_support == Some(true)))
        })
    }

    /// Flavors of the last name of a path.
    pub(super) fn flavors_of(&mut self, names: &[&[u8]]) -> Answer<Vec<Flavor>> {
        let Some((name, above)) = names.split_last() else {
            return Err(NoAnswer::NotRequested("the export is the root"));
        };
        let mut ops = walk_from_root(above);
        ops.push(Op::Secinfo { name });
        self.list_flavors(&ops)
    }

    fn list_flavors(&mut self, ops: &[Op<'_>]) -> Answer<Vec<Flavor>> {
        self.ask_for(ops, |ok| match ok {
            OpOk::Secinfo { flavors } | OpOk::SecinfoNoName { flavors } => {
                Ok(Some(flavors.iter().map(flavor_of).collect()))
            }
            _ => Ok(None),
        })
    }

    fn root_names(&mut self) -> Answer<Vec<String>> {
        let readdir = Op::Readdir {
            cookie: 0,
            verifier: Verifier::default(),
            dircount: LISTING_BYTES,
            maxcount: LISTING_BYTES,
            request: Bitmap::EMPTY,
        };
        self.ask_for(&[Op::Putrootfh, readdir], |ok| {
            let OpOk::Readdir { entries, .. } = ok else { return Ok(None) };
            let names: Vec<_> = entries
                .iter()
                .take(NAMES_MAX)
                .map(|entry| String::from_utf8_lossy(entry.name).into_owned())
                .collect();
            Ok(Some(names))
        })
    }

    /// Executes operations, in the session if there is one, and passes each result to `pick` until
    /// it returns a value.
    pub(super) fn ask_for<T>(
        &mut self,
        ops: &[Op<'_>],
        mut pick: impl FnMut(OpOk<'_>) -> Result<Option<T>, DecodeError>,
    ) -> Answer<T> {
        let mut all = Vec::with_capacity(ops.len() + 1);
        if let Some(session) = &mut self.session {
            // One slot, used for one call after the other: its sequence number increases by one
            // with each, and no reply is cached, since nothing here changes anything.
            session.sequence += 1;
            all.push(Op::Sequence {
                session: session.id,
                sequence: session.sequence,
                slot: 0,
                highest_slot: 0,
                cache_this: false,
            });
        }
        all.extend_from_slice(ops);
        let found = call_compound(&mut self.asker, self.version, &all, |reply| {
            let mut results = reply.results();
            while let Some(result) = results.next_result()? {
                match result.ok() {
                    Ok(ok) => {
                        if let Some(found) = pick(ok)? {
                            return Ok(Ok(found));
                        }
                    }
                    Err(status) => return Ok(Err(status)),
                }
            }
            Ok(Err(if reply.status == Status::Ok { Status::ServerFault } else { reply.status }))
        })?;
        found.map_err(|status| NoAnswer::Status(status.in_version(self.version)))
    }

    fn make_session(&mut self) -> Answer<Session> {
        let owner = format!("dfsbench probe {}", self.asker.identity());
        let (client, sequence, server) = self.introduce(&owner)?;
        let channel = ChannelAttributes {
            header_pad_bytes: 0,
            request_bytes_max: CHANNEL_BYTES,
            response_bytes_max: CHANNEL_BYTES,
            cached_bytes_max: 4096,
            operations_max: 32,
            requests_max: 1,
            rdma_ird: None,
        };
        let mut scratch = Vec::new();
        let create = Op::CreateSession {
            client,
            sequence,
            flags: 0,
            fore: channel,
            back: channel,
            callback_program: 0,
            security: List::build(&mut scratch, [CallbackSecurity::None]),
        };
        let id = self.ask_for(&[create], |ok| match ok {
            OpOk::CreateSession { session, .. } => Ok(Some(session)),
            _ => Ok(None),
        })?;
        Ok(Session { client, id, sequence: 0, owner, server })
    }
}

impl Drop for Conversation {
    /// Leaves nothing behind; a server that does not delete the session forgets it when the lease
    /// expires.
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = self.ask_for(&[Op::DestroySession { session: session.id }], |_| Ok(Some(())));
            let _ =
                self.ask_for(&[Op::DestroyClientid { client: session.client }], |_| Ok(Some(())));
        }
    }
}

/// The operations that lead from the root down a path.
pub(super) fn walk_from_root<'a>(names: &[&'a [u8]]) -> Vec<Op<'a>> {
    let mut ops = vec![Op::Putrootfh];
    ops.extend(names.iter().map(|name| Op::Lookup { name }));
    ops
}

/// Names the roles in pNFS that a server has. **Source:** RFC 8881 section 13.1.
fn roles_in(flags: u32) -> Vec<&'static str> {
    let roles = [
        (exchange::USE_NON_PNFS, "no pNFS"),
        (exchange::USE_PNFS_MDS, "metadata server"),
        (exchange::USE_PNFS_DS, "data server"),
    ];
    roles.into_iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| name).collect()
}

fn limits_from(found: &Attributes<'_>) -> Limits {
    Limits {
        read_bytes_max: found.read_bytes_max.unwrap_or(0),
        write_bytes_max: found.write_bytes_max.unwrap_or(0),
        file_bytes_max: found.file_bytes_max.unwrap_or(0),
        ..Limits::default()
    }
}

fn flavor_of(flavor: SecurityFlavor<'_>) -> Flavor {
    Flavor(match flavor {
        SecurityFlavor::Plain(number) => number,
        SecurityFlavor::Gss(info) => KERBEROS.saturating_add(info.service),
    })
}
