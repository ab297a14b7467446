//! Traces of our own traffic: `dfsbench capture` has to count the same as tshark in the same
//! capture.
//!
//! [`check_counts`] captures a short run of an op mix and compares the calls of each procedure of
//! v2, v3 and MOUNT, and of each operation of v4. [`check_python`] runs the reader printed in
//! `docs/design/trace-format.md`. [`check_replay`] replays such a run on another server.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tempfile::TempDir;

use crate::capture::{Capture, parse_numbers};
use crate::interop::Protocol;
use crate::libnfs::Export;
use crate::ours::{Ours, Run};
use crate::{proc, repo};

/// Maximum number of captures of a run before we give up on a busy machine.
const CAPTURES_MAX: u32 = 4;

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;

/// Fields read from each frame.
const FIELDS: [&str; 8] = [
    "rpc.msgtyp",
    "rpc.program",
    "nfs.procedure_v2",
    "nfs.procedure_v3",
    "nfs.opcode",
    "mount.procedure_v1",
    "mount.procedure_v3",
    "tcp.analysis.lost_segment",
];

/// The load: a few thousand calls of all kinds in a second.
const LOAD: [&str; 14] = [
    "--workload",
    "op_mix",
    "--set-per-rate",
    "8KiB",
    "--rate",
    "400",
    "--duration",
    "500ms",
    "--trials",
    "1",
    "--workers",
    "2",
    "--quiet",
    "--nfsvers",
];

/// Calls by protocol (`v2`, `v3`, `v4`, `mount`) and number.
type Counts = BTreeMap<(String, u32), u64>;

/// The part of a description that is compared.
#[derive(Deserialize)]
struct Description {
    end: End,
    kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct End {
    counters: Counters,
}

#[derive(Deserialize)]
struct Counters {
    calls: u64,
    calls_again: u64,
    calls_after_reply: u64,
    calls_without_reply: u64,
    replies: u64,
    replies_without_call: u64,
    segments_lost: u64,
    messages_malformed: u64,
    messages_cut: u64,
}

#[derive(Deserialize)]
struct Kind {
    version: String,
    number: u32,
    ops: u64,
}

/// Captures a run over a protocol and compares the counts; repeated if the capture lost something.
pub fn check_counts(ours: Ours, protocol: Protocol, export: &Export) -> Result<()> {
    for _ in 0..CAPTURES_MAX {
        let capture = capture_run(ours, protocol, export)?;
        let dissected = capture.dissect("rpc", &FIELDS)?;
        let folder = TempDir::with_prefix("dfsbench-trace-")?;
        let trace = folder.path().join("trace.dfst");
        let description = describe(ours, capture.file(), &trace)?;
        let Counters { calls_again, calls_after_reply, segments_lost, .. } =
            description.end.counters;
        // tshark counts a call each time it was sent.
        let is_quiet = calls_again + calls_after_reply + segments_lost == 0;
        let Some(want) = count_dissected(&dissected)? else { continue };
        if is_quiet {
            return compare(&want, &description);
        }
    }
    bail!("{CAPTURES_MAX} captures in a row lost packets: the machine is too busy")
}

/// Captures a run, and counts the calls of its trace with the reader in the documentation.
pub fn check_python(ours: Ours, protocol: Protocol, export: &Export) -> Result<()> {
    ensure!(proc::on_path("python3"), "python3 is missing");
    let capture = capture_run(ours, protocol, export)?;
    let folder = TempDir::with_prefix("dfsbench-trace-")?;
    let trace = folder.path().join("trace.dfst");
    let description = describe(ours, capture.file(), &trace)?;
    let documentation = fs::read_to_string(repo::root().join("docs/design/trace-format.md"))?;
    let (_, rest) = documentation.split_once("```python\n").context("no program in Python")?;
    let (program, _) = rest.split_once("```").context("the program has no end")?;
    let script = folder.path().join("read.py");
    fs::write(&script, program)?;
    let printed = proc::capture_text(Command::new("python3").arg(&script).arg(&trace))?;
    let mut calls = 0;
    let mut ops = 0;
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [count, "calls,", of_ops, "operations"] = words[..] {
            calls += count.parse::<u64>()?;
            ops += of_ops.parse::<u64>()?;
        }
    }
    let want_ops: u64 = description.kinds.iter().map(|kind| kind.ops).sum();
    let want = (description.end.counters.calls, want_ops);
    ensure!(
        (calls, ops) == want,
        "{calls} calls, {ops} operations instead of {want:?}:\n{printed}"
    );
    Ok(())
}

