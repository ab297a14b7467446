//! The full screen of `--watch` on a real terminal: its contents, and that the terminal is
//! restored.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcgetwinsize, tcsetwinsize};

use crate::cli::{Cli, End};
use crate::interruption;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";

/// A terminal that the test controls, with everything that was ever drawn on it.
pub struct Terminal {
    ours: File,
    theirs: File,
    drawn: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub fn open() -> Self {
        Self::sized(100, 30)
    }

    pub fn sized(columns: u16, rows: u16) -> Self {
        let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).unwrap();
        let ours = File::from(ours);
        let drawn = Arc::new(Mutex::new(Vec::new()));
        let mut reader = ours.try_clone().unwrap();
        let kept = Arc::clone(&drawn);
        // It ends with the terminal, or at the end of the test at the latest.
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                kept.lock().unwrap().extend_from_slice(&bytes[..read]);
            }
        });
        Self { ours, theirs, drawn }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.drawn.lock().unwrap()).into_owned()
    }

    fn modes(&self) -> LocalModes {
        tcgetattr(&self.theirs).unwrap().local_modes
    }

    pub fn wait_for(&self, text: &str) {
        let begun = Instant::now();
        while !self.text().contains(text) {
            assert!(begun.elapsed() < Duration::from_secs(60), "no `{text}` in {}", self.text());
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    pub fn start(&self, cli: &Cli, args: &[&str]) -> Child {
        let mut command = cli.command(args);
        let theirs = || Stdio::from(self.theirs.try_clone().unwrap());
        // The environment of the tests may set a dumb terminal.
        command.env("TERM", "xterm");
        let child = command.stdin(theirs()).stderr(theirs()).stdout(Stdio::piped());
        child.spawn().unwrap()
    }

    /// Runs the program on it; types the keys once a text is shown.
    fn run(&self, cli: &Cli, args: &[&str], (text, keys): (&str, &[u8])) -> End {
        let child = self.start(cli, args);
        self.wait_for(text);
        (&self.ours).write_all(keys).unwrap();
        End::from_output(child.wait_with_output().unwrap())
    }

    /// Runs the program on it; sends it signals once its screen shows results.
    fn run_until(&self, cli: &Cli, signals: &[Signal]) -> End {
        let child = self.start(cli, &LONG);
        self.wait_for("highest ");
        let process = Pid::from_child(&child);
        for signal in signals {
            // A program that has already ended was ended by the previous signal.
            let _ = kill_process(process, *signal);
            std::thread::park_timeout(Duration::from_millis(50));
        }
        End::from_output(child.wait_with_output().unwrap())
    }

    /// The lines that were printed, broken as the terminal does it, without control sequences.
    pub fn lines(&self) -> Vec<String> {
        let text = self.text();
        let mut pieces = text.split("\x1b[");
        let mut plain = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            // A sequence ends with its first letter.
            let end = piece.find(|letter: char| letter.is_ascii_alphabetic());
            plain.push_str(&piece[end.map_or(piece.len(), |end| end + 1)..]);
        }
        let columns = usize::from(tcgetwinsize(&self.ours).unwrap().ws_col);
        let mut lines = Vec::new();
        for line in plain.split(['\r', '\n']) {
            let letters: Vec<char> = line.chars().collect();
            let parts = letters.chunks(columns).map(|part| part.iter().collect::<String>());
            lines.extend(parts.map(|part| part.trim_end().to_owned()));
        }
        lines
    }

    /// The content of every drawing of the screen, line by line, without control sequences.
    fn drawings(&self) -> Vec<Vec<String>> {
        let text = self.text();
        let screens = text.split("\x1b[H").skip(1);
        let lines = |screen: &str| {
            let end = screen.find(LEAVE).unwrap_or(screen.len());
            screen[..end].lines().map(|line| line.replace('\r', "").replace("\x1b[K", "")).collect()
        };
        screens.map(lines).collect()
    }

    fn assert_put_back(&self, before: LocalModes) {
        self.wait_for(LEAVE);
        let text = self.text();
        assert_eq!((text.matches(ENTER).count(), text.matches(LEAVE).count()), (1, 1), "{text}");
        assert!(text.contains("\x1b[?25h"), "the cursor is visible again");
        assert_eq!(self.modes(), before);
    }
}

const LONG: [&str; 9] =
    ["run", "target", "--watch", "--workload", "mixed", "--file-size", "8MiB", "--duration", "60s"];

#[test]
fn shows_progress_and_quits_with_q() {
    let cli = Cli::new();
    let terminal = Terminal::open();
    let before = terminal.modes();
    assert!(before.contains(LocalModes::ECHO | LocalModes::ICANON));
    let end = terminal.run(&cli, &LONG, ("highest ", b"q"));
    assert_eq!(end.code, 4, "{end:?}");
    assert!(end.stdout.contains("interrupted"), "{}", end.stdout);
    cli.assert_target_is_empty();
    terminal.assert_put_back(before);
    let text = terminal.text();
    for part in ["trial 1 of ", "posix mixed", "kop/s", "no caveats so far", "q or Ctrl-C", "█"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.len() < 4_000), "lines fit");
}

