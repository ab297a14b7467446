//! MOUNT and the portmapper.
//!
//! Which exports can be mounted, which are listed, and which ports are reported.

use nfs_proto::mount3::{Call, MountStatus, Reply};
use nfs_proto::nfs3::{self, FileHandle};
use nfs_proto::portmap::{self, Mapping, PROTOCOL_TCP, PROTOCOL_UDP};
use nfs_proto::{mount3, program};
use nfs_server::{Portmap, ServerConfig};

use crate::client::{Client, start};

fn mnt(client: &mut Client, path: &str) -> Result<FileHandle, MountStatus> {
    let answer = client.call(&program::Call::Mount3(Call::Mnt(path.as_bytes())));
    Reply::decode_mnt(answer.reader()).unwrap().map(|ok| ok.root)
}

#[test]
fn mounts_exports_and_subdirectories() {
    let exports = vec!["/export".to_owned(), "/data/deep".to_owned()];
    let server = start(ServerConfig { exports, ..ServerConfig::default() });
    let mut client = Client::connect(&server);
    let root = mnt(&mut client, "/export").unwrap();
    client.create(root, "file");
    let attributes = nfs3::Sattr::default();
    client.nfs(nfs3::Call::Mkdir { dir: &root, name: b"sub", attributes });
    assert_eq!(mnt(&mut client, "/export/"), Ok(root));
    assert_eq!(mnt(&mut client, "/export/sub"), Ok(client.lookup(root, "sub").unwrap()));
    assert!(mnt(&mut client, "/data/deep").is_ok());
    for path in ["/", "", "/data", "/exporter", "/export/none", "/export/../data", "/other"] {
        assert_eq!(mnt(&mut client, path), Err(MountStatus::NoEnt), "{path}");
    }
    assert_eq!(mnt(&mut client, "/export/file"), Err(MountStatus::NotDir));
}

#[test]
fn exports_and_mounts_are_listed() {
    let server = start(ServerConfig::default());
    let mut client = Client::connect(&server);
    let mut paths = Vec::new();
    let answer = client.call(&program::Call::Mount3(Call::Export));
    Reply::decode_export(answer.reader(), |path, _| paths.push(path.to_vec())).unwrap();
    assert_eq!(paths, [b"/export"]);
    let mut dump = |call| {
        client.call(&program::Call::Mount3(call));
        let answer = client.call(&program::Call::Mount3(Call::Dump));
        let mut lines = Vec::new();
        Reply::decode_dump(answer.reader(), |line| lines.push(line.dir.to_vec())).unwrap();
        lines
    };
    assert_eq!(dump(Call::Mnt(b"/export")), [b"/export"]);
    assert!(dump(Call::Umnt(b"/export")).is_empty());
    assert_eq!(dump(Call::Mnt(b"/export/")), [b"/export"]);
    assert!(dump(Call::Umntall).is_empty());
}

#[test]
fn answers_portmapper_if_enabled() {
    for portmap in [Portmap::SamePort, Portmap::Port(0)] {
        let server = start(ServerConfig { portmap, ..ServerConfig::default() });
        let mut client = Client::connect_to(server.portmap_address().unwrap());
        let mut port = |program, version, protocol| {
            let mapping = Mapping { program, version, protocol, port: 0 };
            let answer = client.call(&program::Call::Portmap(portmap::Call::Getport(mapping)));
            u32::from(portmap::Reply::decode_getport(answer.reader()).unwrap())
        };
        let nfs_port = u32::from(server.address().port());
        assert_eq!(port(nfs3::PROGRAM, nfs3::VERSION, PROTOCOL_TCP), nfs_port);
        assert_eq!(port(mount3::PROGRAM, mount3::VERSION, PROTOCOL_TCP), nfs_port);
        assert_eq!(port(nfs3::PROGRAM, nfs3::VERSION, PROTOCOL_UDP), nfs_port);
        assert_eq!(port(nfs3::PROGRAM, 4, PROTOCOL_TCP), nfs_port);
        assert_eq!(server.counters().portmap_calls, 4);
    }
    let server = start(ServerConfig::default());
    assert_eq!(server.portmap_address(), None);
    let mut client = Client::connect(&server);
    let answer = client.call(&program::Call::Portmap(portmap::Call::Null));
    assert_eq!(answer.rpc, Err(nfs_proto::RpcError::ProgramUnavailable));
}
