//! `dfsbench ramp`: at which load a server breaks, how, and whether it recovers.

use crate::cli::{Cli, End, ServedProcess};

/// Runs a ramp with a mix of short trials.
fn ramp(cli: &Cli, url: &str, flags: &[&str]) -> End {
    let short = ["--workload", "mixed", "--file-size", "1MiB", "--quiet"];
    cli.run(&[&["ramp", url], &short[..], flags].concat())
}

/// Returns the search of the latest campaign, and its first sentence.
fn found(cli: &Cli) -> (serde_json::Value, String) {
    let json = cli.run(&["report", "--format", "json"]).stdout;
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    let sentence = document["found"]["sentences"][0].as_str().unwrap().to_owned();
    (document["found"]["figures"]["searches"][0].clone(), sentence)
}

#[test]
fn finds_break_at_forty_clients() {
    let cli = Cli::new();
    // Each client adds the same load, whatever else this machine does.
    let faults = ["--fault", "hang_from_clients 40", "--fault", "service_time 20ms on READ"];
    let served = ServedProcess::start(&cli, &faults);
    let flags = ["--duration", "200ms", "--timeout", "1s", "--max", "100", "--recovery", "10s"];
    let end = ramp(
        &cli,
        &served.url,
        &[&flags[..], &["--queue-depth", "2", "--read-percent", "100"]].concat(),
    );
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let (search, sentence) = found(&cli);
    assert_eq!((&search["gave_in_at"], &search["borne"]), (&40.into(), &39.into()), "{search}");
    assert_eq!((&search["way"], &search["is_known"]), (&"hangs".into(), &true.into()));
    assert_eq!(search["recovery"]["kind"], "recovered", "{search}");
    assert!(sentence.starts_with("nfs mixed: hangs with 40 clients: "), "{sentence}");
    assert!(sentence.contains("; after the load was removed, "), "{sentence}");
    // A later report contains the same sentence, with lines wrapped.
    let report = cli.run(&["report"]).stdout;
    assert!(report.contains("Breaking point"), "{report}");
    assert!(report.contains("nfs mixed: hangs with 40 clients: "), "{report}");
    let page = cli.run(&["report", "--format", "html"]).stdout;
    assert_eq!(page.matches(">breaks at 40<").count(), 2, "throughput and response times");
    // A search can't be resumed.
    let resumed = cli.run(&["resume"]);
    assert_eq!(resumed.code, 2, "{resumed:?}");
}

#[test]
fn adds_streams_until_frames_are_late() {
    let cli = Cli::new();
    // A stream needs 6.25 MiB/s, so there is room for two, and a third one falls behind by more
    // than the 200 ms of the buffer.
    let served = ServedProcess::start(&cli, &["--fault", "bandwidth 13MiB/s"]);
    let frames = ["--file-size", "64KiB", "--frame-rate", "100", "--files", "200"];
    let flags = ["--workload", "media", "--frame-buffer", "20", "--queue-depth", "1", "--quiet"];
    let loads = ["--from", "2", "--max", "3"];
    Cli::unless_limited(|| {
        let end = cli.run(&[&["ramp", &served.url], &flags[..], &frames, &loads].concat());
        assert!([0, 4].contains(&end.code) && end.stderr.is_empty(), "{end:?}");
        let (search, sentence) = found(&cli);
        if search["borne"] != 2 {
            return (sentence, false);
        }
        assert_eq!((&search["gave_in_at"], &search["way"]), (&3.into(), &"late-frames".into()));
        assert!(sentence.starts_with("nfs media: is late with 3 streams: play: "), "{sentence}");
        assert!(sentence.contains("; it supports 2 streams"), "{sentence}");
        (sentence, true)
    });
}

