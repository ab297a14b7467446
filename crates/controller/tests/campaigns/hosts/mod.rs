//! The controller's walk over hosts that are set up, each simulated by a script: which steps are
//! applied and undone in which order, which are redone between runs, and the reaction to failures
//! and losses.

mod bugs;
mod scripted_hosts;
mod write_back;

use std::sync::atomic::Ordering::Relaxed;

use fleet::QuietWait;
use model::{
    BusyDevice, CaveatCode, DataPath, FileSystem, Host, Invalidation, LabSpec, Metric, MetricKind,
    Telemetry, TrialState,
};

use scripted_hosts::{Script, ScriptedHosts, reported};

/// A server with the given number of threads, which a client mounts.
fn network(threads: u32) -> LabSpec {
    let address = |name: &str| Host { address: Some(name.to_owned()), ..Host::local(name) };
    let mut lab = LabSpec::new(address("s"), address("c"));
    lab.storage.directory = "/data".into();
    lab.serving.threads.max = threads;
    lab
}

/// The same with its own file system, which is mounted after the server has started.
fn on_a_device(threads: u32) -> LabSpec {
    let mut lab = network(threads);
    lab.storage.file_system = FileSystem::Ext4;
    lab.storage.devices = vec!["/dev/vdb".into()];
    lab
}

#[test]
fn redoes_only_changed_steps() {
    let hosts = ScriptedHosts::new(Script::default());
    let mut other = network(8);
    other.mounting.options = vec!["noac".to_owned()];
    let (campaign, left) = hosts.run(&[network(8), other, network(16)]);
    assert_eq!(left, [""; 0]);
    assert_eq!(
        hosts.log(),
        [
            "s open",
            "c open",
            "s + nfsd",
            "s + export",
            "c + nfs-mount",
            "c trial",
            // Another mount option.
            "c - nfs-mount",
            "c + nfs-mount",
            "c trial",
            // Another server.
            "c - nfs-mount",
            "s - export",
            "s - nfsd",
            "s + nfsd",
            "s + export",
            "c + nfs-mount",
            "c trial",
            // The end.
            "c - nfs-mount",
            "s - export",
            "s - nfsd",
        ]
    );
    for run in &campaign.runs {
        let trial = &run.trials[0];
        assert_eq!(trial.state, TrialState::Done);
        assert!(trial.passes.iter().all(|pass| pass.caveats.is_empty()), "{:?}", trial.passes);
        assert_eq!(reported(trial, "s", "nfsd"), Some("as requested"));
        assert_eq!(reported(trial, "c", "nfs-mount"), Some("as requested"));
        assert!(reported(trial, "c", "clock offset").is_some(), "{:?}", trial.facts);
    }
}

#[test]
fn adds_client_without_new_file_system() {
    let hosts = ScriptedHosts::new(Script::default());
    let mut two = on_a_device(8);
    two.more_clients = vec![Host { address: Some("d".into()), ..Host::local("d") }];
    let (campaign, left) = hosts.run(&[on_a_device(8), two, on_a_device(8)]);
    assert_eq!(left, [""; 0]);
    assert!(campaign.runs.iter().all(|run| run.trials[0].state == TrialState::Done));
    let log = hosts.log();
    let count = |line: &str| log.iter().filter(|other| *other == line).count();
    let lines = ["s + format", "s + nfsd", "s + mount", "s + export", "c + nfs-mount"];
    assert_eq!(lines.map(count), [1, 1, 1, 3, 3]);
    assert_eq!(["d + nfs-mount", "d - nfs-mount", "c - nfs-mount"].map(count), [1, 1, 3]);
    // The server keeps running until the clients have left.
    let last = |line: &str| log.iter().rposition(|other| other == line).unwrap();
    assert!(last("c - nfs-mount") < last("s - export") && last("s - export") < last("s - nfsd"));
}

#[test]
fn continues_after_failed_step() {
    let hosts =
        ScriptedHosts::new(Script { refused: vec![("c", "nfs-mount", 1)], ..Script::default() });
    let (campaign, left) = hosts.run(&[network(8), network(8)]);
    assert_eq!(left, [""; 0]);
    let states: Vec<&TrialState> = campaign.runs.iter().map(|run| &run.trials[0].state).collect();
    let why = TrialState::Failed("host c: no nfs-mount today".to_owned());
    assert_eq!(states, [&why, &TrialState::Done]);
    let begin = ["s open", "c open", "s + nfsd", "s + export", "s - export", "s - nfsd"];
    assert_eq!(hosts.log()[..6], begin);
    assert_eq!(hosts.log()[6..9], ["s + nfsd", "s + export", "c + nfs-mount"]);
}

