//! ONC RPC version 2: call and reply headers, AUTH_NONE and AUTH_SYS.
//!
//! [`CallHeader`] and [`ReplyHeader`] are views of the start of a message; what follows belongs to
//! the program. A refusal of any kind is an [`RpcError`], in both directions. Other credential
//! flavors are skipped, not decoded. **Source:** RFC 5531 sections 8, 9 and appendix A.

use crate::error::DecodeError;
pub use crate::error::RpcError;
use crate::limits::{AUTH_BYTES_MAX, GROUPS_MAX, MACHINE_NAME_BYTES_MAX};
use crate::wire::Wire;
use crate::xdr::{Reader, Writer, opaque_bytes};

/// The three numbers that identify a remote procedure. **Source:** RFC 5531 section 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcedureId {
    /// Number of the program, such as 100003 for NFS.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Number of the procedure within the version; 0 is NULL in all programs.
    pub procedure: u32,
}

impl ProcedureId {
    /// Names a procedure.
    pub const fn new(program: u32, version: u32, procedure: u32) -> Self {
        Self { program, version, procedure }
    }

    /// Names the procedure that does nothing, which every version of every program has.
    pub const fn null(program: u32, version: u32) -> Self {
        Self::new(program, version, 0)
    }
}

/// The RPC version used here. **Source:** RFC 5531 section 9.
pub const RPC_VERSION: u32 = 2;

// The discriminants of rpc_msg and reply_body. RFC 5531 section 9.
const MESSAGE_CALL: u32 = 0;
pub(crate) const MESSAGE_REPLY: u32 = 1;
const REPLY_ACCEPTED: u32 = 0;
const REPLY_DENIED: u32 = 1;

/// The flavor number of AUTH_NONE. **Source:** RFC 5531 section 8.2.
pub const AUTH_NONE: u32 = 0;
/// The flavor number of AUTH_SYS. **Source:** RFC 5531 section 8.2.
pub const AUTH_SYS: u32 = 1;

/// The flavor number of AUTH_TLS, used in a NULL call that asks for TLS. **Source:** RFC 9289
/// section 4.1.
pub const AUTH_TLS: u32 = 7;
/// Verifier body in the answer if TLS may start. **Source:** RFC 9289 section 4.1.
pub const STARTTLS: &[u8; 8] = b"STARTTLS";

/// `auth_stat` of a credential that can't be decoded. **Source:** RFC 5531 section 9.
pub const AUTH_BAD_CREDENTIAL: u32 = 1;
/// `auth_stat` of a credential that is too weak. **Source:** RFC 5531 section 9.
pub const AUTH_TOO_WEAK: u32 = 5;

/// Returns true if a message is marked as a reply.
pub(crate) fn is_reply(record: &[u8]) -> bool {
    record.get(4..8) == Some(&MESSAGE_REPLY.to_be_bytes())
}

/// Supplementary group ids, at most sixteen, stored inline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Groups {
    ids: [u32; GROUPS_MAX],
    len: u8,
}

impl Groups {
    /// A list without any group.
    pub const EMPTY: Self = Self { ids: [0; GROUPS_MAX], len: 0 };

    /// Takes the first sixteen of `ids`; AUTH_SYS has no room for more.
    pub fn from_slice(ids: &[u32]) -> Self {
        let mut groups = Self::default();
        for id in ids.iter().take(GROUPS_MAX) {
            groups.ids[groups.len as usize] = *id;
            groups.len += 1;
        }
        groups
    }

    /// Returns the group ids.
    pub fn as_slice(&self) -> &[u32] {
        &self.ids[..self.len as usize]
    }
}

/// The body of an AUTH_SYS credential. **Source:** RFC 5531 appendix A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// An arbitrary id chosen by the client.
    pub stamp: u32,
    /// The client's name, at most 255 bytes.
    pub machine_name: &'a [u8],
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Numbers of supplementary groups.
    pub groups: Groups,
}

