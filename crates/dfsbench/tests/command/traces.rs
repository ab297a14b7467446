//! `dfsbench capture`, `dfsbench describe` and `dfsbench replay`: traces, and one clear error for
//! files that are not traces.

use crate::cli::{Cli, ServedProcess};

/// Writes a pcap file with the UDP datagrams of an NFS v3 NULL call and its reply.
pub fn write_pcap(path: &std::path::Path) {
    write_pcap_of(path, 0, &[], &[]);
}

/// Writes a pcap file with the UDP datagrams of an NFS v3 call and its reply.
fn write_pcap_of(path: &std::path::Path, procedure: u32, arguments: &[u32], results: &[u32]) {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let call: Vec<u8> = words(&[&[7, 0, 2, 100_003, 3, procedure, 0, 0, 0, 0], arguments].concat());
    let reply: Vec<u8> = words(&[&[7, 1, 0, 0, 0, 0], results].concat());
    let mut file: Vec<u8> = words(&[0xa1b2_3c4d, 0x0002_0004, 0, 0, 65535, 101]);
    for (number, payload) in [call, reply].iter().enumerate() {
        let len = 28 + payload.len() as u16;
        let mut packet = vec![0x45, 0, 0, len as u8, 0, 0, 0, 0, 64, 17, 0, 0];
        let client = [10, 0, 0, 1];
        let server = [10, 0, 0, 2];
        packet.extend(if number == 0 { [client, server] } else { [server, client] }.concat());
        let ports = if number == 0 { [700_u16, 2049] } else { [2049, 700] };
        packet.extend(ports.map(u16::to_be_bytes).concat());
        packet.extend([0, 8 + payload.len() as u8, 0, 0]);
        packet.extend(payload);
        let kept = packet.len() as u32;
        let head: Vec<u8> = words(&[1_700_000_000, 1000 * number as u32, kept, kept]);
        file.extend(head);
        file.extend(packet);
    }
    std::fs::write(path, file).unwrap();
}

#[test]
fn converts_capture_to_trace() {
    let cli = Cli::new();
    write_pcap(&cli.folder().join("nfs.pcap"));
    let end = cli.run(&["capture", "nfs.pcap", "-o", "nfs.dfst"]);
    assert_eq!((end.code, end.stdout.as_str()), (0, ""), "{end:?}");
    let want = "1 calls with 1 operations, 1 replies, 1 clients, 1 connections; ";
    assert!(end.stderr.starts_with(want), "{end:?}");
    assert!(!end.stderr.contains("incomplete"), "{end:?}");
    let file = std::fs::read(cli.folder().join("nfs.dfst")).unwrap();
    assert_eq!(file[..8], *b"\x89DFST\r\n\x1a");
    let mut quiet = cli.command(&["capture", "nfs.pcap", "-o", "-", "--quiet"]);
    let quiet = quiet.output().unwrap();
    assert!(quiet.status.success() && quiet.stderr.is_empty(), "{quiet:?}");
    assert_eq!(quiet.stdout[..8], file[..8]);
}

#[test]
fn imports_and_replays_programs() {
    let cli = Cli::new();
    let text = "7 1.0 openat(AT_FDCWD, \"a\", O_RDWR) = 3 <0.1>\n\
                7 1.2 pwrite64(3, \"x\"..., 512, 4096) = 512 <0.1>\n\
                7 1.4 read(3, \"x\"..., 4096) = 4096 <0.1>\n\
                7 1.6 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3, 0) = 0x7f86d2af1000 <0.1>\n\
                7 1.7 fallocate(3, FALLOC_FL_COLLAPSE_RANGE, 0, 512) = 0 <0.1>\n";
    std::fs::write(cli.folder().join("app.strace"), text).unwrap();
    let args = ["capture", "--from", "strace", "app.strace", "--root", "/r", "-o", "app.dfst"];
    let end = cli.run(&args);
    assert_eq!((end.code, end.stdout.as_str()), (0, ""), "{end:?}");
    insta::assert_snapshot!(end.stderr);
    let described = cli.run(&["describe", "app.dfst"]).stdout;
    assert!(described.contains("1 file was mapped"), "{described}");
    let end = cli.run(&["replay", "app.dfst", "target", "--closed"]);
    assert_eq!(end.code, 0, "{end:?}");
    assert!(end.stdout.contains("3 operations of 1 client"), "{end:?}");
    cli.assert_target_is_empty();
}

