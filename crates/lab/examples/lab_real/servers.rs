//! Servers in user space. The kernel's server is tested in virtual machines.

use std::fs;
use std::path::Path;

use model::work::{directory_name, mark_of};
use model::{Action, NfsVersion, action};

use crate::storage::POINT;
use crate::{Check, Host, apply_all, fact, has_program};

/// Every check of this file.
pub(crate) const CHECKS: &[Check] = checks![
    ganesha_serves_requested_versions,
    removes_client_leftovers_with_campaign,
    names_package_of_missing_server,
];

fn memory() -> Action {
    Action::Mount(action::Mount {
        device: None,
        file_system: model::FileSystem::Tmpfs,
        point: POINT.into(),
        options: Vec::new(),
    })
}

fn ganesha(versions: &[NfsVersion]) -> Action {
    Action::Ganesha(action::Ganesha {
        directory: POINT.into(),
        threads: 0,
        versions: versions.to_vec(),
    })
}

fn ganesha_serves_requested_versions() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    apply_all(&mut lab, &[memory()]);
    for versions in [&[NfsVersion::V4_1][..], &[NfsVersion::V3], &[]] {
        let found = lab.apply(&ganesha(versions)).unwrap();
        assert_eq!(found.differences, [], "{versions:?}");
        let has = |major| versions.is_empty() || versions.iter().any(|it| it.major() == major);
        assert_eq!(fact(&found, "NFS v3") == "served", has(3));
        assert_eq!(fact(&found, "NFS v4") == "served", has(4));
        let error = lab.apply(&ganesha(versions)).unwrap_err().to_string();
        assert!(error.contains("port 2049 is already in use"), "{error}");
        lab.undo_last().unwrap();
    }
    lab.undo_all().unwrap();
    host.assert_as_before(&before);
}

fn removes_client_leftovers_with_campaign() {
    let host = Host::new();
    let before = host.traces();
    let served = host.path("served");
    fs::create_dir(&served).unwrap();
    let serve = Action::Ganesha(action::Ganesha {
        directory: served.clone(),
        threads: 0,
        versions: vec![NfsVersion::V4_1],
    });
    let [ours, other] = ["test", "another"].map(|name| served.join(directory_name(name, 3)));
    let make = |directory: &Path| {
        let name = directory.file_name().unwrap().to_str().unwrap();
        fs::create_dir_all(directory.join(mark_of(name))).unwrap();
        fs::create_dir_all(directory.join("files")).unwrap();
    };
    make(&other);
    let mut lab = host.lab();
    lab.apply(&serve).unwrap();
    make(&ours);
    // As between two passes, the second of which reads the files of the first one.
    lab.undo_last().unwrap();
    lab.apply(&serve).unwrap();
    assert!(ours.exists());
    lab.undo_all().unwrap();
    assert!(!ours.exists() && other.exists());

    lab.apply(&serve).unwrap();
    make(&ours);
    // Simulates a kill.
    drop(lab);
    let cleaned = lab::clean(&host.state()).unwrap();
    assert!(cleaned.iter().all(|one| one.outcome.is_ok()), "{cleaned:?}");
    assert!(!ours.exists() && other.exists());

    let mut keeping = host.lab().keeping_files();
    keeping.apply(&serve).unwrap();
    make(&ours);
    keeping.undo_all().unwrap();
    assert!(ours.exists());
    fs::remove_dir_all(&served).unwrap();
    host.assert_as_before(&before);
}

fn names_package_of_missing_server() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    if has_program("unfsd") || has_program("rpc.nfsd") {
        return;
    }
    let action = Action::Unfs3(action::Unfs3 {
        directory: "/var/tmp".into(),
        clients: "127.0.0.1".to_owned(),
    });
    let error = lab.apply(&action).unwrap_err().to_string();
    assert!(error.contains("`unfsd` is not installed") && error.contains("unfs3"), "{error}");
    let action = Action::Nfsd(action::Nfsd {
        threads: 1,
        threads_min: 0,
        versions: Vec::new(),
        udp: false,
        rdma: false,
        transfer_max_bytes: 0,
    });
    let error = lab.apply(&action).unwrap_err().to_string();
    assert!(error.contains("apt-get install nfs-kernel-server"), "{error}");
    assert_eq!(lab.height(), 0);
    host.assert_as_before(&before);
}
