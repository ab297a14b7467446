//! Live progress on stderr: a bar with the current rate and the time left.
//!
//! Where stderr is not a terminal, one plain line per trial; with `--quiet`, nothing.

pub mod lines;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use controller::Event;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::{IntervalSample, Pass, PassResult, RunSpec, Trial, TrialState};
use plan::Plan;
use stats::Rate;

use crate::output;

/// Shows how a campaign goes.
pub struct Progress {
    bar: ProgressBar,
    plain: bool,
    total: usize,
    position: usize,
    label: String,
    pass: Option<Pass>,
    last_sample_ns: u64,
    /// When the bar last moved, to pace the estimate of what is left.
    started: Instant,
}

impl Progress {
    /// Starts to show.
    pub fn new(plan: &Plan, quiet: bool) -> Self {
        let total = controller::steps(plan).len();
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(
            Some(total as u64),
            if quiet || !terminal {
                ProgressDrawTarget::hidden()
            } else {
                ProgressDrawTarget::stderr_with_hz(10)
            },
        );
        let template = "{bar:24} {pos}/{len} trials, {prefix} left   {msg}";
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        bar.set_style(style.progress_chars("━╸─"));
        bar.set_prefix("?");
        Self {
            bar,
            plain: !quiet && !terminal,
            total,
            position: 0,
            label: String::new(),
            pass: None,
            last_sample_ns: 0,
            started: Instant::now(),
        }
    }

    /// Starts to show what has no end that is known.
    pub fn open_ended(plan: &Plan, quiet: bool) -> Self {
        let progress = Self { total: 0, ..Self::new(plan, quiet) };
        progress.bar.unset_length();
        progress
    }

    /// Hears what happens.
    pub fn hear(&mut self, event: &Event<'_>) {
        match event {
            Event::TrialBegun { position, spec } => {
                self.position = *position;
                self.label = label(spec);
                self.bar.set_position(*position as u64);
                self.bar.set_prefix(self.left());
                self.bar.set_message(self.label.clone());
            }
            Event::PassBegun(pass) => {
                self.pass = Some(*pass);
                self.last_sample_ns = 0;
                self.bar.set_message(format!("{} {}", self.label, pass.name()));
            }
            Event::Progress(sample) => self.sample(sample),
            Event::TrialEnded { spec, trial } => self.ended(spec, trial),
            Event::RunGivenUp(spec) => {
                self.say(&format!("{} is not tried again", label(spec)));
            }
            Event::Left(left) => output::message(&format!(
                "warning: {left} (hint: `dfsbench clean` tries to put it back)"
            )),
        }
    }

    /// Takes the bar away.
    pub fn finish(&mut self) {
        self.bar.finish_and_clear();
    }

    fn sample(&mut self, sample: &IntervalSample) {
        let interval_s = (sample.at_ns - self.last_sample_ns) as f64 / 1e9;
        self.last_sample_ns = sample.at_ns;
        let (Some(pass), true) = (self.pass, interval_s > 0.01) else { return };
        let rate = rate(pass, sample.ops as f64 / interval_s, sample.bytes as f64 / interval_s);
        self.bar.set_message(format!("{} {} {rate}", self.label, pass.name()));
    }

    fn ended(&mut self, spec: &RunSpec, trial: &Trial) {
        let figures: Vec<String> = trial.passes.iter().map(figure).collect();
        let line = match &trial.state {
            TrialState::Done => figures.join(", "),
            TrialState::Failed(reason) => format!("failed: {reason}"),
            TrialState::Interrupted => "interrupted".to_owned(),
        };
        if self.plain {
            let at = self.position + 1;
            let of = if self.total > 0 { format!("/{}", self.total) } else { String::new() };
            output::message(&format!("{at}{of} {}: {line}", label(spec)));
        } else if trial.state != TrialState::Done {
            self.say(&format!("{}: {line}", label(spec)));
        }
    }

    fn say(&self, line: &str) {
        if self.plain {
            output::message(line);
        } else {
            self.bar.println(line);
        }
    }

    /// Time left, as if all trials took the mean of those made.
    fn left(&self) -> String {
        if self.position == 0 || self.total == 0 {
            return "?".to_owned();
        }
        let mean = self.started.elapsed() / self.position as u32;
        let left = mean * self.total.saturating_sub(self.position) as u32;
        format!("~{} s", left.max(Duration::from_secs(1)).as_secs())
    }
}

fn label(spec: &RunSpec) -> String {
    if spec.target_name == spec.backend.name() {
        return format!("{} {}", spec.target_name, spec.workload.name());
    }
    format!("{} {} {}", spec.target_name, spec.backend.name(), spec.workload.name())
}

fn figure(pass: &PassResult) -> String {
    let seconds = pass.window_ns.max(1) as f64 / 1e9;
    let rate = rate(pass.pass, pass.ops() as f64 / seconds, pass.bytes() as f64 / seconds);
    format!("{} {rate}", pass.pass.name())
}

/// The rate that counts for the pass, with its unit.
fn rate(pass: Pass, ops_per_s: f64, bytes_per_s: f64) -> Rate {
    Rate::of_pass(pass, if pass.is_byte_rate() { bytes_per_s } else { ops_per_s })
}
