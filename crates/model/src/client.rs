//! The record of one emulated client among many, small enough for thousands of them.
//!
//! [`ClientRecord`] is written while measuring, [`ClientResult`] is kept. Their times are coarser
//! than those of [`crate::Histogram`], which takes 30 KiB: every octave has 16 buckets, so a
//! quantile is at most half a bucket from the true value, `2^(e-5) / 2^e = 1/32 = 3.1 %`. Times
//! end at 2^42 ns (73 minutes), beyond the longest time-out; longer ones count as that. A record
//! takes [`CLIENT_RECORD_BYTES`], 25 MB for 10,000 clients, and never allocates once made.

use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, bucket_of, middle_of};
use crate::op::{Completion, OpKind, Outcome};

/// Buckets per octave, as a power of two.
const SUB_BITS: u32 = 4;
/// No time counts as longer than this, in nanoseconds.
const TIME_NS_MAX: u64 = (1 << 42) - 1;
const BUCKETS: usize = bucket_of::<SUB_BITS>(TIME_NS_MAX) + 1;

/// Memory of the record of one client, in bytes.
pub const CLIENT_RECORD_BYTES: usize = size_of::<ClientRecord>();
const _: () = assert!(CLIENT_RECORD_BYTES <= 2_560);

/// Largest relative error of a quantile of one client.
pub const CLIENT_QUANTILE_ERROR_MAX: f64 = 1.0 / (2 << SUB_BITS) as f64;

/// Counts of one client in one pass, of a fixed size.
#[derive(Clone, Debug)]
pub struct ClientRecord {
    ops: u64,
    bytes: u64,
    failed: u64,
    max_ns: u64,
    times: [u32; BUCKETS],
}

impl Default for ClientRecord {
    fn default() -> Self {
        Self { ops: 0, bytes: 0, failed: 0, max_ns: 0, times: [0; BUCKETS] }
    }
}

impl ClientRecord {
    /// Counts an op that ended; a sync counts only where it failed, as in rates.
    #[inline]
    pub fn ended(&mut self, completion: &Completion) {
        match completion.outcome {
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Done(_) if completion.op.kind == OpKind::Sync => {}
            Outcome::Done(bytes) => {
                let time_ns = completion.service_time_ns();
                self.ops += 1;
                self.bytes += u64::from(bytes);
                self.max_ns = self.max_ns.max(time_ns);
                let count = &mut self.times[bucket_of::<SUB_BITS>(time_ns.min(TIME_NS_MAX))];
                *count = count.saturating_add(1);
            }
        }
    }

    /// Hands out what was recorded, for the client of this number.
    pub fn finish(&self, client: u32) -> ClientResult {
        // A client uses few of the buckets, so a list of those is a fraction of the array.
        let mut counts = Vec::new();
        for (bucket, count) in (0_u16..).zip(self.times) {
            if count > 0 {
                counts.push((bucket, count));
            }
        }
        ClientResult {
            client,
            ops: self.ops,
            bytes: self.bytes,
            failed: self.failed,
            times: ClientTimes { max_ns: self.max_ns, counts },
        }
    }
}

/// The results of one client in one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientResult {
    /// Its number within the run, from 0.
    pub client: u32,
    /// Ops that ended well, syncs not counted.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Ops that failed.
    pub failed: u64,
    /// Sent to done.
    pub times: ClientTimes,
}

impl ClientResult {
    /// Adds what the same client did in another trial.
    pub fn merge(&mut self, other: &Self) {
        self.ops = self.ops.saturating_add(other.ops);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.failed = self.failed.saturating_add(other.failed);
        self.times.merge(&other.times);
    }
}

/// Service times of one client; merges exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u8>", try_from = "Vec<u8>")]
pub struct ClientTimes {
    max_ns: u64,
    /// Buckets that hold times, in ascending order, with their counts.
    counts: Vec<(u16, u32)>,
}

impl ClientTimes {
    /// The times of a histogram, in the coarser buckets: as if each had been counted in them.
    pub fn of(histogram: &Histogram) -> Self {
        let mut counts: Vec<(u16, u32)> = Vec::new();
        for (time_ns, count) in histogram.buckets() {
            let bucket = bucket_of::<SUB_BITS>(time_ns.min(TIME_NS_MAX)) as u16;
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            match counts.last_mut() {
                Some((last, sum)) if *last == bucket => *sum = sum.saturating_add(count),
                _ => counts.push((bucket, count)),
            }
        }
        Self { max_ns: histogram.max(), counts }
    }

    /// The largest time in nanoseconds, exact; 0 when empty.
    pub const fn max(&self) -> u64 {
        self.max_ns
    }

    /// The time in nanoseconds below or at which a share `q` (0 to 1) of all lies, within
    /// [`CLIENT_QUANTILE_ERROR_MAX`]; 0 when empty.
    pub fn quantile(&self, q: f64) -> u64 {
        let count: u64 = self.counts.iter().map(|(_, count)| u64::from(*count)).sum();
        let rank = ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in &self.counts {
            seen += u64::from(*count);
            if seen >= rank {
                // The middle of the last bucket may lie beyond the maximum, which is exact.
                return middle_of::<SUB_BITS>((*bucket).into()).min(self.max_ns);
            }
        }
        self.max_ns
    }

