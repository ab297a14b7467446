//! A whole server under a list of steps, over sockets on loopback.
//!
//! The fuzzer generates a [`Run`]: operations as our client sends them, calls of every program with
//! arbitrary arguments, garbage, and restarts. Every call must be answered, whatever was sent
//! before on other connections; memory stays below its limit; and the server's counters agree with
//! the calls sent. Each run has its own server, so that a failing input can be reproduced.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use arbitrary::Arbitrary;
use nfs_proto::client::{Chunk, Config, File, Framing, PayloadMode, ProtocolVersion, Session};
use nfs_proto::program::{Call, OfferedPrograms};
use nfs_proto::record::{Inbox, append_fragmented};
use nfs_proto::rpc::{
    AuthSys, CallHeader, Credential, Groups, ProcedureId, RPC_VERSION, ReplyHeader,
};
use nfs_proto::xdr::{Reader, Writer};
use nfs_proto::{mount3, nfs3};
use nfs_server::{Portmap, Server, ServerConfig};
use rustix::net::sockopt::set_socket_linger;

use crate::client::{Subject, make_operation};

/// Maximum size of the store, in bytes.
pub(crate) const MEMORY_BYTES_MAX: u64 = 1 << 20;
/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
const STEPS_MAX: usize = 60;
const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"..", b""];
const TRANSFER_BYTES_MAX: u32 = 32 * 1024;

/// A client and its steps.
#[derive(Arbitrary, Clone, Debug)]
pub struct Run<'a> {
    /// Whether it uses v2 rather than v3.
    pub old: bool,
    /// Steps of the session.
    pub steps: Vec<Step<'a>>,
}

/// One thing that a client does.
#[derive(Arbitrary, Clone, Debug)]
pub enum Step<'a> {
    /// An operation on files seen before.
    Operate {
        /// Selects the kind, as in [`crate::client`].
        kind: u8,
        /// Selects the file.
        on: u8,
        /// Selects the second file.
        to: u8,
        /// Selects the name.
        name: u8,
        /// Offset in the file.
        offset: u32,
        /// Number of bytes.
        count: u16,
        /// Whether to damage the handle first.
        damaged: bool,
    },
    /// A call with arbitrary arguments.
    Call {
        /// Selects a row of [`OfferedPrograms::table`].
        program: u8,
        /// Selects the procedure.
        procedure: u8,
        /// Arguments of the call.
        arguments: &'a [u8],
        /// Size of the call's fragments; 0 for a single one.
        fragment_bytes: u8,
    },
    /// The same as a datagram.
    Datagram {
        /// Selects a row of [`OfferedPrograms::table`].
        program: u8,
        /// Selects the procedure.
        procedure: u8,
        /// Arguments of the call.
        arguments: &'a [u8],
    },
    /// Bytes on a separate connection.
    Garbage(&'a [u8]),
    /// Restarts the server.
    Restart,
}

struct Rig {
    server: Server,
    stream: Stream,
    session: Session,
    files: Vec<File>,
    xid: u32,
    answered: u64,
    all_counted: bool,
}

/// Executes all steps and checks the server at the end.
pub fn check_server(run: &Run<'_>) {
    let mut rig = Rig::new(if run.old { ProtocolVersion::V2 } else { ProtocolVersion::V3 });
    for step in run.steps.iter().take(STEPS_MAX) {
        rig.make_step(step);
    }
    rig.check_at_end();
}

impl Rig {
    fn new(version: ProtocolVersion) -> Self {
        let server = start_server();
        let stream = Stream::connect_to(server.address());
        let session = Session::new(&Config {
            version,
            framing: Framing::Record,
            credential: Credential::Sys(root_user()),
            payload: PayloadMode::Keep { bytes_max: TRANSFER_BYTES_MAX },
            ..Config::default()
        });
        let mut rig = Self {
            server,
            stream,
            session,
            files: Vec::new(),
            xid: 1 << 30,
            answered: 0,
            all_counted: true,
        };
        let root = rig.mount_export(version);
        rig.files.push(root);
        rig
    }

