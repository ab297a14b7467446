//! Results of each emulated client of a worker, if the plan wants them.
//!
//! [`ClientRecords`] belongs to the backend, since only the backend knows which connection an op
//! used. All of its memory ([`model::client::CLIENT_RECORD_BYTES`] per client) is allocated before
//! the start. If no results are wanted, it is empty and records nothing.

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
    /// Creates a record for each of the `clients` clients of worker number `worker` out of
    /// `workers`. Each client has `nconnect` consecutive connections.
    pub(crate) fn new(clients: usize, worker: u32, workers: u32, nconnect: u32) -> Self {
        let records = vec![ClientRecord::default(); clients];
        Self { records, worker, workers, nconnect: nconnect as usize }
    }

    /// Records ops that completed on a connection.
    #[inline]
    pub(crate) fn record_ended(&mut self, connection: usize, completions: &[Completion]) {
        if self.records.is_empty() {
            return;
        }
        let record = &mut self.records[connection / self.nconnect];
        for completion in completions {
            record.ended(completion);
        }
    }

    /// Returns the recorded results.
    pub(crate) fn results(&self) -> Vec<ClientResult> {
        // Clients are assigned to workers round-robin, so this worker has every `workers`-th
        // client.
        self.records
            .iter()
            .enumerate()
            .map(|(index, record)| record.finish(self.worker + index as u32 * self.workers))
            .collect()
    }
}
