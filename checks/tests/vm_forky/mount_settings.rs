//! Settings of kernel mounts in a plan: security flavors, RDMA, TLS and trunking.
//!
//! Each check runs a plan with its levels, compares them with what the kernel mounted, and expects
//! the hosts as before. Others take away what a level needs, or plant a mount that keeps the kernel
//! from using it.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use checks::check::Fixture;
use checks::checks;
use checks::proc;
use checks::repo::{self, Profile};
use checks::vm::lab::Lab;
use serde_json::Value;
use tempfile::TempDir;

use super::MACHINES;

const CLIENT: &str = "client1";
const PLAN: &str = r#"
name = "mounts"
host = [
    { name = "server", ssh = "server", ssh_config = "CONFIG", ADDRESS },
    { name = "client1", ssh = "client1", ssh_config = "CONFIG", address = "10.77.0.11" },
]
target = [{ name = "nfs", server = "server", client = "client1", FILES }]
workload = [{ kind = "stream", file_size = "1MiB", io_size = "64KiB" }]
factors = { FACTORS }
"#;
/// Our mounts, exports and undo log, and the sockets of the kernel's server.
const STATE: &str = "grep dfsbench /proc/mounts; exportfs -s 2>/dev/null; \
                     cat /proc/fs/nfsd/threads /proc/fs/nfsd/portlist 2>/dev/null; \
                     ls -A /run/dfsbench 2>/dev/null; cat /var/lib/dfsbench/undo.jsonl \
                     2>/dev/null; true";
/// Removes the tickets, and makes rpc.gssd forget them.
const FORGET_TICKETS: &str = "rm -f /tmp/krb5cc*; kill $(pidof rpc.gssd); sleep 0.5; rpc.gssd";

