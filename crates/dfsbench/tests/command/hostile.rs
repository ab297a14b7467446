//! Servers that break the protocol: each ends a run in bounded time with one clear message, and
//! ctrl-C works with all of them.
//!
//! The servers are ours, each with a planned fault; `timeout` is short so that they finish soon.
//! All rows of a table run in parallel, since they mostly wait.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cli::{Cli, End, ServedProcess};
use crate::interruption;

/// Time limit for each run, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a run may continue after one ctrl-C.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// A server that breaks the protocol, and how a run on it ends.
#[derive(Clone, Copy)]
struct Hostile {
    fault: &'static str,
    version: &'static str,
    timeout: &'static str,
    work: Work,
    code: i32,
    /// The text of the error or the report, however it is broken into lines.
    sentence: &'static str,
}

/// The request to the server.
#[derive(Clone, Copy)]
enum Work {
    /// Write and read a small file.
    Data,
    /// A larger one, one call at a time: more ops than can fail one after the other within the
    /// limit.
    OneByOne,
    /// Files in nested directories.
    Names,
    /// An unpredictable number of names that are created and removed.
    Transactions,
}

impl Work {
    const fn args(self) -> &'static [&'static str] {
        match self {
            Self::Data => &["--workload", "stream", "--file-size", "64KiB", "--io-size", "4KiB"],
            Self::OneByOne => &[
                "--workload",
                "stream",
                "--file-size",
                "1MiB",
                "--io-size",
                "4KiB",
                "--queue-depth",
                "1",
            ],
            Self::Names => &["--workload", "metadata", "--small-files", "20", "--depth", "2"],
            Self::Transactions => &["--workload", "transactions", "--small-files", "20"],
        }
    }
}

const fn data(fault: &'static str, code: i32, sentence: &'static str) -> Hostile {
    Hostile { fault, version: "3", timeout: "500ms", work: Work::Data, code, sentence }
}

const fn names(fault: &'static str, code: i32, sentence: &'static str) -> Hostile {
    Hostile { work: Work::Names, ..data(fault, code, sentence) }
}

const fn v4(row: Hostile) -> Hostile {
    Hostile { version: "4.1", ..row }
}

const TABLE: [Hostile; 23] = [
    data(
        "endless-readdir cookies",
        3,
        "READDIR at 127.0.0.1:PORT: the server sent the cookie 3 twice",
    ),
    v4(data("endless-readdir names", 3, "names of")),
    data("endless-readdir names", 3, "(the limit is 65540 names)"),
    Hostile { timeout: "2500ms", ..data("trickle 1B/s", 3, "no complete answer (bytes received:") },
    Hostile {
        timeout: "2s",
        ..data("trickle 60B/s", 3, "FSINFO at 127.0.0.1:PORT: no complete answer")
    },
    data("changing-verifier COMMIT", 4, "keeps changing its write verifier"),
    data("changing-verifier WRITE", 4, "keeps changing its write verifier"),
    v4(data("changing-verifier WRITE", 4, "keeps changing its write verifier")),
    v4(data("session-slots 1", 0, "stream write")),
    data("error all JUKEBOX 100%", 3, "to try again later (JUKEBOX, DELAY or GRACE), 3 times"),
    v4(data("error WRITE DELAY 100%", 4, "NFSERR_JUKEBOX on write")),
    Hostile { work: Work::OneByOne, ..data("error WRITE DELAY 100%", 4, "write aborted after") },
    data("wrong-xid 100%", 3, "replies with an unknown xid: 1"),
    data("cut-replies 100%", 3, "MNT at 127.0.0.1:PORT: the reply is malformed"),
    data("cut-replies 100% close", 3, "MNT at 127.0.0.1:PORT: connection lost"),
    v4(data("cut-replies 100%", 3, "the reply is malformed")),
    data("oversized-records 100%", 3, "a record of at least 2147483647 bytes exceeds the limit"),
    v4(data("oversized-records 100%", 3, "a record of at least 2147483647 bytes exceeds")),
    names("directory-loops", 4, "was not removed: cannot remove"),
    names("symlink-loops", 4, "READDIR at 127.0.0.1:PORT: the server answered NFS3ERR_NOTDIR"),
    data("changing-handles 10", 4, "STALE"),
    v4(data("changing-handles 10", 4, "STALE")),
    data("hang-after 12", 4, "no answer from 127.0.0.1:PORT for"),
];

/// A running `dfsbench run` on a server with a fault.
struct Running {
    /// Its directory exists as long as the run.
    _rig: Cli,
    served: ServedProcess,
    child: Child,
}

