//! A server of NFS v4 under a list of compounds.
//!
//! The fuzzer generates a [`Run`]: compounds of any operations in any order, with client ids,
//! sessions, stateids and handles that the server has returned, or with others. Every compound must
//! be answered, a client must be able to decode every result, and the reply must have the status of
//! its last result. Each run has its own server.
//!
//! Operations are taken from [`OpCode::ALL`]: a new one is fuzzed with arguments that begin with a
//! stateid, an offset and a length, until it gets an arm with better ones.

use arbitrary::Arbitrary;
use nfs_proto::nfs4::{
    Bitmap, CallbackSecurity, ChannelAttributes, Claim, ClientId, ClientOwner, CompoundBuilder,
    CompoundReply, CreateKind, DeviceError, DeviceId, Fattr, FileHandle, FilesLayout, FlexLayout,
    IoInfo, Layout, LayoutIoMode, LayoutReturn, LayoutUpdate, List, LockType, Locker, NetAddress,
    NetLocation, Op, OpCode, OpOk, OpResult, OpenHow, SessionId, StableHow, StateOwner,
    StateProtection, Stateid, Verifier, Wire, XattrOption, decode_body, layout_type,
};
use nfs_proto::rpc::{ProcedureId, ReplyHeader};
use nfs_proto::status::Status;
use nfs_proto::xdr::{Reader, Writer};
use nfs_server::{DataServers, LayoutKind, PnfsConfig, Server, ServerConfig};

use crate::server::{MEMORY_BYTES_MAX, Stream, call_header, server_config, start_server};

/// The update of LAYOUTSTATS for flexible files that were not used, without a data server.
const NO_USE: [u8; 156] = [0; 156];
const STEPS_MAX: usize = 40;
/// From here on, the server has a data server and offers flexible files, or the files layout. They
/// are few, since starting one takes as long as everything else.
const FLEX_MINORS: u8 = 240;
const FILES_MINORS: u8 = 249;
const OPS_MAX: usize = 12;
const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"..", b""];
/// Size 5 and mode 0644: attributes 4 and 33.
const ATTRIBUTES: [u8; 28] =
    [0, 0, 0, 2, 0, 0, 0, 0x10, 0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 1, 0xa4];
/// Value of an extended attribute; the whole of it exceeds the maximum of any server.
static XATTR_VALUE: [u8; 1 << 17] = [0x61; 1 << 17];
const CHANNEL: ChannelAttributes = ChannelAttributes {
    header_pad_bytes: 0,
    request_bytes_max: 1 << 17,
    response_bytes_max: 1 << 17,
    cached_bytes_max: 4096,
    operations_max: 16,
    requests_max: 4,
    rdma_ird: None,
};

/// A client and its compounds.
#[derive(Arbitrary, Clone, Debug)]
pub struct Run {
    /// The minor version, 0 to 2. The highest values select a server with data servers.
    pub minor: u8,
    /// Whether it registers correctly first.
    pub introduced: bool,
    /// Compounds of the session.
    pub steps: Vec<Step>,
}

/// A compound of a session.
#[derive(Arbitrary, Clone, Debug)]
pub struct Step {
    /// Whether it begins with the next SEQUENCE of a slot.
    pub in_session: bool,
    /// Whether it repeats the last one on that slot.
    pub again: bool,
    /// Number of the slot.
    pub slot: u8,
    /// Operations of the compound.
    pub ops: Vec<Choice>,
}

impl Step {
    /// Creates a compound of these operations without a SEQUENCE.
    fn of_codes(codes: &[OpCode]) -> Self {
        let ops = codes.iter().map(|code| Choice::of_code(*code)).collect();
        Self { in_session: false, again: false, slot: 0, ops }
    }
}

/// One operation, and which of the known ids it uses.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Choice {
    op: u8,
    which: u8,
    much: u8,
}

/// Ids that the server has returned so far.
#[derive(Debug, Default)]
struct ServerIds {
    client: u64,
    confirm: [u8; 8],
    create_sequence: u32,
    session: [u8; 16],
    slots: [u32; 4],
    open_seqid: u32,
    stateids: Vec<Stateid>,
    handles: Vec<FileHandle>,
    /// The device of the last layout.
    device: DeviceId,
}

