//! Data that goes through the metadata server although pNFS was requested.

use std::sync::Arc;

use agent::caveats::about_pnfs;
use engine::backend::PnfsCounts;
use model::{Caveat, CaveatCode, CrossCheck, NfsSettings, NfsVersion, Pass, Pnfs, RunSpec, Target};
use nfs_server::{
    DataServerEvent, DataServerFault, DataServers, FaultPlan, LayoutKind, PnfsConfig, ServerConfig,
};

use crate::driven_agent::{DrivenAgent, nfs, server};

/// The caveats of a pass on a server without layouts.
fn caveats_of(pnfs: Pnfs, pass: Pass) -> Vec<Caveat> {
    let server = server(ServerConfig::default());
    let mut spec = RunSpec { file_size_bytes: 1 << 20, ..nfs(&server) };
    if let Target::Nfs(target) = &mut spec.target {
        target.settings = NfsSettings { version: NfsVersion::V4_1, pnfs, ..NfsSettings::default() };
    }
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    let end = agent.run(pass);
    assert_eq!(end.result.errors(), 0);
    let share = end.result.scope.pnfs.and_then(|work| work.direct_share());
    assert_eq!(share, (pnfs != Pnfs::Off).then_some(0.0));
    end.result.caveats
}

fn evidence(caveats: &[Caveat]) -> Option<&str> {
    let found = caveats.iter().find(|caveat| caveat.code == CaveatCode::PnfsFallback)?;
    Some(&found.evidence)
}

#[test]
fn names_server_without_layouts() {
    let caveats = caveats_of(Pnfs::On, Pass::Write);
    insta::assert_snapshot!(
        evidence(&caveats).unwrap(),
        @"all data went through the metadata server: the server offers no layouts"
    );
    assert_eq!(evidence(&caveats_of(Pnfs::Off, Pass::Write)), None);
}

#[test]
fn agrees_with_servers_of_cluster() {
    for (layout, mirrors) in [(LayoutKind::FlexFiles, 2), (LayoutKind::Files, 1)] {
        let servers = DataServers::Own(2);
        let pnfs = PnfsConfig { servers, layout, stripe_unit: 64 << 10, mirrors };
        let config = ServerConfig { pnfs: Some(pnfs), ..ServerConfig::default() };
        let server = Arc::new(server(config));
        let mut spec = RunSpec { file_size_bytes: 1 << 20, ..nfs(&server) };
        if let Target::Nfs(target) = &mut spec.target {
            let version = NfsVersion::V4_1;
            target.embedded = true;
            target.settings = NfsSettings { version, pnfs: Pnfs::On, ..NfsSettings::default() };
        }
        let mut agent = DrivenAgent::beside(&server);
        agent.begin(&spec);
        for pass in [Pass::Write, Pass::Read] {
            let result = agent.run(pass).result;
            assert_eq!(evidence(&result.caveats), None, "{layout:?} {pass}");
            let accounting = |caveat: &&Caveat| caveat.code == CaveatCode::Accounting;
            assert_eq!(result.caveats.iter().find(accounting), None, "{layout:?} {pass}");
            let by_server = |check: &&CrossCheck| check.source.ends_with("by the server");
            let checks = &result.cross_checks;
            assert!(checks.iter().filter(by_server).count() > 2, "{layout:?} {pass} {checks:?}");
        }
        assert_eq!(server.counters().payload_written_bytes, 0);
    }
}

#[test]
fn reports_share_past_data_servers() {
    let data = 3 << 20;
    let counts = PnfsCounts { data_bytes: data, files: 4, ..PnfsCounts::default() };
    assert_eq!(about_pnfs(&counts), None);
    assert_eq!(about_pnfs(&PnfsCounts { data_bytes: 0, ..counts }), None, "nothing was moved");
    let some =
        PnfsCounts { metadata_bytes: 1 << 20, recalled: 1, refused: 2, regained: 1, ..counts };
    insta::assert_snapshot!(
        about_pnfs(&some).unwrap().evidence,
        @"1 MiB of 4 MiB (25.0 %) went through the metadata server (counted by the client); recalled layouts: 1, calls that failed at data servers: 2, layouts got again: 1"
    );
}

/// The caveats about data servers of a pass that writes to three of them, and their addresses.
fn uneven(slow_ms: [u64; 3]) -> (Vec<Caveat>, Vec<String>) {
    let servers = DataServers::Own(3);
    let layout = LayoutKind::FlexFiles;
    let pnfs = PnfsConfig { servers, layout, stripe_unit: 16 << 10, mirrors: 1 };
    let slow = slow_ms.into_iter().enumerate().filter(|(_, ms)| *ms > 0);
    let fault = |(server, ms): (usize, u64)| {
        let event = DataServerEvent::Slow { time_ns: ms * 1_000_000 };
        DataServerFault { server, event }
    };
    let faults = FaultPlan { data_servers: slow.map(fault).collect(), ..FaultPlan::default() };
    let server = server(ServerConfig { pnfs: Some(pnfs), faults, ..ServerConfig::default() });
    let mut spec = RunSpec { file_size_bytes: 5 << 20, io_size_bytes: 16 << 10, ..nfs(&server) };
    spec.queue_depth = 8;
    if let Target::Nfs(target) = &mut spec.target {
        let version = NfsVersion::V4_1;
        target.settings = NfsSettings { version, pnfs: Pnfs::On, ..NfsSettings::default() };
    }
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    let result = agent.run(Pass::Write).result;
    assert_eq!(result.errors(), 0);
    let mut caveats = result.caveats;
    caveats.retain(|caveat| caveat.code == CaveatCode::PathsUneven);
    let ports = server.data_server_addresses().into_iter().map(|address| address.port());
    (caveats, ports.map(|port| format!("127.0.0.1:{port}")).collect())
}

#[test]
fn names_slow_data_server() {
    let (caveats, addresses) = uneven([0, 20, 0]);
    assert_eq!(caveats.len(), 1, "{addresses:?}");
    let evidence = &caveats[0].evidence;
    assert!(evidence.contains(&format!("over {} and", addresses[1])), "{evidence}");
}

#[test]
fn equal_data_servers_are_silent() {
    assert_eq!(uneven([5; 3]).0, []);
}
