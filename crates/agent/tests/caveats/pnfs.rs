//! Data that goes through the metadata server although pNFS was requested.

use agent::caveats::about_pnfs;
use engine::backend::PnfsCounts;
use model::{Caveat, CaveatCode, NfsSettings, NfsVersion, Pass, Pnfs, RunSpec, Target};
use nfs_server::ServerConfig;

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
fn reports_share_past_data_servers() {
    let data = 3 << 20;
    let counts = PnfsCounts { data_bytes: data, files: 4, ..PnfsCounts::default() };
    assert_eq!(about_pnfs(&counts), None);
    assert_eq!(about_pnfs(&PnfsCounts { data_bytes: 0, ..counts }), None, "nothing was moved");
    let some = PnfsCounts { metadata_bytes: 1 << 20, recalled: 1, refused: 2, ..counts };
    insta::assert_snapshot!(
        about_pnfs(&some).unwrap().evidence,
        @"1 MiB of 4 MiB (25.0 %) went through the metadata server (counted by the client); recalled layouts: 1, calls that failed at data servers: 2"
    );
}
