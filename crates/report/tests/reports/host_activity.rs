//! Activity of the hosts on the page, in the sar table, and for programs.

use model::{Campaign, Metric, MetricKind, Telemetry};
use report::{Format, render};

use crate::campaigns;

/// A campaign with a first pass that was watched on two hosts.
fn watched() -> Campaign {
    let counter = |name: &str, values: [u64; 2]| Metric {
        name: name.to_owned(),
        kind: MetricKind::Counter,
        values: values.to_vec(),
    };
    let host = |name: &str| Telemetry {
        host: name.to_owned(),
        times_ns: vec![0, 2_000_000_000],
        metrics: vec![
            counter("cpu.user_ns", [1_000, 1_000_001_000]),
            counter("cpu.idle_ns", [0, 3_000_000_000]),
            counter("nfsd.read_bytes", [0, 64_000_000]),
        ],
    };
    let mut campaign = campaigns::quick();
    campaign.runs[0].trials[0].passes[0].telemetry = vec![host("client"), host("<b>server</b>")];
    campaign
}

#[test]
fn prints_sar_table_per_host() {
    let text = render(&watched(), Format::Sar);
    assert!(text.contains("trial 1, host client\n"), "{text}");
    assert!(
        text.contains("   2.00   25.0      0.0      0.0     0.0   75.0        32.0\n"),
        "{text}"
    );
    assert_eq!(text.matches("seconds").count(), 2);
    let silent = render(&campaigns::quick(), Format::Sar);
    insta::assert_snapshot!(silent, @"No host activity was recorded in this campaign.");
}

#[test]
fn shows_each_host_escaped() {
    let page = render(&watched(), Format::Html);
    assert!(page.contains("Activity of the hosts") && page.contains("nfsdrdMB/s"));
    assert!(page.contains("&lt;b&gt;server&lt;/b&gt;") && !page.contains("<b>server"));
    assert!(!render(&campaigns::quick(), Format::Html).contains("Activity of the hosts"));
}

#[test]
fn programs_get_every_reading() {
    let json: serde_json::Value = serde_json::from_str(&render(&watched(), Format::Json)).unwrap();
    let pass = &json["runs"][0]["trials"][0]["passes"][0];
    assert_eq!(pass["telemetry"][1]["metrics"][2]["values"][1], 64_000_000);
}
