//! Runs the program in its own directory.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A directory with a target directory, and the program in it.
pub struct Cli {
    folder: tempfile::TempDir,
}

/// Exit code and output of the program.
#[derive(Debug)]
pub struct End {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Cli {
    pub fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::create_dir(folder.path().join("target")).unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        Self { folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Directory to measure.
    pub fn target(&self) -> PathBuf {
        self.folder().join("target")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dfsbench"));
        command.current_dir(self.folder()).args(args).stdin(Stdio::null());
        // The defaults of the user who runs the tests do not apply to them.
        command.env("XDG_CONFIG_HOME", self.folder().join("config")).env_remove("DFSBENCH_RESULTS");
        command.env("XDG_STATE_HOME", self.folder().join("state"));
        command
    }

    pub fn run(&self, args: &[&str]) -> End {
        End::from_output(self.command(args).output().unwrap())
    }

    /// Runs the program with each of these arguments, expects exit code 2, and returns the commands
    /// with their messages.
    pub fn errors_of(&self, cases: &[&[&str]]) -> String {
        let quote = |arg: &&str| {
            if arg.contains(' ') { format!("'{arg}'") } else { (*arg).to_owned() }
        };
        let shown = |args: &&[&str]| {
            let line: Vec<String> = args.iter().map(quote).collect();
            format!("$ dfsbench {}\n{}", line.join(" "), self.refused(args, 2, &[]).trim_end())
        };
        cases.iter().map(shown).collect::<Vec<_>>().join("\n\n")
    }

    /// Replaces the path of the directory in a text.
    pub fn hide_folder(&self, text: &str) -> String {
        text.replace(&self.folder().display().to_string(), "[folder]")
    }

    /// Runs the program, expects one clear error and no new files, and returns the error.
    pub fn refused(&self, args: &[&str], code: i32, words: &[&str]) -> String {
        let before = self.entries();
        let end = self.run(args);
        assert_eq!(end.code, code, "{args:?}: {end:?}");
        assert_eq!(end.stderr.matches("error: ").count(), 1, "{args:?}: {end:?}");
        assert_eq!(end.stdout, "", "{args:?}");
        for word in words {
            assert!(end.stderr.contains(word), "{args:?}: `{word}` not in {}", end.stderr);
        }
        assert_eq!(self.entries(), before, "{args:?} left something behind");
        self.assert_target_is_empty();
        end.stderr
    }

    /// Repeats a check until it succeeds; the closure returns the answer and whether it is right.
    /// If other processes use the CPUs, the answer says that this host was short of CPU time and
    /// that the results say nothing about the server. Then the check is repeated, up to three times
    /// in total. Any other wrong answer fails the test. Returns whether a right answer was given.
    pub fn unless_limited(ask: impl Fn() -> (String, bool)) -> bool {
        (1..=3).any(|_| {
            let (sentence, is_right) = ask();
            assert!(is_right || sentence.contains("short of CPU time"), "{sentence}");
            is_right
        })
    }

    pub fn assert_target_is_empty(&self) {
        let left: Vec<_> = std::fs::read_dir(self.target()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    fn entries(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder()).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    }
}

impl End {
    pub fn from_output(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The in-memory server, or the pages of a results file, in its own process.
pub struct ServedProcess {
    child: Child,
    pub url: String,
}

impl ServedProcess {
    pub fn start(cli: &Cli, args: &[&str]) -> Self {
        Self::launch(cli, &[&["serve"], args].concat())
    }

    /// Starts any command that prints its address first.
    pub fn launch(cli: &Cli, args: &[&str]) -> Self {
        let mut command = cli.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim().to_owned() }
    }

    /// The most memory that it has used so far, in MiB. **Source:** proc(5), `VmHWM`.
    pub fn peak_memory_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024
    }

    pub fn port(&self) -> u16 {
        self.url.rsplit_once('=').unwrap().1.parse().unwrap()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ServedProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
