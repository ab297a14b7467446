//! `dfsbench curve`: load points, sustained loads, and the maximum load under a bound.

use crate::cli::{Cli, End, ServedProcess};

/// A server with an exponential service time of 4 ms and one call at a time: a single-server queue
/// that sustains 250 op/s.
const QUEUE: [&str; 2] = ["--fault", "service_time exponential 4ms"];

/// Reads one after the other, so that nothing else is in the queue.
const READS: [&str; 12] = [
    "--workload",
    "mixed",
    "--read-percent",
    "100",
    "--file-size",
    "1MiB",
    "--queue-depth",
    "1",
    "--warmup",
    "200ms",
    "--timeout",
    "20s",
];

fn curve(cli: &Cli, url: &str, flags: &[&str]) -> End {
    cli.run(&[&["curve", url, "--quiet"], &READS[..], flags].concat())
}

/// Returns the JSON results of the campaign.
fn found(cli: &Cli) -> serde_json::Value {
    let json = cli.run(&["report", "--format", "json"]).stdout;
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    document["found"].clone()
}

#[test]
fn does_not_sustain_impossible_load() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &QUEUE);
    let lines = ["Sustained load", "nfs mixed: peak ", "not sustained", "not SPEC SFS results"];
    // 40 op/s are a sixth of its capacity, and 400 are too much; results in between depend on
    // chance.
    let is_drawn = Cli::unless_limited(|| {
        let end = curve(&cli, &served.url, &["--max-load", "400", "--duration", "1500ms"]);
        assert!([0, 4].contains(&end.code) && end.stderr.is_empty(), "{end:?}");
        let curve = &found(&cli)["figures"]["curves"][0];
        let is_sustained = curve["load_points"][0]["standing"] == "sustained";
        assert!(!is_sustained || end.code == 0, "{end:?}");
        for line in lines {
            assert!(!is_sustained || end.stdout.contains(line), "{line}: {}", end.stdout);
        }
        (end.stdout.split_whitespace().collect::<Vec<_>>().join(" "), is_sustained)
    });
    if !is_drawn {
        return;
    }
    let found = found(&cli);
    let curve = &found["figures"]["curves"][0];
    let points = curve["load_points"].as_array().unwrap();
    let offered: Vec<u64> = points.iter().map(|p| p["asked_ops_per_s"].as_u64().unwrap()).collect();
    assert_eq!(offered, (1..=10).map(|n| n * 40).collect::<Vec<u64>>());
    assert_eq!(points[9]["standing"], "not sustained", "{found}");
    let peak = curve["peak_ops_per_s"].as_f64().unwrap();
    assert!((30.0..300.0).contains(&peak), "{peak}");
    let overall_ms = curve["overall_response_time_ns"].as_f64().unwrap() / 1e6;
    assert!((1.0..1_000.0).contains(&overall_ms), "{overall_ms}");
    // The sentences are in the report, and a year later as well.
    let again = cli.run(&["report"]).stdout;
    for line in lines {
        assert!(again.contains(line), "{line}: {again}");
    }
    assert!(!again.contains("SPECsfs") && !again.contains("NaN"), "{again}");
    assert!(cli.run(&["report", "--format", "html"]).stdout.contains("throughput, op/s"));
}

#[test]
fn finds_heaviest_load_under_bound() {
    let cli = Cli::new();
    // At 50 op/s, delays of a busy machine are small compared with 20 ms.
    let served = ServedProcess::start(&cli, &["--fault", "service_time 20ms on READ"]);
    let flags = ["--max-load", "100", "--duration", "2s", "--bound", "80ms"];
    let end = curve(&cli, &served.url, &flags);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let found = found(&cli);
    let curve = &found["figures"]["curves"][0];
    let points = curve["load_points"].as_array().unwrap();
    assert!(points.len() <= 7, "{} load points; a whole curve has 10", points.len());
    // 20 ms x (1 + u / (2 (1 - u))) reaches 80 ms at a utilization u of 86 %, which is 43 op/s, or
    // 11 op/s if a call takes 50 ms instead of 20. More than 50 op/s are never possible.
    let load = curve["under_bound_ops_per_s"].as_f64().unwrap();
    assert!((8.0..52.0).contains(&load), "{load}: {found}");
    let keeps = |point: &&serde_json::Value| {
        let is_soon = point["response_time_mean_ns"].as_f64().unwrap() <= 80e6;
        is_soon && point["standing"] == "sustained"
    };
    let offered = |point: &serde_json::Value| point["asked_ops_per_s"].as_u64().unwrap();
    let kept = points.iter().filter(keeps).max_by_key(|point| offered(point)).unwrap();
    assert_eq!(kept["achieved_ops_per_s"].as_f64(), Some(load), "{found}");
    // The next higher load exceeded the bound and is close.
    let above = points.iter().map(offered).filter(|load| *load > offered(kept)).min().unwrap();
    assert!(above - offered(kept) <= 3, "{found}");
    let sentence = found["sentences"][0].as_str().unwrap();
    assert!(sentence.contains("response time of at most 80.0 ms"), "{sentence}");
    assert!(sentence.contains(&format!("Found with {} load points.", points.len())), "{sentence}");
}

#[test]
fn rejects_bound_below_fastest_response() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &QUEUE);
    let flags = ["--max-load", "250", "--duration", "500ms", "--bound", "1ms"];
    let end = curve(&cli, &served.url, &[&flags[..], &["--bound-quantile", "50"]].concat());
    assert_eq!((end.code, end.stderr.as_str()), (4, ""), "{end:?}");
    let sentence = found(&cli)["sentences"][0].as_str().unwrap().to_owned();
    assert!(sentence.starts_with("nfs mixed: no load "), "{sentence}");
    assert!(sentence.contains("at most 1.00 ms") && sentence.contains("25.0 op/s"), "{sentence}");
}

