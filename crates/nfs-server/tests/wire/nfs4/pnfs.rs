//! Layouts over the wire, with data servers in the same process.

use std::net::SocketAddr;

use nfs_proto::Status;
use nfs_proto::nfs3::{Call, FileHandle, Procedure, Reply};
use nfs_proto::nfs4::{
    CallbackCode, CallbackOk, CallbackOp, CallbackResult, DeviceId, FileRecall, FlexDataServer,
    FlexDevice, FlexIoLatency, FlexIoStats, FlexLayout, FlexLayoutReturn, FlexLayoutUpdate,
    FlexMirror, IoInfo, LayoutIoMode, LayoutRecall, LayoutReturn, LayoutUpdate, List, NetAddress,
    Op, OpOk, StableHow, Stateid, Time, Wire as _, decode_body, layout_type, owner_number,
};
use nfs_proto::rpc::AuthSys;
use nfs_proto::rpcbind::UniversalAddress;
use nfs_proto::xdr::Writer;
use nfs_server::{
    DataServerEvent, DataServerFault, DataServers, FaultKind, FaultPlan, LayoutEvent, LayoutKind,
    PnfsConfig, Server, ServerConfig,
};

use super::delegations::{answer_callback, callee};
use super::fixtures::{Peer, lookup, size};
use crate::client::{Client, USER, start, until};

const UNIT: u32 = 4096;

fn cluster(servers: usize, stripe_unit: u32, mirrors: usize) -> Server {
    cluster_of(LayoutKind::FlexFiles, servers, stripe_unit, mirrors)
}

pub fn cluster_of(layout: LayoutKind, servers: usize, stripe_unit: u32, mirrors: usize) -> Server {
    let servers = DataServers::Own(servers);
    let pnfs = Some(PnfsConfig { servers, layout, stripe_unit, mirrors });
    start(ServerConfig { pnfs, ..ServerConfig::default() })
}

/// Repeats a call that data servers did not answer in time, as clients do.
fn until_ready<T>(mut call: impl FnMut() -> Result<T, Status>) -> Result<T, Status> {
    loop {
        match call() {
            Err(Status::Jukebox) => std::thread::yield_now(),
            other => return other,
        }
    }
}

fn layoutget(stateid: Stateid, iomode: LayoutIoMode) -> Op<'static> {
    Op::Layoutget {
        signal_available: false,
        layout_type: layout_type::FLEX_FILES,
        iomode,
        offset: 0,
        length: u64::MAX,
        min_length: 1,
        stateid,
        maxcount: 4096,
    }
}

pub fn layoutreturn(stateid: Stateid) -> Op<'static> {
    let layouts = LayoutReturn::File { offset: 0, length: u64::MAX, stateid, body: b"" };
    let (layout_type, iomode) = (layout_type::FLEX_FILES, LayoutIoMode::Any);
    Op::Layoutreturn { reclaim: false, layout_type, iomode, layouts }
}

pub fn layoutcommit(stateid: Stateid, last_offset: u64) -> Op<'static> {
    Op::Layoutcommit {
        offset: 0,
        length: u64::MAX,
        reclaim: false,
        stateid,
        last_write_offset: Some(last_offset),
        modified: None,
        update: LayoutUpdate { layout_type: layout_type::FLEX_FILES, body: b"" },
    }
}

/// A data file as a client sees it.
pub struct DataFile {
    pub address: SocketAddr,
    /// Version and minor version, and whether the data server is tightly coupled.
    pub version: (u32, u32, bool),
    pub file: FileHandle,
    pub stateid: Stateid,
    pub user: AuthSys<'static>,
}

impl DataFile {
    fn connect(&self) -> Client {
        let mut client = Client::connect_to(self.address);
        client.user = self.user;
        client
    }
}

/// Where the data of a file is: by mirror, then by stripe.
pub struct Placed {
    pub stateid: Stateid,
    stripe_unit: u64,
    pub mirrors: Vec<Vec<DataFile>>,
}

