//! Mounting: granted limits, and the message of each failure.

use std::net::{Ipv4Addr, TcpListener};

use nfs_client::{CallFailure, Mount, MountError};
use nfs_proto::client::{Kind, OperationKind};
use nfs_proto::mount3::MountStatus;
use nfs_proto::nfs3::StableHow;

use crate::common::{Behaviour, content, file, options, root, start, start_portmapper};

fn refused(behaviour: Behaviour) -> MountError {
    Mount::connect(&start(behaviour)).unwrap_err()
}

#[test]
fn negotiates_transfer_sizes() {
    let mut options = start(Behaviour::Fragments(100));
    let mount = Mount::connect(&options).unwrap();
    assert_eq!((mount.rsize(), mount.wsize()), (1 << 20, 1 << 19));
    assert_eq!(mount.root(), root());
    assert!(mount.congestion_control().is_some_and(|name| !name.is_empty()));
    options.rsize = Some(4_096);
    options.wsize = Some(1 << 20);
    let mount = Mount::connect(&options).unwrap();
    assert_eq!((mount.rsize(), mount.wsize()), (4_096, 1 << 19));
    mount.unmount().unwrap();
}

#[test]
fn names_missing_subdirectory() {
    let mut options = start(Behaviour::Fragments(100));
    options.subdir = "a//b/".into();
    assert_eq!(Mount::connect(&options).unwrap().root(), file());
    options.subdir = "a/missing".into();
    let message = Mount::connect(&options).unwrap_err().to_string();
    assert!(message.contains("`missing`") && message.contains("`a/missing`"), "{message}");
    assert!(message.contains("NFS3ERR_NOENT"), "{message}");
}

#[test]
fn mounts_path_below_export() {
    let mut options = start(Behaviour::Fragments(100));
    options.export = "/export/a/b".into();
    assert_eq!(Mount::connect(&options).unwrap().root(), file());
}

#[test]
fn finds_mount_service_on_nfs_port() {
    let mut options = start(Behaviour::Fragments(100));
    options.mount_port = None;
    assert_eq!(Mount::connect(&options).unwrap().root(), root());
}

#[test]
fn queries_portmapper_for_missing_ports() {
    let mut options = start(Behaviour::Fragments(100));
    let port = options.port.take();
    options.mount_port = None;
    options.portmap_port = start_portmapper(port);
    let mount = Mount::connect(&options).unwrap();
    assert_eq!(Some(mount.server().port()), port);

    options.portmap_port = start_portmapper(None);
    let error = Mount::connect(&options).unwrap_err();
    assert!(matches!(error, MountError::NotRegistered { service: "NFS", .. }), "{error}");
}

#[test]
fn ignores_late_reply() {
    let mut mount = Mount::connect(&start(Behaviour::SlowRead)).unwrap();
    let late = mount.read(file(), 0, 100).unwrap_err();
    let read = Kind::File(OperationKind::Read);
    assert!(matches!(late, CallFailure::TimedOut { call, .. } if call == read), "{late}");
    mount.commit(file()).unwrap();
    mount.commit(file()).unwrap();
}

#[test]
fn reads_and_writes_in_pieces() {
    let mut options = start(Behaviour::Fragments(1_000));
    options.rsize = Some(1_000);
    options.wsize = Some(3_000);
    let mut mount = Mount::connect(&options).unwrap();
    mount.write(file(), 77, &content(77, 10_001), StableHow::Unstable).unwrap();
    mount.commit(file()).unwrap();
    assert_eq!(mount.read(file(), 123, 10_001).unwrap(), content(123, 10_001));
}

#[test]
fn a_refusal_hints_at_the_export() {
    let error = refused(Behaviour::Refuse(MountStatus::Access));
    assert!(matches!(error, MountError::Refused { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("MNT3ERR_ACCES") && message.contains("`insecure`"), "{message}");
}

#[test]
fn lists_exports_if_one_is_missing() {
    let mut options = start(Behaviour::Fragments(100));
    options.export = "/exprot".into();
    let error = Mount::connect(&options).unwrap_err();
    assert!(matches!(error, MountError::NoSuchExport { .. }), "{error}");
    assert!(error.to_string().contains("it exports: /export, /exports/other"), "{error}");
}

#[test]
fn treats_refused_unlisted_export_as_missing() {
    let mut options = start(Behaviour::Refuse(MountStatus::Access));
    options.export = "/exprot".into();
    let error = Mount::connect(&options).unwrap_err();
    assert!(matches!(error, MountError::NoSuchExport { .. }), "{error}");
}

#[test]
fn names_port_without_mount_service() {
    let mut options = start(Behaviour::Fragments(100));
    options.mount_port = Some(start_portmapper(None));
    let error = Mount::connect(&options).unwrap_err();
    assert!(matches!(error, MountError::NotOffered { service: "MOUNT", .. }), "{error}");
    assert!(error.to_string().contains("`?mountport=`"), "{error}");
}

#[test]
fn names_offered_range_of_versions() {
    let error = refused(Behaviour::Version4);
    assert!(matches!(error, MountError::Version { low: 4, high: 4, .. }), "{error}");
    assert!(error.to_string().contains("versions 4 to 4"), "{error}");
}

#[test]
fn gives_up_silent_server_in_time() {
    let error = refused(Behaviour::Silent);
    assert!(matches!(error, MountError::NoAnswer { .. }), "{error}");
    assert!(error.to_string().contains("within 0.3 s"), "{error}");
}

#[test]
fn recognizes_http_server() {
    let error = refused(Behaviour::Text);
    assert!(matches!(&error, MountError::NotRpc { begin, .. } if begin == "HTTP"), "{error}");
    assert!(error.to_string().contains("HTTP server"), "{error}");
}

#[test]
fn a_closed_port_names_the_address() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = Mount::connect(&options(address)).unwrap_err();
    assert!(matches!(error, MountError::Connect { .. }), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[test]
fn names_unresolvable_host() {
    let mut options = start(Behaviour::Silent);
    options.host = "no such host.invalid".into();
    let error = Mount::connect(&options).unwrap_err();
    assert!(matches!(error, MountError::Resolve { .. }), "{error}");
    assert!(error.to_string().contains("`no such host.invalid`"), "{error}");
}

#[test]
fn an_unknown_congestion_control_is_named() {
    let mut options = start(Behaviour::Fragments(100));
    options.congestion_control = Some("wishful".into());
    let error = Mount::connect(&options).unwrap_err();
    assert!(matches!(error, MountError::CongestionControl { .. }), "{error}");
}
