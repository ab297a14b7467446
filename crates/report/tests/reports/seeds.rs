//! The conclusions of old reports, as declared by the presets, judged by the numbers of the reports
//! themselves: what their authors could know, and what a repetition has to settle.

use model::{Campaign, Histogram, KindResult, Pass, PassResult, Run, RunSpec, Trial, TrialState};
use plan::{Plan, RawPlan, Surroundings};
use report::{Format, render};
use serde_json::Value;

use crate::campaigns::made;

const KIB: f64 = 1_024.0;

/// Runs of a preset without any trials.
fn preset(text: &str) -> Campaign {
    let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 1, job: None };
    let plan = Plan::resolve(&RawPlan::parse(text, "preset").unwrap(), &around).unwrap();
    let mut campaign = made(plan.runs.iter().map(|run| (run.clone(), 1, 0)).collect());
    campaign.plan_toml = plan.to_toml();
    campaign
}

/// Returns true if a run has settings as tables show them.
fn has(run: &RunSpec, wanted: &[(&str, &str)]) -> bool {
    let settings = run.settings();
    wanted.iter().all(|(name, value)| settings.iter().any(|(n, v)| n == name && v == value))
}

/// Adds a trial with these rates in bytes per second to the first run with these settings.
fn plant(campaign: &mut Campaign, wanted: &[(&str, &str)], rates: &[(Pass, f64)]) {
    let is_meant = |run: &&mut Run| {
        has(&run.spec, wanted) && rates.iter().all(|(pass, _)| run.spec.passes().contains(pass))
    };
    let run = campaign.runs.iter_mut().find(is_meant).unwrap_or_else(|| panic!("{wanted:?}"));
    let bytes = run.spec.set_bytes();
    let mut passes = Vec::new();
    for (pass, per_s) in rates {
        let mut times = Histogram::sparse();
        times.record(1_000_000);
        let kind = KindResult {
            kind: pass.kinds()[0],
            issued: 1_000,
            done: 1_000,
            bytes,
            errors: Vec::new(),
            service_time: times.clone(),
            response_time: times,
        };
        let window_ns = (bytes as f64 / per_s * 1e9) as u64;
        let mut result = PassResult::new(*pass);
        result.window_ns = window_ns;
        result.common_window_ns = window_ns;
        result.kinds = vec![kind];
        passes.push(result);
    }
    run.trials.push(Trial {
        index: run.trials.len() as u32,
        position: run.index,
        started_unix_ms: 1_763_752_623_000,
        state: TrialState::Done,
        passes,
        facts: Vec::new(),
    });
}

/// The outcome of each sentence with this beginning, and its evidence.
fn judged(campaign: &Campaign) -> Vec<(String, String, String)> {
    let json: Value = serde_json::from_str(&render(campaign, Format::Json)).unwrap();
    let mut judged = Vec::new();
    for one in json["conclusions"].as_array().unwrap() {
        let text = |name: &str| one[name].as_str().unwrap().to_owned();
        judged.push((text("text"), text("outcome"), text("shows")));
    }
    judged
}

fn check(campaign: &Campaign, expected: &[(&str, &str)]) {
    let judged = judged(campaign);
    for (begin, expected) in expected {
        let found = judged.iter().find(|(text, ..)| text.starts_with(begin));
        let (_, outcome, shows) = found.unwrap_or_else(|| panic!("no sentence `{begin}`"));
        assert_eq!(outcome, expected, "{begin}: {shows}");
    }
}

/// Block writes and block reads of bonnie, in K/sec: version, MTU, MB.
const BONNIE: [(&str, &str, &str, f64, f64); 13] = [
    ("2", "1500", "10 MiB", 26_251.0, 177_147.0),
    ("2", "1500", "100 MiB", 26_336.0, 177_193.0),
    ("2", "1500", "250 MiB", 22_608.0, 15_379.0),
    ("2", "1500", "500 MiB", 17_783.0, 16_175.0),
    ("2", "1500", "1000 MiB", 15_677.0, 15_798.0),
    ("2", "9000", "100 MiB", 35_267.0, 177_614.0),
    ("2", "9000", "500 MiB", 29_198.0, 26_826.0),
    ("2", "9000", "1000 MiB", 18_802.0, 28_696.0),
    ("2", "9000", "2000 MiB", 18_665.0, 27_064.0),
    ("3", "9000", "100 MiB", 7_483.0, 178_076.0),
    ("3", "9000", "500 MiB", 4_091.0, 25_866.0),
    ("3", "9000", "1000 MiB", 2_846.0, 26_356.0),
    ("3", "9000", "2000 MiB", 2_104.0, 26_081.0),
];

/// Aggregate writes and reads with 8 and 16 server threads, in K/sec.
const NFSD: [(&str, &str, f64, f64); 6] = [
    ("8", "2000 MiB", 20_553.0, 19_542.0),
    ("16", "2000 MiB", 20_781.0, 20_309.0),
    ("8", "1000 MiB", 21_964.0, 538_896.0),
    ("16", "1000 MiB", 21_027.0, 536_607.0),
    ("8", "100 MiB", 37_796.0, 1_032_889.0),
    ("16", "100 MiB", 38_283.0, 1_032_815.0),
];

