//! A blocking NFSv3 client for the control of one data server: one call at a time. It also asks
//! for the server's roles in v4.1.
//!
//! Calls are made as user 0, since they create files for other users.
//!
//! **Source:** RFC 1813, RFC 1833 section 3, RFC 5531, RFC 8881 section 18.35.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use nfs_proto::nfs3::{Call, FileHandle, Reply, Status};
use nfs_proto::nfs4::{
    self, ClientOwner, Compound, CompoundBuilder, CompoundReply, Op, OpOk, OpResult,
    StateProtection, Verifier,
};
use nfs_proto::record::{self, Inbox};
use nfs_proto::rpc::{AuthSys, CallHeader, Credential, Groups, RPC_VERSION, ReplyHeader};
use nfs_proto::xdr::{Reader, Writer};
use nfs_proto::{RpcError, mount3, portmap, program};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

/// User 0, who may set the owner of a file.
const ROOT: AuthSys<'static> =
    AuthSys { stamp: 0, machine_name: b"dfsbench", uid: 0, gid: 0, groups: Groups::EMPTY };
/// Ports that a server which requires reserved ports accepts. **Source:** Linux, IPPORT_RESERVED.
const RESERVED_PORTS: std::ops::Range<u16> = 700..1023;

/// See the module.
#[derive(Debug)]
pub(super) struct Caller {
    stream: TcpStream,
    inbox: Inbox,
    xid: u32,
}

impl Caller {
    pub(super) fn connect(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = connect_reserved(address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { stream, inbox: Inbox::default(), xid: 0 })
    }

