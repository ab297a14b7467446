//! A GlusterFS volume on two hosts of a [`Lab`], one of which is lost for good while a third host
//! writes: tests what `dfsbench durability` finds left.
//!
//! See [`lose`]. Each volume has its own bricks on the first two hosts; the servers of the second
//! one are killed and its bricks removed, so that nothing can come back.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::check::wait_until;
use crate::durability::{check_kept, check_lost, measure};
use crate::hosts::{Lab, OURS, PATIENCE};
use crate::proc::Background;

/// The hosts with bricks, and the one that mounts the volume.
const SERVERS: [usize; 2] = [0, 1];
const CLIENT: usize = 2;

/// The promises to measure, as an application requests them.
const PROMISES: [&str; 2] = ["sync", "osync"];

/// Measures a volume on two servers, with the layout in `words`, and loses the second one.
///
/// # Errors
/// If the volume can't be created, or dfsbench finds nothing.
pub fn lose(words: &[&str]) -> Result<Value> {
    let lab = Lab::start(3)?;
    let _daemons = SERVERS
        .into_iter()
        .map(|host| start_glusterd(&lab, host))
        .collect::<Result<Vec<_>, _>>()?;
    gluster(&lab, &["peer", "probe", "10.79.0.2"])?;
    wait_until(PATIENCE, "both peers", || {
        gluster(&lab, &["pool", "list"]).is_ok_and(|text| text.matches("Connected").count() == 2)
    })?;
    let bricks = ["10.79.0.1:/srv/brick", "10.79.0.2:/srv/brick"];
    gluster(&lab, &[&["volume", "create", "lost"], words, &bricks, &["force"]].concat())?;
    gluster(&lab, &["volume", "start", "lost"])?;
    let mount = "mkdir -p /tmp/mnt; exec glusterfs --volfile-server=10.79.0.1 --volfile-id=lost \
                 --log-file=/tmp/client.log /tmp/mnt";
    wait_until(PATIENCE, "the mount", || {
        lab.run_on(CLIENT, &["sh", "-c", mount]).is_ok()
            && lab.run_on(CLIENT, &["mountpoint", "/tmp/mnt"]).is_ok()
            && lab.run_on(CLIENT, &["ls", "/tmp/mnt"]).is_ok()
    })?;
    let command = |_: usize, event: &str| {
        let program = OURS.command().get_program().to_owned();
        let mut command = lab.command_on(CLIENT);
        command.arg(program).args(["durability", "/tmp/mnt", "--rounds", "2", "--quiet"]);
        command.args(["--promise", &PROMISES.join(","), "--format", "json"]);
        command.args(["--lose-server", "h2", "--confirm-lose-server", "h2"]);
        command.args(["--lose-command", event, "--back-within", "5s"]);
        command.arg("--results").arg(lab.shared.path().join("results.db"));
        command
    };
    let event = || {
        let killed = lab.kill_programs(SERVERS[1], "gluster")?;
        ensure!(killed >= 2, "{killed} programs of the server were killed");
        lab.run_on(SERVERS[1], &["rm", "-rf", "/srv/brick"]).map(drop)
    };
    let mut reports = measure(lab.shared.path(), 1, &command, &event)?;
    reports.pop().context("no report")
}

/// Checks that a volume with two copies keeps everything acknowledged.
pub fn check_replica() -> Result<()> {
    check_kept(&lose(&["replica", "2"])?, &PROMISES, "survives loss of a server")
}

/// Checks that a distributed volume loses the files on the lost server.
pub fn check_distribute() -> Result<()> {
    check_lost(&lose(&[])?, &PROMISES, "none")
}

fn start_glusterd(lab: &Lab, host: usize) -> Result<Background> {
    // The directories of its state and of its sockets are the host's own.
    lab.run_on(host, &["mkdir", "-p", "/var/lib/glusterd", "/run/gluster"])?;
    let mut command = lab.command_on(host);
    command.args(["glusterd", "-N", "-l", "/tmp/glusterd.log", "-p", "/run/glusterd.pid"]);
    let daemon = Background::start(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    let answers = || lab.run_on(host, &["gluster", "--mode=script", "pool", "list"]).is_ok();
    let waited = wait_until(PATIENCE, "glusterd", answers);
    waited.with_context(|| lab.run_on(host, &["cat", "/tmp/glusterd.log"]).unwrap_or_default())?;
    Ok(daemon)
}

/// Runs the GlusterFS command line on the first host.
fn gluster(lab: &Lab, words: &[&str]) -> Result<String> {
    lab.run_on(SERVERS[0], &[&["gluster", "--mode=script"], words].concat())
}
