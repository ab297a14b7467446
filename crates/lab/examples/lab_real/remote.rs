//! Mounts whose servers do not answer.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::Lab;
use model::{Action, action};

use crate::{Check, Host, apply_all, run};

/// Every check of this file.
pub(crate) const CHECKS: &[Check] = checks![
    removes_mount_of_stopped_program,
    waits_for_reader_of_mount,
    names_process_using_mount,
];

const POINT: &str = "/run/dfsbench/mount";
const DIR: &str = "/run/dfsbench/systems/image/client";
/// Command line of the program that serves the image.
const PROGRAM: &str = "^fuse2fs -f";

/// Maximum number of attempts to find a moment at which the program has read a request but not
/// answered it.
const MOMENTS: u32 = 200;

/// A file of an image that a program serves through FUSE.
struct Served {
    host: Host,
    before: Vec<String>,
    lab: Lab,
}

impl Served {
    fn mount() -> Self {
        let host = Host::new();
        let before = host.traces();
        let content = host.path("content");
        fs::create_dir(&content).unwrap();
        fs::write(content.join("file"), vec![7; 6 << 20]).unwrap();
        let image = host.path("image").display().to_string();
        run(&["mke2fs", "-q", "-t", "ext2", "-d", content.to_str().unwrap(), &image, "8M"]);
        let mut lab = host.lab();
        apply_all(&mut lab, &[fuse_mount(image)]);
        Self { host, before, lab }
    }

    /// Checks that mount, program and reader are gone.
    fn assert_gone(self, mut reader: Child) {
        reader.wait().unwrap();
        for made in ["content/file", "content", "image"] {
            let path = self.host.path(made);
            if path.is_dir() {
                fs::remove_dir(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
        self.host.assert_as_before(&self.before);
    }
}

impl Drop for Served {
    /// A suspended program would remain after a failed check.
    fn drop(&mut self) {
        let _ = Command::new("pkill").args(["-KILL", "--full", PROGRAM]).status();
    }
}

/// Suspends the program while it has the request of a process that is then killed but remains.
fn stand_still() -> Child {
    for _ in 0..MOMENTS {
        // It asks the program for each block.
        let mut reader = Command::new("dd");
        reader.arg(format!("if={POINT}/file")).args(["of=/dev/null", "iflag=direct", "bs=512"]);
        let mut reader = reader.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        signal_program("-STOP");
        if waits_for_program(&mut reader) {
            return reader;
        }
        signal_program("-CONT");
    }
    panic!("the program never had a request in flight");
}

fn signal_program(signal: &str) {
    run(&["pkill", signal, "--full", PROGRAM]);
}

/// Kills a reader, and returns true if it remains: then the program has read its request. The
/// kernel drops a request that has not been read. **Source:** fs/fuse/dev.c, `request_wait_answer`.
fn waits_for_program(reader: &mut Child) -> bool {
    reader.kill().unwrap();
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        if reader.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

fn fuse_mount(image: String) -> Action {
    Action::FuseMount(action::FuseMount {
        system: "image".to_owned(),
        context: action::CommandContext::default(),
        run: vec!["fuse2fs".to_owned(), "-f".to_owned(), image, POINT.to_owned()],
        dir: DIR.into(),
        point: POINT.into(),
        packages: Vec::new(),
        within_s: 30,
        leaves: Vec::new(),
    })
}

fn removes_mount_of_stopped_program() {
    let mut served = Served::mount();
    let reader = stand_still();
    served.lab.undo_all().unwrap();
    served.assert_gone(reader);
}

fn waits_for_reader_of_mount() {
    let mut served = Served::mount();
    let reader = stand_still();
    let program = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(8));
        signal_program("-CONT");
    });
    let begun = Instant::now();
    served.lab.undo_all().unwrap();
    assert!(begun.elapsed() > Duration::from_secs(7), "the unmount did not wait for the reader");
    program.join().unwrap();
    served.assert_gone(reader);
}

fn names_process_using_mount() {
    let mut served = Served::mount();
    let mut user = Command::new("sleep").arg("600").current_dir(POINT).spawn().unwrap();
    let reader = stand_still();
    let error = served.lab.undo_all().unwrap_err().to_string();
    user.kill().unwrap();
    user.wait().unwrap();
    assert!(error.contains(&format!("sleep (pid {})", user.id())), "{error}");
    served.lab.undo_all().unwrap();
    served.assert_gone(reader);
}