/// Printed result of a replay.
#[derive(Deserialize)]
struct Replay {
    outcomes: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    ops: u64,
    issued: u64,
    accounted: u64,
    kinds: Vec<ReplayedKind>,
}

#[derive(Deserialize)]
struct ReplayedKind {
    kind: String,
    ops: u64,
    unexpected_errors: u64,
    bytes: u64,
}

/// Bytes transferred by a replay.
#[derive(Debug, PartialEq, Eq)]
pub struct TransferredBytes {
    /// Bytes of READ and READ_PLUS.
    pub read: u64,
    /// Bytes of WRITE.
    pub written: u64,
}

/// Captures a run over a protocol and replays it in a directory and on another server, over the
/// same protocol or another one: each operation is executed and ends as in the trace.
pub fn check_replay(ours: Ours, protocol: Protocol, export: &Export, target: &str) -> Result<()> {
    for _ in 0..CAPTURES_MAX {
        let capture = capture_run(ours, protocol, export)?;
        let folder = TempDir::with_prefix("dfsbench-trace-")?;
        let trace = folder.path().join("trace.dfst");
        let description = describe(ours, capture.file(), &trace)?;
        // A later operation may depend on something that was lost.
        if description.end.counters.segments_lost > 0 {
            continue;
        }
        let directory = folder.path().to_str().context("its path is not UTF-8")?;
        for target in [directory, target] {
            replay_faithfully(ours.command(), &trace, target)?;
        }
        return Ok(());
    }
    bail!("{CAPTURES_MAX} captures in a row lost packets: the machine is too busy")
}

/// Replays a trace with a command of our program: each operation ends as in the trace. Returns the
/// bytes transferred.
pub fn replay_faithfully(
    mut command: Command,
    trace: &Path,
    target: &str,
) -> Result<TransferredBytes> {
    command.arg("replay").arg(trace).arg(target).args(["--closed", "--format", "json"]);
    let json = proc::capture_output(&mut command)?.stdout;
    let replay: Replay = serde_json::from_slice(&json).context("no replay was printed")?;
    let outcome = replay.outcomes.first().context("nothing was replayed")?;
    let Outcome { ops, issued, accounted, .. } = *outcome;
    ensure!(ops > 100 && issued == ops && accounted == ops, "{ops}, {issued}, {accounted}");
    let mut moved = TransferredBytes { read: 0, written: 0 };
    for kind in &outcome.kinds {
        let ReplayedKind { kind, ops, unexpected_errors, bytes } = kind;
        ensure!(*unexpected_errors == 0, "{unexpected_errors} of {ops} {kind} failed");
        match kind.as_str() {
            "READ" | "READ_PLUS" => moved.read += bytes,
            "WRITE" => moved.written += bytes,
            _ => {}
        }
    }
    Ok(moved)
}

/// Captures loopback in its own network namespace, with dumpcap and with dfsbench, while an op mix
/// is running: both traces have the same operations, and nothing is counted twice.
pub fn check_interface(ours: Ours) -> Result<()> {
    let folder = TempDir::with_prefix("dfsbench-trace-")?;
    // Each capture records its start: ours is the time of its socket, so it starts first.
    let script = "ip link set lo up || exit 1
        $OURS capture --interface lo -o live.dfst --quiet & live=$!
        dumpcap -q -i lo -B 64 -w by.pcapng 2>/dev/null & by=$!
        for try in $(seq 100); do [ -s by.pcapng ] && break; sleep 0.1; done
        sleep 0.5
        $OURS run embedded --results r.db $LOAD 3 >/dev/null
        sleep 1; kill -INT $by; wait $by; kill -INT $live; wait $live
        $OURS capture by.pcapng -o by.dfst --quiet";
    for _ in 0..CAPTURES_MAX {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script]).current_dir(folder.path());
        command.env("OURS", ours.command().get_program()).env("LOAD", LOAD.join(" "));
        proc::capture_output(&mut command)?;
        let live = describe_trace(ours, &folder.path().join("live.dfst"))?;
        let by = describe_trace(ours, &folder.path().join("by.dfst"))?;
        if live.end.counters.segments_lost + by.end.counters.segments_lost > 0 {
            continue;
        }
        let count = |description: &Description| {
            let mut counts = Counts::new();
            for kind in &description.kinds {
                *counts.entry((kind.version.clone(), kind.number)).or_default() += kind.ops;
            }
            counts
        };
        let live_counts = count(&live);
        let by_counts = count(&by);
        ensure!(live_counts == by_counts, "dumpcap {by_counts:?}\ndfsbench {live_counts:?}");
        let Counters { calls, calls_again, calls_after_reply, .. } = live.end.counters;
        ensure!(calls > 100 && calls_again + calls_after_reply == 0, "{calls}, {calls_again}");
        return Ok(());
    }
    bail!("{CAPTURES_MAX} captures in a row lost packets: the machine is too busy")
}

