//! Log-linear histogram of nanoseconds that can be merged exactly.
//!
//! Values below 64 have a bucket each. Every octave `[2^e, 2^(e+1))` above is divided into 64 equal
//! buckets of width `2^(e-6)`. A quantile is reported as the middle of its bucket, so it is off by
//! at most half a width: `2^(e-7) / 2^e = 1/128 = 0.78 %`. The whole range of `u64` is covered, so
//! nothing is clamped, and `record` neither allocates nor divides. Percentiles over several workers
//! are computed from merged counts, never by averaging percentiles.
//!
//! **Source:** the bucket layout of fio's `stat.h` and of HdrHistogram, derived independently.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Buckets per octave, as a power of two.
const SUB_BITS: u32 = 6;
/// The same for [`Histogram::coarse`].
const COARSE_BITS: u32 = 4;
const SUB_BUCKETS: usize = 1 << SUB_BITS;
/// 64 exact values, then 58 octaves of 64 buckets.
const BUCKETS: usize = SUB_BUCKETS * (64 - SUB_BITS as usize + 1);

/// Maximum relative error of a reported quantile: 1/128, or 0.78 %.
///
/// *Derivation.* Let `v` be the value of the requested rank. Buckets are in ascending order and
/// count every value, so the bucket at which the running count reaches the rank is that of `v`. A
/// bucket for a single value gives `v` itself. Any other bucket is in an octave `[2^e, 2^(e+1))`
/// with `e >= 6`, has the width `w = 2^(e-6)` and is `[l, l + w)` with `l >= 2^e`; `l + w / 2` is
/// reported. As `l <= v < l + w`, the error is at most `w / 2`, and relative to `v`
///
/// `(w / 2) / v <= 2^(e-7) / 2^e = 2^-7 = 1/128`.
///
/// Clamping to the minimum and maximum, which are exact, only moves the result closer to `v`, since
/// `v` is between them. Merging adds the counts of equal buckets, so a merged quantile has the same
/// bound.
pub const QUANTILE_ERROR_MAX: f64 = 1.0 / (2 << SUB_BITS) as f64;

/// Counts of values in nanoseconds. Serialized in the compact form of [`Histogram::to_bytes`].
#[derive(Clone, Serialize, Deserialize)]
#[serde(into = "Vec<u8>", try_from = "Vec<u8>")]
pub struct Histogram {
    /// Bucket number of the first element of `counts`.
    first: usize,
    counts: Box<[u64]>,
    /// Pairs of (bucket gap, count) in the encoding of [`Histogram::to_bytes`], used instead of
    /// `counts` as long as the histogram is only read. This takes a tenth of the memory, and
    /// reports contain a million histograms.
    packed: Box<[u8]>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Histograms are equal if they contain the same values, regardless of their capacity.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let sums = |h: &Self| (h.count, h.sum, h.min, h.max);
        sums(self) == sums(other) && self.non_empty_buckets().eq(other.non_empty_buckets())
    }
}

impl Eq for Histogram {}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("min", &self.min())
            .field("p50", &self.quantile(0.5))
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

impl Histogram {
    /// Number of buckets.
    pub const BUCKETS: usize = BUCKETS;

    /// Returns the number of the bucket that counts a value.
    #[inline]
    pub const fn bucket_of(value_ns: u64) -> usize {
        bucket_of::<SUB_BITS>(value_ns)
    }

    /// Creates a histogram from the counts of all buckets, the sum of all values, and the smallest
    /// and the largest value.
    pub fn from_counts(counts: &[u64], sum_ns: u128, range_ns: RangeInclusive<u64>) -> Self {
        let mut histogram = Self::sparse();
        let first = counts.iter().position(|count| *count > 0);
        let Some(first) = first else { return histogram };
        let end = counts.iter().rposition(|count| *count > 0).map_or(first, |last| last + 1);
        histogram.first = first;
        histogram.counts = counts[first..end].into();
        histogram.count = histogram.counts.iter().sum();
        histogram.sum = sum_ns;
        histogram.min = *range_ns.start();
        histogram.max = *range_ns.end();
        histogram
    }

