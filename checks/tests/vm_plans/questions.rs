//! A ladder and a soak on real kernels: every layer of the data path has results, and the faults of
//! a soak on a kernel's server and on a client's clock are survived and undone.
//!
//! We check behavior, never a speed: the machines are emulated.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{FRESH_EXPORT, NEW};
use checks::ours::exit;
use checks::proc;
use checks::vm::lab::Lab;

use super::plans::Plans;

/// The server's layers next to our own, and the two ways to mount it.
const LAYERS: [&str; 8] =
    ["null", "memory", "disk", "tcp", "own", "server", "loopback", "machines"];

const HOSTS: &str = r#"
name = "questions"

[[host]]
name = "server"
ssh = "server"
ssh_config = "CONFIG"
address = "10.77.0.1"
interface = "eth0"

[[host]]
name = "client"
ssh = "CLIENT"
ssh_config = "CONFIG"
address = "10.77.0.11"
"#;

const LADDER: &str = r#"
[[target]]
name = "machines"
server = "server"
client = "client"
directory = "/srv/dfsbench"
tmpfs_size = "64MiB"
[factors]
nfsvers = 4.2
[[workload]]
kind = "stream"
file_size = "2MiB"
io_size = "64KiB"
"#;

const SOAK: &str = r#"
[[target]]
name = "machines"
server = "server"
client = "client"
devices = ["DEVICE"]
[factors]
nfsvers = 4.2
file_system = "ext4"
[[workload]]
kind = "mixed"
files = 4
file_size = "256KiB"
io_size = "4KiB"
"#;

/// Fault events of the machines: start time, kind, and whether ops stall.
const FAULTS: [(&str, &str, bool); 5] = [
    ("nfsd-stop", "nfsd-stop on server at 2s for 2s", true),
    ("clock-step", "clock-step on client at 8s for 2s by -1h", false),
    ("network-cut", "network-cut on server at 13s for 2s", true),
    ("disk-full", "disk-full on server at 18s for 1s", false),
    ("clock-step", "clock-step on client at 21s for 2s by 1h", false),
];

/// Every layer, from only our own program to the mount of the kernel's client.
pub fn ladder(plans: &Plans<'_>) -> Result<()> {
    let plan = plans.write_plan("ladder.toml", &with_hosts(plans.lab(), LADDER))?;
    let mut ladder = plans.program();
    ladder.arg("ladder").arg(plan).args(["--trials", "3", "--quiet", "--format", "json"]);
    let output = proc::capture_output(ladder.arg("--results").arg(plans.at("ladder.db")))?;
    let json: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let passes = json["found"]["figures"]["passes"].as_array().context("no passes")?;
    ensure!(passes.len() == 2 && output.status.code() == Some(0), "{}: {json}", output.status);
    for pass in passes {
        let layers = pass["layers"].as_array().context("no layers")?;
        for layer in LAYERS {
            let found = layers.iter().find(|found| found["target"] == layer);
            let found = found.with_context(|| format!("no layer {layer}: {pass}"))?;
            ensure!(found["per_s"].as_f64().is_some_and(|rate| rate > 0.0), "{found}");
        }
    }
    plans.await_restored()
}

/// A kernel server that stops, is unreachable and is full, and a client whose clock is set.
pub fn soak(plans: &Plans<'_>) -> Result<()> {
    let device = plans.lab().ssh("server", "readlink -f /dev/disk-data")?.trim().to_owned();
    // The disk was an export of other checks; its content would be left alone.
    let away = format!("exportfs -ua; umount /export; wipefs --quiet --all {device}");
    plans.lab().ssh("server", &away)?;
    let text = with_hosts(plans.lab(), SOAK).replace("DEVICE", &device);
    let plan = plans.write_plan("soak.toml", &text)?;
    let mut soak = plans.program();
    soak.arg("soak").arg(plan).args(["--duration", "24s", "--segment", "12s", "--rate", "50"]);
    for (_, fault, _) in FAULTS {
        soak.args(["--disturb", fault]);
    }
    soak.args(["--allow-destroy", &device, "--quiet", "--format", "json", "--results"]);
    let output = proc::capture_output(soak.arg(plans.at("soak.db")))?;
    let json: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let figures = &json["found"]["figures"];
    // On a busy machine the throughput may recover only after its segment.
    let verdict = figures["verdict"].as_str().unwrap_or_default();
    ensure!(["survives", "never-recovers"].contains(&verdict), "{}", json["found"]);
    let code = output.status.code();
    ensure!([0, exit::INVALID].map(Some).contains(&code), "{verdict}, {code:?}");
    ensure!(figures["kept"]["lost"] == 0 && figures["segments_read_back"] == 2, "{figures}");
    for (kind, _, stands_still) in FAULTS {
        let all = figures["disturbances"].as_array().context("no disturbances")?;
        ensure!(all.iter().any(|found| found["fault"] == kind), "no {kind}: {figures}");
        // A busy machine may make one so late that its segment has ended before anything waits.
        let mut stood_still = false;
        for found in all.iter().filter(|found| found["fault"] == kind) {
            ensure!(found["failed"].is_null(), "{found}");
            ensure!(found["ended_ns"].as_u64() >= found["begun_ns"].as_u64(), "{found}");
            stood_still |= found["stall_ns"].as_u64().unwrap_or_default() > 1_000_000_000;
            ensure!(found["saw_step"] == (kind == "clock-step"), "{found}");
        }
        ensure!(stood_still || !stands_still, "{kind}: {figures}");
    }
    check_steps(&json)?;
    plans.await_restored()?;
    let guest: u64 = plans.lab().ssh(NEW, "date +%s")?.trim().parse()?;
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    ensure!(here.abs_diff(guest) < 20, "the client's clock is {} s off", here.abs_diff(guest));
    plans.lab().ssh("server", FRESH_EXPORT).map(drop)
}

/// Checks that a wall clock set back and ahead by an hour changes no duration, and is reported in
/// each segment.
fn check_steps(json: &Value) -> Result<()> {
    let trials = json["runs"][0]["trials"].as_array().context("no segments")?;
    ensure!(trials.len() == 2, "{} segments", trials.len());
    for trial in trials {
        let pass = &trial["passes"][0];
        // A segment lasts 12 s, on the slowest machine a few minutes, and never an hour.
        let window_ns = pass["window_ns"].as_u64().context("no window")?;
        ensure!((10_000_000_000..1_800_000_000_000).contains(&window_ns), "{window_ns} ns");
        let caveats = pass["caveats"].as_array().context("no caveats")?;
        let clock = caveats.iter().find(|caveat| caveat["code"] == "clock");
        let evidence = clock.with_context(|| format!("no caveat: {pass}"))?["evidence"].to_string();
        ensure!(evidence.contains("3600 s"), "{evidence}");
    }
    Ok(())
}

fn with_hosts(lab: &Lab, text: &str) -> String {
    let config = lab.ssh_config().display().to_string();
    format!("{HOSTS}{text}").replace("CONFIG", &config).replace("CLIENT", NEW)
}
