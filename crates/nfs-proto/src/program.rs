//! The programs of this crate behind one call and one reply type.
//!
//! [`Call`] is a call of any program and procedure, and [`Reply`] is a server's answer.
//! [`OfferedPrograms`] lists the programs of a server, and so how it refuses all others.

use crate::error::DecodeError;
use crate::rpc::ProcedureId;
use crate::xdr::{Reader, Writer};
use crate::{RpcError, mount1, mount3, nfs2, nfs3, nfs4, portmap, rpcbind};

/// A call of any program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// NFS version 2.
    Nfs2(nfs2::Call<'a>),
    /// NFS version 3.
    Nfs3(nfs3::Call<'a>),
    /// NFS version 4; the minor version is in the compound.
    Nfs4(nfs4::Call<'a>),
    /// MOUNT version 1.
    Mount1(mount1::Call<'a>),
    /// MOUNT version 3.
    Mount3(mount3::Call<'a>),
    /// Portmap version 2.
    Portmap(portmap::Call<'a>),
    /// Rpcbind version 3.
    Rpcbind3(rpcbind::Call<'a>),
    /// Rpcbind version 4.
    Rpcbind4(rpcbind::Call<'a>),
}

impl<'a> Call<'a> {
    /// Returns program, version and procedure.
    pub const fn procedure_id(&self) -> ProcedureId {
        let (program, version, procedure) = match self {
            Self::Nfs2(call) => (nfs2::PROGRAM, nfs2::VERSION, call.procedure().number()),
            Self::Nfs3(call) => (nfs3::PROGRAM, nfs3::VERSION, call.procedure().number()),
            Self::Nfs4(call) => (nfs4::PROGRAM, nfs4::VERSION, call.procedure()),
            Self::Mount1(call) => (mount1::PROGRAM, mount1::VERSION, call.procedure()),
            Self::Mount3(call) => (mount3::PROGRAM, mount3::VERSION, call.procedure()),
            Self::Portmap(call) => (portmap::PROGRAM, portmap::VERSION, call.procedure()),
            Self::Rpcbind3(call) => (rpcbind::PROGRAM, rpcbind::VERSION_3, call.procedure()),
            Self::Rpcbind4(call) => (rpcbind::PROGRAM, rpcbind::VERSION_4, call.procedure()),
        };
        ProcedureId::new(program, version, procedure)
    }

    /// Appends the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Nfs2(call) => call.encode(writer),
            Self::Nfs3(call) => call.encode(writer),
            Self::Nfs4(call) => call.encode(writer),
            Self::Mount1(call) | Self::Mount3(call) => call.encode(writer),
            Self::Portmap(call) => call.encode(writer),
            Self::Rpcbind3(call) | Self::Rpcbind4(call) => call.encode(writer),
        }
    }

    /// Decodes the arguments of a procedure of one of the `offered` programs.
    ///
    /// # Errors
    /// The [`RpcError`] to answer with: unknown program, version or procedure, or bad arguments.
    #[inline]
    pub fn decode(
        offered: OfferedPrograms,
        id: ProcedureId,
        arguments: Reader<'a>,
    ) -> Result<Self, RpcError> {
        let ProcedureId { program, version, procedure } = id;
        // Measured calls take a shortcut: they are a few hundred bytes long, and each step in
        // between would move them again.
        if offered.nfs3 && (program, version) == (nfs3::PROGRAM, nfs3::VERSION) {
            let procedure = nfs3::Procedure::from_number(procedure);
            return match nfs3::Call::decode(
                procedure.ok_or(RpcError::ProcedureUnavailable)?,
                arguments,
            ) {
                Ok(call) => Ok(Self::Nfs3(call)),
                Err(_) => Err(RpcError::GarbageArguments),
            };
        }
        if offered.nfs4 && (program, version) == (nfs4::PROGRAM, nfs4::VERSION) {
            return match nfs4::Call::decode(procedure, arguments) {
                Ok(Some(call)) => Ok(Self::Nfs4(call)),
                Ok(None) => Err(RpcError::ProcedureUnavailable),
                Err(_) => Err(RpcError::GarbageArguments),
            };
        }
        offered.check(program, version)?;
        let call = match (program, version) {
            (nfs2::PROGRAM, nfs2::VERSION) => nfs2::Procedure::from_number(procedure)
                .map(|procedure| nfs2::Call::decode(procedure, arguments).map(Self::Nfs2))
                .transpose(),
            (mount1::PROGRAM, mount1::VERSION) => {
                map(mount1::Call::decode(procedure, arguments), Self::Mount1)
            }
            (mount3::PROGRAM, mount3::VERSION) => {
                map(mount3::Call::decode(procedure, arguments), Self::Mount3)
            }
            (portmap::PROGRAM, portmap::VERSION) => {
                map(portmap::Call::decode(procedure, arguments), Self::Portmap)
            }
            (rpcbind::PROGRAM, rpcbind::VERSION_3) => {
                map(rpcbind::Call::decode_in_version(version, procedure, arguments), Self::Rpcbind3)
            }
            (rpcbind::PROGRAM, rpcbind::VERSION_4) => {
                map(rpcbind::Call::decode_in_version(version, procedure, arguments), Self::Rpcbind4)
            }
            _ => return Err(RpcError::ProgramUnavailable),
        };
        match call {
            Ok(Some(call)) => Ok(call),
            Ok(None) => Err(RpcError::ProcedureUnavailable),
            Err(_) => Err(RpcError::GarbageArguments),
        }
    }
}

/// The programs that a server offers on one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one switch for each version of a program")]
pub struct OfferedPrograms {
    /// NFS version 2.
    pub nfs2: bool,
    /// NFS version 3.
    pub nfs3: bool,
    /// NFS version 4, whatever its minor versions.
    pub nfs4: bool,
    /// MOUNT version 1.
    pub mount1: bool,
    /// MOUNT version 3.
    pub mount3: bool,
    /// Portmap version 2.
    pub portmap: bool,
    /// Rpcbind versions 3 and 4.
    pub rpcbind: bool,
}

impl OfferedPrograms {
    /// All programs on one port.
    pub const ALL: Self = Self {
        nfs2: true,
        nfs3: true,
        nfs4: true,
        mount1: true,
        mount3: true,
        portmap: true,
        rpcbind: true,
    };

    /// No programs; to be filled in.
    pub const NONE: Self = Self {
        nfs2: false,
        nfs3: false,
        nfs4: false,
        mount1: false,
        mount3: false,
        portmap: false,
        rpcbind: false,
    };

    /// Returns all programs and versions of this crate, and whether they are offered.
    pub const fn table(self) -> [(u32, u32, bool); 8] {
        [
            (nfs2::PROGRAM, nfs2::VERSION, self.nfs2),
            (nfs3::PROGRAM, nfs3::VERSION, self.nfs3),
            (nfs4::PROGRAM, nfs4::VERSION, self.nfs4),
            (mount1::PROGRAM, mount1::VERSION, self.mount1),
            (mount3::PROGRAM, mount3::VERSION, self.mount3),
            (portmap::PROGRAM, portmap::VERSION, self.portmap),
            (rpcbind::PROGRAM, rpcbind::VERSION_3, self.rpcbind),
            (rpcbind::PROGRAM, rpcbind::VERSION_4, self.rpcbind),
        ]
    }

    /// Checks that a version of a program is offered.
    ///
    /// # Errors
    /// [`RpcError::ProgramMismatch`] with the lowest and the highest version offered, or
    /// [`RpcError::ProgramUnavailable`] if there is none.
    pub fn check(self, program: u32, version: u32) -> Result<(), RpcError> {
        // PROG_MISMATCH contains the lowest and the highest version available, so that a client can
        // choose another one; versions in between may be missing. PROG_UNAVAIL is the answer only
        // if no version is available. RFC 5531 section 9.
        let mut range: Option<(u32, u32)> = None;
        for (known, found, offered) in self.table() {
            if known != program || !offered {
                continue;
            }
            if found == version {
                return Ok(());
            }
            let (low, high) = range.unwrap_or((found, found));
            range = Some((low.min(found), high.max(found)));
        }
        let mismatch = |(low, high)| RpcError::ProgramMismatch { low, high };
        Err(range.map_or(RpcError::ProgramUnavailable, mismatch))
    }
}

/// A reply of any program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// NFS version 2.
    Nfs2(nfs2::Reply<'a>),
    /// NFS version 3.
    Nfs3(nfs3::Reply<'a>),
    /// NFS version 4.
    Nfs4(nfs4::Reply<'a>),
    /// MOUNT version 1.
    Mount1(mount1::Reply<'a>),
    /// MOUNT version 3.
    Mount3(mount3::Reply<'a>),
    /// Portmap version 2.
    Portmap(portmap::Reply<'a>),
    /// Rpcbind version 3 or 4.
    Rpcbind(rpcbind::Reply<'a>),
}

impl Reply<'_> {
    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Nfs2(reply) => reply.encode(writer),
            Self::Nfs3(reply) => reply.encode(writer),
            Self::Nfs4(reply) => reply.encode(writer),
            Self::Mount1(reply) => reply.encode(writer),
            Self::Mount3(reply) => reply.encode(writer),
            Self::Portmap(reply) => reply.encode(writer),
            Self::Rpcbind(reply) => reply.encode(writer),
        }
    }
}

fn map<C, T>(
    call: Result<Option<C>, DecodeError>,
    into: impl FnOnce(C) -> T,
) -> Result<Option<T>, DecodeError> {
    call.map(|call| call.map(into))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(offered: OfferedPrograms, program: u32, version: u32) -> Option<(u32, u32)> {
        match offered.check(program, version) {
            Err(RpcError::ProgramMismatch { low, high }) => Some((low, high)),
            Err(RpcError::ProgramUnavailable) => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_offered_versions_on_mismatch() {
        let nfs = nfs3::PROGRAM;
        let mount = mount3::PROGRAM;
        let portmap = portmap::PROGRAM;
        assert_eq!(refusal(OfferedPrograms::ALL, nfs, 5).map(|range| range.0), Some(2));
        assert_eq!(refusal(OfferedPrograms::ALL, mount, 2), Some((1, 3)));
        assert_eq!(refusal(OfferedPrograms::ALL, portmap, 5), Some((2, 4)));
        let only_3 = OfferedPrograms { nfs3: true, portmap: true, ..OfferedPrograms::NONE };
        assert_eq!(refusal(only_3, nfs, 2), Some((3, 3)));
        assert_eq!(refusal(only_3, portmap, 4), Some((2, 2)));
        assert_eq!(refusal(only_3, mount, 3), None);
        assert_eq!(refusal(OfferedPrograms::ALL, 4711, 1), None);
    }

    #[test]
    fn what_is_offered_is_found() {
        for (program, version, _) in OfferedPrograms::ALL.table() {
            assert_eq!(OfferedPrograms::ALL.check(program, version), Ok(()));
            let call = Call::decode(
                OfferedPrograms::ALL,
                ProcedureId::null(program, version),
                Reader::new(&[]),
            );
            let call = call.expect("every program has NULL");
            assert_eq!(call.procedure_id(), ProcedureId::null(program, version));
            let none = Call::decode(
                OfferedPrograms::ALL,
                ProcedureId::new(program, version, 99),
                Reader::new(&[]),
            );
            assert_eq!(none, Err(RpcError::ProcedureUnavailable));
        }
    }
}