impl Running {
    /// Starts both; several faults are separated by semicolons.
    fn start(faults: &str, version: &str, timeout: &str, work: &[&str]) -> Self {
        let cli = Cli::new();
        let faults = faults.split("; ").flat_map(|fault| ["--fault", fault]);
        let served = ServedProcess::start(&cli, &faults.collect::<Vec<_>>());
        let url = served.url.replace("version=3", &format!("version={version}"));
        let args = ["run", &url, "--quiet", "--timeout", timeout, "--trials", "1", "--seed", "1"];
        let mut command = cli.command(&[&args, work].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { _rig: cli, served, child }
    }

    /// Waits until the program handles Ctrl-C, and then a bit longer, so that it is waiting for its
    /// server. It doesn't matter how far it got, since it must be able to stop anywhere.
    fn let_it_hang(&self) {
        let status = format!("/proc/{}/status", self.child.id());
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            // Signal n is bit n - 1; SIGINT is 2.
            if mask.is_some_and(|mask| mask & 2 != 0) {
                break;
            }
            assert!(begun.elapsed() < LIMIT, "ctrl-C is not handled: {text}");
            std::thread::park_timeout(Duration::from_millis(10));
        }
        std::thread::park_timeout(Duration::from_secs(1));
    }

    fn interrupt(&self) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    }

    /// Waits for the end and returns how the run ended; it may take at most the given time.
    fn end_within(mut self, limit: Duration, what: &str) -> End {
        let from = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if from.elapsed() > limit {
                self.child.kill().unwrap();
                let end = End::from_output(self.child.wait_with_output().unwrap());
                panic!("{what}: no end within {limit:?}: {end:?}");
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        End::from_output(self.child.wait_with_output().unwrap())
    }
}

/// Joins the words of a text into one line.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn ends_in_time_with_message() {
    std::thread::scope(|scope| {
        for row in &TABLE {
            scope.spawn(move || {
                let what = format!("{} over v{}", row.fault, row.version);
                let args = row.work.args();
                let running = Running::start(row.fault, row.version, row.timeout, args);
                let sentence = row.sentence.replace("PORT", &running.served.port().to_string());
                let end = running.end_within(LIMIT, &what);
                assert_eq!(end.code, row.code, "{what}: {end:?}");
                let output = unwrapped(&format!("{} {}", end.stderr, end.stdout));
                assert!(output.contains(&sentence), "{what}: `{sentence}` not in {output}");
                let errors = end.stderr.matches("error: ").count();
                assert_eq!(errors, usize::from(row.code == 3), "{what}: {}", end.stderr);
                assert!(!output.contains("panicked"), "{what}: {output}");
            });
        }
    });
}

/// Runs that would hang for an hour: during setup, a measurement, or a directory listing.
const HANGING: [(&str, &str, Work); 7] = [
    ("endless-readdir names; service-time 100ms on READDIR", "3", Work::Transactions),
    ("trickle 1B/s", "3", Work::Data),
    ("wrong-xid 100%", "4.1", Work::Data),
    ("error all JUKEBOX 100%", "3", Work::Data),
    ("error WRITE DELAY 100%", "4.1", Work::Data),
    ("hang-after 12", "3", Work::Data),
    ("drop 100%", "4.0", Work::Data),
];

#[test]
fn ends_wherever_it_waits() {
    std::thread::scope(|scope| {
        for (fault, version, work) in HANGING {
            scope.spawn(move || {
                let what = format!("ctrl-C on {fault} over v{version}");
                let running = Running::start(fault, version, "1h", work.args());
                running.let_it_hang();
                running.interrupt();
                let end = running.end_within(STOP_LIMIT, &what);
                assert!([3, 4].contains(&end.code), "{what}: {end:?}");
                let output = unwrapped(&format!("{} {}", end.stderr, end.stdout));
                assert!(output.contains("interrupt"), "{what}: {output}");
                assert!(!output.contains("panicked"), "{what}: {output}");
            });
        }
    });
}

#[test]
fn ends_at_second_ctrl_c() {
    // Its working directory exists by then, and the server stops answering during data transfer.
    let running = Running::start("hang-after 12", "3", "1h", Work::Data.args());
    let place = format!("nfs://127.0.0.1:{}/export", running.served.port());
    let begun = Instant::now();
    while !interruption::names(&running.served).iter().any(|name| !name.contains("check")) {
        assert!(begun.elapsed() < LIMIT, "no trial began");
    }
    running.let_it_hang();
    running.interrupt();
    // The first one has to be received separately: a process receives two that arrive together as
    // one.
    std::thread::park_timeout(Duration::from_millis(300));
    running.interrupt();
    let end = running.end_within(Duration::from_secs(5), "a second ctrl-C");
    assert_eq!(end.code, 4, "{end:?}");
    assert_eq!(end.stdout, "", "nothing is reported any more");
    for part in ["working directory `.dfsbench-", &place, "`dfsbench clean`"] {
        assert!(end.stderr.contains(part), "`{part}` not in {}", end.stderr);
    }
}
