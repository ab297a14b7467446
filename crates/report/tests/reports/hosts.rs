//! Campaigns with hosts that were set up: where their targets are, and which settings were
//! effective.

use model::{
    Campaign, CaveatCode, ClientTimes, DataPath, Fact, Histogram, Host, HostResult, LabSpec, Pass,
    Run, Work,
};
use report::{Format, render};

use crate::campaigns;

/// Two runs on hosts, in two ways and with two mounts.
fn on_hosts() -> Campaign {
    let mut campaign = campaigns::quick();
    campaign.runs.truncate(1);
    campaign.runs.push(Run { index: 1, ..campaign.runs[0].clone() });
    for (run, (path, options)) in campaign
        .runs
        .iter_mut()
        .zip([(DataPath::Loopback, "vers=3"), (DataPath::Network, "vers=4.2")])
    {
        let mut lab = LabSpec::new(Host::local("server"), Host::local("client"));
        lab.path = path;
        lab.storage.directory = "/srv".into();
        run.spec.lab = Some(Box::new(lab));
        "lab".clone_into(&mut run.spec.target_name);
        for (index, trial) in run.trials.iter_mut().enumerate() {
            let cached = format!("{path}{index}");
            trial.facts = vec![
                Fact::new("target", "file system", "nfs4", "/proc/self/mountinfo"),
                Fact::new("server", "nfsd threads", "8", "/proc/fs/nfsd/threads"),
                Fact::new("client", "mount options", options, "/proc/self/mounts"),
                Fact::new("client", "page cache", cached, "/proc/meminfo"),
            ];
        }
    }
    campaign
}

#[test]
fn lists_effective_settings_per_host() {
    let markdown = render(&on_hosts(), Format::Markdown);
    for line in [
        "- target lab: server:/srv (loopback)",
        "- target lab: server:/srv (network, client)",
        "- effective on server: nfsd threads 8",
        "- effective on client: mount options vers=3 \\| vers=4.2; page cache loopback0",
    ] {
        assert!(markdown.contains(line), "{line} is not in:\n{markdown}");
    }
    // Values that never repeat must not fill the page.
    assert!(markdown.contains("and 6 more"), "{markdown}");
    assert!(!render(&campaigns::quick(), Format::Markdown).contains("effective on"));
}

#[test]
fn adds_page_table_per_host() {
    let page = render(&on_hosts(), Format::Html);
    for title in ["Effective at lab", "Effective on host server", "Effective on host client"] {
        assert_eq!(page.matches(&format!("<summary>{title}</summary>")).count(), 1, "{title}");
    }
    let target = page.split("<summary>Effective at lab</summary>").nth(1).unwrap();
    let target = target.split("<summary>").next().unwrap();
    assert!(target.contains("file system") && !target.contains("nfsd threads"), "{target}");
}

#[test]
fn adds_column_for_data_path() {
    let markdown = render(&on_hosts(), Format::Markdown);
    let header = markdown.lines().find(|line| line.starts_with("| target | pass")).unwrap();
    assert!(header.contains("| data_path |"), "{header}");
}

fn histogram(time_ns: u64) -> Histogram {
    let mut times = Histogram::new();
    times.record(time_ns);
    times
}

/// Returns one run whose write passes used three hosts, the last with a third of the others' speed.
fn with_a_straggler() -> Campaign {
    let mut campaign = campaigns::quick();
    campaign.runs.truncate(1);
    let host = |host: &str, mb: u64, start_ns: i64| HostResult {
        host: host.to_owned(),
        workers: 1,
        ops: mb,
        bytes: mb * 1_000_000,
        common: Work { ops: mb, bytes: mb * 1_000_000 },
        start_ns,
        end_ns: start_ns + 1_000_000_000,
        error_ns: 20_000,
        times: ClientTimes::from_histogram(&histogram(1_000)),
        response_times: ClientTimes::from_histogram(&histogram(3_000)),
        ..HostResult::default()
    };
    for trial in &mut campaign.runs[0].trials {
        let writes = trial.passes.iter_mut().find(|pass| pass.pass == Pass::Write).unwrap();
        writes.hosts = vec![host("c1", 90, 0), host("c2", 96, 40_000), host("c|3", 30, -10_000)];
        writes.caveats.push(CaveatCode::Straggler.because("host c|3 did 30.0 MB/s"));
    }
    campaign
}

#[test]
fn compares_hosts_and_names_slow_ones() {
    let campaign = with_a_straggler();
    let plain = |format| render(&campaign, format).replace("&#39;", "'").replace("\\|", "|");
    let markdown = plain(Format::Markdown);
    let line = markdown.lines().find(|line| line.contains(": 3 hosts; ")).unwrap();
    let line = line.trim_start_matches("- ");
    insta::assert_snapshot!(line);
    for format in [Format::Table, Format::Html] {
        let report = plain(format).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(report.contains(line), "{format:?}: {report}");
    }
    let json: serde_json::Value = serde_json::from_str(&render(&campaign, Format::Json)).unwrap();
    let hosts = &json["figures"][0]["hosts"];
    assert_eq!(hosts["stragglers"], serde_json::json!(["c|3"]));
    assert_eq!(
        (&hosts["start_skew_ns"], &hosts["start_skew_error_ns"]),
        (&50_000.into(), &40_000.into())
    );
    let slow = &hosts["hosts"][2];
    assert_eq!(
        (&slow["response_time_max_ns"], &slow["trials_stood_still"]),
        (&3_000.into(), &0.into())
    );
    // One straggler has one number, in its caveat and next to its host.
    let caveat = json["figures"][0]["caveats"].as_array().unwrap().iter();
    let caveat = caveat.filter(|caveat| caveat["code"] == "straggler").collect::<Vec<_>>();
    let evidence = caveat[0]["evidence"].as_str().unwrap();
    assert!(evidence.starts_with("host c|3 at 33.3 % "), "{evidence}");
    assert_eq!(hosts["hosts"][1]["rate"], 96e6);
    assert!(json["figures"][1].get("hosts").is_none(), "only with several hosts");
    let csv = render(&campaign, Format::Csv);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let row = lines.next().unwrap();
    let cell = |name: &str| row[header.iter().position(|known| *known == name).unwrap()];
    assert_eq!((cell("hosts_measured"), cell("hosts_fairness_index")), ("3", "0.8538"));
    assert_eq!((cell("hosts_start_skew_ns"), cell("hosts_stragglers")), ("50000", "c|3"));
    let rates = "c1=90000000.000;c2=96000000.000;c|3=30000000.000";
    assert_eq!(cell("host_rates"), rates);
}

#[test]
fn adds_column_for_client_count() {
    let mut campaign = campaigns::quick();
    campaign.runs.truncate(1);
    for clients in [2, 5] {
        let mut run = Run { index: clients, ..campaign.runs[0].clone() };
        // As many files as workers, which is the default.
        run.spec.files = clients * run.spec.workers;
        run.spec.placement.hosts = (0..clients).map(|n| Host::local(format!("c{n}"))).collect();
        campaign.runs.push(run);
    }
    campaign.runs.remove(0);
    let markdown = render(&campaign, Format::Markdown);
    let header = markdown.lines().find(|line| line.starts_with("| target | pass")).unwrap();
    assert!(header.contains("| client_hosts |") && !header.contains("| files |"), "{header}");
    let files = "files 4 (client_hosts 2), 10 (client_hosts 5)";
    assert!(markdown.contains(files), "{markdown}");
}
