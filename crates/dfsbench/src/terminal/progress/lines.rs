//! Progress for programs: one JSON object per line for each event.
//!
//! The lines are documented in `docs/results.md`. The campaign is more important than its progress:
//! if the file can't be written any more (for example on a full disk), that is reported once. A
//! reader that is too slow loses lines and is told their number on a separate line ([`Stream`]).

use std::path::{Path, PathBuf};

use controller::Event;
use model::printable::to_printable_json;
use model::{Campaign, Pass, PassResult, RunSpec, Trial, TrialState};
use serde_json::{Value, json};

use crate::calendar::now_unix_ms;
use crate::exit::{self, End, Failure};
use crate::terminal::output;
use crate::terminal::progress::stream::Stream;

/// Path that stands for stderr.
const STDERR: &str = "-";

/// Writes progress lines.
pub(crate) struct Lines {
    path: PathBuf,
    stream: Stream,
    trials: usize,
    position: usize,
    pass: Option<Pass>,
    /// Lines dropped since the last one that was written.
    dropped: u64,
    /// Whether the file can't be written any more; that has been reported.
    lost: bool,
}

/// Returns true if the lines go to stderr, in which case nothing else may be written there.
pub(crate) fn is_stderr(path: &Path) -> bool {
    path.as_os_str() == STDERR
}

impl Lines {
    /// Opens the file for appending and writes the number of trials.
    pub(crate) fn open(path: &Path, trials: usize) -> Result<Self, Failure> {
        let stream = if is_stderr(path) {
            Stream::stderr()
        } else {
            Stream::open(path).map_err(|error| describe_failure(path, &error))?
        };
        let path = path.to_owned();
        let mut lines =
            Self { path, stream, trials, position: 0, pass: None, dropped: 0, lost: false };
        lines.write(json!({ "event": "campaign_begun" }));
        Ok(lines)
    }

    /// Writes the line for an event.
    pub(crate) fn handle_event(&mut self, event: &Event<'_>) {
        let line = match event {
            Event::TrialBegun { position, spec } => {
                self.position = *position;
                self.pass = None;
                // Repetitions of disturbed trials come after the planned trials.
                self.trials = self.trials.max(position + 1);
                run_event("trial_begun", spec)
            }
            Event::PassBegun(pass) => {
                self.pass = Some(*pass);
                json!({ "event": "pass_begun", "pass": pass.name() })
            }
            Event::Progress(sample) => json!({
                "event": "progress",
                "pass": self.pass.map(Pass::name),
                "at_ns": sample.at_ns,
                "ops": sample.ops,
                "bytes": sample.bytes,
            }),
            Event::TrialEnded { spec, trial } => trial_event(spec, trial),
            Event::RunGivenUp(spec) => run_event("run_given_up", spec),
            // Programs get the overall results instead.
            Event::DirectoryBegun { .. }
            | Event::DirectoryEnded { .. }
            | Event::HostProgress { .. }
            | Event::PassEnded(_) => return,
            Event::Left(what) => json!({ "event": "left_behind", "what": what }),
        };
        self.write(line);
    }

    /// Writes how the campaign ended and its exit code.
    pub(crate) fn end(&mut self, campaign: &Campaign, end: End) {
        self.position = self.trials;
        self.write_last(json!({
            "event": "campaign_ended",
            "campaign": campaign.id,
            "state": campaign.state,
            "exit_code": exit::code_of(end),
        }));
    }