impl<'a> Wire<'a> for AuthSys<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let stamp = reader.u32()?;
        let machine_name = reader.opaque(MACHINE_NAME_BYTES_MAX)?;
        let uid = reader.u32()?;
        let gid = reader.u32()?;
        // Sixteen groups are the limit of the protocol, not of this crate: a call with more is
        // malformed, and is never truncated, which would change the user's permissions.
        let len = reader.u32()?;
        if len as usize > GROUPS_MAX {
            return Err(DecodeError::TooLong { len, max: GROUPS_MAX as u32 });
        }
        let mut groups = Groups { len: len as u8, ..Groups::default() };
        for id in &mut groups.ids[..len as usize] {
            *id = reader.u32()?;
        }
        Ok(Self { stamp, machine_name, uid, gid, groups })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.stamp);
        writer.opaque(self.machine_name);
        writer.u32(self.uid);
        writer.u32(self.gid);
        writer.u32(self.groups.as_slice().len() as u32);
        for id in self.groups.as_slice() {
            writer.u32(*id);
        }
    }
}

impl AuthSys<'_> {
    fn encoded_len(&self) -> usize {
        // Stamp, uid, gid and the number of groups are one word each.
        4 * 4 + opaque_bytes(self.machine_name.len()) + 4 * self.groups.as_slice().len()
    }
}

/// The caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential<'a> {
    /// AUTH_NONE: an anonymous caller.
    None,
    /// AUTH_SYS: a user and groups, as claimed.
    Sys(AuthSys<'a>),
    /// A flavor that is not supported here.
    Other {
        /// The flavor's number.
        flavor: u32,
    },
}

impl<'a> Credential<'a> {
    /// Decodes flavor and body.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is too long, or is not a valid AUTH_SYS body for that flavor.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let flavor = reader.u32()?;
        let body = reader.opaque(AUTH_BYTES_MAX)?;
        match flavor {
            AUTH_NONE => Ok(Self::None),
            AUTH_SYS => {
                // The body is an opaque of its own: a malformed body must not extend into the bytes
                // after it, and nothing may be left over.
                let mut reader = Reader::new(body);
                let sys = AuthSys::decode(&mut reader)?;
                reader.finish()?;
                Ok(Self::Sys(sys))
            }
            flavor => Ok(Self::Other { flavor }),
        }
    }

    /// Appends flavor and body; an unsupported flavor gets an empty body.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::None => writer.raw(&[0; 8]),
            Self::Sys(sys) => {
                writer.u32(AUTH_SYS);
                writer.u32(sys.encoded_len() as u32);
                sys.encode(writer);
            }
            Self::Other { flavor } => {
                writer.u32(*flavor);
                writer.u32(0);
            }
        }
    }
}

/// The header of a call; its arguments follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// The transaction id, chosen by the client.
    pub xid: u32,
    /// The RPC version; this crate sends 2.
    pub rpc_version: u32,
    /// The program number.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure number.
    pub procedure: u32,
    /// The caller, or `Err` if the credential can't be decoded.
    pub credential: Result<Credential<'a>, DecodeError>,
}

impl<'a> CallHeader<'a> {
    /// Decodes a call's header. If the RPC version is not 2, only xid and version are meaningful.
    ///
    /// # Errors
    /// [`DecodeError`] if this is not a call, or ends within the header.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let xid = reader.u32()?;
        match reader.u32()? {
            MESSAGE_CALL => {}
            value => return Err(DecodeError::BadValue { what: "RPC message type", value }),
        }
        // In another RPC version only the first three words are known to mean the same. They are
        // enough for the answer, RPC_MISMATCH, which needs the xid.
        let rpc_version = reader.u32()?;
        if rpc_version != RPC_VERSION {
            let credential = Ok(Credential::None);
            return Ok(Self { xid, rpc_version, program: 0, version: 0, procedure: 0, credential });
        }
        let program = reader.u32()?;
        let version = reader.u32()?;
        let procedure = reader.u32()?;
        let credential = Credential::decode(reader);
        // The verifier of a call has a meaning only with RPCSEC_GSS; with AUTH_NONE and AUTH_SYS it
        // is empty. It is skipped, whatever its flavor. If the credential can't be decoded, the
        // reader is somewhere in its body, so nothing after it can be located.
        if credential.is_ok() {
            reader.u32()?;
            reader.opaque(AUTH_BYTES_MAX)?;
        }
        Ok(Self { xid, rpc_version, program, version, procedure, credential })
    }

    /// Appends the header, with an AUTH_NONE verifier.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.xid);
        writer.u32(MESSAGE_CALL);
        writer.u32(self.rpc_version);
        writer.u32(self.program);
        writer.u32(self.version);
        writer.u32(self.procedure);
        self.credential.unwrap_or(Credential::None).encode(writer);
        Credential::None.encode(writer);
    }
}

