//! A small file that is written and synced at a target, so that the controller can look for it in
//! the object store behind the target.

use std::time::Duration;

use engine::target::leftover::{self, Leftover};
use engine::target::named_files::{NamedFiles, NamedWrite};
use fleet::PROBE_FILE;
use model::{Durability, Target};
use workload::Pattern;

/// Time limit for an answer of the target.
const PATIENCE: Duration = Duration::from_secs(60);
const SEED: u64 = 50;
const BLOCK_BYTES: u32 = 4096;
const FILE_BYTES: u32 = 16 * BLOCK_BYTES;

/// Creates the folder, and writes, syncs and closes a file in it.
///
/// # Errors
/// If that fails; the error is a sentence.
pub(crate) fn write(target: &Target, folder: &str) -> Result<(), String> {
    let pattern = Pattern::new(SEED, FILE_BYTES as usize).stamped(0, BLOCK_BYTES);
    let mut files = NamedFiles::open(target, PATIENCE, pattern, FILE_BYTES)?;
    files.make(folder)?;
    let mut file = files.create(PROBE_FILE, 0, Durability::Sync)?;
    files.write(&mut file, NamedWrite { offset_bytes: 0, len_bytes: FILE_BYTES, generation: 0 })?;
    files.make_safe(&mut file)?;
    files.close(file)
}

/// Removes the folder.
///
/// # Errors
/// If that fails; the error is a sentence.
pub(crate) fn remove(target: &Target, folder: &str) -> Result<(), String> {
    for left in leftover::remove_tree(target, folder).map_err(|error| error.to_string())? {
        if let Leftover::Kept(place, why) = left {
            return Err(format!("{place}: {why}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_removes_folder() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::Directory { path: folder.path().to_owned() };
        let name = "dfsbench-probe-1";
        write(&target, name).unwrap();
        let file = folder.path().join(name).join(PROBE_FILE);
        assert_eq!(std::fs::metadata(file).unwrap().len(), u64::from(FILE_BYTES));
        assert!(write(&target, name).unwrap_err().contains(name), "it exists already");
        remove(&target, name).unwrap();
        assert!(!folder.path().join(name).exists());
    }
}
