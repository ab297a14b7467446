//! File servers that recipes set up on hosts over real sshd and that are not packaged for Debian
//! 12: rclone, unfs3 and ZeroFS.
//!
//! They have to be on PATH: rclone 1.65 or later (`go install github.com/rclone/rclone@v1.76.0`),
//! unfs3 built from source, and ZeroFS (`cargo install zerofs`). So only `cargo xtask real
//! unpackaged` runs it.

use anyhow::{Context as _, Result, ensure};
use checks::check::Fixture;
use checks::hosts::{Lab, OURS};
use checks::systems::Subject;
use checks::{checks, secret_search};
use serde_json::Value;

static LAB: Fixture<Lab> = Fixture::new(|| Lab::start(4));

checks! {
    measures_rclone_with_both_caches: 600 s, {
        measured(&Subject { settings: "cache_mode = [\"full\", \"writes\"]", ..RCLONE }, 2)
    };
    rclone_is_killed_and_cleaned: 600 s, RCLONE.kill_and_clean(LAB.get()?);
    finds_uploads_after_acknowledgement: 600 s, finds_late_uploads();
    unfs3_is_measured: 600 s, measured(&UNFS3, 1);
    unfs3_is_killed_and_cleaned: 600 s, UNFS3.kill_and_clean(LAB.get()?);
    zerofs_is_measured: 600 s, measured(&ZEROFS, 1);
    zerofs_is_killed_and_cleaned: 600 s, ZEROFS.kill_and_clean(LAB.get()?);
}

const RCLONE: Subject = Subject {
    system: "rclone",
    target: "backend = \"nfs\"\nnfsvers = 3\ntmpfs_size = \"600MiB\"",
    settings: "",
    port: 20497,
    is_mounted: false,
};

const ZEROFS: Subject = Subject {
    system: "zerofs",
    target: "backend = \"nfs\"\nnfsvers = 3\ntmpfs_size = \"600MiB\"",
    settings: "",
    port: 20498,
    is_mounted: false,
};

const UNFS3: Subject = Subject {
    system: "unfs3",
    target: "backend = \"nfs\"\nnfsvers = 3\ntmpfs_size = \"600MiB\"",
    settings: "",
    port: 20495,
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
    let report: Value = serde_json::from_slice(&OURS.report(&results, "json")?)?;
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
