"""Histograms of times, in the format of results files."""

from __future__ import annotations

import math
from typing import Dict, Iterable, Iterator, List, Tuple

_SUB_BITS = 6
_SUB_BUCKETS = 1 << _SUB_BITS
_BUCKETS = _SUB_BUCKETS * (64 - _SUB_BITS + 1)


class Histogram:
    """Counts of times by bucket: 64 buckets for each power of two, so that a quantile is within
    0.8 % of the exact one. Minimum, maximum and mean are exact. Times are nanoseconds.
    """

    def __init__(self) -> None:
        self.min_ns = 0
        self.max_ns = 0
        self.sum_ns = 0
        self._counts: Dict[int, int] = {}

    @classmethod
    def from_bytes(cls, data: bytes) -> Histogram:
        """Reads a column such as `service_time` of the table `kinds`.

        Raises `ValueError` if the bytes are not a histogram.
        """
        if not data or data[0] != 1:
            raise ValueError("not a histogram of version 1")
        numbers = _varints(data[1:])
        if len(numbers) < 3 or len(numbers) % 2 == 0:
            raise ValueError("the histogram is cut off")
        histogram = cls()
        histogram.min_ns, histogram.max_ns, histogram.sum_ns = numbers[:3]
        bucket = 0
        for gap, count in zip(numbers[3::2], numbers[4::2]):
            bucket += gap
            if bucket >= _BUCKETS or count == 0 or bucket in histogram._counts:
                raise ValueError("the histogram has a bucket that can't be")
            histogram._counts[bucket] = count
        return histogram

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """Merges several histograms."""
        merged = cls()
        for one in histograms:
            if one.count == 0:
                continue
            merged.min_ns = min(merged.min_ns, one.min_ns) if merged.count else one.min_ns
            merged.max_ns = max(merged.max_ns, one.max_ns)
            merged.sum_ns += one.sum_ns
            for bucket, count in one._counts.items():
                merged._counts[bucket] = merged._counts.get(bucket, 0) + count
        return merged

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self._counts.values())

    @property
    def mean_ns(self) -> float:
        """Mean of all values; 0 if there are none."""
        return self.sum_ns / self.count if self.count else 0.0

    def quantile(self, share: float) -> int:
        """Returns the time in nanoseconds that a share of all values (0 to 1) does not exceed."""
        rank = max(math.ceil(min(max(share, 0.0), 1.0) * self.count), 1)
        seen = 0
        for bucket, count in self._occupied():
            seen += count
            if seen >= rank:
                return min(max(_middle(bucket), self.min_ns), self.max_ns)
        return self.max_ns

    def buckets(self) -> List[Tuple[int, int]]:
        """Returns the lowest time and the count of each bucket that is not empty."""
        return [(_lowest(bucket), count) for bucket, count in self._occupied()]

    def cumulative(self) -> Tuple[List[int], List[float]]:
        """Returns the distribution: times, and the share of values that does not exceed each."""
        times, shares, seen = [], [], 0
        total = self.count
        for bucket, count in self._occupied():
            seen += count
            times.append(min(max(_middle(bucket), self.min_ns), self.max_ns))
            shares.append(seen / total)
        return times, shares

    def _occupied(self) -> Iterator[Tuple[int, int]]:
        return iter(sorted(self._counts.items()))


def _lowest(bucket: int) -> int:
    if bucket < _SUB_BUCKETS:
        return bucket
    shift = (bucket >> _SUB_BITS) - 1
    return (bucket - (shift << _SUB_BITS)) << shift


def _middle(bucket: int) -> int:
    if bucket < _SUB_BUCKETS:
        return bucket
    return _lowest(bucket) + (1 << ((bucket >> _SUB_BITS) - 1)) // 2


def _varints(data: bytes) -> List[int]:
    """Decodes LEB128: 7 bits per byte, lowest first; the highest bit is set if more follow."""
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value, shift = 0, 0
        elif shift >= 128:
            raise ValueError("a number of the histogram is too long")
    if shift:
        raise ValueError("the histogram is cut off")
    return numbers
