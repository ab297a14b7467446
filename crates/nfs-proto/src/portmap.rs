//! Portmap version 2: the port a program listens on.
//!
//! [`Call`] covers all six procedures; [`Reply`] has no results for CALLIT, which our servers do
//! not forward. **Source:** RFC 1833 section 3.

use crate::error::DecodeError;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::wire::{Wire, numbered_calls, wire_struct};
use crate::xdr::{Reader, Writer};

/// The program number. **Source:** RFC 1833 section 3.1.
pub const PROGRAM: u32 = 100_000;
/// The version. **Source:** RFC 1833 section 3.1.
pub const VERSION: u32 = 2;
/// The port the portmapper itself listens on. **Source:** RFC 1833 section 3.2.
pub const PORT: u16 = 111;
/// The protocol number of TCP in a mapping. **Source:** RFC 1833 section 3.1.
pub const PROTOCOL_TCP: u32 = 6;
/// The protocol number of UDP in a mapping. **Source:** RFC 1833 section 3.1.
pub const PROTOCOL_UDP: u32 = 17;

wire_struct! {
    /// A registration of the portmapper.
    pub struct Mapping {
        /// Number of the program.
        program: u32,
        /// Version of the program.
        version: u32,
        /// [`PROTOCOL_TCP`] or [`PROTOCOL_UDP`].
        protocol: u32,
        /// Number of the port.
        port: u32,
    }
}

wire_struct! {
    /// A call to be forwarded to another program, as in CALLIT, BCAST and INDIRECT.
    pub struct RemoteCall<'a> {
        /// Number of the program.
        program: u32,
        /// Version of the program.
        version: u32,
        /// Number of the procedure.
        procedure: u32,
        /// The encoded arguments.
        arguments: &'a [u8] where len <= TRANSFER_BYTES_MAX,
    }
}

numbered_calls! {
    /// A call with its arguments.
    pub enum Call<'a> {
        /// Does nothing at all.
        0 => Null,
        /// Registers a program.
        1 => Set(mapping: Mapping),
        /// Removes a registration.
        2 => Unset(mapping: Mapping),
        /// Queries a port; the port in the mapping is ignored.
        3 => Getport(mapping: Mapping),
        /// Requests all registrations.
        4 => Dump,
        /// Forwards a call to another program.
        5 => Callit(call: RemoteCall<'a>),
    }
}

/// A reply with its results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The result of NULL, which is empty.
    Null,
    /// Whether the registration was made.
    Set(bool),
    /// Whether the registration was removed.
    Unset(bool),
    /// The port, or 0 if the program is not registered.
    Getport(u32),
    /// All registrations of the server.
    Dump(&'a [Mapping]),
}

impl Reply<'_> {
    /// Decodes the port in the results of GETPORT.
    ///
    /// # Errors
    /// [`DecodeError`] if the results are not one port number.
    pub fn decode_getport(mut reader: Reader<'_>) -> Result<u16, DecodeError> {
        let value = reader.u32()?;
        reader.finish()?;
        // The field has 32 bits and a port 16: a larger number is the server's error and is never
        // truncated.
        u16::try_from(value).map_err(|_| DecodeError::BadValue { what: "port", value })
    }

    /// Calls `each` for every registration in the results of DUMP.
    ///
    /// # Errors
    /// [`DecodeError`] if the list is malformed; earlier elements have been passed on.
    pub fn decode_dump(reader: Reader<'_>, each: impl FnMut(Mapping)) -> Result<(), DecodeError> {
        decode_each(reader, each)
    }

    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null => {}
            Self::Set(done) | Self::Unset(done) => writer.bool(*done),
            Self::Getport(port) => writer.u32(*port),
            Self::Dump(mappings) => encode_each(mappings, writer),
        }
    }
}

/// Calls `each` for every element of a linked list that ends the message.
pub(crate) fn decode_each<'a, T: Wire<'a>>(
    mut reader: Reader<'a>,
    mut each: impl FnMut(T),
) -> Result<(), DecodeError> {
    // XDR encodes a list of unknown length as nested optionals: a word 1 before each element, and 0
    // at the end. Its length is not announced, so it can only be walked.
    while reader.bool("element_follows")? {
        each(T::decode(&mut reader)?);
    }
    reader.finish()
}

/// Appends a linked list of these elements.
pub(crate) fn encode_each<'a, T: Wire<'a>>(elements: &[T], writer: &mut Writer<'_>) {
    for element in elements {
        writer.bool(true);
        element.encode(writer);
    }
    writer.bool(false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_replies_come_back() {
        let mapping = Mapping { program: 100_003, version: 3, protocol: PROTOCOL_TCP, port: 2049 };
        let calls = [
            Call::Null,
            Call::Set(mapping),
            Call::Unset(mapping),
            Call::Getport(mapping),
            Call::Dump,
            Call::Callit(RemoteCall { program: 1, version: 2, procedure: 3, arguments: b"args5" }),
        ];
        for call in calls {
            let mut out = Vec::new();
            call.encode(&mut Writer::new(&mut out));
            assert_eq!(Call::decode(call.procedure(), Reader::new(&out)), Ok(Some(call)));
        }
        assert_eq!(Call::decode(6, Reader::new(&[])), Ok(None));

        let mut out = Vec::new();
        Reply::Dump(&[mapping, mapping]).encode(&mut Writer::new(&mut out));
        let mut seen = Vec::new();
        Reply::decode_dump(Reader::new(&out), |mapping| seen.push(mapping)).unwrap();
        assert_eq!(seen, [mapping, mapping]);
        out.clear();
        Reply::Getport(2049).encode(&mut Writer::new(&mut out));
        assert_eq!(Reply::decode_getport(Reader::new(&out)), Ok(2049));
        assert!(Reply::decode_getport(Reader::new(&[0, 1, 0, 0])).is_err());
    }
}
