//! Time limits and fixtures of checks.
//!
//! [`checks!`](crate::checks) makes a test of each row of a table: name, limit in seconds, and the
//! check. [`run_within`] fails a check that exceeds its limit and reports what it was waiting for;
//! the processes it started are killed, so that it unwinds. A [`Fixture`] is shared by several
//! checks of a program.

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::panic;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// How long a check may take to unwind after its processes were killed.
const UNWIND_MAX: Duration = Duration::from_secs(20);
/// Maximum time that setups add to a limit.
const SET_UP_MAX: Duration = Duration::from_secs(900);
/// How often a limit is checked.
const WATCH: Duration = Duration::from_millis(200);
/// Pause between two checks of a condition.
const POLL: Duration = Duration::from_millis(50);

/// Makes tests: `name: 60 s, expression of type anyhow::Result<()>;`.
#[macro_export]
macro_rules! checks {
    ($($(#[$attribute:meta])* $name:ident: $seconds:literal s, $check:expr;)+) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            $crate::freshness::require();
            $crate::check::run_within($seconds, || $check);
        }
    )+};
}

/// The state of a running check, which its watcher reads.
#[derive(Default)]
struct Progress {
    waiting_for: Mutex<String>,
    children: Mutex<Vec<u32>>,
    set_up: Mutex<SetUp>,
}

/// The time that a check has spent on fixtures shared with others.
#[derive(Default)]
struct SetUp {
    ended: Duration,
    begun: Option<Instant>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Progress>>> = const { RefCell::new(None) };
}

/// Runs a check and panics if it fails or exceeds its limit.
///
/// # Panics
/// As described: this is how a test fails.
pub fn run_within(seconds: u64, check: fn() -> Result<()>) {
    let progress = Arc::new(Progress::default());
    let (sender, outcome) = mpsc::channel();
    let shared = Arc::clone(&progress);
    let worker = thread::spawn(move || {
        CURRENT.set(Some(shared));
        let begun = Instant::now();
        let result = check();
        print_time(begun.elapsed());
        // The watcher may have given up.
        let _ = sender.send(result);
    });
    match wait_for_outcome(&outcome, &progress, Duration::from_secs(seconds)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => panic!("{error:#}"),
        Err(RecvTimeoutError::Disconnected) => {
            if let Err(cause) = worker.join() {
                panic::resume_unwind(cause);
            }
        }
        Err(RecvTimeoutError::Timeout) => {
            let waited_for = progress.waiting_for.lock().expect("no panic").clone();
            progress.kill_children();
            // Meanwhile its values are dropped: mounts, namespaces, directories.
            let _ = outcome.recv_timeout(UNWIND_MAX);
            panic!("the time limit of {seconds} s was exceeded while waiting for {waited_for}");
        }
    }
}

/// Prints how long this test took, which the test harness doesn't.
fn print_time(elapsed: Duration) {
    // The harness captures macro output of passing tests, but not writes to a handle.
    let seconds = elapsed.as_secs_f64();
    // A closed pipe does not fail the test.
    let _ = write!(io::stdout(), "({seconds:.1} s) ");
}

/// Waits for the end of a check, not counting setup time.
fn wait_for_outcome(
    outcome: &Receiver<Result<()>>,
    progress: &Progress,
    limit: Duration,
) -> Result<Result<()>, RecvTimeoutError> {
    let begun = Instant::now();
    loop {
        match outcome.recv_timeout(WATCH) {
            Err(RecvTimeoutError::Timeout) => {}
            received => return received,
        }
        let set_up = progress.time_of_set_ups().min(SET_UP_MAX);
        if begun.elapsed() > limit + set_up {
            return Err(RecvTimeoutError::Timeout);
        }
    }
}

impl Progress {
    fn time_of_set_ups(&self) -> Duration {
        let set_up = self.set_up.lock().expect("no panic");
        set_up.ended + set_up.begun.map_or(Duration::ZERO, |begun| begun.elapsed())
    }

