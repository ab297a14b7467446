//! Caveats about several addresses of a server: one that failed, and one that was much slower than
//! the others or carried nothing.

use model::units::Nanos;
use model::{Caveat, CaveatCode, Evidence, PathWork};

/// How many times as long the ops of one address may take as those of the fastest one: with fixed
/// shares of the queue depth, it then carries less than a third.
pub(crate) const SLOWER_MAX: u64 = 3;

/// Ops that each address must have done, on average, before they are compared.
pub(crate) const OPS_MIN: u64 = 100;

/// Raises caveats about what each of the server's addresses did.
pub fn about_paths(paths: &[PathWork]) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    caveats.extend(about_losses(paths));
    caveats.extend(about_balance(paths));
    caveats
}

fn about_losses(paths: &[PathWork]) -> Option<Caveat> {
    let source = "counted by the client";
    let mut losses = Vec::new();
    for path in paths.iter().filter(|path| path.lost_connections > 0) {
        losses.push(format!(
            "{}: {} of {} connections lost, {} calls in flight moved to another address",
            path.address, path.lost_connections, path.connections, path.moved_calls
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
}
