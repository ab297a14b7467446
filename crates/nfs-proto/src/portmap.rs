//! Portmap version 2: which port a program listens on.
//!
//! [`Call`] covers all six procedures; [`Reply`] has no results for CALLIT, which no server of ours
//! passes on. **Source:** RFC 1833 section 3.

use crate::error::DecodeError;
use crate::rpcbind::RemoteCall;
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

/// A registration of the portmapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// Number of the program.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// [`PROTOCOL_TCP`] or [`PROTOCOL_UDP`].
    pub protocol: u32,
    /// Number of the port.
    pub port: u32,
}

impl Mapping {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (program, version) = (reader.u32()?, reader.u32()?);
        Ok(Self { program, version, protocol: reader.u32()?, port: reader.u32()? })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        for word in [self.program, self.version, self.protocol, self.port] {
            writer.u32(word);
        }
    }
}

/// A call with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// Does nothing at all.
    Null,
    /// Registers a program.
    Set(Mapping),
    /// Removes a registration.
    Unset(Mapping),
    /// Asks for a port; the port in the mapping is ignored.
    Getport(Mapping),
    /// Asks for all registrations.
    Dump,
    /// Passes a call on to another program.
    Callit(RemoteCall<'a>),
}

impl<'a> Call<'a> {
    /// Returns the procedure number.
    pub const fn procedure(&self) -> u32 {
        match self {
            Self::Null => 0,
            Self::Set(_) => 1,
            Self::Unset(_) => 2,
            Self::Getport(_) => 3,
            Self::Dump => 4,
            Self::Callit(_) => 5,
        }
    }

    /// Reads the arguments of a procedure, or returns `None` when there is no such procedure.
    ///
    /// # Errors
    /// [`DecodeError`]; the server answers GARBAGE_ARGS.
    pub fn decode(procedure: u32, mut reader: Reader<'a>) -> Result<Option<Self>, DecodeError> {
        let call = match procedure {
            0 => Self::Null,
            1 => Self::Set(Mapping::decode(&mut reader)?),
            2 => Self::Unset(Mapping::decode(&mut reader)?),
            3 => Self::Getport(Mapping::decode(&mut reader)?),
            4 => Self::Dump,
            5 => Self::Callit(RemoteCall::decode(&mut reader)?),
            _ => return Ok(None),
        };
        reader.finish()?;
        Ok(Some(call))
    }

    /// Appends the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null | Self::Dump => {}
            Self::Set(mapping) | Self::Unset(mapping) | Self::Getport(mapping) => {
                mapping.encode(writer);
            }
            Self::Callit(call) => call.encode(writer),
        }
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
    /// The port, or 0 when the program is not registered.
    Getport(u32),
    /// All registrations of the server.
    Dump(&'a [Mapping]),
}

impl Reply<'_> {
    /// Reads the port in the results of GETPORT.
    ///
    /// # Errors
    /// [`DecodeError`] when the results are not one port number.
    pub fn decode_getport(mut reader: Reader<'_>) -> Result<u16, DecodeError> {
        let value = reader.u32()?;
        reader.finish()?;
        u16::try_from(value).map_err(|_| DecodeError::BadValue { what: "port", value })
    }

    /// Calls `each` for every registration in the results of DUMP.
    ///
    /// # Errors
    /// [`DecodeError`] when the list is malformed; the elements before the fault were passed on.
    pub fn decode_dump(
        mut reader: Reader<'_>,
        mut each: impl FnMut(Mapping),
    ) -> Result<(), DecodeError> {
        while reader.bool("mapping_follows")? {
            each(Mapping::decode(&mut reader)?);
        }
        reader.finish()
    }

    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Null => {}
            Self::Set(done) | Self::Unset(done) => writer.bool(*done),
            Self::Getport(port) => writer.u32(*port),
            Self::Dump(mappings) => {
                for mapping in *mappings {
                    writer.bool(true);
                    mapping.encode(writer);
                }
                writer.bool(false);
            }
        }
    }
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
