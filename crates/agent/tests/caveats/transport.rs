//! How a mount reached its server, from counters as the kernel writes them.

use agent::caveats::about_transport;
use lab::mounts::Mount;
use lab::telemetry;
use model::{Caveat, CaveatCode, Host, LabSpec, OpKind, Pass, PassResult, XprtSec};

use crate::mount::{done, nfs_mount};

const MOUNT: &str = include_str!("mountstats/v4.txt");
/// Of Linux 7.2, with one mount that is encrypted in software.
const TLS: &str = include_str!("tls_stat.txt");

/// Returns the text of mountstats with a connection for each count of sends.
fn with_connections(sends: &[u64]) -> String {
    let mut lines = Vec::new();
    for line in MOUNT.lines() {
        if line.trim_start().starts_with("xprt:") {
            let connection = |n: &u64| format!("\txprt:\ttcp 0 0 1 0 0 {n} {n} 0 {n} 0 2 0 0");
            lines.extend(sends.iter().map(connection));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines.join("\n")
}

/// Returns the text of tls_stat with these sessions in software and on a device.
fn with_sessions(software: u64, device: u64) -> String {
    let counted = |line: &str| match line.split_whitespace().next() {
        Some(name @ "TlsCurrTxSw") => format!("{name} {software}"),
        Some(name @ "TlsCurrTxDevice") => format!("{name} {device}"),
        _ => line.to_owned(),
    };
    TLS.lines().map(counted).collect::<Vec<_>>().join("\n")
}

/// Returns the caveats about a pass with the sends of each connection, on a mount whose options in
/// effect are `options`.
fn caveats(lab: Option<&LabSpec>, options: &str, sends: &[u64], tls: Option<&str>) -> Vec<Caveat> {
    let none = vec![0; sends.len()];
    let mut telemetry =
        telemetry::parse_mountstats(&[&with_connections(&none), &with_connections(sends)]);
    if let Some(tls) = tls {
        telemetry.metrics.extend(telemetry::parse_tls_stat(&[tls, tls]).metrics);
    }
    let read = vec![done(OpKind::Read, 100)];
    let telemetry = vec![telemetry];
    let result =
        PassResult { pass: Pass::Read, kinds: read, telemetry, ..crate::figures::result() };
    let mount = Mount { options: options.to_owned(), ..nfs_mount() };
    let local = Mount { file_system: "ext4".to_owned(), ..mount.clone() };
    assert_eq!(about_transport(&result, Some(&local), lab), []);
    about_transport(&result, Some(&mount), lab)
}

fn requested(nconnect: u32, xprtsec: XprtSec) -> LabSpec {
    let mut lab = LabSpec::new(Host::local("s"), Host::local("c"));
    (lab.mounting.nfs.nconnect, lab.mounting.nfs.xprtsec) = (nconnect, xprtsec);
    lab
}

#[test]
fn names_connections_without_calls() {
    let about = |nconnect, sends: &[u64]| {
        let found = caveats(Some(&requested(nconnect, XprtSec::None)), "", sends, None);
        found.into_iter().map(|caveat| (caveat.code, caveat.evidence)).collect::<Vec<_>>()
    };
    let [(code, evidence)] = &about(4, &[200, 0, 0, 0])[..] else { panic!() };
    assert_eq!(*code, CaveatCode::OptionNotEffective);
    let expected = "nconnect makes 4 connections, but 1 of 4 carried the 200 calls";
    assert!(evidence.starts_with(expected), "{evidence}");
    // A mount that shares the connections of an older one.
    let [(_, evidence)] = &about(4, &[200])[..] else { panic!() };
    assert!(evidence.contains("but 1 of 1 carried"), "{evidence}");
    for (nconnect, sends) in [
        (4, &[50, 50, 50, 50][..]),
        (1, &[200]),
        (2, &[100, 100, 0]),
        (4, &[63, 0, 0, 0]),
        (2, &[]),
    ] {
        assert_eq!(about(nconnect, sends), [], "{nconnect}: {sends:?}");
    }
    let mut trunked = requested(1, XprtSec::None);
    trunked.server.more_addresses = vec!["10.0.1.1".to_owned()];
    assert_eq!(caveats(Some(&trunked), "", &[200], None), []);
    trunked.mounting.nfs.max_connect = Some(4);
    assert_eq!(caveats(Some(&trunked), "", &[120, 80], None), []);
    let [caveat] = &caveats(Some(&trunked), "", &[200, 0], None)[..] else { panic!() };
    assert!(caveat.evidence.starts_with("max_connect and nconnect make 2"), "{}", caveat.evidence);
    // A mount that the run didn't make.
    assert_eq!(caveats(None, "", &[200, 0], None), []);
}

#[test]
fn names_mount_without_tls_session() {
    let about = |level, sends: &[u64], tls: Option<&str>| {
        let found = caveats(Some(&requested(1, level)), "rw,xprtsec=tls", sends, tls);
        found.into_iter().map(|caveat| caveat.evidence).collect::<Vec<_>>()
    };
    let plain = with_sessions(0, 0);
    let [evidence] = &about(XprtSec::Tls, &[40], Some(&plain))[..] else { panic!() };
    assert!(evidence.starts_with("xprtsec tls, but the mount made 40 calls"), "{evidence}");
    assert_eq!(about(XprtSec::Mtls, &[40], Some(&plain)).len(), 1);
    assert_eq!(about(XprtSec::Tls, &[40], Some(TLS)), [""; 0]);
    assert_eq!(about(XprtSec::None, &[40], Some(&plain)), [""; 0]);
    assert_eq!(about(XprtSec::Tls, &[0], Some(&plain)), [""; 0]);
    // A kernel that doesn't count sessions.
    assert_eq!(about(XprtSec::Tls, &[40], None), [""; 0]);
}

#[test]
fn notes_tls_on_network_device() {
    let about = |options: &str, tls: &str| {
        let found = caveats(None, options, &[40], Some(tls));
        found
            .into_iter()
            .map(|caveat| (caveat.code, caveat.data.unwrap().found))
            .collect::<Vec<_>>()
    };
    let device = with_sessions(1, 2);
    assert_eq!(about("rw,xprtsec=mtls", &device), [(CaveatCode::TlsOffload, 2.0)]);
}

#[test]
fn stays_silent_about_tls_in_software() {
    let device = with_sessions(0, 2);
    for (options, tls) in [("rw,xprtsec=tls", TLS), ("rw", &device), ("rw,xprtsec=none", &device)] {
        assert_eq!(caveats(None, options, &[40], Some(tls)), [], "{options}");
    }
}
