//! A system whose roles are on two hosts: started in order, measured, and ended on both.

use std::fs;

use anyhow::{Result, ensure};
use checks::hosts::Lab;
use checks::systems::{Subject, codes};

use crate::STREAM;

/// Our own server on the hosts of both roles. The first one starts only if the second one, on
/// another host, answers and has what its recipe creates there.
const RECIPE: &str = r#"
name = "apart"
title = "two servers"
tried = "here"
durability = "none"
storage = false
folders = ["{dir}/own", "{storage}/data"]
leaves = ["/var/log/apart"]
[roles.data]
meaning = "keeps files"
storage = true
ports = [20496]
[variables.data_hosts]
repeat = "{host}"
on = "data"
[[file]]
path = "{dir}/own/address"
text = "{host}"
[[step]]
on = "all"
run = ["sh", "-ec", "mkdir -p /var/log/apart; echo {host} > /var/log/apart/{n}"]
[[step]]
on = "data"
run = ["sh", "-ec", """
grep -qx {host} {dir}/own/address; test {host} != {address}
mountpoint -q {storage}; test -d {storage}/data"""]
[[step]]
on = "data"
start = ["dfsbench", "serve", "--listen", "{host}", "--port", "20496", "--allow", "{address}"]
[[step]]
ready = ["bash", "-ec", """
test ! -e {storage}/data; for host in {data_hosts}; do exec 3<>/dev/tcp/$host/20496; done"""]
[[step]]
start = ["dfsbench", "serve", "--listen", "0.0.0.0", "--port", "20499", "--allow", "{*clients}"]
[[step]]
port = "20499"
[caches]
cold = "caches"
proof = "none"
[access.nfs]
port = 20499
export = "/export"
"#;

const APART: Subject = Subject {
    system: "FOLDER/apart.toml",
    target: "backend = \"nfs\"\nnfsvers = 4.1\ntmpfs_size = \"64MiB\"\nroles = { data = [\"node1\"] }",
    settings: "",
    port: 20499,
    is_mounted: false,
};

pub fn measured(lab: &Lab) -> Result<()> {
    fs::write(lab.folder.path().join("apart.toml"), RECIPE)?;
    APART.measure(lab, STREAM, 2)
}

/// The counters of a recipe decide: those that match the work done, and those that don't.
pub fn counted(lab: &Lab) -> Result<()> {
    for (script, planted) in [
        ("echo read_bytes $(date +%s%N); echo written_bytes $(date +%s%N)", false),
        ("echo read_bytes 0; echo written_bytes 0", true),
    ] {
        let counters = format!("[counters]\non = \"all\"\nrun = [\"sh\", \"-c\", \"{script}\"]\n");
        fs::write(lab.folder.path().join("apart.toml"), format!("{RECIPE}{counters}"))?;
        let report = APART.report(lab, STREAM)?;
        let codes = codes(&report);
        ensure!(codes.len() == 2, "{report}");
        let has = |pass: usize, code: &str| codes[pass].iter().any(|known| known == code);
        ensure!(has(0, "accounting") == planted && has(1, "cached") == planted, "{codes:?}");
    }
    Ok(())
}

pub fn cleaned(lab: &Lab) -> Result<()> {
    fs::write(lab.folder.path().join("apart.toml"), RECIPE)?;
    APART.kill_and_clean(lab)
}
