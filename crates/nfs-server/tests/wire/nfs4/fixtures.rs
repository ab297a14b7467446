//! Helpers for compounds, sessions and opens.

use nfs_proto::Status;
use nfs_proto::nfs4::{
    Attributes, Bitmap, Call, ChannelAttributes, Claim, ClientId, ClientOwner, Compound,
    CompoundBuilder, CompoundReply, Fattr, FileHandle, List, NetAddress, Op, OpOk, OpResult,
    OpenHow, SessionId, StateOwner, StateProtection, Stateid, Verifier, attribute,
};
use nfs_proto::program;
use nfs_proto::xdr::Reader;
use nfs_server::{Server, ServerConfig};

use crate::client::{CallResults, Client, start};

pub const CHANNEL: ChannelAttributes = ChannelAttributes {
    header_pad_bytes: 0,
    request_bytes_max: 1 << 20,
    response_bytes_max: 1 << 20,
    cached_bytes_max: 4096,
    operations_max: 16,
    requests_max: 4,
    rdma_ird: None,
};

/// The reply to a compound.
pub struct Reply4(CallResults);

impl Reply4 {
    pub fn compound(&self) -> CompoundReply<'_> {
        CompoundReply::decode(Reader::new(&self.0.results)).expect("a well-formed reply")
    }

    pub fn status(&self) -> Status {
        self.compound().status
    }

    pub fn results(&self) -> Vec<OpResult<'_>> {
        let compound = self.compound();
        let mut results = compound.results();
        let mut all = Vec::new();
        while let Some(result) = results.next_result().expect("a well-formed result") {
            all.push(result);
        }
        results.finish().unwrap();
        assert_eq!(all.last().map_or(Status::Ok, OpResult::status), compound.status);
        all
    }

    /// The last result, which must be a success.
    pub fn ok(&self) -> OpOk<'_> {
        self.results().pop().unwrap().ok().unwrap()
    }

    /// The bytes of the results.
    pub fn bytes(&self) -> &[u8] {
        &self.0.results
    }

    /// The handle returned by the GETFH at the end.
    pub fn file(&self) -> FileHandle {
        let OpOk::Getfh { file } = self.ok() else { panic!("no GETFH") };
        file
    }
}

/// Encodes one compound under the next xid.
pub fn compound_bytes(client: &mut Client, minor: u32, ops: &[Op<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = CompoundBuilder::new(&mut bytes, b"tag", minor);
    for op in ops {
        builder.push(op);
    }
    builder.finish();
    let compound = Compound::decode(Reader::new(&bytes)).unwrap();
    client.encode(&program::Call::Nfs4(Call::Compound(compound)))
}

/// Sends one compound unchanged.
pub fn compound(client: &mut Client, minor: u32, ops: &[Op<'_>]) -> Reply4 {
    let bytes = compound_bytes(client, minor, ops);
    send_compound(client, &bytes)
}

/// Sends the rest of a compound, and receives its reply.
pub fn send_compound(client: &mut Client, bytes: &[u8]) -> Reply4 {
    client.send(bytes);
    let answer = client.receive(1);
    assert_eq!(answer.xid, client.xid);
    let reply = Reply4(answer);
    assert_eq!(reply.compound().tag, b"tag");
    reply
}

/// A client of v4.1 or v4.2 with one session, which uses its first slot.
pub struct Peer {
    pub client: Client,
    pub minor: u32,
    pub id: ClientId,
    pub session: SessionId,
    pub sequence: u32,
}

pub fn exchange_id(client: &mut Client, owner: &[u8], start: u8) -> (ClientId, u32) {
    let owner = ClientOwner { verifier: Verifier([start; 8]), id: owner };
    let protection = StateProtection::None;
    let op = Op::ExchangeId { owner, flags: 0, protection, implementation: None };
    let reply = compound(client, 1, &[op]);
    let OpOk::ExchangeId { client, sequence, .. } = reply.ok() else { unreachable!() };
    (client, sequence)
}

pub fn create_session(client: ClientId, sequence: u32, fore: ChannelAttributes) -> Op<'static> {
    let security = List::default();
    let back = CHANNEL;
    Op::CreateSession { client, sequence, flags: 0, fore, back, callback_program: 0, security }
}

impl Peer {
    pub fn new(server: &Server, minor: u32, owner: &[u8]) -> Self {
        Self::with_channel(server, minor, owner, CHANNEL)
    }

    pub fn with_channel(
        server: &Server,
        minor: u32,
        owner: &[u8],
        fore: ChannelAttributes,
    ) -> Self {
        let mut client = Client::connect(server);
        let (id, sequence) = exchange_id(&mut client, owner, 1);
        let reply = compound(&mut client, minor, &[create_session(id, sequence, fore)]);
        let OpOk::CreateSession { session, .. } = reply.ok() else { unreachable!() };
        let mut peer = Self { client, minor, id, session, sequence: 0 };
        let reply = peer.call(&[Op::ReclaimComplete { one_fs: false }]);
        assert_eq!(reply.status(), Status::Ok);
        peer
    }

    pub fn sequence_op(&self, cache_this: bool) -> Op<'static> {
        Op::Sequence {
            session: self.session,
            sequence: self.sequence,
            slot: 0,
            highest_slot: 0,
            cache_this,
        }
    }

    /// Makes the next call of the slot.
    pub fn call(&mut self, ops: &[Op<'_>]) -> Reply4 {
        self.sequence += 1;
        self.again(ops, true)
    }

    /// Makes a call with the slot's current number.
    pub fn again(&mut self, ops: &[Op<'_>], cache_this: bool) -> Reply4 {
        let mut all = vec![self.sequence_op(cache_this)];
        all.extend_from_slice(ops);
        compound(&mut self.client, self.minor, &all)
    }

    /// Opens a file of `/export` for all access, and creates it if it does not exist.
    pub fn open(&mut self, name: &str) -> (FileHandle, Stateid) {
        let mut scratch = Vec::new();
        let op = open_op(self.id, name, b"owner", &mut scratch);
        let reply = self.call(&[Op::Putrootfh, lookup("export"), op, Op::Getfh]);
        opened(&reply)
    }
}

pub fn lookup(name: &str) -> Op<'_> {
    Op::Lookup { name: name.as_bytes() }
}

/// OPEN of a name for reading and writing, creating it with mode 644.
pub fn open_op<'a>(
    client: ClientId,
    name: &'a str,
    owner: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Op<'a> {
    Op::Open {
        seqid: 0,
        share_access: 3,
        share_deny: 0,
        owner: StateOwner { client, owner },
        how: OpenHow::Unchecked(mode(0o644, scratch)),
        claim: Claim::Name(name.as_bytes()),
    }
}

