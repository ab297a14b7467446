//! Campaigns whose hosts were set up: where their targets are, and what was in force on whom.

mod campaigns;

use model::{Campaign, DataPath, Fact, Host, LabSpec, Run};
use report::{Format, render};

/// Two runs on hosts, by two ways and with two mounts.
fn on_hosts() -> Campaign {
    let mut campaign = campaigns::quick();
    campaign.runs.truncate(1);
    campaign.runs.push(Run { index: 1, ..campaign.runs[0].clone() });
    for (run, (path, options)) in campaign
        .runs
        .iter_mut()
        .zip([(DataPath::Loopback, "vers=3"), (DataPath::Network, "vers=4.2")])
    {
        let mut lab = LabSpec::new(Host::here("server"), Host::here("client"));
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
fn what_was_in_force_is_told_for_each_host() {
    let markdown = render(&on_hosts(), Format::Markdown);
    for line in [
        "- target lab: server:/srv (loopback)",
        "- target lab: server:/srv (network, client)",
        "- in force on server: nfsd threads 8",
        "- in force on client: mount options vers=3 \\| vers=4.2; page cache loopback0",
    ] {
        assert!(markdown.contains(line), "{line} is not in:\n{markdown}");
    }
    // What never repeats doesn't fill the page.
    assert!(markdown.contains("and 6 more"), "{markdown}");
    assert!(!render(&campaigns::quick(), Format::Markdown).contains("in force on"));
}

#[test]
fn the_page_has_a_table_for_each_host_and_keeps_targets_apart() {
    let page = render(&on_hosts(), Format::Html);
    for title in ["In force at lab", "In force on host server", "In force on host client"] {
        assert_eq!(page.matches(&format!("<h3>{title}</h3>")).count(), 1, "{title}");
    }
    let target = page.split("<h3>In force at lab</h3>").nth(1).unwrap();
    let target = target.split("<h3>").next().unwrap();
    assert!(target.contains("file system") && !target.contains("nfsd threads"), "{target}");
}

#[test]
fn the_ways_of_data_are_a_column() {
    let markdown = render(&on_hosts(), Format::Markdown);
    let header = markdown.lines().find(|line| line.starts_with("| target | pass")).unwrap();
    assert!(header.contains("| data_path |"), "{header}");
}
