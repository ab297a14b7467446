//! `dfsbench cat` and `dfsbench pattern`: the contents of a file on a server, and what a campaign
//! wrote there.
//!
//! They are hidden commands. They allow comparing both byte for byte, using other tools.

use std::io::Read as _;
use std::process::ExitCode;

use engine::target::NfsFile;
use model::units::parse_size;
use plan::TargetArg;
use workload::Pattern;

use crate::args::{CatArgs, PatternArgs};
use crate::exit::{End, Failure};
use crate::plans::surroundings;
use crate::terminal::output;

/// Bytes written at a time.
const STEP: u32 = 1 << 20;

/// Writes the expected contents of a measured file to stdout.
///
/// # Errors
/// If the size is invalid or stdout can't be written.
pub(crate) fn pattern(args: &PatternArgs) -> Result<ExitCode, Failure> {
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
pub(crate) fn cat(args: &CatArgs) -> Result<ExitCode, Failure> {
    let TargetArg::Nfs(address) = plan::parse_target(&args.url)? else {
        return Err(Failure::Usage(format!("`{}` is not an nfs:// address", args.url)));
    };
    let failed = |error: &dyn std::fmt::Display| Failure::Lab(format!("{}: {error}", args.url));
    let mut file =
        NfsFile::open(&surroundings::resolve_address(&address)).map_err(|error| failed(&error))?;
    let mut data = vec![0; STEP as usize];
    loop {
        let len = file.read(&mut data).map_err(|error| failed(&error))?;
        if len == 0 {
            return Ok(End::Ok.into());
        }
        output::raw(&data[..len])?;
    }
}
