//! The checks of the crate `lab` that need the kernel's server, as a program on a machine.
//!
//! The program is built here and brought in; each of its checks is a check of this group. It runs
//! on the server, as root, and changes what the server exports.

use std::process::Command;

use anyhow::Result;

use super::{Checks, FRESH_EXPORT};
use crate::proc;
use crate::real::lab;
use crate::vm::lab::Lab;

/// Runs the checks of this part.
pub fn run(checks: &mut Checks, machines: &Lab) {
    let brought = checks.get("the lab's checks are brought in", || {
        // libmount and mdadm make these at the first mount and the first array, and keep them.
        let line = "cd /run && mkdir -p mount mdadm && touch mdadm/map mount/utab \
                    mount/utab.event mount/utab.lock";
        machines.ssh("server", &format!("{FRESH_EXPORT} && {line}"))?;
        bring(machines)
    });
    for name in brought.unwrap_or_default() {
        let line = format!("/root/lab_real {name}");
        checks.run(&name.replace('_', " "), || machines.ssh("server", &line).map(drop));
    }
}

/// Brings in the program of the lab's checks: this machine's C library is the older one.
fn bring(machines: &Lab) -> Result<Vec<String>> {
    let program = lab::build()?;
    let mut copy = Command::new("scp");
    copy.arg("-F").arg(machines.ssh_config()).arg(&program).arg("server:/root/lab_real");
    proc::run(&mut copy)?;
    // By it the server's ssh leads to itself.
    let config = machines.ssh_config();
    let mut copy = Command::new("scp");
    copy.arg("-F").arg(&config).arg(config.with_file_name("id"));
    proc::run(copy.arg("server:/root/lab_key"))?;
    lab::names(&program, "kernel")
}
