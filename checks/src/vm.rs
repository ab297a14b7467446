//! Virtual machines with the Linux kernel's NFS server and clients, on emulated hardware.
//!
//! Main type: [`lab::Lab`], one server and its clients in their own network namespace. The
//! machine's own network is not touched, and a laboratory is found again by its directory. For its
//! use see `docs/lab-vm.md`; the guests are built from `lab-image/`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::{proc, repo, setup};

pub mod guest;
pub mod image;
pub mod lab;
pub mod machine;
pub mod mountstats;
pub mod net;
pub mod peer;
pub mod power;
pub mod qemu;
pub mod qmp;
pub mod saved;
pub mod ssh;
pub mod stages;

/// Returns the directory of the laboratory with this name, in this clone.
pub fn lab_folder(name: &str) -> PathBuf {
    repo::target_folder().join("vm").join(name)
}

/// Makes sure that machines can be created and run here.
///
/// # Errors
/// If a package is missing that can't be installed, or we aren't root.
pub fn prepare() -> Result<()> {
    setup::install_packages(&setup::FOR_MACHINES)?;
    let user = proc::capture_text(Command::new("id").arg("-u"))?;
    ensure!(user.trim() == "0", "virtual machines and their network need root");
    Ok(())
}
