//! Trials as JSON, with their passes and the ops of each kind.

use model::{
    Caveat, CrossCheck, Fact, Interference, IntervalSample, IntervalTimes, KindResult, PassResult,
    PathWork, Telemetry, Trial, TrialState,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::Times;
use super::shares::{ClientPart, HostPart};

/// One repetition of a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Trial")]
pub(super) struct TrialPart<'a> {
    index: u32,
    position: u32,
    started_unix_ms: u64,
    #[schemars(extend("enum" = ["done", "failed", "interrupted"]))]
    state: &'static str,
    /// Why the trial failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    facts: &'a [Fact],
    passes: Vec<PassPart<'a>>,
}

/// One pass of one trial.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Pass")]
struct PassPart<'a> {
    #[schemars(with = "String")]
    pass: model::Pass,
    window_ns: u64,
    common_window_ns: u64,
    first_done_ops: u64,
    first_done_bytes: u64,
    first_done_ns: u64,
    start_skew_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    common_window: Option<model::Work>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stalls: Option<model::Stalls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processor_wait: Option<model::ProcessorWait>,
    /// External disturbances of the pass by source: thousandths of the time, or bytes per second
    /// for `disk`.
    #[serde(skip_serializing_if = "Interference::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, u64>")]
    interference: &'a Interference,
    /// The source above its limit that disturbed the pass most. Such a trial is set aside, unless
    /// most trials are disturbed.
    #[serde(skip_serializing_if = "Option::is_none")]
    disturbed_by: Option<String>,
    client_cpu_ns: u64,
    server_cpu_ns: Option<u64>,
    storage_read_bytes: Option<u64>,
    ops: u64,
    bytes: u64,
    cross_checks: &'a [CrossCheck],
    caveats: &'a [Caveat],
    kinds: Vec<KindPart>,
    samples: &'a [IntervalSample],
    /// Response times of the ops that completed in each interval, without syncs. In a long pass,
    /// these intervals are longer than those of `samples`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interval_times: Vec<IntervalTimesPart>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clients: Vec<ClientPart>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<HostPart<'a>>,
    /// What each of the server's addresses did, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<AddressPart<'a>>,
    /// What each data server of a pNFS cluster did, if layouts were to be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_servers: Option<Vec<AddressPart<'a>>>,
    /// Bytes that went through the metadata server, if layouts were to be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata_server_bytes: Option<u64>,
    /// Time of each rank from the start of the pass, if the slowest one decides the result.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rank_times_ns: &'a [u64],
    /// How the frames of streams met their deadlines.
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<model::FrameDelivery>,
    /// How accelerators spent their time in a training.
    #[serde(skip_serializing_if = "Option::is_none")]
    training: Option<model::TrainingWork>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    telemetry: &'a [Telemetry],
}

/// The ops of one kind in a pass of a trial.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Kind")]
struct KindPart {
    #[schemars(with = "String")]
    kind: model::OpKind,
    issued: u64,
    done: u64,
    bytes: u64,
    errors: Vec<ErrorPart>,
    service_time: Times,
    /// Lower bound of each bucket in nanoseconds, and the number of times between it and the next.
    #[schemars(with = "Vec<[u64; 2]>")]
    service_time_buckets: Vec<(u64, u64)>,
    response_time: Times,
    /// Lower bound of each bucket in nanoseconds, and the number of times between it and the next.
    #[schemars(with = "Vec<[u64; 2]>")]
    response_time_buckets: Vec<(u64, u64)>,
}

/// Work over one of the server's addresses, or at a data server, including the warm-up of the pass.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Address")]
struct AddressPart<'a> {
    address: &'a str,
    /// Connections that were meant for it.
    connections: u32,
    ops: u64,
    bytes: u64,
    /// Calls sent, including those repeated there.
    calls: u64,
    /// Bytes sent, counting everything above TCP.
    sent_bytes: u64,
    received_bytes: u64,
    /// TCP segments that the client sent again.
    segments_retransmitted: u64,
    /// Connections that were lost, or could not be made, and moved to another address.
    lost_connections: u64,
    /// Calls in flight on them.
    moved_calls: u64,
    service_time: Times,
}

