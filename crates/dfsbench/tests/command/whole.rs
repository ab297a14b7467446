//! Small but complete campaigns: every backend, every format, and identical bytes every time.

use crate::cli::{Cli, End, ServedProcess};

const SMALL: [&str; 10] = [
    "--trials",
    "3",
    "--file-size",
    "8MiB",
    "--small-files",
    "200",
    "--duration",
    "200ms",
    "--quiet",
    "--verify=true",
];

#[test]
fn compares_directory_embedded_and_real_server() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &[]);
    for (target, backend) in [
        ("target", "posix"),
        ("target", "uring"),
        ("embedded", "nfs"),
        (served.url.as_str(), "nfs"),
    ] {
        let head = ["run", target, "--backend", backend, "--workers", "1,2"];
        // A synchronous backend has no queue depth, and a flag without effect is refused.
        let depth: &[&str] = if backend == "posix" { &[] } else { &["--queue-depth", "1,7"] };
        let end = cli.run(&[&head[..], depth, &SMALL].concat());
        assert_eq!(end.code, 0, "{target} {backend}: {end:?}");
        for pass in ["write", "read", "mix", "create", "stat", "remove"] {
            assert!(end.stdout.contains(pass), "{pass} of {backend} in {}", end.stdout);
        }
        assert!(!end.stdout.contains("x invalid"), "{}", end.stdout);
        cli.assert_target_is_empty();
    }
}

#[test]
fn the_null_backend_shows_the_ceiling() {
    let cli = Cli::new();
    for head in [&["run", "null"][..], &["run", "--backend", "null"]] {
        let end = cli.run(&[head, &["--trials", "1", "--quiet"]].concat());
        assert_eq!(end.code, 0, "{end:?}");
        let all = cli.run(&["report", "--all"]);
        assert!(all.stdout.contains("ceiling: null backend"), "{}", all.stdout);
    }
}

#[test]
fn renders_every_format_identically() {
    let cli = Cli::new();
    let head = ["run", "target", "--workload", "stream", "--seed", "7"];
    let end = cli.run(&[&head[..], &SMALL[..4], &["--quiet"]].concat());
    assert_eq!(end.code, 0, "{end:?}");
    assert!(cli.folder().join("dfsbench.html").exists());
    for format in ["table", "markdown", "csv", "json", "html"] {
        let once = cli.run(&["report", "--format", format]);
        assert_eq!((once.code, once.stderr.as_str()), (0, ""), "{format}");
        assert_eq!(once.stdout, cli.run(&["report", "--format", format]).stdout, "{format}");
        let report = once.stdout.split("\nnext: ").next().unwrap();
        assert!(end.stdout.starts_with(report) || format != "table");
    }
    let out = cli.run(&["report", "--format", "csv", "--output", "r.csv"]);
    assert_eq!((out.code, out.stdout.as_str()), (0, ""));
    assert!(std::fs::read_to_string(cli.folder().join("r.csv")).unwrap().contains("rate"));
}

#[test]
fn describes_dry_run_and_does_nothing() {
    let cli = Cli::new();
    let end =
        cli.run(&["run", "target", "--io-size", "4KiB,64KiB", "--workers", "1,4", "--dry-run"]);
    assert_eq!(end.code, 0, "{end:?}");
    assert!(end.stdout.contains("trials") && end.stdout.contains("io_size"), "{}", end.stdout);
    assert!(!cli.folder().join("dfsbench.db").exists());
    cli.assert_target_is_empty();
}

#[test]
fn kept_files_hold_the_pattern() {
    let cli = Cli::new();
    let args = [
        "run",
        "target",
        "--workload",
        "stream",
        "--file-size",
        "3MiB",
        "--io-size",
        "64KiB",
        "--trials",
        "1",
        "--seed",
        "11",
        "--keep",
        "--quiet",
    ];
    assert_eq!(cli.run(&args).code, 0);
    let work = std::fs::read_dir(cli.target()).unwrap().next().unwrap().unwrap().path();
    let found = std::fs::read(work.join("f00000000")).unwrap();
    let pattern = ["pattern", "--seed", "11", "--file", "0", "--size", "3MiB"];
    assert!(cli.command(&pattern).output().unwrap().stdout == found);
}

#[test]
fn fits_report_and_names_next_step() {
    let cli = Cli::new();
    let head = ["run", "null", "--workload", "mixed", "--duration", "20ms", "--warmup", "0s"];
    let factors = ["--workers", "1,2", "--io-size", "4KiB,1MiB", "--trials", "1", "--quiet"];
    let end = cli.run(&[&head[..], &factors].concat());
    assert_eq!(end.code, 0, "{end:?}");
    for columns in ["80", "120"] {
        let mut command = cli.command(&["report"]);
        let end = End::from_output(command.env("COLUMNS", columns).output().unwrap());
        let widest = end.stdout.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns.parse().unwrap(), "{widest} of {columns}: {}", end.stdout);
        assert!(!end.stdout.contains('\u{1b}'), "{}", end.stdout);
        // One trial has no interval; a busy machine may add other caveats.
        let last = end.stdout.lines().last().unwrap();
        assert!(last.starts_with("next:    --") && last.contains(" to settle "), "{last}");
    }
    let whole = cli.run(&["report", "--all"]).stdout;
    assert!(whole.contains("How to read it") && whole.contains("Conditions"), "{whole}");
}
