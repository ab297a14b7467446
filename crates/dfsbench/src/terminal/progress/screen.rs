//! The full screen of `--watch`: takes over the terminal, and restores it however the process
//! exits.
//!
//! [`Screen`] is the main type. A separate thread draws the received events several times a second
//! and reads the keyboard; the measuring threads only record events. `q` and Ctrl-C do the same as
//! SIGINT. The terminal is restored at the end, if any thread panics, and before a second signal
//! ends the process. Messages are held back and printed afterwards.
//!
//! **Source:** ECMA-48 (CUP, EL, ED); xterm, "Control Sequences" (DECSET 1049, 25).

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::panicked;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use super::campaign_progress::CampaignProgress;
use super::frame::{self, ScreenSize};
use super::lines;
use crate::exit::Failure;
use crate::signals::{self, SignalStream};
use crate::terminal::output::{self, lock_always};

/// Interval between redraws.
const TICK_NS: i64 = 200_000_000;
/// Size to assume if a terminal doesn't report one.
const SIZE_USUAL: ScreenSize = ScreenSize { columns: 80, rows: 24 };
/// Switches to the alternate screen and hides the cursor, and reverts that.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// The byte of Ctrl-C while the terminal doesn't turn it into a signal.
const CTRL_C: u8 = 3;

/// Previous settings of the terminal, while it is taken over.
static TAKEN: Mutex<Option<SavedTerminal>> = Mutex::new(None);

/// Previous settings of the keyboard; `None` if stdin is not a terminal.
struct SavedTerminal(Option<Termios>);

/// A full screen.
pub(super) struct Screen {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Checks that stderr is a terminal with cursor control, and not reserved for programs.
pub(crate) fn check(json_progress: Option<&Path>) -> Result<(), Failure> {
    if json_progress.is_some_and(lines::is_stderr) {
        let hint = "name a file for one of them";
        return Err(Failure::Usage(format!(
            "--watch and --json-progress - both write to stderr (hint: {hint})"
        )));
    }
    let hint = "omit it for plain lines, or use --json-progress FILE for programs";
    if is_dumb(std::env::var_os("TERM").as_deref()) {
        return Err(Failure::Usage(format!(
            "--watch needs a terminal that can move its cursor, but TERM is `dumb` (hint: {hint})"
        )));
    }
    if io::stderr().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage(format!("--watch needs a terminal on stderr (hint: {hint})")))
}

/// Returns true if this type of terminal can only print line after line.
fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| term == "dumb")
}

impl Screen {
    /// Takes over the terminal and starts drawing the received events.
    ///
    /// # Errors
    /// If there is no terminal or it can't be set up.
    pub(super) fn start(seen: Arc<Mutex<CampaignProgress>>) -> Result<Self, Failure> {
        check(None)?;
        match Self::take(seen) {
            Ok(screen) => Ok(screen),
            Err(error) => {
                restore_terminal();
                // Release even if the terminal was not set up yet, or messages would be held back
                // forever.
                output::release();
                Err(Failure::Lab(format!("can't set up the terminal: {error}")))
            }
        }
    }

    /// Takes over the terminal. If this fails, it may be partly set up.
    fn take(seen: Arc<Mutex<CampaignProgress>>) -> io::Result<Self> {
        // Signals first: from now on, a second Ctrl-C restores the terminal before the process
        // exits.
        let signals = signals::receive_all()?;
        restore_at_panics();
        output::hold();
        take_terminal()?;
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("screen".into())
            .spawn(move || run_screen(&seen, signals, &ends))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, the hook has already reported that.
            let _ = thread.join();
        }
        restore_terminal();
    }
}

fn lock_terminal() -> MutexGuard<'static, Option<SavedTerminal>> {
    lock_always(&TAKEN)
}

