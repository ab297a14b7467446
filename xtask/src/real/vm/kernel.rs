//! The kernel's client with the kernel's server: every version, two kernels on either side, and
//! what can be set at the server.
//!
//! Clients write, mount anew, read and drop caches; mountstats tells what went over the wire.

use anyhow::{Context, Result, ensure};

use super::guest::Mount;
use super::{Checks, NEW, OLD};
use crate::vm::lab::Lab;

/// Versions that kernels 6.1 and 6.12 speak.
pub const VERSIONS: [&str; 4] = ["3", "4.0", "4.1", "4.2"];
const SOURCE: &str = "server:/export";

/// Runs the checks of two kernels.
pub fn run(checks: &mut Checks, lab: &Lab) {
    checks.run("servers of both kernels export", || {
        lab.ssh("server", "lab-export ext4")?;
        lab.ssh(OLD, "lab-nfsd 4 && lab-export tmpfs").map(|_| ())
    });
    let old_server = format!("{OLD}:/export");
    let pairs = [
        ("6.12 mounts 6.12", NEW, SOURCE),
        ("6.1 mounts 6.12", OLD, SOURCE),
        ("6.12 mounts 6.1", NEW, &old_server),
    ];
    for (name, client, source) in pairs {
        for version in VERSIONS {
            checks
                .run(&format!("kernel {name}, v{version}"), || data(lab, client, source, version));
        }
    }
    checks.run("the server runs 16 threads, and 8", || threads(lab));
    checks.run("packets of 9000 bytes", || large_packets(lab));
    for kind in ["xfs", "tmpfs"] {
        checks.run(&format!("an export of {kind}"), || exported(lab, kind));
    }
}

/// Runs the checks of a laboratory whose server speaks v2.
pub fn nfs2(checks: &mut Checks, lab: &Lab) {
    for version in ["2", "3", "4.2"] {
        checks.run(&format!("kernel 5.10 mounts 5.10, v{version}"), || {
            data(lab, "client1", SOURCE, version)
        });
    }
}

fn data(lab: &Lab, client: &str, source: &str, version: &str) -> Result<()> {
    let options = format!("vers={version},proto=tcp");
    let said = Mount { lab, client, source, options: &options }.check_data()?;
    let wanted: Vec<&str> = options.split(',').collect();
    let missing = said.at("fresh")?.missing(&wanted);
    ensure!(missing.is_empty(), "not in force: {missing:?}");
    Ok(())
}

fn threads(lab: &Lab) -> Result<()> {
    for count in [16, 8] {
        let line = format!(
            "echo {count} >/proc/fs/nfsd/threads && cat /proc/fs/nfsd/threads && sleep 1 && \
             ps -e -o comm= | grep -cx nfsd"
        );
        let said = lab.ssh("server", &line)?;
        let counts: Vec<&str> = said.split_whitespace().collect();
        let count = count.to_string();
        ensure!(counts == [&count, &count], "{count} were wanted, there are {counts:?}");
    }
    Ok(())
}

/// Lets network and guests use large packets, and looks at what TCP makes of it.
fn large_packets(lab: &Lab) -> Result<()> {
    for (mtu, least) in [(9000, 8000), (1500, 1000)] {
        lab.set_mtu(mtu)?;
        for host in ["server", NEW] {
            lab.ssh(host, &format!("ip link set eth0 mtu {mtu}"))?;
        }
        let mount = Mount { lab, client: NEW, source: SOURCE, options: "vers=4.2" };
        let said = mount.run(
            "head -c 3000000 /dev/urandom >/tmp/want; cp /tmp/want /mnt/nfs/large; again; \
             cmp /tmp/want /mnt/nfs/large; ss -Htin dst 10.77.0.1 | grep -o ' mss:[0-9]*'",
        )?;
        let sizes = said.lines.iter().filter_map(|line| line.trim().strip_prefix("mss:"));
        let size = sizes.filter_map(|size| size.parse::<u32>().ok()).max();
        let size = size.with_context(|| format!("ss says {:?}", said.lines))?;
        ensure!((least..mtu.into()).contains(&size), "a segment has {size} bytes at {mtu}");
    }
    Ok(())
}

/// Exports a file system and holds the client's counters to what was read.
///
/// XFS counts a new access time as a change of the file. A client without a delegation then reads
/// again what it has, and whether it gets one is the server's luck: handles of the past half minute
/// that were recalled share a small filter. Hence `noatime`.
///
/// **Source:** measured with Linux 6.12: 30 of 60 second readings came from the server, all of 20
/// without leases, none of 20 with `noatime`. The filter is that of nfsd's `delegation_blocked`.
fn exported(lab: &Lab, kind: &str) -> Result<()> {
    lab.ssh("server", &format!("lab-export {kind} && mount -o remount,noatime /export"))?;
    let found = lab.ssh("server", "findmnt -no FSTYPE /export")?;
    ensure!(found.trim() == kind, "{found:?} is exported");
    data(lab, NEW, SOURCE, "4.2")
}