#[test]
fn reports_setting_not_effective() {
    let hosts = ScriptedHosts::new(Script { differing: Some(("s", "nfsd")), ..Script::default() });
    let strict = LabSpec { strict: true, ..network(8) };
    let (campaign, _) = hosts.run(&[network(8), strict]);
    let stated = "threads on host s: requested 8, found 4 (/proc/fs/nfsd/threads)";
    for pass in &campaign.runs[0].trials[0].passes {
        assert_eq!(pass.caveats, [CaveatCode::OptionNotEffective.because(stated)]);
    }
    let failed = TrialState::Failed(format!("not effective: {stated}"));
    assert_eq!(campaign.runs[1].trials[0].state, failed);
    assert!(campaign.runs[1].trials[0].passes.is_empty());
}

/// Telemetry of a server that served and read this many bytes; its disk has a partition.
fn seen(served: u64, from_disk: u64) -> Telemetry {
    let counter = |name: &str, risen| Metric {
        name: name.to_owned(),
        kind: MetricKind::Counter,
        values: vec![7, 7 + risen],
    };
    let disks = ["disk.nvme0n1", "disk.nvme0n1p2", "disk.loop0", "disk.dm-0"];
    let disks = disks.map(|disk| counter(&format!("{disk}.read_bytes"), from_disk));
    let metrics = disks.into_iter().chain([counter("nfsd.read_bytes", served)]).collect();
    Telemetry { host: String::new(), times_ns: vec![0, 1], metrics }
}

#[test]
fn notes_server_that_reads_no_disk() {
    for (from_disk, noted) in [(89, true), (90, false)] {
        let hosts = ScriptedHosts::new(Script { seen: seen(100, from_disk), ..Script::default() });
        let memory = LabSpec {
            storage: model::Storage { file_system: FileSystem::Tmpfs, ..network(8).storage },
            ..network(8)
        };
        let (campaign, _) = hosts.run(&[on_a_device(8), memory, disk("s")]);
        let passes = campaign.runs.iter().map(|run| &run.trials[0].passes);
        for (run, pass) in
            passes.enumerate().flat_map(|(run, all)| all.iter().map(move |p| (run, p)))
        {
            let codes: Vec<_> = pass.caveats.iter().map(|caveat| caveat.code).collect();
            let cached = codes.contains(&CaveatCode::ServerCached);
            assert_eq!(cached, run == 0 && noted, "run {run}: {codes:?}");
            let hosts: Vec<_> = pass.telemetry.iter().map(|host| host.host.as_str()).collect();
            assert_eq!(hosts, [vec!["s"], vec!["s"], Vec::new()][run]);
        }
    }
}

#[test]
fn notes_server_whose_threads_change() {
    for (values, noted) in [(vec![8, 12], true), (vec![8, 8], false)] {
        let threads = Metric { name: "nfsd.threads".to_owned(), kind: MetricKind::Gauge, values };
        let seen = Telemetry { metrics: vec![threads], ..seen(0, 0) };
        let hosts = ScriptedHosts::new(Script { seen, ..Script::default() });
        let (campaign, _) = hosts.run(&[network(8)]);
        for pass in &campaign.runs[0].trials[0].passes {
            let codes: Vec<_> = pass.caveats.iter().map(|caveat| caveat.code).collect();
            let raised = codes.contains(&CaveatCode::ServerThreadsChanged);
            assert_eq!(raised, noted, "{codes:?}");
        }
    }
}