    /// Writes that no more lines follow, and why.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.write_last(json!({
            "event": "campaign_ended",
            "campaign": null,
            "error": failure.to_string(),
            "exit_code": failure.code(),
        }));
    }

    fn write(&mut self, line: Value) {
        let mut written = self.stream.flush();
        if self.stream.is_full() {
            self.dropped += 1;
        } else {
            written = written.and_then(|()| self.write_now(line));
        }
        self.report(written);
    }

    /// Writes the last line even if lines are being held back, and gives a slow reader time to read
    /// it.
    fn write_last(&mut self, line: Value) {
        let dropped = self.dropped;
        let finished = self.write_now(line).and_then(|()| self.stream.finish());
        // If the stalled reader is that of stderr, the message would stall as well.
        if let Ok(left @ 1..) = finished
            && !is_stderr(&self.path)
        {
            let lines = dropped + left as u64;
            let reason = format!("its reader stalled and missed the last {lines} lines");
            self.report(Err(std::io::Error::other(reason)));
        }
        self.report(finished.map(drop));
    }

    fn write_now(&mut self, line: Value) -> std::io::Result<()> {
        if self.dropped > 0 {
            let note = json!({ "event": "lines_dropped", "lines": self.dropped });
            self.dropped = 0;
            self.stream.write(self.render(note))?;
        }
        self.stream.write(self.render(line))
    }

    /// Adds the fields that every line has.
    fn render(&self, mut line: Value) -> String {
        line["unix_ms"] = now_unix_ms().into();
        line["trial"] = self.position.into();
        line["trials"] = self.trials.into();
        to_printable_json(&line.to_string()).into_owned() + "\n"
    }

    fn report(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written
            && !self.lost
        {
            self.lost = true;
            let path = self.path.display();
            output::message(&format!("warning: stopped writing progress to `{path}`: {error}"));
        }
    }
}

fn describe_failure(path: &Path, error: &std::io::Error) -> Failure {
    let hint = if error.kind() == std::io::ErrorKind::NotConnected {
        "start the process that reads it before the campaign, or within 5 s"
    } else {
        "name a file in a directory that exists, or `-` for stderr"
    };
    Failure::Output { what: path.display().to_string(), reason: error.to_string(), hint }
}

fn run_event(event: &str, spec: &RunSpec) -> Value {
    json!({
        "event": event,
        "target": spec.target_name,
        "backend": spec.backend.name(),
        "workload": spec.workload.name(),
    })
}

fn trial_event(spec: &RunSpec, trial: &Trial) -> Value {
    let mut line = run_event("trial_ended", spec);
    let (state, reason) = match &trial.state {
        TrialState::Done => ("done", None),
        TrialState::Failed(reason) => ("failed", Some(reason)),
        TrialState::Interrupted => ("interrupted", None),
    };
    line["state"] = state.into();
    line["reason"] = json!(reason);
    line["passes"] = trial.passes.iter().map(pass_json).collect();
    line
}

fn pass_json(pass: &PassResult) -> Value {
    let mut caveats = Vec::new();
    for caveat in &pass.caveats {
        caveats.push(caveat.code.code());
    }
    json!({
        "pass": pass.pass.name(),
        "window_ns": pass.window_ns,
        "ops": pass.ops(),
        "bytes": pass.bytes(),
        "caveats": caveats,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

    use super::*;

    fn read_lines(reader: &mut File, lines: &mut Lines) -> Vec<Value> {
        let mut text = Vec::new();
        for _ in 0..100 {
            // Empties the pipe to make room for more.
            let _ = reader.read_to_end(&mut text);
            lines.stream.flush().unwrap();
        }
        let text = String::from_utf8(text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn counts_lines_lost_by_slow_reader() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let mut reader = options.open(&fifo).unwrap();
        let mut lines = Lines::open(&fifo, 7).unwrap();
        let what = "x".repeat(3000);
        let mut sent = 0;
        while lines.dropped < 5 {
            lines.handle_event(&Event::Left(&what));
            sent += 1;
        }
        let read = read_lines(&mut reader, &mut lines);
        assert_eq!(read.len(), 1 + sent - 5, "all except the dropped lines and the first one");
        lines.handle_event(&Event::Left("the next"));
        let read = read_lines(&mut reader, &mut lines);
        assert_eq!((&read[0]["event"], &read[0]["lines"]), (&"lines_dropped".into(), &5.into()));
        assert_eq!((&read[1]["what"], &read[1]["trials"]), (&"the next".into(), &7.into()));
    }
}
