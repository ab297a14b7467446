//! Metrics over HTTP, during a campaign and from a results file, and the dashboard that shows them.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};

use serde_json::Value;

use crate::cli::Cli;

const DASHBOARD: &str = include_str!("../../../../integrations/grafana/dfsbench.json");

/// A command that serves metrics.
struct Serving {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl Serving {
    fn start(cli: &Cli, args: &[&str]) -> Self {
        let mut command = cli.command(args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("metrics: ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "no address of metrics");
        }
        let address = line.trim().trim_start_matches("metrics: http://");
        let address = address.trim_end_matches("/metrics").to_owned();
        Self { child, stderr, address }
    }

    fn scrape(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
        assert!(body.ends_with("# EOF\n"), "{body}");
        body.to_owned()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the names of all samples announced in the text of metrics.
fn names(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        match kind {
            "counter" => names.insert(format!("{name}_total")),
            _ => names.insert(name.to_owned()),
        };
    }
    names
}

fn value(text: &str, sample: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(sample));
    let line = line.unwrap_or_else(|| panic!("no {sample} in {text}"));
    line.rsplit_once(' ').unwrap().1.to_owned()
}

const RUN: [&str; 10] = [
    "run",
    "null",
    "--workload",
    "mixed",
    "--duration",
    "1s",
    "--trials",
    "2",
    "--metrics",
    "127.0.0.1:0",
];

#[test]
fn serves_progress_beside_stalled_reader() {
    let cli = Cli::new();
    // The trials wait for each other, not for us: an open loop has its own length.
    let mut serving = Serving::start(&cli, &[&RUN[..], &["--name", "observed"]].concat());
    let slow = TcpStream::connect(&serving.address).unwrap();
    let text = serving.scrape();
    let own = "{campaign_name=\"observed\"";
    assert_eq!(value(&text, &format!("dfsbench_live_campaign{own}")), "1");
    assert_eq!(value(&text, &format!("dfsbench_live_trials_planned{own}")), "2");
    assert_ne!(value(&text, &format!("dfsbench_live_trials{own},state=\"done\"")), "");
    assert_ne!(value(&text, &format!("dfsbench_live_elapsed_seconds{own}")), "0");
    let mut rest = String::new();
    serving.stderr.read_to_string(&mut rest).unwrap();
    let ended = serving.child.wait().unwrap();
    assert_eq!(ended.code(), Some(0), "{rest}");
    // The port is closed once the campaign has ended.
    assert!(TcpStream::connect(&serving.address).is_err());
    drop(slow);
}

#[test]
fn shows_only_served_metrics() {
    let cli = Cli::new();
    let serving = Serving::start(&cli, &RUN);
    let mut known = names(&serving.scrape());
    drop(serving);
    let run = ["run", "null", "--workload", "mixed", "--duration", "50ms", "--trials", "1"];
    assert_eq!(cli.run(&run).code, 0);
    let view = Serving::start(&cli, &["view", "--no-open", "--metrics", "127.0.0.1:0"]);
    let stored = view.scrape();
    assert_eq!(value(&stored, "dfsbench_campaign_runs{"), "1");
    known.extend(names(&stored));
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut ids = BTreeSet::new();
    let mut used = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let place = &panel["gridPos"];
        assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{panel}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            for name in words.filter(|word| word.starts_with("dfsbench_")) {
                assert!(known.contains(name), "{name} of panel {} is not served", panel["title"]);
                used.insert(name.to_owned());
            }
        }
    }
    assert!(used.len() > 20, "{used:?}");
    let page = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md"),
    );
    let page = page.unwrap();
    for name in known.iter().filter(|name| !name.contains("_low_") && !name.contains("_high_")) {
        assert!(page.contains(&format!("`{name}`")), "docs/metrics.md does not list {name}");
    }
}

#[test]
fn rejects_bad_metrics_address() {
    let cli = Cli::new();
    let run = |address| [&RUN[..9], &[address]].concat();
    cli.refused(&run("9464"), 2, &["--metrics", "127.0.0.1:9464"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    cli.refused(&run(&address), 3, &["can't serve metrics on", &address, "hint"]);
}
