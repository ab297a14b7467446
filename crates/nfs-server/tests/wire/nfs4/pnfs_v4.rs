//! Flexible files whose data servers are used over v4.1, loosely and tightly coupled.

use std::net::SocketAddr;

use nfs_proto::Status;
use nfs_proto::nfs4::{FileHandle, LayoutIoMode, Op, OpOk, StableHow, Stateid};
use nfs_server::{
    DataServerAddress, DataServers, LayoutEvent, LayoutKind, PnfsConfig, Server, ServerConfig,
    ServerError, Versions,
};

use super::fixtures::Peer;
use super::pnfs::{DataFile, cluster_of, get_layout, layoutcommit, layoutreturn};
use crate::client::{Client, start, until};

/// Joins the data server of a data file with a client of this name, as the file's user.
fn join(name: &str, server: &Server, data: &DataFile) -> Peer {
    let at = server.data_server_addresses().iter().position(|it| *it == data.address).unwrap();
    let mut peer = Peer::new(&server.data_servers()[at], 1, name.as_bytes());
    peer.client.user = data.user;
    peer
}

fn write(peer: &mut Peer, file: FileHandle, stateid: Stateid, data: &[u8]) -> Status {
    let write = Op::Write { stateid, offset: 0, stable: StableHow::Unstable, data };
    peer.call(&[Op::Putfh { file }, write, Op::Commit { offset: 0, count: 0 }]).status()
}

fn read(peer: &mut Peer, file: FileHandle, stateid: Stateid) -> Result<Vec<u8>, Status> {
    let reply = peer.call(&[Op::Putfh { file }, Op::Read { stateid, offset: 0, count: 99 }]);
    match reply.status() {
        Status::Ok => {
            let OpOk::Read { data, .. } = reply.ok() else { unreachable!() };
            Ok(data.to_vec())
        }
        status => Err(status),
    }
}

/// Gets the layout of a file without stripes and mirrors.
fn data_file(peer: &mut Peer, name: &str, iomode: LayoutIoMode) -> (FileHandle, Stateid, DataFile) {
    let (file, open) = peer.open(name);
    let mut placed = get_layout(peer, file, open, iomode);
    (file, placed.stateid, placed.mirrors.remove(0).remove(0))
}

#[test]
fn loose_v4_data_server_checks_users() {
    let server = cluster_of(LayoutKind::FlexFilesV4, 2, 0, 1);
    let mut peer = Peer::new(&server, 2, b"a");
    let (file, layout, data) = data_file(&mut peer, "f", LayoutIoMode::ReadWrite);
    assert_eq!((data.version, data.stateid), ((4, 1, false), Stateid::ANONYMOUS));
    let mut user = join("a", &server, &data);
    assert_eq!(write(&mut user, data.file, data.stateid, b"data"), Status::Ok);
    let mut stranger = join("b", &server, &data);
    stranger.client.user.uid += 99;
    stranger.client.user.gid += 99;
    assert_eq!(write(&mut stranger, data.file, data.stateid, b"bad"), Status::Access);
    let (_, _, reader) = data_file(&mut peer, "f", LayoutIoMode::Read);
    let mut reader_peer = join("c", &server, &reader);
    assert_eq!(read(&mut reader_peer, reader.file, reader.stateid), Ok(b"data".to_vec()));
    assert_eq!(write(&mut reader_peer, reader.file, reader.stateid, b"bad"), Status::Access);
    assert_eq!(peer.call(&[Op::Putfh { file }, layoutcommit(layout, 3)]).status(), Status::Ok);

    server.take_back_layouts_now(LayoutEvent::Fence);
    until(&server, |_| write(&mut user, data.file, data.stateid, b"data") == Status::Access);
    assert_eq!(peer.call(&[Op::Putfh { file }, layoutreturn(layout)]).status(), Status::Ok);
    let (.., data) = data_file(&mut peer, "f", LayoutIoMode::ReadWrite);
    let mut user = join("d", &server, &data);
    assert_eq!(read(&mut user, data.file, data.stateid), Ok(b"data".to_vec()));
    assert_eq!(server.proxied_bytes(), (0, 0));
}