impl Choice {
    /// Selects an operation, with the first of the known ids.
    fn of_code(code: OpCode) -> Self {
        let position = OpCode::ALL.iter().position(|it| *it == code).expect("one of all");
        Self { op: position as u8, which: 0, much: 0 }
    }

    fn code(self) -> OpCode {
        OpCode::ALL[usize::from(self.op) % OpCode::ALL.len()]
    }
}

struct Rig {
    server: Server,
    stream: Stream,
    minor: u32,
    xid: u32,
    known: ServerIds,
}

/// Sends all compounds and checks each reply.
pub fn check_compounds(run: &Run) {
    let rig = run_compounds(run);
    let memory = rig.server.memory_bytes();
    assert!(memory <= MEMORY_BYTES_MAX, "{memory} bytes of memory");
}

fn run_compounds(run: &Run) -> Rig {
    let layouts = match run.minor {
        FLEX_MINORS..FILES_MINORS => Some(LayoutKind::FlexFiles),
        FILES_MINORS.. => Some(LayoutKind::Files),
        _ => None,
    };
    let server = match layouts {
        Some(layout) => start_metadata_server(layout),
        None => start_server(),
    };
    let stream = Stream::connect_to(server.address());
    let minor = u32::from(run.minor % 3);
    let mut rig = Rig { server, stream, minor, xid: 0, known: ServerIds::default() };
    if run.introduced {
        rig.introduce();
    }
    for step in run.steps.iter().take(STEPS_MAX) {
        rig.send_step(step);
    }
    rig
}

/// Starts a server with a data server.
fn start_metadata_server(layout: LayoutKind) -> Server {
    let servers = DataServers::Own(1);
    let pnfs = PnfsConfig { servers, layout, stripe_unit: 4096, mirrors: 1 };
    Server::start(ServerConfig { pnfs: Some(pnfs), ..server_config() })
        .expect("a server on loopback")
}

impl Rig {
    fn introduce(&mut self) {
        let in_session = self.minor > 0;
        let first = match self.minor {
            0 => [OpCode::Setclientid, OpCode::SetclientidConfirm],
            _ => [OpCode::ExchangeId, OpCode::CreateSession],
        };
        for code in first {
            self.send_step(&Step::of_codes(&[code]));
        }
        if in_session {
            let step = Step::of_codes(&[OpCode::ReclaimComplete]);
            self.send_step(&Step { in_session, ..step });
        }
        let step = Step::of_codes(&[OpCode::Putrootfh, OpCode::Getfh]);
        self.send_step(&Step { in_session, ..step });
    }

    fn send_step(&mut self, step: &Step) {
        let record = self.build_call(step);
        self.stream.send_record(&record, 0);
        let reply = self.stream.receive_record();
        let mut reader = Reader::new(&reply);
        let header = ReplyHeader::decode(&mut reader).expect("a reply");
        assert_eq!((header.xid, header.result), (self.xid, Ok(())));
        let reply = CompoundReply::decode(reader).expect("a reply to a compound");
        let mut results = reply.results();
        let mut last = None;
        while let Some(result) = results.next_result().expect("a result that can be read") {
            last = Some(result.status());
            self.known.learn_from(&result);
        }
        results.finish().expect("nothing after the results");
        // A reused slot may return its previous reply, and so may one of a session that the same
        // CREATE_SESSION created again.
        let most = if step.again || step.in_session { OPS_MAX } else { step.ops.len() };
        assert!(reply.count() as usize <= most + 1, "more results than operations");
        if let Some(last) = last {
            assert_eq!(reply.status, last, "the status of a reply is that of its last result");
        }
        if step.in_session && self.minor > 0 && reply.status == Status::Ok && !step.again {
            assert!(reply.count() > 0, "SEQUENCE has a result");
        }
    }

