//! How evenly emulated clients were served: Jain's index, the slowest and the fastest.
//!
//! In [`Fairness`], clients are compared by completed ops. If these are equal, the client with the
//! longer median time is the slower one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::{ClientResult, PassResult};

use crate::summary::squared_distances;

/// The shares of the clients in a pass, over all trials that count.
#[derive(Clone, Debug, PartialEq)]
pub struct Fairness {
    pub clients: usize,
    /// Jain's index of their ops.
    pub index: f64,
    /// The client with the fewest ops.
    pub slowest: ClientShare,
    /// The client with the most ops.
    pub fastest: ClientShare,
}

/// The work of one client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientShare {
    /// Number of the client within the run, from 0.
    pub client: u32,
    pub ops_per_s: f64,
    pub bytes_per_s: f64,
    /// Ops that failed.
    pub failed: u64,
    /// Median of its service times in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile in nanoseconds.
    pub p99_ns: u64,
    /// Maximum in nanoseconds.
    pub max_ns: u64,
}

impl Fairness {
    /// Compares the clients of some passes, or returns `None` if they were not recorded separately.
    pub(crate) fn from_passes(passes: &[&PassResult]) -> Option<Self> {
        let mut clients: BTreeMap<u32, ClientResult> = BTreeMap::new();
        // Ops of all trials divided by the time of all trials: an average weighted by duration.
        let mut window_ns = 0;
        for pass in passes {
            window_ns += pass.window_ns;
            for result in &pass.clients {
                let fresh = || ClientResult { client: result.client, ..ClientResult::default() };
                clients.entry(result.client).or_insert_with(fresh).merge(result);
            }
        }
        // More ops are faster; if equal, shorter times are faster.
        let mut by_speed: Vec<&ClientResult> = clients.values().collect();
        by_speed.sort_by_cached_key(|client| (client.ops, Reverse(client.times.quantile(0.5))));
        let slowest = *by_speed.first()?;
        let fastest = *by_speed.last()?;
        let mut ops = Vec::with_capacity(clients.len());
        for client in clients.values() {
            ops.push(client.ops as f64);
        }
        Some(Self {
            clients: clients.len(),
            index: jain_index(&ops)?,
            slowest: ClientShare::from_client(slowest, window_ns),
            fastest: ClientShare::from_client(fastest, window_ns),
        })
    }
}

impl ClientShare {
    fn from_client(client: &ClientResult, window_ns: u64) -> Self {
        let per_s = |amount: u64| amount as f64 * 1e9 / window_ns.max(1) as f64;
        Self {
            client: client.client,
            ops_per_s: per_s(client.ops),
            bytes_per_s: per_s(client.bytes),
            failed: client.failed,
            p50_ns: client.times.quantile(0.5),
            p99_ns: client.times.quantile(0.99),
            max_ns: client.times.max(),
        }
    }
}

/// Returns Jain's fairness index: 1 if all amounts are equal, `k/n` if `k` of `n` share everything
/// equally. Returns `None` if all amounts are 0.
///
/// **Source:** R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination
/// for Resource Allocation in Shared Computer Systems", DEC-TR-301, 1984, section 4: `(sum x)^2 /
/// (n * sum x^2)`.
pub(crate) fn jain_index(amounts: &[f64]) -> Option<f64> {
    let sum: f64 = amounts.iter().sum();
    let squares = squared_distances(amounts, 0.0);
    if squares > 0.0 { Some(sum * sum / (amounts.len() as f64 * squares)) } else { None }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact figures are the point
mod tests {
    use super::*;

    #[test]
    fn matches_fairness_index_of_paper() {
        assert_eq!(jain_index(&[7.0, 7.0, 7.0]), Some(1.0));
        // k of n share everything.
        assert_eq!(jain_index(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[3.0, 3.0, 0.0, 0.0]), Some(0.5));
        assert_eq!(jain_index(&[1.0, 3.0]), Some(0.8));
        assert_eq!((jain_index(&[0.0, 0.0]), jain_index(&[])), (None, None));
    }

    #[test]
    fn averages_client_rates_over_trials() {
        let pass = |seconds: u64, ops: [u64; 2]| {
            let clients = (0..2).zip(ops);
            let clients = clients
                .map(|(client, ops)| ClientResult { client, ops, ..ClientResult::default() })
                .collect();
            let window_ns = seconds * 1_000_000_000;
            PassResult { window_ns, clients, ..PassResult::new(model::Pass::Mix) }
        };
        let fairness = Fairness::from_passes(&[&pass(1, [10, 20]), &pass(3, [30, 60])]).unwrap();
        assert_eq!((fairness.slowest.ops_per_s, fairness.fastest.ops_per_s), (10.0, 20.0));
        assert_eq!((fairness.slowest.client, fairness.clients), (0, 2));
    }
}
