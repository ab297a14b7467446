//! Contenders on two hosts: systems of recipes in one plan, one of which never starts.
//!
//! Nothing is judged by its speed: each has its row, its reason and its exit code.

use std::fs;

use anyhow::{Context, Result, ensure};
use checks::hosts::{LEAVING, Lab, OURS, SERVER_AND_CLIENT};
use checks::ours::exit;
use checks::proc;
use serde_json::Value;

/// A recipe whose server prints why it can't serve, and keeps running.
const BROKEN: &str = r#"
name = "broken"
title = "a system that never serves"
tried = "for the checks"
durability = "nothing"
storage = false
[[step]]
start = ["sh", "-c", "echo no such volume >&2; exec sleep 100"]
[[step]]
port = "20777"
within_s = 1
[caches]
cold = "caches"
proof = "none"
[access.nfs]
port = 20777
export = "/export"
"#;

const PLAN: &str = r#"
name = "contenders"
trials = 1
HOSTS
[[target]]
name = "ours"
server = "server"
client = "client"
system = "dfsbench"
backend = "nfs"
[target.settings]
threads = [1, 2]
[[target]]
name = "broken"
server = "server"
client = "client"
system = "BROKEN"
backend = "nfs"
[factors]
nfsvers = 4.1
[[workload]]
kind = "stream"
file_size = "1MiB"
"#;

/// Systems that keep files on a disk, in memory, and in the kernel.
const KEEPERS: &str = r#"
name = "contenders"
trials = 1
HOSTS
[[target]]
name = "ganesha"
server = "server"
client = "client"
system = "ganesha"
backend = "nfs"
[target.settings]
fsal = ["mem", "vfs"]
[[target]]
name = "knfsd"
server = "server"
client = "client"
system = "knfsd"
backend = "nfs"
[factors]
nfsvers = 4.1
file_system = "tmpfs"
[[workload]]
kind = "stream"
file_size = "1MiB"
"#;

/// The servers of each contender are killed and restarted: data in their memory is lost, data on a
/// file system is kept, and a kernel is not a process.
pub fn killed(lab: &Lab) -> Result<()> {
    let at = |name: &str| lab.folder.path().join(name).display().to_string();
    let plan = KEEPERS.replace("HOSTS", SERVER_AND_CLIENT).replace("CONFIG", &at("config"));
    fs::write(at("keepers.toml"), plan)?;
    let mut durability = lab.ours();
    durability.args(["durability", &at("keepers.toml"), "--kill-server", "--rounds", "2"]);
    durability.args(["--crashes", "1"]);
    durability.args(["--promise", "none,sync", "--format", "json", "--quiet"]);
    durability.args(["--back-within", "20s", "--results", &at("keepers.db")]);
    let output = proc::capture_output(&mut durability)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(exit::INVALID), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).with_context(|| errors.to_string())?;
    let reports = json.as_array().context("no list")?;
    ensure!(reports.len() == 2, "{json}");
    for (report, name, tier) in [
        (&reports[0], "ganesha fsal=mem", "none"),
        (&reports[1], "ganesha fsal=vfs", "survives server crash"),
    ] {
        ensure!(
            report["target"].as_str().is_some_and(|target| target.starts_with(name)),
            "{report}"
        );
        let tiers = report["tiers"].as_array().context("no tiers")?;
        let sync = tiers.iter().find(|one| one["promise"] == "sync").context("no promise")?;
        ensure!(sync["tier"] == tier, "{name}: {sync} {errors}");
    }
    ensure!(errors.contains("warning: knfsd: knfsd runs in the kernel"), "{errors}");
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

/// Two that serve are compared, and the third is a row with its reason.
pub fn compared(lab: &Lab) -> Result<()> {
    let at = |name: &str| lab.folder.path().join(name).display().to_string();
    fs::write(at("broken.toml"), BROKEN)?;
    let plan = PLAN
        .replace("HOSTS", SERVER_AND_CLIENT)
        .replace("CONFIG", &at("config"))
        .replace("BROKEN", &at("broken.toml"));
    fs::write(at("contenders.toml"), plan)?;
    let mut run = lab.ours();
    run.args(["run", &at("contenders.toml"), "--quiet", "--results", &at("contenders.db")]);
    let output = proc::capture_output(&mut run)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(exit::INVALID), "{output:?}");
    ensure!(!errors.contains("contenders differ"), "all are used alike: {errors}");
    // Both hosts are namespaces of this machine, not a cluster.
    let results = OURS.report(&lab.folder.path().join("contenders.db"), "json")?;
    let note = "client and the server server are the same machine";
    ensure!(String::from_utf8(results)?.contains(note), "no shared-host");
    let mut compare = lab.ours();
    compare.args(["contenders", "--results", &at("contenders.db"), "--format", "json"]);
    compare.args(["--baseline", "ours threads=2"]);
    let output = proc::capture_output(&mut compare)?;
    ensure!(output.status.code() == Some(exit::INVALID), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let contenders = report["contenders"].as_array().context("no contenders")?;
    let mut names = Vec::new();
    for contender in contenders {
        names.push(contender["name"].as_str().unwrap_or_default());
        ensure!(contender["tier"] == "not measured", "{contender}");
    }
    ensure!(names == ["ours threads=1", "ours threads=2", "broken"], "{names:?}");
    ensure!(contenders[1]["promise"] == "baseline", "{report}");
    let version = contenders[0]["version"].as_str().unwrap_or_default();
    ensure!(version.starts_with("dfsbench "), "its version is {version:?}");
    let why = contenders[2]["failures"].to_string();
    ensure!(why.contains("no such volume") && why.contains("20777"), "{why}");
    for work in report["works"].as_array().context("no works")? {
        ensure!(work["figures"][0]["ratio"].is_number(), "{work}");
        ensure!(work["figures"][2]["per_s"].is_null(), "{work}");
    }
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}
