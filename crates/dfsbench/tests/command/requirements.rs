//! Limits on results: `--require`, `[[require]]`, and the exit codes.

use crate::cli::Cli;

const RUN: [&str; 7] = ["run", "null", "--workload", "mixed", "--duration", "20ms", "--results"];

#[test]
fn exits_by_worst_outcome() {
    let cli = Cli::new();
    let run = |limits: &[&str], more: &[&str]| {
        let mut args = [&RUN[..], &["r.db"], more].concat();
        args.extend(limits.iter().flat_map(|limit| ["--require", *limit]));
        cli.run(&args)
    };
    let met = run(&["mixed.rate >= 1op/s", "errors == 0", "mixed.max < 1h"], &[]);
    assert_eq!(met.code, 0, "{met:?}");
    assert_eq!(met.stdout.matches("\n  met: ").count(), 3, "{}", met.stdout);
    // Two trials have no interval.
    let undecided = run(&["errors == 0", "mixed.p99 < 1h"], &["--trials", "2"]);
    assert_eq!(undecided.code, 4, "{undecided:?}");
    assert_eq!(undecided.stdout.matches("\n  undecided: ").count(), 1, "{}", undecided.stdout);
    let missed = run(&["mixed.p99 < 0ns", "errors == 0"], &[]);
    assert_eq!(missed.code, 1, "{missed:?}");
    assert_eq!(missed.stdout.matches("\n  missed: ").count(), 1, "{}", missed.stdout);
}

#[test]
fn reports_limits_of_stored_plan() {
    let cli = Cli::new();
    let plan = "name = \"p\"\ntrials = 3\n[[target]]\nname = \"n\"\nnull = true\n\
                [[workload]]\nkind = \"mixed\"\nduration = \"20ms\"\nqueue_depth = [1, 2]\n\
                [[require]]\nlimit = \"mixed.rate > 900Mop/s\"\nwhere = { queue_depth = 2 }\n";
    std::fs::write(cli.folder().join("p.toml"), plan).unwrap();
    let made = cli.run(&["run", "p.toml", "--results", "r.db"]);
    assert_eq!(made.code, 1, "{made:?}");
    let stored = cli.run(&["report", "--results", "r.db", "--format", "junit"]);
    assert_eq!(stored.code, 1, "{stored:?}");
    assert!(stored.stdout.contains(" tests=\"3\" failures=\"1\" errors=\"0\""), "{stored:?}");
    let more = ["report", "--results", "r.db", "--require", "errors == 0", "--format", "json"];
    let json: serde_json::Value = serde_json::from_str(&cli.run(&more).stdout).unwrap();
    let outcomes: Vec<&str> =
        (0..2).map(|number| json["requirements"][number]["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["missed", "met"]);
}

#[test]
fn names_flag_of_bad_limit() {
    let cli = Cli::new();
    for limit in ["reads.p99 < 1ms", "create.p99 < 1ms", "mixed.p99", "mixed.time < 1s"] {
        let end = cli.run(&[&RUN[..], &["r.db", "--require", limit]].concat());
        assert_eq!(end.code, 2, "{end:?}");
        assert!(end.stderr.contains("--require: "), "{}", end.stderr);
        assert!(!cli.folder().join("r.db").exists());
    }
}