#[test]
fn rejects_bad_imports() {
    let cli = Cli::new();
    for (name, text) in [
        ("x.txt", "hello\n"),
        ("x.strace", "7 1.0 open(\"/etc/a\", O_RDONLY) = 3 <0.1>\n"),
        ("x.log", "fio version 2 iolog\n/a add\n/a read 5\n"),
    ] {
        std::fs::write(cli.folder().join(name), text).unwrap();
    }
    let from = |kind, file, more: &[&'static str]| {
        [&["capture", "-o", "x.dfst", "--from", kind, file], more].concat()
    };
    insta::assert_snapshot!(cli.errors_of(&[
        &from("strace", "x.strace", &[]),
        &from("strace", "x.strace", &["--root", "data"]),
        &from("strace", "x.strace", &["--root", "/data"]),
        &from("strace", "x.txt", &["--root", "/data"]),
        &from("strace", "none", &["--root", "/data"]),
        &from("strace", "x.strace", &["x.txt", "--root", "/data"]),
        &from("iolog", "x.txt", &[]),
        &from("iolog", "x.log", &[]),
        &from("blktrace", "x.log", &[]),
        &["capture", "-o", "x.dfst", "x.log", "--root", "/data"],
    ]));
}

/// Writes a pcap file with TCP segments of NULL calls: one call, the given number joined, and one
/// again. `snap` bytes of each packet are kept; 0 keeps all, as in tcpdump.
fn write_joined_pcap(path: &std::path::Path, joined: u32, snap: usize) {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect();
    // A record mark for 40 bytes, followed by the call.
    let call =
        |xid: u32| -> Vec<u8> { words(&[0x8000_0028, xid, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]) };
    let mut file: Vec<u8> = words(&[0xa1b2_3c4d, 0x0002_0004, 0, 0, 65535, 101]);
    let mut sequence = 1000_u32;
    let calls = |xids: std::ops::Range<u32>| xids.flat_map(call).collect::<Vec<u8>>();
    for payload in [calls(0..1), calls(1..joined + 1), calls(joined + 1..joined + 2)] {
        let len = 40 + payload.len();
        let mut packet = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 0, 0, 0, 64, 6, 0, 0];
        packet.extend([[10, 0, 0, 1], [10, 0, 0, 2]].concat());
        packet.extend([700_u16, 2049].map(u16::to_be_bytes).concat());
        packet.extend([sequence.to_be_bytes(), 0_u32.to_be_bytes()].concat());
        packet.extend([0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend(&payload);
        packet.truncate(if snap == 0 { len } else { snap });
        let head: Vec<u8> = words(&[1_700_000_000, sequence, packet.len() as u32, len as u32]);
        file.extend([head, packet].concat());
        sequence += payload.len() as u32;
    }
    std::fs::write(path, file).unwrap();
}

/// Returns the snap length of each tcpdump command line in a text.
fn snap_lengths(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for line in text.lines().filter(|line| line.trim_start().starts_with("tcpdump ")) {
        let given = line.split_once(" -s ").and_then(|(_, rest)| rest.split(' ').next());
        found.push(given.map_or(0, |bytes| bytes.parse().unwrap()));
    }
    found
}

#[test]
fn documented_captures_lose_nothing() {
    let cli = Cli::new();
    let calls_kept = |snap: usize| {
        write_joined_pcap(&cli.folder().join("joined.pcap"), 9, snap);
        let end = cli.run(&["capture", "joined.pcap", "-o", "joined.dfst"]);
        let count = end.stderr.split(' ').next().unwrap().parse::<u32>();
        count.unwrap_or_else(|_| panic!("{end:?}"))
    };
    let page = snap_lengths(include_str!("../../../../docs/trace.md"));
    let help = snap_lengths(&cli.run(&["capture", "--help"]).stdout);
    assert!(!page.is_empty() && !help.is_empty());
    for snap in [page, help].concat() {
        assert_eq!(calls_kept(snap), 11, "tcpdump -s {snap}");
    }
    assert!(calls_kept(256) < 11);
}

#[test]
fn incomplete_trace_is_marked_first() {
    let cli = Cli::new();
    let pcap = cli.folder().join("joined.pcap");
    write_joined_pcap(&pcap, 2, 0);
    let whole = cli.run(&["capture", "joined.pcap", "-o", "whole.dfst"]).stderr;
    assert!(whole.starts_with("4 calls ") && !whole.contains("hint"), "{whole}");
    write_joined_pcap(&pcap, 2, 84);
    let cut = cli.run(&["capture", "joined.pcap", "-o", "cut.dfst"]).stderr;
    assert!(cut.starts_with("3 calls ") && cut.contains("hint: truncated packets"), "{cut}");
    assert!(cut.contains("tcpdump -s 0"), "{cut}");
    let text = cli.run(&["describe", "cut.dfst"]).stdout;
    let second = text.lines().nth(1).unwrap_or_default();
    assert!(second.starts_with("Incomplete: 100 % "), "{text}");
    write_pcap(&pcap);
    assert_eq!(cli.run(&["capture", "joined.pcap", "-o", "pair.dfst", "--quiet"]).code, 0);
    let text = cli.run(&["describe", "pair.dfst"]).stdout;
    assert!(!text.contains("Incomplete"), "{text}");
}

#[test]
fn joins_captures_and_stdin() {
    let cli = Cli::new();
    write_pcap(&cli.folder().join("nfs.pcap"));
    let whole = std::fs::read(cli.folder().join("nfs.pcap")).unwrap();
    // The call and its reply in one file each, both with the header.
    let call_end = 24 + 16 + 68;
    let file = |name: &str, bytes: &[u8]| std::fs::write(cli.folder().join(name), bytes).unwrap();
    file("first.pcap", &whole[..call_end]);
    file("second.pcap", &[&whole[..24], &whole[call_end..]].concat());
    let end = cli.run(&["capture", "first.pcap", "second.pcap", "-o", "nfs.dfst"]);
    assert!(end.stderr.starts_with("1 calls with 1 operations, 1 replies"), "{end:?}");
    let mut command = cli.command(&["capture", "-", "-o", "piped.dfst"]);
    command.stdin(std::fs::File::open(cli.folder().join("nfs.pcap")).unwrap());
    let output = command.output().unwrap();
    assert!(output.stderr.starts_with(b"1 calls with 1 operations, 1 replies"), "{output:?}");
    let text = cli.run(&["describe", "piped.dfst"]).stdout;
    assert!(text.contains("v3 NULL"), "{text}");
}

#[test]
fn rejects_file_that_is_no_capture() {
    let cli = Cli::new();
    let file = |name: &str, bytes: &[u8]| std::fs::write(cli.folder().join(name), bytes).unwrap();
    file("empty", b"");
    file("text", b"hello, world");
    file("packed", &[0x1f, 0x8b, 8, 0, 0, 0]);
    write_pcap(&cli.folder().join("nfs.pcap"));
    let whole = std::fs::read(cli.folder().join("nfs.pcap")).unwrap();
    file("short", &whole[..10]);
    file("none", &whole[..24]);
    insta::assert_snapshot!(cli.errors_of(&[
        &["capture", "empty", "-o", "nfs.dfst"],
        &["capture", "text", "-o", "nfs.dfst"],
        &["capture", "packed", "-o", "nfs.dfst"],
        &["capture", "short", "-o", "nfs.dfst"],
        &["capture", "none", "-o", "nfs.dfst"],
        &["capture", "missing", "-o", "nfs.dfst"],
        &["capture", "target", "-o", "nfs.dfst"],
    ]));
    cli.refused(&["capture", "nfs.pcap", "-o", "target"], 2, &["`target`: it is a directory"]);
    cli.refused(&["capture", "nfs.pcap"], 2, &["--output"]);
    // The part before the cut is read, and that is reported.
    file("cut", &whole[..whole.len() - 1]);
    let end = cli.run(&["capture", "cut", "-o", "nfs.dfst"]);
    assert_eq!(end.code, 0, "{end:?}");
    assert!(end.stderr.contains("warning: `cut` ends"), "{end:?}");
    assert!(end.stderr.contains("missing: 1 call without its reply"), "{end:?}");
}

#[test]
fn describes_trace_and_makes_plan() {
    let cli = Cli::new();
    write_pcap(&cli.folder().join("nfs.pcap"));
    assert_eq!(cli.run(&["capture", "nfs.pcap", "-o", "nfs.dfst", "--quiet"]).code, 0);
    let text = cli.run(&["describe", "nfs.dfst"]);
    assert_eq!((text.code, text.stderr.as_str()), (0, ""));
    assert!(text.stdout.contains("1 call in 1.00 µs from "), "{}", text.stdout);
    assert!(text.stdout.contains("v3 NULL"), "{}", text.stdout);
    let markdown = cli.run(&["describe", "nfs.dfst", "--format", "markdown"]).stdout;
    assert!(markdown.contains("| v3 NULL | 1 | 100.0 % |"), "{markdown}");
    let json = cli.run(&["describe", "nfs.dfst", "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["calls"], &json["end"]["counters"]["replies"]), (&1.into(), &1.into()));
    let plan = cli.run(&["describe", "nfs.dfst", "--as-plan"]);
    assert!(plan.stdout.contains("shares = { null = 100.00 }"), "{plan:?}");
    assert!(plan.stdout.contains("differs from the trace:"), "{plan:?}");
    std::fs::write(cli.folder().join("load.toml"), plan.stdout).unwrap();
    let dry = cli.run(&["run", "load.toml", "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
}

/// A trace, `nfs.dfst`, next to files that are not traces.
fn beside_bad_traces() -> Cli {
    let cli = Cli::new();
    write_pcap(&cli.folder().join("nfs.pcap"));
    assert_eq!(cli.run(&["capture", "nfs.pcap", "-o", "nfs.dfst", "--quiet"]).code, 0);
    let whole = std::fs::read(cli.folder().join("nfs.dfst")).unwrap();
    let file = |name: &str, bytes: &[u8]| std::fs::write(cli.folder().join(name), bytes).unwrap();
    file("empty", b"");
    file("cut", &whole[..whole.len() - 1]);
    let mut damaged = whole;
    damaged[40] ^= 1;
    file("damaged", &damaged);
    cli
}

#[test]
fn rejects_file_that_is_no_trace() {
    let cli = beside_bad_traces();
    for (name, words) in [
        ("empty", &["trace `empty` is empty"][..]),
        ("nfs.pcap", &["trace `nfs.pcap` is not a trace", "dfsbench capture"]),
        ("cut", &["trace `cut` is cut off at byte", "after 1 calls"]),
        ("damaged", &["trace `damaged` is damaged at byte 12", "checksum"]),
        ("missing", &["can't read trace `missing`"]),
    ] {
        cli.refused(&["describe", name], 2, words);
    }
}

#[test]
fn replays_trace_and_compares() {
    let cli = Cli::new();
    write_pcap(&cli.folder().join("nfs.pcap"));
    assert_eq!(cli.run(&["capture", "nfs.pcap", "-o", "nfs.dfst", "--quiet"]).code, 0);
    let end = cli.run(&["replay", "nfs.dfst", "embedded", "--speed", "1,2", "--quiet"]);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    for words in [
        "nfs.dfst on embedded (NFS v3)",
        "at the speed of the trace: ",
        "2 times as fast as the trace: ",
        "1 operations of 1 client on a tree of 0 objects: 1 issued, 1 ended, 0 could not be issued",
        "NULL",
    ] {
        assert!(end.stdout.contains(words), "{words}: {}", end.stdout);
    }
    for (name, version) in [("a.json", "3"), ("b.json", "4.1")] {
        let json = ["--closed", "--format", "json", "--nfsvers", version];
        let end = cli.run(&[&["replay", "nfs.dfst", "embedded"], &json[..]].concat());
        assert_eq!(end.code, 0, "{end:?}");
        assert!(end.stderr.contains("replaying 1 operations, as fast as"), "{end:?}");
        std::fs::write(cli.folder().join(name), end.stdout).unwrap();
    }
    let end = cli.run(&["compare", "a.json", "b.json"]);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    assert!(end.stdout.contains("B: nfs.dfst on embedded (NFS v4.1)"), "{end:?}");
    assert!(end.stdout.contains("\n  A: done"), "{end:?}");
    assert!(end.stdout.contains("\n  B: done"), "{end:?}");
    let prepared = ["replay", "nfs.dfst", "embedded", "--tree", "t", "--prepare-only"];
    let end = cli.run(&prepared);
    assert_eq!((end.code, end.stdout.as_str()), (0, ""), "{end:?}");
}

#[test]
fn failed_replay_says_so_first() {
    let cli = Cli::new();
    // READ of 4 bytes at the start of a file, which succeeds in the trace.
    let arguments = [8, 1, 2, 0, 0, 4];
    let results = [0, 0, 4, 1, 4, 0];
    write_pcap_of(&cli.folder().join("nfs.pcap"), 6, &arguments, &results);
    assert_eq!(cli.run(&["capture", "nfs.pcap", "-o", "nfs.dfst", "--quiet"]).code, 0);
    let replay = |url: &str| cli.run(&["replay", "nfs.dfst", url, "--quiet"]);
    let end = replay(&ServedProcess::start(&cli, &["--fault", "error READ IO 100%"]).url);
    assert_eq!(end.code, 4, "{end:?}");
    let headline = "at the speed of the trace: 1 of 1 operation failed";
    assert!(end.stdout.contains(headline) && !end.stdout.contains("kept up"), "{end:?}");
    let end = replay(&ServedProcess::start(&cli, &[]).url);
    assert!(end.code == 0 && !end.stdout.contains("operation failed"), "{end:?}");
}

#[test]
fn writes_same_to_file_and_terminal() {
    let cli = beside_bad_traces();
    let read = |name: &str| std::fs::read_to_string(cli.folder().join(name)).unwrap();
    for format in ["text", "markdown", "html", "json"] {
        let describe = ["describe", "nfs.dfst", "--format", format];
        let printed = cli.run(&describe).stdout;
        let end = cli.run(&[&describe[..], &["-o", "out"]].concat());
        assert_eq!((end.code, end.stdout.as_str()), (0, ""), "{end:?}");
        assert!(!printed.is_empty());
        assert_eq!(read("out"), printed, "{format}");
    }
    let replay = ["replay", "nfs.dfst", "embedded", "--quiet", "--format", "json"];
    let end = cli.run(&[&replay[..], &["--output", "a.json"]].concat());
    assert_eq!((end.code, end.stdout.as_str()), (0, ""), "{end:?}");
    let compare = ["compare", "a.json", "a.json"];
    let printed = cli.run(&compare).stdout;
    assert!(printed.contains("A: nfs.dfst on embedded"), "{printed}");
    let end = cli.run(&[&compare[..], &["-o", "out"]].concat());
    assert_eq!((end.code, end.stdout.as_str(), read("out")), (0, "", printed));
    let end = cli.run(&[&compare[..], &["--quiet"]].concat());
    assert_eq!((end.code, end.stdout.as_str()), (0, ""), "{end:?}");
}

#[test]
fn does_not_overwrite_own_input() {
    let cli = beside_bad_traces();
    std::fs::hard_link(cli.folder().join("nfs.dfst"), cli.folder().join("other name")).unwrap();
    let end = cli.run(&["replay", "nfs.dfst", "embedded", "--format", "json", "-o", "a.json"]);
    assert_eq!(end.code, 0, "{end:?}");
    let content = |name: &str| std::fs::read(cli.folder().join(name)).unwrap();
    for (args, read) in [
        (&["capture", "nfs.pcap", "-o", "nfs.pcap"][..], "nfs.pcap"),
        (&["describe", "nfs.dfst", "-o", "nfs.dfst"], "nfs.dfst"),
        (&["describe", "nfs.dfst", "-o", "other name"], "nfs.dfst"),
        (&["replay", "nfs.dfst", "embedded", "-o", "nfs.dfst"], "nfs.dfst"),
        (&["compare", "a.json", "a.json", "-o", "a.json"], "a.json"),
    ] {
        let before = content(read);
        cli.refused(args, 2, &["it is read by this command", "name another file"]);
        assert_eq!(content(read), before, "{args:?}");
    }
}

#[test]
fn rejects_trace_that_cannot_be_replayed() {
    let cli = beside_bad_traces();
    std::fs::write(cli.folder().join("text.json"), b"{}").unwrap();
    let beyond = ["replay", "nfs.dfst", "embedded", "--window", "60s..70s"];
    for (args, words) in [
        (&["replay", "empty", "embedded"][..], &["trace `empty` is empty"][..]),
        (&["replay", "nfs.pcap", "embedded"], &["trace `nfs.pcap` is not a trace"]),
        (&["replay", "cut", "embedded"], &["trace `cut` is cut off at byte"]),
        (&["replay", "missing", "embedded"], &["can't read trace `missing`"]),
        (
            &["replay", "nfs.dfst", "null"],
            &["`null` is neither an NFS server", "nfs://host/export"],
        ),
        (&beyond, &["trace `nfs.dfst` has no calls between 60 s and 70 s", "describe"]),
        (&["replay", "nfs.dfst", "embedded", "--window", "9"], &["--window: `9` has no `..`"]),
        (&["replay", "nfs.dfst", "embedded", "--speed", "0"], &["--speed: `0` is not a factor"]),
        (&["replay", "nfs.dfst", "embedded", "--nfsvers", "5"], &["--nfsvers: `5`", "4.1"]),
        (&["replay", "nfs.dfst", "embedded", "--tree", "a/b"], &["--tree: `a/b`", "export"]),
        (&["replay", "nfs.dfst", "embedded", "--prepare-only"], &["--tree"]),
        (&["replay", "nfs.dfst", "embedded", "--think-times"], &["--closed"]),
        (&["replay", "nfs.dfst", "embedded", "--window", "9:00.."], &["begin with a time", "UTC"]),
        (
            &["replay", "nfs.dfst", "embedded", "--hosts", "a,b"],
            &[
                "--hosts: `embedded` is not an NFS server that other hosts can reach",
                "dfsbench serve",
            ],
        ),
        (&["replay", "nfs.dfst", ".", "--hosts", "a"], &["--hosts: `.` is not an NFS server"]),
        (
            &["replay", "nfs.dfst", "nfs://127.0.0.1/e", "--hosts", "a,b,a"],
            &["--hosts: `a` is named twice"],
        ),
        (&["replay", "nfs.dfst", "embedded", "--ssh-config", "f"], &["--hosts"]),
        (&["compare", "text.json", "text.json"], &["`text.json` is not a replay", "--format json"]),
        (
            &["compare", "a.json", "b.json", "--max-loss", "5%"],
            &["--max-loss does not apply to replays"],
        ),
        (
            &["compare", "a.json", "b.json", "--where", "workers=1"],
            &["--where does not apply to replays"],
        ),
    ] {
        cli.refused(args, 2, words);
    }
    let several = ["replay", "nfs.dfst", "embedded", "--speed", "1,2", "--tree", "t"];
    cli.refused(&several, 2, &["--tree: one tree can't serve several speeds"]);
    let closed = "nfs://127.0.0.1:1/export?mountport=1";
    cli.refused(&["replay", "nfs.dfst", closed], 3, &["127.0.0.1"]);
}
