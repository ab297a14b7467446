//! The file that fills a file system during a fault.
//!
//! **Source:** fallocate(1), statvfs(3).

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use rustix::fs::FallocateFlags;

use crate::commands::{Runner, SOON, is_root};
use crate::error::LabError;
use crate::trust;

/// Space that is left on a file system that is filled, in bytes.
const LEFT: u64 = 1 << 20;

/// A smaller piece than this isn't requested, in bytes.
const PIECE_MIN: u64 = 64 << 10;

/// Takes all space of the file system that a file is on, but for a last mebibyte.
///
/// A file system keeps some of its space for itself (ext4: 16 MiB), and others write meanwhile:
/// what can't be had at once is requested in smaller pieces. Of what is refused a part may be
/// taken.
///
/// # Errors
/// Where hardly anything can be had.
pub fn fill(runner: &mut Runner, file: &Path) -> Result<(), LabError> {
    let point = file.parent().unwrap_or(file);
    let path = file.display().to_string();
    // Clients may write there: what one of them has put in its place is not followed.
    let filler = if is_root() { Some(trust::create_new(file)?) } else { None };
    let space = free_bytes(point);
    let mut piece = space;
    loop {
        // Root's files are not always ours to read, but how long they are can be seen.
        let taken = match file.metadata() {
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        };
        piece = piece.min(free_bytes(point).saturating_sub(LEFT)).max(1);
        let refused = match allocate(runner, filler.as_ref(), &path, taken..taken + piece) {
            Ok(()) => None,
            Err(error) => {
                piece /= 16;
                Some(error)
            }
        };
        let free = free_bytes(point);
        let is_over = piece < PIECE_MIN || taken >= space || free <= LEFT + PIECE_MIN;
        match refused {
            Some(error) if is_over && free > space / 2 => return Err(error),
            _ if is_over => return Ok(()),
            _ => {}
        }
    }
}

/// Takes a piece of a file, from an offset on; by sudo where we aren't root.
fn allocate(
    runner: &Runner,
    filler: Option<&File>,
    path: &str,
    piece: Range<u64>,
) -> Result<(), LabError> {
    if let Some(filler) = filler {
        let length = piece.end - piece.start;
        let taken = rustix::fs::fallocate(filler, FallocateFlags::empty(), piece.start, length);
        return taken.map_err(|errno| LabError::file("fill", Path::new(path), errno.into()));
    }
    let (offset, length) = (piece.start.to_string(), (piece.end - piece.start).to_string());
    let argv = ["fallocate", "--offset", &offset, "--length", &length, "--", path];
    runner.run(&argv, SOON).map(drop)
}

/// Bytes that root may still use where something is mounted; 0 where the kernel doesn't say.
pub fn free_bytes(point: &Path) -> u64 {
    // `f_bfree` and not `f_bavail`: what ext4 keeps for root is filled, too.
    match rustix::fs::statvfs(point) {
        Ok(stat) => stat.f_bfree.saturating_mul(stat.f_frsize),
        Err(_) => 0,
    }
}
