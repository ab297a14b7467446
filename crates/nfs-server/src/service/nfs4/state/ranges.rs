//! Byte-range locks of one file.
//!
//! Ranges are closed intervals of bytes, so the end of the file is simply the largest number.
//! Ranges of one owner never overlap, and adjacent ones of the same mode are merged; setting a
//! range replaces the owner's locks there, as with POSIX locks.
//!
//! **Source:** RFC 7530 section 9.2, RFC 8881 section 9.2.

use nfs_proto::Status;

/// Bytes from `first` to `last`, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset of the first byte.
    pub(crate) first: u64,
    /// Offset of the last byte.
    pub(crate) last: u64,
}

/// Whether a lock is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Others may lock the same bytes in this mode: READ_LT.
    Shared,
    /// No other owner may lock them: WRITE_LT.
    Exclusive,
}

/// Bytes that an owner has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// Key of its lock state.
    pub(super) state: u64,
    pub(super) span: Span,
    pub(super) mode: LockMode,
}

/// All locks of a file.
#[derive(Debug, Default)]
pub(super) struct Ranges(Vec<Range>);

impl Span {
    /// Converts offset and length from the wire; a length of all ones means to the end.
    ///
    /// # Errors
    /// `Inval` for a length of 0 and for one that goes past the largest offset.
    pub(crate) fn new(offset: u64, length: u64) -> Result<Self, Status> {
        let last = match length {
            0 => return Err(Status::Inval),
            u64::MAX => u64::MAX,
            _ => offset.checked_add(length - 1).ok_or(Status::Inval)?,
        };
        Ok(Self { first: offset, last })
    }

    /// The length on the wire.
    pub(crate) fn length(self) -> u64 {
        if self.last == u64::MAX { u64::MAX } else { self.last - self.first + 1 }
    }

    fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Returns true if the two could be merged without a gap.
    fn touches(self, other: Self) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }
}

impl Ranges {
    /// Finds another owner's lock that conflicts; `is_own` identifies the owner's states.
    pub(super) fn find_conflict(
        &self,
        span: Span,
        mode: LockMode,
        is_own: impl Fn(u64) -> bool,
    ) -> Option<Range> {
        for range in &self.0 {
            let both_shared = mode == LockMode::Shared && range.mode == LockMode::Shared;
            if range.span.overlaps(span) && !both_shared && !is_own(range.state) {
                return Some(*range);
            }
        }
        None
    }

    /// Sets a lock; the caller has checked for conflicts.
    pub(super) fn set(&mut self, state: u64, mut span: Span, mode: LockMode) {
        // A lock replaces the owner's previous locks on its bytes, even in the other mode: an
        // upgrade or downgrade in place. Adjacent locks in the same mode are merged, or a client
        // that locks byte by byte would fill the table.
        self.clear(state, span);
        self.0.retain(|range| {
            let join = range.state == state && range.mode == mode && range.span.touches(span);
            if join {
                span.first = span.first.min(range.span.first);
                span.last = span.last.max(range.span.last);
            }
            !join
        });
        self.0.push(Range { state, span, mode });
    }

    /// Removes a state's locks from some bytes and keeps the parts on both sides.
    pub(super) fn clear(&mut self, state: u64, span: Span) {
        // Unlocking the middle of a range leaves two, so this can make the table longer.
        let mut right_parts = Vec::new();
        self.0.retain_mut(|range| {
            if range.state != state || !range.span.overlaps(span) {
                return true;
            }
            let old = range.span;
            if old.last > span.last {
                let right = Span { first: span.last + 1, last: old.last };
                right_parts.push(Range { span: right, ..*range });
            }
            let left = old.first < span.first;
            if left {
                range.span.last = span.first - 1;
            }
            left
        });
        self.0.extend(right_parts);
    }

    /// Removes all locks of a state.
    pub(super) fn clear_all(&mut self, state: u64) {
        self.0.retain(|range| range.state != state);
    }

    /// Whether a state has locks.
    pub(super) fn has_locks(&self, state: u64) -> bool {
        self.0.iter().any(|range| range.state == state)
    }

    /// Number of ranges.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(first: u64, last: u64) -> Span {
        Span { first, last }
    }

    #[test]
    fn converts_lock_lengths() {
        assert_eq!(Span::new(5, 0), Err(Status::Inval));
        assert_eq!(Span::new(5, 10), Ok(span(5, 14)));
        assert_eq!(Span::new(5, u64::MAX), Ok(span(5, u64::MAX)));
        assert_eq!(Span::new(u64::MAX, 2), Err(Status::Inval));
        assert_eq!(Span::new(u64::MAX - 4, 5).unwrap().length(), u64::MAX);
        assert_eq!(span(5, 14).length(), 10);
    }

    #[test]
    fn joins_and_splits_ranges() {
        let mut ranges = Ranges::default();
        ranges.set(1, span(0, 9), LockMode::Exclusive);
        ranges.set(1, span(10, 19), LockMode::Exclusive);
        assert_eq!(ranges.0, [Range { state: 1, span: span(0, 19), mode: LockMode::Exclusive }]);
        ranges.clear(1, span(5, 6));
        assert_eq!(ranges.len(), 2);
        ranges.set(1, span(5, 6), LockMode::Shared);
        assert_eq!(ranges.len(), 3, "ranges of different kinds are not merged");
        ranges.set(1, span(0, u64::MAX), LockMode::Exclusive);
        assert_eq!(
            ranges.0,
            [Range { state: 1, span: span(0, u64::MAX), mode: LockMode::Exclusive }]
        );
    }

    proptest! {
        /// Compares locks by 3 owners on 16 bytes with a plain table of bytes.
        #[test]
        fn matches_byte_table_model(
            steps in prop::collection::vec((0_u64..3, 0_u64..16, 0_u64..16, 0_u8..3), 1..60)
        ) {
            let mut ranges = Ranges::default();
            let mut table = [[None::<LockMode>; 16]; 3];
            for (state, a, b, what) in steps {
                let span = span(a.min(b), a.max(b));
                let bytes = span.first as usize..=span.last as usize;
                if what == 2 {
                    ranges.clear(state, span);
                    table[state as usize][bytes].fill(None);
                    continue;
                }
                let mode = if what == 1 { LockMode::Exclusive } else { LockMode::Shared };
                let conflict = ranges.find_conflict(span, mode, |other| other == state);
                let expected = (0..3).filter(|other| *other != state as usize).any(|other| {
                    let mut held = table[other][bytes.clone()].iter().flatten();
                    held.any(|held| [mode, *held].contains(&LockMode::Exclusive))
                });
                prop_assert_eq!(conflict.is_some(), expected);
                if conflict.is_none() {
                    ranges.set(state, span, mode);
                    table[state as usize][bytes].fill(Some(mode));
                }
            }
            for (state, row) in (0..).zip(&table) {
                for (byte, held) in (0..).zip(row) {
                    let mine = |range: &&Range| {
                        range.state == state && range.span.overlaps(span(byte, byte))
                    };
                    let found: Vec<_> = ranges.0.iter().filter(mine).collect();
                    prop_assert!(found.len() <= 1);
                    prop_assert_eq!(found.first().map(|range| range.mode), *held);
                }
                prop_assert_eq!(ranges.has_locks(state), row.iter().any(Option::is_some));
            }
        }
    }
}