/// Response times in one interval of a pass.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "IntervalTimes")]
struct IntervalTimesPart {
    /// End of the interval, from the start of the pass.
    at_ns: u64,
    #[serde(flatten)]
    times: Times,
}

/// Ops that failed with the same error.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OpError")]
struct ErrorPart {
    code: u32,
    name: String,
    count: u64,
}

impl<'a> TrialPart<'a> {
    pub(super) fn from_trial(trial: &'a Trial) -> Self {
        let (state, reason) = match &trial.state {
            TrialState::Done => ("done", None),
            TrialState::Failed(reason) => ("failed", Some(reason.as_str())),
            TrialState::Interrupted => ("interrupted", None),
        };
        Self {
            index: trial.index,
            position: trial.position,
            started_unix_ms: trial.started_unix_ms,
            state,
            reason,
            facts: &trial.facts,
            passes: trial.passes.iter().map(PassPart::from_pass).collect(),
        }
    }
}

impl<'a> PassPart<'a> {
    fn from_pass(pass: &'a PassResult) -> Self {
        Self {
            pass: pass.pass,
            window_ns: pass.window_ns,
            common_window_ns: pass.common_window_ns,
            first_done_ops: pass.first_done_ops,
            first_done_bytes: pass.first_done_bytes,
            first_done_ns: pass.first_done_ns,
            start_skew_ns: pass.start_skew_ns,
            common_window: pass.scope.common,
            stalls: pass.scope.stalls,
            processor_wait: pass.scope.processor_wait,
            interference: &pass.scope.interference,
            disturbed_by: stats::interference::disturbance(&pass.scope.interference)
                .map(|disturbance| disturbance.describe()),
            client_cpu_ns: pass.client_cpu_ns,
            server_cpu_ns: pass.server_cpu_ns,
            storage_read_bytes: pass.storage_read_bytes,
            ops: pass.ops(),
            bytes: pass.bytes(),
            cross_checks: &pass.cross_checks,
            caveats: &pass.caveats,
            kinds: pass.kinds.iter().map(KindPart::from_kind).collect(),
            samples: &pass.samples,
            interval_times: pass
                .interval_times
                .iter()
                .map(IntervalTimesPart::from_interval)
                .collect(),
            clients: pass.clients.iter().map(ClientPart::from_client).collect(),
            hosts: pass.hosts.iter().map(HostPart::from_host).collect(),
            addresses: pass.scope.paths.iter().map(AddressPart::from_path).collect(),
            data_servers: pass
                .scope
                .pnfs
                .as_ref()
                .map(|work| work.data_servers.iter().map(AddressPart::from_path).collect()),
            metadata_server_bytes: pass.scope.pnfs.as_ref().map(|work| work.metadata_bytes),
            rank_times_ns: &pass.scope.rank_times_ns,
            frames: pass.scope.frames,
            training: pass.scope.training,
            telemetry: &pass.telemetry,
        }
    }
}

impl<'a> AddressPart<'a> {
    fn from_path(path: &'a PathWork) -> Self {
        Self {
            address: &path.address,
            connections: path.connections,
            ops: path.ops,
            bytes: path.bytes,
            calls: path.calls,
            sent_bytes: path.sent_bytes,
            received_bytes: path.received_bytes,
            segments_retransmitted: path.segments_retransmitted,
            lost_connections: path.lost_connections,
            moved_calls: path.moved_calls,
            service_time: Times::from_histogram(&path.times),
        }
    }
}

impl IntervalTimesPart {
    fn from_interval(interval: &IntervalTimes) -> Self {
        Self { at_ns: interval.at_ns, times: Times::from_histogram(&interval.times) }
    }
}

impl KindPart {
    fn from_kind(kind: &KindResult) -> Self {
        let mut errors = Vec::with_capacity(kind.errors.len());
        for (error, count) in &kind.errors {
            errors.push(ErrorPart { code: error.0, name: error.name(), count: *count });
        }
        Self {
            kind: kind.kind,
            issued: kind.issued,
            done: kind.done,
            bytes: kind.bytes,
            errors,
            service_time: Times::from_histogram(&kind.service_time),
            service_time_buckets: kind.service_time.buckets().collect(),
            response_time: Times::from_histogram(&kind.response_time),
            response_time_buckets: kind.response_time.buckets().collect(),
        }
    }
}