    fn mount_export(&mut self, version: ProtocolVersion) -> File {
        let mount = mount3::Call::Mnt(b"/export");
        let is_v2 = version == ProtocolVersion::V2;
        let call = if is_v2 { Call::Mount1(mount) } else { Call::Mount3(mount) };
        let mut arguments = Vec::new();
        call.encode(&mut Writer::new(&mut arguments));
        let record = self.build_call(call.procedure_id(), &arguments);
        self.stream.send_record(&record, 0);
        self.answered += 1;
        let reply = self.stream.receive_record();
        let mut reader = Reader::new(&reply);
        ReplyHeader::decode(&mut reader).expect("a reply");
        if is_v2 {
            let mounted = nfs_proto::mount1::Reply::decode_mnt(reader);
            return mounted.expect("a reply to MNT").expect("the export is there").into();
        }
        let mounted = mount3::Reply::decode_mnt(reader).expect("a reply to MNT");
        mounted.expect("the export is there").root.into()
    }

    fn make_step(&mut self, step: &Step<'_>) {
        match *step {
            Step::Operate { kind, on, to, name, offset, count, damaged } => {
                let mut on = self.known_file(on);
                let to = self.known_file(to);
                if damaged {
                    on = damage_handle(&on, name);
                }
                let name = NAMES[usize::from(name) % NAMES.len()];
                let count = u32::from(count) % TRANSFER_BYTES_MAX;
                let offset = u64::from(offset);
                self.run_operation(kind, &Subject { on: &on, to: &to, name, offset, count });
            }
            Step::Call { program, procedure, arguments, fragment_bytes } => {
                let record = self.build_call(procedure_id(program, procedure), arguments);
                self.stream.send_record(&record, usize::from(fragment_bytes));
                let reply = self.stream.receive_record();
                self.check_reply(&reply);
            }
            Step::Datagram { program, procedure, arguments } => {
                let record = self.build_call(procedure_id(program, procedure), arguments);
                let reply = exchange_datagram(self.server.address(), &record);
                self.check_reply(&reply);
            }
            Step::Garbage(bytes) => {
                self.all_counted = false;
                let mut other = Stream::connect_to(self.server.address());
                // It may already be closed.
                let _ = other.socket.write_all(bytes);
            }
            Step::Restart => {
                self.server.restart_now();
                // The counts, and the connection, may be gone.
                self.all_counted = false;
                self.stream = Stream::connect_to(self.server.address());
                self.session.reconnected(0);
            }
        }
    }

    fn known_file(&self, number: u8) -> File {
        self.files[usize::from(number) % self.files.len()]
    }

    fn build_call(&mut self, id: ProcedureId, arguments: &[u8]) -> Vec<u8> {
        self.xid += 1;
        let mut record = call_header(self.xid, id);
        record.extend_from_slice(arguments);
        record
    }

    fn check_reply(&mut self, reply: &[u8]) {
        let header = ReplyHeader::decode(&mut Reader::new(reply)).expect("a reply");
        assert_eq!(header.xid, self.xid, "the answer to another call");
        self.answered += 1;
    }

    fn run_operation(&mut self, kind: u8, subject: &Subject<'_>) {
        if self.session.start(0, 0, &make_operation(kind, subject)).is_err() {
            return;
        }
        self.answered += 1;
        let mut call = Vec::new();
        for chunk in self.session.outgoing() {
            match chunk {
                Chunk::Bytes(bytes) => call.extend_from_slice(bytes),
                Chunk::Pool(range) => call.resize(call.len() + range.len as usize, 7),
            }
        }
        self.session.sent(0, call.len());
        self.stream.socket.write_all(&call).expect("a connection that works");
        let mut reply = Vec::new();
        append_fragmented(&mut reply, &self.stream.receive_record(), usize::MAX);
        let taken = self.session.handle_input(0, &reply).expect("a stream that makes sense");
        assert_eq!(taken, reply.len());
        let event = self.session.poll_event().expect("the reply ends the call");
        let malformed = matches!(event.result, Err(nfs_proto::CallError::Malformed(_)));
        assert!(!malformed, "{}: {:?}", event.kind, event.result);
        if let Some(file) = event.file
            && self.files.len() < 16
        {
            self.files.push(*file);
        }
    }