    fn kill_children(&self) {
        for id in self.children.lock().expect("no panic").iter() {
            if let Some(pid) = Pid::from_raw(id.cast_signed()) {
                // It may have ended by itself.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Sets up something that the running check shares with others: its time doesn't count, and the
/// processes it starts outlive the check.
pub fn set_up<T>(act: impl FnOnce() -> Result<T>) -> Result<T> {
    let current = CURRENT.take();
    if let Some(progress) = &current {
        progress.set_up.lock().expect("no panic").begun = Some(Instant::now());
        "a setup shared by several checks"
            .clone_into(&mut progress.waiting_for.lock().expect("no panic"));
    }
    let outcome = act();
    if let Some(progress) = &current {
        let mut set_up = progress.set_up.lock().expect("no panic");
        if let Some(begun) = set_up.begun.take() {
            set_up.ended += begun.elapsed();
        }
    }
    CURRENT.set(current);
    outcome
}

/// Records what the running check is waiting for.
pub fn note_wait(what: &str) {
    CURRENT.with_borrow(|current| {
        if let Some(progress) = current {
            what.clone_into(&mut progress.waiting_for.lock().expect("no panic"));
        }
    });
}

/// Records a process started by the running check.
pub fn note_start(id: u32) {
    CURRENT.with_borrow(|current| {
        if let Some(progress) = current {
            progress.children.lock().expect("no panic").push(id);
        }
    });
}

/// Records that a process of the running check was reaped.
pub fn note_end(id: u32) {
    CURRENT.with_borrow(|current| {
        if let Some(progress) = current {
            progress.children.lock().expect("no panic").retain(|child| *child != id);
        }
    });
}

/// Waits until a condition is true.
///
/// # Errors
/// If it isn't within the limit.
pub fn wait_until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    note_wait(what);
    let deadline = Instant::now() + limit;
    while !holds() {
        ensure!(Instant::now() < deadline, "{what} takes longer than {} s", limit.as_secs());
        thread::sleep(POLL);
    }
    Ok(())
}

/// A resource shared by several checks of a program, started by the first that needs it.
///
/// It is never dropped, because a test program ends without dropping statics; whatever must not
/// outlive the program is registered with [`crate::guard`].
pub struct Fixture<T> {
    start: fn() -> Result<T>,
    started: OnceLock<Result<T, String>>,
}

impl<T> Fixture<T> {
    /// Creates a fixture with its start function.
    pub const fn new(start: fn() -> Result<T>) -> Self {
        Self { start, started: OnceLock::new() }
    }

    /// Returns the resource, starting it if necessary.
    ///
    /// # Errors
    /// If it can't be started; the same error for every check that needs it.
    pub fn get(&'static self) -> Result<&'static T> {
        let started =
            self.started.get_or_init(|| set_up(self.start).map_err(|error| format!("{error:#}")));
        started.as_ref().map_err(|error| anyhow!("the setup failed: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use anyhow::bail;

    use super::*;
    use crate::proc;

    fn message(seconds: u64, check: fn() -> Result<()>) -> String {
        let cause = panic::catch_unwind(|| run_within(seconds, check)).unwrap_err();
        cause.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn reports_what_check_waited_for() {
        let text = message(1, || proc::run_command(Command::new("sleep").arg("60")));
        assert!(text.contains("limit of 1 s was exceeded while waiting for `sleep 60`"), "{text}");
    }

    #[test]
    fn reports_error_of_failed_check() {
        run_within(60, || Ok(()));
        assert_eq!(message(60, || bail!("planted")), "planted");
    }

    #[test]
    fn fails_checks_without_fixture() {
        static BROKEN: Fixture<u32> = Fixture::new(|| bail!("planted"));
        static WORKING: Fixture<u32> = Fixture::new(|| Ok(7));
        for _ in 0..2 {
            let error = BROKEN.get().unwrap_err().to_string();
            assert_eq!(error, "the setup failed: planted");
            assert_eq!(*WORKING.get().unwrap(), 7);
        }
    }
}
