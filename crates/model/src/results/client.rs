//! Record of one emulated client, small enough to have thousands of them.
//!
//! [`ClientRecord`] is filled while measuring, and [`ClientResult`] is stored. Their times are
//! coarser than those of [`crate::Histogram`], which takes 30 KiB: every octave has 16 buckets, so
//! a quantile is off by at most half a bucket, `2^(e-5) / 2^e = 1/32 = 3.1 %`. Times are capped at
//! 2^42 ns (73 minutes), which is beyond the longest timeout. A record takes
//! [`CLIENT_RECORD_BYTES`] (25 MB for 10,000 clients) and never allocates after creation.

use serde::{Deserialize, Serialize};

use crate::results::histogram::{Histogram, bucket_of, middle_of};
use crate::runs::op::{Completion, OpKind, Outcome};

/// Buckets per octave, as a power of two.
const SUB_BITS: u32 = 4;
/// Maximum time, in nanoseconds; longer ones count as this.
const TIME_NS_MAX: u64 = (1 << 42) - 1;
const BUCKETS: usize = bucket_of::<SUB_BITS>(TIME_NS_MAX) + 1;

/// Memory for the record of one client, in bytes.
pub const CLIENT_RECORD_BYTES: usize = size_of::<ClientRecord>();
const _: () = assert!(CLIENT_RECORD_BYTES <= 2_560);

/// Maximum relative error of a client's quantiles.
pub const CLIENT_QUANTILE_ERROR_MAX: f64 = 1.0 / (2 << SUB_BITS) as f64;

/// Fixed-size counts for one client in one pass.
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
    /// Counts a finished op. A sync only counts if it failed, just as in rates.
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

    /// Returns the results, for the client with this number.
    pub fn finish(&self, client: u32) -> ClientResult {
        // A client uses only a few buckets, so a list of those is much smaller than the array.
        let counts: Vec<_> = (0_u16..).zip(self.times).filter(|(_, count)| *count > 0).collect();
        ClientResult {
            client,
            ops: self.ops,
            bytes: self.bytes,
            failed: self.failed,
            times: ClientTimes { max_ns: self.max_ns, counts },
        }
    }
}

/// Results of one client in one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientResult {
    /// Number of the client within the run, from 0.
    pub client: u32,
    /// Ops that succeeded, not counting syncs.
    pub ops: u64,
    /// Bytes transferred by them.
    pub bytes: u64,
    /// Ops that failed.
    pub failed: u64,
    /// Time from sending to completion.
    pub times: ClientTimes,
}

impl ClientResult {
    /// Adds the results of the same client from another trial.
    pub fn merge(&mut self, other: &Self) {
        self.ops = self.ops.saturating_add(other.ops);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.failed = self.failed.saturating_add(other.failed);
        self.times.merge(&other.times);
    }
}

/// Service times of one client. Can be merged exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u8>", try_from = "Vec<u8>")]
pub struct ClientTimes {
    max_ns: u64,
    /// Non-empty buckets in ascending order, with their counts.
    counts: Vec<(u16, u32)>,
}

impl ClientTimes {
    /// Converts a histogram to the coarser buckets, as if each time had been recorded in them.
    pub fn from_histogram(histogram: &Histogram) -> Self {
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

    /// Returns the exact maximum in nanoseconds, or 0 if empty.
    pub const fn max(&self) -> u64 {
        self.max_ns
    }

    /// Returns the time in nanoseconds at quantile `q` (0 to 1), within
    /// [`CLIENT_QUANTILE_ERROR_MAX`], or 0 if empty.
    pub fn quantile(&self, q: f64) -> u64 {
        let count: u64 = self.counts.iter().map(|(_, count)| u64::from(*count)).sum();
        let rank = ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in &self.counts {
            seen += u64::from(*count);
            if seen >= rank {
                // The middle of the last bucket may exceed the maximum, which is exact.
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

    /// Encodes the times compactly: version, maximum, then six bytes per non-empty bucket.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![1];
        out.extend(self.max_ns.to_le_bytes());
        for (bucket, count) in &self.counts {
            out.extend(bucket.to_le_bytes());
            out.extend(count.to_le_bytes());
        }
        out
    }

    /// Decodes the output of [`Self::to_bytes`], or returns `None` if it is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (max_ns, counts) = bytes.strip_prefix(&[1])?.split_first_chunk()?;
        let (counts, rest) = counts.as_chunks::<6>();
        if !rest.is_empty() {
            return None;
        }
        let mut read: Vec<(u16, u32)> = Vec::with_capacity(counts.len());
        for &[b0, b1, c0, c1, c2, c3] in counts {
            let bucket = u16::from_le_bytes([b0, b1]);
            // Merging relies on buckets in strictly ascending order.
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
    use crate::runs::op::{Op, OpError};
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
    fn keeps_times_beyond_last_bucket() {
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
        fn merges_like_recording_together(
            a in prop::collection::vec(any::<u64>(), 0..40),
            b in prop::collection::vec(any::<u64>(), 0..40),
        ) {
            let mut merged = record(&a).finish(3);
            merged.merge(&record(&b).finish(3));
            prop_assert_eq!(&merged, &record(&[a, b].concat()).finish(3));
            prop_assert_eq!(ClientTimes::from_bytes(&merged.times.to_bytes()), Some(merged.times));
        }

        #[test]
        fn counts_histogram_like_single_times(
            times in prop::collection::vec(any::<u64>(), 0..60),
        ) {
            let mut histogram = Histogram::new();
            for time_ns in &times {
                histogram.record(*time_ns);
            }
            let converted = ClientTimes::from_histogram(&histogram);
            prop_assert_eq!(converted, record(&times).finish(0).times);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(times) = ClientTimes::from_bytes(&bytes) {
                prop_assert!(times.quantile(0.5) <= times.max());
            }
        }
    }
}
