//! Tests with an independent server in this process: the memory file system of the crate
//! `nfs3_server`.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use nfs_client::{Connection, ConnectionOptions, Mount, MountOptions, Scratch};
use nfs_proto::client::{Data, Operation, Outcome, PayloadRange};
use nfs_proto::nfs3::{StableHow, Status};
use nfs3_server::memfs::{MemFs, MemFsConfig};
use nfs3_server::tcp::{NFSTcp, NFSTcpListener};

fn mount() -> Mount {
    let (send_port, port) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let memfs = MemFs::new(MemFsConfig::default()).unwrap();
            let listener = NFSTcpListener::bind("127.0.0.1:0", memfs).await.unwrap();
            send_port.send(listener.get_listen_port()).unwrap();
            listener.handle_forever().await.unwrap();
        });
    });
    let mut options = MountOptions::new("127.0.0.1", "/");
    options.port = Some(port.recv().unwrap());
    Mount::connect(&options).unwrap()
}

#[test]
fn creates_lists_and_removes_tree() {
    let mut mount = mount();
    let root = mount.root();
    let dir = mount.mkdir(root, "dir").unwrap();
    for number in 0..300 {
        mount.create(dir, &format!("file-{number:03}")).unwrap();
    }
    let mut names: Vec<_> =
        mount.readdir(dir).unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    let expected: Vec<_> =
        (0..300).map(|number| format!("file-{number:03}").into_bytes()).collect();
    assert_eq!(names, expected);
    for number in 0..300 {
        mount.remove(dir, &format!("file-{number:03}")).unwrap();
    }
    mount.rmdir(root, "dir").unwrap();
    let gone = mount.lookup(root, "dir").unwrap_err();
    assert_eq!(gone.answered().and_then(|error| error.status()), Some(Status::NoEnt));
    mount.unmount().unwrap();
}

#[test]
fn what_is_written_is_read() {
    let mut mount = mount();
    let root = mount.root();
    let file = mount.create(root, "data").unwrap();
    let data: Vec<u8> =
        (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 8) as u8).collect();
    mount.write(file, 0, &data, StableHow::FileSync).unwrap();
    assert_eq!(mount.getattr(file).unwrap().size, data.len() as u64);
    assert!(mount.read(file, 0, 4_000_000).unwrap() == data);
    assert!(mount.read(file, 1_234_567, 1_000_000).unwrap() == data[1_234_567..2_234_567]);
}

#[test]
fn keeps_calls_in_flight() {
    const COUNT: u32 = 64;
    const LEN: u32 = 32 * 1024;
    let mut mount = mount();
    let root = mount.root();
    let file = mount.create(root, "data").unwrap();
    let pool: Vec<u8> = (0..COUNT * LEN).map(|at| (at.wrapping_mul(40_503) >> 8) as u8).collect();
    let options = ConnectionOptions {
        slots: 8,
        write_pool: Arc::from(pool.clone()),
        keep_payload: Some(LEN),
        ..ConnectionOptions::default()
    };
    let mut connection = Connection::open(&mount, &options).unwrap();
    let clock = || 0;
    let mut scratch = Scratch::new();
    for reading in [false, true] {
        let mut started = 0;
        let mut ended = 0;
        while ended < COUNT as usize {
            while started < COUNT && connection.free_slots() > 0 {
                let start = (started * LEN) as usize;
                if reading {
                    let call = Operation::Read { file: &file, offset: start as u64, count: LEN };
                    connection.start(0, started, &call).unwrap();
                } else {
                    let payload = PayloadRange { start, len: LEN };
                    let offset = start as u64;
                    let stable = StableHow::FileSync;
                    let data = Data::Pool(payload);
                    let write = Operation::Write { file: &file, offset, stable, data };
                    connection.start(0, started, &write).unwrap();
                }
                started += 1;
            }
            ended += connection
                .wait(&mut scratch, &clock, Duration::from_secs(5), &mut |event| match event.result
                {
                    Ok(Outcome::Read { count: LEN, .. }) => {
                        let start = (event.tag * LEN) as usize;
                        assert!(event.payload == &pool[start..start + LEN as usize]);
                    }
                    Ok(Outcome::Written { count: LEN, .. }) => {}
                    result => panic!("{result:?}"),
                })
                .unwrap();
        }
    }
    let bytes = u64::from(COUNT * LEN);
    let counters = connection.counters();
    assert_eq!((counters.payload_bytes_out, counters.payload_bytes_in), (bytes, bytes));
    assert_eq!((counters.calls_sent, counters.replies), (128, 128));
    assert_eq!(mount.getattr(file).unwrap().size, bytes);
}
