//! `dfsbench serve` and `dfsbench probe`: refused arguments, offered protocols and planted faults.

use std::net::TcpListener;

use crate::cli::{Cli, End, ServedProcess};

#[test]
fn rejects_impossible_server() {
    let cli = Cli::new();
    for (args, words) in [
        (&["--listen", "0.0.0.0"][..], &["--listen", "0.0.0.0", "--allow"][..]),
        (&["--listen", "here"], &["--listen", "`here`", "0.0.0.0"]),
        (&["--allow", "10.0.0.0/8"], &["--allow", "127.0.0.1", "--listen"]),
        (&["--listen", "::", "--allow", "10.0.0.0/33"], &["--allow", "`10.0.0.0/33`"]),
        (&["--nfsvers", "3,4"], &["--nfsvers", "`4`", "4.1"]),
        (&["--nfsvers", "3", "--data-servers", "2"], &["--nfsvers", "`3`", "4.1", "hint"]),
        (&["--memory", "10kB"], &["--memory", "`10kB`", "1 MiB"]),
        (&["--fault", "drpo 1%"], &["--fault", "`drpo`", "`drop`"]),
        (&["--fault", "drop 1%", "--fault", "drop 2%"], &["--fault", "drop 2%"]),
        (&["--tls-ca-out", "ca.pem"], &["--tls-ca-out", "--tls"]),
        (&["--tls-client-ca", "ca.pem"], &["--tls-client-ca", "--tls"]),
        (&["--tls", "--tls-client-ca", "no.pem"], &["--tls-client-ca", "`no.pem`"]),
        (&["--tls", "--tls-cert", "no.pem", "--tls-key", "no.key"], &["--tls-cert", "`no.pem`"]),
    ] {
        cli.refused(&[&["serve"], args].concat(), 2, words);
    }
}

#[test]
fn names_versions_that_have_layouts() {
    let run = ["run", "nfs://127.0.0.1/export", "--pnfs", "on"];
    Cli::new().refused(&run, 2, &["--pnfs: applies only to nfs", "4.1 or 4.2", "default is 3"]);
    let folder = ["run", "data", "--pnfs", "on"];
    let refusal = Cli::new().refused(&folder, 2, &["--pnfs: ", "`data` is a directory"]);
    assert!(!refusal.contains("default is 3"), "{refusal}");
}

#[test]
fn reports_taken_or_privileged_port() {
    let cli = Cli::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    cli.refused(&["serve", "--port", &port], 3, &[&port, "hint", "--port"]);
    cli.refused(&["serve", "--listen", "192.0.2.1", "--allow", "192.0.2.2"], 3, &["192.0.2.1"]);
}

#[test]
fn probes_offers_of_server() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--nfsvers", "2,3", "--tls"]);
    let table = cli.run(&["probe", &served.url]);
    assert_eq!(table.code, 0, "{table:?}");
    for words in [
        "NFS 2, 3\n",
        "tried:     NFS 4.0 (COMPOUND of PUTROOTFH over tcp: version mismatch",
        "TLS:       offered",
        "calls from any port",
        "/export",
        "everyone",
        "8 KiB",
        "1 MiB",
    ] {
        assert!(table.stdout.contains(words), "{words}: {}", table.stdout);
    }
    let json = cli.run(&["probe", &served.url, "--format", "json"]).stdout;
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["versions"], serde_json::json!(["2", "3"]));
    assert_eq!(found["tls"], true);
    assert_eq!(found["resvport_needed"], false);
    assert_eq!(found["xattrs_supported"]["error"], "version mismatch: 2 to 3");
    assert_eq!(found["stopped_answering"], serde_json::Value::Null);
    assert_eq!(found["versions_tried"].as_array().map(Vec::len), Some(7));
    assert_eq!(found["exports"][0]["path"], "/export");
    assert_eq!(found["exports"][0]["limits"][1]["limits"]["rtmax_bytes"], 1 << 20);
    let round_trips = found["nfs"].as_array().unwrap().iter();
    let answered = round_trips.filter(|service| service["null"]["median_ns"].as_u64() > Some(0));
    // Versions 2 and 3, each over TCP and UDP; version 4 is reported as an error.
    assert_eq!(answered.count(), 4, "{json}");
    assert!(json.contains("version mismatch: 2 to 3"), "{json}");
}

