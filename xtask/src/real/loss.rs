//! Our client over a network that drops what is too much for it: what TCP sends again is told.
//!
//! Three network namespaces, a client, a router and a server, are there for one check and are gone
//! with its processes. The router drops, as a full switch does: what a host's own queue drops, its
//! TCP is told of and does not count. Making namespaces needs root.

use std::process::Command;

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::Checks;
use super::ours::Ours;
use crate::proc;
use crate::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);

/// Arguments: folder, program, and the queue of the router towards the server, as tc(8) has it.
const SCRIPT: &str = r#"
set -eu
cd "$1"
program=$2
queue=$3
started=
trap 'kill $started' EXIT
# Starts a namespace beside that of the router, which this script is in.
namespace() {
    unshare --net sleep 100 &
    started="$started $!"
    until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
    ip link add "$1" type veth peer name eth0 netns $!
    ip addr add "10.77.$2.1/24" dev "$1"
    ip link set "$1" up
    nsenter --target $! --net sh -ec "
        ip addr add 10.77.$2.2/24 dev eth0
        ip link set lo up
        ip link set eth0 up
        ip route add default via 10.77.$2.1"
}
namespace client 1
client=$!
namespace server 2
server=$!
echo 1 > /proc/sys/net/ipv4/ip_forward
[ -z "$queue" ] || tc qdisc add dev server root $queue
nsenter --target $server --net \
    "$program" serve --listen 10.77.2.2 --allow 10.77.1.0/24 --port 20490 > serve.log 2>&1 &
started="$! $started"
until grep -q 20490 serve.log; do kill -0 $!; sleep 0.02; done
nsenter --target $client --net "$program" run 'nfs://10.77.2.2:20490/export' --workload stream \
    --passes write --file-size 16MiB --workers 1 --trials 1 --quiet 2>&1
echo "exit $?"
"#;

/// Runs the checks of this group.
pub fn run(checks: &mut Checks) {
    checks.run("segments that a full queue drops are told", || {
        let said = over("tbf rate 400mbit burst 128kb limit 128kb")?;
        ensure!(
            said.contains("tcp-retransmits"),
            "nothing is said of what was sent again:\n{said}"
        );
        ensure!(said.contains("RetransSegs of /proc/net/snmp"), "no source:\n{said}");
        Ok(())
    });
    checks.run("nothing is said where nothing is dropped", || {
        let said = over("")?;
        ensure!(!said.contains("tcp-retransmits"), "an innocent network is accused:\n{said}");
        Ok(())
    });
}

/// Writes over a router with this queue; returns what is said of it.
fn over(queue: &str) -> Result<String> {
    let folder = TempDir::new()?;
    let mut command = Command::new("unshare");
    command.args(["--net", "timeout", "--kill-after=5", "90", "bash", "-c", SCRIPT, "loss"]);
    command.arg(folder.path()).arg(OURS.command().get_program()).arg(queue);
    let said = proc::text(&mut command)?;
    ensure!(said.ends_with("exit 0\n"), "{said}");
    Ok(said)
}
