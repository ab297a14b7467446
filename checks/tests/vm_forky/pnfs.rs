//! The kernel's pNFS client with our metadata server: data goes to data servers, ours and the
//! kernel's, and stays intact when layouts are taken back and when a data server dies.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use checks::hosts::PATIENCE;
use checks::proc::{self, Background};
use checks::vm::lab::Lab;
use checks::vm::peer;
use tempfile::TempDir;

use super::MACHINES;

/// Writes a file that stays open, over and over, and reads it again each time: from the data
/// servers, since the page cache is dropped.
const PROGRAM: &str = "set -e; mkdir -p /mnt; mount -t nfs -o vers=4.2 10.77.0.254:/export /mnt; \
    dd if=/dev/urandom of=/tmp/data bs=1M count=2 2>/dev/null; exec 3<>/mnt/held; \
    end=$(($(date +%s) + 20)); while [ $(date +%s) -lt $end ]; do \
    dd if=/tmp/data of=/mnt/held bs=1M conv=notrunc,fsync 2>/dev/null; \
    echo 1 >/proc/sys/vm/drop_caches; cmp /tmp/data /mnt/held; done; \
    exec 3>&-; grep -o 'pnfs=[A-Z0-9_]*' /proc/self/mountstats; \
    grep -E '\\s(LAYOUTCOMMIT|GETDEVICEINFO): ' /proc/self/mountstats";
/// Bytes of the file.
const FILE_BYTES: u64 = 2 << 20;
/// All layouts are taken back in each way, while the client, which needs some seconds until it has
/// mounted, uses them.
const FATES: [&str; 8] = [
    "--fault",
    "layouts recall at 10s",
    "--fault",
    "layouts recall at 13s",
    "--fault",
    "layouts fence at 15s",
    "--fault",
    "layouts revoke at 17s",
];

/// Runs the program on the client, with our server on the bridge; returns the last lines of the
/// server, after requiring that all data went to data servers.
fn run(flags: &[&str], layout: &str) -> Result<String> {
    let lab = MACHINES.get()?;
    let folder = TempDir::new()?;
    let log = folder.path().join("server");
    let mut command = peer::ours_inside(lab);
    command.args(["serve", "--listen", "10.77.0.254", "--allow", "10.77.0.0/24"]);
    command.args(["--port", "2049", "--memory", "256MiB"]).args(flags);
    command.stderr(Stdio::from(fs::File::create(&log)?));
    let (mut server, _) = Background::start_with_first_line(&mut command, PATIENCE)?;
    let used = lab.ssh_within("client1", PROGRAM, 120);
    lab.ssh("client1", "umount -l /mnt; rm -f /tmp/data")?;
    server.interrupt(Duration::from_secs(30))?;
    let report = fs::read_to_string(&log)?;
    let report = report.split("Ctrl-C").last().unwrap_or_default().trim().to_owned();
    println!("{report}");
    let used = used.with_context(|| report.clone())?;
    println!("{used}");
    ensure!(used.contains(&format!("pnfs={layout}")), "{used}");
    ensure!(!used.contains(" 0 0 0 0 0 0 0 0 0"), "no LAYOUTCOMMIT or GETDEVICEINFO: {used}");
    ensure!(report.contains("through this server: 0 bytes read, 0 written"), "{report}");
    Ok(report)
}

/// Bytes that each of our data servers read and wrote.
fn bytes_of_servers(report: &str) -> Vec<(u64, u64)> {
    let lines = report.lines().filter_map(|line| line.strip_prefix("data server "));
    let numbers = |line: &str| -> Vec<u64> {
        line.split([' ', ':']).filter_map(|word| word.parse().ok()).collect()
    };
    lines.map(numbers).map(|found| (found[1], found[2])).collect()
}

/// Both types of layouts, striped over two data servers, while layouts are taken back.
pub(super) fn take_back_layouts() -> Result<()> {
    for (layouts, name) in [("flexfiles", "LAYOUT_FLEX_FILES"), ("files", "LAYOUT_NFSV4_1_FILES")] {
        let report = take_back(layouts, name)?;
        ensure!(report.contains(", 1 revoked;"), "{report}");
        let has_use = report.contains("clients reported their use of data servers ");
        ensure!(has_use == (layouts == "flexfiles"), "{report}");
    }
    Ok(())
}

/// Flexible files over v4.1 data servers, loosely and tightly coupled.
pub(super) fn take_back_v4_layouts() -> Result<()> {
    for layouts in ["flexfiles-v4.1", "flexfiles-tight"] {
        let report = take_back(layouts, "LAYOUT_FLEX_FILES")?;
        let servers = report.lines().filter(|line| line.starts_with("data server "));
        let mut refused = servers.filter(|line| !line.contains(", 0 errors reported"));
        ensure!(refused.next().is_some(), "no data server refused the fenced client: {report}");
    }
    Ok(())
}

