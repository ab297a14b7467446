//! A trace in which one client requests the handle of each directory on its way, and another one
//! walks down the path in one compound: both use the same directories, also in a replay.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;

use engine::SystemClock;
use nfs_client::Mount;
use nfs_client::proto::client::ProtocolVersion;
use nfs_proto::nfs4::{self, Bitmap, CompoundBuilder, Op, attribute};
use nfs_proto::rpc::{CallHeader, Credential, ProcedureId, RPC_VERSION};
use nfs_proto::xdr::Writer;
use replay::{Fill, Outcome, Pace, ReplayPlan, ReplaySettings, Replayer, TargetKind};

use crate::common::{Recorded, whole_trace};

/// Sends a v4.0 compound over its own connection and waits for its reply.
fn send_compound(port: u16, ops: &[Op<'_>]) {
    let ProcedureId { program, version, procedure } = ProcedureId::new(nfs4::PROGRAM, 4, 1);
    let xid = 7;
    let rpc_version = RPC_VERSION;
    let credential = Ok(Credential::None);
    let mut message = Vec::new();
    CallHeader { xid, rpc_version, program, version, procedure, credential }
        .encode(&mut Writer::new(&mut message));
    let mut builder = CompoundBuilder::new(&mut message, b"", 0);
    for op in ops {
        builder.push(op);
    }
    builder.finish();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mark = 0x8000_0000 | message.len() as u32;
    stream.write_all(&[&mark.to_be_bytes()[..], &message].concat()).unwrap();
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut reply).unwrap();
}

/// Captures a mount of v4.1 and walks of v4.0 down a path of two directories.
fn captured(goes_by_path: bool) -> Vec<u8> {
    let origin = Recorded::start();
    let mut direct = nfs_client::MountOptions::new("127.0.0.1", "/export");
    direct.port = Some(origin.server.address().port());
    let mut setup = Mount::connect(&direct).unwrap();
    let outer = setup.mkdir(setup.root(), "outer").unwrap();
    setup.mkdir(outer, "inner").unwrap();
    let options = origin.options(ProtocolVersion::V4_1);
    let mut mount = Mount::connect(&options).unwrap();
    let outer = mount.lookup(mount.root(), "outer").unwrap();
    mount.lookup(outer, "inner").unwrap();
    mount.mkdir(outer, "made").unwrap();
    mount.unmount().unwrap();
    if goes_by_path {
        let getattr = Op::Getattr { request: Bitmap::from_numbers(&[attribute::TYPE]) };
        let [export, outer, inner] =
            ["export", "outer", "inner"].map(|name| Op::Lookup { name: name.as_bytes() });
        let port = options.port.unwrap();
        send_compound(port, &[Op::Putrootfh, export, outer, inner, getattr, Op::Getfh]);
        send_compound(port, &[Op::Putrootfh, export, getattr, Op::Getfh]);
    }
    origin.trace()
}

fn replay(trace: &[u8], version: ProtocolVersion) -> Outcome {
    let target = Recorded::start();
    let clock = SystemClock::new();
    let stop = AtomicBool::new(false);
    let mut replayer = Replayer::connect(&target.options(version), &clock, &stop).unwrap();
    let settings = whole_trace(TargetKind::Nfs(version), replayer.transfer_bytes());
    let mut plan = ReplayPlan::read(trace, &settings).unwrap();
    let settings = ReplaySettings { directory: "replayed".to_owned(), fill: Fill::Sparse };
    let mut files = replayer.prepare(&mut plan, &settings).unwrap();
    let outcome = replayer.replay(&plan, &mut files, Pace::Open { speed: 1.0 }).unwrap().outcome();
    replayer.remove("replayed").unwrap();
    replayer.disconnect().unwrap();
    outcome
}

#[test]
fn finds_same_names_in_all_versions() {
    for goes_by_path in [false, true] {
        let trace = captured(goes_by_path);
        for version in [ProtocolVersion::V3, ProtocolVersion::V4_1] {
            let outcome = replay(&trace, version);
            assert!(outcome.is_faithful(), "{goes_by_path} {version:?}: {outcome:#?}");
            assert_eq!((outcome.issued, outcome.skipped), (outcome.ops, 0));
            assert!(outcome.ops >= if goes_by_path { 8 } else { 3 }, "{}", outcome.ops);
        }
    }
}
