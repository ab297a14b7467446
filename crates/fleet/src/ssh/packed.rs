//! Gzipped programs, kept in the user's cache.
//!
//! A cached file is only used if its content matches the hash in its name, so a damaged file does
//! no harm. The newest [`KEPT`] files are kept.

use std::cmp::Reverse;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, BufWriter, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::content::{Content, ContentReader, hash_of};

/// Number of cached files to keep: this program, one for hosts with another C library, and the
/// previous versions of both.
const KEPT: usize = 4;

/// Prefix of the names of cached files.
const PREFIX: &str = "program-";

/// Returns a gzipped program, or `None` if this host has no space for it.
pub(super) fn pack(
    program: &Arc<Content>,
    hash: &str,
    cache: Option<&Path>,
) -> Option<Arc<Content>> {
    if let Some(cache) = cache {
        let path = cache.join(format!("{PREFIX}{hash}.gz"));
        if let Ok(packed) = read_cached(&path, hash) {
            return Some(Arc::new(packed));
        }
        if let Ok(packed) = pack_into(cache, &path, program) {
            return Some(Arc::new(packed));
        }
    }
    // Without a cache, it is compressed again for each campaign.
    let packed = tempfile::tempfile().and_then(|file| {
        compress(program, &file)?;
        Content::from_file(file)
    });
    match packed {
        Ok(packed) => Some(Arc::new(packed)),
        Err(_) => None,
    }
}

/// Opens a cached file after checking that it contains a program with this hash.
fn read_cached(path: &Path, hash: &str) -> io::Result<Content> {
    let mut file = File::open(path)?;
    let mut unpacked = GzDecoder::new(BufReader::with_capacity(1 << 16, &file));
    if hash_of(&mut unpacked)? != hash {
        return Err(io::ErrorKind::InvalidData.into());
    }
    drop(unpacked);
    file.rewind()?;
    Content::from_file(file)
}

fn pack_into(cache: &Path, path: &Path, program: &Arc<Content>) -> io::Result<Content> {
    DirBuilder::new().recursive(true).mode(0o700).create(cache)?;
    // Use another name until the file is complete, since several campaigns may start at the same
    // time.
    let new = tempfile::Builder::new().prefix(PREFIX).suffix(".new").tempfile_in(cache)?;
    compress(program, new.as_file())?;
    let file = new.persist(path)?;
    remove_old(cache);
    Content::from_file(file)
}

fn compress(program: &Arc<Content>, out: &File) -> io::Result<()> {
    let out = BufWriter::with_capacity(1 << 16, out);
    let mut encoder = GzEncoder::new(out, Compression::default());
    io::copy(&mut ContentReader::new(program), &mut encoder)?;
    encoder.finish()?.flush()
}

struct CachedPackage {
    changed: SystemTime,
    path: PathBuf,
    bytes: u64,
}

/// Lists cached files, newest first. Includes temporary files left by killed campaigns.
fn list_cached(cache: &Path) -> Vec<CachedPackage> {
    let mut found = Vec::new();
    let Ok(folder) = fs::symlink_metadata(cache) else { return found };
    // Another user's folder, or one behind a symlink, isn't ours to clean.
    if !folder.is_dir() || folder.uid() != rustix::process::geteuid().as_raw() {
        return found;
    }
    let Ok(entries) = fs::read_dir(cache) else { return found };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        if let Ok(metadata) = entry.metadata()
            && let Ok(changed) = metadata.modified()
        {
            found.push(CachedPackage { changed, path: entry.path(), bytes: metadata.len() });
        }
    }
    found.sort_unstable_by_key(|file| Reverse(file.changed));
    found
}

/// Removes all but the newest files from the cache.
fn remove_old(cache: &Path) {
    for file in list_cached(cache).iter().skip(KEPT) {
        // Another campaign may have removed it already.
        let _ = fs::remove_file(&file.path);
    }
}

