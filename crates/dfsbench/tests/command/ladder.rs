//! `dfsbench ladder`: the tests plant limits, and it must name each.

use serde_json::Value;

use crate::cli::{Cli, End, ServedProcess};

/// Short trials that show a planted bottleneck clearly.
const SHORT: [&str; 4] = ["--trials", "3", "--file-size", "8MiB"];

/// Ops that are needed in large numbers.
const SMALL_OPS: [&str; 2] = ["--io-size", "64KiB"];

/// Writes a plan for an in-memory server with a fault.
fn planted(cli: &Cli, fault: &str) -> String {
    let text = format!(
        "name = \"planted\"\n[server.faults]\n{fault}\n[[target]]\nname = \"nfs\"\n\
         embedded = true\n[[workload]]\nkind = \"stream\"\n"
    );
    let path = cli.folder().join("planted.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn ladder(cli: &Cli, target: &str, flags: &[&str]) -> (End, Value) {
    let end =
        cli.run(&[&["ladder", target, "--quiet", "--format", "json"], &SHORT[..], flags].concat());
    let json = serde_json::from_str(&end.stdout).unwrap_or_else(|error| panic!("{error}: {end:?}"));
    (end, json)
}

/// Returns the bottleneck of each pass that transfers data, and its kind.
fn limits(json: &Value) -> Vec<(String, String)> {
    let passes = json["found"]["figures"]["passes"].as_array().unwrap();
    let with_bytes = passes.iter().filter(|pass| pass["pass"] != "op_mix");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    with_bytes.map(|pass| (text(&pass["limit"]), text(&pass["limit_is"]))).collect()
}

fn assert_named(json: &Value, layer: &str, is: &str) {
    let expected = (layer.to_owned(), is.to_owned());
    let limits = limits(json);
    assert_eq!(limits, [expected.clone(), expected], "{}", json["found"]);
}

#[test]
fn names_server_with_service_time() {
    let cli = Cli::new();
    let (_, json) = ladder(&cli, &planted(&cli, "service_time = \"20ms\""), &SMALL_OPS);
    assert_named(&json, "server", "the server");
    // Its empty calls are as slow as all others.
    let empty = &json["found"]["figures"]["passes"][2];
    assert_eq!((empty["pass"].as_str(), empty["limit"].as_str()), (Some("op_mix"), Some("server")));
    // A later report gives the same answer.
    let table = cli.run(&["report"]).stdout;
    let (_, limits) = table.split_once("Bottleneck\n").unwrap_or_else(|| panic!("{table}"));
    assert!(limits.starts_with("  stream write: the server is "), "{table}");
    let again = cli.run(&["report", "--format", "json"]).stdout;
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["found"], json["found"]);
    let page = cli.run(&["report", "--format", "html"]).stdout;
    assert!(page.contains("id=\"waterfall-stream-write-title\""));
}

#[test]
fn compares_data_servers_with_one() {
    let cli = Cli::new();
    // Each op waits for its server, and half of them for the one that isn't slow.
    let text = "name = \"planted\"\n[server]\ndata_servers = 2\nstripe_unit = \"64KiB\"\n\
                [server.faults]\ndata_server = \"1 slow 10ms\"\n[[target]]\nname = \"nfs\"\n\
                embedded = true\nnfsvers = 4.1\n\
                [[workload]]\nkind = \"stream\"\npnfs = \"on\"\nqueue_depth = 1\n";
    std::fs::write(cli.folder().join("cluster.toml"), text).unwrap();
    let flags = ["--file-size", "2MiB", "--io-size", "64KiB", "--trials", "3", "--quiet"];
    let end = cli.run(&[&["ladder", "cluster.toml", "--format", "json"], &flags[..]].concat());
    let json: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|_| panic!("{end:?}"));
    let passes = json["found"]["figures"]["passes"].as_array().unwrap();
    for pass in &passes[..2] {
        let compared = &pass["one_data_server"];
        assert_eq!(compared["data_servers"], 2, "{pass}");
        assert!(compared["ratio"].as_f64().unwrap() > 1.2, "{pass}");
    }
    assert!(passes[2]["one_data_server"].is_null(), "empty calls don't go to data servers");
    let table = cli.run(&["report"]).stdout;
    let said = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("stream write: 2 data servers are "), "{table}");
    assert!(table.contains("same, one data server"), "{table}");
}

