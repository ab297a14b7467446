//! Our client over a network that drops what is too much for it: what TCP sends again is reported.
//!
//! Three network namespaces, a client, a router and a server, are there for one check and are gone
//! with its processes. The router drops, as a full switch does: what a host's own queue drops, its
//! TCP learns of and does not count. Making namespaces needs root.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

use std::process::Command;

use anyhow::{Result, ensure};
use checks::checks;
use tempfile::TempDir;

use checks::ours::Ours;
use checks::proc;
use checks::repo::Profile;

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
# With the evidence of each caveat.
"$program" report --all
echo "exit $?"
"#;

checks! {
    segments_that_a_full_queue_drops_are_reported: 100 s, {
        let text = write_over("tbf rate 400mbit burst 128kb limit 128kb")?;
        ensure!(text.contains("tcp-retransmits"), "no caveat about retransmissions:\n{text}");
        ensure!(text.contains("tcpi_total_retrans of TCP_INFO"), "no source:\n{text}");
        Ok(())
    };
    nothing_is_reported_where_nothing_is_dropped: 100 s, {
        let text = write_over("")?;
        ensure!(!text.contains("tcp-retransmits"), "a caveat without a loss:\n{text}");
        Ok(())
    };
}

/// Writes over a router with this queue; returns the report.
fn write_over(queue: &str) -> Result<String> {
    let folder = TempDir::new()?;
    let mut command = Command::new("unshare");
    command.args(["--net", "timeout", "--kill-after=5", "90", "bash", "-c", SCRIPT, "loss"]);
    command.arg(folder.path()).arg(OURS.command().get_program()).arg(queue);
    let text = proc::capture_text(&mut command)?;
    ensure!(text.ends_with("exit 0\n"), "{text}");
    Ok(text)
}