    fn merge(&mut self, other: &Self) {
        self.max_ns = self.max_ns.max(other.max_ns);
        for &(bucket, more) in &other.counts {
            match self.counts.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
                Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(more),
                Err(at) => self.counts.insert(at, (bucket, more)),
            }
        }
    }

    /// Writes the times compactly: version, maximum, then six bytes for each bucket in use.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![1];
        out.extend(self.max_ns.to_le_bytes());
        for (bucket, count) in &self.counts {
            out.extend(bucket.to_le_bytes());
            out.extend(count.to_le_bytes());
        }
        out
    }

    /// Reads what [`Self::to_bytes`] wrote; `None` when the bytes are nothing of the kind.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (max_ns, counts) = bytes.strip_prefix(&[1])?.split_first_chunk()?;
        let (counts, rest) = counts.as_chunks::<6>();
        if !rest.is_empty() {
            return None;
        }
        let mut read: Vec<(u16, u32)> = Vec::with_capacity(counts.len());
        for &[b0, b1, c0, c1, c2, c3] in counts {
            let bucket = u16::from_le_bytes([b0, b1]);
            // Merging relies on buckets in ascending order, none twice.
            let is_behind = read.last().is_none_or(|(last, _)| *last < bucket);
            if !is_behind || usize::from(bucket) >= BUCKETS {
                return None;
            }
            read.push((bucket, u32::from_le_bytes([c0, c1, c2, c3])));
        }
        Some(Self { max_ns: u64::from_le_bytes(*max_ns), counts: read })
    }
}

impl From<ClientTimes> for Vec<u8> {
    fn from(times: ClientTimes) -> Self {
        times.to_bytes()
    }
}

impl TryFrom<Vec<u8>> for ClientTimes {
    type Error = &'static str;

    fn try_from(bytes: Vec<u8>) -> Result<Self, Self::Error> {
        Self::from_bytes(&bytes).ok_or("not the times of a client")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Op, OpError};
    use proptest::prelude::*;

    fn completion(kind: OpKind, time_ns: u64, outcome: Outcome) -> Completion {
        let op = Op { scheduled_ns: 0, offset_bytes: 0, len_bytes: 10, file: 0, kind };
        Completion { op, sent_ns: 5, done_ns: 5 + time_ns, outcome }
    }

    fn record(times: &[u64]) -> ClientRecord {
        let mut record = ClientRecord::default();
        for time_ns in times {
            record.ended(&completion(OpKind::Read, *time_ns, Outcome::Done(10)));
        }
        record
    }

    #[test]
    fn syncs_count_only_where_they_fail() {
        let mut record = record(&[1_000, 3_000]);
        record.ended(&completion(OpKind::Sync, 9_000, Outcome::Done(0)));
        record.ended(&completion(OpKind::Sync, 9_000, Outcome::Failed(OpError(5))));
        let result = record.finish(7);
        assert_eq!((result.client, result.ops, result.bytes, result.failed), (7, 2, 20, 1));
        assert_eq!(result.times.max(), 3_000);
    }

    #[test]
    fn times_beyond_the_last_bucket_are_not_lost() {
        let times = record(&[u64::MAX - 5, 1]).finish(0).times;
        assert_eq!((times.quantile(0.5), times.max()), (1, u64::MAX - 5));
        assert!(times.quantile(1.0) > TIME_NS_MAX / 33 * 31);
        assert_eq!(ClientTimes::default().quantile(0.5), 0);
    }

    proptest! {
        #[test]
        fn quantiles_stay_within_the_stated_bound(
            mut times in prop::collection::vec(0_u64..100_000_000_000, 1..200),
            q in 0.0_f64..1.0,
        ) {
            let found = record(&times).finish(0).times.quantile(q);
            times.sort_unstable();
            let rank = ((q * times.len() as f64).ceil() as usize).max(1);
            let exact = times[rank - 1] as f64;
            let error = (found as f64 - exact).abs();
            prop_assert!(error <= exact * CLIENT_QUANTILE_ERROR_MAX + 0.5, "{error} of {exact}");
        }

        #[test]
        fn merging_equals_recording_together_and_bytes_give_it_back(
            a in prop::collection::vec(any::<u64>(), 0..40),
            b in prop::collection::vec(any::<u64>(), 0..40),
        ) {
            let mut merged = record(&a).finish(3);
            merged.merge(&record(&b).finish(3));
            prop_assert_eq!(&merged, &record(&[a, b].concat()).finish(3));
            prop_assert_eq!(ClientTimes::from_bytes(&merged.times.to_bytes()), Some(merged.times));
        }

        #[test]
        fn times_of_a_histogram_are_those_that_were_counted_one_by_one(
            times in prop::collection::vec(any::<u64>(), 0..60),
        ) {
            let mut histogram = Histogram::new();
            for time_ns in &times {
                histogram.record(*time_ns);
            }
            prop_assert_eq!(ClientTimes::of(&histogram), record(&times).finish(0).times);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(times) = ClientTimes::from_bytes(&bytes) {
                prop_assert!(times.quantile(0.5) <= times.max());
            }
        }
    }
}