#[test]
fn names_server_with_narrow_bandwidth() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--fault", "bandwidth 20MiB/s"]);
    let (_, json) = ladder(&cli, &served.url, &SMALL_OPS);
    assert_named(&json, "server", "the server");
    let open = json["found"]["figures"]["missing"].as_array().unwrap();
    assert_eq!(open.len(), 2, "disk and kernel client: {open:?}");
}

#[test]
fn explains_failed_layer() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &["--fault", "error CREATE ACCES 100%"]);
    let (end, _) = ladder(&cli, &served.url, &SMALL_OPS);
    assert_eq!(end.code, 4, "{end:?}");
    let output = cli.run(&["report"]);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{}", output.stdout);
    assert!(output.stdout.contains("`the server, our client` has no"), "{}", output.stdout);
    let is_short =
        |line: &&&str| line.starts_with("the server, our client") && line.ends_with("failed");
    assert_eq!(lines.iter().filter(is_short).count(), 3, "{}", output.stdout);
}

#[test]
fn refuses_missing_server_first() {
    let cli = Cli::new();
    let words = ["nfs://127.0.0.1:1/x", "cannot connect", "is the server running"];
    cli.refused(&["ladder", "nfs://127.0.0.1:1/x"], 3, &words);
    let served = ServedProcess::start(&cli, &[]);
    cli.refused(&["ladder", &served.url, "--own-server", "nfs://127.0.0.1:1/x"], 3, &words[1..]);
}

#[test]
fn uses_our_server_on_other_host() {
    let cli = Cli::new();
    let ours = ServedProcess::start(&cli, &[]);
    let slow = ServedProcess::start(&cli, &["--fault", "service-time 20ms"]);
    let (end, json) = ladder(&cli, &slow.url, &["--own-server", &ours.url, "--io-size", "64KiB"]);
    assert_named(&json, "server", "the server");
    let text = end.stdout;
    let port = ours.url.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    assert!(text.contains(&format!("tcp = \\\"127.0.0.1:{port}\\\"")), "{text}");
}

#[test]
fn measures_ladder_of_directory() {
    let cli = Cli::new();
    let target = cli.target().display().to_string();
    let (end, json) = ladder(&cli, &target, &[]);
    assert_eq!(end.stderr, "", "{end:?}");
    let layers = json["found"]["figures"]["layers"].as_array().unwrap();
    let names: Vec<&str> = layers.iter().map(|layer| layer["layer"].as_str().unwrap()).collect();
    assert_eq!(names, ["null", "memory", "disk"]);
    assert_eq!(json["found"]["figures"]["missing"][0]["layer"], "server");
    cli.assert_target_is_empty();
}

#[test]
fn what_is_no_ladder_is_refused() {
    let cli = Cli::new();
    cli.refused(&["ladder", "null"], 2, &["a ladder needs more than one", "nfs://host/export"]);
    let words = ["--io-size", "each setting has one level"];
    cli.refused(&["ladder", "--io-size", "4KiB,8KiB"], 2, &words);
    cli.refused(&["ladder", "seed-003"], 2, &["ladder"]);
    let own = ["ladder", "embedded", "--own-server", "/tmp"];
    cli.refused(&own, 2, &["--own-server", "nfs://host:port/export"]);
    for idle in [["--own-server", "nfs://127.0.0.1:1/x"], ["--server-disk", "/tmp"]] {
        let words = [idle[0], "to a server outside this process"];
        cli.refused(&["ladder", "embedded", idle[0], idle[1]], 2, &words);
        cli.refused(&["ladder", "/tmp", idle[0], idle[1]], 2, &words);
    }
    cli.refused(&["ladder", "--until-broken"], 2, &["--until-broken"]);
    let dry = cli.run(&["ladder", "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(dry.stdout.contains("tcp") && dry.stdout.contains("op_mix"), "{}", dry.stdout);
}
