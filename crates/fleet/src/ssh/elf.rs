//! The part of a program's file that a kernel loads, and its header without the rest.
//!
//! A linker puts everything that is not loaded behind what is: debug information, symbols, the
//! table of sections. So the program without them is a prefix of the file. Files that are not
//! laid out so, or that make no sense, are kept whole.
//!
//! **Source:** elf(5), `Elf64_Ehdr` and `Elf64_Phdr`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Length of the header of a file of 64 bits, in bytes.
pub(super) const HEADER_BYTES: usize = 64;

/// Length of an entry of the table of segments, in bytes.
const SEGMENT_BYTES: usize = 56;

/// Places in the header of the table of segments: its offset, and its entries' length and number.
const SEGMENTS_AT: usize = 32;
const SEGMENT_BYTES_AT: usize = 54;
const SEGMENT_COUNT_AT: usize = 56;

/// Places in the header of the table of sections: its offset, and their number and names.
const SECTIONS_AT: usize = 40;
const SECTION_COUNT_AT: usize = 60;

/// A number of segments that stands for "more than the field can hold".
const TOO_MANY: u16 = u16::MAX;

/// Returns how many bytes at the start of a file a kernel or a dynamic linker reads; all where that
/// isn't known. `head` is the start of the file.
///
/// # Errors
/// When the file can't be read.
pub(super) fn loaded_bytes(file: &File, head: &[u8]) -> io::Result<u64> {
    let whole = file.metadata()?.len();
    let Some((at, count)) = find_segments(head) else { return Ok(whole) };
    let mut table = vec![0; usize::from(count) * SEGMENT_BYTES];
    match file.read_exact_at(&mut table, at) {
        Ok(()) => {}
        // A table that reaches beyond the end of the file.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(whole),
        Err(error) => return Err(error),
    }
    let mut end = at + table.len() as u64;
    for segment in table.chunks_exact(SEGMENT_BYTES) {
        let (Some(offset), Some(len)) = (read_u64(segment, 8), read_u64(segment, 32)) else {
            return Ok(whole);
        };
        let Some(segment_end) = offset.checked_add(len) else { return Ok(whole) };
        end = end.max(segment_end);
    }
    Ok(end.max(HEADER_BYTES as u64).min(whole))
}

/// Makes a header say that there are no sections, as they are cut off.
pub(super) fn forget_sections(head: &mut [u8]) {
    if let Some(place) = head.get_mut(SECTIONS_AT..SECTIONS_AT + 8) {
        place.fill(0);
    }
    if let Some(counts) = head.get_mut(SECTION_COUNT_AT..SECTION_COUNT_AT + 4) {
        counts.fill(0);
    }
}

/// Returns where the table of segments is, and the number of its entries; `None` where the file is
/// none of 64 bits in little-endian order, or is odd.
fn find_segments(head: &[u8]) -> Option<(u64, u16)> {
    let is_known = head.get(4..6)? == [2, 1];
    let at = read_u64(head, SEGMENTS_AT)?;
    let (entry, count) = (read_u16(head, SEGMENT_BYTES_AT)?, read_u16(head, SEGMENT_COUNT_AT)?);
    let is_plain = usize::from(entry) == SEGMENT_BYTES && count != 0 && count != TOO_MANY;
    // The end of the table must not overflow either.
    if is_known && is_plain && at < u64::MAX / 2 { Some((at, count)) } else { None }
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A file of 200 bytes with one segment, of which `change` makes another.
    fn loaded(change: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let mut bytes = vec![0; 200];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[SEGMENTS_AT] = 64;
        bytes[SECTIONS_AT] = 160;
        bytes[SEGMENT_BYTES_AT] = 56;
        bytes[SEGMENT_COUNT_AT] = 1;
        bytes[SECTION_COUNT_AT] = 1;
        // Offset and length in the file.
        bytes[64 + 8] = 120;
        bytes[64 + 32] = 30;
        change(&mut bytes);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        loaded_bytes(&file, &bytes[..HEADER_BYTES.min(bytes.len())]).unwrap()
    }

    #[test]
    fn all_up_to_the_last_segment_is_loaded() {
        assert_eq!(loaded(|_| ()), 150);
        // A segment without bytes in the file, such as that of the stack.
        assert_eq!(loaded(|bytes| bytes[64 + 8..64 + 40].fill(0)), 120);
        assert_eq!(loaded(|bytes| bytes[64 + 32] = 80), 200);
    }

    #[test]
    fn files_that_are_laid_out_otherwise_are_kept_whole() {
        let odd: [(&str, usize, u8); 8] = [
            ("32 bits", 4, 1),
            ("big-endian", 5, 2),
            ("entries of another length", SEGMENT_BYTES_AT, 32),
            ("no segments", SEGMENT_COUNT_AT, 0),
            ("a table beyond the end", SEGMENTS_AT, 190),
            ("a table far beyond the end", SEGMENTS_AT + 7, 0xff),
            ("a segment beyond the end", 64 + 8 + 6, 1),
            ("a segment whose end overflows", 64 + 32 + 7, 0xff),
        ];
        for (what, at, value) in odd {
            assert_eq!(loaded(|bytes| bytes[at] = value), 200, "{what}");
        }
        assert_eq!(loaded(|bytes| bytes[SEGMENT_COUNT_AT..=SEGMENT_COUNT_AT + 1].fill(0xff)), 200);
        assert_eq!(loaded(|bytes| bytes.truncate(20)), 20);
    }

    #[test]
    fn a_header_forgets_its_sections_only() {
        let mut head = [7; HEADER_BYTES];
        forget_sections(&mut head);
        let changed: Vec<usize> = (0..HEADER_BYTES).filter(|at| head[*at] == 0).collect();
        assert_eq!(changed, [40, 41, 42, 43, 44, 45, 46, 47, 60, 61, 62, 63]);
        forget_sections(&mut head[..20]);
    }
}
