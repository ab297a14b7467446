//! Mount options: what was asked for is in force, as the kernel's mountstats says.
//!
//! A mount that is asked for an option may be given another without a word, so what is in force is
//! read from the client, not from the command that mounted.

use anyhow::{Result, ensure};

use super::guest::Mount;
use super::{Checks, NEW, OLD};
use crate::vm::lab::Lab;

/// Options, and what of them mountstats shows, where it shows them under other names.
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

/// Runs the checks of this part.
pub fn run(checks: &mut Checks, lab: &Lab) {
    for client in [NEW, OLD] {
        let name = format!("{} sets of options on {client}", CASES.len());
        checks.run(&name, || in_force(lab, client));
    }
    for version in ["3", "4.2"] {
        checks.run(&format!("{CONNECTIONS} connections, v{version}"), || connections(lab, version));
    }
}

/// Mounts with one set after the other, all in one script.
fn in_force(lab: &Lab, client: &str) -> Result<()> {
    let mount = Mount { lab, client, source: "server:/export", options: CASES[0].0 };
    let each = |(options, _): &(&str, _)| format!("anew {options}; snapshot {options}; ");
    let said = mount.run(&CASES.iter().map(each).collect::<String>())?;
    for (options, shown) in CASES {
        let asked: Vec<&str> = options.split(',').collect();
        let stats = said.at(options)?;
        let missing = stats.missing(if shown.is_empty() { &asked } else { shown });
        ensure!(missing.is_empty(), "{options}: {missing:?} not among {:?}", stats.options);
    }
    Ok(())
}

/// Makes several connections, and asks client and sockets how many there are.
fn connections(lab: &Lab, version: &str) -> Result<()> {
    let options = format!("vers={version},nconnect={CONNECTIONS}");
    let mount = Mount { lab, client: NEW, source: "server:/export", options: &options };
    let said = mount.run(
        "dd if=/dev/zero of=/mnt/nfs/many bs=64k count=64 conv=fsync 2>/dev/null; snapshot now; \
         ss -Htn state established dst 10.77.0.1:2049 | wc -l; rm /mnt/nfs/many",
    )?;
    let shown = said.at("now")?.connections;
    ensure!(shown == CONNECTIONS, "mountstats shows {shown} connections");
    let sockets: usize = said.lines.concat().trim().parse()?;
    ensure!(sockets == CONNECTIONS, "there are {sockets} sockets");
    Ok(())
}