/// Writes and reads of a file by each of several clients, in K/sec, with kernels 2.2 and 2.4. Reads
/// that the author calls silly are those in parentheses, if the report has them.
const CLIENTS: [(&str, &str, &str, f64, Option<f64>); 11] = [
    ("nfs-old", "1", "2000 MiB", 20_402.0, Some(24_799.0)),
    ("nfs-old", "2", "2000 MiB", 20_553.0, Some(19_542.0)),
    ("nfs-old", "5", "2000 MiB", 20_635.0, Some(12_183.0)),
    ("nfs-old", "10", "2000 MiB", 20_376.0, Some(10_475.0)),
    ("nfs-old", "1", "1000 MiB", 21_011.0, None),
    ("nfs-old", "2", "1000 MiB", 21_694.0, Some(21_674.0)),
    ("nfs-old", "10", "1000 MiB", 17_672.0, Some(14_025.0)),
    ("nfs-old", "1", "100 MiB", 27_129.0, None),
    ("nfs", "1", "2000 MiB", 24_723.0, Some(21_150.0)),
    ("nfs", "1", "1000 MiB", 25_611.0, None),
    ("nfs", "1", "100 MiB", 35_037.0, None),
];

/// **Source:** Chan, "Distributed File System Benchmarking" (2001).
#[test]
fn confirms_report_of_2001() {
    let mut campaign = preset(include_str!("../../../../presets/seed-000.toml"));
    for (version, mtu, size, write, read) in BONNIE {
        let wanted = [
            ("workload", "bonnie"),
            ("data_path", "network"),
            ("nfsvers", version),
            ("mtu", mtu),
            ("file_size", size),
        ];
        plant(&mut campaign, &wanted, &[(Pass::Write, write * KIB), (Pass::Read, read * KIB)]);
    }
    for (threads, size, write, read) in NFSD {
        let wanted = [
            ("workload", "stream"),
            ("nfsd_threads", threads),
            ("client_hosts", "2"),
            ("nfsvers", "2"),
            ("file_size", size),
        ];
        plant(&mut campaign, &wanted, &[(Pass::Write, write * KIB), (Pass::Read, read * KIB)]);
    }
    for (target, clients, size, write, read) in CLIENTS {
        let wanted = [
            ("workload", "stream"),
            ("target", target),
            ("client_hosts", clients),
            ("nfsvers", "2"),
            ("file_size", size),
        ];
        let mut rates = vec![(Pass::Write, write * KIB)];
        rates.extend(read.map(|read| (Pass::Read, read * KIB)));
        plant(&mut campaign, &wanted, &rates);
    }
    check(
        &campaign,
        &[
            ("NFSv3 should be avoided", "borne out"),
            ("As an NFSv2 server, the 2.4.3 kernel", "borne out"),
            ("Linux disk buffer caching", "borne out"),
            ("Write performance decreases", "borne out"),
            // One run each: with three sizes, it is unknown whether it is 1.0 or 2.1 times as fast.
            ("Jumbo frames should be used", "undecided"),
            ("2.2 NFSv2 read performance degrades", "undecided"),
            ("NFS is the only realistic choice", "undecided"),
        ],
    );
}