    /// Creates a histogram from the counts of all buckets only. Minimum, maximum and sum are
    /// computed from the middles of the buckets.
    pub fn from_buckets(counts: &[u64]) -> Self {
        let middle = middle_of::<SUB_BITS>;
        let mut sum = 0;
        let mut min = u64::MAX;
        let mut max = 0;
        for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            sum += u128::from(middle(bucket)) * u128::from(*count);
            min = min.min(middle(bucket));
            max = middle(bucket);
        }
        Self::from_counts(counts, sum, min..=max)
    }

    /// Returns a copy with 16 buckets per octave instead of 64, which takes much less space. Its
    /// quantiles are off by at most 5/128, or 3.9 %: four buckets become one of the two in the
    /// middle. Minimum, maximum and sum are the same. Like all histograms, coarse ones are merged
    /// exactly.
    #[must_use]
    pub fn coarse(&self) -> Self {
        let mut counts = Self::sparse();
        let rounded = |bucket| {
            let value = lowest_of::<SUB_BITS>(bucket);
            bucket_of::<SUB_BITS>(middle_of::<COARSE_BITS>(bucket_of::<COARSE_BITS>(value)))
        };
        let mut used = self.non_empty_buckets().map(|(bucket, _)| bucket);
        if let Some(lowest) = used.next() {
            counts.make_room(rounded(lowest), rounded(used.last().unwrap_or(lowest)));
        }
        for (bucket, count) in self.non_empty_buckets() {
            let sum = counts.bucket_mut(rounded(bucket));
            *sum = sum.saturating_add(count);
        }
        Self { count: self.count, sum: self.sum, min: self.min, max: self.max, ..counts }
    }

    /// Creates an empty histogram with room for every value, so that recording never allocates.
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS].into_boxed_slice(), ..Self::sparse() }
    }

    /// Creates an empty histogram that grows with its values. Reports contain a hundred thousand of
    /// them, and most values of each are close together.
    pub fn sparse() -> Self {
        Self {
            first: 0,
            counts: Box::default(),
            packed: Box::default(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Records one value.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.record_n(value_ns, 1);
    }

    /// Records a value `times` times.
    #[inline]
    pub fn record_n(&mut self, value_ns: u64, times: u64) {
        *self.bucket_mut(bucket_of::<SUB_BITS>(value_ns)) += times;
        self.count += times;
        self.sum += u128::from(value_ns) * u128::from(times);
        self.min = self.min.min(value_ns);
        self.max = self.max.max(value_ns);
    }

    /// Adds the counts of another histogram, as if every value had been recorded here.
    pub fn merge(&mut self, other: &Self) {
        // Allocate everything at once; growing bucket by bucket would copy the counts each time.
        let mut buckets = other.non_empty_buckets().map(|(bucket, _)| bucket);
        if let Some(lowest) = buckets.next() {
            self.make_room(lowest, buckets.last().unwrap_or(lowest));
        }
        for (bucket, count) in other.non_empty_buckets() {
            // Another host may send arbitrary counts, so saturate.
            let sum = self.bucket_mut(bucket);
            *sum = sum.saturating_add(count);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns a copy that includes the values a closed loop omitted while it waited: an estimate
    /// of what evenly spaced arrivals would have seen.
    ///
    /// A slot that completes an op every `pace_ns` would have had further ops scheduled while it
    /// waited for a long one. So for each value `v` above the pace, `v - pace`, `v - 2 pace` and so
    /// on are added, down to the pace itself. A pace of 0 adds nothing.
    ///
    /// **Source:** `HdrHistogram`, `recordValueWithExpectedInterval` and
    /// `copyCorrectedForCoordinatedOmission`; Tene, "How NOT to measure latency" (2013).
    #[must_use]
    pub fn with_omitted(&self, pace_ns: u64) -> Self {
        let mut all = self.clone();
        if pace_ns == 0 {
            return all;
        }
        for (bucket, times) in self.non_empty_buckets() {
            let value_ns = middle_of::<SUB_BITS>(bucket).clamp(self.min, self.max);
            all.record_series(value_ns, pace_ns, times);
        }
        all
    }

    /// Records `value_ns - k * pace_ns` for every k >= 1 for which it is at least the pace. Works
    /// bucket by bucket, because there may be billions of values.
    fn record_series(&mut self, value_ns: u64, pace_ns: u64, times: u64) {
        // The op itself accounts for one pace of its time; each further whole pace is an omitted
        // op.
        let left_out = (value_ns / pace_ns).saturating_sub(1);
        let mut step = 1;
        while step <= left_out {
            let bucket = bucket_of::<SUB_BITS>(value_ns - step * pace_ns);
            // The last step that is still in this bucket.
            let last = ((value_ns - lowest_of::<SUB_BITS>(bucket)) / pace_ns).min(left_out);
            let steps = last - step + 1;
            let smallest = value_ns - last * pace_ns;
            let largest = value_ns - step * pace_ns;
            // Only a damaged file contains so many values that their number exceeds 64 bits.
            let Some(more) = steps.checked_mul(times) else { return };
            let Some(count) = self.count.checked_add(more) else { return };
            *self.bucket_mut(bucket) += more;
            self.count = count;
            // Sum of an arithmetic series: the mean of its ends, times their number.
            let twice = (u128::from(largest) + u128::from(smallest)) * u128::from(steps);
            self.sum = self.sum.saturating_add((twice / 2).saturating_mul(times.into()));
            self.min = self.min.min(smallest);
            step = last + 1;
        }
    }

    /// Removes all values but keeps the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.packed = Box::default();
        self.count = 0;
        self.sum = 0;
        self.min = u64::MAX;
        self.max = 0;
    }

    /// Returns the number of recorded values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the exact minimum, or 0 if empty.
    pub const fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// Returns the exact maximum, or 0 if empty.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean, exact except for rounding, or 0 if empty.
    pub const fn mean(&self) -> u64 {
        if self.count == 0 { 0 } else { (self.sum / self.count as u128) as u64 }
    }

    /// Returns the value at quantile `q` (0 to 1), within [`QUANTILE_ERROR_MAX`], or 0 if empty.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        // The first bucket at which the running count reaches the rank contains the value.
        let mut seen = 0_u64;
        for (bucket, count) in self.non_empty_buckets() {
            seen = seen.saturating_add(count);
            if seen >= rank {
                return middle_of::<SUB_BITS>(bucket).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Encodes the counts compactly: version, min, max, sum, then pairs of (bucket gap, count).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![1];
        put_varint(&mut out, u128::from(self.min()));
        put_varint(&mut out, u128::from(self.max));
        put_varint(&mut out, self.sum);
        put_pairs(&mut out, self.non_empty_buckets());
        out
    }

    /// Decodes the output of [`Self::to_bytes`], or returns `None` if it is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (version, mut rest) = bytes.split_first()?;
        if *version != 1 {
            return None;
        }
        let mut histogram = Self::sparse();
        histogram.min = u64::try_from(take_varint(&mut rest)?).ok()?;
        histogram.max = u64::try_from(take_varint(&mut rest)?).ok()?;
        histogram.sum = take_varint(&mut rest)?;
        // Keep the pairs encoded: most histograms of a report are only merged or queried for a
        // quantile and need no counts. The loop checks that decoding them cannot fail.
        histogram.packed = rest.into();
        let mut bucket = 0_usize;
        while !rest.is_empty() {
            let gap = usize::try_from(take_varint(&mut rest)?).ok()?;
            let count = u64::try_from(take_varint(&mut rest)?).ok()?;
            // Buckets are unique and in ascending order.
            let is_again = gap == 0 && histogram.count > 0;
            bucket = bucket.checked_add(gap)?;
            if bucket >= BUCKETS || count == 0 || is_again {
                return None;
            }
            histogram.count = histogram.count.checked_add(count)?;
        }
        if histogram.count == 0 {
            histogram.min = u64::MAX;
        } else if histogram.min > histogram.max {
            return None;
        }
        Some(histogram)
    }

    /// Returns the non-empty buckets as (lowest value, count), in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.non_empty_buckets().map(|(bucket, count)| (lowest_of::<SUB_BITS>(bucket), count))
    }

    /// Returns a copy that takes as little memory as possible, until something is recorded into it.
    #[must_use]
    pub fn packed(&self) -> Self {
        let mut packed = Vec::new();
        put_pairs(&mut packed, self.non_empty_buckets());
        Self { first: 0, counts: Box::default(), packed: packed.into_boxed_slice(), ..*self }
    }

    fn non_empty_buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let counted = counted.map(|(place, count)| (self.first + place, *count));
        counted.chain(unpacked(&self.packed))
    }

    #[inline]
    fn bucket_mut(&mut self, bucket: usize) -> &mut u64 {
        if bucket.wrapping_sub(self.first) >= self.counts.len() {
            self.make_room(bucket, bucket);
        }
        &mut self.counts[bucket - self.first]
    }

    /// Allocates the given buckets, and all buckets between them and the existing ones.
    #[cold]
    fn make_room(&mut self, lowest: usize, highest: usize) {
        // Decode packed pairs first, because recording needs an element for each bucket.
        let packed = std::mem::take(&mut self.packed);
        if let Some((known, _)) = unpacked(&packed).next() {
            let last = unpacked(&packed).last().map_or(known, |(bucket, _)| bucket);
            self.make_room(known.min(lowest), last.max(highest));
            for (bucket, count) in unpacked(&packed) {
                self.counts[bucket - self.first] = count;
            }
            return;
        }
        let mut first = lowest;
        let mut end = highest + 1;
        if !self.counts.is_empty() {
            first = first.min(self.first);
            end = end.max(self.first + self.counts.len());
        }
        if (first, end - first) == (self.first, self.counts.len()) {
            return;
        }
        let mut wider = vec![0; end - first].into_boxed_slice();
        let begin = self.first.saturating_sub(first);
        wider[begin..begin + self.counts.len()].copy_from_slice(&self.counts);
        self.first = first;
        self.counts = wider;
    }
}