pub fn get_layout(
    peer: &mut Peer,
    file: FileHandle,
    stateid: Stateid,
    iomode: LayoutIoMode,
) -> Placed {
    let reply = peer.call(&[Op::Putfh { file }, layoutget(stateid, iomode)]);
    let OpOk::Layoutget { return_on_close: true, stateid, layouts } = reply.ok() else {
        panic!("{:?}", reply.results())
    };
    let all: Vec<_> = layouts.iter().collect();
    assert_eq!((all.len(), all[0].offset, all[0].length), (1, 0, u64::MAX));
    assert_eq!((all[0].iomode, all[0].layout_type), (iomode, layout_type::FLEX_FILES));
    let layout: FlexLayout<'_> = decode_body(all[0].body).unwrap();
    let mut mirrors = Vec::new();
    for FlexMirror { servers } in layout.mirrors.iter() {
        mirrors.push(servers.iter().map(|server| find(peer, server)).collect());
    }
    Placed { stateid, stripe_unit: layout.stripe_unit, mirrors }
}

fn find(peer: &mut Peer, server: FlexDataServer<'_>) -> DataFile {
    let uid = owner_number(server.user).unwrap();
    let gid = owner_number(server.group).unwrap();
    let user = AuthSys { uid, gid, ..USER };
    let (address, version) = find_device(peer, server.device);
    let file = server.files.iter().next().unwrap();
    DataFile { address, version, file, stateid: server.stateid, user }
}

fn find_device(peer: &mut Peer, device: DeviceId) -> (SocketAddr, (u32, u32, bool)) {
    let op = Op::Getdeviceinfo {
        device,
        layout_type: layout_type::FLEX_FILES,
        maxcount: 4096,
        notify: nfs_proto::nfs4::Bitmap::EMPTY,
    };
    let reply = peer.call(&[op]);
    let OpOk::Getdeviceinfo { body, .. } = reply.ok() else { unreachable!() };
    let device: FlexDevice<'_> = decode_body(body).unwrap();
    let version = device.versions.iter().next().unwrap();
    let address = UniversalAddress::parse(device.addresses.iter().next().unwrap().address).unwrap();
    (address, (version.version, version.minor, version.tightly_coupled))
}

/// Calls of one procedure that each data server has answered.
fn calls(server: &Server, procedure: Procedure) -> Vec<u64> {
    let count = |server: &Server| server.counters().calls_of(procedure);
    server.data_servers().iter().map(count).collect()
}

#[test]
fn data_goes_to_data_servers() {
    let server = cluster(2, UNIT, 1);
    let mut peer = Peer::new(&server, 2, b"a");
    let (file, open) = peer.open("f");
    let placed = get_layout(&mut peer, file, open, LayoutIoMode::ReadWrite);
    assert_eq!((placed.stripe_unit, placed.stateid.seqid), (u64::from(UNIT), 1));
    let [stripes] = &placed.mirrors[..] else { panic!() };
    assert!(stripes.iter().all(|stripe| stripe.version == (3, 0, false)));
    let unit = UNIT as usize;
    let data: Vec<u8> = (0..3 * unit + 5).map(|index| (index / 7) as u8).collect();
    for (index, part) in data.chunks(unit).enumerate() {
        let stripe = &stripes[index % 2];
        let offset = (index * unit) as u64;
        assert_eq!(stripe.connect().write(stripe.file, offset, part), Ok(part.len() as u32));
        // Only the synthetic user may write.
        let mut stranger = Client::connect_to(stripe.address);
        assert_eq!(stranger.write(stripe.file, offset, part), Err(Status::Access));
    }
    let commit = [Op::Putfh { file }, layoutcommit(placed.stateid, data.len() as u64 - 1)];
    let reply = peer.call(&commit);
    let OpOk::Layoutcommit { size } = reply.ok() else { unreachable!() };
    assert_eq!(size, Some(data.len() as u64));
    assert_eq!(peer.call(&[Op::Putfh { file }, layoutreturn(placed.stateid)]).status(), Status::Ok);
    assert_eq!(server.counters().payload_written_bytes, 0);

    // A client without a layout reads the same through the metadata server.
    let mut other = Client::connect(&server);
    let root = other.mount("/export");
    let found = other.lookup(root, "f").unwrap();
    assert_eq!(other.size(found), Ok(data.len() as u64));
    let read = until_ready(|| other.read(found, 3, 1 << 16));
    assert_eq!(read, Ok((data[3..].to_vec(), true)));
    assert_eq!(server.proxied_bytes(), (data.len() as u64 - 3, 0));
    let counters = server.counters();
    assert_eq!((counters.layouts_granted, counters.layouts_returned), (1, 1));
    assert_eq!(calls(&server, Procedure::Write), [4, 4]);
    let cluster = server.cluster_counters();
    let bytes = data.len() as u64;
    assert_eq!((cluster.payload_written_bytes, cluster.payload_read_bytes), (bytes, bytes - 3));
    let called = [Procedure::Write, Procedure::Read].map(|call| cluster.calls_of(call));
    assert_eq!(called, [8, 1], "four writes were refused, and one read was passed on");
    assert_eq!(calls(&server, Procedure::Read).iter().sum::<u64>(), 4);
}

