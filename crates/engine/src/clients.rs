//! What each emulated client of a worker did, where the plan wants that.
//!
//! [`ClientRecords`] belongs to the backend, the only one that knows which connection an op went
//! over. All of its memory ([`model::client::CLIENT_RECORD_BYTES`] for each client) is taken
//! before the start; where they are not wanted, it has no records and keeps none.

use model::{ClientRecord, ClientResult, Completion};

/// The records of a worker's clients.
#[derive(Debug, Default)]
pub struct ClientRecords {
    records: Vec<ClientRecord>,
    worker: u32,
    workers: u32,
    nconnect: usize,
}

impl ClientRecords {
    /// Makes a record for each of `clients`: the clients of worker number `worker` out of
    /// `workers`, each of which has `nconnect` connections that stand one after the other.
    pub fn new(clients: usize, worker: u32, workers: u32, nconnect: u32) -> Self {
        let records = vec![ClientRecord::default(); clients];
        Self { records, worker, workers, nconnect: nconnect as usize }
    }

    /// Counts ops that ended on a connection.
    #[inline]
    pub fn record_ended(&mut self, connection: usize, completions: &[Completion]) {
        if self.records.is_empty() {
            return;
        }
        let record = &mut self.records[connection / self.nconnect];
        for completion in completions {
            record.ended(completion);
        }
    }

    /// Hands out what was recorded.
    pub fn results(&self) -> Vec<ClientResult> {
        // Clients are dealt out to workers in turn: a worker has every `workers`-th of them.
        let mut results = Vec::with_capacity(self.records.len());
        for (index, record) in self.records.iter().enumerate() {
            results.push(record.finish(self.worker + index as u32 * self.workers));
        }
        results
    }
}
