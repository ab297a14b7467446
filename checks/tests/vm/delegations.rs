//! A delegation from our server to the kernel's client, recalled because another client writes.
//!
//! The reader has a delegation of the file: it opens it again and again without a call, so it would
//! see the old text as long as the delegation lasts. Only a recall lets it see the new one, and
//! lets the writer continue before the lease expires.

use std::thread;

use anyhow::{Context, Result, ensure};
use checks::vm::guest::Mount;
use checks::vm::lab::Lab;

use super::{NEW, OLD};

const SOURCE: &str = "host:/export";
/// Time limit of the write: less than half of the lease of 90 s, after which the server would
/// revoke the delegation.
const WRITE_MAX_S: u64 = 45;

/// The second read makes no OPEN; we wait for the new text with opens that make none either, until
/// the delegation is recalled.
const READER: &str = "cd /mnt/nfs; rm -f ready; echo old >delegated; cd /; again; \
    cat /mnt/nfs/delegated; snapshot first; \
    for i in 1 2 3; do cat /mnt/nfs/delegated; done; snapshot again; echo >/mnt/nfs/ready; \
    for i in $(seq 500); do grep -q new /mnt/nfs/delegated && break; sleep 0.2; done; \
    cat /mnt/nfs/delegated; snapshot recalled; rm /mnt/nfs/delegated /mnt/nfs/ready";

const WRITER: &str = "for i in $(seq 500); do [ -e /mnt/nfs/ready ] && break; sleep 0.2; done; \
    cut -d. -f1 /proc/uptime; echo new >/mnt/nfs/delegated; cut -d. -f1 /proc/uptime";

/// Reads on one client under a delegation and writes on the other.
pub fn check(lab: &Lab, version: &str) -> Result<()> {
    let options = format!("vers={version},proto=tcp");
    // The writer must see the reader's mark as soon as it exists.
    let uncached = format!("vers={version},proto=tcp,noac,lookupcache=none");
    let reader = Mount { lab, client: NEW, source: SOURCE, options: &options };
    let writer = Mount { lab, client: OLD, source: SOURCE, options: &uncached };
    let (read, written) = thread::scope(|scope| {
        let written = scope.spawn(|| writer.run(WRITER));
        let read = reader.run(READER);
        (read, written.join().expect("the writer does not panic"))
    });
    let read = read?;
    let written = written?;
    ensure!(read.lines == ["old", "old", "old", "old", "new"], "it read {:?}", read.lines);
    let opens = |name: &str| -> Result<u64> {
        Ok(read.at(name)?.calls.get("OPEN").copied().unwrap_or_default())
    };
    let first = opens("first")?;
    let again = opens("again")?;
    ensure!(first == again, "{} OPENs under a delegation", again - first);
    let returned = |name: &str| -> Result<u64> {
        Ok(read.at(name)?.calls.get("DELEGRETURN").copied().unwrap_or_default())
    };
    let before = returned("again")?;
    let after = returned("recalled")?;
    ensure!((before, after) == (0, 1), "DELEGRETURN: {before} before the recall, {after} after");
    let [began, ended] = &written.lines[..] else {
        anyhow::bail!("the writer printed {:?}", written.lines)
    };
    let read_time = |text: &str| text.parse::<u64>().context("no uptime");
    let took_s = read_time(ended)? - read_time(began)?;
    ensure!(took_s < WRITE_MAX_S, "the write took {took_s} s");
    Ok(())
}
