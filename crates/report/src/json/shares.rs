//! Writes the share of each emulated client and each host in a pass as JSON.
//!
//! Times of single clients and hosts are kept as few buckets, so they have quantiles only.

use model::{ClientResult, HostResult};
use serde::Serialize;
use stats::{HostShare, HostsCompared};

/// One emulated client.
#[derive(Serialize)]
pub struct ClientPart {
    client: u32,
    ops: u64,
    bytes: u64,
    failed: u64,
    service_time_p50_ns: u64,
    service_time_p90_ns: u64,
    service_time_p99_ns: u64,
    service_time_max_ns: u64,
}

/// One of several hosts that made the pass together.
#[derive(Serialize)]
pub struct HostPart<'a> {
    host: &'a str,
    workers: u32,
    ops: u64,
    bytes: u64,
    failed: u64,
    common_window: model::Work,
    start_ns: i64,
    end_ns: i64,
    error_ns: u64,
    cpu_ns: u64,
    service_time_p50_ns: u64,
    service_time_p90_ns: u64,
    service_time_p99_ns: u64,
    service_time_max_ns: u64,
}

/// The client hosts of a row beside each other, over all trials.
#[derive(Serialize)]
pub struct HostsPart<'a> {
    jain_fairness_index: Option<f64>,
    start_skew_ns: u64,
    stragglers: Vec<&'a str>,
    hosts: Vec<HostSharePart<'a>>,
}

/// One of them.
#[derive(Serialize)]
struct HostSharePart<'a> {
    host: &'a str,
    rate: f64,
    failed: u64,
    start_ns: i64,
    error_ns: u64,
    service_time_p50_ns: u64,
    service_time_p99_ns: u64,
    service_time_max_ns: u64,
}

impl<'a> HostsPart<'a> {
    /// Takes what is told of them.
    pub fn of(compared: &'a HostsCompared) -> Self {
        let share = |host: &'a HostShare| HostSharePart {
            host: &host.host,
            rate: host.rate.per_s(),
            failed: host.failed,
            start_ns: host.start_ns,
            error_ns: host.error_ns,
            service_time_p50_ns: host.p50_ns,
            service_time_p99_ns: host.p99_ns,
            service_time_max_ns: host.max_ns,
        };
        let slow = compared.stragglers();
        Self {
            jain_fairness_index: compared.index,
            start_skew_ns: compared.skew_ns,
            stragglers: slow.into_iter().map(|host| host.host.as_str()).collect(),
            hosts: compared.hosts.iter().map(share).collect(),
        }
    }
}

impl ClientPart {
    /// Takes what is told of it.
    pub fn of(client: &ClientResult) -> Self {
        Self {
            client: client.client,
            ops: client.ops,
            bytes: client.bytes,
            failed: client.failed,
            service_time_p50_ns: client.times.quantile(0.5),
            service_time_p90_ns: client.times.quantile(0.9),
            service_time_p99_ns: client.times.quantile(0.99),
            service_time_max_ns: client.times.max(),
        }
    }
}

impl<'a> HostPart<'a> {
    /// Takes what is told of it.
    pub fn of(host: &'a HostResult) -> Self {
        Self {
            host: &host.host,
            workers: host.workers,
            ops: host.ops,
            bytes: host.bytes,
            failed: host.failed,
            common_window: host.common,
            start_ns: host.start_ns,
            end_ns: host.end_ns,
            error_ns: host.error_ns,
            cpu_ns: host.cpu_ns,
            service_time_p50_ns: host.times.quantile(0.5),
            service_time_p90_ns: host.times.quantile(0.9),
            service_time_p99_ns: host.times.quantile(0.99),
            service_time_max_ns: host.times.max(),
        }
    }
}