/// The header of a reply; if the call was accepted, the results follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The transaction id of the call.
    pub xid: u32,
    /// Whether the call reached its program.
    pub result: Result<(), RpcError>,
}

impl ReplyHeader {
    /// Decodes a reply's header.
    ///
    /// # Errors
    /// [`DecodeError`] if this is not a reply, has an unknown state, or ends within the header.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let xid = reader.u32()?;
        match reader.u32()? {
            MESSAGE_REPLY => {}
            value => return Err(DecodeError::BadValue { what: "RPC message type", value }),
        }
        // Accepted refers to the credential; whether the call was executed is given by the accept
        // state after the verifier. A denial has no verifier and no results.
        let result = match reader.u32()? {
            REPLY_ACCEPTED => decode_accepted(reader)?,
            REPLY_DENIED => Err(decode_denied(reader)?),
            value => return Err(DecodeError::BadValue { what: "RPC reply state", value }),
        };
        Ok(Self { xid, result })
    }

    /// Appends the header, with an AUTH_NONE verifier.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.xid);
        writer.u32(MESSAGE_REPLY);
        match self.result {
            Ok(()) => encode_accepted(writer, 0),
            Err(RpcError::ProgramUnavailable) => encode_accepted(writer, 1),
            Err(RpcError::ProgramMismatch { low, high }) => {
                encode_accepted(writer, 2);
                writer.u32(low);
                writer.u32(high);
            }
            Err(RpcError::ProcedureUnavailable) => encode_accepted(writer, 3),
            Err(RpcError::GarbageArguments) => encode_accepted(writer, 4),
            Err(RpcError::SystemError) => encode_accepted(writer, 5),
            Err(RpcError::RpcMismatch { low, high }) => {
                writer.u32(REPLY_DENIED);
                writer.u32(0);
                writer.u32(low);
                writer.u32(high);
            }
            Err(RpcError::Authentication(stat)) => {
                writer.u32(REPLY_DENIED);
                writer.u32(1);
                writer.u32(stat);
            }
        }
    }
}

fn encode_accepted(writer: &mut Writer<'_>, accept_stat: u32) {
    writer.u32(REPLY_ACCEPTED);
    // Credential and verifier have the same encoding, opaque_auth: flavor and body.
    Credential::None.encode(writer);
    writer.u32(accept_stat);
}

fn decode_accepted(reader: &mut Reader<'_>) -> Result<Result<(), RpcError>, DecodeError> {
    reader.u32()?;
    reader.opaque(AUTH_BYTES_MAX)?;
    Ok(Err(match reader.u32()? {
        0 => return Ok(Ok(())),
        1 => RpcError::ProgramUnavailable,
        2 => RpcError::ProgramMismatch { low: reader.u32()?, high: reader.u32()? },
        3 => RpcError::ProcedureUnavailable,
        4 => RpcError::GarbageArguments,
        5 => RpcError::SystemError,
        value => return Err(DecodeError::BadValue { what: "RPC accept state", value }),
    }))
}

fn decode_denied(reader: &mut Reader<'_>) -> Result<RpcError, DecodeError> {
    match reader.u32()? {
        0 => Ok(RpcError::RpcMismatch { low: reader.u32()?, high: reader.u32()? }),
        1 => Ok(RpcError::Authentication(reader.u32()?)),
        value => Err(DecodeError::BadValue { what: "RPC reject state", value }),
    }
}
