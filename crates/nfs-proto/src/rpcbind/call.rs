//! The arguments of the procedures of rpcbind. **Source:** RFC 1833 sections 2.1 and 2.2.
//!
//! [`Call`] is a view. Procedures 9 to 12 exist in version 4 only.

use super::VERSION_4;
use crate::error::DecodeError;
use crate::limits::{RPCBIND_TEXT_BYTES_MAX, TRANSFER_BYTES_MAX};
use crate::xdr::{Reader, Writer};

/// One registration. **Source:** RFC 1833 section 2.1, rpcb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration<'a> {
    /// Number of the program.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// The transport's name, see [`super::NetId`].
    pub netid: &'a [u8],
    /// The universal address, see [`super::UniversalAddress`].
    pub address: &'a [u8],
    /// Who registered it.
    pub owner: &'a [u8],
}

impl<'a> Registration<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (program, version) = (reader.u32()?, reader.u32()?);
        let mut text = || reader.opaque(RPCBIND_TEXT_BYTES_MAX);
        Ok(Self { program, version, netid: text()?, address: text()?, owner: text()? })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.program);
        writer.u32(self.version);
        for text in [self.netid, self.address, self.owner] {
            writer.opaque(text);
        }
    }
}

/// A call to be passed on to another program, as CALLIT, BCAST and INDIRECT carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteCall<'a> {
    /// Number of the program.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Number of the procedure.
    pub procedure: u32,
    /// The encoded arguments.
    pub arguments: &'a [u8],
}

impl<'a> RemoteCall<'a> {
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (program, version) = (reader.u32()?, reader.u32()?);
        let procedure = reader.u32()?;
        Ok(Self { program, version, procedure, arguments: reader.opaque(TRANSFER_BYTES_MAX)? })
    }

    pub(crate) fn encode(&self, writer: &mut Writer<'_>) {
        for word in [self.program, self.version, self.procedure] {
            writer.u32(word);
        }
        writer.opaque(self.arguments);
    }
}

/// An address in the server's own binary form. **Source:** RFC 1833 section 2.1, netbuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Netbuf<'a> {
    /// The size of the buffer it was in, in bytes.
    pub bytes_max: u32,
    /// Bytes of the address.
    pub bytes: &'a [u8],
}

impl<'a> Netbuf<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { bytes_max: reader.u32()?, bytes: reader.opaque(RPCBIND_TEXT_BYTES_MAX)? })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.bytes_max);
        writer.opaque(self.bytes);
    }
}

/// A call with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// Does nothing at all.
    Null,
    /// Registers a program.
    Set(Registration<'a>),
    /// Removes a registration.
    Unset(Registration<'a>),
    /// Asks for the address of a program, in any version where this one isn't there.
    Getaddr(Registration<'a>),
    /// Asks for all registrations.
    Dump,
    /// Passes a call on: CALLIT of version 3, BCAST of version 4.
    Broadcast(RemoteCall<'a>),
    /// Asks for the server's time.
    Gettime,
    /// Turns a universal address into the server's own form.
    ToBinary(&'a [u8]),
    /// Turns an address in the server's own form into text.
    ToText(Netbuf<'a>),
    /// Asks for the address of exactly this version.
    Getversaddr(Registration<'a>),
    /// Passes a call on and wants its errors too.
    Indirect(RemoteCall<'a>),
    /// Asks for the addresses over every transport.
    Getaddrlist(Registration<'a>),
    /// Asks for statistics.
    Getstat,
}

impl<'a> Call<'a> {
    /// Returns the procedure number.
    pub const fn procedure(&self) -> u32 {
        match self {
            Self::Null => 0,
            Self::Set(_) => 1,
            Self::Unset(_) => 2,
            Self::Getaddr(_) => 3,
            Self::Dump => 4,
            Self::Broadcast(_) => 5,
            Self::Gettime => 6,
            Self::ToBinary(_) => 7,
            Self::ToText(_) => 8,
            Self::Getversaddr(_) => 9,
            Self::Indirect(_) => 10,
            Self::Getaddrlist(_) => 11,
            Self::Getstat => 12,
        }
    }

    /// Reads the arguments of a procedure of `version`, or returns `None` when there is no such
    /// procedure.
    ///
    /// # Errors
    /// [`DecodeError`]; the server answers GARBAGE_ARGS.
    pub fn decode(
        version: u32,
        procedure: u32,
        mut reader: Reader<'a>,
    ) -> Result<Option<Self>, DecodeError> {
        let from = &mut reader;
        let call = match procedure {
            0 => Self::Null,
            1 => Self::Set(Registration::decode(from)?),
            2 => Self::Unset(Registration::decode(from)?),
            3 => Self::Getaddr(Registration::decode(from)?),
            4 => Self::Dump,
            5 => Self::Broadcast(RemoteCall::decode(from)?),
            6 => Self::Gettime,
            7 => Self::ToBinary(from.opaque(RPCBIND_TEXT_BYTES_MAX)?),
            8 => Self::ToText(Netbuf::decode(from)?),
            _ if version != VERSION_4 => return Ok(None),
            9 => Self::Getversaddr(Registration::decode(from)?),
            10 => Self::Indirect(RemoteCall::decode(from)?),
            11 => Self::Getaddrlist(Registration::decode(from)?),
            12 => Self::Getstat,
            _ => return Ok(None),
        };
        reader.finish()?;
        Ok(Some(call))
    }

    /// Appends the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null | Self::Dump | Self::Gettime | Self::Getstat => {}
            Self::Set(registration)
            | Self::Unset(registration)
            | Self::Getaddr(registration)
            | Self::Getversaddr(registration)
            | Self::Getaddrlist(registration) => registration.encode(writer),
            Self::Broadcast(call) | Self::Indirect(call) => call.encode(writer),
            Self::ToBinary(text) => writer.opaque(text),
            Self::ToText(netbuf) => netbuf.encode(writer),
        }
    }
}
