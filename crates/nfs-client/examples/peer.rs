//! Checks this client against a real server: names, listings, data of various sizes.
//!
//! `cargo run -p dfsbench-nfs-client --example peer -- HOST NFS_PORT MOUNT_PORT EXPORT` The export
//! must be writable by root; it is left unchanged. A mismatch panics.

use std::sync::Arc;
use std::time::Duration;

use nfs_client::proto::client::{Data, File, Operation, Outcome, PayloadRange};
use nfs_client::proto::nfs3::{StableHow, Status};
use nfs_client::{Connection, ConnectionOptions, Mount, MountOptions, Scratch};

const WORK: &str = ".dfsbench-peer";

fn mount() -> Mount {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [host, port, mount_port, export] = &arguments[..] else {
        panic!("four arguments: HOST NFS_PORT MOUNT_PORT EXPORT")
    };
    let mut options = MountOptions::new(host, export);
    options.port = Some(port.parse().expect("a port number"));
    options.mount_port = Some(mount_port.parse().expect("a port number"));
    Mount::connect(&options).unwrap_or_else(|error| panic!("{error}"))
}

fn content(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 16) as u8).collect()
}

fn main() {
    let mut mount = mount();
    let root = mount.root();
    let work = mount.mkdir(root, WORK).unwrap();
    let again = mount.mkdir(root, WORK).unwrap_err();
    assert_eq!(again.answered().and_then(|error| error.status()), Some(Status::Exist));
    list_many(&mut mount, work);
    let file = mount.create(work, "data").unwrap();
    let data = content(8 << 20);
    transfer(&mount, file, &data);
    assert_eq!(mount.getattr(file).unwrap().size, data.len() as u64);
    assert!(mount.read(file, 0, data.len() + 1).unwrap() == data);
    mount.remove(work, "data").unwrap();
    mount.rmdir(root, WORK).unwrap();
    mount.unmount().unwrap();
}

fn list_many(mount: &mut Mount, work: File) {
    let names: Vec<_> = (0..1_500).map(|number| format!("file-{number:04}")).collect();
    for name in &names {
        mount.create(work, name).unwrap();
    }
    let mut listed: Vec<_> = mount.readdir(work).unwrap();
    listed.sort_by(|left, right| left.name.cmp(&right.name));
    assert!(listed.iter().map(|entry| &entry.name[..]).eq(names.iter().map(String::as_bytes)));
    for name in &names {
        mount.remove(work, name).unwrap();
    }
}

/// Writes and reads on the measured path, with transfers of various sizes.
fn transfer(mount: &Mount, file: File, data: &[u8]) {
    for len in [1 << 20, 65_536, 100_001, 4_096] {
        let write_len = len.min(mount.wsize());
        let read_len = len.min(mount.rsize());
        let options = ConnectionOptions {
            slots: 16,
            write_pool: Arc::new(data.to_vec()),
            keep_payload: Some(read_len),
            ..ConnectionOptions::default()
        };
        let mut connection = Connection::open(mount, &options).unwrap();
        run(&mut connection, file, data, write_len, true);
        run(&mut connection, file, data, read_len, false);
        let counters = connection.counters();
        let bytes = data.len() as u64;
        assert_eq!((counters.payload_bytes_out, counters.payload_bytes_in), (bytes, bytes));
        assert_eq!((counters.late_replies, counters.malformed_replies), (0, 0));
    }
}

fn run(connection: &mut Connection, file: File, data: &[u8], len: u32, writing: bool) {
    let count = data.len().div_ceil(len as usize);
    let range = |tag: u32| {
        let start = tag as usize * len as usize;
        PayloadRange { start, len: len.min((data.len() - start) as u32) }
    };
    let mut started = 0;
    let mut ended = 0;
    let mut scratch = Scratch::new();
    while ended < count {
        while (started as usize) < count && connection.free_slots() > 0 {
            let payload = range(started);
            let offset = payload.start as u64;
            let stable = StableHow::Unstable;
            if writing {
                let data = Data::Pool(payload);
                let write = Operation::Write { file: &file, offset, stable, data };
                connection.start(0, started, &write).unwrap();
            } else {
                let call = Operation::Read { file: &file, offset, count: payload.len };
                connection.start(0, started, &call).unwrap();
            }
            started += 1;
        }
        ended += connection
            .wait(&mut scratch, &|| 0, Duration::from_secs(5), &mut |event| {
                let expected = range(event.tag);
                match event.result {
                    Ok(Outcome::Written { count, .. }) => assert_eq!(count, expected.len),
                    Ok(Outcome::Read { count, .. }) => {
                        assert_eq!(count, expected.len);
                        let end = expected.start + count as usize;
                        assert!(event.payload == &data[expected.start..end], "{event:?}");
                    }
                    result => panic!("{result:?}"),
                }
            })
            .unwrap();
    }
}
