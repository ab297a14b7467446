//! Output fits the terminal: 80, 120 and 200 columns, for each command that prints tables.

use crate::cli::{Cli, End};
use crate::traces::write_pcap;

/// Widths of terminals, in columns.
const WIDTHS: [&str; 3] = ["80", "120", "200"];

/// A matrix of 36 rows with one trial each.
const MATRIX: [&str; 14] = [
    "run",
    "null",
    "--workload",
    "mixed",
    "--duration",
    "20ms",
    "--warmup",
    "0s",
    "--workers",
    "1,2,4",
    "--io-size",
    "4KiB..128KiB*2",
    "--queue-depth",
    "1,8",
];

/// Records the output of a command in terminals of each width, and checks that it fits.
fn expect_fits(cli: &Cli, args: &[&str]) {
    for columns in WIDTHS {
        let end = End::from_output(cli.command(args).env("COLUMNS", columns).output().unwrap());
        assert!([0, 1, 4].contains(&end.code), "{args:?}: {end:?}");
        assert!(end.stdout.lines().count() > 2, "{args:?}: {end:?}");
        for line in end.stdout.lines() {
            // Text to be copied is on one line.
            let is_copied = line.starts_with("command ") || line.starts_with("uuid ");
            let width = line.chars().count();
            assert!(is_copied || width <= columns.parse().unwrap(), "{args:?} {columns}: {line}");
        }
    }
}

#[test]
fn fits_reports_to_terminal() {
    let cli = Cli::new();
    let short = ["--duration", "50ms", "--warmup", "0s", "--quiet"];
    let soak = ["soak", "--duration", "2s", "--segment", "2s", "--rate", "100", "--quiet"];
    let ladder = ["ladder", "--trials", "1", "--file-size", "1MiB", "--quiet"];
    let curve = ["curve", "--max-load", "2000"];
    let ramp = ["ramp", "--workload", "mixed", "--max", "4", "--file-size", "1MiB"];
    for question in [
        &[&MATRIX[..], &["--trials", "1", "--quiet"]].concat(),
        &[&curve[..], &short].concat(),
        &[&ramp[..], &short].concat(),
        &soak.to_vec(),
        &ladder.to_vec(),
    ] {
        let end = cli.run(question);
        assert!([0, 4].contains(&end.code), "{question:?}: {end:?}");
        for args in [&["report"][..], &["report", "--all"], &["show"]] {
            expect_fits(&cli, args);
        }
    }
    // If there are more than 30 rows, a terminal only shows the best and the worst.
    let rows = |args: &[&str]| cli.run(args).stdout.matches("null    mixed").count();
    assert_eq!(rows(&["report", "1", "--all"]), 36);
    assert!((2..=12).contains(&rows(&["report", "1"])), "{}", cli.run(&["report", "1"]).stdout);
    for args in [
        &["compare", "1", "1"][..],
        &["compare", "2", "2"],
        &["contenders", "1"],
        &["factors", "1"],
        &["list"],
        &["preset"],
        &["systems"],
        &["run", "null", "--dry-run"],
        &["run", "-h"],
        &["--help"],
    ] {
        expect_fits(&cli, args);
    }
}

#[test]
fn fits_traces_and_promises_to_terminal() {
    let cli = Cli::new();
    write_pcap(&cli.folder().join("nfs.pcap"));
    assert_eq!(cli.run(&["capture", "nfs.pcap", "-o", "nfs.dfst", "--quiet"]).code, 0);
    let replay = ["replay", "nfs.dfst", "embedded", "--quiet"];
    for name in ["a.json", "b.json"] {
        let end = cli.run(&[&replay[..], &["--format", "json"]].concat());
        std::fs::write(cli.folder().join(name), end.stdout).unwrap();
    }
    let crash = ["durability", "--kill-server", "--fault", "lose-unstable", "--quiet"];
    for args in [&replay[..], &["compare", "a.json", "b.json"], &["describe", "nfs.dfst"], &crash] {
        expect_fits(&cli, args);
    }
}

#[test]
fn fits_dry_run_matrix_to_terminal() {
    let cli = Cli::new();
    expect_fits(&cli, &[&MATRIX[..], &["--dry-run"]].concat());
    // Nine settings do not fit in columns, and are printed above each run.
    let many = [
        &["run", "embedded", "--dry-run", "--workload", "mixed", "--files", "4,8"][..],
        &["--file-size", "1MiB"],
        &["--nfsvers", "3,4.1", "--nconnect", "1,2", "--transfer-size", "64KiB,1MiB"],
        &["--workers", "1,2", "--io-size", "4KiB,8KiB", "--queue-depth", "1,4"],
        &["--read-percent", "0,50", "--random-percent", "0,100"],
    ]
    .concat();
    expect_fits(&cli, &many);
    let end = End::from_output(cli.command(&many).env("COLUMNS", "80").output().unwrap());
    // Text may be split over two lines.
    let printed = end.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in ["transfer_size 64 KiB", "read_percent 50", "nconnect 2", " 512 mix "] {
        assert!(printed.contains(word), "{word}: {}", end.stdout);
    }
}

#[test]
fn fits_contender_differences_to_terminal() {
    let cli = Cli::new();
    for columns in WIDTHS {
        let mut command = cli.command(&["run", "contenders", "--dry-run"]);
        let end = End::from_output(command.env("COLUMNS", columns).output().unwrap());
        let (_, differences) = end.stdout.split_once("contenders differ in").expect("they differ");
        let (differences, _) = differences.split_once("\n\n").unwrap_or((differences, ""));
        assert!(differences.contains("client cache"), "{columns}: {differences}");
        for line in differences.lines() {
            let width = line.chars().count();
            assert!(width <= columns.parse().unwrap(), "{columns}: {line}");
        }
    }
}