#[test]
fn finds_accelerators_that_are_fed() {
    let cli = Cli::new();
    // An accelerator takes 50 kB every 40 ms, so the server feeds 2.5 of them: three compute 83 %
    // of the time, four 62.5 %.
    let served = ServedProcess::start(&cli, &["--fault", "bandwidth 3125kB/s"]);
    let data = ["--samples-per-file", "1", "--file-size", "50kB", "--files", "20", "--batch", "1"];
    let pace = ["--compute-time", "40ms", "--readers", "1", "--required-au", "70", "--quiet"];
    let train = ["ramp", &served.url, "--workload", "training", "--max", "4"];
    Cli::unless_limited(|| {
        let end = cli.run(&[&train[..], &data, &pace].concat());
        assert!([0, 4].contains(&end.code) && end.stderr.is_empty(), "{end:?}");
        let (search, sentence) = found(&cli);
        if search["gave_in_at"] != 4 {
            return (sentence, false);
        }
        assert_eq!((&search["borne"], &search["way"]), (&3.into(), &"accelerators-wait".into()));
        assert!(sentence.contains("too slow for 4 accelerators per host"), "{sentence}");
        (sentence, true)
    });
}

#[test]
fn raises_load_until_server_lags() {
    let cli = Cli::new();
    // One call of 4 ms at a time: 250 op/s.
    let served = ServedProcess::start(&cli, &["--fault", "service_time exponential 4ms"]);
    let flags = ["--raise", "rate", "--from", "40", "--max", "1000", "--duration", "1s"];
    let one = ["--read-percent", "100", "--queue-depth", "1", "--timeout", "20s"];
    Cli::unless_limited(|| {
        let end = ramp(&cli, &served.url, &[&flags[..], &one].concat());
        assert!([0, 4].contains(&end.code) && end.stderr.is_empty(), "{end:?}");
        let (search, sentence) = found(&cli);
        let Some(at) = search["gave_in_at"].as_u64() else { return (sentence, false) };
        assert!(sentence.contains(&format!(" with {at} op/s: ")), "{sentence}");
        // If it falls behind, the load that it sustains is known to 2 %.
        let borne = search["borne"].as_u64().unwrap();
        let is_narrow = search["way"] != "falls-behind" || at - borne <= (borne / 50).max(1);
        assert!(is_narrow, "{search}");
        let ways = ["falls-behind", "response-time-explodes", "throughput-falls"];
        assert!(ways.contains(&search["way"].as_str().unwrap()), "{search}");
        (sentence, (60..=420).contains(&at))
    });
}

#[test]
fn ends_search_without_recovery() {
    let cli = Cli::new();
    let flags = ["--duration", "200ms", "--timeout", "1s", "--recovery", "2s", "--max", "20000"];
    let flags = [&flags[..], &["--queue-depth", "1", "--read-percent", "100"]].concat();
    let ramp_until = |stall: &str| {
        let faults = ["--fault", stall, "--fault", "service_time 50ms on READ"];
        ramp(&cli, &ServedProcess::start(&cli, &faults).url, &flags)
    };
    // On a busy machine, the server may stall before the ramp begins: its lowest load hangs.
    let mut end = ramp_until("stall 600s at 4s");
    if end.stdout.contains("hangs with 1 client") {
        end = ramp_until("stall 600s at 20s");
    }
    assert_eq!(end.code, 4, "{end:?}");
    let (search, sentence) = found(&cli);
    assert_eq!(search["recovery"]["kind"], "never", "{search}");
    assert!(search["borne"].as_u64().unwrap() < search["gave_in_at"].as_u64().unwrap());
    assert_eq!(sentence.matches("it never recovered: ").count(), 1, "{sentence}");
    assert!(sentence.contains("the lowest load (1 client)"), "{sentence}");
    assert!(cli.run(&["list"]).stdout.contains("complete"), "{end:?}");
}

#[test]
fn rejects_load_that_cannot_rise() {
    let cli = Cli::new();
    let target = cli.target().display().to_string();
    cli.refused(&["ramp", &target], 2, &["clients cannot be added", "nfs://"]);
    cli.refused(&["ramp", "embedded", "--raise", "client_hosts"], 2, &["clients cannot be added"]);
    cli.refused(&["ramp", "embedded", "--from", "50", "--max", "20"], 2, &["cannot go from"]);
    cli.refused(&["ramp", "embedded", "--recovery", "soon"], 2, &["--recovery `soon`"]);
    cli.refused(&["ramp", "--until-broken"], 2, &["--until-broken", "--max"]);
    let dry = cli.run(&["ramp", "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    let last = "until broken: from 1 to at most 64 clients";
    assert_eq!(dry.stdout.trim_end().lines().last(), Some(last));
}
