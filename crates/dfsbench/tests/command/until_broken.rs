//! `dfsbench run --until-broken`: with how many clients a server breaks, and how.

use crate::cli::{Cli, End, ServedProcess};

/// Runs a search with a mix of short trials.
fn searched(cli: &Cli, url: &str, flags: &[&str]) -> End {
    let short = ["--workload", "mixed", "--file-size", "1MiB", "--duration", "200ms", "--quiet"];
    cli.run(&[&["run", url], &short[..], flags].concat())
}

/// Returns the sentence of the search in the results file.
fn found_sentence(cli: &Cli) -> String {
    let json = cli.run(&["report", "--format", "json"]).stdout;
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    document["found"]["sentences"][0].as_str().unwrap().to_owned()
}

#[test]
fn finds_hang_at_forty_clients() {
    let cli = Cli::new();
    // Each client adds the same load, whatever else this machine does.
    let faults = ["--fault", "hang_from_clients 40", "--fault", "service_time 20ms on READ"];
    let served = ServedProcess::start(&cli, &faults);
    let flags = ["--until-broken", "--timeout", "1s"];
    let flags = [&flags[..], &["--queue-depth", "2", "--read-percent", "100"]].concat();
    let end = searched(&cli, &served.url, &flags);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let sentence = found_sentence(&cli);
    assert!(sentence.starts_with("nfs mixed: hangs with 40 clients: "), "{sentence}");
    assert!(sentence.contains("; it supports 39 clients"), "{sentence}");
    // All results are stored, and nothing is left on the server.
    let stored = cli.run(&["report", "--format", "csv"]).stdout;
    assert!(stored.lines().count() > 8, "{stored}");
    let after = searched(&cli, &served.url, &["--trials", "1"]);
    assert_eq!(after.code, 0, "{after:?}");
}

#[test]
fn finds_saturation_and_goes_on() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--fault", "bandwidth 1MiB/s"]);
    Cli::unless_limited(|| {
        let end = searched(&cli, &served.url, &["--until-broken=4", "--timeout", "10s"]);
        assert_eq!(end.code, 0, "{end:?}");
        let sentence = found_sentence(&cli);
        let supports = sentence.starts_with("nfs mixed: supports 4 clients, the maximum");
        // If other processes use the CPUs, one client may not get all of the rate.
        let from = ["1 client", "2 clients"].map(|from| format!("mix is saturated from {from} ("));
        let is_saturated = from.iter().any(|words| sentence.contains(words));
        (sentence, supports && is_saturated)
    });
}

#[test]
fn rejects_target_without_clients() {
    let cli = Cli::new();
    let target = cli.target().display().to_string();
    let words = ["clients cannot be added", "nfs://"];
    cli.refused(&["run", &target, "--until-broken"], 2, &words);
    cli.refused(&["run", "embedded", "--until-broken=0"], 2, &["--until-broken"]);
    let dry = cli.run(&["run", "embedded", "--workload", "mixed", "--until-broken", "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    let last = "until broken: from 1 to at most 1000 clients";
    assert_eq!(dry.stdout.trim_end().lines().last(), Some(last));
}
