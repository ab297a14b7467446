//! Kernel 5.10, Debian's last whose server supports NFSv2: with itself, and with ours.
//!
//! The machines are emulated, so nothing here is judged by its speed.

use anyhow::{Result, ensure};
use checks::check::Fixture;
use checks::checks;
use checks::proc::Background;
use checks::vm::guest::Mount;
use checks::vm::lab::{NewLab, TemporaryLab};
use checks::vm::machine::Suite;
use checks::vm::peer::{self, SERVER};
use checks::vm::{self, saved};

const CLIENT: &str = "client1";

/// A server that supports v2, and a client.
static MACHINES: Fixture<TemporaryLab> = Fixture::new(|| {
    vm::prepare()?;
    let suite = Suite::Bullseye;
    let wanted = NewLab { server: suite, clients: vec![suite], mtu: 1500, shared_mib: None };
    let lab = TemporaryLab::new(saved::copy_booted(&vm::lab_folder("test-v2"), &wanted, 2)?);
    lab.rewind()?;
    let line = "lab-nfsd 8 -V 2 && lab-export ext4 && cat /proc/fs/nfsd/versions";
    let versions = lab.ssh("server", line)?;
    ensure!(versions.contains("+2"), "the server speaks {versions:?}");
    Ok(lab)
});
static OUR_SERVER: Fixture<Background> = Fixture::new(|| peer::start_server(MACHINES.get()?));

checks! {
    kernel_5_10_mounts_5_10_v2: 200 s, kernel("2");
    kernel_5_10_mounts_5_10_v3: 200 s, kernel("3");
    kernel_5_10_mounts_5_10_v4_2: 200 s, kernel("4.2");
    kernel_5_10_mounts_our_server_v2: 200 s, our_server("2");
    kernel_5_10_mounts_our_server_v3: 200 s, our_server("3");
    kernel_5_10_mounts_our_server_v4_2: 200 s, our_server("4.2");
    our_probe_finds_v2: 100 s, peer::check_probe(MACHINES.get()?, &["2", "3"]);
    interop_list_v2_over_udp: 300 s, listed("version=2&proto=udp");
    interop_list_v2_over_tcp: 300 s, listed("version=2&proto=tcp");
    run_of_ours_v2_over_udp: 200 s, measured("version=2&proto=udp");
    run_of_ours_v2_over_tcp: 200 s, measured("version=2&proto=tcp");
    run_of_ours_v3_over_udp: 200 s, measured("version=3&proto=udp");
}

fn kernel(version: &str) -> Result<()> {
    let options = format!("vers={version},proto=tcp");
    let lab = MACHINES.get()?;
    let mount = Mount { lab, client: CLIENT, source: "server:/export", options: &options };
    mount.check_data_and_options()
}

fn our_server(version: &str) -> Result<()> {
    OUR_SERVER.get()?;
    peer::check_mount(MACHINES.get()?, CLIENT, version)
}

fn listed(query: &str) -> Result<()> {
    peer::check_list(MACHINES.get()?, SERVER, query)
}

fn measured(query: &str) -> Result<()> {
    peer::check_run(MACHINES.get()?, SERVER, query)
}
