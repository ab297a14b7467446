//! What the kernel's NFS learned after 6.12, on machines with Debian 14 and its kernel 7.2:
//! settings in a plan, their read-back, and the hosts afterwards.
//!
//! The image takes minutes to make, so only `cargo xtask real vm_forky` runs this.
#![allow(clippy::print_stdout, reason = "tests print their tables")]

mod data_ops;
mod delegation_settings;
mod kernel_features;
mod server_settings;

mod mount_settings;
mod pnfs;

use anyhow::{Result, ensure};
use checks::check::Fixture;
use checks::checks;
use checks::vm::lab::{Lab, NewLab, TemporaryLab};
use checks::vm::machine::Suite;
use checks::vm::{self, peer};
use tempfile::TempDir;

/// A server and a client, with our program and an exported tmpfs.
static MACHINES: Fixture<TemporaryLab> = Fixture::new(|| {
    vm::prepare()?;
    let suite = Suite::Forky;
    let wanted = NewLab { server: suite, clients: vec![suite], mtu: 1500, shared_mib: None };
    let lab = TemporaryLab::new(Lab::boot(&vm::lab_folder("test-forky"), &wanted)?);
    lab.ssh("server", "lab-export tmpfs")?;
    peer::install_ours(&lab, TempDir::new()?.path())?;
    Ok(lab)
});

checks! {
    machines_run_kernel_7: 300 s, require_kernel_7();
    plan_varies_modes_of_server: 900 s, server_settings::vary_modes();
    plan_names_modes_without_effect: 400 s, server_settings::name_modes_without_effect();
    plan_explains_missing_debugfs: 400 s, server_settings::explain_missing_debugfs();
    plan_varies_threads_of_server: 600 s, server_settings::vary_threads();
    raised_if_threads_change_in_pass: 600 s, server_settings::name_changed_threads();
    plan_varies_block_size_of_server: 600 s, server_settings::vary_block_size();
    clean_restores_server_after_kill: 400 s, server_settings::kill_and_clean();
    data_ops_of_the_kernel_client: 300 s, data_ops::use_our_server();
    data_ops_of_the_kernel_server: 600 s, data_ops::use_kernel_server();
    kernel_client_returns_layouts: 400 s, pnfs::take_back_layouts();
    kernel_client_returns_v4_layouts: 400 s, pnfs::take_back_v4_layouts();
    kernel_client_waits_for_data_servers: 200 s, pnfs::wait_for_hanging_servers();
    kernel_client_survives_dead_mirror: 200 s, pnfs::lose_mirror();
    kernel_server_keeps_pnfs_data: 200 s, pnfs::use_kernel_data_server();
    kernel_layouts_are_of_disks: 400 s, pnfs::name_kernel_layouts();
    copies_end_with_reports: 400 s, data_ops::copy_asynchronously();
}

/// Without such a kernel, the other checks would only see settings that aren't supported.
fn require_kernel_7() -> Result<()> {
    let lab = MACHINES.get()?;
    for host in lab.names() {
        let release = lab.ssh(host, "uname -r")?;
        println!("{host}: {release}");
        let major = release.split('.').next().and_then(|major| major.parse::<u32>().ok());
        ensure!(major.is_some_and(|major| major >= 7), "{host} runs Linux {release}");
    }
    Ok(())
}
