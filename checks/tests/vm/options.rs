//! Mount options: requested options are in effect, according to the kernel's mountstats.
//!
//! A mount may silently get other options than requested, so the effective ones are read from the
//! client, not from the command that mounted.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use checks::checks;
use checks::vm::guest::Mount;
use checks::vm::lab::Lab;

use super::{NEW, OLD, SERVERS, run_in};

/// Options, and their form in mountstats if it differs.
const CASES: [(&str, &[&str]); 12] = [
    ("vers=3,rsize=32768,wsize=65536", &[]),
    ("vers=4.2,rsize=1048576,wsize=1048576", &[]),
    ("vers=4.1,soft,timeo=100,retrans=5", &[]),
    ("vers=4.0,actimeo=7", &["vers=4.0", "acregmin=7", "acregmax=7", "acdirmin=7", "acdirmax=7"]),
    ("vers=4.2,acregmin=1,acregmax=2,acdirmin=4,acdirmax=5", &[]),
    ("vers=3,noac", &["vers=3", "noac", "sync"]),
    ("vers=4.2,nocto", &[]),
    ("vers=4.2,sync", &[]),
    ("vers=3,lookupcache=none", &[]),
    ("vers=3,nordirplus,nolock", &["vers=3", "nordirplus", "nolock", "local_lock=all"]),
    ("vers=4.2,ro,sec=sys", &[]),
    ("vers=3,nosharecache,noresvport", &[]),
];
/// Connections to one server.
const CONNECTIONS: usize = 4;

checks! {
    all_sets_of_options_on_kernel_6_12: 300 s, run_in(&SERVERS, |lab| effective(lab, NEW));
    all_sets_of_options_on_kernel_6_1: 300 s, run_in(&SERVERS, |lab| effective(lab, OLD));
    four_connections_v3: 200 s, run_in(&SERVERS, |lab| connections(lab, "3"));
    four_connections_v4_2: 200 s, run_in(&SERVERS, |lab| connections(lab, "4.2"));
}

/// Mounts with one set after the other, all in one script.
fn effective(lab: &Lab, client: &str) -> Result<()> {
    let mount = Mount { lab, client, source: "server:/export", options: CASES[0].0 };
    let mut script = String::new();
    for (options, _) in CASES {
        write!(script, "remount {options}; snapshot {options}; ")?;
    }
    let output = mount.run(&script)?;
    for (options, shown) in CASES {
        let requested: Vec<&str> = options.split(',').collect();
        let stats = output.at(options)?;
        let missing = stats.missing_options(if shown.is_empty() { &requested } else { shown });
        ensure!(missing.is_empty(), "{options}: {missing:?} not among {:?}", stats.options);
    }
    Ok(())
}

/// Makes several connections, and counts them at the client and among its sockets.
fn connections(lab: &Lab, version: &str) -> Result<()> {
    let options = format!("vers={version},nconnect={CONNECTIONS}");
    let mount = Mount { lab, client: NEW, source: "server:/export", options: &options };
    let output = mount.run(
        "dd if=/dev/zero of=/mnt/nfs/many bs=64k count=64 conv=fsync 2>/dev/null; snapshot now; \
         ss -Htn state established dst 10.77.0.1:2049 | wc -l; rm /mnt/nfs/many",
    )?;
    let shown = output.at("now")?.connections;
    ensure!(shown == CONNECTIONS, "mountstats shows {shown} connections");
    let sockets: usize = output.lines.concat().trim().parse()?;
    ensure!(sockets == CONNECTIONS, "there are {sockets} sockets");
    Ok(())
}
