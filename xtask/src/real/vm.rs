//! The Linux kernel's NFS server and clients, in virtual machines.
//!
//! The laboratory is the tests' own, `target/vm/test`: it ends with the checks, and doesn't meet
//! one that somebody uses by hand.

use std::process::Command;

use anyhow::{Result, ensure};

use super::{Checks, lab};
use crate::proc;
use crate::vm;
use crate::vm::lab::{Ended, Lab, Wanted};
use crate::vm::machine::Suite;

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    let Some(lab) = checks.get("server and client boot", boot) else { return };
    checks.run("a client mounts what the server exports", || mounted(&lab));
    let Some(names) = checks.get("the lab's checks are brought in", || bring(&lab)) else { return };
    for name in names {
        let line = format!("/root/lab_real {name}");
        checks.run(&name.replace('_', " "), || lab.ssh("server", &line).map(drop));
    }
}

/// Brings in the program of the lab's checks: this machine's C library is the older one.
fn bring(machines: &Lab) -> Result<Vec<String>> {
    let program = lab::build()?;
    let mut copy = Command::new("scp");
    copy.arg("-F").arg(machines.ssh_config()).arg(&program).arg("server:/root/lab_real");
    proc::run(&mut copy)?;
    lab::names(&program, "kernel")
}

fn boot() -> Result<Ended> {
    vm::prepare()?;
    let wanted =
        Wanted { server: Suite::Trixie, clients: vec![Suite::Trixie], mtu: 1500, shared_mib: None };
    Ok(Ended::new(Lab::up(&vm::folder("test"), &wanted)?))
}

fn mounted(lab: &Lab) -> Result<()> {
    lab.ssh("server", "lab-export ext4 && echo something >/export/file")?;
    let said = lab
        .ssh("client1", "mount -t nfs -o vers=4.2 server:/export /mnt/nfs && cat /mnt/nfs/file")?;
    ensure!(said.trim() == "something", "the client reads {said:?}");
    lab.ssh("client1", "umount /mnt/nfs").map(|_| ())
}
