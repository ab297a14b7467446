//! Progress for programs: each event as one JSON object a line.
//!
//! The lines are documented in `docs/results.md`. Each is written with one call and nothing is held
//! back, so that a reader of the file gets whole lines. A file that can't be written to any
//! more (a full disk) is reported once: the campaign is worth more than its progress.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use controller::Event;
use model::{Campaign, Pass, PassResult, RunSpec, Trial, TrialState};
use serde_json::{Value, json};

use crate::calendar::now_unix_ms;
use crate::exit::{End, Failure};
use crate::output;

/// The path that stands for stderr.
const STDERR: &str = "-";

/// Writes progress lines.
pub struct Lines {
    path: PathBuf,
    /// `None` for stderr.
    file: Option<File>,
    trials: usize,
    position: usize,
    pass: Option<Pass>,
    lost: bool,
}

/// Says whether the lines go to stderr, where nothing else should stand then.
pub fn is_stderr(path: &Path) -> bool {
    path.as_os_str() == STDERR
}

impl Lines {
    /// Opens the file to append to it, and writes the number of trials.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub fn open(path: &Path, trials: usize) -> Result<Self, Failure> {
        let mut file = None;
        if !is_stderr(path) {
            match OpenOptions::new().append(true).create(true).open(path) {
                Ok(opened) => file = Some(opened),
                Err(error) => {
                    return Err(Failure::Output {
                        what: path.display().to_string(),
                        reason: error.to_string(),
                        hint: "name a file in a directory that exists, or `-` for stderr",
                    });
                }
            }
        }
        let path = path.to_owned();
        let mut lines = Self { path, file, trials, position: 0, pass: None, lost: false };
        lines.write(json!({ "event": "campaign_begun" }));
        Ok(lines)
    }

    /// Writes the line of an event.
    pub fn hear(&mut self, event: &Event<'_>) {
        let line = match event {
            Event::TrialBegun { position, spec } => {
                (self.position, self.pass) = (*position, None);
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
            // For programs the whole at once will do.
            Event::DirectoryBegun { .. }
            | Event::DirectoryEnded
            | Event::HostProgress { .. }
            | Event::PassEnded(_) => return,
            Event::Left(what) => json!({ "event": "left_behind", "what": what }),
        };
        self.write(line);
    }

    /// Writes how the campaign ended and with which exit code.
    pub fn end(&mut self, campaign: &Campaign, end: End) {
        self.position = self.trials;
        self.write(json!({
            "event": "campaign_ended",
            "campaign": campaign.id,
            "state": campaign.state,
            "exit_code": end.code(),
        }));
    }

    /// Writes that no more lines follow, and why.
    pub fn fail(&mut self, failure: &Failure) {
        self.write(json!({
            "event": "campaign_ended",
            "campaign": null,
            "error": failure.to_string(),
            "exit_code": failure.code(),
        }));
    }

    fn write(&mut self, mut line: Value) {
        line["unix_ms"] = now_unix_ms().into();
        line["trial"] = self.position.into();
        line["trials"] = self.trials.into();
        let text = format!("{line}\n");
        let written = match &mut self.file {
            None => std::io::stderr().lock().write_all(text.as_bytes()),
            Some(file) => file.write_all(text.as_bytes()),
        };
        if let (Err(error), false) = (written, self.lost) {
            self.lost = true;
            let path = self.path.display();
            output::message(&format!("warning: no more progress in `{path}`: {error}"));
        }
    }
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
