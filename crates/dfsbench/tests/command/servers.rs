//! NFS servers that refuse, don't answer, fill up or go away.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::cli::{Cli, End, ServedProcess};

/// The most time that anything here may take on a machine at a tenth of its usual speed.
const PATIENCE: Duration = Duration::from_secs(90);

fn run_against(cli: &Cli, url: &str, args: &[&str]) -> End {
    let args: Vec<&str> =
        ["run", url, "--quiet", "--trials", "1"].iter().chain(args).copied().collect();
    cli.run(&args)
}

#[test]
fn a_server_that_is_not_there() {
    let cli = Cli::new();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("nfs://127.0.0.1:{port}/export?mountport={port}");
    cli.refused(&["run", &url], 3, &["refused", "hint"]);
}

#[test]
fn a_server_that_does_not_answer() {
    let cli = Cli::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("nfs://127.0.0.1:{port}/export?mountport={port}");
    cli.refused(&["run", &url, "--timeout", "500ms"], 3, &["no answer", "within 0.5 s"]);
    let begun = Instant::now();
    cli.refused(&["run", &url], 3, &["no answer"]);
    let waited = begun.elapsed();
    assert!(waited > Duration::from_secs(4) && waited < PATIENCE, "{waited:?}");
}

#[test]
fn a_server_that_refuses_the_mount() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--fault", "refuse-mount"]);
    cli.refused(&["run", &served.url], 3, &["hint", "insecure"]);
}

#[test]
fn an_export_that_is_not_there() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &[]);
    let url = served.url.replace("/export", "/exprot");
    cli.refused(&["run", &url], 3, &["/exprot", "/export"]);
}

#[test]
fn reports_server_that_fills_up() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--memory", "8MiB"]);
    let end = run_against(&cli, &served.url, &["--workload", "stream", "--file-size", "32MiB"]);
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("ENOSPC"), "{}", end.stdout);
    // The written files have been removed, so the next run has enough space.
    let end = run_against(&cli, &served.url, &["--workload", "stream", "--file-size", "4MiB"]);
    assert_eq!(end.code, 0, "{end:?}");
}

#[test]
fn a_server_stays_within_its_memory() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--memory", "64MiB"]);
    let before = served.peak_memory_mib();
    // Send half of a 1 MiB record over each of many connections, and keep them open.
    let half = [&[0x80, 0x10, 0, 0][..], &vec![0; 1 << 19]].concat();
    let mut streams = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port())).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut rest = &half[..];
        while let Ok(sent @ 1..) = stream.write(rest) {
            rest = &rest[sent..];
        }
        streams.push(stream);
    }
    // It serves others in the meantime.
    let args = ["--workload", "stream", "--file-size", "4MiB", "--io-size", "32KiB"];
    let end = run_against(&cli, &served.url, &args);
    assert_eq!(end.code, 0, "{end:?}");
    let grown = served.peak_memory_mib() - before;
    assert!(grown < 64, "{grown} MiB more");
}

#[test]
fn reports_server_that_goes_away() {
    let cli = Cli::new();
    let mut served = ServedProcess::start(&cli, &[]);
    let url = served.url.clone();
    // A small file is prepared quickly, so that the mix runs when the server stops.
    let args = ["--workload=mixed", "--file-size=1MiB", "--duration=20s", "--timeout=2s"];
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run_against(&cli, &url, &args));
        // The results file is created when the first trial begins.
        let results = cli.folder().join("dfsbench.db");
        let patience = Instant::now() + Duration::from_secs(20);
        while !results.exists() && Instant::now() < patience {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        std::thread::park_timeout(Duration::from_millis(1500));
        served.kill();
        let begun = Instant::now();
        let end = running.join().unwrap();
        assert_eq!(end.code, 4, "{end:?}");
        assert!(end.stdout.contains("lost"), "{}", end.stdout);
        assert!(begun.elapsed() < PATIENCE);
    });
    let report = cli.run(&["report", "--format", "csv"]);
    assert_eq!(report.code, 0);
    let rows: Vec<&str> = report.stdout.lines().collect();
    assert!(rows[1].contains(",mix,") && rows[1].contains("invalid"), "{}", report.stdout);
    let json = cli.run(&["report", "--format", "json"]).stdout;
    assert!(json.contains("\"passes\":[{"), "passes that ended before are stored");
}

#[test]
fn reports_server_that_falls_silent() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--fault", "hang-after 3000"]);
    let args = ["--workload", "mixed", "--duration", "300s", "--timeout", "700ms"];
    let begun = Instant::now();
    let end = run_against(&cli, &served.url, &args);
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("no answer"), "{}", end.stdout);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}
