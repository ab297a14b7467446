//! Triggers each planned fault.
//!
//! Every test starts a server with one plan, and checks its effect on a client.

use std::time::{Duration, Instant};

use nfs_proto::mount3::{self, MountStatus};
use nfs_proto::nfs3::{Call, FileHandle, Procedure, Reply, Status};
use nfs_proto::program;
use nfs_server::{
    ErrorFault, FaultKind, FaultPlan, FaultedCalls, PartsPerMillion, Server, ServerConfig,
    ServiceTime,
};

use crate::client::{Client, start, until};

const ALWAYS: PartsPerMillion = PartsPerMillion(1_000_000);

fn faulty(faults: FaultPlan) -> (Server, Client, FileHandle) {
    let server = start(ServerConfig { faults, ..ServerConfig::default() });
    let fs = server.file_system();
    let (id, _) = fs.find_path("/export").unwrap();
    let root = FileHandle::from_slice(&fs.handle(id)).unwrap();
    let client = Client::connect(&server);
    (server, client, root)
}

#[test]
#[allow(clippy::disallowed_methods, reason = "measures a delay")]
fn delays_replies_without_blocking_others() {
    let delay = Duration::from_millis(250);
    let service_time = Some(ServiceTime::Fixed { time_ns: delay.as_nanos() as u64 });
    let (server, mut client, file) = faulty(FaultPlan { service_time, ..FaultPlan::default() });
    let started = Instant::now();
    client.nfs(Call::Getattr { file: &file });
    assert!(started.elapsed() >= delay);
    // Forty calls at once, on two connections, take one delay, not forty.
    let mut other = Client::connect(&server);
    let started = Instant::now();
    for _ in 0..20 {
        client.send_nfs(Call::Getattr { file: &file });
        other.send_nfs(Call::Getattr { file: &file });
    }
    for _ in 0..20 {
        assert!(matches!(client.receive(1).nfs3(), Reply::Getattr { result: Ok(_) }));
        assert!(matches!(other.receive(1).nfs3(), Reply::Getattr { result: Ok(_) }));
    }
    assert!(started.elapsed() >= delay);
    assert!(started.elapsed() < 10 * delay, "{:?}", started.elapsed());
}

#[test]
fn enforces_lower_transfer_sizes() {
    let (server, mut client, root) = faulty(FaultPlan {
        read_bytes_max: Some(8192),
        write_bytes_max: Some(4096),
        ..FaultPlan::default()
    });
    let answer = client.nfs(Call::Fsinfo { root: &root });
    let Reply::Fsinfo { result, .. } = answer.nfs3() else { unreachable!() };
    let info = result.unwrap();
    assert_eq!((info.read_bytes_max, info.write_bytes_max), (8192, 4096));
    let file = client.create(root, "f");
    assert_eq!(client.write(file, 0, &vec![3; 1 << 20]), Ok(4096));
    assert_eq!(client.write(file, 4096, &[3; 4096]), Ok(4096));
    assert_eq!(client.write(file, 8192, &[3; 4096]), Ok(4096));
    assert_eq!(client.read(file, 0, 12_288).unwrap().0.len(), 8192);
    assert_eq!(server.file_size("/export/f"), Some(12_288));
}

#[test]
fn returns_planned_errors_without_effect() {
    let fault = ErrorFault {
        calls: FaultedCalls::V3(Procedure::Create.number()),
        status: Status::Jukebox,
        share: ALWAYS,
    };
    let (server, mut client, root) =
        faulty(FaultPlan { errors: vec![fault], ..FaultPlan::default() });
    let how = nfs_proto::nfs3::CreateHow::Guarded(nfs_proto::nfs3::Sattr::default());
    let answer = client.nfs(Call::Create { dir: &root, name: b"f", how });
    let Reply::Create { result, .. } = answer.nfs3() else { unreachable!() };
    assert_eq!(result.unwrap_err(), Status::Jukebox);
    assert!(client.size(root).is_ok());
    assert!(server.list_directory("/export").unwrap().is_empty());
    let counters = server.counters();
    assert_eq!((counters.planned_faults(), counters.errors[&Status::Jukebox]), (1, 1));
    assert_eq!(counters.calls_of(Procedure::Create), 1);
}