#[test]
fn passes_on_io_without_layouts() {
    let server = cluster(3, UNIT, 1);
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    let data: Vec<u8> = (0..50_000_u32).map(|index| (index / 11) as u8).collect();
    for (index, part) in data.chunks(10_000).enumerate().rev() {
        let written = until_ready(|| client.write(file, index as u64 * 10_000, part));
        assert_eq!(written, Ok(10_000));
    }
    assert_eq!(until_ready(|| client.read(file, 0, 1 << 20)), Ok((data.clone(), true)));
    assert_eq!(server.proxied_bytes(), (50_000, 50_000));
    let mut peer = Peer::new(&server, 1, b"a");
    let (file4, open) = peer.open("f");
    // A hole after the old end, and what a truncation removed, read as zeros.
    let mut scratch = Vec::new();
    for bytes in [30_001, 60_000] {
        let attributes = size(bytes, &mut scratch);
        let reply =
            peer.call(&[Op::Putfh { file: file4 }, Op::Setattr { stateid: open, attributes }]);
        assert_eq!(reply.status(), Status::Ok);
    }
    let mut expected = data;
    expected.truncate(30_001);
    expected.resize(60_000, 0);
    assert_eq!(until_ready(|| client.read(file, 0, 1 << 20)), Ok((expected, true)));
    let unsupported = Op::Allocate { stateid: open, offset: 0, length: 1 };
    let mut newer = Peer::new(&server, 2, b"b");
    let reply = newer.call(&[Op::Putfh { file: file4 }, unsupported]);
    assert_eq!(reply.status(), Status::BadStateid);
    let stable = StableHow::FileSync;
    let write = Op::Write { stateid: open, offset: 1 << 20, stable, data: b"end" };
    assert_eq!(peer.call(&[Op::Putfh { file: file4 }, write]).status(), Status::Ok);
    assert_eq!(client.size(file), Ok((1 << 20) + 3));
}

/// pynfs WRT4.
#[test]
fn empty_write_keeps_times() {
    let server = cluster(2, 0, 1);
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    assert_eq!(until_ready(|| client.write(file, 0, b"data")), Ok(4));
    let mut times = Vec::new();
    for data in [&b""[..], b"d"] {
        for _ in 0..2 {
            let results = client.nfs(Call::Getattr { file: &file });
            let Reply::Getattr { result: Ok(found) } = results.nfs3() else { panic!("GETATTR") };
            times.push((found.mtime, found.ctime));
            let written = until_ready(|| client.write(file, 1, data));
            assert_eq!(written, Ok(data.len() as u32));
        }
    }
    assert_eq!(times[0], times[1]);
    assert_eq!(times[1], times[2]);
    assert_ne!(times[2], times[3]);
}

