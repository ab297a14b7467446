//! The results of the procedures of rpcbind. **Source:** RFC 1833 sections 2.1 and 2.2.
//!
//! Lists are passed on element by element when decoding and come from slices when encoding.

use super::{Netbuf, Registration};
use crate::error::DecodeError;
use crate::limits::RPCBIND_TEXT_BYTES_MAX;
use crate::portmap::{decode_each, encode_each};
use crate::wire::{Wire, wire_struct};
use crate::xdr::{Reader, Writer};

wire_struct! {
    /// One address of GETADDRLIST. **Source:** RFC 1833 section 2.1, rpcb_entry.
    pub struct AddressEntry<'a> {
        /// The universal address.
        address: &'a [u8] where len <= RPCBIND_TEXT_BYTES_MAX,
        /// The transport's name.
        netid: &'a [u8] where len <= RPCBIND_TEXT_BYTES_MAX,
        /// One of [`AddressEntry::DATAGRAMS`] and [`AddressEntry::STREAM`].
        semantics: u32,
        /// The protocol family, such as `inet` or `inet6`.
        family: &'a [u8] where len <= RPCBIND_TEXT_BYTES_MAX,
        /// The protocol, such as `tcp` or `udp`.
        protocol: &'a [u8] where len <= RPCBIND_TEXT_BYTES_MAX,
    }
}

impl AddressEntry<'_> {
    /// Connectionless. **Source:** RFC 1833 section 2.1, NC_TPI_CLTS.
    pub const DATAGRAMS: u32 = 1;
    /// A stream with an orderly end. **Source:** RFC 1833 section 2.1, NC_TPI_COTS_ORD.
    pub const STREAM: u32 = 3;
}

/// A reply with its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The result of NULL, which is empty.
    Null,
    /// Whether the registration was made or removed.
    Done(bool),
    /// The address of GETADDR, GETVERSADDR or TADDR2UADDR; empty if there is none.
    Address(&'a [u8]),
    /// All registrations of the server.
    Dump(&'a [Registration<'a>]),
    /// Seconds since 1970-01-01 UTC.
    Time(u32),
    /// An address in the server's own form; empty if the text was not an address.
    Binary(Netbuf<'a>),
    /// The addresses over every transport.
    Addresses(&'a [AddressEntry<'a>]),
}

impl Reply<'_> {
    /// Decodes the results of SET and UNSET.
    ///
    /// # Errors
    /// [`DecodeError`] if the results are not one boolean.
    pub fn decode_done(reader: Reader<'_>) -> Result<bool, DecodeError> {
        decode_only(reader)
    }

    /// Decodes the results of GETADDR, GETVERSADDR and TADDR2UADDR; empty means none.
    ///
    /// # Errors
    /// [`DecodeError`] if the results are not one text.
    pub fn decode_address(mut reader: Reader<'_>) -> Result<&[u8], DecodeError> {
        let text = reader.opaque(RPCBIND_TEXT_BYTES_MAX)?;
        reader.finish()?;
        Ok(text)
    }

    /// Decodes the results of GETTIME: seconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// [`DecodeError`] if the results are not one number.
    pub fn decode_time(reader: Reader<'_>) -> Result<u32, DecodeError> {
        decode_only(reader)
    }

    /// Decodes the results of UADDR2TADDR.
    ///
    /// # Errors
    /// [`DecodeError`] if the results are not one buffer.
    pub fn decode_binary(reader: Reader<'_>) -> Result<Netbuf<'_>, DecodeError> {
        decode_only(reader)
    }

    /// Calls `each` for every registration in the results of DUMP.
    ///
    /// # Errors
    /// [`DecodeError`] if the list is malformed; earlier elements have been passed on.
    pub fn decode_dump<'a>(
        reader: Reader<'a>,
        each: impl FnMut(Registration<'a>),
    ) -> Result<(), DecodeError> {
        decode_each(reader, each)
    }

    /// Calls `each` for every address in the results of GETADDRLIST.
    ///
    /// # Errors
    /// [`DecodeError`] if the list is malformed; earlier elements have been passed on.
    pub fn decode_addresses<'a>(
        reader: Reader<'a>,
        each: impl FnMut(AddressEntry<'a>),
    ) -> Result<(), DecodeError> {
        decode_each(reader, each)
    }

    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null => {}
            Self::Done(done) => writer.bool(*done),
            Self::Address(text) => writer.opaque(text),
            Self::Time(seconds) => writer.u32(*seconds),
            Self::Binary(netbuf) => netbuf.encode(writer),
            Self::Dump(registrations) => encode_each(registrations, writer),
            Self::Addresses(entries) => encode_each(entries, writer),
        }
    }
}

/// Decodes results that are a single value.
fn decode_only<'a, T: Wire<'a>>(mut reader: Reader<'a>) -> Result<T, DecodeError> {
    let value = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(value)
}