    fn build_call(&mut self, step: &Step) -> Vec<u8> {
        self.xid += 1;
        let mut record = call_header(self.xid, ProcedureId::new(nfs_proto::nfs4::PROGRAM, 4, 1));
        let mut compound = CompoundBuilder::new(&mut record, b"", self.minor);
        let attributes = Fattr::decode(&mut Reader::new(&ATTRIBUTES)).expect("our own attributes");
        let security = List::decode(&mut Reader::new(&[0; 4])).expect("an empty list");
        if step.in_session && self.minor > 0 {
            let slot = usize::from(step.slot) % self.known.slots.len();
            if !step.again {
                self.known.slots[slot] += 1;
            }
            compound.push(&Op::Sequence {
                session: SessionId(self.known.session),
                sequence: self.known.slots[slot],
                slot: slot as u32,
                highest_slot: 3,
                cache_this: step.slot & 16 != 0,
            });
        }
        for choice in step.ops.iter().take(OPS_MAX) {
            let code = choice.code();
            if matches!(code, OpCode::Open | OpCode::OpenConfirm | OpCode::Close) {
                self.known.open_seqid += 1;
            }
            let known = &self.known;
            let no_servers = List::default();
            let mut errors = Vec::new();
            let failed = DeviceError::new(known.device, Status::NxIo, OpCode::Write);
            let device_errors = List::build(&mut errors, [failed]);
            let choice = *choice;
            let parts = Parts { known, choice, attributes, security, no_servers, device_errors };
            let arguments = parts.any_arguments();
            match parts.make_op(&arguments) {
                Some(op) => compound.push(&op),
                None => compound.push_with(|writer| {
                    writer.u32(code.number());
                    writer.raw(&arguments);
                }),
            }
        }
        compound.finish();
        record
    }
}

impl ServerIds {
    fn learn_from(&mut self, result: &OpResult<'_>) {
        let OpResult::Ok(ok) = result else { return };
        match *ok {
            OpOk::Setclientid { client, confirm } => {
                self.client = client.0;
                self.confirm = confirm.0;
            }
            OpOk::ExchangeId { client, sequence, .. } => {
                self.client = client.0;
                self.create_sequence = sequence;
            }
            OpOk::CreateSession { session, .. } => {
                self.session = session.0;
                self.slots = [0; 4];
            }
            OpOk::Layoutget { stateid, layouts, .. } => {
                self.keep_stateid(stateid);
                self.device =
                    layouts.iter().find_map(|layout| device_of(&layout)).unwrap_or_default();
            }
            OpOk::Getfh { file } if self.handles.len() < 16 => self.handles.push(file),
            OpOk::Open { stateid, .. }
            | OpOk::OpenConfirm { stateid }
            | OpOk::OpenDowngrade { stateid }
            | OpOk::Lock { stateid }
            | OpOk::Locku { stateid }
            | OpOk::Close { stateid }
            | OpOk::Copy { callback_id: Some(stateid), .. }
            | OpOk::Layoutreturn { stateid: Some(stateid) } => self.keep_stateid(stateid),
            _ => {}
        }
    }

    fn keep_stateid(&mut self, stateid: Stateid) {
        if self.stateids.len() == 16 {
            self.stateids.remove(0);
        }
        self.stateids.push(stateid);
    }
}

/// Returns the first device of a layout.
fn device_of(layout: &Layout<'_>) -> Option<DeviceId> {
    if layout.layout_type == layout_type::FILES {
        return decode_body::<FilesLayout<'_>>(layout.body).ok().map(|files| files.device);
    }
    let flex: FlexLayout<'_> = decode_body(layout.body).expect("a layout that can be read");
    flex.mirrors.iter().next()?.servers.iter().next().map(|server| server.device)
}

/// Parameters of an operation.
struct Parts<'a> {
    known: &'a ServerIds,
    choice: Choice,
    attributes: Fattr<'a>,
    security: List<'a, CallbackSecurity<'a>>,
    no_servers: List<'a, NetLocation<'a>>,
    device_errors: List<'a, DeviceError>,
}