/// All data servers hang for a while, which the client waits out: its data is as it was.
pub(super) fn wait_for_hanging_servers() -> Result<()> {
    let faults = ["data-server 1 hang 4s at 12s", "data-server 2 hang 4s at 12s"];
    let flags = ["--data-servers", "2", "--fault", faults[0], "--fault", faults[1]];
    let report = run(&flags, "LAYOUT_FLEX_FILES")?;
    let bytes = bytes_of_servers(&report);
    let written: u64 = bytes.iter().map(|(_, written)| written).sum();
    ensure!(written > FILE_BYTES, "{bytes:?}");
    Ok(())
}

/// Takes back layouts of a kind, striped over two data servers.
fn take_back(layouts: &str, name: &str) -> Result<String> {
    let striped = ["--data-servers", "2", "--stripe-unit", "64KiB", "--layouts", layouts];
    let report = run(&[&striped[..], &FATES].concat(), name)?;
    ensure!(!report.contains("files: 0 recalled"), "{report}");
    let bytes = bytes_of_servers(&report);
    ensure!(bytes.len() == 2, "{bytes:?}");
    for (read, written) in bytes {
        ensure!(read.min(written) >= FILE_BYTES / 2, "{read} read, {written} written");
    }
    Ok(report)
}

/// One of two mirrors dies, and the client continues with the other.
pub(super) fn lose_mirror() -> Result<()> {
    let flags = ["--data-servers", "2", "--mirrors", "2", "--fault", "data-server 1 die at 12s"];
    let report = run(&flags, "LAYOUT_FLEX_FILES")?;
    let [first, second] = bytes_of_servers(&report)[..] else {
        anyhow::bail!("not two data servers: {report}")
    };
    ensure!(first.1 >= FILE_BYTES && second.1 > first.1, "{first:?}, {second:?}");
    let first = report.lines().find(|line| line.starts_with("data server 1:"));
    let is_silent = first.is_none_or(|line| line.contains(", 0 errors reported"));
    ensure!(!is_silent, "the client reported no error: {report}");
    Ok(())
}

/// The kernel's server keeps the data, and is left as it was.
pub(super) fn use_kernel_data_server() -> Result<()> {
    let lab: &Lab = MACHINES.get()?;
    lab.ssh_within("server", "lab-export tmpfs; lab-nfsd", 60)?;
    let counted = |name: &str, field: u32| -> Result<u64> {
        let line = format!("awk '/^proc3/ {{ print ${field} }}' /proc/net/rpc/nfsd");
        lab.ssh("server", &line)?.trim().parse().with_context(|| format!("no {name}"))
    };
    // Field 1 is the word, field 2 the number of procedures, of which READ is the sixth.
    let before = [counted("READ", 9)?, counted("WRITE", 10)?];
    run(&["--data-servers", "10.77.0.1:2049/export"], "LAYOUT_FLEX_FILES")?;
    let calls = [counted("READ", 9)? - before[0], counted("WRITE", 10)? - before[1]];
    println!("knfsd: {calls:?} READ and WRITE calls");
    ensure!(calls.iter().all(|count| *count >= 2), "{calls:?} READ and WRITE calls");
    let left = lab.ssh("server", "ls -A /export")?;
    ensure!(left.trim().is_empty(), "left behind: {left}");
    Ok(())
}

/// The kernel's server offers only layouts of disks, or none: our client says so, and its data goes
/// through the server, intact.
pub(super) fn name_kernel_layouts() -> Result<()> {
    let lab: &Lab = MACHINES.get()?;
    let folder = TempDir::new()?;
    for (export, reason) in [("xfs pnfs", "only the block layout"), ("tmpfs", "no layouts")] {
        let wait = "until grep -q Y /proc/fs/nfsd/v4_end_grace; do sleep 0.2; done";
        lab.ssh_within("server", &format!("lab-export {export}; lab-nfsd; {wait}"), 90)?;
        let results = folder.path().join(export);
        let mut command = peer::ours_inside(lab);
        command.args(["run", "nfs://10.77.0.1/export?version=4.2", "--pnfs", "on"]);
        command.args(["--workload", "stream", "--file-size", "256KiB", "--trials", "1"]);
        command.args(["--verify", "true", "--results"]).arg(&results);
        proc::capture_stdout(&mut command)?;
        let evidence = peer::OURS.evidence(&results, "pnfs-fallback")?.unwrap_or_default();
        println!("{export}: {evidence}");
        ensure!(evidence.ends_with(&format!(": the server offers {reason}")), "{evidence:?}");
    }
    Ok(())
}