/// Captures a short run.
fn capture_run(ours: Ours, protocol: Protocol, export: &Export) -> Result<Capture> {
    let folder = TempDir::with_prefix("dfsbench-trace-")?;
    let Export { port, mount_port, path } = export;
    let target = format!("nfs://127.0.0.1:{port}{path}?mountport={mount_port}");
    let mut flags = LOAD.to_vec();
    flags.extend([protocol.version, "--proto", protocol.proto]);
    let mut capture = Capture::start(*port)?;
    let results = folder.path().join("results.db");
    // Whether the result is fit to be quoted doesn't matter here.
    ours.try_run(&Run { target: &target, results: &results, flags: &flags })?;
    capture.end()?;
    Ok(capture)
}

fn describe(ours: Ours, captured: &Path, trace: &Path) -> Result<Description> {
    let mut command = ours.command();
    proc::capture_stdout(command.arg("capture").arg(captured).arg("--output").arg(trace))?;
    describe_trace(ours, trace)
}

fn describe_trace(ours: Ours, trace: &Path) -> Result<Description> {
    let mut command = ours.command();
    let json = proc::capture_stdout(command.arg("describe").arg(trace).args(["--format", "json"]))?;
    serde_json::from_slice(&json).context("`dfsbench describe` prints different JSON")
}

/// Counts calls in tshark's output, and replies under number 0 of `replies`; `None` if the capture
/// lost a segment.
fn count_dissected(text: &str) -> Result<Option<Counts>> {
    let mut counts = Counts::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [kinds, programs, v2, v3, v4, mount1, mount3, gap] = fields[..] else {
            bail!("tshark prints {line:?}");
        };
        if !gap.is_empty() {
            return Ok(None);
        }
        let kinds = parse_numbers(kinds)?;
        let programs = parse_numbers(programs)?;
        let is_traced = programs.iter().all(|program| [NFS, MOUNT].contains(program));
        if kinds.is_empty() || !is_traced {
            continue;
        }
        // A frame has messages of one direction, so they are all calls or all replies.
        if kinds[0] != 0 {
            *counts.entry(("replies".to_owned(), 0)).or_default() += kinds.len() as u64;
            continue;
        }
        for (name, numbers) in
            [("v2", v2), ("v3", v3), ("v4", v4), ("mount", mount1), ("mount", mount3)]
        {
            for number in parse_numbers(numbers)? {
                *counts.entry((name.to_owned(), number)).or_default() += 1;
            }
        }
    }
    Ok(Some(counts))
}

/// Compares all counts of both sides.
fn compare(want: &Counts, description: &Description) -> Result<()> {
    let counters = &description.end.counters;
    let mut got = Counts::new();
    for kind in &description.kinds {
        // tshark does not report a procedure for NULL calls of v4.
        if kind.version.starts_with("v4") && kind.number == 0 {
            continue;
        }
        let name = if kind.version.starts_with("mount") { "mount" } else { &kind.version[..2] };
        *got.entry((name.to_owned(), kind.number)).or_default() += kind.ops;
    }
    got.insert(("replies".to_owned(), 0), counters.replies);
    ensure!(*want == got, "tshark counts {want:?}\ndfsbench     {got:?}");
    ensure!(counters.calls > 100, "only {} calls were captured", counters.calls);
    let missing = counters.calls_without_reply + counters.replies_without_call;
    let undecoded = counters.messages_malformed + counters.messages_cut;
    ensure!(missing + undecoded == 0, "{missing} messages are missing, {undecoded} not decoded");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_dissected_calls_by_number() {
        let text = "0,0\t100003,100003\t\t7,6\t\t\t\t\n1\t100003\t\t7\t\t\t\t\n\
            0\t100003\t\t\t53,22,9\t\t\t\n0\t100005\t\t\t\t\t1\t\n0\t100000\t\t\t\t\t\t\n";
        let counts = count_dissected(text).unwrap().unwrap();
        let of = |name: &str, number| counts.get(&(name.to_owned(), number)).copied();
        assert_eq!((of("v3", 7), of("v3", 6), of("v4", 53)), (Some(1), Some(1), Some(1)));
        assert_eq!((of("mount", 1), of("replies", 0), counts.len()), (Some(1), Some(1), 7));
        assert!(count_dissected("0\t100003\t\t7\t\t\t\t1\n").unwrap().is_none());
    }
}
