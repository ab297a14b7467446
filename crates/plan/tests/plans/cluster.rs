//! Data servers, stripe unit and mirrors of the in-memory server as factors.

use crate::common::plan;
use model::{Impossible, Target};
use plan::{DataServersPlan, Plan};

fn cluster_plan(server: &str, factors: &str) -> Plan {
    plan(&format!(
        "name = \"t\"\n{server}[factors]\n{factors}\n[[target]]\nname = \"n\"\n\
         embedded = true\n[[workload]]\nkind = \"stream\"\n"
    ))
    .unwrap()
}

/// Data servers, stripe unit and mirrors of the servers of a plan's runs; zeros without a cluster.
fn servers(plan: &Plan) -> Vec<(usize, u32, u32)> {
    let of_run = |run| plan.server_of(run).expect("the in-memory server").cluster;
    let shape = |cluster: Option<plan::ClusterPlan>| match cluster {
        Some(cluster) => (cluster.data_servers.count(), cluster.stripe_unit_bytes, cluster.mirrors),
        None => (0, 0, 0),
    };
    plan.runs.iter().map(of_run).map(shape).collect()
}

#[test]
fn factors_make_clusters() {
    let plan = cluster_plan("", "nfsvers = 4.1\ndata_servers = [0, 2, 4]\nmirrors = [1, 2]");
    assert_eq!(servers(&plan), [(0, 0, 0), (2, 0, 1), (2, 0, 2), (4, 0, 1), (4, 0, 2)]);
    assert_eq!(plan.varying(), ["data_servers", "mirrors"]);
    // Each stripe unit, but not for v3, which has no layouts.
    let factors = "nfsvers = [3, 4.1]\ndata_servers = 2\nstripe_unit = [\"64KiB\", \"1MiB\"]";
    let plan = cluster_plan("", factors);
    assert_eq!(servers(&plan), [(0, 0, 0), (2, 64 << 10, 1), (2, 1 << 20, 1)]);
    let plan = cluster_plan("", "nfsvers = 4.1\ndata_servers = [1, 2]\nmirrors = [1, 2]");
    let why: Vec<_> = plan.runs.iter().map(model::RunSpec::impossible).collect();
    assert_eq!(why, [None, Some(Impossible::MoreMirrorsThanDataServers), None, None]);
}

#[test]
fn server_section_has_usual_levels() {
    let section = "[server]\ndata_servers = [\"a\", \"b:1/x\", \"c\"]\nlayouts = \"files\"\n";
    let plan = cluster_plan(section, "nfsvers = 4.1\ndata_servers = [1, 3]");
    assert_eq!(servers(&plan), [(1, 1 << 20, 1), (3, 1 << 20, 1)]);
    let first = plan.server_of(&plan.runs[0]).and_then(|server| server.cluster).unwrap();
    let DataServersPlan::At(named) = first.data_servers else { panic!("{first:?}") };
    assert_eq!(named[0].host, "a");
    // They are recorded with each run.
    let plan = cluster_plan("[server]\ndata_servers = 4\n", "nfsvers = 4.1");
    let Target::Nfs(nfs) = &plan.runs[0].target else { unreachable!() };
    let recorded = (nfs.settings.data_servers, nfs.settings.stripe_unit, nfs.settings.mirrors);
    assert_eq!(recorded, (Some(4), Some(0), Some(1)));
    let plan = cluster_plan("", "nfsvers = 4.1");
    let Target::Nfs(nfs) = &plan.runs[0].target else { unreachable!() };
    assert_eq!((nfs.settings.data_servers, servers(&plan)), (None, vec![(0, 0, 0)]));
}

#[test]
fn plans_of_clusters_read_back() {
    for (server, factors) in [
        ("", "nfsvers = [3, 4.1]\ndata_servers = [0, 2]\nstripe_unit = [0, \"64KiB\"]"),
        ("[server]\ndata_servers = 4\nmirrors = 2\n", "nfsvers = 4.2\nmirrors = [1, 2]"),
        ("[server]\ndata_servers = 4\nstripe_unit = \"64KiB\"\n", "nfsvers = 4.1"),
    ] {
        let made = cluster_plan(server, factors);
        let again = plan(&made.to_toml()).unwrap();
        assert_eq!((&again.runs, &again.server), (&made.runs, &made.server), "{factors}");
    }
}
