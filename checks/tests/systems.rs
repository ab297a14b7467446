//! File systems that recipes set up on hosts over real sshd: CephFS, GlusterFS, JuiceFS, MooseFS,
//! SeaweedFS, go-nfs, rclone, and our own server.
//!
//! Their packages are only installed for this group: only `cargo xtask real systems` runs it.

use anyhow::{Context as _, Result, ensure};
use checks::check::Fixture;
use checks::hosts::{Lab, OURS as PROGRAM};
use checks::systems::{SHORT, Subject, codes, states};
use checks::{checks, lost_server, secret_search};
use serde_json::Value;

static LAB: Fixture<Lab> = Fixture::new(|| Lab::start(6));

checks! {
    measures_cephfs_with_both_stores: 600 s, {
        measured(&Subject { settings: "store = [\"bluestore\", \"memstore\"]", ..CEPHFS }, 2)
    };
    measures_cephfs_on_three_hosts: 600 s, {
        let target = "devices = [\"/srv/data/disk\"]\nloop_size = \"3GiB\"\n\
                      roles = { metadata = [\"node1\"], data = [\"node1\", \"node2\"] }";
        measured(&Subject { target, settings: "copies = 2", ..CEPHFS }, 1)
    };
    cephfs_is_killed_and_cleaned: 600 s, CEPHFS.kill_and_clean(LAB.get()?);
    measures_glusterfs_in_three_layouts: 600 s, {
        measured(&Subject { settings: LAYOUTS, ..GLUSTERFS }, 3)
    };
    measures_glusterfs_on_four_hosts: 600 s, {
        let target = "tmpfs_size = \"600MiB\"\nroles = { data = NODES }";
        measured(&Subject { target, settings: LAYOUTS, ..GLUSTERFS }, 3)
    };
    measures_glusterfs_with_brick_on_server: 600 s, {
        let target = "tmpfs_size = \"600MiB\"\nroles = { data = [\"server\", \"node1\", \"node2\"] }";
        measured(&Subject { target, settings: "layout = \"disperse\"\nbricks = 3", ..GLUSTERFS }, 1)
    };
    attributes_glusterfs_reads_to_client_memory: 600 s, {
        let warm = format!("{SHORT}[factors]\ninvalidation = \"none\"\n");
        let report = GLUSTERFS.report(LAB.get()?, &warm)?;
        let read = &codes(&report)[1];
        ensure!(read.iter().any(|code| code == "cached"), "{report}");
        Ok(())
    };
    measures_glusterfs_through_ganesha: 600 s, {
        let target = "backend = \"nfs\"\nnfsvers = 4.1\ntmpfs_size = \"600MiB\"\n\
                      roles = { data = NODES }";
        measured(&Subject { target, settings: LAYOUTS, ..GLUSTERFS }, 3)
    };
    kills_and_cleans_glusterfs_on_four_hosts: 600 s, {
        let target = "tmpfs_size = \"600MiB\"\nroles = { data = NODES }";
        Subject { target, ..GLUSTERFS }.kill_and_clean(LAB.get()?)
    };
    glusterfs_is_killed_and_cleaned: 600 s, GLUSTERFS.kill_and_clean(LAB.get()?);
    survives_loss_with_two_copies: 300 s, lost_server::check_replica();
    reports_loss_with_one_copy: 300 s, lost_server::check_distribute();
    measures_moosefs_with_and_without_fsync: 600 s, {
        measured(&Subject { settings: "fsync = [0, 1]", ..MOOSEFS }, 2)
    };
    measures_moosefs_with_four_chunk_servers: 600 s, {
        let target = "tmpfs_size = \"2GiB\"\nroles = { data = NODES }";
        measured(&Subject { target, settings: "servers = 4", ..MOOSEFS }, 1)
    };
    measures_moosefs_in_room_for_one: 600 s, {
        let small = Subject { target: "tmpfs_size = \"1200MiB\"", ..MOOSEFS };
        let report = small.report(LAB.get()?, THREE_TRIALS)?;
        ensure!(states(&report) == ["done"; 3], "{report}");
        Ok(())
    };
    moosefs_is_killed_and_cleaned: 600 s, MOOSEFS.kill_and_clean(LAB.get()?);
    kills_and_cleans_glusterfs_at_random: 1800 s, {
        let on_disk = "devices = [\"/srv/data/disk\"]\nloop_size = \"300MiB\"";
        Subject { target: on_disk, ..GLUSTERFS }.kill_at_moments(LAB.get()?, 10)
    };
    go_nfs_is_measured: 600 s, measured(&GO_NFS, 1);
    go_nfs_is_killed_and_cleaned: 600 s, GO_NFS.kill_and_clean(LAB.get()?);
    juicefs_is_measured: 600 s, measured(&JUICEFS, 1);
    juicefs_is_killed_and_cleaned: 600 s, JUICEFS.kill_and_clean(LAB.get()?);
    measures_rclone_with_both_caches: 600 s, {
        measured(&Subject { settings: "cache_mode = [\"full\", \"writes\"]", ..RCLONE }, 2)
    };
    rclone_is_killed_and_cleaned: 600 s, RCLONE.kill_and_clean(LAB.get()?);
    finds_uploads_after_acknowledgement: 600 s, finds_late_uploads();
    seaweedfs_is_measured: 600 s, measured(&SEAWEEDFS, 1);
    measures_seaweedfs_on_four_hosts: 600 s, {
        let target = "tmpfs_size = \"2GiB\"\nroles = { data = NODES }";
        measured(&Subject { target, settings: "servers = 4\ncopies = 2", ..SEAWEEDFS }, 1)
    };
    seaweedfs_is_killed_and_cleaned: 600 s, SEAWEEDFS.kill_and_clean(LAB.get()?);
    measures_our_server_with_settings: 600 s, {
        measured(&Subject { settings: "threads = [1, 2]", ..OURS }, 2)
    };
    kills_and_cleans_our_server: 600 s, OURS.kill_and_clean(LAB.get()?);
    keeps_secret_to_itself: 300 s, secret_search::check_own_server(LAB.get()?, false);
    hides_secret_that_program_prints: 300 s, secret_search::check_own_server(LAB.get()?, true);
}

