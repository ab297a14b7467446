//! Campaigns of a job that are resumed, and searches on the hosts of a job.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cli::{Cli, End};

const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Trials of the campaign that is stopped halfway.
const TRIALS: usize = 6;

/// Generous time limit, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A controller and the two agents it waits for.
struct Job {
    controller: Child,
    agents: Vec<Child>,
    drain: std::thread::JoinHandle<String>,
}

impl Job {
    /// Starts all of them. Host names begin with `host`.
    fn start(cli: &Cli, words: &[&str], host: &str) -> Self {
        let job = ["--launcher", "wait", "--agents", "2", "--quiet"];
        let mut command = cli.command(&[words, &job].concat());
        command.env("DFSBENCH_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut controller = command.spawn().unwrap();
        let mut stderr = BufReader::new(controller.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("waiting for 2 agents with DFSBENCH_MEET=");
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        let agent = |rank: u32| {
            let mut command = cli.command(&["agent", "--meet"]);
            command.envs([("DFSBENCH_MEET", address.as_str()), ("DFSBENCH_TOKEN", TOKEN)]);
            command.env("DFSBENCH_RANK", rank.to_string()).env("DFSBENCH_SIZE", "2");
            command.env("DFSBENCH_HOST", format!("{host}{rank}"));
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let drain = std::thread::spawn(move || {
            let mut messages = String::new();
            stderr.read_to_string(&mut messages).unwrap();
            messages
        });
        Self { controller, agents: vec![agent(0), agent(1)], drain }
    }

    /// Waits for all of them and returns the output of the controller.
    fn end(self) -> End {
        let mut end = End::from_output(self.controller.wait_with_output().unwrap());
        end.stderr = self.drain.join().unwrap();
        for mut agent in self.agents {
            assert!(agent.wait().unwrap().success());
        }
        end
    }
}

/// Returns the report of the latest campaign.
fn report(cli: &Cli) -> serde_json::Value {
    let json = cli.run(&["report", "--format", "json"]).stdout;
    serde_json::from_str(&json).unwrap()
}

/// Number of stored trials of the only run, and how many of them have been executed.
fn trials(cli: &Cli) -> (usize, usize) {
    let document = report(cli);
    let trials = document["runs"][0]["trials"].as_array().unwrap().clone();
    (trials.len(), trials.iter().filter(|trial| trial["state"] == "done").count())
}

/// Stops a campaign of a job once a trial is stored.
fn stopped_half_way(cli: &Cli) {
    let count = TRIALS.to_string();
    let target = cli.target().display().to_string();
    let mix = ["--workload", "mixed", "--file-size", "64KiB", "--duration", "300ms"];
    let words =
        [&["run", &target], &mix[..], &["--interference", "keep", "--trials", &count]].concat();
    let job = Job::start(cli, &words, "node");
    let begun = Instant::now();
    let has_trial = || {
        let end = cli.run(&["report", "--format", "json"]);
        end.code == 0 && end.stdout.contains("\"done\"")
    };
    while !has_trial() {
        assert!(begun.elapsed() < PATIENCE, "no trial is stored");
        std::thread::sleep(Duration::from_millis(50));
    }
    let id = Pid::from_raw(job.controller.id().cast_signed()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    let end = job.end();
    assert!(end.stdout.contains("interrupted"), "{end:?}");
    assert!(trials(cli).1 < TRIALS, "the job was stopped too late");
}

#[test]
fn resumes_job_on_same_hosts() {
    let cli = Cli::new();
    stopped_half_way(&cli);
    let before = trials(&cli);
    cli.refused(&["resume"], 2, &["the hosts of a job"]);
    let other = Job::start(&cli, &["resume"], "other").end();
    assert_eq!(other.code, 2, "{other:?}");
    for hosts in ["node0, node1", "other0, other1"] {
        assert!(other.stderr.contains(hosts), "{hosts}: {other:?}");
    }
    assert_eq!(trials(&cli), before);
    let end = Job::start(&cli, &["resume"], "node").end();
    assert!([0, 4].contains(&end.code), "{end:?}");
    assert_eq!(trials(&cli), (TRIALS, TRIALS));
    cli.assert_target_is_empty();
}

#[test]
fn adds_job_hosts_until_exhausted() {
    for words in [&["ramp"][..], &["run", "--until-broken"]] {
        let cli = Cli::new();
        let target = cli.target().display().to_string();
        let mix = ["--workload", "mixed", "--file-size", "64KiB", "--duration", "100ms"];
        let end = Job::start(&cli, &[words, &[&target], &mix].concat(), "node").end();
        assert!([0, 4].contains(&end.code), "{end:?}");
        let document = report(&cli);
        let runs = document["runs"].as_array().unwrap();
        let hosts = |run: &serde_json::Value| {
            let hosts = run["trials"][0]["passes"][0]["hosts"].as_array().map_or(0, Vec::len);
            hosts.max(1)
        };
        let most = runs.iter().map(hosts).max().unwrap();
        assert_eq!(most, 2, "{words:?}: {document}");
        cli.assert_target_is_empty();
    }
}

#[test]
fn measures_curve_on_job_hosts() {
    let cli = Cli::new();
    let target = cli.target().display().to_string();
    let mix = ["--workload", "mixed", "--file-size", "64KiB"];
    let words = [&["curve", &target], &mix[..], &["--warmup", "0s", "--duration", "100ms"]];
    let words = words.concat();
    let unnamed = [&words[..], &["--launcher", "wait", "--agents", "2"]].concat();
    cli.refused(&unnamed, 2, &["agents of a job connect only once", "--max-load"]);
    let end = Job::start(&cli, &[&words[..], &["--max-load", "1000"]].concat(), "node").end();
    assert!([0, 4].contains(&end.code), "{end:?}");
    let document = report(&cli);
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 10, "{document}");
    let hosts = |run: &serde_json::Value| {
        run["trials"][0]["passes"][0]["hosts"].as_array().map_or(0, Vec::len)
    };
    assert!(runs.iter().all(|run| hosts(run) == 2), "{document}");
    cli.assert_target_is_empty();
}
