//! Share of each emulated client and each host in a pass, as JSON.
//!
//! Times of individual clients and hosts are stored in few buckets, so only quantiles are
//! available.

use model::{ClientResult, ClientTimes, HostResult, PathWork};
use schemars::JsonSchema;
use serde::Serialize;
use stats::{HostShare, HostsCompared, RanksCompared, TrainingJudged, WorstTimes};

use super::{SummaryPart, Times};
use crate::campaign::paths::{Balance, merge_data_servers};
use crate::table::Row;

/// One emulated client.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Client")]
pub(super) struct ClientPart {
    client: u32,
    ops: u64,
    bytes: u64,
    failed: u64,
    #[serde(flatten)]
    times: ServiceTimes,
}

/// One of several hosts that ran the pass together; starts and ends are relative to the common
/// planned start.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Host")]
pub(super) struct HostPart<'a> {
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
    #[serde(flatten)]
    times: ServiceTimes,
}

/// Comparison of a row's client hosts, over all trials.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Hosts")]
pub(super) struct HostsPart<'a> {
    /// Fairness index of the rates while all of them worked.
    jain_fairness_index: Option<f64>,
    start_skew_ns: u64,
    /// Maximum error of the skew, given the clocks of both hosts.
    start_skew_error_ns: u64,
    /// Hosts that are slow compared with the others, slowest first.
    stragglers: Vec<&'a str>,
    hosts: Vec<HostSharePart<'a>>,
}

/// What the data servers of a pNFS cluster did, over all trials that count. `trials` has the
/// details of each.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DataServers")]
pub(super) struct DataServersPart {
    servers: Vec<DataServerPart>,
    /// Bytes that went through the metadata server.
    metadata_server_bytes: u64,
    /// Share of the bytes that went past the metadata server; null without any.
    direct_percent: Option<f64>,
    /// Bytes of the busiest data server, divided by the mean; null without any.
    busiest_over_mean: Option<f64>,
    /// Addresses of data servers that took more than three times as long as the fastest.
    slow: Vec<String>,
}

/// What one data server did.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DataServer")]
struct DataServerPart {
    address: String,
    bytes: u64,
    /// Share of the bytes of all data servers; null without any.
    bytes_percent: Option<f64>,
    /// Response times of its READs and WRITEs.
    service_time: Times,
}

impl DataServersPart {
    pub(super) fn from_row(row: &Row<'_>) -> Option<Self> {
        let work = merge_data_servers(row)?;
        let all = work.data_bytes();
        let server = |server: &PathWork| DataServerPart {
            address: server.address.clone(),
            bytes: server.bytes,
            bytes_percent: (all > 0).then(|| 100.0 * server.bytes as f64 / all as f64),
            service_time: Times::from_histogram(&server.times),
        };
        let balance = Balance::from_work(&work);
        Some(Self {
            servers: work.data_servers.iter().map(server).collect(),
            metadata_server_bytes: work.metadata_bytes,
            direct_percent: work.direct_share().map(|share| 100.0 * share),
            busiest_over_mean: balance.busiest_over_mean,
            slow: balance.slow.iter().map(|(address, _)| (*address).to_owned()).collect(),
        })
    }
}

/// Comparison of the ranks of a row whose result is the time of the slowest rank.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Ranks")]
pub(super) struct RanksPart<'a> {
    ranks: u32,
    /// Time until the slowest rank was done, in seconds, over the trials.
    time_s: SummaryPart,
    /// Time of the slowest rank relative to the median rank, as the median over the trials.
    slowest_rank_ratio: f64,
    /// The rank that was slow more often than chance explains, from 0; null if there is none.
    straggler_rank: Option<u32>,
    /// Its host; null if there was only one.
    straggler_host: Option<&'a str>,
    /// How long saves at the interval `save_every` stall a job per hour; null if nothing is saved.
    stall_s_per_hour: Option<f64>,
}

impl<'a> RanksPart<'a> {
    pub(super) fn from_ranks(compared: &'a RanksCompared) -> Self {
        let straggler = compared.straggler.as_ref();
        Self {
            ranks: compared.count,
            time_s: SummaryPart::from_summary(compared.seconds),
            slowest_rank_ratio: compared.slowest_ratio,
            straggler_rank: straggler.map(|it| it.rank),
            straggler_host: straggler.and_then(|it| it.host.as_deref()),
            stall_s_per_hour: compared.stall_s_per_hour,
        }
    }
}