#[test]
fn tight_data_server_checks_stateids() {
    let server = cluster_of(LayoutKind::FlexFilesTight, 1, 0, 1);
    let mut peer = Peer::new(&server, 2, b"a");
    let (file, layout, data) = data_file(&mut peer, "f", LayoutIoMode::ReadWrite);
    assert_eq!(data.version, (4, 1, true));
    // The user of the open is known to the metadata server only.
    let mut user = join("e", &server, &data);
    user.client.user.uid = 4_321;
    assert_eq!(write(&mut user, data.file, data.stateid, b"data"), Status::Ok);
    assert_eq!(read(&mut user, data.file, data.stateid), Ok(b"data".to_vec()));
    let (_, _, other) = data_file(&mut peer, "g", LayoutIoMode::ReadWrite);
    let (_, _, reader) = data_file(&mut peer, "f", LayoutIoMode::Read);
    let wrong = [
        (other.stateid, Status::PnfsNoLayout),
        (layout, Status::BadStateid),
        (Stateid::ANONYMOUS, Status::Access),
        (Stateid::READ_BYPASS, Status::Access),
        (reader.stateid, Status::OpenMode),
    ];
    for (stateid, expected) in wrong {
        assert_eq!(write(&mut user, data.file, stateid, b"bad"), expected, "{stateid:?}");
    }
    assert_eq!(read(&mut user, data.file, Stateid::ANONYMOUS), Err(Status::Access));
    assert_eq!(read(&mut user, data.file, reader.stateid), Ok(b"data".to_vec()));
    // Other operations on data take the same stateids.
    let free = Op::Deallocate { stateid: layout, offset: 0, length: 4 };
    user.minor = 2;
    let reply = user.call(&[Op::Putfh { file: data.file }, free]);
    assert_eq!(reply.status(), Status::BadStateid);
    // NFSv3 has no stateids.
    let mut old = Client::connect_to(data.address);
    assert_eq!(old.write(data.file, 0, b"bad"), Err(Status::Access));

    // A client without a layout reads what was written, through the metadata server.
    assert_eq!(peer.call(&[Op::Putfh { file }, layoutcommit(layout, 3)]).status(), Status::Ok);
    let mut plain = Client::connect(&server);
    let root = plain.mount("/export");
    let found = plain.lookup(root, "f").unwrap();
    assert_eq!(plain.read(found, 0, 9), Ok((b"data".to_vec(), true)));
}

#[test]
fn revoked_stateids_are_refused() {
    let server = cluster_of(LayoutKind::FlexFilesTight, 1, 0, 1);
    let mut peer = Peer::new(&server, 1, b"a");
    let (file, layout, data) = data_file(&mut peer, "f", LayoutIoMode::ReadWrite);
    let mut user = join("f", &server, &data);
    // User 0 is fenced like any other.
    user.client.user.uid = 0;
    assert_eq!(write(&mut user, data.file, data.stateid, b"data"), Status::Ok);
    server.take_back_layouts_now(LayoutEvent::Revoke);
    until(&server, |_| write(&mut user, data.file, data.stateid, b"data") == Status::PnfsNoLayout);
    assert_eq!(read(&mut user, data.file, data.stateid), Err(Status::PnfsNoLayout));
    let commit = peer.call(&[Op::Putfh { file }, layoutcommit(layout, 9)]);
    assert_eq!(commit.status(), Status::BadLayout);
    // The size includes what was written without LAYOUTCOMMIT.
    until(&server, |server| server.file_size("/export/f") == Some(4));
    let (.., data) = data_file(&mut peer, "f", LayoutIoMode::ReadWrite);
    assert_eq!(read(&mut user, data.file, data.stateid), Ok(b"data".to_vec()));
    assert_eq!(write(&mut user, data.file, data.stateid, b"more"), Status::Ok);
}

/// Starts a metadata server for one data server; returns the reason if it is refused.
fn use_server(layout: LayoutKind, address: SocketAddr) -> Option<String> {
    let servers = DataServers::At(vec![DataServerAddress { address, export: "/export".into() }]);
    let pnfs = Some(PnfsConfig { servers, layout, stripe_unit: 0, mirrors: 1 });
    match Server::start(ServerConfig { pnfs, ..ServerConfig::default() }) {
        Err(ServerError::DataServer { source, .. }) => Some(source.to_string()),
        started => {
            started.unwrap();
            None
        }
    }
}

#[test]
fn refuses_data_servers_of_other_roles() {
    let v3 = Versions { v3: true, ..Versions::NONE };
    let old = start(ServerConfig { versions: v3, ..ServerConfig::default() });
    let plain = start(ServerConfig::default());
    let ours = start(ServerConfig { is_data_server: true, ..ServerConfig::default() });
    let [too_old, no_role] = [
        "it does not speak NFSv4.1, which these layouts need",
        "it is not a data server of NFSv4.1, so it refuses our stateids",
    ];
    let expected = [
        (LayoutKind::FlexFiles, [None, None, None]),
        (LayoutKind::FlexFilesV4, [Some(too_old), None, None]),
        (LayoutKind::FlexFilesTight, [Some(too_old), Some(no_role), None]),
        (LayoutKind::Files, [Some(too_old), Some(no_role), None]),
    ];
    for (layout, reasons) in expected {
        for (server, reason) in [&old, &plain, &ours].into_iter().zip(reasons) {
            assert_eq!(use_server(layout, server.address()).as_deref(), reason, "{layout:?}");
        }
    }
}