impl From<Histogram> for Vec<u8> {
    fn from(histogram: Histogram) -> Self {
        histogram.to_bytes()
    }
}

impl TryFrom<Vec<u8>> for Histogram {
    type Error = &'static str;

    fn try_from(bytes: Vec<u8>) -> Result<Self, Self::Error> {
        Self::from_bytes(&bytes).ok_or("not a histogram")
    }
}

/// Returns the bucket of a value if every octave has `2^BITS` buckets.
#[inline]
pub const fn bucket_of<const BITS: u32>(value: u64) -> usize {
    if value < 1 << BITS {
        return value as usize;
    }
    // The highest bit determines the octave, and the next BITS the bucket within it. The sum is
    // continuous: the first bucket of an octave follows the last one of the previous octave.
    let shift = value.ilog2() - BITS;
    ((shift as usize) << BITS) + (value >> shift) as usize
}

const fn lowest_of<const BITS: u32>(bucket: usize) -> u64 {
    if bucket < 1 << BITS {
        return bucket as u64;
    }
    let shift = (bucket >> BITS) - 1;
    ((bucket - (shift << BITS)) as u64) << shift
}

/// Returns the middle of a bucket if every octave has `2^BITS` buckets.
pub const fn middle_of<const BITS: u32>(bucket: usize) -> u64 {
    if bucket < 1 << BITS {
        return bucket as u64;
    }
    let width = 1_u64 << ((bucket >> BITS) - 1);
    lowest_of::<BITS>(bucket) + width / 2
}

/// Encodes pairs of (bucket gap, count).
fn put_pairs(out: &mut Vec<u8>, occupied: impl Iterator<Item = (usize, u64)>) {
    // Adjacent buckets have a gap of 1 and small counts, so most pairs take two bytes.
    let mut last = 0;
    for (bucket, count) in occupied {
        put_varint(out, (bucket - last) as u128);
        put_varint(out, u128::from(count));
        last = bucket;
    }
}

/// Decodes the output of [`put_pairs`].
fn unpacked(mut packed: &[u8]) -> impl Iterator<Item = (usize, u64)> + '_ {
    let mut bucket = 0;
    std::iter::from_fn(move || {
        let gap = usize::try_from(take_varint(&mut packed)?).ok()?;
        let count = u64::try_from(take_varint(&mut packed)?).ok()?;
        bucket = usize::checked_add(bucket, gap)?;
        Some((bucket, count))
    })
}

fn put_varint(out: &mut Vec<u8>, mut value: u128) {
    // LEB128: seven bits per byte, lowest first; the high bit is set if more follow.
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u128> {
    let mut value = 0_u128;
    for shift in (0..128).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u128::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests;
