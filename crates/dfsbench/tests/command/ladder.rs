//! `dfsbench ladder`: the tests plant limits, and it must name each.

use serde_json::Value;

use crate::rig::{End, Rig, Served};

/// Short trials that show a planted limit clearly.
const SHORT: [&str; 4] = ["--trials", "3", "--file-size", "8MiB"];

/// Ops that are needed in large numbers.
const SMALL_OPS: [&str; 2] = ["--io-size", "64KiB"];

/// A server in memory with a fault.
fn planted(rig: &Rig, fault: &str) -> String {
    let text = format!(
        "name = \"planted\"\n[server.faults]\n{fault}\n[[target]]\nname = \"nfs\"\n\
         embedded = true\n[[workload]]\nkind = \"stream\"\n"
    );
    let path = rig.folder().join("planted.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn ladder(rig: &Rig, target: &str, flags: &[&str]) -> (End, Value) {
    let end =
        rig.run(&[&["ladder", target, "--quiet", "--format", "json"], &SHORT[..], flags].concat());
    let json = serde_json::from_str(&end.stdout).unwrap_or_else(|error| panic!("{error}: {end:?}"));
    (end, json)
}

/// What limits each pass that moves bytes, in a word and in a sentence.
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
fn a_server_with_a_service_time_is_named() {
    let rig = Rig::new();
    let (_, json) = ladder(&rig, &planted(&rig, "service_time = \"20ms\""), &SMALL_OPS);
    assert_named(&json, "server", "the server");
    // Its empty calls are as slow as all others.
    let empty = &json["found"]["figures"]["passes"][2];
    assert_eq!((empty["pass"].as_str(), empty["limit"].as_str()), (Some("op_mix"), Some("server")));
    // A year later the report says the same.
    let table = rig.run(&["report"]).stdout;
    assert!(
        table.contains("What limits it\n  stream write: the server is the bottleneck"),
        "{table}"
    );
    let again = rig.run(&["report", "--format", "json"]).stdout;
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["found"], json["found"]);
    let page = rig.run(&["report", "--format", "html"]).stdout;
    assert!(page.contains("id=\"waterfall-stream-write-title\""));
}

#[test]
fn a_server_with_a_narrow_bandwidth_is_named() {
    let rig = Rig::new();
    let served = Served::start(&rig, &["--fault", "bandwidth 20MiB/s"]);
    let (_, json) = ladder(&rig, &served.url, &SMALL_OPS);
    assert_named(&json, "server", "the server");
    let open = json["found"]["figures"]["missing"].as_array().unwrap();
    assert_eq!(open.len(), 2, "the disk and the kernel's client stay open: {open:?}");
}

#[test]
fn a_layer_that_fails_is_a_short_row_and_the_sentence_says_why() {
    let rig = Rig::new();
    let served = Served::start(&rig, &["--fault", "error CREATE ACCES 100%"]);
    let (end, _) = ladder(&rig, &served.url, &SMALL_OPS);
    assert_eq!(end.code, 4, "{end:?}");
    let output = rig.run(&["report"]);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{}", output.stdout);
    assert!(
        output.stdout.contains("`the server, our client` has no figure: "),
        "{}",
        output.stdout
    );
    let is_short =
        |line: &&&str| line.starts_with("the server, our client") && line.ends_with("failed");
    assert_eq!(lines.iter().filter(is_short).count(), 3, "{}", output.stdout);
}

#[test]
fn a_server_that_is_not_there_is_refused_before_anything_is_measured() {
    let rig = Rig::new();
    let words = ["nfs://127.0.0.1:1/x", "no connection", "is the server running"];
    rig.refused(&["ladder", "nfs://127.0.0.1:1/x"], 3, &words);
    let served = Served::start(&rig, &[]);
    rig.refused(&["ladder", &served.url, "--own-server", "nfs://127.0.0.1:1/x"], 3, &words[1..]);
}

#[test]
fn our_own_server_on_the_other_host_takes_the_place_of_this_one() {
    let rig = Rig::new();
    let ours = Served::start(&rig, &[]);
    let slow = Served::start(&rig, &["--fault", "service-time 20ms"]);
    let (end, json) = ladder(&rig, &slow.url, &["--own-server", &ours.url, "--io-size", "64KiB"]);
    assert_named(&json, "server", "the server");
    let text = end.stdout;
    let port = ours.url.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    assert!(text.contains(&format!("tcp = \\\"127.0.0.1:{port}\\\"")), "{text}");
}

#[test]
fn a_directory_has_a_ladder_and_open_questions() {
    let rig = Rig::new();
    let target = rig.target().display().to_string();
    let (end, json) = ladder(&rig, &target, &[]);
    assert_eq!(end.stderr, "", "{end:?}");
    let layers = json["found"]["figures"]["layers"].as_array().unwrap();
    let names: Vec<&str> = layers.iter().map(|layer| layer["layer"].as_str().unwrap()).collect();
    assert_eq!(names, ["null", "memory", "disk"]);
    assert_eq!(json["found"]["figures"]["missing"][0]["layer"], "server");
    rig.assert_target_is_empty();
}

#[test]
fn what_is_no_ladder_is_refused() {
    let rig = Rig::new();
    rig.refused(&["ladder", "null"], 2, &["one layer is no ladder", "nfs://host/export"]);
    let words = ["--io-size", "one level of each"];
    rig.refused(&["ladder", "--io-size", "4KiB,8KiB"], 2, &words);
    rig.refused(&["ladder", "seed-003"], 2, &["ladder"]);
    let own = ["ladder", "embedded", "--own-server", "/tmp"];
    rig.refused(&own, 2, &["--own-server", "nfs://host:port/export"]);
    for idle in [["--own-server", "nfs://127.0.0.1:1/x"], ["--server-disk", "/tmp"]] {
        let words = [idle[0], "to a server outside of this process"];
        rig.refused(&["ladder", "embedded", idle[0], idle[1]], 2, &words);
        rig.refused(&["ladder", "/tmp", idle[0], idle[1]], 2, &words);
    }
    rig.refused(&["ladder", "--until-broken"], 2, &["--until-broken"]);
    let dry = rig.run(&["ladder", "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(dry.stdout.contains("tcp") && dry.stdout.contains("op_mix"), "{}", dry.stdout);
}