impl<'a> Parts<'a> {
    fn name(&self) -> &'static [u8] {
        NAMES[usize::from(self.choice.which) % NAMES.len()]
    }

    /// The latest of the server's stateids first, with a seqid that is correct, too old or too new.
    fn stateid(&self) -> Stateid {
        let which = usize::from(self.choice.which & 0x1f);
        let known = self.known.stateids.iter().rev().nth(which).copied();
        let mut stateid = known.unwrap_or(Stateid::ANONYMOUS);
        let shift = u32::from(self.choice.which >> 5);
        stateid.seqid = stateid.seqid.wrapping_add(shift).wrapping_sub(shift / 2 * 2);
        stateid
    }

    fn client(&self) -> ClientId {
        ClientId(self.known.client ^ u64::from(self.choice.which >> 6))
    }

    fn owner(&self) -> StateOwner<'static> {
        let owner = NAMES[usize::from(self.choice.much) % 3];
        StateOwner { client: ClientId(self.known.client), owner }
    }

    fn client_owner(&self) -> ClientOwner<'static> {
        ClientOwner { verifier: Verifier([self.choice.which; 8]), id: b"fuzz" }
    }

    fn offset(&self) -> u64 {
        u64::from(self.choice.much & 0x0f) << (self.choice.much >> 2)
    }

    fn create_session(&self) -> Op<'a> {
        Op::CreateSession {
            client: self.client(),
            sequence: self.known.create_sequence.wrapping_add(u32::from(self.choice.much & 1)),
            flags: u32::from(self.choice.much >> 1),
            fore: CHANNEL,
            back: CHANNEL,
            callback_program: 0x4000_0000,
            security: self.security,
        }
    }

    fn open(&self) -> Op<'a> {
        let much = self.choice.much;
        let how = match much >> 5 {
            0 => OpenHow::NoCreate,
            1 => OpenHow::Guarded(self.attributes),
            2 => OpenHow::Exclusive(Verifier([much; 8])),
            3 => OpenHow::ExclusiveWith(Verifier([much; 8]), self.attributes),
            _ => OpenHow::Unchecked(self.attributes),
        };
        let claim = match self.choice.which >> 5 {
            0 => Claim::Current,
            1 => Claim::Previous(0),
            _ => Claim::Name(self.name()),
        };
        Op::Open {
            seqid: self.known.open_seqid,
            share_access: u32::from(much & 3),
            share_deny: u32::from(much >> 2 & 3),
            owner: self.owner(),
            how,
            claim,
        }
    }

    /// Returns arguments for an operation that has no arm below: a stateid, an offset and a length,
    /// then zeros.
    fn any_arguments(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        self.stateid().encode(&mut writer);
        writer.u64(self.offset());
        writer.u64(self.choice.much.into());
        writer.raw(&[0; 96]);
        bytes
    }

    /// Returns the selected operation, unless its arguments can't be decoded.
    fn make_op<'b>(&'b self, arguments: &'b [u8]) -> Option<Op<'b>> {
        let code = self.choice.code();
        let made = self.identity_op(code).or_else(|| self.handle_op(code));
        let made = made.or_else(|| self.state_op(code)).or_else(|| self.data_op(code));
        let made = made.or_else(|| self.tree_op(code)).or_else(|| self.xattr_op(code));
        let made = made.or_else(|| self.layout_op(code));
        made.or_else(|| Op::decode(code, &mut Reader::new(arguments)).ok().flatten())
    }

    fn identity_op(&self, code: OpCode) -> Option<Op<'a>> {
        let session = SessionId(self.known.session);
        Some(match code {
            OpCode::Setclientid => Op::Setclientid {
                owner: self.client_owner(),
                callback_program: 0x4000_0000,
                callback_address: NetAddress { netid: b"tcp", address: b"127.0.0.1.0.1" },
                callback_ident: 1,
            },
            OpCode::SetclientidConfirm => Op::SetclientidConfirm {
                client: self.client(),
                confirm: Verifier(self.known.confirm),
            },
            OpCode::ExchangeId => Op::ExchangeId {
                owner: self.client_owner(),
                flags: u32::from(self.choice.much) << 24 & 0x4000_0000,
                protection: StateProtection::None,
                implementation: None,
            },
            OpCode::CreateSession => self.create_session(),
            OpCode::Renew => Op::Renew { client: self.client() },
            OpCode::ReclaimComplete => Op::ReclaimComplete { one_fs: self.choice.much & 1 == 1 },
            OpCode::DestroySession => Op::DestroySession { session },
            OpCode::DestroyClientid => Op::DestroyClientid { client: self.client() },
            OpCode::BindConnToSession => Op::BindConnToSession {
                session,
                direction: u32::from(self.choice.much & 3),
                rdma: false,
            },
            _ => return None,
        })
    }

    fn handle_op(&self, code: OpCode) -> Option<Op<'a>> {
        let which = usize::from(self.choice.which);
        Some(match code {
            OpCode::Putfh => {
                let file = *self.known.handles.iter().rev().nth(which % 16)?;
                Op::Putfh { file }
            }
            OpCode::Lookup if self.choice.much & 1 == 0 => Op::Lookup { name: b"export" },
            OpCode::Lookup => Op::Lookup { name: self.name() },
            OpCode::SecinfoNoName => Op::SecinfoNoName { style: u32::from(self.choice.much & 1) },
            _ => return None,
        })
    }

    fn state_op(&self, code: OpCode) -> Option<Op<'a>> {
        let stateid = self.stateid();
        let seqid = self.known.open_seqid;
        let offset = self.offset();
        let length = u64::from(self.choice.much);
        let lock_type = if self.choice.much & 1 == 0 { LockType::Read } else { LockType::Write };
        Some(match code {
            OpCode::Open => self.open(),
            OpCode::OpenConfirm => Op::OpenConfirm { stateid, seqid },
            OpCode::Close => Op::Close { seqid, stateid },
            OpCode::OpenDowngrade => {
                let share_access = u32::from(self.choice.much & 3);
                Op::OpenDowngrade { stateid, seqid, share_access, share_deny: 0 }
            }
            OpCode::Lock => {
                let locker = Locker::New {
                    open_seqid: seqid,
                    open: stateid,
                    lock_seqid: 0,
                    owner: self.owner(),
                };
                Op::Lock { lock_type, reclaim: false, offset, length, locker }
            }
            OpCode::Locku => Op::Locku { lock_type, seqid, stateid, offset, length },
            OpCode::Lockt => Op::Lockt { lock_type, offset, length, owner: self.owner() },
            OpCode::ReleaseLockowner => Op::ReleaseLockowner { owner: self.owner() },
            OpCode::Delegpurge => Op::Delegpurge { client: self.client() },
            _ => return None,
        })
    }

    fn layout_op(&self, code: OpCode) -> Option<Op<'a>> {
        let Choice { much, .. } = self.choice;
        let stateid = self.stateid();
        let offset = self.offset();
        let length = u64::from(much);
        let device = self.known.device;
        let layout_type =
            if much & 0x40 == 0 { layout_type::FLEX_FILES } else { layout_type::FILES };
        let iomode = if much & 1 == 0 { LayoutIoMode::ReadWrite } else { LayoutIoMode::Read };
        let update = LayoutUpdate { layout_type, body: b"" };
        let used = IoInfo { count: length, bytes: offset };
        Some(match code {
            OpCode::Layoutget => Op::Layoutget {
                signal_available: false,
                layout_type,
                iomode,
                offset,
                length: u64::MAX,
                min_length: length,
                stateid,
                maxcount: 4096,
            },
            OpCode::Layoutreturn => Op::Layoutreturn {
                reclaim: false,
                layout_type,
                iomode: LayoutIoMode::Any,
                layouts: match much {
                    0..0xf0 => LayoutReturn::File { offset, length: u64::MAX, stateid, body: b"" },
                    0xf0..0xf8 => LayoutReturn::FileSystem,
                    0xf8.. => LayoutReturn::All,
                },
            },
            OpCode::Layoutcommit => Op::Layoutcommit {
                offset,
                length: u64::MAX,
                reclaim: false,
                stateid,
                last_write_offset: (much & 1 == 0).then_some(offset),
                modified: None,
                update,
            },
            OpCode::Getdeviceinfo => {
                let maxcount = 4096 >> (much & 0x0f);
                Op::Getdeviceinfo { device, layout_type, maxcount, notify: Bitmap::EMPTY }
            }
            OpCode::Layouterror => {
                Op::Layouterror { offset, length, stateid, errors: self.device_errors }
            }
            OpCode::Layoutstats => {
                let body = if much & 0x60 == 0 { &NO_USE[..] } else { b"" };
                let update = LayoutUpdate { layout_type, body };
                Op::Layoutstats { offset, length, stateid, read: used, write: used, device, update }
            }
            _ => return None,
        })
    }

    fn data_op(&self, code: OpCode) -> Option<Op<'a>> {
        let stateid = self.stateid();
        let offset = self.offset();
        let count = u32::from(self.choice.much);
        let length = u64::from(self.choice.much);
        Some(match code {
            OpCode::Read => Op::Read { stateid, offset, count },
            OpCode::Write => {
                Op::Write { stateid, offset, stable: StableHow::FileSync, data: b"some payload" }
            }
            OpCode::Commit => Op::Commit { offset, count },
            OpCode::Setattr => Op::Setattr { stateid, attributes: self.attributes },
            OpCode::Copy => Op::Copy {
                source: stateid,
                destination: stateid,
                source_offset: 0,
                destination_offset: offset,
                count: length,
                consecutive: true,
                synchronous: count & 1 == 0,
                servers: self.no_servers,
            },
            OpCode::OffloadStatus => Op::OffloadStatus { stateid },
            OpCode::OffloadCancel => Op::OffloadCancel { stateid },
            OpCode::Seek => Op::Seek { stateid, offset, what: count & 1 },
            OpCode::ReadPlus => Op::ReadPlus { stateid, offset, count },
            OpCode::Clone => Op::Clone {
                source: stateid,
                destination: stateid,
                source_offset: 0,
                destination_offset: offset,
                count: length,
            },
            OpCode::IoAdvise => {
                Op::IoAdvise { stateid, offset, count: length, hints: Bitmap::from_numbers(&[1]) }
            }
            OpCode::Access => Op::Access { access: count },
            _ => return None,
        })
    }

    fn tree_op(&self, code: OpCode) -> Option<Op<'a>> {
        let name = self.name();
        let attributes = self.attributes;
        Some(match code {
            OpCode::Create if self.choice.much & 1 == 0 => {
                Op::Create { kind: CreateKind::Directory, name, attributes }
            }
            OpCode::Create => Op::Create { kind: CreateKind::Symlink(b"target"), name, attributes },
            OpCode::Remove => Op::Remove { name },
            OpCode::Rename => Op::Rename { from: name, to: b"c" },
            OpCode::Link => Op::Link { name },
            OpCode::Verify => Op::Verify { attributes },
            OpCode::Nverify => Op::Nverify { attributes },
            OpCode::Secinfo => Op::Secinfo { name },
            OpCode::Readdir => {
                let request = Bitmap::from_numbers(&[1, 4, 20, 33]);
                let maxcount = u32::from(self.choice.much) << 6;
                Op::Readdir {
                    cookie: u64::from(self.choice.which),
                    verifier: Verifier([0; 8]),
                    dircount: maxcount,
                    maxcount,
                    request,
                }
            }
            OpCode::Getattr => Op::Getattr {
                request: Bitmap::from_numbers(&[0, 1, 3, 4, 5, 8, 10, 19, 20, 33, 35, 82]),
            },
            _ => return None,
        })
    }

    fn xattr_op(&self, code: OpCode) -> Option<Op<'a>> {
        let name = self.name();
        let much = self.choice.much;
        Some(match code {
            OpCode::Getxattr => Op::Getxattr { name },
            OpCode::Setxattr => {
                let option = XattrOption::from_number(u32::from(much % 3)).ok()?;
                Op::Setxattr { option, name, value: &XATTR_VALUE[..usize::from(much) << 9] }
            }
            OpCode::Listxattrs => Op::Listxattrs {
                cookie: u64::from(self.choice.which & 3),
                maxcount: u32::from(much),
            },
            OpCode::Removexattr => Op::Removexattr { name },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
