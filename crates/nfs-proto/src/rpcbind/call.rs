//! The arguments of the procedures of rpcbind. **Source:** RFC 1833 sections 2.1 and 2.2.
//!
//! [`Call`] is a view. Procedures 9 to 12 exist in version 4 only.

use super::VERSION_4;
use crate::error::DecodeError;
use crate::limits::RPCBIND_TEXT_BYTES_MAX;
use crate::portmap::RemoteCall;
use crate::wire::{numbered_calls, wire_struct};
use crate::xdr::Reader;

/// The last procedure of version 3. **Source:** RFC 1833 section 2.2.
const LAST_OF_VERSION_3: u32 = 8;

wire_struct! {
    /// One registration. **Source:** RFC 1833 section 2.1, rpcb.
    pub struct Registration<'a> {
        /// Number of the program.
        program: u32,
        /// Version of the program.
        version: u32,
        /// The transport's name, see [`super::NetId`].
        netid: &'a [u8] where len <= RPCBIND_TEXT_BYTES_MAX,
        /// The universal address, see [`super::UniversalAddress`].
        address: &'a [u8] where len <= RPCBIND_TEXT_BYTES_MAX,
        /// The owner of the registration.
        owner: &'a [u8] where len <= RPCBIND_TEXT_BYTES_MAX,
    }
}

wire_struct! {
    /// An address in the server's own binary form. **Source:** RFC 1833 section 2.1, netbuf.
    pub struct Netbuf<'a> {
        /// Size of the original buffer, in bytes.
        bytes_max: u32,
        /// Bytes of the address.
        bytes: &'a [u8] where len <= RPCBIND_TEXT_BYTES_MAX,
    }
}

numbered_calls! {
    /// A call with its arguments.
    pub enum Call<'a> {
        /// Does nothing at all.
        0 => Null,
        /// Registers a program.
        1 => Set(registration: Registration<'a>),
        /// Removes a registration.
        2 => Unset(registration: Registration<'a>),
        /// Queries the address of a program, in any version if this one does not exist.
        3 => Getaddr(registration: Registration<'a>),
        /// Requests all registrations.
        4 => Dump,
        /// Forwards a call: CALLIT of version 3, BCAST of version 4.
        5 => Broadcast(call: RemoteCall<'a>),
        /// Requests the server's time.
        6 => Gettime,
        /// Converts a universal address to the server's own form.
        7 => ToBinary(text: &'a [u8] where len <= RPCBIND_TEXT_BYTES_MAX),
        /// Converts an address in the server's own form to text.
        8 => ToText(netbuf: Netbuf<'a>),
        /// Queries the address of exactly this version.
        9 => Getversaddr(registration: Registration<'a>),
        /// Forwards a call and also returns its errors.
        10 => Indirect(call: RemoteCall<'a>),
        /// Queries the addresses over all transports.
        11 => Getaddrlist(registration: Registration<'a>),
        /// Requests statistics.
        12 => Getstat,
    }
}

impl<'a> Call<'a> {
    /// Decodes the arguments of a procedure of `version`, or returns `None` if that version has no
    /// such procedure.
    ///
    /// # Errors
    /// [`DecodeError`]; the server answers GARBAGE_ARGS.
    pub fn decode_in_version(
        version: u32,
        procedure: u32,
        reader: Reader<'a>,
    ) -> Result<Option<Self>, DecodeError> {
        // Version 4 only adds procedures, so one table serves both; in version 3 a call of a later
        // one is PROC_UNAVAIL and never decoded.
        if version != VERSION_4 && procedure > LAST_OF_VERSION_3 {
            return Ok(None);
        }
        Self::decode(procedure, reader)
    }
}