#[test]
fn waits_for_quiet_hosts() {
    let disk = BusyDevice { name: "disk vdb".to_owned(), bytes_per_s: 30_000_000 };
    for busy in [vec![disk], Vec::new()] {
        let quiet = QuietWait { waited_ms: 2_000, busy: busy.clone() };
        let hosts = ScriptedHosts::new(Script { quiet, quiet_ms: 2_000, ..Script::default() });
        let (campaign, _) = hosts.run(&[network(8)]);
        let steps = hosts.log();
        let begun = steps.iter().position(|step| step == "c trial").unwrap();
        // The setup is complete by then.
        assert_eq!(
            steps[begun - 3..begun],
            ["c + nfs-mount", "s rests within 2000", "c rests within 2000"]
        );
        let trial = &campaign.runs[0].trials[0];
        for host in ["s", "c"] {
            assert_eq!(reported(trial, host, "waited until quiet"), Some("2.00 s"));
        }
        for pass in &trial.passes {
            let found: Vec<_> = pass
                .caveats
                .iter()
                .filter(|caveat| caveat.code == CaveatCode::NotQuiet)
                .map(|caveat| caveat.evidence.as_str())
                .collect();
            let expected = "moved 30.0 MB/s (/proc/diskstats, /proc/net/dev)";
            assert_eq!(found.len(), 2 * busy.len(), "{found:?}");
            assert!(
                found
                    .iter()
                    .all(|evidence| evidence.contains("after 2.00 s")
                        && evidence.ends_with(expected)),
                "{found:?}"
            );
        }
    }
    // A plan that does not request it does not wait.
    let hosts = ScriptedHosts::new(Script::default());
    hosts.run(&[network(8)]);
    assert!(!hosts.log().iter().any(|step| step.contains("rests")));
}

#[test]
fn records_facts_with_first_trial() {
    let (campaign, _) = ScriptedHosts::new(Script::default()).run(&[network(8), network(16)]);
    let [first, second] = [0, 1].map(|run: usize| &campaign.runs[run].trials[0]);
    for host in ["s", "c"] {
        assert_eq!(reported(first, host, "kernel"), Some("Linux 6.12"));
        assert_eq!(reported(second, host, "kernel"), None);
    }
}

#[test]
fn restores_others_after_lost_host() {
    let hosts =
        ScriptedHosts::new(Script { dies_at: Some(("s", "s + export")), ..Script::default() });
    let (campaign, left) = hosts.run(&[network(8), network(16), network(32), disk("c")]);
    assert_eq!(left, [""; 0]);
    for run in &campaign.runs[..3] {
        assert_eq!(run.trials[0].state, TrialState::Failed("host s: the agent died".to_owned()));
    }
    assert_eq!(campaign.runs[3].trials[0].state, TrialState::Done);
    // Ten times a second for 30 s, and not again before the third run.
    assert!((290..=301).contains(&hosts.tries()), "{}", hosts.tries());
    assert_eq!(hosts.log(), ["s open", "c open", "s + nfsd", "s + export", "c trial"]);
}

#[test]
fn loses_one_trial_to_silent_host() {
    let dies_at = Some(("s", "c trial"));
    let hosts =
        ScriptedHosts::new(Script { dies_at, returns_after: Some(80), ..Script::default() });
    let (campaign, left) = hosts.run(&[network(8), network(8), network(16)]);
    assert_eq!(left, [""; 0]);
    let states: Vec<&TrialState> = campaign.runs.iter().map(|run| &run.trials[0].state).collect();
    let why = TrialState::Failed("write: host s: the agent died".to_owned());
    assert_eq!(states, [&why, &TrialState::Done, &TrialState::Done]);
    // Everything is set up again, since its agent has undone the setup.
    let log = hosts.log();
    let second = log.iter().position(|line| line == "c left").unwrap() + 1;
    let begin = ["s open", "c open", "s + nfsd", "s + export", "c + nfs-mount", "c trial"];
    assert_eq!(log[second..second + 6], begin);
}

#[test]
fn ends_trial_with_lost_server() {
    let hosts = ScriptedHosts::new(Script { dies_at: Some(("s", "c trial")), ..Script::default() });
    let (campaign, left) = hosts.run(&[network(8), disk("c")]);
    assert_eq!(left, [""; 0]);
    let why = "write: host s: the agent died".to_owned();
    assert_eq!(campaign.runs[0].trials[0].state, TrialState::Failed(why));
    // The client is abandoned, so that its agent restores it, and then serves again.
    assert_eq!(hosts.log()[5..], ["c trial", "c left", "c open", "c trial"]);
    assert_eq!(campaign.runs[1].trials[0].state, TrialState::Done);
}

#[test]
fn tries_unreachable_host_once() {
    let hosts = ScriptedHosts::new(Script { unreachable: Some("c"), ..Script::default() });
    let (campaign, _) = hosts.run(&[network(8), network(16)]);
    for run in &campaign.runs {
        let why = "host c: cannot be reached: No route to host".to_owned();
        assert_eq!(run.trials[0].state, TrialState::Failed(why));
    }
    // The other one is not set up for an impossible change, either.
    assert_eq!(hosts.log(), [""; 0]);
}

