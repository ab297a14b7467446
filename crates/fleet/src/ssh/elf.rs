//! Finds the part of an ELF file that the kernel loads, and patches its header to drop the rest.
//!
//! Linkers put everything that isn't loaded (debug information, symbols, the section table) at the
//! end, so the program without them is a prefix of the file. Files with another layout, and invalid
//! ones, are kept whole.
//!
//! **Source:** elf(5), `Elf64_Ehdr` and `Elf64_Phdr`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Size of a 64-bit ELF header, in bytes.
pub(super) const HEADER_BYTES: usize = 64;

/// Size of a program header, in bytes.
const SEGMENT_BYTES: usize = 56;

/// Offsets of the ELF header fields `e_phoff`, `e_phentsize` and `e_phnum`.
const SEGMENTS_AT: usize = 32;
const SEGMENT_BYTES_AT: usize = 54;
const SEGMENT_COUNT_AT: usize = 56;

/// Offsets of the ELF header fields `e_shoff` and `e_shnum`; `e_shstrndx` follows the latter.
const SECTIONS_AT: usize = 40;
const SECTION_COUNT_AT: usize = 60;

/// Value of `e_phnum` if the real number doesn't fit into the field.
const TOO_MANY: u16 = u16::MAX;

/// Returns the number of bytes at the start of a file that the kernel or the dynamic linker reads,
/// or the whole size if that isn't known. `head` is the start of the file.
pub(super) fn loaded_bytes(file: &File, head: &[u8]) -> io::Result<u64> {
    let whole = file.metadata()?.len();
    let Some((at, count)) = find_segments(head) else { return Ok(whole) };
    let mut table = vec![0; usize::from(count) * SEGMENT_BYTES];
    match file.read_exact_at(&mut table, at) {
        Ok(()) => {}
        // The table extends beyond the end of the file.
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

/// Changes a header to say that there are no sections, since they are cut off.
pub(super) fn forget_sections(head: &mut [u8]) {
    if let Some(place) = head.get_mut(SECTIONS_AT..SECTIONS_AT + 8) {
        place.fill(0);
    }
    if let Some(counts) = head.get_mut(SECTION_COUNT_AT..SECTION_COUNT_AT + 4) {
        counts.fill(0);
    }
}

/// Returns the offset of the program headers and their number. Returns `None` unless the file is a
/// 64-bit little-endian ELF with the usual layout.
fn find_segments(head: &[u8]) -> Option<(u64, u16)> {
    let is_known = head.get(4..6)? == [2, 1];
    let at = read_u64(head, SEGMENTS_AT)?;
    let entry = read_u16(head, SEGMENT_BYTES_AT)?;
    let count = read_u16(head, SEGMENT_COUNT_AT)?;
    let is_plain = usize::from(entry) == SEGMENT_BYTES && count != 0 && count != TOO_MANY;
    // Rules out an overflow when the end of the table is computed.
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

    /// Passes a 200-byte file with one segment, modified by `change`, to `loaded_bytes`.
    fn loaded(change: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let mut bytes = vec![0; 200];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[SEGMENTS_AT] = 64;
        bytes[SECTIONS_AT] = 160;
        bytes[SEGMENT_BYTES_AT] = 56;
        bytes[SEGMENT_COUNT_AT] = 1;
        bytes[SECTION_COUNT_AT] = 1;
        // Offset and size in the file.
        bytes[64 + 8] = 120;
        bytes[64 + 32] = 30;
        change(&mut bytes);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        loaded_bytes(&file, &bytes[..HEADER_BYTES.min(bytes.len())]).unwrap()
    }

    #[test]
    fn loads_up_to_last_segment() {
        assert_eq!(loaded(|_| ()), 150);
        // A segment without bytes in the file, such as the stack's.
        assert_eq!(loaded(|bytes| bytes[64 + 8..64 + 40].fill(0)), 120);
        assert_eq!(loaded(|bytes| bytes[64 + 32] = 80), 200);
    }

    #[test]
    fn keeps_other_layouts_whole() {
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