#[test]
fn finds_heaviest_load_by_default() {
    let cli = Cli::new();
    let times = ["--warmup", "0s", "--duration", "150ms", "--quiet", "--seed", "5"];
    let end = cli.run(&[&["curve"][..], &times].concat());
    assert!([0, 4].contains(&end.code) && end.stderr.is_empty(), "{end:?}");
    let found = found(&cli);
    let maximum = &found["asked"]["maximum"];
    let loads = found["asked"]["loads_per_s"].as_array().unwrap();
    assert_eq!((loads.len(), &loads[9]), (10, &maximum["per_s"]), "{found}");
    assert!(maximum["found"]["ops"].as_u64().unwrap() > 0, "{found}");
    let sentence = end.stdout;
    assert!(sentence.contains("a closed loop of"), "{sentence}");
    assert!(sentence.contains("LADDIS-like mix `sfs3-like-v3`"), "{sentence}");
    // It is stored like any other campaign.
    assert_eq!(cli.run(&["resume"]).code, 2);
}

/// Measures the curve of a server with this service time and stores it in a separate file.
fn drawn(cli: &Cli, results: &str, service_time: &str) {
    let served = ServedProcess::start(cli, &["--fault", &format!("service_time {service_time}")]);
    // The same times for all, so that the number of simultaneous calls is not left to chance.
    let same = ["--seed", "5", "--results", results];
    let flags = ["--max-load", "200", "--duration", "1500ms", same[0], same[1], same[2], same[3]];
    let end = curve(cli, &served.url, &flags);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
}

/// Measures a server, the same server again and a slow one, all in parallel.
fn draw_all(cli: &Cli) {
    let servers = [("one.db", "2ms"), ("same.db", "2ms"), ("slow.db", "20ms")];
    std::thread::scope(|scope| {
        for (results, service_time) in servers {
            let _ = std::fs::remove_file(cli.folder().join(results));
            scope.spawn(move || drawn(cli, results, service_time));
        }
    });
}

#[test]
fn reports_only_slower_server() {
    let cli = Cli::new();
    let bounds = ["--max-loss", "20%", "--max-slowdown", "50%"];
    let bounds = [&["compare", "one.db", "slow.db"], &bounds[..]].concat();
    // If other processes use the CPUs, a curve may have no sustained load point. That is then the
    // answer, and the curve is measured again.
    for _ in 0..3 {
        draw_all(&cli);
        if cli.run(&bounds).code != 4 {
            break;
        }
    }
    let same = ["compare", "one.db", "same.db", "--format", "json"];
    let same = cli.run(&[&same[..], &bounds[3..]].concat());
    // On a busy machine a bound can be undecided.
    assert!([0, 4].contains(&same.code) && same.stderr.is_empty(), "{same:?}");
    let json: serde_json::Value = serde_json::from_str(&same.stdout).unwrap();
    let compared = &json["curves"][0];
    assert_eq!(compared["regressions"], serde_json::json!([]), "{compared}");
    assert!(!compared["load_points"].as_array().unwrap().is_empty(), "{compared}");
    // 50 op/s instead of 500, of which 200 are offered.
    let slow = cli.run(&bounds);
    assert_eq!(slow.code, 1, "{slow:?}");
    let words = ["nfs mixed: ", "sustains less", "the peak fell: ", "Regression: nfs mixed: "];
    for line in words {
        assert!(slow.stdout.contains(line), "{line}: {}", slow.stdout);
    }
    let xml = cli.run(&[&bounds[..], &["--format", "junit"]].concat()).stdout;
    assert!(xml.contains("name=\"peak\"") && xml.contains("<failure type=\"regression\""), "{xml}");
    let page = cli.run(&["compare", "one.db", "slow.db", "--format", "html"]).stdout;
    assert_eq!(page.matches("class=\"chart\"").count(), 1, "{page}");
    assert!(
        page.contains("throughput, op/s") && page.contains("cross: not sustained, or failed"),
        "{page}"
    );
    let markdown = cli.run(&["compare", "one.db", "slow.db", "--format", "markdown"]).stdout;
    assert!(markdown.contains("| offered | mean before | mean after | ratio |"), "{markdown}");
}

#[test]
fn what_is_no_curve_is_refused() {
    let cli = Cli::new();
    for (flags, words) in [
        (&["--rate", "5"][..], &["--rate", "--max-load"][..]),
        (&["--bound", "0s"], &["--bound `0s`", "20ms"]),
        (&["--bound", "soon"], &["--bound `soon`"]),
        (&["--bound", "5ms", "--bound-quantile", "100"], &["--bound-quantile `100`"]),
        (&["--workload", "stream"], &["can run at a fixed rate", "op_mix"]),
        (&["--points", "9"], &["--points"]),
        (&["--until-broken"], &["--until-broken", "dfsbench ramp"]),
    ] {
        let args = [&["curve", "embedded"], flags].concat();
        cli.refused(&args, 2, words);
    }
    let dry = cli.run(&["curve", "embedded", "--dry-run"]);
    assert!(dry.code == 0 && dry.stdout.starts_with("10 load points, evenly spaced"), "{dry:?}");
    let named = cli.run(&["curve", "embedded", "--dry-run", "--max-load", "1000"]);
    assert!(named.code == 0 && named.stdout.contains("10 runs x 1 trial"), "{named:?}");
}