    pub(super) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))?;
        self.stream.set_write_timeout(Some(timeout))
    }

    /// Returns another handle of the connection, to shut it down from another thread.
    pub(super) fn stream_handle(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }

    /// Makes a call of NFS v3 and hands its reply to `take`.
    ///
    /// # Errors
    /// If there is no reply; the connection can't be used any more.
    pub(super) fn nfs<T>(
        &mut self,
        call: Call<'_>,
        take: impl FnOnce(Reply<'_>) -> T,
    ) -> io::Result<T> {
        let procedure = call.procedure();
        self.call(&program::Call::Nfs3(call), |reader| {
            Reply::decode(procedure, reader).map(take).map_err(io::Error::other)
        })?
    }

    /// Looks up a name; `None` if it does not exist.
    ///
    /// # Errors
    /// If there is no reply, or another error in it.
    pub(super) fn lookup(&mut self, dir: &[u8], name: &[u8]) -> io::Result<Option<FileHandle>> {
        self.nfs(Call::Lookup { dir, name }, |reply| match reply {
            Reply::Lookup { result: Ok(found), .. } => Ok(Some(found.file)),
            Reply::Lookup { result: Err(Status::NoEnt), .. } => Ok(None),
            Reply::Lookup { result: Err(status), .. } => Err(refused("LOOKUP", status)),
            _ => Err(ErrorKind::InvalidData.into()),
        })?
    }

    /// Asks for the root handle of an export, on this port or that of its MOUNT service.
    ///
    /// # Errors
    /// If there is no reply, or it refuses the mount.
    pub(super) fn mount(
        &mut self,
        address: SocketAddr,
        export: &str,
        timeout: Duration,
    ) -> io::Result<FileHandle> {
        match self.mount_here(export)? {
            Ok(root) => Ok(root),
            Err(RpcError::ProgramUnavailable) => {
                let portmapper = SocketAddr::new(address.ip(), portmap::PORT);
                let port = Self::connect(portmapper, timeout)?.mount_port()?;
                let mut mounter = Self::connect(SocketAddr::new(address.ip(), port), timeout)?;
                mounter.mount_here(export)?.map_err(io::Error::other)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn mount_here(&mut self, export: &str) -> io::Result<Result<FileHandle, RpcError>> {
        let call = mount3::Call::Mnt(export.as_bytes());
        self.try_call(&program::Call::Mount3(call), |reader| {
            match mount3::Reply::decode_mnt(reader).map_err(io::Error::other)? {
                Ok(mounted) => Ok(mounted.root),
                Err(status) => {
                    Err(io::Error::other(format!("MOUNT of {export} was refused: {status}")))
                }
            }
        })
    }

    fn mount_port(&mut self) -> io::Result<u16> {
        let mapping = portmap::Mapping {
            program: mount3::PROGRAM,
            version: mount3::VERSION,
            protocol: portmap::PROTOCOL_TCP,
            port: 0,
        };
        let call = program::Call::Portmap(portmap::Call::Getport(mapping));
        let port = self.call(&call, |mut reader| reader.u32().map_err(io::Error::other))??;
        match u16::try_from(port) {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(io::Error::other("MOUNT is not registered")),
        }
    }

    /// Registers as a client of v4.1; returns the flags with the server's roles in pNFS, or `None`
    /// if it does not speak v4.1.
    ///
    /// # Errors
    /// If there is no reply, or another error in it.
    pub(super) fn roles(&mut self) -> io::Result<Option<u32>> {
        let owner = ClientOwner { verifier: Verifier::default(), id: b"dfsbench metadata server" };
        let protection = StateProtection::None;
        let op = Op::ExchangeId { owner, flags: 0, protection, implementation: None };
        let mut ops = Vec::new();
        let mut builder = CompoundBuilder::new(&mut ops, b"", 1);
        builder.push(&op);
        builder.finish();
        let compound = Compound::decode(Reader::new(&ops)).map_err(io::Error::other)?;
        let call = program::Call::Nfs4(nfs4::Call::Compound(compound));
        let answer = self.try_call(&call, |reader| {
            let reply = CompoundReply::decode(reader).map_err(io::Error::other)?;
            if reply.status == Status::MinorVersMismatch {
                return Ok(None);
            }
            match reply.results().next_result().map_err(io::Error::other)? {
                Some(OpResult::Ok(OpOk::ExchangeId { flags, .. })) => Ok(Some(flags)),
                _ => Err(refused("EXCHANGE_ID", reply.status)),
            }
        })?;
        match answer {
            Ok(roles) => Ok(roles),
            Err(RpcError::ProgramMismatch { .. } | RpcError::ProgramUnavailable) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn call<T>(
        &mut self,
        call: &program::Call<'_>,
        take: impl FnOnce(Reader<'_>) -> T,
    ) -> io::Result<T> {
        self.try_call(call, |reader| Ok(take(reader)))?.map_err(io::Error::other)
    }

    fn try_call<T>(
        &mut self,
        call: &program::Call<'_>,
        take: impl FnOnce(Reader<'_>) -> io::Result<T>,
    ) -> io::Result<Result<T, RpcError>> {
        self.xid = self.xid.wrapping_add(1);
        let id = call.procedure_id();
        let header = CallHeader {
            xid: self.xid,
            rpc_version: RPC_VERSION,
            program: id.program,
            version: id.version,
            procedure: id.procedure,
            credential: Ok(Credential::Sys(ROOT)),
        };
        let mut out = Vec::new();
        let mark = record::begin(&mut out);
        let mut writer = Writer::new(&mut out);
        header.encode(&mut writer);
        call.encode(&mut writer);
        record::end(&mut out, mark, 0);
        self.stream.write_all(&out)?;
        loop {
            while let Some(reply) = self.inbox.next_record().map_err(io::Error::other)? {
                let mut reader = Reader::new(reply);
                let header = ReplyHeader::decode(&mut reader).map_err(io::Error::other)?;
                if header.xid != self.xid {
                    continue;
                }
                return match header.result {
                    Ok(()) => take(reader).map(Ok),
                    Err(error) => Ok(Err(error)),
                };
            }
            match self.stream.read(self.inbox.free_space(1 << 16)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.inbox.mark_filled(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The error for a status that the control can't handle.
pub(super) fn refused(procedure: &str, status: Status) -> io::Error {
    let name = status.name_in(nfs_proto::ProtocolVersion::V3);
    io::Error::other(format!("{procedure} failed with {name}"))
}

/// Connects from a reserved port if the system allows it: some servers require one.
fn connect_reserved(address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    if !rustix::process::geteuid().is_root() || address.ip().is_loopback() {
        return TcpStream::connect_timeout(&address, timeout);
    }
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let local: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    for port in RESERVED_PORTS {
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
        match bind(&socket, &SocketAddr::new(local, port)) {
            Err(Errno::ADDRINUSE) => continue,
            Err(_) => break,
            Ok(()) => {}
        }
        match connect(&socket, &address) {
            // Another connection from this port to that address has ended a short time ago.
            Err(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => {}
            Err(error) => return Err(error.into()),
            Ok(()) => return Ok(TcpStream::from(socket)),
        }
    }
    TcpStream::connect_timeout(&address, timeout)
}
