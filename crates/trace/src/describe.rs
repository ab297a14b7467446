//! Describes the load in a trace.
//!
//! [`Describer`] processes the sections of a trace in order and creates a [`Description`]: calls by
//! kind, client and time, access patterns, files and the working set, arrivals, response times, and
//! how complete the trace is. Memory is limited regardless of the length of the trace. Counts are
//! exact; distinct blocks and percentiles are estimates with a known error.
//!
//! Response times apply to calls. The response time of a compound counts for its principal
//! operation, which is the first one that does more than set the context for others.

mod access;
mod arrivals;
mod distinct;
mod files;
mod timeline;

use std::collections::BTreeMap;

use model::Histogram;
use nfs_proto::nfs4::OpCode;
use serde::{Deserialize, Serialize};

use crate::connections::Connection;
use crate::format::{End, Header, Section};
use crate::record::{Call, Op, Version, call_flag};

pub use access::AccessDescription;
use access::Accesses;
pub use arrivals::ArrivalDescription;
pub use arrivals::Dispersion;
use arrivals::{Arrivals, CallsInFlight};
pub use files::FileDescription;
use files::Files;
pub use files::HotFile;
pub use timeline::TimeSlice;
use timeline::Timeline;

/// Maximum number of clients to list; all are counted.
const CLIENTS_MAX: usize = 1 << 16;

/// Description of a trace. Times are in nanoseconds, sizes in bytes.
#[derive(Debug, Clone, Serialize)]
pub struct Description {
    /// Header of the trace.
    pub header: Header,
    /// Time from the first packet to the last, and how complete the trace is.
    pub end: End,
    /// Calls of NFS and MOUNT.
    pub calls: u64,
    /// Calls per second over the whole trace.
    pub calls_per_second: f64,
    /// Operations by version and kind, most frequent first.
    pub kinds: Vec<KindDescription>,
    /// Response times of all calls.
    pub response: Quantiles,
    /// Clients, busiest first.
    pub clients: Vec<ClientDescription>,
    /// Reads of data.
    pub reads: AccessDescription,
    /// Writes of data.
    pub writes: AccessDescription,
    /// Files and their sizes.
    pub files: FileDescription,
    pub arrivals: ArrivalDescription,
    /// Calls in flight when a call starts, over all clients.
    pub depth: Quantiles,
    /// Calls, bytes and growth of the working set over time.
    pub timeline: Vec<TimeSlice>,
}

/// Operations of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KindDescription {
    /// Version of NFS or MOUNT.
    pub version: &'static str,
    /// Name of the procedure or operation.
    pub kind: &'static str,
    /// Number of the procedure or operation; 0 is NULL and 255 undefined.
    pub number: u8,
    /// Operations of this kind.
    pub ops: u64,
    /// Number of them that failed.
    pub errors: u64,
    /// Number of them without a result in the trace.
    pub without_result: u64,
    /// Response times of calls with this principal operation.
    pub response: Quantiles,
}

/// Calls of one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientDescription {
    /// Number of the client.
    pub client: u32,
    /// Address, or its keyed hash.
    pub address: String,
    /// Calls that it sent.
    pub calls: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Calls in flight when the client starts one.
    pub depth: Quantiles,
}

/// Quantiles of a distribution, each within the error of a [`Histogram`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Mean of the values.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Maximum.
    pub max: u64,
}

impl Quantiles {
    /// Returns the quantiles of a histogram, or zeros if it is empty.
    pub fn from_histogram(histogram: &Histogram) -> Self {
        if histogram.count() == 0 {
            return Self::default();
        }
        Self {
            count: histogram.count(),
            mean: histogram.mean(),
            p50: histogram.quantile(0.5),
            p90: histogram.quantile(0.9),
            p99: histogram.quantile(0.99),
            max: histogram.max(),
        }
    }
}

#[derive(Debug)]
struct Kind {
    ops: u64,
    errors: u64,
    without_result: u64,
    response: Histogram,
}

#[derive(Debug)]
struct Client {
    address: String,
    calls: u64,
    read_bytes: u64,
    written_bytes: u64,
    depth: CallsInFlight,
}

/// Creates a description from the sections of a trace.
#[derive(Debug)]
pub struct Describer {
    header: Header,
    end: End,
    connections: BTreeMap<u32, u32>,
    clients: BTreeMap<u32, Client>,
    kinds: BTreeMap<(Version, u8), Kind>,
    calls: u64,
    last_ns: u64,
    response: Histogram,
    reads: Accesses,
    writes: Accesses,
    files: Files,
    arrivals: Arrivals,
    depth: CallsInFlight,
    timeline: Timeline,
}

impl Describer {
    /// Starts a description.
    pub fn new(header: Header) -> Self {
        Self {
            header,
            end: End::default(),
            connections: BTreeMap::new(),
            clients: BTreeMap::new(),
            kinds: BTreeMap::new(),
            calls: 0,
            last_ns: 0,
            response: Histogram::sparse(),
            reads: Accesses::default(),
            writes: Accesses::default(),
            files: Files::default(),
            arrivals: Arrivals::default(),
            depth: CallsInFlight::default(),
            timeline: Timeline::default(),
        }
    }

    /// Processes a section.
    pub fn section(&mut self, section: Section) {
        match section {
            Section::Connections(connections) => {
                for connection in connections {
                    self.connection(connection);
                }
            }
            Section::Names(_) => {}
            Section::Block { calls, entries } => {
                for entry in &entries {
                    self.files.list(entry);
                }
                for call in &calls {
                    self.call(call);
                }
            }
            Section::End(end) => self.end = end,
        }
    }

