//! A blocking client: one connection that encodes calls and returns replies as records.
//!
//! It has no retries, and only one long timeout that fails the test.
#![allow(clippy::large_types_passed_by_value, reason = "tests define items next to their calls")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nfs_proto::RpcError;
use nfs_proto::nfs2;
use nfs_proto::nfs3::{Call, CreateHow, FileHandle, Procedure, Reply, Sattr, Status};
use nfs_proto::program;
use nfs_proto::record::{self, Inbox};
use nfs_proto::rpc::{
    AuthSys, CallHeader, Credential, Groups, ProcedureId, RPC_VERSION, ReplyHeader,
};
use nfs_proto::xdr::{Reader, Writer};
use nfs_server::{Server, ServerConfig};

/// Minimum duration of silence to count as such.
pub const SILENCE: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Client {
    pub stream: TcpStream,
    inbox: Inbox,
    pub xid: u32,
    pub user: AuthSys<'static>,
}

/// The results of one call, owned.
pub struct CallResults {
    pub xid: u32,
    procedure: u32,
    pub rpc: Result<(), RpcError>,
    pub results: Vec<u8>,
}

impl CallResults {
    /// Decodes the results of a call of NFS v3.
    pub fn nfs3(&self) -> Reply<'_> {
        assert_eq!(self.rpc, Ok(()));
        let procedure = Procedure::from_number(self.procedure).unwrap();
        Reply::decode(procedure, Reader::new(&self.results)).expect("a well-formed reply")
    }

    /// Decodes the results of a call of NFS v2.
    pub fn nfs2(&self) -> nfs2::Reply<'_> {
        assert_eq!(self.rpc, Ok(()));
        let procedure = nfs2::Procedure::from_number(self.procedure).unwrap();
        nfs2::Reply::decode(procedure, Reader::new(&self.results)).expect("a well-formed reply")
    }

    /// The results of a call of another program.
    pub fn reader(&self) -> Reader<'_> {
        assert_eq!(self.rpc, Ok(()));
        Reader::new(&self.results)
    }
}

pub fn start(config: ServerConfig) -> Server {
    Server::start(config).expect("the server starts")
}

