//! Messages that register a v4.1 client and create its sessions.
//!
//! **Source:** RFC 8881 sections 18.33 to 18.36, RFC 5662.

use super::bitmap::Bitmap;
use super::types::{SessionId, Time};
use crate::error::DecodeError;
use crate::lists::List;
use crate::rpc::AuthSys;
use crate::wire::{Wire, wire_choice, wire_struct};
use crate::xdr::{Reader, Writer};

/// Bits of EXCHANGE_ID's flags. **Source:** RFC 8881 section 18.35.
pub mod exchange {
    /// The client can follow a moved file system.
    pub const SUPPORTS_MOVED_REFERRAL: u32 = 0x1;
    /// The client can follow a migrated file system.
    pub const SUPPORTS_MOVED_MIGRATION: u32 = 0x2;
    /// State is bound to the principal.
    pub const BIND_PRINCIPAL_STATEID: u32 = 0x100;
    /// The server is not a pNFS server.
    pub const USE_NON_PNFS: u32 = 0x1_0000;
    /// The server is a pNFS metadata server.
    pub const USE_PNFS_MDS: u32 = 0x2_0000;
    /// The server is a pNFS data server.
    pub const USE_PNFS_DS: u32 = 0x4_0000;
    /// The bits of the role.
    pub const ROLE_MASK: u32 = 0x7_0000;
    /// The call updates a confirmed client id.
    pub const UPDATE_CONFIRMED: u32 = 0x4000_0000;
    /// The reply is about a confirmed client id.
    pub const CONFIRMED: u32 = 0x8000_0000;
}

/// Bits of CREATE_SESSION's flags. **Source:** RFC 8881 section 18.36.
pub mod create_session {
    /// The reply cache survives a restart.
    pub const PERSISTENT: u32 = 1;
    /// The connection carries the backchannel too.
    pub const CONNECTION_BACKCHANNEL: u32 = 2;
    /// The connection switches to RDMA.
    pub const CONNECTION_RDMA: u32 = 4;
}

/// Directions of BIND_CONN_TO_SESSION. **Source:** RFC 8881 section 18.34.
pub mod direction {
    /// Requested or answered: the fore channel.
    pub const FORE: u32 = 1;
    /// Requested or answered: the backchannel.
    pub const BACK: u32 = 2;
    /// Requested: the fore channel, or both.
    pub const FORE_OR_BOTH: u32 = 3;
    /// The answer: both directions.
    pub const BOTH: u32 = 3;
    /// Requested: the backchannel, or both.
    pub const BACK_OR_BOTH: u32 = 7;
}

/// Bits of SEQUENCE's status flags. **Source:** RFC 8881 section 18.46.
pub mod sequence_status {
    /// The callback path is down.
    pub const CB_PATH_DOWN: u32 = 0x1;
    /// All state has expired and was revoked.
    pub const EXPIRED_ALL_STATE_REVOKED: u32 = 0x8;
    /// Some state has expired and was revoked.
    pub const EXPIRED_SOME_STATE_REVOKED: u32 = 0x10;
    /// An administrator has revoked state.
    pub const ADMIN_STATE_REVOKED: u32 = 0x20;
    /// State that can be recalled was revoked.
    pub const RECALLABLE_STATE_REVOKED: u32 = 0x40;
    /// A lease has moved.
    pub const LEASE_MOVED: u32 = 0x80;
    /// The server has restarted; reclaim.
    pub const RESTART_RECLAIM_NEEDED: u32 = 0x100;
    /// The session's callback path is down.
    pub const CB_PATH_DOWN_SESSION: u32 = 0x200;
    /// The backchannel has a fault.
    pub const BACKCHANNEL_FAULT: u32 = 0x400;
}

wire_struct! {
    /// Limits of a session's channel. **Source:** RFC 8881 section 18.36, channel_attrs4.
    #[derive(Hash)]
    pub struct ChannelAttributes {
        /// Padding of headers, in bytes.
        header_pad_bytes: u32,
        /// Largest request, in bytes.
        request_bytes_max: u32,
        /// Largest reply, in bytes.
        response_bytes_max: u32,
        /// Largest reply cached for a retry, in bytes.
        cached_bytes_max: u32,
        /// Maximum number of operations per compound.
        operations_max: u32,
        /// Maximum number of concurrent requests: slots.
        requests_max: u32,
        /// RDMA's inbound read queue.
        rdma_ird: Option<u32>,
    }
}

wire_struct! {
    /// Who made an implementation, and when. **Source:** RFC 5662, nfs_impl_id4.
    pub struct Implementation<'a> {
        /// Domain of the maker.
        domain: &'a [u8],
        /// Name and version.
        name: &'a [u8],
        /// When it was built.
        date: Time,
    }
}

wire_struct! {
    /// Operations that must, and may, be called by the machine's principal.
    /// **Source:** RFC 5662, state_protect_ops4.
    #[derive(Default, Hash)]
    pub struct ProtectedOps {
        /// Operations that must be protected.
        enforce: Bitmap,
        /// Operations that may be protected.
        allow: Bitmap,
    }
}

/// How a client's state is protected against other principals.
/// **Source:** RFC 8881 section 18.35, state_protect4_a.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateProtection {
    /// Not at all.
    None,
    /// By the machine's credential.
    MachineCredential(ProtectedOps),
    /// By a shared secret, whose parameters are skipped: no server here grants it.
    Secret(ProtectedOps),
}

impl Wire<'_> for StateProtection {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u32()? {
            0 => Self::None,
            1 => Self::MachineCredential(ProtectedOps::decode(reader)?),
            2 => {
                let operations = ProtectedOps::decode(reader)?;
                // The hash and encryption algorithms, then window and number of handles: decoded
                // only to find the end.
                List::<&[u8]>::decode(reader)?;
                List::<&[u8]>::decode(reader)?;
                reader.array::<8>()?;
                Self::Secret(operations)
            }
            value => return Err(DecodeError::BadValue { what: "state_protect_how4", value }),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::None => writer.u32(0),
            Self::MachineCredential(operations) => {
                writer.u32(1);
                operations.encode(writer);
            }
            Self::Secret(operations) => {
                writer.u32(2);
                operations.encode(writer);
                writer.raw(&[0; 16]);
            }
        }
    }
}

wire_choice! {
    /// How a server protects the state. **Source:** RFC 8881 section 18.35, state_protect4_r.
    pub enum StateProtectionReply("state_protect_how4") {
        /// Not at all.
        0 => None,
        /// By the machine's credential.
        1 => MachineCredential(operations: ProtectedOps),
    }
}

wire_choice! {
    /// The credential of callbacks. **Source:** RFC 8881 section 18.36, callback_sec_parms4.
    pub enum CallbackSecurity<'a>("callback flavor") {
        /// An anonymous caller.
        0 => None,
        /// A user of the server's machine.
        1 => Sys(sys: AuthSys<'a>),
        /// RPCSEC_GSS: service, handle of the server and of the client.
        6 => Gss(service: u32, server: &'a [u8], client: &'a [u8]),
    }
}

wire_struct! {
    /// A call of the fore channel that a callback refers to.
    /// **Source:** RFC 8881 section 20.9, referring_call4.
    pub struct ReferringCall {
        /// Its sequence number.
        sequence: u32,
        /// Number of the slot.
        slot: u32,
    }
}

wire_struct! {
    /// The calls of one session that a callback refers to.
    /// **Source:** RFC 8881 section 20.9, referring_call_list4.
    pub struct ReferringCalls<'a> {
        /// Id of the session.
        session: SessionId,
        /// Calls of that session.
        calls: List<'a, ReferringCall>,
    }
}
