//! GFS2 on a disk that two virtual machines share, which a plan mounts on both.

use std::thread;

use anyhow::Result;
use checks::check::Fixture;
use checks::vm::lab::{Ended, Lab, Wanted};
use checks::vm::machine::Suite;
use checks::vm::site_mount;
use checks::{checks, vm};

const NODES: [&str; 2] = ["client1", "client2"];
const MOUNT: &str = r#"{ type = "gfs2", source = "/dev/disk-shared", options = ["noatime"] }"#;
/// How long a command on a machine may take, in seconds.
const COMMAND_MAX_S: u32 = 120;

/// Two nodes of a cluster with a file system that neither has mounted.
static MACHINES: Fixture<Ended> = Fixture::new(|| {
    vm::prepare()?;
    let suite = Suite::TrixieSystems;
    let wanted =
        Wanted { server: suite, clients: vec![suite, suite], mtu: 1500, shared_mib: Some(512) };
    let lab = Ended::new(Lab::up(&vm::lab_folder("test-gfs2"), &wanted)?);
    // Each waits until the other one is there.
    let join = |node| lab.ssh_within(node, "lab-gfs2 join client1 client2", COMMAND_MAX_S);
    thread::scope(|scope| -> Result<()> {
        let other = scope.spawn(|| join(NODES[1]));
        join(NODES[0])?;
        other.join().expect("no panic")?;
        Ok(())
    })?;
    lab.ssh_within(NODES[0], "lab-gfs2 format 2", COMMAND_MAX_S)?;
    Ok(lab)
});

checks! {
    gfs2_is_mounted_by_one_machine_and_by_two: 600 s, {
        site_mount::measure(MACHINES.get()?, "gfs2", MOUNT)
    };
}