pub fn mode(mode: u32, scratch: &mut Vec<u8>) -> Fattr<'_> {
    let attributes = Attributes { mode: Some(mode), ..Attributes::default() };
    attributes.to_fattr(Bitmap::from_numbers(&[attribute::MODE]), scratch)
}

pub fn size(size: u64, scratch: &mut Vec<u8>) -> Fattr<'_> {
    let attributes = Attributes { size: Some(size), ..Attributes::default() };
    attributes.to_fattr(Bitmap::from_numbers(&[attribute::SIZE]), scratch)
}

/// Handle and stateid of a compound that ends with OPEN and GETFH.
pub fn opened(reply: &Reply4) -> (FileHandle, Stateid) {
    let results = reply.results();
    let [.., OpResult::Ok(OpOk::Open { stateid, .. }), OpResult::Ok(OpOk::Getfh { file })] =
        results[..]
    else {
        panic!("{results:?}")
    };
    (file, stateid)
}

/// A confirmed client of v4.0.
pub struct Plain {
    pub client: Client,
    pub id: ClientId,
}

impl Plain {
    pub fn new(server: &Server, owner: &[u8], start: u8) -> Self {
        let mut client = Client::connect(server);
        let owner = ClientOwner { verifier: Verifier([start; 8]), id: owner };
        let callback_address = NetAddress { netid: b"tcp", address: b"127.0.0.1.0.0" };
        let op =
            Op::Setclientid { owner, callback_program: 0, callback_address, callback_ident: 0 };
        let reply = compound(&mut client, 0, &[op]);
        let OpOk::Setclientid { client: id, confirm } = reply.ok() else { unreachable!() };
        let op = Op::SetclientidConfirm { client: id, confirm };
        assert_eq!(compound(&mut client, 0, &[op]).status(), Status::Ok);
        Self { client, id }
    }

    pub fn call(&mut self, ops: &[Op<'_>]) -> Reply4 {
        compound(&mut self.client, 0, ops)
    }

    /// Makes a call with the number of an open owner.
    pub fn open_reply(&mut self, name: &str, owner: &[u8], number: u32) -> Reply4 {
        let mut scratch = Vec::new();
        let mut op = open_op(self.id, name, owner, &mut scratch);
        if let Op::Open { seqid, .. } = &mut op {
            *seqid = number;
        }
        self.call(&[Op::Putrootfh, lookup("export"), op, Op::Getfh])
    }

    /// Opens and confirms as the first two calls of an owner.
    pub fn open(&mut self, name: &str, owner: &[u8]) -> (FileHandle, Stateid) {
        let (file, stateid) = opened(&self.open_reply(name, owner, 1));
        let confirm = Op::OpenConfirm { stateid, seqid: 2 };
        let reply = self.call(&[Op::Putfh { file }, confirm]);
        let OpOk::OpenConfirm { stateid } = reply.ok() else { unreachable!() };
        (file, stateid)
    }
}

pub fn server() -> Server {
    start(ServerConfig::default())
}