#[test]
fn reports_space_of_data_servers() {
    let free = |server: &Server| {
        let mut client = Client::connect(server);
        let root = client.mount("/export");
        let reply = client.nfs(Call::Fsstat { root: &root });
        let Reply::Fsstat { result, .. } = reply.nfs3() else { unreachable!() };
        result.unwrap()
    };
    let whole = free(&cluster(2, UNIT, 1));
    let mirrored = free(&cluster(2, UNIT, 2));
    assert_eq!((whole.total_bytes / 2, whole.total_bytes >> 29), (mirrored.total_bytes, 1));
    assert!(whole.free_bytes < whole.total_bytes, "data files take some");
}

#[test]
fn removes_data_files_with_file() {
    let server = cluster(2, UNIT, 1);
    let mut peer = Peer::new(&server, 1, b"a");
    let (file, open) = peer.open("f");
    let placed = get_layout(&mut peer, file, open, LayoutIoMode::ReadWrite);
    let stripe = &placed.mirrors[0][0];
    let mut client = stripe.connect();
    assert_eq!(client.write(stripe.file, 0, b"data"), Ok(4));
    let remove = [Op::Putrootfh, lookup("export"), Op::Remove { name: b"f" }];
    assert_eq!(peer.call(&remove).status(), Status::Ok);
    // The open keeps it.
    assert_eq!(client.size(stripe.file), Ok(4));
    let close = Op::Close { seqid: 0, stateid: open };
    assert_eq!(peer.call(&[Op::Putfh { file }, close]).status(), Status::Ok);
    until(&server, |server| calls(server, Procedure::Remove) == [1, 1]);
    assert_eq!(client.size(stripe.file), Err(Status::Stale));
    assert_eq!(server.counters().layouts_returned, 1, "by the last CLOSE");
}

#[test]
fn layout_stateids_follow_their_rules() {
    let server = cluster(1, 0, 1);
    let mut peer = Peer::new(&server, 1, b"a");
    let (file, open) = peer.open("f");
    let first = get_layout(&mut peer, file, open, LayoutIoMode::Read).stateid;
    let second = get_layout(&mut peer, file, first, LayoutIoMode::ReadWrite).stateid;
    assert_eq!((first.seqid, second.seqid, first.other), (1, 2, second.other));
    // Earlier ones are valid, as calls may overtake each other; 0 and later ones are not.
    for (seqid, expected) in [(0, Status::BadStateid), (9, Status::BadStateid), (1, Status::Ok)] {
        let stateid = Stateid { seqid, ..first };
        let reply = peer.call(&[Op::Putfh { file }, layoutget(stateid, LayoutIoMode::Read)]);
        assert_eq!(reply.status(), expected, "{seqid}");
    }
    let latest = Stateid { seqid: 3, ..first };
    let read = Op::Read { stateid: latest, offset: 0, count: 1 };
    assert_eq!(peer.call(&[Op::Putfh { file }, read]).status(), Status::BadStateid);
    // A part is returned, then the rest.
    for (offset, length, is_left) in [(0, 100, true), (100, u64::MAX - 100, false)] {
        let layouts = LayoutReturn::File { offset, length, stateid: second, body: b"" };
        let (layout_type, iomode) = (layout_type::FLEX_FILES, LayoutIoMode::Any);
        let op = Op::Layoutreturn { reclaim: false, layout_type, iomode, layouts };
        let reply = peer.call(&[Op::Putfh { file }, op]);
        let OpOk::Layoutreturn { stateid } = reply.ok() else { panic!("{:?}", reply.results()) };
        assert_eq!(stateid.is_some(), is_left);
    }
    let gone = [
        (layoutreturn(second), Status::BadStateid),
        (layoutcommit(second, 0), Status::BadLayout),
        (layoutcommit(Stateid { seqid: 1, other: [9; 12] }, 0), Status::BadStateid),
    ];
    for (op, expected) in gone {
        assert_eq!(peer.call(&[Op::Putfh { file }, op]).status(), expected);
    }
    let none = List::default();
    let error = Op::Layouterror { offset: 0, length: 1, stateid: second, errors: none };
    let mut newer = Peer::new(&server, 2, b"b");
    assert_eq!(newer.call(&[Op::Putfh { file }, error]).status(), Status::Ok);
}

