//! Small helpers about targets: who is calling, what a file holds and what it should hold.
//!
//! `cat` and `pattern` are hidden commands: with them anyone can compare the content of a server
//! with what a campaign wrote there, byte for byte and with other tools.

use std::process::ExitCode;

use model::NfsTarget;
use model::units::parse_size;
use nfs_client::{Mount, MountOptions};
use plan::{NfsAddress, Surroundings, TargetArg};
use workload::Pattern;

use crate::args::{CatArgs, PatternArgs};
use crate::exit::{End, Failure};
use crate::output;

/// Bytes that are written at a time.
const STEP: u32 = 1 << 20;

/// The user and group of this process.
fn caller_ids() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Returns what only this process and its clock know of a plan.
pub fn surroundings(seed: u64) -> Surroundings {
    let (uid, gid) = caller_ids();
    Surroundings { temp_dir: std::env::temp_dir(), uid, gid, seed, job: None }
}

/// The server of an address, used as the calling user where it names none.
pub fn named(address: &NfsAddress) -> NfsTarget {
    address.resolve(&surroundings(0))
}

/// Writes what a measured file should hold.
///
/// # Errors
/// When the size can't be read or stdout can't be written.
pub fn pattern(args: &PatternArgs) -> Result<ExitCode, Failure> {
    let size = parse_size(&args.size).map_err(|error| Failure::Usage(error.to_string()))?;
    let pattern = Pattern::new(args.seed, STEP as usize);
    for offset in (0..size).step_by(STEP as usize) {
        let len = u64::from(STEP).min(size - offset) as u32;
        output::data(pattern.slice(args.file, offset, len))?;
    }
    Ok(End::Ok.into())
}

/// Writes a file of an NFS server to stdout.
///
/// # Errors
/// When the address names no file that can be read.
pub fn cat(args: &CatArgs) -> Result<ExitCode, Failure> {
    let TargetArg::Nfs(address) = plan::parse_target(&args.url)? else {
        return Err(Failure::Usage(format!("`{}` is no nfs:// address", args.url)));
    };
    let (directory, name) = address.path.rsplit_once('/').unwrap_or(("/", &address.path));
    let target = NfsTarget { path: directory.to_owned(), ..named(&address) };
    let options = MountOptions::from_target(&target);
    let failed = |error: &dyn std::fmt::Display| Failure::Lab(format!("{}: {error}", args.url));
    let mut mount = Mount::connect(&options).map_err(|error| failed(&error))?;
    let file = mount.lookup(mount.root(), name).map_err(|error| failed(&error))?;
    let size = mount.getattr(file).map_err(|error| failed(&error))?.size;
    for offset in (0..size).step_by(STEP as usize) {
        let data = mount.read(file, offset, STEP as usize).map_err(|error| failed(&error))?;
        output::data(&data)?;
    }
    Ok(End::Ok.into())
}
