//! The studies `kernel-features` and `nfsd-io` on the machines, from their presets to the ratios of
//! their factors. They are scaled down, and speeds mean nothing there.

use std::fs;

use anyhow::{Context, Result, ensure};
use checks::proc;
use checks::{checks, repo};

use super::MACHINES;
use super::delegation_settings::{Campaign, STATE};

/// Flags that scale `kernel-features` to the machines; LOCALIO is not in their kernel.
const FLAGS: [&str; 12] = [
    "--trials",
    "1",
    "--file-size",
    "1MiB",
    "--set-per-rate",
    "64KiB",
    "--duration",
    "2s",
    "--nconnect",
    "1,2",
    "--bdi-read-ahead",
    "15360",
];

checks! {
    study_of_kernel_features_runs: 900 s, run_kernel_features();
    study_of_nfsd_io_runs: 900 s, run_nfsd_io();
}

/// Reads a preset, with the machines in place of its hosts.
fn read_study(name: &str) -> Result<String> {
    let mut plan = fs::read_to_string(repo::root().join(format!("presets/{name}.toml")))?;
    for (role, host, address) in
        [("server", "server", "10.77.0.1"), ("client", "client1", "10.77.0.11")]
    {
        let reached = format!("ssh = \"root@{role}\"");
        ensure!(plan.contains(&reached), "the preset has no {reached}");
        let ours = format!("ssh = \"{host}\"\nssh_config = \"CONFIG\"\naddress = \"{address}\"");
        plan = plan.replace(&reached, &ours);
    }
    Ok(plan)
}

/// Runs `nfsd-io` on files of 2 MiB: each mode is in effect, and restored afterwards.
fn run_nfsd_io() -> Result<()> {
    let lab = MACHINES.get()?;
    let mut plan = read_study("nfsd-io")?;
    for (key, small) in [
        ("devices = ", "directory = \"/srv/dfsbench\"  # "),
        ("server_ram = ", "# "),
        ("file_size = ", "file_size = \"2MiB\"  # "),
        ("file_system = ", "# "),
    ] {
        ensure!(plan.contains(key), "the preset has no {key}");
        plan = plan.replace(key, &format!("{small}{key}"));
    }
    lab.ssh("server", "mkdir -p /srv/dfsbench")?;
    // Mounting would load it, and its parameter would be new.
    lab.ssh("client1", "modprobe nfsv4")?;
    let modes = "cat /sys/kernel/debug/nfsd/io_cache_read /sys/kernel/debug/nfsd/io_cache_write";
    let states =
        || Ok([lab.ssh("server", STATE)?, lab.ssh("server", modes)?, lab.ssh("client1", STATE)?]);
    let before: Result<[String; 3]> = states();
    let campaign = Campaign::new(lab, &plan)?;
    let report = campaign.run(&["--trials", "1", "--duration", "1s", "--warmup", "0s"])?;
    let (before, after) = (before?, states()?);
    ensure!(after == before, "before:\n{before:?}\nafter:\n{after:?}");
    let runs = report["runs"].as_array().context("no runs")?;
    for run in runs {
        let trial = &run["trials"][0];
        let (state, reason) = (trial["state"].to_string(), trial["reason"].to_string());
        ensure!(state.contains("done"), "{state} {reason}");
    }
    // Streams and three mixes for each pair of modes.
    ensure!(runs.len() == 4 * 9, "{} runs", runs.len());
    let factors = proc::capture_output(&mut campaign.command(&["factors"]))?;
    let factors = String::from_utf8_lossy(&factors.stdout).into_owned();
    println!("{factors}");
    for factor in ["nfsd_io_read", "nfsd_io_write"] {
        ensure!(factors.contains(factor), "{factor} has no ratio: {factors}");
    }
    Ok(())
}

fn run_kernel_features() -> Result<()> {
    let lab = MACHINES.get()?;
    let plan = read_study("kernel-features")?;
    // A flag would offer streams a rate, too.
    let plan = plan.replace("rate = 500 ", "rate = 20 ").replace("rate = 500\n", "rate = 20\n");
    lab.ssh("server", "lab-export tmpfs; mkdir -p /srv/dfsbench")?;
    lab.ssh("client1", "modprobe nfsv4")?;
    // The server also mounts its own export, which loads the module.
    lab.ssh("server", "modprobe nfsv4")?;
    let states = || Ok([lab.ssh("server", STATE)?, lab.ssh("client1", STATE)?]);
    let before: Result<[String; 2]> = states();
    let campaign = Campaign::new(lab, &plan)?;
    let report = campaign.run(&FLAGS)?;
    let (before, after) = (before?, states()?);
    ensure!(after == before, "before:\n{before:?}\nafter:\n{after:?}");
    let runs = report["runs"].as_array().context("no runs")?;
    let mut counts = [0; 2];
    for run in runs {
        let trial = &run["trials"][0];
        let lacks_localio = run["settings"]["lab"]["mounting"]["localio"] == true;
        counts[usize::from(lacks_localio)] += 1;
        let (state, reason) = (trial["state"].to_string(), trial["reason"].to_string());
        if lacks_localio {
            ensure!(reason.contains("LOCALIO is not supported by kernel 7."), "{state} {reason}");
        } else {
            ensure!(state.contains("done"), "{state} {reason}");
        }
    }
    // Two loads: eight rows between the hosts, and two for each level of LOCALIO.
    ensure!(counts == [2 * (8 + 2), 2 * 2], "{counts:?} rows");
    let table = campaign.table()?;
    let factors = proc::capture_output(&mut campaign.command(&["factors"]))?;
    let factors = String::from_utf8_lossy(&factors.stdout).into_owned();
    println!("{factors}");
    for factor in ["server_delegations", "directory_delegations", "nconnect"] {
        ensure!(table.contains(factor) || factors.contains(factor), "{factor} is missing");
        ensure!(factors.contains(factor), "{factor} has no ratio: {factors}");
    }
    Ok(())
}