#[test]
fn reports_failed_undo() {
    let hosts = ScriptedHosts::new(Script { sticking: Some(("s", "export")), ..Script::default() });
    let (campaign, left) = hosts.run(&[network(8)]);
    assert_eq!(campaign.runs[0].trials[0].state, TrialState::Done);
    assert_eq!(left, ["host s: export is busy"]);
    // Its agent tries again at the end, and when it is abandoned.
    let end = ["c trial", "c - nfs-mount", "s ! export", "s undo all", "s undo all", "s left"];
    assert_eq!(hosts.log()[5..], end);
}

#[test]
fn forgets_failed_undo_that_succeeds_later() {
    let sticking = Some(("s", "export"));
    let hosts = ScriptedHosts::new(Script { sticking, sticks_for: Some(1), ..Script::default() });
    let (_, left) = hosts.run(&[network(8)]);
    assert_eq!(left, [""; 0]);
    assert_eq!(hosts.log()[7..], ["s ! export", "s undo all", "s undo all"]);
}

#[test]
fn raises_caveat_for_clock_rate() {
    let hosts = ScriptedHosts::new(Script { clock: Some(("c", 3)), ..Script::default() });
    let (campaign, _) = hosts.run(&[network(8), disk("s")]);
    let [fast, good] = [0, 1].map(|run| &campaign.runs[run].trials[0]);
    assert!(!fast.passes.is_empty());
    for pass in &fast.passes {
        let [caveat] = &pass.caveats[..] else { panic!("{:?}", pass.caveats) };
        assert_eq!(caveat.code, CaveatCode::ClockRate);
        assert!(caveat.evidence.contains("host c ran at 3.0000"), "{caveat:?}");
    }
    assert!(reported(fast, "c", "clock rate").is_some_and(|rate| rate.starts_with("3.0000")));
    assert!(good.passes.iter().all(|pass| pass.caveats.is_empty()), "{:?}", good.passes);
    assert!(reported(good, "s", "clock rate").is_some_and(|rate| rate.starts_with("1.0000")));
}

#[test]
fn drops_caches_before_reads() {
    let hosts = ScriptedHosts::new(Script::default());
    let lab = LabSpec { invalidation: Invalidation::Caches, ..network(8) };
    let (campaign, _) = hosts.run(&[lab]);
    assert_eq!(hosts.log()[5..8], ["c trial", "c forgets caches", "s forgets caches of /data"]);
    let facts = &campaign.runs[0].trials[0].facts;
    let cached = facts.iter().filter(|fact| fact.name == "read: page cache");
    assert_eq!(cached.map(|fact| fact.scope.as_str()).collect::<Vec<_>>(), ["c", "s"]);
}

#[test]
fn redoes_only_what_remount_needs() {
    let hosts = ScriptedHosts::new(Script::default());
    let of = |invalidation| LabSpec { invalidation, ..on_a_device(8) };
    hosts.run(&[of(Invalidation::ServerRemount)]);
    let log = hosts.log();
    let begun = log.iter().position(|line| line == "c trial").unwrap();
    assert_eq!(
        log[..begun],
        ["s open", "c open", "s + format", "s + nfsd", "s + mount", "s + export", "c + nfs-mount"]
    );
    assert_eq!(
        log[begun + 1..begun + 10],
        [
            "c lets go",
            "c - nfs-mount",
            "s - export",
            "s - mount",
            "c forgets server-remount",
            "s forgets server-remount of /run/dfsbench/storage",
            "s + mount",
            "s + export",
            "c + nfs-mount",
        ]
    );
    // Formatting must not happen again, since it would destroy the written data.
    assert!(!log[begun..].contains(&"s + format".to_owned()));
}

#[test]
fn a_request_to_stop_restores_everything() {
    let hosts = ScriptedHosts::new(Script { stops_at: Some("c trial"), ..Script::default() });
    let (campaign, left) = hosts.run(&[network(8), network(16)]);
    assert_eq!(left, [""; 0]);
    assert!(hosts.stop.load(Relaxed));
    assert_eq!(campaign.state, model::CampaignState::Interrupted);
    assert_eq!(campaign.runs[0].trials[0].state, TrialState::Interrupted);
    assert_eq!(hosts.log()[5..], ["c trial", "c - nfs-mount", "s - export", "s - nfsd"]);
}

/// A directory of one host, without NFS.
fn disk(name: &str) -> LabSpec {
    let host = Host::local(name);
    let mut lab = LabSpec::new(host.clone(), host);
    lab.path = DataPath::Disk;
    lab.storage.directory = "/data".into();
    lab
}
