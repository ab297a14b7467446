//! The file that fills up a file system during a fault.
//!
//! **Source:** fallocate(1), statvfs(3).

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use rustix::fs::FallocateFlags;

use crate::commands::{Runner, SOON, is_root};
use crate::error::LabError;
use crate::host::trust;

/// Space to leave free, in bytes.
const LEFT: u64 = 1 << 20;

/// Smallest piece to allocate, in bytes.
const PIECE_MIN: u64 = 64 << 10;

/// Allocates all free space of a file's file system except for the last mebibyte.
///
/// File systems reserve some space for themselves (ext4: 16 MiB), and others may be writing at the
/// same time. So if an allocation fails, smaller pieces are tried. A failed allocation may still
/// have taken some space.
///
/// # Errors
/// If almost nothing can be allocated.
pub(crate) fn fill(runner: &mut Runner, file: &Path) -> Result<(), LabError> {
    let point = file.parent().unwrap_or(file);
    let path = file.display().to_string();
    // Clients may be able to write to this folder, so don't follow anything they have put in its
    // place.
    let filler = if is_root() { Some(trust::create_new(file)?) } else { None };
    let space = free_bytes(point);
    let mut piece = space;
    loop {
        // We may not be allowed to read root's file, but we can see its size.
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

/// Allocates a range of a file, using sudo if we aren't root.
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
    let offset = piece.start.to_string();
    let length = (piece.end - piece.start).to_string();
    let argv = ["fallocate", "--offset", &offset, "--length", &length, "--", path];
    runner.run(&argv, SOON).map(drop)
}

/// Returns the bytes that root may still use on a mount, or 0 if the kernel doesn't report it.
pub(crate) fn free_bytes(point: &Path) -> u64 {
    // `f_bfree` rather than `f_bavail`, since we also fill the space that ext4 reserves for root.
    match rustix::fs::statvfs(point) {
        Ok(stat) => stat.f_bfree.saturating_mul(stat.f_frsize),
        Err(_) => 0,
    }
}
