//! The checks of the crate `lab` that need the kernel's server, as a program on a machine.
//!
//! The program is built here and brought in; each of its checks is a check of this group. It runs
//! on the server, as root, and changes what the server exports.

use std::process::Command;

use anyhow::Result;
use tempfile::TempDir;

use super::{Checks, run_apart};
use crate::proc;
use crate::real::lab;
use crate::vm::lab::Lab;

/// How long a check may take, in seconds: up to 60 s on a machine that does nothing else.
const CHECK_MAX_S: u32 = 300;

/// Runs the checks of this part, from machines that were saved after [`bring`].
pub fn run(checks: &mut Checks, machines: &Lab, names: &[String]) {
    for name in names {
        let line = format!("/root/lab_real {name}");
        let words = name.replace('_', " ");
        run_apart(checks, machines, &words, || {
            machines.ssh_within("server", &line, CHECK_MAX_S).map(drop)
        });
    }
}

/// Brings in the program of the lab's checks, and returns their names.
///
/// This machine's C library is the older one.
///
/// # Errors
/// Where the program can't be built, or the server can't be reached.
pub fn bring(machines: &Lab) -> Result<Vec<String>> {
    let program = lab::build()?;
    let (config, folder) = (machines.ssh_config(), TempDir::new()?);
    let small = folder.path().join("lab_real");
    proc::run(Command::new("strip").arg("-o").arg(&small).arg(&program))?;
    let mut copy = Command::new("scp");
    copy.arg("-F").arg(&config).arg(&small).arg("server:/root/lab_real");
    proc::run(&mut copy)?;
    // By it the server's ssh leads to itself.
    let mut copy = Command::new("scp");
    copy.arg("-F").arg(&config).arg(config.with_file_name("id"));
    proc::run(copy.arg("server:/root/lab_key"))?;
    // libmount and mdadm make these at the first mount and the first array, and keep them.
    let line = "cd /run && mkdir -p mount mdadm && touch mdadm/map mount/utab \
                mount/utab.event mount/utab.lock";
    machines.ssh("server", line)?;
    lab::names(&program, "kernel")
}
