//! Sessions and clients of v4.1 at a real server of ours: each that was made is destroyed, and none
//! is kept for longer than a connection uses it.

use nfs_client::proto::Status;
use nfs_client::proto::client::ProtocolVersion;
use nfs_client::{Connection, ConnectionOptions, Identity, Mount, MountOptions};
use nfs_server::{Server, ServerConfig};

/// Numbers of operations. **Source:** RFC 8881 section 16.2.3.
const EXCHANGE_ID: usize = 42;
const CREATE_SESSION: usize = 43;
const DESTROY_SESSION: usize = 44;
const DESTROY_CLIENTID: usize = 57;

fn mount(server: &Server, version: ProtocolVersion) -> Mount {
    let mut options = MountOptions::new("127.0.0.1", "/export");
    options.port = Some(server.address().port());
    options.version = version;
    Mount::connect(&options).unwrap()
}

/// Opens a connection of the mount's client, or of one with a name of its own.
fn open(mount: &Mount, name: Option<&str>) -> Connection {
    let identity =
        name.map(|name| Identity { machine_name: name.to_owned(), ..Identity::default() });
    let options = ConnectionOptions { identity, ..ConnectionOptions::default() };
    Connection::open(mount, &options).unwrap()
}

fn count(server: &Server, operation: usize) -> u64 {
    server.counters().nfs4_operations[operation]
}

#[test]
fn every_session_and_client_is_destroyed_in_order() {
    for version in [ProtocolVersion::V4_1, ProtocolVersion::V4_2] {
        let server = Server::start(ServerConfig::default()).unwrap();
        let mount = mount(&server, version);
        for _ in 0..3 {
            let connections = [open(&mount, None), open(&mount, None), open(&mount, Some("other"))];
            // One is that of the mount, the others are those in use.
            let alive = count(&server, CREATE_SESSION) - count(&server, DESTROY_SESSION);
            assert_eq!(alive, 4, "{version}");
            drop(connections);
        }
        mount.unmount().unwrap();
        assert_eq!(count(&server, CREATE_SESSION), 10, "{version}");
        assert_eq!(count(&server, DESTROY_SESSION), 10, "{version}");
        assert_eq!(count(&server, EXCHANGE_ID), 4, "{version}");
        assert_eq!(count(&server, DESTROY_CLIENTID), 4, "{version}");
        assert_eq!(server.counters().errors, [].into(), "{version}");
    }
}

#[test]
fn a_session_in_use_is_left_alone_by_an_unmount() {
    let server = Server::start(ServerConfig::default()).unwrap();
    let mount = mount(&server, ProtocolVersion::V4_1);
    let connection = open(&mount, None);
    drop(open(&mount, None));
    mount.unmount().unwrap();
    assert_eq!(count(&server, CREATE_SESSION), 3);
    assert_eq!(count(&server, DESTROY_SESSION), 2);
    assert_eq!(server.counters().errors, [(Status::ClientIdBusy, 1)].into());
    drop(connection);
}
