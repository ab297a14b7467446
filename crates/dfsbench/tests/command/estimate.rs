//! Dry-run estimates based on a short probe of the targets.

use crate::cli::Cli;

/// A plan whose in-memory server is limited to 8 MB/s: a trial of 16 MiB takes more than four
/// seconds on any machine.
const PLAN: &str = "name = \"p\"\ntrials = 10\ninterference = \"keep\"\n[server.faults]\nbandwidth = \"8MB/s\"\n\
    [[target]]\nname = \"n\"\nembedded = true\n[[workload]]\nkind = \"stream\"\n\
    file_size = \"16MiB\"\nio_size = \"256KiB\"\n";

/// Ten times 32 MiB at 8 MB/s.
const PLANTED_S: f64 = 10.0 * 33.554_432 / 8.0;

/// Parses `42.1 s in all` in the output of a dry run.
fn estimated_s(output: &str) -> f64 {
    let line = output.lines().find(|line| line.starts_with("estimate: ")).expect(output);
    let before = line.split(" in all").next().unwrap();
    let time = before.rsplit(", ").next().unwrap();
    let (number, unit) = time.split_once(' ').expect(time);
    let number: f64 = number.parse().expect(time);
    match unit {
        "ms" => number / 1e3,
        "s" => number,
        "min" => number * 60.0,
        "h" => number * 3_600.0,
        other => panic!("{other} in {output}"),
    }
}

#[test]
fn measures_planted_rate() {
    let cli = Cli::new();
    std::fs::write(cli.folder().join("p.toml"), PLAN).unwrap();
    let assumed = cli.run(&["run", "p.toml", "--dry-run"]);
    assert!(assumed.stdout.contains("--probe measures"), "{assumed:?}");
    assert!(estimated_s(&assumed.stdout) < PLANTED_S / 5.0, "{}", assumed.stdout);
    let probed = cli.run(&["run", "p.toml", "--dry-run", "--probe"]);
    assert_eq!(probed.code, 0, "{probed:?}");
    let found_s = estimated_s(&probed.stdout);
    let within = PLANTED_S / 2.0..PLANTED_S * 2.0;
    assert!(within.contains(&found_s), "{found_s} s, planted {PLANTED_S} s: {}", probed.stdout);
    assert!(probed.stdout.contains("probe:    n nfs stream (run 1): write "), "{}", probed.stdout);
    assert!(!cli.folder().join("dfsbench.db").exists());
}

#[test]
fn leaves_directory_as_it_was() {
    let cli = Cli::new();
    let work = ["--workload", "metadata", "--small-files", "200", "--trials", "3"];
    let end = cli.run(&[&["run", "target", "--dry-run", "--probe"], &work[..]].concat());
    assert_eq!(end.code, 0, "{end:?}");
    assert!(end.stdout.contains("around each trial"), "{}", end.stdout);
    cli.assert_target_is_empty();
    let mut left: Vec<_> =
        std::fs::read_dir(cli.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort_unstable();
    assert_eq!(left, ["state", "target"]);
}

#[test]
fn refuses_probe_that_sets_up_hosts() {
    let cli = Cli::new();
    let refused = ["run", "seed-001", "--dry-run", "--probe"];
    cli.refused(&refused, 2, &["--probe: run 1", "a dry run doesn't set up", "--assume-rates"]);
    cli.refused(&["run", "null", "--probe"], 2, &["--dry-run"]);
    let curve = ["curve", "embedded", "--dry-run", "--probe"];
    cli.refused(&curve, 2, &["only `dfsbench run` probes"]);
    cli.refused(&["run", "nothere/x", "--dry-run", "--probe"], 2, &["does not exist"]);
}

#[test]
fn estimates_from_earlier_campaign() {
    let cli = Cli::new();
    std::fs::write(cli.folder().join("p.toml"), PLAN).unwrap();
    let small = cli.run(&["run", "p.toml", "--scale", "0.25", "--trials", "3", "--quiet"]);
    assert_eq!(small.code, 0, "{small:?}");
    let whole = cli.run(&["run", "p.toml", "--dry-run", "--assume-pace", "last"]);
    assert_eq!(whole.code, 0, "{whole:?}");
    let found_s = estimated_s(&whole.stdout);
    let within = PLANTED_S / 2.0..PLANTED_S * 2.0;
    assert!(within.contains(&found_s), "{found_s} s, planted {PLANTED_S} s: {}", whole.stdout);
    assert!(whole.stdout.contains("based on campaign 1: 2 trials"), "{}", whole.stdout);
    let other = ["run", "null", "--dry-run", "--assume-pace", "1"];
    cli.refused(&other, 2, &["--assume-pace", "campaign 1 has fewer than two trials", "hint"]);
    let both = [&other[..], &["--probe"]].concat();
    cli.refused(&both, 2, &["--assume-pace", "--probe"]);
}