const CEPHFS: Subject = Subject {
    system: "cephfs",
    target: "tmpfs_size = \"5GiB\"",
    settings: "",
    port: 6789,
    is_mounted: true,
};

const GLUSTERFS: Subject = Subject {
    system: "glusterfs",
    target: "tmpfs_size = \"600MiB\"",
    settings: "layout = \"replica\"",
    port: 24007,
    is_mounted: true,
};

/// All of its layouts.
const LAYOUTS: &str = "layout = [\"distribute\", \"replica\", \"disperse\"]";

const MOOSEFS: Subject = Subject {
    system: "moosefs",
    target: "tmpfs_size = \"2GiB\"",
    settings: "servers = 2",
    port: 9421,
    is_mounted: true,
};

const GO_NFS: Subject = Subject {
    system: "go-nfs",
    target: "backend = \"nfs\"\nnfsvers = 3\ntmpfs_size = \"600MiB\"",
    settings: "",
    port: 20496,
    is_mounted: false,
};

const JUICEFS: Subject = Subject {
    system: "juicefs",
    target: "tmpfs_size = \"1GiB\"",
    settings: "",
    port: 20503,
    is_mounted: true,
};

const RCLONE: Subject = Subject {
    system: "rclone",
    target: "backend = \"nfs\"\nnfsvers = 3\ntmpfs_size = \"600MiB\"",
    settings: "",
    port: 20497,
    is_mounted: false,
};

const SEAWEEDFS: Subject = Subject {
    system: "seaweedfs",
    target: "tmpfs_size = \"2GiB\"",
    settings: "",
    port: 9333,
    is_mounted: true,
};

/// Three trials that write 500 MiB, with two copies of everything: together more than the available
/// space.
const THREE_TRIALS: &str = r#"
[[workload]]
kind = "stream"
passes = ["write"]
file_size = "250MiB"
io_size = ["256KiB", "512KiB", "1MiB"]
"#;

const OURS: Subject = Subject {
    system: "dfsbench",
    target: "backend = \"nfs\"\nnfsvers = 4.1",
    settings: "threads = 2",
    port: 20494,
    is_mounted: false,
};

/// A bucket behind a cache that uploads at once or after 2 s: only the latter acknowledges data
/// that isn't there, and takes as long to drain. Reads come from the bucket in both cases.
fn finds_late_uploads() -> Result<()> {
    let lab = LAB.get()?;
    let plan = LATE.replace("HOSTS", &lab.named_hosts(&["server", "client"]));
    let output = secret_search::run_with_secret(lab, &plan)?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{errors}");
    let results = lab.folder.path().join("secret.db");
    let report: Value = serde_json::from_slice(&PROGRAM.report(&results, "json")?)?;
    let figures = report["figures"].as_array().context("no figures")?;
    let of = |run: u64, pass: &str| {
        let found = figures.iter().find(|one| one["run"] == run && one["pass"] == pass);
        found.with_context(|| format!("no {pass} of run {run}: {report}"))
    };
    for (run, is_late) in [(0, false), (1, true)] {
        let write = of(run, "write")?.to_string();
        ensure!(write.contains("acknowledged-before-upload") == is_late, "{write}");
        let drain_ns = of(run, "write")?["drain_ns"].as_u64().context("no time to drain")?;
        ensure!(!is_late || drain_ns > 1_000_000_000, "drained after {drain_ns} ns");
        let read = of(run, "read")?;
        ensure!(read["rate"].is_object(), "{read}");
        ensure!(!read.to_string().contains("not-evicted"), "{read}");
    }
    let facts = report["runs"].to_string();
    ensure!(facts.contains("in the bucket when acknowledged"), "{facts}");
    ensure!(facts.contains("before, 0 after it was emptied"), "{facts}");
    Ok(())
}

const LATE: &str = r#"
name = "late"
HOSTS
[[target]]
name = "bucket"
server = "server"
client = "client"
system = "rclone-s3"
backend = "nfs"
nfsvers = 3
tmpfs_size = "600MiB"
[target.secrets]
access_key = { env = "DFSBENCH_CHECK_SECRET" }
secret_key = { env = "DFSBENCH_CHECK_SECRET" }
[target.settings]
write_back_s = [0, 2]
[[workload]]
kind = "stream"
file_size = "4MiB"
verify = true
"#;

fn measured(subject: &Subject, settings: usize) -> Result<()> {
    subject.measure_short(LAB.get()?, settings)
}
