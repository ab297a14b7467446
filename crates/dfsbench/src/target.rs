//! Small helpers for targets: the calling user, the contents of files and their expected contents.
//!
//! `cat` and `pattern` are hidden commands. They allow comparing the contents of a server byte for
//! byte with what a campaign wrote there, using other tools.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::FileSystemType;
use engine::target::mount_options;
use model::NfsTarget;
use model::units::parse_size;
use nfs_client::Mount;
use plan::{NfsAddress, Surroundings, TargetArg};
use workload::Pattern;

use crate::args::{CatArgs, PatternArgs};
use crate::exit::{End, Failure};
use crate::output;

/// Bytes written at a time.
const STEP: u32 = 1 << 20;

/// Returns the user and group of this process.
fn caller_ids() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Returns what a plan needs to know about this process and host.
pub fn surroundings(seed: u64) -> Surroundings {
    let (uid, gid) = caller_ids();
    Surroundings { temp_dir: temp_dir(), uid, gid, seed, job: None }
}

/// Returns the system's temporary directory. If that is a tmpfs, returns `/var/tmp` instead:
/// results should reflect a disk, and old kernels don't support `O_DIRECT` on tmpfs.
///
/// **Source:** Filesystem Hierarchy Standard 3.0, 5.15: `/var/tmp`.
fn temp_dir() -> PathBuf {
    let usual = std::env::temp_dir();
    if std::env::var_os("TMPDIR").is_some() {
        return usual;
    }
    on_storage(usual, Path::new("/var/tmp"))
}

fn on_storage(usual: PathBuf, other: &Path) -> PathBuf {
    if is_tmpfs(&usual) && other.is_dir() && !is_tmpfs(other) { other.to_owned() } else { usual }
}

fn is_tmpfs(path: &Path) -> bool {
    FileSystemType::from_path(path) == FileSystemType::Tmpfs
}

/// Resolves an address; unless it names a user, the server is accessed as the calling user.
pub fn resolve_address(address: &NfsAddress) -> NfsTarget {
    address.resolve(&surroundings(0))
}

/// Writes the expected contents of a measured file to stdout.
///
/// # Errors
/// If the size is invalid or stdout can't be written.
pub fn pattern(args: &PatternArgs) -> Result<ExitCode, Failure> {
    let size = parse_size(&args.size).map_err(|error| Failure::Usage(error.to_string()))?;
    let pattern = Pattern::new(args.seed, STEP as usize);
    for offset in (0..size).step_by(STEP as usize) {
        let len = u64::from(STEP).min(size - offset) as u32;
        output::raw(pattern.slice(args.file, offset, len))?;
    }
    Ok(End::Ok.into())
}

/// Writes a file of an NFS server to stdout.
///
/// # Errors
/// If the address is not that of a readable file.
pub fn cat(args: &CatArgs) -> Result<ExitCode, Failure> {
    let TargetArg::Nfs(address) = plan::parse_target(&args.url)? else {
        return Err(Failure::Usage(format!("`{}` is not an nfs:// address", args.url)));
    };
    // Treat the directory as the export, since a file can't be mounted.
    let (directory, name) = address.path.rsplit_once('/').unwrap_or(("/", &address.path));
    let target = NfsTarget { path: directory.to_owned(), ..resolve_address(&address) };
    let options = mount_options(&target);
    let failed = |error: &dyn std::fmt::Display| Failure::Lab(format!("{}: {error}", args.url));
    let mut mount = Mount::connect(&options).map_err(|error| failed(&error))?;
    let file = mount.lookup(mount.root(), name).map_err(|error| failed(&error))?;
    let size = mount.getattr(file).map_err(|error| failed(&error))?.size;
    for offset in (0..size).step_by(STEP as usize) {
        let data = mount.read(file, offset, STEP as usize).map_err(|error| failed(&error))?;
        output::raw(&data)?;
    }
    Ok(End::Ok.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_temporary_directory_on_storage() {
        let storage = Path::new(env!("CARGO_MANIFEST_DIR"));
        let memory = PathBuf::from("/dev/shm");
        if is_tmpfs(&memory) && !is_tmpfs(storage) {
            assert_eq!(on_storage(memory.clone(), storage), storage);
            assert_eq!(on_storage(memory.clone(), &memory), memory);
            assert_eq!(on_storage(memory.clone(), &storage.join("missing")), memory);
            assert_eq!(on_storage(storage.to_owned(), &memory), storage);
        }
    }
}