/// How the accelerators of a training were used.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Training")]
pub(super) struct TrainingPart {
    accelerators: u32,
    /// Steps of each accelerator, including the first.
    steps: u64,
    /// Share of the time that they computed, without the first step, over the trials.
    utilization: SummaryPart,
    /// The share that is required.
    required_utilization: f64,
    is_fed: bool,
    /// Samples per second over all accelerators, including the first step.
    samples_per_s: SummaryPart,
    /// Time that each accelerator waited for batches, in seconds.
    waited_s: f64,
    /// Time from the start until every accelerator had its first batch, in seconds.
    first_batch_s: f64,
    /// Longest time that a step waited for its batch in any trial, in seconds.
    longest_wait_s: f64,
}

impl TrainingPart {
    pub(super) fn from_judged(judged: &TrainingJudged) -> Self {
        Self {
            accelerators: judged.accelerators,
            steps: judged.steps,
            utilization: SummaryPart::from_summary(judged.utilization),
            required_utilization: judged.required,
            is_fed: judged.is_fed(),
            samples_per_s: SummaryPart::from_summary(judged.samples_per_s),
            waited_s: judged.waited_s,
            first_batch_s: judged.first_batch_s,
            longest_wait_s: judged.longest_wait_s,
        }
    }
}

/// The share of one client host per second of its own time, in the unit of the row. Its start is
/// the worst of all trials.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HostShare")]
struct HostSharePart<'a> {
    host: &'a str,
    rate: f64,
    failed: u64,
    start_ns: i64,
    error_ns: u64,
    service_time_p50_ns: u64,
    service_time_p99_ns: u64,
    service_time_max_ns: u64,
    /// Null if it completed no op.
    response_time_p50_ns: Option<u64>,
    response_time_p99_ns: Option<u64>,
    response_time_max_ns: Option<u64>,
    /// Trials in which it had time to work but completed no op.
    trials_stood_still: u32,
}

/// Times of ops, in nanoseconds.
#[derive(Serialize, JsonSchema)]
struct ServiceTimes {
    service_time_p50_ns: u64,
    service_time_p90_ns: u64,
    service_time_p99_ns: u64,
    service_time_max_ns: u64,
}

impl ServiceTimes {
    fn from_times(times: &ClientTimes) -> Self {
        Self {
            service_time_p50_ns: times.quantile(0.5),
            service_time_p90_ns: times.quantile(0.9),
            service_time_p99_ns: times.quantile(0.99),
            service_time_max_ns: times.max(),
        }
    }
}

impl<'a> HostsPart<'a> {
    pub(super) fn from_hosts(compared: &'a HostsCompared) -> Self {
        let mut stragglers = Vec::new();
        for host in compared.stragglers() {
            stragglers.push(host.host.as_str());
        }
        Self {
            jain_fairness_index: compared.index,
            start_skew_ns: compared.skew.read_ns,
            start_skew_error_ns: compared.skew.error_ns,
            stragglers,
            hosts: compared.hosts.iter().map(HostSharePart::from_share).collect(),
        }
    }
}

impl<'a> HostSharePart<'a> {
    fn from_share(host: &'a HostShare) -> Self {
        let response = Some(host.response_time).filter(|times| *times != WorstTimes::default());
        Self {
            host: &host.host,
            rate: host.rate.per_s(),
            failed: host.failed,
            // The difference between start times is only as accurate as the clocks (`error_ns`).
            start_ns: host.start_ns,
            error_ns: host.error_ns,
            service_time_p50_ns: host.service_time.p50_ns,
            service_time_p99_ns: host.service_time.p99_ns,
            service_time_max_ns: host.service_time.max_ns,
            response_time_p50_ns: response.map(|times| times.p50_ns),
            response_time_p99_ns: response.map(|times| times.p99_ns),
            response_time_max_ns: response.map(|times| times.max_ns),
            trials_stood_still: host.stood_still,
        }
    }
}

impl ClientPart {
    pub(super) fn from_client(client: &ClientResult) -> Self {
        Self {
            client: client.client,
            ops: client.ops,
            bytes: client.bytes,
            failed: client.failed,
            times: ServiceTimes::from_times(&client.times),
        }
    }
}

impl<'a> HostPart<'a> {
    pub(super) fn from_host(host: &'a HostResult) -> Self {
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
            times: ServiceTimes::from_times(&host.times),
        }
    }
}
