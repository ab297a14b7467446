//! Two campaigns on one export, each on a machine of its own. If they run at the same time, each
//! names the other; if they run one after the other, neither does.

use std::thread;

use anyhow::{Context, Result, ensure};
use checks::check::wait_until;
use checks::hosts::PATIENCE;
use checks::ours::find_evidence;
use checks::vm::lab::Lab;

use super::plans::Plans;
use super::{NEW, OLD};

/// A mount by the kernel, and our own client.
const TARGETS: [&str; 2] = ["/mnt/nfs", "nfs://10.77.0.1/export"];
/// Trials of a campaign that is interrupted before its end, and of the other one.
const LONG: u32 = 1_000;
const SHORT: u32 = 2;
const INTERRUPT: &str = "kill -INT $(pidof dfsbench)";
/// How long a campaign may take, in seconds.
const CAMPAIGN_MAX_S: u32 = 250;

/// Checks that campaigns name each other if and only if they run at the same time.
pub fn named(plans: &Plans<'_>) -> Result<()> {
    let lab = plans.lab();
    for host in [NEW, OLD] {
        lab.ssh(host, "mount -t nfs -o vers=4.2 server:/export /mnt/nfs")?;
    }
    TARGETS.into_iter().try_for_each(|target| check_target(lab, target))?;
    [NEW, OLD].into_iter().try_for_each(|host| lab.ssh(host, "umount /mnt/nfs").map(drop))
}

fn check_target(lab: &Lab, target: &str) -> Result<()> {
    let [long, short] = thread::scope(|scope| -> Result<_> {
        let long = scope.spawn(|| measure(lab, NEW, target, LONG));
        wait_until(PATIENCE, "the first campaign", || {
            lab.ssh("server", "ls -d /export/.dfsbench-*").is_ok()
        })?;
        let short = measure(lab, OLD, target, SHORT);
        lab.ssh(NEW, INTERRUPT)?;
        Ok([long.join().expect("a campaign does not panic")?, short?])
    })?;
    let both = long.is_some() && short.is_some();
    ensure!(both, "{target}: {NEW} found {long:?}, {OLD} found {short:?}");
    for host in [NEW, OLD] {
        let found = measure(lab, host, target, SHORT)?;
        ensure!(found.is_none(), "{target}: nobody else was there, but {host} found {found:?}");
    }
    Ok(())
}

/// Measures a target on a machine. Returns the evidence for another campaign, if there is any.
fn measure(lab: &Lab, host: &str, target: &str, trials: u32) -> Result<Option<String>> {
    let line = format!(
        "dfsbench run {target} --workload stream --file-size 1MiB --trials {trials} --quiet \
         --format json --results $(mktemp -d)/results.db || [ $? = 4 ]"
    );
    let text = lab.ssh_within(host, &line, CAMPAIGN_MAX_S)?;
    let report = serde_json::from_str(&text).with_context(|| format!("no JSON: {text}"))?;
    find_evidence(&report, "concurrent-campaign")
}