/// The machines with a KDC, certificates, soft RoCE, and a further address of the server.
static PREPARED: Fixture<()> = Fixture::new(|| {
    let lab = MACHINES.get()?;
    for service in ["lab-krb5", "lab-tls"] {
        lab.ssh("server", &format!("{service} serve"))?;
        lab.ssh(CLIENT, &format!("{service} join"))?;
    }
    lab.ssh("server", "ip addr add 10.77.0.2/24 dev eth0")?;
    for host in lab.names() {
        lab.ssh(host, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0")?;
    }
    Ok(())
});

checks! {
    plan_varies_security_flavors: 500 s, vary(SECURITY);
    names_what_kerberos_needs: 600 s, name_what_kerberos_needs();
    plan_varies_rdma: 500 s, vary(RDMA);
    names_missing_rdma_device: 400 s, name_missing_rdma_device();
    fallback_to_tcp_is_not_effective: 300 s, {
        share_transport(r#"proto = "rdma""#, "proto=tcp", "proto on host client1: requested rdma")
    };
    plan_varies_tls: 500 s, vary(TLS);
    names_missing_tlshd: 500 s, name_missing_tlshd();
    unencrypted_mount_is_not_effective: 300 s, {
        share_transport(r#"xprtsec = "tls""#, "proto=tcp", "xprtsec on host client1: requested tls")
    };
    plan_connects_to_several_addresses: 500 s, connect_to_several_addresses();
    missing_connections_are_not_effective: 300 s, {
        share_transport("nconnect = 4", "proto=tcp", "connections on host client1: requested 4")
    };
}

/// A factor with its levels, and what the kernel lists in the options of the mount for each.
struct Factor {
    factors: &'static str,
    /// Where the JSON has the level, below the settings of mounts.
    pointer: &'static str,
    listed: &'static [(&'static str, &'static str)],
}

const SECURITY: &Factor = &Factor {
    factors: r#"nfsvers = 4.2, sec = ["sys", "krb5", "krb5i", "krb5p"]"#,
    pointer: "/sec",
    listed: &[
        ("sys", "sec=sys"),
        ("krb5", "sec=krb5"),
        ("krb5i", "sec=krb5i"),
        ("krb5p", "sec=krb5p"),
    ],
};
const RDMA: &Factor = &Factor {
    factors: r#"nfsvers = [3, 4.2], proto = ["tcp", "rdma"]"#,
    pointer: "/nfs/proto",
    listed: &[
        ("tcp", "proto=tcp"),
        ("rdma", "proto=rdma,port=20049"),
        ("tcp", "proto=tcp"),
        ("rdma", "proto=rdma,port=20049"),
    ],
};

const TLS: &Factor = &Factor {
    factors: r#"nfsvers = 4.2, xprtsec = ["none", "tls", "mtls"]"#,
    pointer: "/nfs/xprtsec",
    // The kernel doesn't list `none`.
    listed: &[("none", "proto=tcp"), ("tls", "xprtsec=tls"), ("mtls", "xprtsec=mtls")],
};
/// The number of connections is compared below.
const TRUNKS: &Factor = &Factor {
    factors: "nfsvers = 4.2, max_connect = [1, 4]",
    pointer: "/nfs/max_connect",
    listed: &[("1", "proto=tcp"), ("4", "max_connect=4")],
};

/// Runs a plan from this machine, and returns its results. Its hosts are as before afterwards.
fn run(lab: &Lab, factors: &str) -> Result<Value> {
    let folder = TempDir::new()?;
    let config = lab.ssh_config().display().to_string();
    // Certificates have names instead of addresses.
    let address = if factors.contains("xprtsec") {
        r#"address = "server""#
    } else {
        r#"address = "10.77.0.1", more_addresses = "10.77.0.2""#
    };
    let plan = PLAN.replace("CONFIG", &config).replace("ADDRESS", address);
    // An export that a client mounts already is one that the plan leaves alone.
    let files = if factors.contains("running") {
        r#"directory = "/export""#
    } else {
        r#"tmpfs_size = "32MiB""#
    };
    let plan = plan.replace("FILES", files).replace("FACTORS", factors);
    let path = folder.path().join("plan.toml");
    fs::write(&path, plan)?;
    let before = state(lab)?;
    let mut command = Command::new(repo::dfsbench_path(Profile::Debug));
    command.env("NO_COLOR", "1").env_remove("DFSBENCH_AGENT_BINARY").stdin(Stdio::null());
    command.arg("run").arg(path).args(["--trials", "1", "--quiet", "--format", "json"]);
    command.arg("--results").arg(folder.path().join("results.db"));
    let output = proc::capture_output(&mut command)?;
    let after = state(lab)?;
    ensure!(after == before, "before:\n{before}after:\n{after}");
    serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn state(lab: &Lab) -> Result<String> {
    lab.names().iter().map(|host| lab.ssh(host, STATE)).collect()
}

/// Returns the first trial of each run.
fn trials(report: &Value) -> Result<Vec<&Value>> {
    let runs = report["runs"].as_array().context("no runs")?;
    Ok(runs.iter().map(|run| &run["trials"][0]).collect())
}

/// Returns the options of our mount as the kernel lists them.
fn listed_options(trial: &Value) -> Result<&str> {
    let facts = trial["facts"].as_array().context("no facts")?;
    let is_listed = |fact: &&Value| {
        fact["name"] == "mount options" && fact["source"] == "/proc/self/mountstats"
    };
    let fact = facts.iter().find(is_listed).context("no mount options")?;
    fact["value"].as_str().context("no text")
}

fn is_effective(trial: &Value) -> bool {
    !trial["passes"].to_string().contains("\"option-not-effective\"")
}

/// Runs a plan with all levels of a factor.
fn vary(factor: &Factor) -> Result<()> {
    PREPARED.get()?;
    let lab = MACHINES.get()?;
    let report = run(lab, factor.factors)?;
    let runs = report["runs"].as_array().context("no runs")?;
    ensure!(runs.len() == factor.listed.len(), "{} runs", runs.len());
    for ((level, listed), run) in factor.listed.iter().zip(runs) {
        let mounting = &run["settings"]["lab"]["mounting"];
        let found = mounting.pointer(factor.pointer).context("no level")?;
        ensure!(found.to_string().trim_matches('"') == *level, "{found} instead of {level}");
        let trial = &run["trials"][0];
        ensure!(trial["state"].to_string().contains("done"), "{level}: {}", trial["reason"]);
        let options = listed_options(trial)?;
        println!("{level}: {options}");
        ensure!(format!(",{options},").contains(&format!(",{listed},")), "{level}: {options}");
        ensure!(is_effective(trial), "{level}: {}", trial["passes"]);
        ensure!(has_session(trial) == listed.contains("tls"), "{level}: {}", trial["facts"]);
        // A small file may be written with a single call.
        let passes = trial["passes"].as_array().context("no passes")?;
        let used = passes.iter().map(connections_used).max().unwrap_or(0);
        println!("{level}: {used} connections carried calls");
        let expected = if listed.contains("max_connect") { 2 } else { 1 };
        ensure!(used == expected, "{level}: {used} connections");
    }
    Ok(())
}

/// Returns true if the kernel encrypted in software during a trial, which is a fact of it.
fn has_session(trial: &Value) -> bool {
    let facts = trial["facts"].as_array().map(Vec::as_slice).unwrap_or_default();
    facts.iter().any(|fact| {
        fact["name"] == "TLS sessions of this host"
            && fact["value"] == "1 in software, 0 on network devices"
    })
}

/// Returns how many connections of our mount carried calls in a pass.
fn connections_used(pass: &Value) -> usize {
    let hosts = pass["telemetry"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = hosts
        .iter()
        .flat_map(|host| host["metrics"].as_array().into_iter().flatten())
        .filter_map(|metric| metric["name"].as_str());
    // Counters that didn't move are left out.
    names
        .filter(|name| name.starts_with("nfs./run/dfsbench/mount.connection"))
        .filter(|name| name.strip_suffix(".sends").is_some())
        .count()
}

/// Returns the reason why a plan with one level has no trial.
fn reason(lab: &Lab, factors: &str) -> Result<String> {
    let report = run(lab, factors)?;
    let trial = trials(&report)?[0];
    ensure!(trial["state"].to_string().contains("failed"), "{trial}");
    let reason = trial.to_string();
    println!("{}", trial["reason"]);
    Ok(reason)
}

/// Takes away the parts of Kerberos one after the other.
fn name_what_kerberos_needs() -> Result<()> {
    PREPARED.get()?;
    let lab = MACHINES.get()?;
    let parts = [
        (CLIENT, "kill $(pidof rpc.gssd)", "rpc.gssd", "needs rpc.gssd on the client, which is"),
        (
            "server",
            "kill $(pidof rpc.svcgssd)",
            "rpc.svcgssd",
            "needs rpc.svcgssd or gssproxy on the server, which is",
        ),
        (
            CLIENT,
            "mv /etc/krb5.keytab /tmp/keytab",
            "mv /tmp/keytab /etc/krb5.keytab",
            "/etc/krb5.keytab does not exist",
        ),
        ("server", "kill $(pidof krb5kdc)", "krb5kdc", "sec krb5i needs a KDC that answers"),
    ];
    for (host, take, give_back, expected) in parts {
        lab.ssh(host, take)?;
        if host == CLIENT && take.starts_with("mv") || give_back == "krb5kdc" {
            lab.ssh(CLIENT, FORGET_TICKETS)?;
        }
        let reason = reason(lab, r#"sec = "krb5i""#);
        lab.ssh(host, give_back)?;
        let reason = reason?;
        ensure!(reason.contains(expected), "after `{take}`: {reason}");
    }
    Ok(())
}

/// Takes the client's RDMA device away, and gives it back.
fn name_missing_rdma_device() -> Result<()> {
    PREPARED.get()?;
    let lab = MACHINES.get()?;
    for (host, place) in [(CLIENT, "on the client"), ("server", "on the server")] {
        lab.ssh(host, "rdma link delete rxe0")?;
        let reason = reason(lab, r#"proto = "rdma""#);
        lab.ssh(host, "rdma link add rxe0 type rxe netdev eth0")?;
        let expected = format!("proto rdma needs an RDMA device {place}");
        let reason = reason?;
        ensure!(reason.contains(&expected), "{reason}");
    }
    Ok(())
}

/// Varies trunking without rpc.gssd: with a keytab, the client would want a ticket for the server's
/// further address, which has no principal.
fn connect_to_several_addresses() -> Result<()> {
    PREPARED.get()?;
    let lab = MACHINES.get()?;
    lab.ssh(CLIENT, "kill $(pidof rpc.gssd); sleep 0.5")?;
    let done = vary(TRUNKS);
    lab.ssh(CLIENT, "rpc.gssd")?;
    done
}

/// Stops tlshd on the client, and then on the server.
fn name_missing_tlshd() -> Result<()> {
    PREPARED.get()?;
    let lab = MACHINES.get()?;
    let start = "setsid tlshd -c /etc/tlshd.conf -s </dev/null >/run/tlshd.log 2>&1 & sleep 1";
    let expected = [
        (CLIENT, "xprtsec tls needs tlshd on the client, which is not running"),
        ("server", "xprtsec tls needs Linux 6.5 on both hosts, tlshd on the server, too"),
    ];
    for (host, expected) in expected {
        lab.ssh(host, "kill $(pidof tlshd); sleep 0.5")?;
        let reason = reason(lab, r#"nfsvers = 4.2, xprtsec = "tls""#);
        lab.ssh(host, start)?;
        let reason = reason?;
        ensure!(reason.contains(expected), "{host}: {reason}");
    }
    Ok(())
}

/// Mounts the server by hand before the plan does: a client of v4.1 and later then uses the same
/// transport for all mounts of that server, whatever they request.
fn share_transport(factors: &str, listed: &str, expected: &str) -> Result<()> {
    PREPARED.get()?;
    let lab = MACHINES.get()?;
    lab.ssh(CLIENT, "mount -t nfs -o vers=4.2,proto=tcp server:/export /mnt/nfs")?;
    lab.ssh("server", "echo rdma 20049 >/proc/fs/nfsd/portlist")?;
    let factors = format!(r#"server_kind = "running", nfsvers = 4.2, {factors}"#);
    let report = run(lab, &factors);
    lab.ssh(CLIENT, "umount /mnt/nfs")?;
    lab.ssh("server", "lab-nfsd")?;
    let report = report?;
    let trial = trials(&report)?[0];
    let options = listed_options(trial)?;
    ensure!(options.contains(listed) && !options.contains("xprtsec"), "{options}");
    let passes = trial["passes"].to_string();
    ensure!(!is_effective(trial) && passes.contains(expected), "{passes}");
    Ok(())
}
