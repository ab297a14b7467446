//! Several addresses of a server, one of which is cut, slow, or idle.

#[path = "../../../nfs-client/tests/client/relay.rs"]
mod relay;

use std::time::Duration;

use fleet::PassEnd;
use model::{CaveatCode, NfsVersion, Pass, RunSpec, Target};
use nfs_server::ServerConfig;
use relay::Relay;

use crate::driven_agent::{DrivenAgent, nfs, server};

const CODES: [CaveatCode; 2] = [CaveatCode::PathLost, CaveatCode::PathsUneven];

/// A write pass over two addresses of a server, and the caveats tested here.
fn write_pass(version: NfsVersion, plant: impl FnOnce(&[Relay; 2])) -> (PassEnd, Vec<CaveatCode>) {
    let server = server(ServerConfig::default());
    let relays = [(); 2].map(|()| Relay::start(server.address()));
    let mut spec = RunSpec { file_size_bytes: 4 << 20, io_size_bytes: 8 << 10, ..nfs(&server) };
    spec.queue_depth = 4;
    if let Target::Nfs(target) = &mut spec.target {
        target.settings.version = version;
        target.port = Some(relays[0].address().port());
        target.more_addresses = vec![relays[1].address().to_string()];
    }
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    plant(&relays);
    let end = agent.run(Pass::Write);
    assert_eq!((&end.broken, end.result.errors()), (&None, 0), "{:?}", end.result.caveats);
    let codes = end.result.caveats.iter().map(|caveat| caveat.code);
    let codes = codes.filter(|code| CODES.contains(code)).collect();
    (end, codes)
}

#[test]
fn reports_cut_address() {
    for version in [NfsVersion::V3, NfsVersion::V4_1] {
        let (end, codes) = write_pass(version, |relays| relays[1].cut_after(4_000));
        assert_eq!(codes, [CaveatCode::PathLost], "{version}: {:?}", end.result.caveats);
        let [first, second] = &end.result.scope.paths[..] else { panic!("{:?}", end.result) };
        assert_eq!((first.lost_connections, second.lost_connections), (0, 1));
        assert!(second.ops > 0 && second.ops < first.ops, "{first:?} {second:?}");
    }
}

#[test]
fn reports_slow_address() {
    let slow = |relays: &[Relay; 2]| relays[1].delay_replies(Duration::from_millis(4));
    let (end, codes) = write_pass(NfsVersion::V4_1, slow);
    assert_eq!(codes, [CaveatCode::PathsUneven], "{:?}", end.result.caveats);
}

#[test]
fn equal_addresses_are_silent() {
    // Both are slow, by about as much.
    let (end, codes) = write_pass(NfsVersion::V4_1, |relays| {
        for relay in relays {
            relay.delay_replies(Duration::from_millis(1));
        }
    });
    assert_eq!(end.result.scope.paths.len(), 2);
    assert_eq!(codes, [], "{:?}", end.result.caveats);
}