    fn connection(&mut self, connection: Connection) {
        self.connections.insert(connection.number, connection.client);
        let is_listed =
            self.clients.len() < CLIENTS_MAX || self.clients.contains_key(&connection.client);
        if is_listed {
            self.clients.entry(connection.client).or_insert_with(|| Client {
                address: connection.client_address,
                calls: 0,
                read_bytes: 0,
                written_bytes: 0,
                depth: CallsInFlight::default(),
            });
        }
    }

    fn call(&mut self, call: &Call) {
        self.calls += 1;
        self.last_ns = self.last_ns.max(call.start_ns);
        let client = self.connections.get(&call.connection).copied().unwrap_or_default();
        self.arrivals.add(call.start_ns);
        let end_ns = call.response_ns.map(|response_ns| call.start_ns.saturating_add(response_ns));
        self.depth.add(call.start_ns, end_ns);
        if let Some(response_ns) = call.response_ns {
            self.response.record(response_ns);
        }
        let mut read_bytes = 0_u64;
        let mut written_bytes = 0_u64;
        let principal = principal_op(call);
        for (number, op) in call.ops.iter().enumerate() {
            self.kind(call, op, number == principal);
            self.files.access(op, call.version);
            match direction_of(call.version, op.kind) {
                Some(Direction::Read) => {
                    self.reads.add(client, op);
                    read_bytes = read_bytes.saturating_add(op.count);
                }
                Some(Direction::Write) => {
                    self.writes.add(client, op);
                    written_bytes = written_bytes.saturating_add(op.count);
                }
                None => continue,
            }
            self.timeline.access(op);
        }
        self.timeline.add(call.start_ns, read_bytes, written_bytes);
        if let Some(client) = self.clients.get_mut(&client) {
            client.calls += 1;
            client.read_bytes = client.read_bytes.saturating_add(read_bytes);
            client.written_bytes = client.written_bytes.saturating_add(written_bytes);
            client.depth.add(call.start_ns, end_ns);
        }
    }

    fn kind(&mut self, call: &Call, op: &Op, is_principal: bool) {
        let kind = self.kinds.entry((call.version, op.kind)).or_insert_with(|| Kind {
            ops: 0,
            errors: 0,
            without_result: 0,
            response: Histogram::sparse(),
        });
        kind.ops += 1;
        let is_refused = call.flags & call_flag::REFUSED != 0;
        kind.errors += u64::from(is_refused || op.status.is_some_and(|status| status != 0));
        kind.without_result += u64::from(op.status.is_none() && !is_refused);
        if is_principal && let Some(response_ns) = call.response_ns {
            kind.response.record(response_ns);
        }
    }

    pub fn finish(mut self) -> Description {
        if self.end.duration_ns == 0 {
            self.end.duration_ns = self.last_ns;
        }
        let mut kinds = Vec::new();
        for ((version, kind), found) in self.kinds {
            kinds.push(KindDescription {
                version: version.name(),
                kind: version.kind_name(kind),
                number: kind,
                ops: found.ops,
                errors: found.errors,
                without_result: found.without_result,
                response: Quantiles::from_histogram(&found.response),
            });
        }
        // Kinds with equal counts stay in the order of the protocol.
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.ops));
        let mut clients = Vec::new();
        for (number, found) in self.clients {
            clients.push(ClientDescription {
                client: number,
                address: found.address,
                calls: found.calls,
                read_bytes: found.read_bytes,
                written_bytes: found.written_bytes,
                depth: found.depth.describe(),
            });
        }
        clients.sort_by_key(|client| std::cmp::Reverse(client.calls));
        let seconds = self.end.duration_ns as f64 / 1e9;
        Description {
            header: self.header,
            end: self.end,
            calls: self.calls,
            calls_per_second: if seconds > 0.0 { self.calls as f64 / seconds } else { 0.0 },
            kinds,
            response: Quantiles::from_histogram(&self.response),
            clients,
            reads: self.reads.describe(),
            writes: self.writes.describe(),
            files: self.files.describe(),
            arrivals: self.arrivals.describe(),
            depth: self.depth.describe(),
            timeline: self.timeline.describe(),
        }
    }
}

/// Direction of a data access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Data is read.
    Read,
    /// Data is written.
    Write,
}

/// Returns the direction in which a kind of operation transfers data, if any.
pub(crate) fn direction_of(version: Version, kind: u8) -> Option<Direction> {
    match version.kind_name(kind) {
        "READ" | "READ_PLUS" => Some(Direction::Read),
        "WRITE" => Some(Direction::Write),
        _ => None,
    }
}

/// Returns the index of a compound's principal operation: the first one that neither sets the
/// context nor queries what another one has reached, or else the last.
fn principal_op(call: &Call) -> usize {
    if !call.version.is_compound() {
        return 0;
    }
    let mut fallback = call.ops.len().saturating_sub(1);
    let mut is_found = false;
    for (number, op) in call.ops.iter().enumerate() {
        match OpCode::from_number(op.kind.into()) {
            _ if op.is_frame() => {}
            // These are sent alone, or after the one that matters.
            Some(OpCode::Getattr | OpCode::Access | OpCode::Verify | OpCode::Nverify) => {
                if !is_found {
                    fallback = number;
                    is_found = true;
                }
            }
            _ => return number,
        }
    }
    fallback
}
