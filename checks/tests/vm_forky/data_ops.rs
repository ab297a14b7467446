//! Copies, clones and holes of NFSv4.2: the kernel's client with our server, and both clients with
//! the kernel's server on file systems that can share blocks and on one that can't.

use anyhow::{Context, Result, ensure};
use checks::vm::lab::Lab;
use checks::vm::peer;
use serde_json::Value;

use super::MACHINES;

/// Bytes of the files of a run, one file per worker.
const FILE_BYTES: u64 = 4 << 20;
/// Bytes that a pass may send and receive for calls that carry no data.
const CALLS_MAX: u64 = 20_000;

/// Programs that people use, and the calls that the kernel's client made for them.
const PROGRAMS: &str = "set -e; cd /mnt; dd if=/dev/urandom of=a bs=1M count=4 2>/dev/null; sync; \
                        writes=$(grep -o ' WRITE: [0-9]*' /proc/self/mountstats); \
                        cp --reflink=always a b; fallocate -l 1M c; \
                        fallocate -p -o 1M -l 1M b; \
                        [ \"$writes\" = \"$(grep -o ' WRITE: [0-9]*' /proc/self/mountstats)\" ]; \
                        cmp -n 1048576 a b; \
                        for call in CLONE ALLOCATE DEALLOCATE; do \
                        grep -q \"\\s$call: 1 \" /proc/self/mountstats; done; rm a b c";

fn mount(lab: &Lab, address: &str) -> Result<()> {
    let line = format!("mkdir -p /mnt && mount -t nfs -o vers=4.2 {address}:/export /mnt");
    lab.ssh("client1", &line).map(drop)
}

fn unmount(lab: &Lab) -> Result<()> {
    lab.ssh("client1", "umount /mnt; rm -f /tmp/data-ops.*").map(drop)
}

/// Runs the workload on the client, and returns the figures of its passes.
fn run(lab: &Lab, target: &str, more: &str) -> Result<Vec<Value>> {
    let line = format!(
        "dfsbench run {target} {more} --workload data_ops --file-size 4MiB --io-size 512KiB \
         --trials 1 --verify true --quiet --format json --results /tmp/data-ops.db || true"
    );
    let text = lab.ssh_within("client1", &line, 120)?;
    let mut report: Value =
        serde_json::from_str(&text).with_context(|| format!("no JSON: {text}"))?;
    let figures = report["figures"].take();
    println!("{target} {more}:");
    let figures = figures.as_array().context("no figures")?.clone();
    for figure in &figures {
        let [pass, verdict, wire, moved] =
            ["pass", "verdict", "wire_bytes", "moved_bytes"].map(|key| &figure[key]);
        println!("  {pass} {verdict}: {wire} B on the wire for {moved} B");
    }
    Ok(figures)
}

/// Requires that a pass did all of its work with few bytes on the wire, unless it reads.
fn require_small(figure: &Value) -> Result<()> {
    ensure!(figure["verdict"] != "invalid", "{figure}");
    let wire = figure["wire_bytes"].as_u64().context("no bytes on the wire")?;
    let moved = match figure["pass"].as_str() {
        Some("seek") => 0,
        Some("punch") => FILE_BYTES / 2,
        _ => FILE_BYTES,
    };
    ensure!(figure["moved_bytes"] == moved, "{figure}");
    let most = if figure["pass"] == "read_plus" { FILE_BYTES + CALLS_MAX } else { CALLS_MAX };
    ensure!(wire > 0 && wire < most, "{wire} B on the wire: {figure}");
    Ok(())
}

/// The kernel's client clones, copies, allocates and punches on our server.
pub(super) fn use_our_server() -> Result<()> {
    let lab = MACHINES.get()?;
    let server = peer::start_server(lab)?;
    mount(lab, "10.77.0.254")?;
    let used = lab.ssh("client1", PROGRAMS);
    let figures = used.and_then(|_| run(lab, "/mnt", ""));
    let calls = lab.ssh("client1", "grep -E '\\s(COPY|SEEK|READ_PLUS): ' /proc/self/mountstats");
    unmount(lab)?;
    drop(server);
    let figures = figures?;
    ensure!(figures.len() == 6, "{} passes", figures.len());
    figures.iter().try_for_each(require_small)?;
    // Our server describes holes, so the client reads only half of each sparse file.
    let read = figures.iter().find(|figure| figure["pass"] == "read_plus");
    let wire = read.and_then(|read| read["wire_bytes"].as_u64()).context("no read_plus")?;
    ensure!(wire < FILE_BYTES * 6 / 10, "{wire} B on the wire for a file of half as much data");
    let calls = calls?;
    println!("{calls}");
    for call in ["COPY", "SEEK", "READ_PLUS"] {
        ensure!(!calls.contains(&format!("{call}: 0 ")), "no {call}: {calls}");
    }
    Ok(())
}

