//! A server that sends bytes but no complete replies counts as silent, in measured calls and
//! elsewhere.
//!
//! A planned fault makes replies trickle; the timeouts here are far longer than the time of a byte,
//! and far shorter than that of a reply.

use std::time::{Duration, Instant};

use nfs_client::proto::client::Operation;
use nfs_client::{
    Connection, ConnectionError, ConnectionOptions, Interrupt, Interrupted, Mount, MountError,
    MountOptions, Scratch,
};
use nfs_server::fs::{Context, CreateMode, SetAttributes};
use nfs_server::{FaultPlan, Server, ServerConfig};

/// Setup takes a few replies of a few hundred bytes; a READ of 64 KiB takes more than two minutes.
const RATE_BYTES_PER_S: u64 = 500;

fn trickling(bytes_per_s: u64) -> (Server, MountOptions) {
    let trickle_bytes_per_s = Some(bytes_per_s);
    let faults = FaultPlan { trickle_bytes_per_s, ..FaultPlan::default() };
    let server = Server::start(ServerConfig { faults, ..ServerConfig::default() }).unwrap();
    let port = Some(server.address().port());
    let options = MountOptions {
        port,
        mount_port: port,
        timeout: Duration::from_secs(60),
        ..MountOptions::new("127.0.0.1", "/export")
    };
    (server, options)
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test passes its clock to the client")]
fn times_out_trickling_reply() {
    let (server, options) = trickling(RATE_BYTES_PER_S);
    let fs = server.file_system();
    let (export, _) = fs.find_path("/export").unwrap();
    let set = SetAttributes { size: Some(1 << 16), ..SetAttributes::default() };
    fs.create(export, b"f", CreateMode::Guarded, &set, &Context::default()).unwrap();
    let mut mount = Mount::connect(&options).unwrap();
    let file = mount.lookup(mount.root(), "f").unwrap();
    let mut connection = Connection::open(&mount, &ConnectionOptions::default()).unwrap();
    let begun = Instant::now();
    let clock = || begun.elapsed().as_nanos() as u64;
    let mut scratch = Scratch::new();
    let read = Operation::Read { file: &file, offset: 0, count: 1 << 16 };
    connection.start(clock(), 7, &read).unwrap();
    let error = loop {
        let wait = Duration::from_millis(50);
        let ended = connection.wait(&mut scratch, &clock, wait, &mut |_| {}).unwrap();
        assert_eq!(ended, 0, "64 KiB arrived within {:?}", begun.elapsed());
        if let Err(error) = connection.check_timeout(clock(), 2_000_000_000) {
            break error;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "the connection stays alive while bytes arrive"
        );
    };
    assert!(matches!(error, ConnectionError::CallTimedOut { .. }), "{error}");
    assert!(connection.counters().wire_bytes_in > 0, "bytes did arrive");
}

#[test]
fn stops_without_waiting_for_reply() {
    let (_server, mut options) = trickling(1);
    options.interrupt = Interrupt::new(|| Some(Interrupted::Stopped));
    let error = Mount::connect(&options).unwrap_err();
    let is_stopped = matches!(error, MountError::Interrupted { why: Interrupted::Stopped, .. });
    assert!(is_stopped, "{error}");
    assert!(error.to_string().ends_with("interrupted"), "{error}");
}