#[test]
fn counts_reports_of_use() {
    let server = cluster(1, 0, 1);
    let mut peer = Peer::new(&server, 2, b"a");
    let (file, open) = peer.open("f");
    let stateid = get_layout(&mut peer, file, open, LayoutIoMode::ReadWrite).stateid;
    let zero = FlexIoLatency::default();
    let details = FlexLayoutUpdate {
        address: NetAddress { netid: b"tcp", address: b"10.0.0.1.8.1" },
        file,
        read: zero,
        write: zero,
        duration: Time { seconds: 1, nanos: 0 },
        local: false,
    };
    let mut body = Vec::new();
    details.encode(&mut Writer::new(&mut body));
    let (read, write) = (IoInfo { count: 1, bytes: 5 }, IoInfo { count: 2, bytes: 7 });
    let device = DeviceId::default();
    let layoutstats = |body| {
        let update = LayoutUpdate { layout_type: layout_type::FLEX_FILES, body };
        Op::Layoutstats { offset: 0, length: 1, stateid, read, write, device, update }
    };
    assert_eq!(peer.call(&[Op::Putfh { file }, layoutstats(&body)]).status(), Status::Ok);
    let malformed = peer.call(&[Op::Putfh { file }, layoutstats(&body[1..])]);
    assert_eq!(malformed.status(), Status::BadXdr);
    let used = FlexIoStats { offset: 0, length: 1, stateid, read, write, device, update: details };
    let mut scratch = Vec::new();
    let stats = List::build(&mut scratch, [used, used]);
    body.clear();
    FlexLayoutReturn { errors: List::default(), stats }.encode(&mut Writer::new(&mut body));
    let layouts = LayoutReturn::File { offset: 0, length: u64::MAX, stateid, body: &body };
    let (layout_type, iomode) = (layout_type::FLEX_FILES, LayoutIoMode::Any);
    let op = Op::Layoutreturn { reclaim: false, layout_type, iomode, layouts };
    assert_eq!(peer.call(&[Op::Putfh { file }, op]).status(), Status::Ok);
    let counters = server.counters();
    assert_eq!(counters.usage_reports, 3);
    assert_eq!((counters.reported_read_bytes, counters.reported_written_bytes), (10, 14));
}

#[test]
fn refuses_bad_layoutgets() {
    let server = cluster(1, 0, 1);
    let mut peer = Peer::new(&server, 1, b"a");
    let (file, open) = peer.open("f");
    let wrong = |change: fn(&mut Op<'_>)| {
        let mut op = layoutget(open, LayoutIoMode::Read);
        change(&mut op);
        op
    };
    let cases = [
        (wrong(|op| set(op, |it| *it.0 = 1)), Status::UnknownLayoutType),
        (wrong(|op| set(op, |it| *it.1 = LayoutIoMode::Any)), Status::BadIoMode),
        (wrong(|op| set(op, |it| *it.2 = 0)), Status::Inval),
        (wrong(|op| set(op, |it| *it.3 = 20)), Status::TooSmall),
    ];
    for (op, expected) in cases {
        assert_eq!(peer.call(&[Op::Putfh { file }, op]).status(), expected);
    }
    let plain = start(ServerConfig::default());
    let mut peer = Peer::new(&plain, 1, b"a");
    let (file, open) = peer.open("f");
    let reply = peer.call(&[Op::Putfh { file }, layoutget(open, LayoutIoMode::Read)]);
    assert_eq!(reply.status(), Status::NotSupp);
}

/// Changes type, mode, length or maximum size of a LAYOUTGET.
fn set(op: &mut Op<'_>, change: fn((&mut u32, &mut LayoutIoMode, &mut u64, &mut u32))) {
    let Op::Layoutget { layout_type, iomode, length, maxcount, .. } = op else { unreachable!() };
    change((layout_type, iomode, length, maxcount));
}