#[test]
fn repeats_random_errors_by_seed() {
    let outcomes = |seed| {
        let share = PartsPerMillion(300_000);
        let errors = vec![ErrorFault { calls: FaultedCalls::All, status: Status::Io, share }];
        let (_server, mut client, root) =
            faulty(FaultPlan { seed, errors, ..FaultPlan::default() });
        (0..200).map(|_| client.size(root).is_ok()).collect::<Vec<_>>()
    };
    let first = outcomes(1);
    assert_eq!(outcomes(1), first);
    assert_ne!(outcomes(2), first);
    let failed = first.iter().filter(|ok| !**ok).count();
    assert!((40..80).contains(&failed), "{failed}");
}

#[test]
fn a_refused_mount_says_why() {
    let refuse_mount = Some(MountStatus::Access);
    let (_server, mut client, _) = faulty(FaultPlan { refuse_mount, ..FaultPlan::default() });
    let answer = client.call(&program::Call::Mount3(mount3::Call::Mnt(b"/export")));
    let result = mount3::Reply::decode_mnt(answer.reader()).unwrap();
    assert_eq!(result, Err(MountStatus::Access));
}

#[test]
fn executes_call_despite_dropped_reply() {
    let (server, mut client, root) =
        faulty(FaultPlan { drop_reply: ALWAYS, ..FaultPlan::default() });
    let attributes = nfs_proto::nfs3::Sattr::default();
    client.send_nfs(Call::Mkdir { dir: &root, name: b"d", attributes });
    assert!(client.is_silent());
    assert_eq!(server.list_directory("/export").unwrap(), ["d"]);
    assert_eq!(server.counters().faults_of(FaultKind::Drop), 1);
}

#[test]
fn drops_some_replies() {
    let drop_reply = PartsPerMillion(500_000);
    let (server, mut client, root) = faulty(FaultPlan { drop_reply, ..FaultPlan::default() });
    (0..100).for_each(|_| client.send_nfs(Call::Getattr { file: &root }));
    until(&server, |server| server.counters().calls_of(Procedure::Getattr) == 100);
    let kept = 100 - server.counters().faults_of(FaultKind::Drop);
    let xids: Vec<_> = (0..kept).map(|_| client.receive(1).xid).collect();
    assert!((30..70).contains(&xids.len()), "{}", xids.len());
    assert!(xids.is_sorted());
    assert!(client.is_silent());
}

#[test]
fn hangs_one_connection_after_calls() {
    let (server, mut client, root) =
        faulty(FaultPlan { hang_after_calls: Some(3), ..FaultPlan::default() });
    (0..3).for_each(|_| assert!(client.size(root).is_ok()));
    client.send_nfs(Call::Getattr { file: &root });
    assert!(client.is_silent());
    let mut other = Client::connect(&server);
    assert!(other.size(root).is_ok());
    // The server notices that the hung client has left.
    drop(client);
    until(&server, |server| server.counters().connections_open == 1);
}

#[test]
fn a_connection_closes_after_its_calls() {
    let (_server, mut client, root) =
        faulty(FaultPlan { close_after_calls: Some(3), ..FaultPlan::default() });
    (0..5).for_each(|_| client.send_nfs(Call::Getattr { file: &root }));
    (0..3).for_each(|_| assert_eq!(client.receive(1).rpc, Ok(())));
    assert!(client.try_receive(1).is_err());
}

#[test]
fn faults_combine() {
    let (_server, mut client, root) = faulty(FaultPlan {
        service_time: Some(ServiceTime::Fixed { time_ns: 1_000_000 }),
        close_after_calls: Some(2),
        ..FaultPlan::default()
    });
    (0..3).for_each(|_| client.send_nfs(Call::Getattr { file: &root }));
    (0..2).for_each(|_| assert_eq!(client.receive(1).rpc, Ok(())));
    assert!(client.try_receive(1).is_err());
}
