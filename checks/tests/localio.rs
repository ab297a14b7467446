//! The caveat `localio` on a kernel that has LOCALIO, and on the same kernel with LOCALIO off.
//!
//! A machine mounts its own export. Debian's kernels lack LOCALIO, so the image `trixie-localio`
//! has NFS modules that are built with it. That takes minutes: only `cargo xtask real localio` runs
//! this.

use anyhow::{Context, Result, ensure};
use checks::check::Fixture;
use checks::checks;
use checks::ours::find_evidence;
use checks::vm::guest::Mount;
use checks::vm::lab::{Lab, NewLab, TemporaryLab};
use checks::vm::machine::Suite;
use checks::vm::{self, peer};
use serde_json::Value;
use tempfile::TempDir;

/// The only machine.
const HOST: &str = "server";
const FILE_BYTES: u64 = 4 << 20;

static MACHINE: Fixture<TemporaryLab> = Fixture::new(|| {
    vm::prepare()?;
    let server = Suite::TrixieLocalio;
    let wanted = NewLab { server, clients: Vec::new(), mtu: 1500, shared_mib: None };
    let lab = TemporaryLab::new(Lab::boot(&vm::lab_folder("test-localio"), &wanted)?);
    lab.ssh(HOST, "modprobe nfs && lab-export tmpfs")?;
    peer::install_ours(&lab, TempDir::new()?.path())?;
    Ok(lab)
});

checks! {
    raised_if_v3_bypasses_rpc: 300 s, measure("3", true);
    raised_if_v4_2_bypasses_rpc: 300 s, measure("4.2", true);
    silent_about_v3_with_localio_off: 300 s, measure("3", false);
    silent_about_v4_2_with_localio_off: 300 s, measure("4.2", false);
}

/// Measures a mount with LOCALIO on or off, and compares the caveats with the kernel's counts.
fn measure(version: &str, localio: bool) -> Result<()> {
    let lab = MACHINE.get()?;
    let switch = if localio { 'Y' } else { 'N' };
    lab.ssh(HOST, &format!("echo {switch} >/sys/module/nfs/parameters/localio_enabled"))?;
    let options = format!("vers={version}");
    let mount = Mount { lab, client: HOST, source: "server:/export", options: &options };
    let output = mount.run(&format!(
        "rm -f /tmp/results.db; dfsbench run /mnt/nfs --workload stream --direct true --trials 1 \
         --file-size {FILE_BYTES} --quiet --format json --results /tmp/results.db || [ $? = 4 ]; \
         snapshot measured"
    ))?;
    let counts = output.at("measured")?;
    let calls = |name: &str| counts.calls.get(name).copied().unwrap_or(0);
    // A client of v4.2 reads with READ_PLUS.
    let (reads, writes) = (calls("READ") + calls("READ_PLUS"), calls("WRITE"));
    ensure!(counts.read_bytes >= FILE_BYTES && counts.written_bytes >= FILE_BYTES, "{counts:?}");
    let bypassed = reads == 0 && writes == 0;
    ensure!(bypassed == localio, "LOCALIO {switch}: {reads} READs, {writes} WRITEs");
    let report: Value = serde_json::from_str(&output.lines.join("\n")).context("no JSON")?;
    let shared = find_evidence(&report, "shared-host")?;
    ensure!(shared.is_some(), "shared-host is missing: {report}");
    let found = find_evidence(&report, "localio")?;
    ensure!(found.is_some() == localio, "LOCALIO {switch}: {found:?}");
    Ok(())
}
