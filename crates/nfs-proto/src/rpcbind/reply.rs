//! The results of the procedures of rpcbind. **Source:** RFC 1833 sections 2.1 and 2.2.
//!
//! Lists are passed on element by element on input and come from slices on output.

use super::{Netbuf, Registration};
use crate::error::DecodeError;
use crate::limits::RPCBIND_TEXT_BYTES_MAX;
use crate::xdr::{Reader, Writer};

/// One address of GETADDRLIST. **Source:** RFC 1833 section 2.1, rpcb_entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressEntry<'a> {
    /// The universal address.
    pub address: &'a [u8],
    /// The transport's name.
    pub netid: &'a [u8],
    /// One of [`AddressEntry::DATAGRAMS`] and [`AddressEntry::STREAM`].
    pub semantics: u32,
    /// The protocol family, such as `inet` or `inet6`.
    pub family: &'a [u8],
    /// The protocol, such as `tcp` or `udp`.
    pub protocol: &'a [u8],
}

impl<'a> AddressEntry<'a> {
    /// Connectionless. **Source:** RFC 1833 section 2.1, NC_TPI_CLTS.
    pub const DATAGRAMS: u32 = 1;
    /// A stream with an orderly end. **Source:** RFC 1833 section 2.1, NC_TPI_COTS_ORD.
    pub const STREAM: u32 = 3;

    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let address = reader.opaque(RPCBIND_TEXT_BYTES_MAX)?;
        let netid = reader.opaque(RPCBIND_TEXT_BYTES_MAX)?;
        let semantics = reader.u32()?;
        let family = reader.opaque(RPCBIND_TEXT_BYTES_MAX)?;
        let protocol = reader.opaque(RPCBIND_TEXT_BYTES_MAX)?;
        Ok(Self { address, netid, semantics, family, protocol })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(self.address);
        writer.opaque(self.netid);
        writer.u32(self.semantics);
        writer.opaque(self.family);
        writer.opaque(self.protocol);
    }
}

/// A reply with its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The result of NULL, which is empty.
    Null,
    /// Whether the registration was made or removed.
    Done(bool),
    /// An address, of GETADDR, GETVERSADDR and TADDR2UADDR; empty when there is none.
    Address(&'a [u8]),
    /// All registrations of the server.
    Dump(&'a [Registration<'a>]),
    /// Seconds since 1970-01-01 UTC.
    Time(u32),
    /// An address in the server's own form; empty when the text was none.
    Binary(Netbuf<'a>),
    /// The addresses over every transport.
    Addresses(&'a [AddressEntry<'a>]),
}

impl Reply<'_> {
    /// Reads the results of SET and UNSET.
    ///
    /// # Errors
    /// [`DecodeError`] when the results are not one boolean.
    pub fn decode_done(mut reader: Reader<'_>) -> Result<bool, DecodeError> {
        let done = reader.bool("rpcbind result")?;
        reader.finish()?;
        Ok(done)
    }

    /// Reads the results of GETADDR, GETVERSADDR and TADDR2UADDR; empty means none.
    ///
    /// # Errors
    /// [`DecodeError`] when the results are not one text.
    pub fn decode_address(mut reader: Reader<'_>) -> Result<&[u8], DecodeError> {
        let text = reader.opaque(RPCBIND_TEXT_BYTES_MAX)?;
        reader.finish()?;
        Ok(text)
    }

    /// Reads the results of GETTIME: seconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// [`DecodeError`] when the results are not one number.
    pub fn decode_time(mut reader: Reader<'_>) -> Result<u32, DecodeError> {
        let seconds = reader.u32()?;
        reader.finish()?;
        Ok(seconds)
    }

    /// Reads the results of UADDR2TADDR.
    ///
    /// # Errors
    /// [`DecodeError`] when the results are not one buffer.
    pub fn decode_binary(mut reader: Reader<'_>) -> Result<Netbuf<'_>, DecodeError> {
        let netbuf = Netbuf::decode(&mut reader)?;
        reader.finish()?;
        Ok(netbuf)
    }

    /// Calls `each` for every registration in the results of DUMP.
    ///
    /// # Errors
    /// [`DecodeError`] when the list is malformed; the elements before the fault were passed on.
    pub fn decode_dump<'a>(
        mut reader: Reader<'a>,
        mut each: impl FnMut(Registration<'a>),
    ) -> Result<(), DecodeError> {
        while reader.bool("registration_follows")? {
            each(Registration::decode(&mut reader)?);
        }
        reader.finish()
    }

    /// Calls `each` for every address in the results of GETADDRLIST.
    ///
    /// # Errors
    /// [`DecodeError`] when the list is malformed; the elements before the fault were passed on.
    pub fn decode_addresses<'a>(
        mut reader: Reader<'a>,
        mut each: impl FnMut(AddressEntry<'a>),
    ) -> Result<(), DecodeError> {
        while reader.bool("address_follows")? {
            each(AddressEntry::decode(&mut reader)?);
        }
        reader.finish()
    }

    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null => {}
            Self::Done(done) => writer.bool(*done),
            Self::Address(text) => writer.opaque(text),
            Self::Time(seconds) => writer.u32(*seconds),
            Self::Binary(netbuf) => netbuf.encode(writer),
            Self::Dump(registrations) => {
                for registration in *registrations {
                    writer.bool(true);
                    registration.encode(writer);
                }
                writer.bool(false);
            }
            Self::Addresses(entries) => {
                for entry in *entries {
                    writer.bool(true);
                    entry.encode(writer);
                }
                writer.bool(false);
            }
        }
    }
}
