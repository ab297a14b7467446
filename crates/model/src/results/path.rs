//! What each of a server's addresses, or each data server of a cluster, did in a pass.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::results::histogram::Histogram;
use crate::runs::op::{Completion, OpKind, Outcome};

/// Work of a pass over one of the server's addresses, or at a data server, including its warm-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathWork {
    /// The address, with the port of NFS.
    pub address: String,
    /// Connections that were meant for it.
    pub connections: u32,
    /// Ops that succeeded, not counting syncs; at a data server, its READs and WRITEs.
    pub ops: u64,
    /// Bytes transferred by them.
    pub bytes: u64,
    /// Time of these ops from sending to completion.
    pub times: Histogram,
    /// Calls that were sent, including those repeated there.
    pub calls: u64,
    /// Bytes sent, counting everything above TCP.
    pub sent_bytes: u64,
    /// Bytes received, counting everything above TCP.
    pub received_bytes: u64,
    /// TCP segments of the client that were retransmitted.
    pub segments_retransmitted: u64,
    /// Connections that were lost there, or could not be made, and moved to another address.
    pub lost_connections: u64,
    /// Calls in flight on the connections that were lost.
    pub moved_calls: u64,
}

impl PathWork {
    /// Counts a finished op.
    #[inline]
    pub fn ended(&mut self, completion: &Completion) {
        if let Outcome::Done(bytes) = completion.outcome
            && completion.op.kind != OpKind::Sync
        {
            self.ops += 1;
            self.bytes += u64::from(bytes);
            self.times.record(completion.service_time_ns());
        }
    }

    /// Adds the work of other workers, by address.
    pub fn merge_all(all: &mut Vec<Self>, others: &[Self]) {
        for other in others {
            match all.iter_mut().find(|known| known.address == other.address) {
                Some(known) => known.merge(other),
                None => all.push(other.clone()),
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.connections = self.connections.saturating_add(other.connections);
        for (sum, more) in [
            (&mut self.ops, other.ops),
            (&mut self.bytes, other.bytes),
            (&mut self.calls, other.calls),
            (&mut self.sent_bytes, other.sent_bytes),
            (&mut self.received_bytes, other.received_bytes),
            (&mut self.segments_retransmitted, other.segments_retransmitted),
            (&mut self.lost_connections, other.lost_connections),
            (&mut self.moved_calls, other.moved_calls),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// What the servers of a pNFS cluster did in a pass, as counted by the client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PnfsWork {
    /// READs and WRITEs at each data server that the layouts name, sorted by address.
    pub data_servers: Vec<PathWork>,
    /// Bytes of READs and WRITEs at the metadata server.
    pub metadata_bytes: u64,
}

impl PnfsWork {
    /// Adds the work of others.
    pub fn add(&mut self, other: &Self) {
        PathWork::merge_all(&mut self.data_servers, &other.data_servers);
        self.data_servers.sort_by_cached_key(|server| {
            (server.address.parse::<SocketAddr>().ok(), server.address.clone())
        });
        self.metadata_bytes = self.metadata_bytes.saturating_add(other.metadata_bytes);
    }

    /// Returns the bytes at all data servers. Each copy counts.
    pub fn data_bytes(&self) -> u64 {
        self.data_servers.iter().map(|server| server.bytes).sum()
    }

    /// Returns the share of the bytes that went past the metadata server; `None` without any.
    pub fn direct_share(&self) -> Option<f64> {
        let direct = self.data_bytes();
        let all = direct.saturating_add(self.metadata_bytes);
        (all > 0).then(|| direct as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::op::{Op, OpError};

    #[test]
    fn merges_by_address() {
        let op = |kind| Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 10, file: 0, kind };
        let path = |address: &str, ops: u64| {
            let mut work =
                PathWork { address: address.to_owned(), calls: ops, ..PathWork::default() };
            for number in 0..ops {
                let (op, sent_ns) = (op(OpKind::Read), 5);
                let done_ns = 5 + number;
                work.ended(&Completion { op, sent_ns, done_ns, outcome: Outcome::Done(10) });
            }
            // Neither counts.
            let failed = Outcome::Failed(OpError(5));
            for (kind, outcome) in [(OpKind::Read, failed), (OpKind::Sync, Outcome::Done(0))] {
                work.ended(&Completion { op: op(kind), sent_ns: 0, done_ns: 9, outcome });
            }
            work
        };
        let mut all = vec![path("a", 3), path("b", 0)];
        PathWork::merge_all(&mut all, &[path("b", 2), path("c", 1)]);
        let counts: Vec<_> =
            all.iter().map(|path| (&*path.address, path.ops, path.bytes, path.calls)).collect();
        assert_eq!(counts, [("a", 3, 30, 3), ("b", 2, 20, 2), ("c", 1, 10, 1)]);
        assert_eq!(all[1].times.count(), 2);
    }

    #[test]
    fn adds_data_servers_in_order() {
        let server = |address: &str, bytes| PathWork {
            address: address.into(),
            bytes,
            ..PathWork::default()
        };
        let part = |servers: &[(&str, u64)], metadata_bytes| PnfsWork {
            data_servers: servers.iter().map(|(address, bytes)| server(address, *bytes)).collect(),
            metadata_bytes,
        };
        let mut all = PnfsWork::default();
        assert_eq!(all.direct_share(), None);
        all.add(&part(&[("10.0.0.10:2049", 20), ("10.0.0.9:2049", 30)], 0));
        assert_eq!(all.direct_share(), Some(1.0));
        all.add(&part(&[("10.0.0.9:2049", 10), ("[::1]:2049", 15)], 25));
        let expected = [("10.0.0.9:2049", 40), ("10.0.0.10:2049", 20), ("[::1]:2049", 15)];
        assert_eq!(all, part(&expected, 25));
        assert_eq!((all.data_bytes(), all.direct_share()), (75, Some(0.75)));
    }
}