    /// Checks that a new connection is answered whatever was sent, and that memory and counters are
    /// right.
    fn check_at_end(mut self) {
        let mut stream = Stream::connect_to(self.server.address());
        let record = self.build_call(ProcedureId::null(nfs3::PROGRAM, nfs3::VERSION), &[]);
        stream.send_record(&record, 0);
        let reply = stream.receive_record();
        self.check_reply(&reply);
        let memory = self.server.memory_bytes();
        assert!(memory <= MEMORY_BYTES_MAX, "{memory} bytes of memory");
        let counters = self.server.counters();
        let counted = counters.nfs2_calls.iter().chain(&counters.calls).sum::<u64>()
            + counters.nfs4_compounds
            + counters.mount_calls
            + counters.portmap_calls
            + counters.refused_calls;
        if self.all_counted {
            assert!(counted <= self.answered + 1, "{counted} counted, {} made", self.answered);
        }
    }
}

/// Starts a server with little memory.
pub(crate) fn start_server() -> Server {
    let portmap = Portmap::SamePort;
    Server::start(ServerConfig { portmap, ..server_config() }).expect("a server on loopback")
}

/// The settings of a server with little memory.
pub(crate) fn server_config() -> ServerConfig {
    ServerConfig { memory_limit_bytes: MEMORY_BYTES_MAX, ..ServerConfig::default() }
}

/// Writes the header of a call.
pub(crate) fn call_header(xid: u32, id: ProcedureId) -> Vec<u8> {
    let ProcedureId { program, version, procedure } = id;
    let credential = Ok(Credential::Sys(root_user()));
    let rpc_version = RPC_VERSION;
    let header = CallHeader { xid, rpc_version, program, version, procedure, credential };
    let mut record = Vec::new();
    header.encode(&mut Writer::new(&mut record));
    record
}

fn root_user() -> AuthSys<'static> {
    let groups = Groups::from_slice(&[]);
    AuthSys { stamp: 0, machine_name: b"fuzz", uid: 0, gid: 0, groups }
}

fn procedure_id(line: u8, procedure: u8) -> ProcedureId {
    let table = OfferedPrograms::ALL.table();
    let (program, version, _) = table[usize::from(line) % table.len()];
    ProcedureId::new(program, version, u32::from(procedure) % 24)
}

/// Changes one byte of a handle.
fn damage_handle(file: &File, at: u8) -> File {
    let mut bytes = file.handle.as_slice().to_vec();
    let at = usize::from(at) % bytes.len();
    bytes[at] ^= 0x55;
    nfs3::FileHandle::from_slice(&bytes).expect("as long as before").into()
}

/// A connection that leaves no state behind when it is closed.
pub(crate) struct Stream {
    socket: TcpStream,
    inbox: Inbox,
}

impl Stream {
    pub(crate) fn connect_to(address: SocketAddr) -> Self {
        let socket = retry_interrupted(|| TcpStream::connect(address)).expect("the server accepts");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        // Thousands of connections per minute would use up the ports.
        set_socket_linger(&socket, Some(Duration::ZERO)).expect("a socket option");
        Self { socket, inbox: Inbox::default() }
    }

    pub(crate) fn send_record(&mut self, record: &[u8], fragment_bytes: usize) {
        let mut stream = Vec::new();
        let size = if fragment_bytes == 0 { usize::MAX } else { fragment_bytes };
        append_fragmented(&mut stream, record, size);
        self.socket.write_all(&stream).expect("a connection that works");
    }

    pub(crate) fn receive_record(&mut self) -> Vec<u8> {
        loop {
            if let Some(record) = self.inbox.next_record().expect("a stream that makes sense") {
                return record.to_vec();
            }
            let space = self.inbox.free_space(1);
            let len = retry_interrupted(|| self.socket.read(space)).expect("an answer in time");
            assert!(len > 0, "the server closed the connection");
            self.inbox.mark_filled(len);
        }
    }
}

fn exchange_datagram(address: SocketAddr, datagram: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    socket.send_to(datagram, address).expect("a datagram that fits");
    let mut reply = vec![0; 1 << 16];
    let len = retry_interrupted(|| socket.recv(&mut reply)).expect("an answer in time");
    reply.truncate(len);
    reply
}

/// Retries if libFuzzer's timer interrupts a system call.
fn retry_interrupted<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match act() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