/// Switches to the alternate screen, and makes the terminal pass on single keys without an echo.
fn take_terminal() -> io::Result<()> {
    let stdin = io::stdin();
    let keyboard = if stdin.is_terminal() { Some(tcgetattr(stdin.as_fd())?) } else { None };
    *lock_terminal() = Some(SavedTerminal(keyboard.clone()));
    if let Some(mut modes) = keyboard {
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        modes.special_codes[SpecialCodeIndex::VMIN] = 0;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &modes)?;
    }
    write_terminal(ENTER)
}

/// Restores the terminal and prints the messages that were held back. Does nothing if the terminal
/// was not taken over.
fn restore_terminal() {
    let Some(SavedTerminal(keyboard)) = lock_terminal().take() else { return };
    let _ = write_terminal(LEAVE);
    if let Some(modes) = keyboard {
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Flush, &modes);
    }
    output::release();
}

/// Restores the terminal before a panic is reported.
fn restore_at_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // A panic that is caught only ends a trial, so the screen stays.
            if !panicked::is_caught() {
                restore_terminal();
            }
            report(panic);
        }));
    });
}

fn write_terminal(text: &str) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}

/// Draws and reads keys until it is stopped.
fn run_screen(seen: &Mutex<CampaignProgress>, mut signals: SignalStream, stop: &AtomicBool) {
    let started = Instant::now();
    let mut received = 0;
    while !stop.load(Relaxed) {
        let removing = if received > 0 { signals::describe_removing() } else { None };
        draw_frame(seen, started.elapsed(), removing.as_deref());
        let keyboard = wait_for_input(&signals.stream);
        received += count_signals(&mut signals.stream);
        if received > 1 {
            restore_terminal();
            signals::end_now();
        }
        if keyboard {
            for key in read_keys() {
                if matches!(key, b'q' | CTRL_C) {
                    // The signal is received here and by the handlers that end the campaign.
                    let _ = kill_process(getpid(), Signal::INT);
                }
            }
        }
    }
}

/// Draws the screen. `footer` replaces the help on the last line.
fn draw_frame(seen: &Mutex<CampaignProgress>, gone: Duration, footer: Option<&str>) {
    let size = screen_size();
    let mut lines = {
        let seen = lock_always(seen);
        frame::lines(&seen, gone, size)
    };
    if let (Some(footer), Some(last)) = (footer, lines.last_mut()) {
        *last = frame::fit_line(footer, size.columns);
    }
    // Move to the top left, clear the rest of each line, and clear everything below the last line.
    let _ = write_terminal(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")));
}

/// Returns the size of the terminal.
fn screen_size() -> ScreenSize {
    match tcgetwinsize(io::stderr().as_fd()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            ScreenSize { columns: size.ws_col.into(), rows: size.ws_row.into() }
        }
        _ => SIZE_USUAL,
    }
}

/// Waits for a key or a signal, at most until the next redraw. Returns whether a key was pressed.
fn wait_for_input(signals: &UnixStream) -> bool {
    let stdin = io::stdin();
    let mut ends = vec![PollFd::new(signals, PollFlags::IN)];
    if matches!(*lock_terminal(), Some(SavedTerminal(Some(_)))) {
        ends.push(PollFd::new(&stdin, PollFlags::IN));
    }
    let tick = Timespec { tv_sec: 0, tv_nsec: TICK_NS };
    // If the poll was interrupted, signals are still read afterwards.
    let _ = poll(&mut ends, Some(&tick));
    ends.get(1).is_some_and(|keyboard| keyboard.revents().contains(PollFlags::IN))
}

/// Returns the keys that were pressed.
fn read_keys() -> Vec<u8> {
    let mut keys = [0; 64];
    let read = rustix::io::read(io::stdin().as_fd(), &mut keys).unwrap_or(0);
    keys[..read].to_vec()
}

/// Returns the number of signals received.
fn count_signals(signals: &mut UnixStream) -> usize {
    let mut bytes = [0; 16];
    signals.read(&mut bytes).unwrap_or(0)
}