/// Settings of a row, then its read and write rate.
type Throughput = ([&'static str; 5], f64, Option<f64>);

/// Reads and writes of 20 MB in KB/s: version, transfer size, transport, MTU of FDDI or 100BaseT,
/// read-ahead.
const THROUGHPUT: [Throughput; 15] = [
    (["2", "8 KiB", "udp", "1500", "5"], 6_274.0, Some(9_292.0)),
    (["2", "8 KiB", "udp", "4352", "5"], 6_263.0, Some(9_723.0)),
    (["3", "8 KiB", "udp", "1500", "5"], 9_499.0, Some(8_863.0)),
    (["3", "8 KiB", "udp", "4352", "5"], 9_311.0, Some(10_051.0)),
    (["3", "8 KiB", "tcp", "1500", "5"], 8_048.0, Some(7_527.0)),
    (["3", "8 KiB", "tcp", "4352", "5"], 6_067.0, Some(7_127.0)),
    (["3", "32 KiB", "udp", "1500", "5"], 10_629.0, Some(10_387.0)),
    (["3", "32 KiB", "udp", "4352", "5"], 11_751.0, Some(11_657.0)),
    (["3", "32 KiB", "tcp", "1500", "5"], 9_093.0, Some(8_543.0)),
    (["3", "32 KiB", "tcp", "4352", "5"], 6_317.0, Some(8_372.0)),
    (["2", "8 KiB", "udp", "4352", "1"], 4_706.0, None),
    (["3", "8 KiB", "udp", "4352", "1"], 6_914.0, None),
    (["3", "32 KiB", "udp", "4352", "1"], 9_826.0, None),
    (["3", "8 KiB", "tcp", "4352", "1"], 4_399.0, None),
    (["3", "32 KiB", "tcp", "4352", "1"], 6_329.0, None),
];

/// **Source:** Pawlowski, "the search for the perfect client" (1996).
#[test]
fn confirms_read_ahead_of_1996() {
    let mut campaign = preset(include_str!("../../../../presets/seed-003.toml"));
    for ([version, transfer, proto, mtu, ahead], read, write) in THROUGHPUT {
        let wanted = [
            ("workload", "stream"),
            ("backend", "nfs"),
            ("server_kind", "knfsd"),
            ("nfsvers", version),
            ("transfer_size", transfer),
            ("proto", proto),
            ("mtu", mtu),
            ("read_ahead", ahead),
        ];
        let mut rates = vec![(Pass::Read, read * KIB)];
        rates.extend(write.map(|write| (Pass::Write, write * KIB)));
        plant(&mut campaign, &wanted, &rates);
    }
    check(
        &campaign,
        &[
            ("Which factors govern throughput?", "answered"),
            ("Default behaviour favors 32KB", "borne out"),
            ("Is TCP as a transport", "borne out"),
            ("Client tunings affect read performance", "borne out"),
            ("For small xfer sizes", "borne out"),
            ("UltraSPARC 1 levelled", "undecided"),
        ],
    );
    // The author asks which factors matter, and the first sentence answers that.
    let text = render(&campaign, Format::Markdown);
    let first = text.find("How much each factor matters (share of the variance)").expect(&text);
    assert!(first < text.find("Fastest: ").expect(&text), "{text}");
    let line = text[first..].lines().next().unwrap_or_default();
    assert!(line.contains("stream write: proto 67 % ("), "{line}");
    assert!(
        line.contains("no measurable effect of") && line.contains(". In stream read: "),
        "{line}"
    );
    // A plan without that question has no ranking.
    let start = campaign.plan_toml.find("[[conclusion]]").expect("the preset has conclusions");
    campaign.plan_toml.truncate(start);
    let plain = render(&campaign, Format::Markdown);
    assert!(!plain.contains("How much each factor matters"), "{plain}");
    assert!(plain.contains(" has the largest effect, in "), "{plain}");
}

#[test]
fn plots_only_settings_of_same_rows() {
    let mut campaign = preset(include_str!("../../../../presets/seed-003.toml"));
    for ([version, transfer, proto, mtu, ahead], read, write) in THROUGHPUT {
        let rate = [(Pass::Write, write.unwrap_or(read) * KIB), (Pass::Read, read * KIB)];
        let kib = match (transfer, ahead) {
            ("8 KiB", "1") => "8 KiB",
            ("8 KiB", _) => "40 KiB",
            (_, "1") => "32 KiB",
            _ => "160 KiB",
        };
        // The read-ahead of our client is in transfers, that of the kernel in KiB.
        for (backend, name, level) in
            [("nfs", "read_ahead", ahead), ("posix", "bdi_read_ahead", kib)]
        {
            let wanted = [
                ("workload", "stream"),
                ("backend", backend),
                ("server_kind", "knfsd"),
                ("nfsvers", version),
                ("transfer_size", transfer),
                ("proto", proto),
                ("mtu", mtu),
                (name, level),
            ];
            plant(&mut campaign, &wanted, &rate);
        }
    }
    let page = render(&campaign, Format::Html);
    let start = page.find("data-pass=\"stream read\"").expect("the reads are drawn");
    let part = &page[start..page[start..].find('>').expect("a tag") + start];
    let has = |name: &str| part.contains(&format!("\"{name}\""));
    assert!(!(has("read_ahead") && has("bdi_read_ahead")), "{part}");
    assert!(!(has("backend") && (has("read_ahead") || has("bdi_read_ahead"))), "{part}");
}

/// Settings by name and value, then a read and a write rate.
type Row<'r> = (&'r [(&'r str, &'r str)], f64, f64);

/// **Source:** Uzilov, "Benchmarks of the ClusterNFS" (2007), in MB/s.
#[test]
fn leaves_report_of_2007_undecided() {
    let mut campaign = preset(include_str!("../../../../presets/seed-001.toml"));
    let rows: [Row<'_>; 6] = [
        (&[("data_path", "disk")], 69.77, 9.55),
        (&[("data_path", "disk")], 124.92, 12.50),
        (&[("data_path", "loopback"), ("nfsvers", "3"), ("proto", "tcp")], 60.72, 5.92),
        (&[("data_path", "loopback"), ("nfsvers", "4.0"), ("proto", "tcp")], 67.59, 5.90),
        (&[("data_path", "tunnel"), ("nfsvers", "3"), ("proto", "udp")], 9.18, 3.44),
        (&[("data_path", "tunnel"), ("nfsvers", "3"), ("proto", "tcp")], 5.90, 2.83),
    ];
    for (wanted, read, write) in rows {
        let rates = [(Pass::Read, read * KIB * KIB), (Pass::Write, write * KIB * KIB)];
        plant(&mut campaign, wanted, &rates);
    }
    check(&campaign, &[("There is no difference in performance", "undecided")]);
    assert!(judged(&campaign).iter().all(|(_, outcome, _)| outcome == "undecided"));
}
