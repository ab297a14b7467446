//! Caveats about names that clients looked up with the help of delegations, by the counts of both
//! sides: the clients' calls, and the delegations of the server.

use model::{Caveat, CaveatCode, Evidence, LabSpec, OpKind, PassResult};

/// Minimum share of ops that must have reached the server as calls. Below it, clients answered
/// some.
const CALLS_SHARE_MIN: f64 = 0.9;

/// Procedures that request names and attributes from a server.
const PROCEDURES: [&str; 7] =
    ["GETATTR", "LOOKUP", "ACCESS", "READDIRPLUS", "READDIR", "OPEN", "OPEN_NOATTR"];

/// Raises a caveat if clients that held delegations answered lookups and stats themselves.
///
/// Without delegations, they may do so for as long as their attribute caches last, which is what a
/// mount's options say.
pub fn about_names(lab: &LabSpec, result: &PassResult) -> Option<Caveat> {
    let held = result
        .telemetry
        .iter()
        .filter_map(|host| host.metric("nfsd.delegations")?.values.last().copied())
        .sum::<u64>();
    if held == 0 || !lab.mounts_nfs() {
        return None;
    }
    let source = "/proc/fs/nfsd/clients/*/states";
    if lab.serving.delegations == Some(false) {
        let evidence =
            format!("server_delegations false, but clients held {held} delegations ({source})");
        return Some(CaveatCode::OptionNotEffective.because(evidence));
    }
    let is_requested = [lab.serving.delegations, lab.mounting.directory_delegations];
    if is_requested.contains(&Some(true)) {
        return None;
    }
    let asks = result.kinds.iter().filter(|done| asks_for_name(done.kind));
    let ops: u64 = asks.map(|done| done.done).sum();
    let calls = count_calls(lab, result);
    let share = calls as f64 / ops as f64;
    if ops == 0 || share >= CALLS_SHARE_MIN {
        return None;
    }
    let evidence = format!(
        "{ops} names and attributes were looked up, but clients made {calls} calls for them \
         (GETATTR, LOOKUP, ACCESS, READDIR and OPEN of /proc/self/mountstats), and held {held} \
         delegations ({source} of {})",
        lab.server.name,
    );
    let data = Evidence::shares(share, CALLS_SHARE_MIN, "/proc/self/mountstats");
    Some(CaveatCode::Delegated.because(evidence).with_data(data))
}

/// Returns true if an op looks up a name or attributes.
const fn asks_for_name(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Stat
            | OpKind::StatDir
            | OpKind::Lookup
            | OpKind::LookupMissing
            | OpKind::Getattr
            | OpKind::Access
    )
}

/// Sums the calls for names and attributes of all clients.
fn count_calls(lab: &LabSpec, result: &PassResult) -> u64 {
    let mut calls = 0_u64;
    for point in lab.mount_points() {
        for procedure in PROCEDURES {
            let name = format!("nfs.{}.{procedure}.ops", point.display());
            let made = result.telemetry.iter().map(|host| host.increase(&name));
            calls = calls.saturating_add(made.sum());
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use model::{Histogram, Host, KindResult, Metric, MetricKind, Pass, Telemetry};

    use super::*;

    /// A pass that made 1,000 stats with some calls, beside a server with some delegations.
    fn caveat(calls: u64, held: Option<u64>, change: impl Fn(&mut LabSpec)) -> Option<Caveat> {
        let mut lab = LabSpec::new(Host::local("server"), Host::local("client"));
        change(&mut lab);
        let stats = KindResult {
            kind: OpKind::Stat,
            issued: 1_000,
            done: 1_000,
            bytes: 0,
            errors: Vec::new(),
            service_time: Histogram::new(),
            response_time: Histogram::new(),
        };
        let host = |name: &str, metric: Option<(&str, MetricKind, u64)>| Telemetry {
            host: name.to_owned(),
            times_ns: vec![0, 1],
            metrics: metric
                .map(|(name, kind, last)| Metric {
                    name: name.to_owned(),
                    kind,
                    values: vec![0, last],
                })
                .into_iter()
                .collect(),
        };
        let getattr = "nfs./run/dfsbench/mount.GETATTR.ops";
        let telemetry = vec![
            host("client", Some((getattr, MetricKind::Counter, calls))),
            host("server", held.map(|held| ("nfsd.delegations", MetricKind::Gauge, held))),
        ];
        let result = PassResult { kinds: vec![stats], telemetry, ..PassResult::new(Pass::Stat) };
        about_names(&lab, &result)
    }

    #[test]
    fn names_stats_that_clients_answered() {
        let caveat = caveat(12, Some(1_002), |_| ()).unwrap();
        assert_eq!(caveat.code, CaveatCode::Delegated);
        let data = Evidence::shares(0.012, 0.9, "/proc/self/mountstats");
        assert_eq!(caveat.data, Some(data));
        insta::assert_snapshot!(
            caveat.evidence,
            @"1000 names and attributes were looked up, but clients made 12 calls for them (GETATTR, LOOKUP, ACCESS, READDIR and OPEN of /proc/self/mountstats), and held 1002 delegations (/proc/fs/nfsd/clients/*/states of server)"
        );
    }

    #[test]
    fn silent_without_delegations() {
        let unchanged = |_: &mut LabSpec| ();
        // The attribute cache may answer, and a server that isn't ours has unknown delegations.
        assert_eq!(caveat(12, Some(0), unchanged), None);
        assert_eq!(caveat(12, None, unchanged), None);
        assert_eq!(caveat(900, Some(1_002), unchanged), None);
        // Delegations that were requested, and our own client, whose calls aren't counted here.
        assert_eq!(caveat(0, Some(1), |lab| lab.serving.delegations = Some(true)), None);
        let directories = |lab: &mut LabSpec| lab.mounting.directory_delegations = Some(true);
        assert_eq!(caveat(0, Some(1), directories), None);
        assert_eq!(caveat(0, Some(1), |lab| lab.own_client = true), None);
    }

    #[test]
    fn names_delegations_in_spite_of_setting() {
        let off = |lab: &mut LabSpec| lab.serving.delegations = Some(false);
        let caveat_of = |held| caveat(1_000, Some(held), off);
        let raised = caveat_of(2).unwrap();
        assert_eq!(raised.code, CaveatCode::OptionNotEffective);
        assert!(raised.evidence.contains("clients held 2 delegations"), "{raised:?}");
        assert_eq!(caveat_of(0), None);
    }
}