/// Receives the recall of all layouts of a file, and answers it.
fn take_recall(peer: &mut Peer, answer: Status) -> (Stateid, FileHandle) {
    let result = match answer {
        Status::Ok => CallbackResult::Ok(CallbackOk::LayoutRecall),
        status => CallbackResult::Failed(CallbackCode::LayoutRecall, status),
    };
    answer_callback(&mut peer.client, peer.session, |op| {
        let CallbackOp::LayoutRecall { layout_type, iomode, changed: false, recall } = op else {
            panic!("{op:?}")
        };
        assert_eq!((layout_type, iomode), (layout_type::FLEX_FILES, LayoutIoMode::Any));
        let LayoutRecall::File(FileRecall { file, offset: 0, length: u64::MAX, stateid }) = recall
        else {
            panic!("{recall:?}")
        };
        ((stateid, file), result)
    })
}

fn resize(file: FileHandle, stateid: Stateid, bytes: u64, peer: &mut Peer) -> Status {
    let mut scratch = Vec::new();
    let attributes = size(bytes, &mut scratch);
    peer.call(&[Op::Putfh { file }, Op::Setattr { stateid, attributes }]).status()
}

#[test]
fn recalls_before_others_resize() {
    let server = cluster(2, UNIT, 1);
    let mut holder = callee(&server, b"holder");
    let (file, open) = holder.open("f");
    let placed = get_layout(&mut holder, file, open, LayoutIoMode::ReadWrite);
    // The holder itself may.
    assert_eq!(resize(file, open, 3, &mut holder), Status::Ok);
    let mut other = Peer::new(&server, 1, b"other");
    let (_, other_open) = other.open("f");
    assert_eq!(resize(file, other_open, 5, &mut other), Status::Jukebox);
    let (stateid, recalled) = take_recall(&mut holder, Status::Ok);
    assert_eq!((stateid.seqid, recalled), (placed.stateid.seqid + 1, file));
    let again = holder.call(&[Op::Putfh { file }, layoutget(stateid, LayoutIoMode::Read)]);
    assert_eq!(again.status(), Status::RecallConflict);
    assert_eq!(resize(file, other_open, 5, &mut other), Status::Jukebox);
    let returned = holder.call(&[Op::Putfh { file }, layoutreturn(stateid)]);
    assert_eq!(returned.status(), Status::Ok);
    assert_eq!(resize(file, other_open, 5, &mut other), Status::Ok);
    // A client that has none any more says so.
    get_layout(&mut holder, file, open, LayoutIoMode::Read);
    assert_eq!(resize(file, other_open, 6, &mut other), Status::Jukebox);
    take_recall(&mut holder, Status::NoMatchingLayout);
    until(&server, |server| server.counters().layouts_returned == 2);
    assert_eq!(resize(file, other_open, 6, &mut other), Status::Ok);
    assert_eq!(server.counters().layouts_recalled, 2);
}

