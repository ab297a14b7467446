//! How pNFS divides the bytes of a file among data servers.
//!
//! [`Striping`] is what the files layout and flexible files have in common: arithmetic on offsets,
//! without servers or handles. **Source:** RFC 8881 sections 13.4.2 to 13.4.4, RFC 8435 sections 6
//! and 8.

use crate::nfs4::FilesLayout;

/// How a file is divided into stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striping {
    /// Size of a stripe unit in bytes; never 0.
    unit_bytes: u64,
    /// Number of stripes; never 0.
    stripes: u64,
    /// Stripe of the first unit.
    first: u64,
    /// Offset in the file at which the pattern starts.
    start: u64,
    /// Whether a data server has only its own units, one after the other.
    is_dense: bool,
}

/// The part of a transfer that one data server executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StripePiece {
    /// Number of the stripe.
    pub stripe: u32,
    /// Offset at the data server, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

impl Striping {
    /// The striping of flexible files, whose data servers have their units at the offsets of the
    /// file. A unit of 0 means that one data server has everything; `None` if there are none, or
    /// several without a unit.
    pub const fn of_flex_files(unit_bytes: u64, servers: usize) -> Option<Self> {
        if servers == 0 || (unit_bytes == 0 && servers > 1) {
            return None;
        }
        let unit_bytes = if servers == 1 { u64::MAX } else { unit_bytes };
        Some(Self { unit_bytes, stripes: servers as u64, first: 0, start: 0, is_dense: false })
    }

    /// The striping of a files layout whose device has this number of stripe indices; `None` if
    /// the layout does not fit the device.
    pub fn of_files(layout: &FilesLayout<'_>, stripes: usize) -> Option<Self> {
        let unit_bytes = u64::from(layout.unit_bytes());
        let stripes = stripes as u64;
        let first = u64::from(layout.first_stripe_index);
        if unit_bytes == 0 || first >= stripes {
            return None;
        }
        let start = layout.pattern_offset;
        Some(Self { unit_bytes, stripes, first, start, is_dense: layout.is_dense() })
    }

    /// Returns the number of stripes.
    pub const fn stripes(&self) -> usize {
        self.stripes as usize
    }

    /// Returns the size of a stripe unit in bytes; `None` if one stripe has everything.
    pub const fn unit_bytes(&self) -> Option<u64> {
        if self.stripes > 1 { Some(self.unit_bytes) } else { None }
    }

    /// Returns the first piece of a transfer; the rest continues at its end. `None` before the
    /// start of the pattern, where the layout has no data.
    #[inline]
    pub const fn first_piece(&self, offset: u64, len: u32) -> Option<StripePiece> {
        let Some(relative) = offset.checked_sub(self.start) else { return None };
        let unit = relative / self.unit_bytes;
        let within = relative % self.unit_bytes;
        let left = self.unit_bytes - within;
        let len = if left < len as u64 { left as u32 } else { len };
        let stripe = ((unit % self.stripes + self.first) % self.stripes) as u32;
        // In a dense layout a data server has a unit of each round; RFC 8881 section 13.4.4.
        let offset =
            if self.is_dense { unit / self.stripes * self.unit_bytes + within } else { offset };
        Some(StripePiece { stripe, offset, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs4::{DeviceId, List};

    fn files(util: u32, first: u32, start: u64) -> FilesLayout<'static> {
        FilesLayout {
            device: DeviceId::default(),
            util,
            first_stripe_index: first,
            pattern_offset: start,
            files: List::default(),
        }
    }

    fn pieces(striping: &Striping, mut offset: u64, mut len: u32) -> Vec<(u32, u64, u32)> {
        let mut pieces = Vec::new();
        while len > 0 {
            let piece = striping.first_piece(offset, len).expect("within the pattern");
            pieces.push((piece.stripe, piece.offset, piece.len));
            offset += u64::from(piece.len);
            len -= piece.len;
        }
        pieces
    }

    #[test]
    fn splits_at_stripe_boundaries() {
        let sparse = Striping::of_flex_files(100, 3).unwrap();
        assert_eq!(pieces(&sparse, 250, 120), [(2, 250, 50), (0, 300, 70)]);
        assert_eq!(pieces(&sparse, 0, 100), [(0, 0, 100)]);
        assert_eq!(pieces(&sparse, 599, 2), [(2, 599, 1), (0, 600, 1)]);
        let whole = Striping::of_flex_files(0, 1).unwrap();
        assert_eq!(pieces(&whole, 1 << 62, u32::MAX), [(0, 1 << 62, u32::MAX)]);
        assert_eq!((sparse.unit_bytes(), whole.unit_bytes()), (Some(100), None));
        assert_eq!(Striping::of_flex_files(0, 2), None);
        assert_eq!(Striping::of_flex_files(100, 0), None);
    }

    #[test]
    fn packs_units_of_dense_layout() {
        let dense = |first, start| files(FilesLayout::new_util(128, true, false), first, start);
        let striping = Striping::of_files(&dense(0, 0), 3).unwrap();
        assert_eq!(pieces(&striping, 0, 128 * 4).len(), 4);
        assert_eq!(pieces(&striping, 3 * 128 + 5, 10), [(0, 128 + 5, 10)]);
        assert_eq!(pieces(&striping, 8 * 128, 1), [(2, 2 * 128, 1)]);
        // The pattern starts at 1000 with the last stripe.
        let striping = Striping::of_files(&dense(2, 1000), 3).unwrap();
        assert_eq!(pieces(&striping, 1000 + 127, 2), [(2, 127, 1), (0, 0, 1)]);
        assert_eq!(striping.first_piece(999, 1), None);
        assert_eq!(Striping::of_files(&dense(3, 0), 3), None);
        assert_eq!(Striping::of_files(&files(1, 0, 0), 3), None, "no stripe unit");
    }

    #[test]
    fn keeps_offsets_of_sparse_layout() {
        let layout = files(FilesLayout::new_util(64, false, true), 1, 0);
        let striping = Striping::of_files(&layout, 2).unwrap();
        assert_eq!(pieces(&striping, 60, 70), [(1, 60, 4), (0, 64, 64), (1, 128, 2)]);
    }

    #[test]
    fn stripes_cover_each_byte_once() {
        for util in
            [FilesLayout::new_util(64, true, false), FilesLayout::new_util(64, false, false)]
        {
            let striping = Striping::of_files(&files(util, 1, 0), 3).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for offset in 0..64 * 9 {
                let piece = striping.first_piece(offset, 1).unwrap();
                assert!(seen.insert((piece.stripe, piece.offset)), "offset {offset}");
            }
        }
    }
}