#[test]
fn fails_probe_without_answer() {
    let cli = Cli::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    cli.refused(
        &["probe", &format!("nfs://{free}")],
        3,
        &["nothing answers at 127.0.0.1", "refused", "hint"],
    );
    cli.refused(&["probe", "nfs://no.such.host.invalid"], 3, &["no.such.host.invalid"]);
    cli.refused(&["probe", "http://h"], 2, &["http://h"]);
    cli.refused(&["probe", "h", "--timeout", "soon"], 2, &["--timeout", "`soon`"]);
    let served = ServedProcess::start(&cli, &[]);
    let url = served.url.replace("/export", "/exprot");
    cli.refused(&["probe", &url], 3, &["`/exprot` is not exported", "/export"]);
}

#[test]
fn a_planned_fault_is_met() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--fault", "error WRITE NOSPC 100%"]);
    let stream = ["--workload", "stream", "--file-size", "1MiB", "--trials", "1", "--quiet"];
    let end = cli.run(&[&["run", &served.url], &stream[..]].concat());
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("ENOSPC") || end.stdout.contains("NOSPC"), "{}", end.stdout);
    // The same settings in a plan make the embedded server do the same.
    let plan = "name = \"p\"\ntrials = 1\n[server.faults]\nrefuse_mount = true\n\
                [[target]]\nname = \"n\"\nembedded = true\n[[workload]]\nkind = \"stream\"\n";
    std::fs::write(cli.folder().join("p.toml"), plan).unwrap();
    cli.refused(&["run", "p.toml"], 3, &["refused to mount", "hint"]);
}

#[test]
fn a_server_may_want_reserved_ports() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--fault", "reserved-ports"]);
    let names = ["--workload", "metadata", "--small-files", "10", "--trials", "1", "--quiet"];
    let refused = [&["run", &served.url], &names[..]].concat();
    cli.refused(&refused, 3, &["refused to mount", "resvport"]);
    let probe = cli.run(&["probe", &served.url, "--format", "json"]);
    // Without permission to use such a port the answer is unknown, but it must not be false.
    assert!(!probe.stdout.contains("\"resvport_needed\": false"), "{probe:?}");
}

#[test]
fn hints_at_open_file_limit() {
    let cli = Cli::new();
    let flags =
        "--workload mixed --workers 64 --file-size 64KiB --duration 100ms --trials 1 --quiet";
    for target in ["embedded", "target"] {
        let program = env!("CARGO_BIN_EXE_dfsbench");
        let script = format!("ulimit -n 40; exec '{program}' run {target} {flags}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(cli.folder());
        let end = End::from_output(shell.output().unwrap());
        assert!(end.code == 3 || end.code == 4, "{end:?}");
        let output = format!("{}{}", end.stdout, end.stderr);
        assert!(output.contains("ulimit -n"), "{target}: {output}");
    }
}

#[test]
fn reports_impossible_settings() {
    let cli = Cli::new();
    let stream = ["--workload", "stream", "--file-size", "1MiB", "--trials", "1", "--quiet"];
    let run = |more: &[&str]| cli.run(&[&["run", "embedded"], &stream[..], more].concat());
    let table = run(&["--nfsvers", "3,4.1", "--proto", "udp,tcp", "--dry-run"]);
    assert_eq!(table.code, 0, "{table:?}");
    assert!(table.stdout.contains("none: v4.1 "), "{}", table.stdout);
    assert!(table.stdout.contains("3 runs x 1 trial = 3 trials"), "{}", table.stdout);
    let transfers = run(&["--proto", "tcp", "--nfsvers", "2,3", "--transfer-size", "32KiB"]);
    assert!(transfers.stdout.contains("not possible: v2 "), "{transfers:?}");
    for (args, words) in [
        (&["--nfsvers", "4.2", "--proto", "udp"][..], &["--proto", "v4.2 runs over TCP only"][..]),
        (&["--nfsvers", "2", "--file-size", "2GiB"], &["file too large for v2"]),
        (&["--proto", "udp", "--xprtsec", "tls"], &["TLS runs over TCP only"]),
        (&["--nfsvers", "4"], &["--nfsvers", "`4`", "4.0, 4.1 or 4.2"]),
        (&["--timeo", "1s"], &["--timeo", "udp"]),
    ] {
        cli.refused(&[&["run", "embedded", "--workload", "stream"], args].concat(), 2, words);
    }
}
