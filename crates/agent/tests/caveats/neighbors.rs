//! Two campaigns on one target: each reports the other, and leftovers are not reported.

use std::fs;

use fleet::PassEnd;
use model::{CaveatCode, Pass, RunSpec};
use nfs_server::ServerConfig;

use crate::driven_agent::{DrivenAgent, evidence, nfs, server, stream};

/// Runs a pass and returns its caveat about other campaigns.
fn neighbors(agent: &mut DrivenAgent) -> Option<String> {
    let PassEnd { result, broken, .. } = agent.run(Pass::Write);
    assert_eq!(broken, None);
    evidence(&result.caveats, CaveatCode::ConcurrentCampaign).map(str::to_owned)
}

fn small(spec: RunSpec) -> RunSpec {
    RunSpec { file_size_bytes: 1 << 20, ..spec }
}

#[test]
fn detects_campaigns_in_same_directory() {
    let folder = tempfile::tempdir().unwrap();
    let spec = small(stream(folder.path()));
    let [mut one, mut other] = [DrivenAgent::new(), DrivenAgent::new()];
    one.begin_of("one", &spec);
    other.begin_of("other", &spec);
    // Neither has run a pass since, but both have their working directories open.
    let stated = neighbors(&mut one).expect("concurrent-campaign");
    assert!(stated.contains("/.dfsbench-other-") && stated.contains("(flock)"), "{stated}");
    let stated = neighbors(&mut other).expect("concurrent-campaign");
    assert!(stated.contains("/.dfsbench-one-"), "{stated}");
    one.end();
    let stated = neighbors(&mut other).expect("concurrent-campaign");
    assert!(stated.ends_with("it was removed during the trial"), "{stated}");
    assert_eq!(neighbors(&mut other), None);
}

#[test]
fn detects_campaigns_on_same_export() {
    let server = server(ServerConfig::default());
    let spec = small(nfs(&server));
    let [mut one, mut other] = [DrivenAgent::new(), DrivenAgent::new()];
    one.begin_of("one", &spec);
    other.begin_of("other", &spec);
    let stated = neighbors(&mut one).expect("concurrent-campaign");
    assert!(stated.contains("/.dfsbench-other-"), "{stated}");
    assert!(stated.ends_with("it was created during the trial"), "{stated}");
    // The first one shows activity before and after its pass.
    let stated = neighbors(&mut other).expect("concurrent-campaign");
    assert!(stated.contains("/.dfsbench-one-"), "{stated}");
    assert!(stated.ends_with("it was modified during the trial"), "{stated}");
    // It no longer changes.
    assert_eq!(neighbors(&mut other), None);
}

#[test]
fn leftovers_and_own_campaign_are_silent() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(ServerConfig::default());
    let dead = folder.path().join(".dfsbench-dead-1");
    fs::create_dir_all(dead.join(".dfsbench-dead-1.campaign")).unwrap();
    let mut killed = DrivenAgent::new();
    killed.begin_of("dead", &small(nfs(&server)));
    for spec in [small(stream(folder.path())), small(nfs(&server))] {
        let mut rigs = [DrivenAgent::new(), DrivenAgent::new()];
        for agent in &mut rigs {
            agent.begin_of("campaign", &spec);
        }
        for number in [0, 1, 0] {
            assert_eq!(neighbors(&mut rigs[number]), None);
        }
    }
}
