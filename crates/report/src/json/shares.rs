//! What each emulated client and each host did of a pass, as the JSON of a report tells it.
//!
//! Times of single clients and hosts are kept as few buckets, so they have quantiles only.

use model::{ClientResult, HostResult};
use serde::Serialize;

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
