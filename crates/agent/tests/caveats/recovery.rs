//! Causes planted on the way between client and server, from which the client recovers.

use fleet::PassEnd;
use model::{Caveat, CaveatCode, NfsSettings, NfsVersion, Pass, Proto, RunSpec, Target};
use nfs_proto::nfs3::{Procedure, Status};
use nfs_server::{ErrorFault, FaultPlan, FaultedCalls, PartsPerMillion, ServerConfig};

use crate::driven_agent::{DrivenAgent, nfs, server};

/// A write pass on a server with these faults, spoken to in this way.
fn write_pass(faults: FaultPlan, settings: NfsSettings) -> PassEnd {
    let server = server(ServerConfig { faults, ..ServerConfig::default() });
    let mut spec = RunSpec { file_size_bytes: 4 << 20, ..nfs(&server) };
    if let Target::Nfs(target) = &mut spec.target {
        target.settings = settings;
    }
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    agent.run(Pass::Write)
}

/// The caveats of such a pass, in which nothing is lost in the end.
fn written(faults: FaultPlan, settings: NfsSettings) -> Vec<Caveat> {
    let end = write_pass(faults, settings);
    assert_eq!(end.broken, None);
    assert_eq!(end.result.errors(), 0);
    let accounting = end.result.caveats.iter().find(|caveat| caveat.code == CaveatCode::Accounting);
    assert_eq!(accounting, None, "recovered data is accounted for");
    end.result.caveats
}

fn evidence(caveats: &[Caveat], code: CaveatCode) -> Option<&str> {
    caveats.iter().find(|caveat| caveat.code == code).map(|caveat| caveat.evidence.as_str())
}

/// Checks that none of the caveats tested here is raised.
fn is_smooth(caveats: &[Caveat]) -> bool {
    [CaveatCode::Retransmits, CaveatCode::Recovered, CaveatCode::ServerBusy]
        .into_iter()
        .all(|code| evidence(caveats, code).is_none())
}

#[test]
fn no_caveat_where_nothing_went_wrong() {
    for proto in [Proto::Tcp, Proto::Udp] {
        let settings = NfsSettings { proto, ..NfsSettings::default() };
        let caveats = written(FaultPlan::default(), settings);
        assert!(is_smooth(&caveats), "{proto}: {caveats:?}");
    }
}

#[test]
fn accepts_record_sent_in_parts() {
    let faults =
        FaultPlan { seed: 3, short_write: PartsPerMillion(300_000), ..FaultPlan::default() };
    let caveats = written(faults, NfsSettings::default());
    assert!(is_smooth(&caveats), "{caveats:?}");
}

/// Writes and reads files on a server that moves half of some calls; the evidence of both passes.
fn short_transfers(faults: FaultPlan, version: NfsVersion) -> [Option<String>; 2] {
    let server = server(ServerConfig { faults, ..ServerConfig::default() });
    let mut spec = RunSpec { file_size_bytes: 4 << 20, ..nfs(&server) };
    if let Target::Nfs(target) = &mut spec.target {
        target.settings = NfsSettings { version, ..NfsSettings::default() };
    }
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    [Pass::Write, Pass::Read].map(|pass| {
        let end = agent.run(pass);
        let caveats = &end.result.caveats;
        assert_eq!(evidence(caveats, CaveatCode::Accounting), None, "{version} {pass}");
        evidence(caveats, CaveatCode::ShortTransfers).map(str::to_owned)
    })
}

#[test]
fn reports_half_reads() {
    for version in [NfsVersion::V3, NfsVersion::V4_1] {
        let all = PartsPerMillion(1_000_000);
        let faults = FaultPlan { short_read: all, ..FaultPlan::default() };
        let [written, read] = short_transfers(faults, version);
        assert_eq!(written, None);
        let read = read.expect("short-transfers");
        assert!(read.contains(" and 0 WRITEs of "), "{read}");
        assert!(read.contains("counted by the client"), "{read}");
    }
}

#[test]
fn reports_half_writes() {
    let faults =
        FaultPlan { seed: 3, short_write: PartsPerMillion(300_000), ..FaultPlan::default() };
    let [written, read] = short_transfers(faults, NfsVersion::V3);
    assert!(written.expect("short-transfers").starts_with("0 READs and "));
    assert_eq!(read, None);
}

#[test]
fn whole_transfers_raise_no_caveat() {
    for version in [NfsVersion::V3, NfsVersion::V4_1] {
        assert_eq!(short_transfers(FaultPlan::default(), version), [None, None], "{version}");
    }
}

#[test]
fn reports_lost_udp_replies() {
    let faults = FaultPlan { seed: 3, drop_reply: PartsPerMillion(50_000), ..FaultPlan::default() };
    let settings = NfsSettings { proto: Proto::Udp, timeo_ms: 100, ..NfsSettings::default() };
    let caveats = written(faults, settings);
    let reported = evidence(&caveats, CaveatCode::Retransmits).expect("retransmits");
    assert!(reported.contains("(counted by the client)"), "{reported}");
}

#[test]
fn reports_repeatedly_closed_connection() {
    let faults = FaultPlan { close_after_calls: Some(20), ..FaultPlan::default() };
    let caveats = written(faults, NfsSettings::default());
    let reported = evidence(&caveats, CaveatCode::Recovered).expect("recovered");
    assert!(!reported.starts_with("0 connections"), "{reported}");
}

#[test]
fn failed_pass_was_not_made_good() {
    let error = ErrorFault {
        calls: FaultedCalls::V3(Procedure::Write.number()),
        status: Status::Io,
        share: PartsPerMillion(1_000_000),
    };
    for errors in [vec![error], Vec::new()] {
        let has_errors = !errors.is_empty();
        let faults = FaultPlan { close_after_calls: Some(5), errors, ..FaultPlan::default() };
        let end = write_pass(faults, NfsSettings::default());
        assert_eq!(end.result.errors() > 0, has_errors, "{end:?}");
        let caveats = &end.result.caveats;
        assert_eq!(evidence(caveats, CaveatCode::Errors).is_some(), has_errors, "{caveats:?}");
        assert_eq!(evidence(caveats, CaveatCode::Recovered).is_none(), has_errors, "{caveats:?}");
        let fact = end.facts.iter().find(|fact| fact.name == "write: failed recovery");
        assert_eq!(fact.is_some(), has_errors, "{:?}", end.facts);
    }
}

#[test]
fn reports_server_that_delays_calls() {
    let faults = FaultPlan {
        seed: 1,
        errors: vec![ErrorFault {
            calls: FaultedCalls::V3(Procedure::Write.number()),
            status: Status::Jukebox,
            share: PartsPerMillion(100_000),
        }],
        ..FaultPlan::default()
    };
    let caveats = written(faults, NfsSettings::default());
    let reported = evidence(&caveats, CaveatCode::ServerBusy).expect("server-busy");
    assert!(reported.contains("try again later"), "{reported}");
}