#[test]
fn shows_removals_after_signal() {
    let cli = Cli::new();
    let terminal = Terminal::open();
    let before = terminal.modes();
    let served = interruption::slow_to_remove(&cli);
    let args = [&["run", &served.url, "--watch"], &interruption::SOME_NAMES[..]].concat();
    let child = terminal.start(&cli, &args);
    interruption::wait_for_names(&served);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    terminal.wait_for(" entries removed (again: quit at once) from nfs://127.0.0.1");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let end = End::from_output(child.wait_with_output().unwrap());
    assert_eq!(end.code, 4, "{end:?}");
    terminal.assert_put_back(before);
    terminal.wait_for("stopped immediately: the working directory");
}

#[test]
fn restores_terminal_at_second_ctrl_c() {
    let cli = Cli::new();
    let terminal = Terminal::open();
    let before = terminal.modes();
    let end = terminal.run(&cli, &LONG, ("highest ", b"\x03\x03"));
    assert_eq!(end.code, 4, "{end:?}");
    terminal.assert_put_back(before);
}

#[test]
fn restores_terminal_on_every_signal() {
    for signals in [&[Signal::TERM][..], &[Signal::INT], &[Signal::TERM; 2]] {
        let cli = Cli::new();
        let terminal = Terminal::open();
        let before = terminal.modes();
        let end = terminal.run_until(&cli, signals);
        assert_eq!(end.code, 4, "{signals:?}: {end:?}");
        terminal.assert_put_back(before);
        if signals.len() == 1 {
            cli.assert_target_is_empty();
        }
    }
}

#[test]
fn a_narrow_terminal_has_what_fits() {
    for (columns, rows) in [(40, 10), (20, 3), (1, 1)] {
        let cli = Cli::new();
        let terminal = Terminal::sized(columns, rows);
        let before = terminal.modes();
        let child = terminal.start(&cli, &LONG);
        let begun = Instant::now();
        while terminal.drawings().len() < 4 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", terminal.text());
            std::thread::park_timeout(Duration::from_millis(20));
        }
        (&terminal.ours).write_all(b"q").unwrap();
        let end = End::from_output(child.wait_with_output().unwrap());
        assert_eq!(end.code, 4, "{columns} x {rows}: {end:?}");
        terminal.assert_put_back(before);
        let screens = terminal.drawings();
        // The last drawing may have been cut off when the program ended.
        for screen in &screens[..screens.len() - 1] {
            assert!(screen.len() <= rows.into(), "{rows} rows: {screen:?}");
            let widest = screen.iter().map(|line| line.trim_end_matches("\x1b[J"));
            let widest = widest.map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns.into()), "{columns} columns: {screen:?}");
        }
        if columns == 40 {
            let seen = |text| screens.iter().flatten().any(|line| line.contains(text));
            assert!(
                seen("trial 1 of ") && seen("throughput") && seen("q or Ctrl-C"),
                "{screens:?}"
            );
        }
    }
}

#[test]
fn restores_terminal_before_table() {
    let cli = Cli::new();
    let terminal = Terminal::open();
    let before = terminal.modes();
    let args = ["run", "target", "--watch", "--file-size", "1MiB", "--workload", "stream"];
    let end = terminal.run(&cli, &args, (ENTER, b""));
    assert!(end.stdout.contains("stream write"), "{end:?}");
    terminal.assert_put_back(before);
}

#[test]
fn refuses_watch_on_line_terminal() {
    let cli = Cli::new();
    let terminal = Terminal::open();
    let mut command = cli.command(&["run", "target", "--watch"]);
    let theirs = Stdio::from(terminal.theirs.try_clone().unwrap());
    let child = command.env("TERM", "dumb").stderr(theirs).stdout(Stdio::piped()).spawn().unwrap();
    let end = End::from_output(child.wait_with_output().unwrap());
    terminal.wait_for("TERM is `dumb`");
    assert_eq!((end.code, terminal.text().contains(ENTER)), (2, false), "{}", terminal.text());
}

#[test]
fn refuses_watch_without_terminal() {
    let cli = Cli::new();
    cli.refused(&["run", "target", "--watch"], 2, &["needs a terminal", "--json-progress FILE"]);
    cli.refused(
        &["run", "target", "--watch", "--json-progress", "-"],
        2,
        &["both write to stderr"],
    );
    cli.refused(&["run", "target", "--watch", "--quiet"], 2, &["cannot be used with"]);
}

#[test]
fn prints_each_caveat_once() {
    let cli = Cli::new();
    let args = ["run", "target", "--trials", "3", "--file-size", "1MiB", "--workload", "stream"];
    let end = cli.run(&args);
    let printed = end.stderr.lines().filter(|line| line.starts_with("! too-short")).count();
    assert_eq!(printed, 1, "{}", end.stderr);
}
