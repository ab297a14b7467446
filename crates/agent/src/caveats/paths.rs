//! Caveats about several addresses of a server, or several data servers of a cluster: one that
//! failed, and one that was much slower than the others or carried nothing.

use model::units::Nanos;
use model::{Caveat, CaveatCode, Evidence, PathWork, PnfsWork};

/// How many times as long the ops of one address may take as those of the fastest one: with fixed
/// shares of the queue depth, it then carries less than a third.
pub(crate) const SLOWER_MAX: u64 = 3;

/// Ops that each address must have done, on average, before they are compared.
pub(crate) const OPS_MIN: u64 = 100;

/// Raises caveats about what each of the server's addresses did.
pub fn about_paths(paths: &[PathWork]) -> Vec<Caveat> {
    let moved = |path: &PathWork| {
        format!(", {} calls in flight moved to another address", path.moved_calls)
    };
    about_losses(paths, moved).into_iter().chain(about_balance(paths)).collect()
}

/// Raises caveats about what each data server of a cluster did.
pub fn about_data_servers(work: &PnfsWork) -> Vec<Caveat> {
    let servers = &work.data_servers;
    about_losses(servers, |_| String::new()).into_iter().chain(about_balance(servers)).collect()
}

/// `moved` tells what happened to the calls that were in flight.
fn about_losses(paths: &[PathWork], moved: impl Fn(&PathWork) -> String) -> Option<Caveat> {
    let source = "counted by the client";
    let mut losses = Vec::new();
    for path in paths.iter().filter(|path| path.lost_connections > 0) {
        let PathWork { address, lost_connections, connections, .. } = path;
        losses.push(format!(
            "{address}: {lost_connections} of {connections} connections lost{}",
            moved(path)
        ));
    }
    let lost = paths.iter().map(|path| path.lost_connections).sum();
    let data = Evidence::counts(lost, 0, "connections", source);
    let evidence = format!("{} ({source})", losses.join("; "));
    (lost > 0).then(|| CaveatCode::PathLost.because(evidence).with_data(data))
}

fn about_balance(paths: &[PathWork]) -> Option<Caveat> {
    let source = "times of ops by address";
    // Of an address that failed, something else is known.
    let alive = || paths.iter().filter(|path| path.lost_connections == 0);
    let ops: u64 = alive().map(|path| path.ops).sum();
    if ops < OPS_MIN * alive().count() as u64 {
        return None;
    }
    if let Some(idle) = alive().find(|path| path.ops == 0) {
        let evidence = format!("{} carried none of the {ops} ops ({source})", idle.address);
        let data = Evidence::counts(0, 1, "ops", source);
        return Some(CaveatCode::PathsUneven.because(evidence).with_data(data));
    }
    let middle_ns = |path: &PathWork| path.times.quantile(0.5);
    let fastest = alive().min_by_key(|path| middle_ns(path))?;
    let slowest = alive().max_by_key(|path| middle_ns(path))?;
    if middle_ns(slowest) <= middle_ns(fastest).saturating_mul(SLOWER_MAX) {
        return None;
    }
    let evidence = format!(
        "half of the ops took up to {} over {} and up to {} over {}, which carried {} and {} ops \
         ({source})",
        Nanos(middle_ns(slowest)),
        slowest.address,
        Nanos(middle_ns(fastest)),
        fastest.address,
        slowest.ops,
        fastest.ops,
    );
    let limit_ns = middle_ns(fastest).saturating_mul(SLOWER_MAX);
    let data = Evidence::nanos(middle_ns(slowest), limit_ns, source);
    Some(CaveatCode::PathsUneven.because(evidence).with_data(data))
}

#[cfg(test)]
mod tests {
    use model::Histogram;

    use super::*;

    fn path(address: &str, ops: u64, time_ns: u64) -> PathWork {
        let mut times = Histogram::new();
        times.record_n(time_ns, ops);
        PathWork { address: address.to_owned(), connections: 2, ops, times, ..PathWork::default() }
    }

    fn codes(paths: &[PathWork]) -> Vec<CaveatCode> {
        about_paths(paths).into_iter().map(|caveat| caveat.code).collect()
    }

    #[test]
    fn compares_addresses_with_enough_ops() {
        let fast = path("a", 300, 1_000);
        assert_eq!(codes(&[]), []);
        for (other, expected) in [
            (path("b", 200, 2_900), None),
            (path("b", 200, 3_200), Some(CaveatCode::PathsUneven)),
            (path("b", 0, 0), Some(CaveatCode::PathsUneven)),
        ] {
            assert_eq!(codes(&[fast.clone(), other]), Vec::from_iter(expected));
        }
        assert_eq!(codes(&[path("a", 150, 1_000), path("b", 40, 9_000)]), []);
    }

    #[test]
    fn reports_failed_address_only_as_lost() {
        let lost = PathWork { lost_connections: 1, moved_calls: 7, ..path("b", 0, 0) };
        let caveats = about_paths(&[path("a", 900, 1_000), lost]);
        assert_eq!(caveats.len(), 1);
        insta::assert_snapshot!(caveats[0].evidence, @"b: 1 of 2 connections lost, 7 calls in flight moved to another address (counted by the client)");
    }

    #[test]
    fn compares_data_servers() {
        let of = |servers: [PathWork; 3]| {
            let work = PnfsWork { data_servers: servers.into(), metadata_bytes: 0 };
            about_data_servers(&work)
        };
        let fast = |address| path(address, 300, 1_000);
        assert_eq!(of([fast("a"), fast("b"), path("c", 200, 2_900)]), []);
        let slow = of([fast("a"), path("b", 200, 5_000), fast("c")]);
        assert_eq!(slow.len(), 1);
        assert_eq!(slow[0].code, CaveatCode::PathsUneven);
        assert!(slow[0].evidence.contains("over b and"), "{}", slow[0].evidence);
        let lost = of([fast("a"), PathWork { lost_connections: 2, ..path("b", 9, 1) }, fast("c")]);
        assert_eq!(lost.len(), 1);
        insta::assert_snapshot!(lost[0].evidence, @"b: 2 of 2 connections lost (counted by the client)");
    }
}
