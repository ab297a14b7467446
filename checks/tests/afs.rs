//! A cell of AFS on one virtual machine, which a plan mounts on two others by the kernel's client.

use checks::check::Fixture;
use checks::vm::lab::{Ended, Lab, Wanted};
use checks::vm::machine::Suite;
use checks::vm::site_mount;
use checks::{checks, vm};

const CLIENTS: [&str; 2] = ["client1", "client2"];
const MOUNT: &str = r#"{ type = "afs", source = "%lab.afs:root.cell." }"#;
/// How long a command on a machine may take, in seconds.
const COMMAND_MAX_S: u32 = 120;

/// A server with a cell, and two clients that know where it is.
static MACHINES: Fixture<Ended> = Fixture::new(|| {
    vm::prepare()?;
    let suite = Suite::TrixieSystems;
    let wanted = Wanted { server: suite, clients: vec![suite; 2], mtu: 1500, shared_mib: None };
    let lab = Ended::new(Lab::up(&vm::lab_folder("test-afs"), &wanted)?);
    lab.ssh_within("server", "lab-afs serve", COMMAND_MAX_S)?;
    for client in CLIENTS {
        lab.ssh_within(client, "lab-afs join", COMMAND_MAX_S)?;
    }
    Ok(lab)
});

checks! {
    afs_is_mounted_by_one_client_and_by_two: 600 s, {
        site_mount::measure(MACHINES.get()?, "afs", MOUNT)
    };
}
