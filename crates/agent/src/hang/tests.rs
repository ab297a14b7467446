//! Tests with a FUSE mount that never responds, because its server is a shell that only sleeps.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;

use fleet::{HostPermissions, Order, Report};
use model::Action;
use model::action::TryPaths;

use super::*;
use crate::this_host::ThisHost;

/// Time limit for each step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A mount that never responds.
struct DeadMount {
    folder: tempfile::TempDir,
    server: Child,
}

impl DeadMount {
    /// Returns `None` if this host doesn't allow the mount.
    fn new() -> Option<Self> {
        if !Path::new("/dev/fuse").exists() || !is_root() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // A thread that accesses the mount waits for an initial message that never comes.
        let script = "exec 9<>/dev/fuse && mount -i -t fuse \
                      -o fd=9,rootmode=40000,user_id=0,group_id=0 none \"$0\" && exec sleep 600";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = command.spawn().unwrap();
        let (_ticker, ticks) = channel::<()>();
        while !is_mounted(folder.path()) {
            if server.try_wait().unwrap().is_some() {
                return None;
            }
            let _ = ticks.recv_timeout(Duration::from_millis(20));
        }
        Some(Self { folder, server })
    }

    fn point(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a thread that reads a file on the mount and sends its error.
    fn look_for_file(&self) -> mpsc::Receiver<io::ErrorKind> {
        let path = self.point().join("file");
        let (found, finding) = channel();
        std::thread::spawn(move || {
            let error = fs::read(path).map_or_else(|error| error.kind(), |_| io::ErrorKind::Other);
            let _ = found.send(error);
        });
        finding
    }
}

impl Drop for DeadMount {
    fn drop(&mut self) {
        if is_mounted(self.folder.path()) {
            let _ =
                Command::new("umount").args(["-i", "-f", "-l"]).arg(self.folder.path()).status();
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn is_mounted(point: &Path) -> bool {
    lab::mounts::find_named(point).is_some()
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0\t")
}

fn watched(point: &Path, silence_ticks: Option<u64>, stop: &Arc<AtomicBool>) -> HangWatch {
    let stop = Stop::new(Arc::clone(stop), Arc::default());
    HangWatch { points: vec![point.to_owned()], has_answers: true, silence_ticks, stop }
}

#[test]
fn ends_wait_for_dead_mount() {
    let Some(mount) = DeadMount::new() else { return };
    let guard = HangGuard::start(None);
    let stop = Arc::default();
    let watched = watched(mount.point(), Some(2), &stop);
    guard.watch(Some(watched.clone()));
    let finding = mount.look_for_file();
    finding.recv_timeout(PATIENCE).expect("the wait ends");
    let why = guard.release().unwrap();
    assert!(why.contains("no reply from the mount") && why.contains("forcibly"), "{why}");
    assert!(why.contains(&mount.point().display().to_string()), "{why}");
    assert!(!is_mounted(mount.point()));
    // Workers that got an error must stop, too, but nothing else.
    assert!(watched.stop.is_set() && !stop.load(Relaxed));
}

#[test]
fn ends_wait_on_stop_request() {
    let Some(mount) = DeadMount::new() else { return };
    let guard = HangGuard::start(None);
    let stop = Arc::new(AtomicBool::new(false));
    guard.watch(Some(watched(mount.point(), None, &stop)));
    let finding = mount.look_for_file();
    assert!(finding.recv_timeout(TICK * 4).is_err(), "it must not end before the stop request");
    stop.store(true, Relaxed);
    finding.recv_timeout(PATIENCE).expect("the stop request ends the wait");
    assert!(guard.release().is_some());
}

#[test]
fn counts_only_unanswered_wait_as_silence() {
    let wait = |sleeps: u64| BTreeMap::from([(7, sleeps)]);
    let mut silence = WaitingThreads::default();
    // If no thread is waiting, rare replies don't matter.
    silence.count_unanswered(BTreeMap::new(), 5);
    silence.count_unanswered(BTreeMap::new(), 5);
    assert_eq!(silence.ticks, 0);
    // A thread that wakes up to retransmit is still waiting.
    silence.count_unanswered(wait(1), 5);
    silence.count_unanswered(wait(2), 5);
    assert_eq!(silence.ticks, 2);
    silence.count_unanswered(wait(2), 6);
    assert_eq!(silence.ticks, 0, "a reply resets the count");
    // Replies on other mounts are not counted, so only an unchanged wait matters there.
    silence.count_unmoved(wait(3));
    assert_eq!(silence.ticks, 0);
    silence.count_unmoved(wait(3));
    assert_eq!(silence.ticks, 1);
}

/// The message of the agent that was given up.
static GIVEN_UP: Mutex<String> = Mutex::new(String::new());

#[test]
fn restores_host_before_giving_up_agent() {
    let state = tempfile::tempdir().unwrap();
    let stop = Arc::default();
    let mut host = ThisHost::new(state.path(), &stop);
    let opening = HostPermissions { campaign: "hung-1".to_owned(), ..HostPermissions::default() };
    assert!(matches!(host.execute_order(Order::Open(opening)), Report::Opened));
    // This change needs no root privileges, but is in the undo log like any other.
    let change = Action::TryPaths(TryPaths { peers: Vec::new(), bytes: 1_500 });
    assert!(matches!(host.execute_order(Order::Apply(Box::new(change))), Report::Applied(_)));
    let log = state.path().join("undo.jsonl");
    assert_ne!(fs::metadata(&log).unwrap().len(), 0);
    // Threads are still waiting after the time limit following the unmount.
    let shared = Shared::default();
    *shared.watched() = Some(watched(Path::new("/no/mount"), Some(2), &stop));
    *shared.hung() = Some("no answer".to_owned());
    let give_up = |why: &str| why.clone_into(&mut GIVEN_UP.lock().unwrap());
    let last_resort = ForcedExit { give_up, changes: host.changes() };
    let removed_for = Some(RELEASE_TICKS - 2);
    let mut silence = WaitingThreads { removed_for, ..WaitingThreads::default() };
    check_for_hang(&shared, &mut silence, Some(&last_resort));
    assert!(host.is_changed(), "the threads still have time");
    check_for_hang(&shared, &mut silence, Some(&last_resort));
    insta::assert_snapshot!(
        GIVEN_UP.lock().unwrap(),
        @"no answer; all changes to this host were undone"
    );
    assert_eq!(fs::metadata(&log).unwrap().len(), 0);
    // The next campaign finds a clean host even though this process cannot end.
    drop(lab::Lab::open(state.path(), "next-1", Vec::new()).unwrap());
}