/// Polls the server until a condition is true.
pub fn until(server: &Server, mut condition: impl FnMut(&Server) -> bool) {
    for _ in 0..10_000_000 {
        if condition(server) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("the condition was not met: {:#?}", server.counters());
}

/// User 1000 of group 100.
pub const USER: AuthSys<'static> =
    AuthSys { stamp: 0, machine_name: b"test", uid: 1000, gid: 100, groups: Groups::EMPTY };

/// User 0, who may do everything.
pub const ROOT: AuthSys<'static> = AuthSys { uid: 0, gid: 0, ..USER };

/// Encodes a framed call as user 1000, group 100.
pub fn encode_call(xid: u32, call: &program::Call<'_>) -> Vec<u8> {
    encode_call_as(xid, Credential::Sys(USER), call)
}

pub fn encode_call_as(xid: u32, credential: Credential<'_>, call: &program::Call<'_>) -> Vec<u8> {
    let mut out = encode_numbers_as(xid, credential, call.procedure_id());
    call.encode(&mut Writer::new(&mut out));
    record::end(&mut out, 0, 0);
    out
}

/// Encodes a framed call without its arguments.
fn encode_numbers_as(xid: u32, credential: Credential<'_>, id: ProcedureId) -> Vec<u8> {
    let ProcedureId { program, version, procedure } = id;
    let credential = Ok(credential);
    let header =
        CallHeader { xid, rpc_version: RPC_VERSION, program, version, procedure, credential };
    let mut out = Vec::new();
    let mark = record::begin(&mut out);
    header.encode(&mut Writer::new(&mut out));
    record::end(&mut out, mark, 0);
    out
}

/// Decodes a reply; `procedure` determines the type of its results.
pub fn parse_reply(record: &[u8], procedure: u32) -> CallResults {
    let mut reader = Reader::new(record);
    let header = ReplyHeader::decode(&mut reader).unwrap();
    let results = reader.rest().to_vec();
    CallResults { xid: header.xid, procedure, rpc: header.result, results }
}

impl Client {
    pub fn connect(server: &Server) -> Self {
        Self::connect_to(server.address())
    }

    pub fn connect_to(address: std::net::SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, inbox: Inbox::default(), xid: 0, user: USER }
    }

    /// Encodes a framed call as the client's user, under the next xid.
    pub fn encode(&mut self, call: &program::Call<'_>) -> Vec<u8> {
        self.encode_as(Credential::Sys(self.user), call)
    }

    pub fn encode_as(&mut self, credential: Credential<'_>, call: &program::Call<'_>) -> Vec<u8> {
        self.xid += 1;
        encode_call_as(self.xid, credential, call)
    }

    /// Encodes a framed call without arguments for a program that may not exist.
    pub fn encode_numbers(&mut self, program: u32, version: u32, procedure: u32) -> Vec<u8> {
        self.xid += 1;
        encode_numbers_as(self.xid, Credential::None, ProcedureId::new(program, version, procedure))
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Receives the next reply; `procedure` determines how to decode it.
    pub fn receive(&mut self, procedure: u32) -> CallResults {
        self.try_receive(procedure).unwrap_or_else(|kind| panic!("no reply: {kind}"))
    }

    pub fn try_receive(&mut self, procedure: u32) -> Result<CallResults, ErrorKind> {
        Ok(parse_reply(&self.receive_record()?, procedure))
    }

    /// Receives the next message of either kind.
    pub fn receive_record(&mut self) -> Result<Vec<u8>, ErrorKind> {
        loop {
            if let Some(record) = self.inbox.next_record().unwrap() {
                return Ok(record.to_vec());
            }
            match self.stream.read(self.inbox.free_space(1 << 16)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof),
                Ok(count) => self.inbox.mark_filled(count),
                Err(error) => return Err(error.kind()),
            }
        }
    }

    /// Makes one call of any program.
    pub fn call(&mut self, call: &program::Call<'_>) -> CallResults {
        let bytes = self.encode(call);
        self.send(&bytes);
        let answer = self.receive(call.procedure_id().procedure);
        assert_eq!(answer.xid, self.xid);
        answer
    }

    /// Makes one call of NFS v3.
    pub fn nfs(&mut self, call: Call<'_>) -> CallResults {
        self.call(&program::Call::Nfs3(call))
    }

    /// Makes one call of NFS v2.
    pub fn nfs2(&mut self, call: nfs2::Call<'_>) -> CallResults {
        self.call(&program::Call::Nfs2(call))
    }

    /// Sends a call of NFS v3 without waiting for its reply.
    pub fn send_nfs(&mut self, call: Call<'_>) {
        let bytes = self.encode(&program::Call::Nfs3(call));
        self.send(&bytes);
    }

    /// Returns true if nothing arrives for a while and the connection stays open.
    pub fn is_silent(&mut self) -> bool {
        self.is_silent_for(SILENCE)
    }

    /// Like `is_silent`, but waits for the given time.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let result = self.try_receive(0);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(result, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }

    /// Mounts a path.
    pub fn mount(&mut self, path: &str) -> FileHandle {
        use nfs_proto::mount3::{Call, Reply};
        let answer = self.call(&program::Call::Mount3(Call::Mnt(path.as_bytes())));
        Reply::decode_mnt(answer.reader()).unwrap().expect("the path should be exported").root
    }

    pub fn create(&mut self, dir: FileHandle, name: &str) -> FileHandle {
        let how = CreateHow::Guarded(Sattr::default());
        let answer = self.nfs(Call::Create { dir: &dir, name: name.as_bytes(), how });
        let Reply::Create { result, .. } = answer.nfs3() else { unreachable!() };
        result.unwrap().file.unwrap()
    }

    pub fn lookup(&mut self, dir: FileHandle, name: &str) -> Result<FileHandle, Status> {
        let answer = self.nfs(Call::Lookup { dir: &dir, name: name.as_bytes() });
        let Reply::Lookup { result, .. } = answer.nfs3() else { unreachable!() };
        result.map(|object| object.file)
    }

    pub fn size(&mut self, file: FileHandle) -> Result<u64, Status> {
        let answer = self.nfs(Call::Getattr { file: &file });
        let Reply::Getattr { result } = answer.nfs3() else { unreachable!() };
        result.map(|attributes| attributes.size)
    }

    pub fn write(&mut self, file: FileHandle, offset: u64, data: &[u8]) -> Result<u32, Status> {
        let stable = nfs_proto::nfs3::StableHow::Unstable;
        let answer = self.nfs(Call::Write { file: &file, offset, stable, data });
        let Reply::Write { result, .. } = answer.nfs3() else { unreachable!() };
        result.map(|ok| ok.count)
    }

    pub fn read(
        &mut self,
        file: FileHandle,
        offset: u64,
        count: u32,
    ) -> Result<(Vec<u8>, bool), Status> {
        let answer = self.nfs(Call::Read { file: &file, offset, count });
        let Reply::Read { result, .. } = answer.nfs3() else { unreachable!() };
        result.map(|ok| (ok.data.to_vec(), ok.eof))
    }
}