/// What was removed from a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedPrograms {
    pub files: u64,
    /// Their total size, in bytes.
    pub bytes: u64,
}

/// Removes the compressed programs from a user's cache, and the folder if it is then empty. A
/// campaign that is currently sending one has it open; later campaigns create it again.
pub fn remove_cached_programs(cache: &Path) -> RemovedPrograms {
    let mut removed = RemovedPrograms::default();
    for file in list_cached(cache) {
        if fs::remove_file(&file.path).is_ok() {
            removed.files += 1;
            removed.bytes += file.bytes;
        }
    }
    if removed.files > 0 {
        // Fails if the folder contains other files, which aren't ours.
        let _ = fs::remove_dir(cache);
    }
    removed
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn program(text: &str) -> (Arc<Content>, String) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let content = Arc::new(Content::from_file(file).unwrap());
        let hash = hash_of(&mut ContentReader::new(&content)).unwrap();
        (content, hash)
    }

    fn unpacked(packed: &Arc<Content>) -> String {
        let mut text = String::new();
        GzDecoder::new(ContentReader::new(packed)).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn compresses_program_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("new/dfsbench");
        let text = "program ".repeat(10_000);
        let (content, hash) = program(&text);
        let pack = || pack(&content, &hash, Some(&cache)).unwrap();
        let packed = pack();
        assert!(packed.len_bytes < 1_000 && unpacked(&packed) == text, "{}", packed.len_bytes);
        let path = cache.join(format!("program-{hash}.gz"));
        let inode = || fs::metadata(&path).unwrap().ino();
        let first = inode();
        assert_eq!((unpacked(&pack()), inode()), (text.clone(), first));
        let whole = fs::read(&path).unwrap();
        for broken in [&whole[..whole.len() / 2], b"", b"other"] {
            fs::write(&path, broken).unwrap();
            assert_eq!(unpacked(&pack()), text);
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
    }

    #[test]
    fn works_without_writable_cache() {
        let (content, hash) = program("text");
        for cache in [None, Some(Path::new("/proc/none"))] {
            assert_eq!(unpacked(&pack(&content, &hash, cache).unwrap()), "text");
        }
    }

    #[test]
    fn keeps_newest_and_foreign_files() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path();
        fs::write(cache.join("notes"), "").unwrap();
        let set_age = |name: &str, seconds: u64| {
            // Files created within one tick of the file system's clock would have the same age.
            let file = File::options().write(true).open(cache.join(name)).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        };
        fs::write(cache.join("program-killed.new"), "").unwrap();
        set_age("program-killed.new", 1);
        let mut hashes = Vec::new();
        for number in 0..=KEPT {
            let (content, hash) = program(&number.to_string());
            pack(&content, &hash, Some(cache)).unwrap();
            set_age(&format!("program-{hash}.gz"), 2 + number as u64);
            hashes.push(hash);
        }
        remove_old(cache);
        let is_there = |hash: &String| cache.join(format!("program-{hash}.gz")).exists();
        assert!(!is_there(&hashes[0]) && hashes[1..].iter().all(is_there));
        assert!(cache.join("notes").exists() && !cache.join("program-killed.new").exists());
    }

    #[test]
    fn empties_and_removes_own_cache() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("dfsbench");
        assert_eq!(remove_cached_programs(&cache), RemovedPrograms::default());
        for others in [&["notes"][..], &[]] {
            fs::create_dir_all(&cache).unwrap();
            for name in others {
                fs::write(cache.join(name), "").unwrap();
            }
            fs::write(cache.join("program-1.gz"), "12345").unwrap();
            fs::write(cache.join("program-killed.new"), "123").unwrap();
            let removed = remove_cached_programs(&cache);
            assert_eq!(removed, RemovedPrograms { files: 2, bytes: 8 });
            assert_eq!(cache.exists(), !others.is_empty());
            let _ = fs::remove_dir_all(&cache);
        }
    }
}
