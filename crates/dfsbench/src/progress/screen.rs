//! The full screen of `--watch`: takes the terminal, and restores it however the process ends.
//!
//! [`Screen`] is the principal type. A thread of its own draws the received events some times a
//! second and reads the keyboard; the measuring threads only note events. `q` and ctrl-C do what
//! the signal of ctrl-C does. The terminal is restored at the end, when the thread or any other
//! panics, and before a second signal ends the process. Messages meanwhile are shown afterwards.
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

use super::frame::{self, ScreenSize};
use super::lines;
use super::seen::Seen;
use crate::exit::Failure;
use crate::output::lock_always;
use crate::signals::SignalStream;
use crate::{output, signals};

/// How often it is drawn.
const TICK_NS: i64 = 200_000_000;
/// The size of a terminal that does not report one.
const SIZE_USUAL: ScreenSize = ScreenSize { columns: 80, rows: 24 };
/// A screen of its own, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// The byte of ctrl-C where the terminal makes no signal of it.
const CTRL_C: u8 = 3;

/// How the terminal was, while it is taken.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

/// How the keyboard was; `None` where there is none.
struct Taken(Option<Termios>);

/// A full screen.
pub struct Screen {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Checks that there is a screen, and that stderr is not for programs.
///
/// # Errors
/// When stderr is no terminal, or for programs.
pub fn check(json_progress: Option<&Path>) -> Result<(), Failure> {
    if json_progress.is_some_and(lines::is_stderr) {
        let hint = "name a file for one of them";
        return Err(Failure::Usage(format!(
            "--watch and --json-progress - both write to stderr (hint: {hint})"
        )));
    }
    let hint = "leave it out for plain lines, or --json-progress FILE for programs";
    if is_dumb(std::env::var_os("TERM").as_deref()) {
        return Err(Failure::Usage(format!(
            "--watch needs a terminal that can move its cursor, and TERM is `dumb` (hint: {hint})"
        )));
    }
    if io::stderr().is_terminal() {
        return Ok(());
    }
    Err(Failure::Usage(format!("--watch needs a terminal on stderr (hint: {hint})")))
}

/// Says whether a terminal of this type can only print one line after the other.
fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| term == "dumb")
}

impl Screen {
    /// Takes the terminal and begins to draw the received events.
    ///
    /// # Errors
    /// When there is none, or it can't be taken.
    pub fn start(seen: Arc<Mutex<Seen>>) -> Result<Self, Failure> {
        check(None)?;
        match Self::take(seen) {
            Ok(screen) => Ok(screen),
            Err(error) => {
                restore_terminal();
                // Also where the terminal was not taken yet, or messages would be held for ever.
                output::release();
                Err(Failure::Lab(format!("can't set up the terminal: {error}")))
            }
        }
    }

    /// Takes the terminal; on an error it may be taken in part.
    fn take(seen: Arc<Mutex<Seen>>) -> io::Result<Self> {
        // Signals first: from here on a second ctrl-C restores the terminal before it ends all.
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
            // The hook has reported its panic.
            let _ = thread.join();
        }
        restore_terminal();
    }
}

fn lock_terminal() -> MutexGuard<'static, Option<Taken>> {
    lock_always(&TAKEN)
}

/// Opens a screen of its own, and has keys come one by one, without an echo.
fn take_terminal() -> io::Result<()> {
    let stdin = io::stdin();
    let keyboard = if stdin.is_terminal() { Some(tcgetattr(stdin.as_fd())?) } else { None };
    *lock_terminal() = Some(Taken(keyboard.clone()));
    if let Some(mut modes) = keyboard {
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        modes.special_codes[SpecialCodeIndex::VMIN] = 0;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin.as_fd(), OptionalActions::Now, &modes)?;
    }
    write_terminal(ENTER)
}

/// Restores the terminal and prints the messages that were held back; does nothing where it was
/// not taken.
fn restore_terminal() {
    let Some(Taken(keyboard)) = lock_terminal().take() else { return };
    let _ = write_terminal(LEAVE);
    if let Some(modes) = keyboard {
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Flush, &modes);
    }
    output::release();
}

/// Has the terminal restored before a panic is reported.
fn restore_at_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // One that is caught ends a trial, and the screen goes on.
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
fn run_screen(seen: &Mutex<Seen>, mut signals: SignalStream, stop: &AtomicBool) {
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
                    // Received like any other, here and by the handlers that end the campaign.
                    let _ = kill_process(getpid(), Signal::INT);
                }
            }
        }
    }
}

/// Draws the screen; `footer` takes the place of the help in its last line.
fn draw_frame(seen: &Mutex<Seen>, gone: Duration, footer: Option<&str>) {
    let size = screen_size();
    let mut lines = {
        let seen = lock_always(seen);
        frame::lines(&seen, gone, size)
    };
    if let (Some(footer), Some(last)) = (footer, lines.last_mut()) {
        *last = frame::fit_line(footer, size.columns);
    }
    // Home; each line and nothing behind it; nothing below the last.
    let _ = write_terminal(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")));
}

/// Reads how large the terminal is.
fn screen_size() -> ScreenSize {
    match tcgetwinsize(io::stderr().as_fd()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            ScreenSize { columns: size.ws_col.into(), rows: size.ws_row.into() }
        }
        _ => SIZE_USUAL,
    }
}

/// Waits for a key or a signal, at most until it is to be drawn again; returns whether a key was
/// pressed.
fn wait_for_input(signals: &UnixStream) -> bool {
    let stdin = io::stdin();
    let mut ends = vec![PollFd::new(signals, PollFlags::IN)];
    if matches!(*lock_terminal(), Some(Taken(Some(_)))) {
        ends.push(PollFd::new(&stdin, PollFlags::IN));
    }
    let tick = Timespec { tv_sec: 0, tv_nsec: TICK_NS };
    // After an interrupted poll the signals are read all the same.
    let _ = poll(&mut ends, Some(&tick));
    ends.get(1).is_some_and(|keyboard| keyboard.revents().contains(PollFlags::IN))
}

/// The keys that were pressed.
fn read_keys() -> Vec<u8> {
    let mut keys = [0; 64];
    let read = rustix::io::read(io::stdin().as_fd(), &mut keys).unwrap_or(0);
    keys[..read].to_vec()
}

/// Counts the received signals.
fn count_signals(signals: &mut UnixStream) -> usize {
    let mut bytes = [0; 16];
    signals.read(&mut bytes).unwrap_or(0)
}
