//! The programs of this crate behind one call and one reply type.
//!
//! [`Call`] says which program and procedure an RPC goes to, and [`Reply`] is what comes back from
//! a server. NFS v2 and v4 will be further variants.

use crate::error::DecodeError;
use crate::xdr::{Reader, Writer};
use crate::{RpcError, mount3, nfs3, portmap};

/// A call of any program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// NFS version 3.
    Nfs3(nfs3::Call<'a>),
    /// MOUNT version 3.
    Mount3(mount3::Call<'a>),
    /// Portmap version 2.
    Portmap(portmap::Call),
}

impl<'a> Call<'a> {
    /// Returns program, version and procedure.
    pub const fn numbers(&self) -> (u32, u32, u32) {
        match self {
            Self::Nfs3(call) => (nfs3::PROGRAM, nfs3::VERSION, call.procedure().number()),
            Self::Mount3(call) => (mount3::PROGRAM, mount3::VERSION, call.procedure()),
            Self::Portmap(call) => (portmap::PROGRAM, portmap::VERSION, call.procedure()),
        }
    }

    /// Appends the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Nfs3(call) => call.encode(writer),
            Self::Mount3(call) => call.encode(writer),
            Self::Portmap(call) => call.encode(writer),
        }
    }

    /// Reads the arguments of a procedure of one of the `offered` programs.
    ///
    /// # Errors
    /// The [`RpcError`] to answer with: unknown program, version or procedure, or bad arguments.
    pub fn decode(
        offered: Offered,
        numbers: (u32, u32, u32),
        arguments: Reader<'a>,
    ) -> Result<Self, RpcError> {
        let (program, version, procedure) = numbers;
        let expect = |low: u32| {
            if version == low { Ok(()) } else { Err(RpcError::ProgramMismatch { low, high: low }) }
        };
        match program {
            nfs3::PROGRAM if offered.nfs3 => {
                expect(nfs3::VERSION)?;
                let procedure = nfs3::Procedure::from_number(procedure)
                    .ok_or(RpcError::ProcedureUnavailable)?;
                nfs3::Call::decode(procedure, arguments)
                    .map(Self::Nfs3)
                    .map_err(|_| RpcError::GarbageArguments)
            }
            mount3::PROGRAM if offered.mount3 => {
                expect(mount3::VERSION)?;
                offer(mount3::Call::decode(procedure, arguments)).map(Self::Mount3)
            }
            portmap::PROGRAM if offered.portmap => {
                expect(portmap::VERSION)?;
                offer(portmap::Call::decode(procedure, arguments)).map(Self::Portmap)
            }
            _ => Err(RpcError::ProgramUnavailable),
        }
    }
}

/// The programs that a server offers on one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// NFS version 3.
    pub nfs3: bool,
    /// MOUNT version 3.
    pub mount3: bool,
    /// Portmap version 2.
    pub portmap: bool,
}

impl Offered {
    /// All programs on one port.
    pub const ALL: Self = Self { nfs3: true, mount3: true, portmap: true };
}

/// A reply of any program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// NFS version 3.
    Nfs3(nfs3::Reply<'a>),
    /// MOUNT version 3.
    Mount3(mount3::Reply<'a>),
    /// Portmap version 2.
    Portmap(portmap::Reply<'a>),
}

impl Reply<'_> {
    /// Appends the results.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Nfs3(reply) => reply.encode(writer),
            Self::Mount3(reply) => reply.encode(writer),
            Self::Portmap(reply) => reply.encode(writer),
        }
    }
}

fn offer<T>(call: Result<Option<T>, DecodeError>) -> Result<T, RpcError> {
    match call {
        Ok(Some(call)) => Ok(call),
        Ok(None) => Err(RpcError::ProcedureUnavailable),
        Err(_) => Err(RpcError::GarbageArguments),
    }
}
