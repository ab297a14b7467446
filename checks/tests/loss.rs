//! Our client over a network that drops packets: TCP retransmissions are reported. Over two links
//! to one server, of which one is cut. And over links to the data servers of a pNFS cluster.
//!
//! Network namespaces, of a client, a router and servers, exist for one check and are gone with its
//! processes. The router drops, as a full switch or a bad link does: drops in a host's own
//! queue are visible to its TCP, which does not count them. Creating namespaces needs root.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

use std::process::Command;

use anyhow::{Result, ensure};
use checks::checks;
use serde_json::Value;
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

/// Arguments: directory and program. Two links of 100 Mbit/s to a server: a pass over the first
/// one, over both, and over both until the second one is cut, which then answers nothing.
const LINKS: &str = r#"
set -eu
cd "$1"
program=$2
unshare --net sleep 60 &
server=$!
started=$server
trap 'kill $started' EXIT
until [ "$(readlink /proc/$server/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
for link in 1 2; do
    ip link add "link$link" type veth peer name "eth$link" netns $server
    ip addr add "10.77.$link.1/24" dev "link$link"
    ip link set "link$link" up
    nsenter --target $server --net sh -ec "
        ip addr add 10.77.$link.2/24 dev eth$link
        ip link set eth$link up"
    tc qdisc add dev "link$link" root tbf rate 100mbit burst 64kb limit 2mb
done
nsenter --target $server --net \
    "$program" serve --listen 0.0.0.0 --allow 10.77.0.0/16 --port 20490 > serve.log 2>&1 &
started="$! $started"
until grep -q 20490 serve.log; do kill -0 $!; sleep 0.02; done
run() {
    "$program" run 'nfs://10.77.1.2:20490,10.77.2.2/export?version=4.1' --workload stream \
        --passes write --workers 1 --trials 1 --quiet "$@" > run.log 2>&1 || cat run.log
    "$program" report --format json
}
run --file-size 16MiB --max-connect 1,2 > links.json
sent() { tc -s qdisc show dev link2 | awk '/Sent/ { print $2; exit }'; }
before=$(sent)
(
    until [ "$(sent)" -gt $((before + 4000000)) ]; do sleep 0.01; done
    ip link set link2 down
) &
run --file-size 24MiB --timeout 2s > cut.json
"#;

/// Arguments: directory and program. A metadata server and four data servers, each behind a link of
/// 50 Mbit/s in both directions; writes and reads with the first one, and with all four in layouts
/// of both types.
const CLUSTER: &str = r#"
set -eu
cd "$1"
program=$2
started=
trap 'kill $started 2> /dev/null' EXIT
echo 1 > /proc/sys/net/ipv4/ip_forward
namespace() {
    unshare --net sleep 60 &
    host=$!
    started="$started $host"
    until [ "$(readlink /proc/$host/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
    ip link add "link$1" type veth peer name eth0 netns $host
    ip addr add "10.77.$1.1/24" dev "link$1"
    ip link set "link$1" up
    nsenter --target $host --net sh -ec "
        ip addr add 10.77.$1.2/24 dev eth0
        ip link set lo up
        ip link set eth0 up
        ip route add default via 10.77.$1.1"
}
serve() {
    log=$1
    shift
    nsenter --target $host --net "$program" serve --listen 0.0.0.0 --allow 10.77.0.0/16 \
        --port 20490 "$@" > "$log" 2>&1 &
    server=$!
    started="$server $started"
    until grep -q 20490 "$log"; do kill -0 $server; sleep 0.02; done
}
for number in 1 2 3 4; do
    namespace $number
    tc qdisc add dev "link$number" root tbf rate 50mbit burst 64kb limit 2mb
    nsenter --target $host --net tc qdisc add dev eth0 root tbf rate 50mbit burst 64kb limit 2mb
    serve "data$number.log" --data-server
done
namespace 9
measure() {
    addresses=$(seq -s, -f '10.77.%g.2:20490/export' 1 "$2")
    serve "$1$2.log" --data-servers "$addresses" --layouts "$1" --stripe-unit 64KiB
    "$program" run 'nfs://10.77.9.2:20490/export?version=4.1' --workload stream --pnfs on \
        --file-size "$(($2 * 6))MiB" --workers 1 --trials 1 --quiet > run.log 2>&1 || cat run.log
    "$program" report --format json > "$1$2.json"
    kill -INT $server
    wait $server || true
}
measure flexfiles 1
measure flexfiles 4
measure files 4
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
    two_links_double_the_rate: 60 s, {
        let folder = TempDir::new()?;
        let mut command = Command::new("unshare");
        command.args(["--net", "timeout", "--kill-after=5", "50", "bash", "-c", LINKS, "links"]);
        command.arg(folder.path()).arg(OURS.command().get_program());
        proc::capture_text(&mut command)?;
        let read = |name: &str| -> Result<Value> {
            Ok(serde_json::from_str(&std::fs::read_to_string(folder.path().join(name))?)?)
        };
        let links = read("links.json")?;
        let [one, two] = [0, 1].map(|at| links["figures"][at]["rate"]["median"].as_f64());
        let gain = two.unwrap_or_default() / one.unwrap_or(f64::INFINITY);
        println!("  two links: {gain:.2} times the rate of one");
        ensure!((1.8..2.2).contains(&gain), "{gain}: {}", links["figures"]);
        let pass = &read("cut.json")?["runs"][0]["trials"][0]["passes"][0];
        let codes = pass["caveats"].as_array().into_iter().flatten().map(|it| &it["code"]);
        ensure!(codes.into_iter().any(|code| code == "path-lost"), "{pass}");
        let lost = &pass["addresses"][1];
        ensure!(lost["lost_connections"] == 1 && lost["moved_calls"] != 0, "{lost}");
        let done = [0, 1].map(|at| pass["addresses"][at]["ops"].as_u64().unwrap_or(0));
        ensure!(done.iter().sum::<u64>() == 24, "{pass}");
        Ok(())
    };
    four_data_servers_quadruple_rate: 60 s, {
        let folder = TempDir::new()?;
        let mut command = Command::new("unshare");
        command.args(["--net", "timeout", "--kill-after=5", "50", "bash", "-c", CLUSTER]);
        command.arg("cluster").arg(folder.path()).arg(OURS.command().get_program());
        proc::capture_text(&mut command)?;
        let rates = |name: &str| -> Result<[f64; 2]> {
            let text = std::fs::read_to_string(folder.path().join(format!("{name}.json")))?;
            let figures = &serde_json::from_str::<Value>(&text)?["figures"];
            Ok([0, 1].map(|at| figures[at]["rate"]["median"].as_f64().unwrap_or_default()))
        };
        let alone = rates("flexfiles1")?;
        for layouts in ["flexfiles4", "files4"] {
            let together = rates(layouts)?;
            let [written, read] = [0, 1].map(|at| together[at] / alone[at]);
            println!("  {layouts}: {written:.2} times one for writes, {read:.2} for reads");
            ensure!((3.6..4.4).contains(&written) && (3.6..4.4).contains(&read), "{together:?}");
            // Nothing went through the metadata server.
            let log = std::fs::read_to_string(folder.path().join(format!("{layouts}.log")))?;
            ensure!(log.contains("through this server: 0 bytes read, 0 written"), "{log}");
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