/// A copy of 80 MiB, which the kernel's client requests as an asynchronous one, as the whole of one
/// call.
const LARGE_COPY: &str = "set -e; cd /mnt; dd if=/dev/urandom of=a bs=1M count=80 2>/dev/null; sync; \
                          xfs_io -f -c \"copy_range a\" b; cmp a b; \
                          grep -E '\\s(COPY|OFFLOAD_STATUS|READ): ' /proc/self/mountstats; rm a b";

/// Copies asynchronously: the kernel's client on our server, and our client on the kernel's.
pub(super) fn copy_asynchronously() -> Result<()> {
    let lab = MACHINES.get()?;
    let server = peer::start_server(lab)?;
    mount(lab, "10.77.0.254")?;
    let copied = lab.ssh_within("client1", LARGE_COPY, 120);
    unmount(lab)?;
    drop(server);
    let calls = copied?;
    println!("{calls}");
    ensure!(calls.contains("COPY: 1 1 ") && calls.contains("READ: 0 "), "{calls}");
    lab.ssh_within("server", "lab-export xfs; lab-nfsd", 60)?;
    let line = "for n in $(seq 30); do dfsbench run nfs://10.77.0.1/export --nfsvers 4.2 --workload \
                data_ops --passes copy --async-copy true --workers 2 --file-size 64MiB --io-size \
                16MiB --trials 1 --verify true --quiet --format json --results /tmp/data-ops.db && \
                break; sleep 3; done";
    let text = lab.ssh_within("client1", line, 240)?;
    let report: Value = serde_json::from_str(&text).with_context(|| format!("no JSON: {text}"))?;
    ensure!(report["figures"][0]["moved_bytes"] == 128 << 20, "{}", report["figures"]);
    ensure!(report["figures"][0]["verdict"] != "invalid", "{}", report["figures"]);
    let counts = "8 reported by CB_OFFLOAD, 0 found with OFFLOAD_STATUS (0 sent), 0 complete with";
    ensure!(text.contains(counts), "no such fact: {text}");
    lab.ssh("client1", "rm -f /tmp/data-ops.*")?;
    lab.ssh("server", "lab-export tmpfs").map(drop)
}

/// Runs `data_ops` on the kernel's server through both clients, on ext4 (no clones) and on XFS.
pub(super) fn use_kernel_server() -> Result<()> {
    let lab = MACHINES.get()?;
    let mut outcome = Ok(());
    for (file_system, can_clone) in [("ext4", false), ("xfs", true)] {
        lab.ssh_within("server", &format!("lab-export {file_system}; lab-nfsd"), 60)?;
        mount(lab, "10.77.0.1")?;
        for (target, more) in [("/mnt", ""), ("nfs://10.77.0.1/export", "--nfsvers 4.2")] {
            let checked =
                run(lab, target, more).and_then(|figures| require_all(&figures, can_clone));
            outcome = outcome.and(checked.with_context(|| format!("{target} on {file_system}")));
        }
        unmount(lab)?;
    }
    lab.ssh("server", "lab-export tmpfs")?;
    outcome
}

fn require_all(figures: &[Value], can_clone: bool) -> Result<()> {
    ensure!(figures.len() == 6, "{} passes", figures.len());
    for figure in figures {
        if figure["pass"] != "clone" || can_clone {
            require_small(figure)?;
            continue;
        }
        let evidence = figure["caveats"].to_string();
        ensure!(figure["verdict"] == "invalid", "{figure}");
        ensure!(evidence.contains("the target does not support clone"), "{evidence}");
    }
    Ok(())
}
