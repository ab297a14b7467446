//! Ctrl-C and SIGTERM in every phase: results are saved, files are removed, the exit code is 4.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use nfs_client::{Mount, MountOptions};

use crate::cli::{Cli, End, ServedProcess};

/// Waits until a campaign is in a trial, according to the names in its target. Returns its output
/// if it ends before that.
fn in_a_trial(mut campaign: Child, names: impl Fn() -> Vec<String>) -> Child {
    let begun = Instant::now();
    // The first directory is that of the preflight, which disappears quickly.
    while !names().iter().any(|name| !name.contains("check")) {
        if campaign.try_wait().unwrap().is_some() || begun.elapsed() > Duration::from_secs(60) {
            let _ = campaign.kill();
            panic!("no trial began: {:?}", End::from_output(campaign.wait_with_output().unwrap()));
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    campaign
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// Starts a campaign, signals it some time after its working directory appeared, and waits.
fn interrupted(args: &[&str], after: Duration, signal: Signal) -> (Cli, End) {
    let cli = Cli::new();
    let args: Vec<&str> = ["run", "target", "--quiet"].iter().chain(args).copied().collect();
    // Under nohup the tests inherit an ignored SIGHUP; the program would inherit and keep that.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_dfsbench")]);
    command.args(args).current_dir(cli.folder()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let child = in_a_trial(child, || entries(&cli.target()));
    std::thread::park_timeout(after);
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
    let end = End::from_output(child.wait_with_output().unwrap());
    (cli, end)
}

fn saved_and_cleaned(args: &[&str], after_ms: u64) {
    for signal in [Signal::INT, Signal::TERM] {
        let (cli, end) = interrupted(args, Duration::from_millis(after_ms), signal);
        assert_eq!(end.code, 4, "{args:?}: {end:?}");
        assert!(end.stdout.contains("interrupted"), "{args:?}: {}", end.stdout);
        cli.assert_target_is_empty();
        let report = cli.run(&["report"]);
        assert_eq!(report.code, 0);
        assert!(report.stdout.contains("interrupted"), "{}", report.stdout);
    }
}

#[test]
fn while_files_are_prepared() {
    let args = ["--workload", "mixed", "--file-size", "512MiB", "--duration", "60s"];
    saved_and_cleaned(&args, 50);
}

#[test]
fn while_a_mix_runs() {
    let args = ["--workload", "mixed", "--file-size", "8MiB", "--duration", "60s"];
    saved_and_cleaned(&args, 500);
    let args = [&args[..], &["--backend", "uring"]].concat();
    saved_and_cleaned(&args, 500);
}

#[test]
fn while_files_are_written() {
    let args = ["--workload", "stream", "--file-size", "512MiB", "--bandwidth", "32MiB"];
    saved_and_cleaned(&args, 200);
}

#[test]
fn while_names_are_made() {
    let args = ["--workload", "metadata", "--small-files", "50000", "--think-time", "1ms"];
    saved_and_cleaned(&args, 300);
}

#[test]
fn ends_on_timer_and_batch_signals() {
    let args = ["--workload", "mixed", "--file-size", "8MiB", "--duration", "60s"];
    for signal in [Signal::USR1, Signal::USR2, Signal::ALARM, Signal::XCPU, Signal::HUP] {
        let (cli, end) = interrupted(&args, Duration::from_millis(100), signal);
        assert_eq!(end.code, 4, "{signal:?}: {end:?}");
        assert!(end.stdout.contains("interrupted"), "{signal:?}: {}", end.stdout);
        cli.assert_target_is_empty();
    }
}

/// Lock files of campaigns next to the results.
fn locks(cli: &Cli) -> Vec<String> {
    let mut locks = entries(cli.folder());
    locks.retain(|name| name.contains("-campaign-"));
    locks.sort();
    locks
}

#[test]
fn removes_locks_of_killed_campaign() {
    let mixed = ["--workload", "mixed", "--file-size", "1MiB", "--duration", "60s"];
    let (cli, _) = interrupted(&mixed, Duration::from_millis(100), Signal::KILL);
    assert_eq!(locks(&cli), ["dfsbench.db-campaign-1.lock"]);
    for args in [&["tag", "1", "killed"][..], &["clean"]] {
        std::fs::write(cli.folder().join("dfsbench.db-campaign-1.lock"), "4194304").unwrap();
        std::fs::write(cli.folder().join("dfsbench.db-campaign-9.lock"), "4194304").unwrap();
        let end = cli.run(args);
        assert!(end.code == 0 && locks(&cli).is_empty(), "{args:?}: {end:?} {:?}", locks(&cli));
    }
    // Reading does not change anything.
    std::fs::write(cli.folder().join("dfsbench.db-campaign-9.lock"), "4194304").unwrap();
    assert_eq!(cli.run(&["list"]).code, 0);
    assert_eq!(locks(&cli), ["dfsbench.db-campaign-9.lock"]);
}

#[test]
fn resumes_killed_campaign() {
    let plan = ["--workload", "mixed", "--file-size", "1MiB", "--duration", "300ms"];
    let factors = ["--read-percent", "0,100", "--trials", "3", "--seed", "5"];
    // Never repeat trials, whatever else is running on this machine.
    let kept = ["--interference", "keep"];
    let (cli, end) = interrupted(
        &[&plan[..], &factors, &kept].concat(),
        Duration::from_millis(900),
        Signal::KILL,
    );
    assert_eq!(end.code, -1, "{end:?}");
    let resumed = cli.run(&["resume", "--quiet", "--format", "json"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    let report: serde_json::Value = serde_json::from_str(&resumed.stdout).unwrap();
    assert_eq!(report["campaign"]["state"], "complete");
    let runs = report["runs"].as_array().unwrap();
    let trials = runs.iter().map(|run| run["trials"].as_array().unwrap());
    let mut order: Vec<(u64, u64, u64)> = trials
        .enumerate()
        .flat_map(|(run, trials)| {
            trials.iter().map(move |trial| {
                let number = |key: &str| trial[key].as_u64().unwrap();
                (number("position"), number("started_unix_ms"), run as u64)
            })
        })
        .collect();
    order.sort_unstable();
    let positions: Vec<u64> = order.iter().map(|(position, ..)| *position).collect();
    assert_eq!(positions, [0, 1, 2, 3, 4, 5]);
    assert!(order.is_sorted_by_key(|(_, started, _)| *started), "{order:?}");
    let nothing = cli.run(&["resume"]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
    assert!(nothing.stderr.contains("complete; no trial is missing"), "{nothing:?}");
}

fn connect(served: &ServedProcess) -> Mount {
    let port = Some(served.port());
    let options =
        MountOptions { port, mount_port: port, ..MountOptions::new("127.0.0.1", "/export") };
    Mount::connect(&options).unwrap()
}

/// Returns the names in the root of the export.
pub fn names(served: &ServedProcess) -> Vec<String> {
    let mut mount = connect(served);
    let root = mount.root();
    let entries = mount.readdir(root).unwrap().into_iter();
    let names = entries.map(|entry| String::from_utf8(entry.name).unwrap());
    names.filter(|name| name != "." && name != "..").collect()
}

#[test]
fn interrupts_every_phase_over_nfs() {
    let random = ["--workload", "mixed", "--duration", "60s", "--file-size"];
    for (args, after_ms) in [
        ([&random[..], &["700MiB"]].concat(), 50),
        ([&random[..], &["8MiB"]].concat(), 700),
        (vec!["--workload", "stream", "--file-size", "900MiB", "--io-size", "4KiB"], 300),
        (vec!["--workload", "metadata", "--small-files", "500000"], 500),
    ] {
        let cli = Cli::new();
        let served = ServedProcess::start(&cli, &["--memory", "4GiB"]);
        let args = [&["run", &served.url, "--quiet"], &args[..]].concat();
        let mut command = cli.command(&args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let child = in_a_trial(child, || names(&served));
        std::thread::park_timeout(Duration::from_millis(after_ms));
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        let end = End::from_output(child.wait_with_output().unwrap());
        assert_eq!(end.code, 4, "{args:?}: {end:?}");
        assert!(end.stdout.contains("interrupted"), "{args:?}: {}", end.stdout);
        assert_eq!(names(&served), [""; 0], "{args:?} left something on the server");
    }
}

/// A file system mounted on a directory that never answers: its server is a shell that only sleeps.
struct DeadMount<'a> {
    point: &'a Path,
    server: Child,
}

impl<'a> DeadMount<'a> {
    /// `None` if this host may not mount it.
    fn over(point: &'a Path) -> Option<Self> {
        let script = "exec 9<>/dev/fuse && mount -i -t fuse \
                      -o fd=9,rootmode=40000,user_id=0,group_id=0 none \"$0\" && echo && \
                      exec sleep 600 > /dev/null";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(point).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().ok()?;
        let mut mounted = [0; 1];
        let is_mounted =
            server.stdout.take().is_some_and(|mut out| out.read_exact(&mut mounted).is_ok());
        let mount = Self { point, server };
        is_mounted.then_some(mount)
    }
}

impl Drop for DeadMount<'_> {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        unmount.args(["-i", "-c", "-f", "-l"]).arg(self.point).stderr(Stdio::null());
        let _ = unmount.status();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn ends_despite_hanging_file_system() {
    let cli = Cli::new();
    let target = cli.target();
    let args = ["run", "target", "--quiet", "--workload", "mixed", "--file-size", "1MiB"];
    let mut command = cli.command(&[&args[..], &["--duration", "600s"]].concat());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut child = in_a_trial(child, || entries(&target));
    std::thread::park_timeout(Duration::from_millis(300));
    // Open files stay open, but the directory can no longer be removed or even looked up.
    let Some(mount) = DeadMount::over(&target) else {
        let _ = child.kill();
        let _ = child.wait();
        return;
    };
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            drop(mount);
            let _ = child.kill();
            panic!("the program is still running");
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let end = End::from_output(child.wait_with_output().unwrap());
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stderr.contains("gave up: file I/O"), "{end:?}");
}

/// A server that takes long enough for each REMOVE that the removal of some hundred files is
/// visible.
pub fn slow_to_remove(cli: &Cli) -> ServedProcess {
    ServedProcess::start(cli, &["--fault", "service-time 20ms on REMOVE"])
}

/// Arguments of a run that creates a few hundred files.
pub const SOME_NAMES: [&str; 6] =
    ["--workload", "metadata", "--small-files", "400", "--trials", "1"];

/// Waits until most of these files exist.
pub fn wait_for_names(served: &ServedProcess) {
    let begun = Instant::now();
    let count = || {
        let mut mount = connect(served);
        let root = mount.root();
        let name = names(served).into_iter().find(|name| !name.contains("check"))?;
        let work = mount.lookup(root, &name).ok()?;
        Some(mount.readdir(work).ok()?.len())
    };
    while count().is_none_or(|count| count < 300) {
        assert!(begun.elapsed() < Duration::from_secs(60), "no files were created");
    }
}

/// A run that was told to stop once, and has reported that it removes its files.
fn removing_slowly(cli: &Cli, served: &ServedProcess) -> (Child, Pid, String) {
    let mut command = cli.command(&[&["run", &served.url, "--quiet"], &SOME_NAMES[..]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    wait_for_names(served);
    kill_process(pid, Signal::TERM).unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    (child, pid, said)
}

#[test]
fn lists_removals_and_leaves_rest() {
    let cli = Cli::new();
    let served = slow_to_remove(&cli);
    let (child, pid, said) = removing_slowly(&cli, &served);
    assert!(said.starts_with("interrupted: removing nfs://127.0.0.1"), "{said}");
    assert!(said.contains(" entries removed") && said.contains(" s left"), "{said}");
    kill_process(pid, Signal::TERM).unwrap();
    let end = End::from_output(child.wait_with_output().unwrap());
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stderr.contains("interrupted twice"), "{end:?}");
    assert!(end.stderr.contains(" of its entries "), "{end:?}");
    assert!(end.stderr.contains("`dfsbench clean`"), "{end:?}");
    let left = names(&served);
    assert_eq!(left.len(), 1);
    assert!(end.stderr.contains(&left[0]), "{left:?}: {end:?}");
    let cleaned = cli.run(&["clean"]);
    assert_eq!(cleaned.code, 0, "{cleaned:?}");
    assert!(cleaned.stdout.contains("removed: nfs://127.0.0.1"), "{cleaned:?}");
    assert_eq!(names(&served), [""; 0]);
}

#[test]
fn keeps_record_of_unremoved_files() {
    for (fault, records) in [("error REMOVE ACCES 100%", 1), ("service-time 1ms on REMOVE", 0)] {
        let cli = Cli::new();
        let served = ServedProcess::start(&cli, &["--fault", fault]);
        let args = ["--workload", "stream", "--file-size", "64KiB", "--trials", "1", "--quiet"];
        let end = cli.run(&[&["run", &served.url], &args[..]].concat());
        let kept = entries(cli.folder()).iter().filter(|name| name.contains("-work-")).count();
        assert_eq!(kept, records, "{fault}: {end:?}");
    }
}

/// Starts a command with an endless setup, interrupts it during the setup, and waits.
fn interrupt_set_up(cli: &Cli, args: &[&str], is_setting_up: impl Fn() -> bool) -> End {
    let mut command = cli.command(args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !is_setting_up() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{args:?} set nothing up");
        std::thread::park_timeout(Duration::from_millis(2));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    End::from_output(child.wait_with_output().unwrap())
}

#[test]
fn reports_interrupted_set_up_as_such() {
    let cli = Cli::new();
    let holds = |part: &str| entries(cli.folder()).iter().any(|name| name.contains(part));
    let silent = ServedProcess::start(&cli, &["--fault", "service-time 600s on MKDIR"]);
    let end = interrupt_set_up(&cli, &["run", &silent.url], || holds("-work-"));
    assert_eq!((end.code, end.stdout.as_str()), (4, ""), "{end:?}");
    insta::assert_snapshot!(end.stderr, @"interrupted during setup; nothing was measured");
    assert!(!holds(".db"), "{:?}", entries(cli.folder()));
    // The closed loop prepares its files before it can reach any rate.
    let slow = ServedProcess::start(&cli, &["--fault", "service-time 600s on CREATE"]);
    let is_preparing = || names(&slow).iter().any(|name| !name.contains("check"));
    let prepared = interrupt_set_up(&cli, &["curve", &slow.url, "--quiet"], is_preparing);
    assert_eq!((prepared.code, prepared.stdout.as_str()), (4, ""), "{prepared:?}");
    assert_eq!(prepared.stderr, end.stderr);
}

#[test]
fn interrupted_search_suggests_no_resume() {
    let cli = Cli::new();
    let served = ServedProcess::start(&cli, &[]);
    let small = ["--workload", "mixed", "--file-size", "1MiB", "--duration", "600s", "--quiet"];
    let mut command = cli.command(&[&["ramp", &served.url], &small[..]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let child = in_a_trial(child, || names(&served));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let end = End::from_output(child.wait_with_output().unwrap());
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("\nnext:    repeat the command"), "{end:?}");
    assert!(!end.stdout.contains("dfsbench resume"), "{end:?}");
    assert_eq!(cli.run(&["resume"]).code, 2);
}

#[test]
fn runs_that_overlap_keep_both_pages() {
    let cli = Cli::new();
    let read = |name: &str| std::fs::read_to_string(cli.folder().join(name)).unwrap();
    let mixed = ["--workload", "mixed", "--file-size", "1MiB", "--quiet"];
    let long = [&["run", "target", "--duration", "600s"], &mixed[..]].concat();
    let child = cli.command(&long).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let child = in_a_trial(child, || entries(&cli.target()));
    let short = [&["run", "null", "--duration", "10ms", "--trials", "1"], &mixed[..]].concat();
    assert_eq!(cli.run(&short).code, 0);
    let page = read("dfsbench.html");
    assert!(page.contains(", campaign 2<"), "{page}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let end = End::from_output(child.wait_with_output().unwrap());
    assert!(end.stdout.contains("page:    dfsbench-1.html\n"), "{end:?}");
    assert!(read("dfsbench-1.html").contains(", campaign 1<"));
    assert_eq!(read("dfsbench.html"), page);
    // A directory that does not overlap with another takes its usual place.
    let end = cli.run(&short);
    assert!(end.stdout.contains("page:    dfsbench.html\n"), "{end:?}");
    assert_ne!(read("dfsbench.html"), page);
}
