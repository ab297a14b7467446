//! Our client over a network that drops packets: TCP retransmissions are reported.
//!
//! Three network namespaces, a client, a router and a server, exist for one check and are gone with
//! its processes. The router drops, as a full switch or a bad link does: drops in a host's own
//! queue are visible to its TCP, which does not count them. Creating namespaces needs root.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

use std::process::Command;

use anyhow::{Result, ensure};
use checks::checks;
use tempfile::TempDir;

use checks::ours::Ours;
use checks::proc;
use checks::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);

/// Arguments: directory, program, the router's queue towards the server, in tc(8) syntax, and the
/// side (`client` or `server`) to which the router drops packets; then those of the run.
///
/// One in 128 TCP packets goes to a queue without room: those whose identification, which counts
/// the packets of a connection, ends in these seven bits. A retransmission has another
/// identification, and handshake packets have 0.
const SCRIPT: &str = r#"
set -eu
cd "$1"
program=$2
queue=$3
lossy=$4
shift 4
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
if [ -n "$lossy" ]; then
    tc qdisc add dev "$lossy" root handle 1: htb default 1
    tc class add dev "$lossy" parent 1: classid 1:1 htb rate 10gbit burst 10mb quantum 60000
    tc class add dev "$lossy" parent 1: classid 1:2 htb rate 8bit quantum 60000
    tc qdisc add dev "$lossy" parent 1:2 pfifo limit 0
    tc filter add dev "$lossy" parent 1: protocol ip u32 \
        match u16 0x11 0x7f at 4 match ip protocol 6 0xff flowid 1:2
fi
nsenter --target $server --net \
    "$program" serve --listen 10.77.2.2 --allow 10.77.1.0/24 --port 20490 > serve.log 2>&1 &
started="$! $started"
until grep -q 20490 serve.log; do kill -0 $!; sleep 0.02; done
nsenter --target $client --net "$program" run 'nfs://10.77.2.2:20490/export' \
    --file-size 16MiB --workers 1 --trials 1 --quiet "$@" 2>&1
# With the evidence of each caveat.
"$program" report --all
echo "exit $?"
"#;

/// One large file, written.
const STREAM: &str = "--workload stream --passes write";

/// Small reads and writes, one at a time, each delayed by 200 ms per loss.
const MIX: &str = "--workload mixed --io-size 4KiB --queue-depth 1 --duration 4s";

checks! {
    reports_segments_dropped_by_full_queue: 100 s, {
        let text = run_over("tbf rate 400mbit burst 128kb limit 128kb", "", STREAM)?;
        ensure!(text.contains("tcp-retransmits"), "no caveat about retransmissions:\n{text}");
        ensure!(text.contains("tcpi_total_retrans of TCP_INFO"), "no source:\n{text}");
        Ok(())
    };
    reports_few_losses_in_both_directions: 100 s, {
        for lossy in ["server", "client"] {
            let text = run_over("", lossy, MIX)?;
            ensure!(text.contains("tcp-retransmits:"), "no caveat, {lossy}:\n{text}");
        }
        Ok(())
    };
    reports_nothing_without_drops: 100 s, {
        let text = run_over("", "", STREAM)?;
        ensure!(!text.contains("tcp-retransmits"), "a caveat without a loss:\n{text}");
        // Client and server are in different namespaces of one host.
        ensure!(text.contains("shared-host:"), "no note about the host:\n{text}");
        ensure!(text.contains("10.77.2.2, in another network namespace"), "{text}");
        Ok(())
    };
}

/// Runs over a router with this queue, which drops packets to one side; returns the words of the
/// report.
fn run_over(queue: &str, lossy: &str, run: &str) -> Result<String> {
    let folder = TempDir::new()?;
    let mut command = Command::new("unshare");
    command.args(["--net", "timeout", "--kill-after=5", "90", "bash", "-c", SCRIPT, "loss"]);
    command.arg(folder.path()).arg(OURS.command().get_program()).args([queue, lossy]);
    command.args(run.split(' '));
    let text = proc::capture_text(&mut command)?;
    ensure!(text.ends_with("exit 0\n"), "{text}");
    // Lines are wrapped to the terminal's width.
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}
