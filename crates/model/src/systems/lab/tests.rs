//! Tests of how lab settings are resolved: mount options, host addresses, used devices, and the
//! layers in which two runs agree.
//!
//! All checks are on exact texts and numbers.

use super::*;

#[test]
fn lists_all_mount_options() {
    let mut mounting = Mounting::default();
    assert_eq!(mounting.all_options(), ["vers=3", "proto=tcp"]);
    mounting.nfs.version = NfsVersion::V4_2;
    mounting.nfs.xprtsec = XprtSec::Tls;
    mounting.nfs.nconnect = 4;
    mounting.transfer_size_bytes = Some(65_536);
    mounting.options = vec!["noac".into()];
    let expected = "vers=4.2,proto=tcp,xprtsec=tls,nconnect=4,rsize=65536,wsize=65536,noac";
    assert_eq!(mounting.all_options().join(","), expected);
    let udp = NfsSettings { proto: Proto::Udp, timeo_ms: 750, ..NfsSettings::default() };
    let mounting = Mounting { nfs: udp, ..Mounting::default() };
    assert_eq!(mounting.all_options().join(","), "vers=3,proto=udp,timeo=8,retrans=3");
}

#[test]
fn reaches_host_through_ssh_name() {
    let host = |ssh: Option<&str>, address: Option<&str>| {
        let [ssh, address] = [ssh, address].map(|text| text.map(str::to_owned));
        Host { ssh, address, ..Host::local("h") }.reachable_address().map(str::to_owned)
    };
    assert_eq!(host(None, None), None);
    assert_eq!(host(Some("root@a@b"), None).as_deref(), Some("b"));
    assert_eq!(host(Some("a"), Some("10.0.0.1")).as_deref(), Some("10.0.0.1"));
}

#[test]
fn uses_only_needed_devices() {
    let mut storage = Storage { devices: vec!["/a".into(), "/b".into()], ..Storage::default() };
    storage.directory = "/srv".into();
    assert_eq!((storage.used().len(), storage.place()), (0, Path::new("/srv")));
    storage.file_system = FileSystem::Xfs;
    assert_eq!((storage.used().len(), storage.place()), (1, Path::new(STORAGE_POINT)));
    storage.raid = Raid::Raid0;
    assert_eq!(storage.used().len(), 2);
}

#[test]
fn finds_first_differing_layer() {
    let one = LabSpec::new(Host::local("s"), Host::local("c"));
    let mut other = one.clone();
    other.invalidation = Invalidation::Remount;
    assert!(one.agrees(&other, LabSpec::LAYERS));
    other.serving.threads.max = 4;
    assert!(one.agrees(&other, 2) && !one.agrees(&other, 3));
    other = one.clone();
    other.more_clients = vec![Host::local("d")];
    assert!(one.agrees(&other, 2) && !one.agrees(&other, 3));
    other.tuning.mtu_bytes = Some(9_000);
    assert!(one.agrees(&other, 0) && !one.agrees(&other, 1));
}