#[test]
fn revoked_layouts_are_fenced() {
    let server = cluster(2, UNIT, 1);
    let mut peer = Peer::new(&server, 1, b"a");
    let (file, open) = peer.open("f");
    let placed = get_layout(&mut peer, file, open, LayoutIoMode::ReadWrite);
    let stripe = &placed.mirrors[0][1];
    let mut client = stripe.connect();
    assert_eq!(client.write(stripe.file, 4096, b"lost"), Ok(4));
    server.take_back_layouts_now(LayoutEvent::Revoke);
    until(&server, |_| client.write(stripe.file, 4096, b"lost") == Err(Status::Access));
    let reply = peer.call(&[Op::Putfh { file }, layoutcommit(placed.stateid, 9)]);
    assert_eq!(reply.status(), Status::BadLayout);
    // The size includes what was written without LAYOUTCOMMIT.
    until(&server, |server| {
        // The server looks after lost layouts with each call.
        let mut client = Client::connect(server);
        client.mount("/export");
        server.file_size("/export/f") == Some(4100)
    });
    let placed = get_layout(&mut peer, file, open, LayoutIoMode::ReadWrite);
    let stripe = &placed.mirrors[0][1];
    assert_eq!(stripe.connect().read(stripe.file, 4096, 9), Ok((b"lost".to_vec(), true)));
    assert_eq!(server.counters().layouts_revoked, 1);

    // Fenced clients keep their layouts.
    server.take_back_layouts_now(LayoutEvent::Fence);
    let mut client = stripe.connect();
    until(&server, |_| client.write(stripe.file, 4096, b"lost") == Err(Status::Access));
    let reply = peer.call(&[Op::Putfh { file }, layoutreturn(placed.stateid)]);
    assert_eq!(reply.status(), Status::Ok);
    let placed = get_layout(&mut peer, file, open, LayoutIoMode::Read);
    let stripe = &placed.mirrors[0][1];
    let mut reader = stripe.connect();
    assert_eq!(reader.read(stripe.file, 4096, 9), Ok((b"lost".to_vec(), true)));
    assert_eq!(reader.write(stripe.file, 4096, b"bad"), Err(Status::Access), "only for reading");
    assert_eq!(server.counters().faults_of(FaultKind::Layouts), 2);
}

#[test]
fn mirrors_survive_death_of_data_server() {
    let server = cluster(2, 0, 2);
    let mut peer = Peer::new(&server, 2, b"a");
    let (file, open) = peer.open("f");
    let placed = get_layout(&mut peer, file, open, LayoutIoMode::ReadWrite);
    let [[first], [second]] = [&placed.mirrors[0][..], &placed.mirrors[1][..]] else { panic!() };
    for copy in [first, second] {
        assert_eq!(copy.connect().write(copy.file, 0, b"data"), Ok(4));
    }
    let written = [layoutcommit(placed.stateid, 3), layoutreturn(placed.stateid)];
    for op in written {
        assert_eq!(peer.call(&[Op::Putfh { file }, op]).status(), Status::Ok);
    }
    let dead = server.data_server_addresses().iter().position(|it| *it == first.address).unwrap();
    server.data_servers()[dead].die_now();
    // Until that is noticed, calls may have to be repeated.
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let found = client.lookup(root, "f").unwrap();
    until(&server, |_| client.read(found, 0, 9) == Ok((b"data".to_vec(), true)));
    until(&server, |_| client.write(found, 1, b"?") == Ok(1));
    assert_eq!(client.read(found, 0, 9), Ok((b"d?ta".to_vec(), true)));
    let placed = get_layout(&mut peer, file, open, LayoutIoMode::ReadWrite);
    assert_eq!(placed.mirrors.len(), 1, "the other one misses a write");
    let left = &placed.mirrors[0][0];
    assert_eq!(left.address, second.address);
    assert_eq!(left.connect().read(left.file, 0, 9), Ok((b"d?ta".to_vec(), true)));
}

#[test]
fn repeated_calls_find_slow_outcome() {
    let slow = DataServerEvent::Slow { time_ns: 120_000_000 };
    let faults = FaultPlan {
        data_servers: vec![DataServerFault { server: 0, event: slow }],
        ..FaultPlan::default()
    };
    let (servers, layout) = (DataServers::Own(1), LayoutKind::FlexFiles);
    let pnfs = Some(PnfsConfig { servers, layout, stripe_unit: 0, mirrors: 1 });
    let server = start(ServerConfig { pnfs, faults, ..ServerConfig::default() });
    let mut client = Client::connect(&server);
    let root = client.mount("/export");
    let file = client.create(root, "f");
    assert_eq!(client.write(file, 0, b"data"), Err(Status::Jukebox));
    until(&server, |_| client.write(file, 0, b"data") == Ok(4));
    assert_eq!(client.read(file, 0, 9), Err(Status::Jukebox));
    until(&server, |_| client.read(file, 0, 9) == Ok((b"data".to_vec(), true)));
    // However often they were repeated.
    let counts = [calls(&server, Procedure::Write), calls(&server, Procedure::Read)];
    assert_eq!(counts, [[1], [1]]);
}
