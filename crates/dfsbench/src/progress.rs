//! Live progress on stderr: a bar with the current rate, how it went lately, and the time left.
//!
//! Where stderr is not a terminal, one plain line per trial; with `--quiet`, nothing; with
//! `--watch`, a full screen. Caveats are printed as they appear, each code once.

mod bar;
mod frame;
pub mod lines;
mod screen;
mod seen;
mod stream;

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use controller::Event;
use model::TrialState;
use plan::Plan;
use report::live::Live;

use crate::exit::Failure;
use crate::output;
use crate::output::lock_always;
use bar::Bar;
use screen::Screen;
use seen::{Seen, sparkline};

pub use screen::check as check_screen;
pub use seen::{label, trial_figures};

/// Columns of the rates beside the bar.
const SPARK: usize = 16;
/// So many of the last rates are shown there: two seconds of them.
const LATELY: usize = 20;

/// Shows how a campaign goes.
pub struct Progress {
    seen: Arc<Mutex<Seen>>,
    bar: Bar,
    plain: bool,
    screen: Option<Screen>,
    started: Instant,
}

/// Whether people see how a campaign goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Shown on stderr.
    Shown,
    /// Nowhere: `--quiet` was given, or stderr is for programs.
    Hidden,
}

impl Progress {
    /// Starts to show.
    pub fn new(plan: &Plan, visibility: Visibility) -> Self {
        let quiet = visibility == Visibility::Hidden;
        let total = controller::steps(plan).len();
        let terminal = std::io::stderr().is_terminal();
        Self {
            seen: Arc::new(Mutex::new(Seen::of(&plan.name, total))),
            bar: Bar::new(total as u64, terminal && !quiet),
            plain: !quiet && !terminal,
            screen: None,
            started: Instant::now(),
        }
    }

    /// Starts to show what has no end that is known.
    pub fn open_ended(plan: &Plan, visibility: Visibility) -> Self {
        let progress = Self::new(plan, visibility);
        progress.seen().total = 0;
        progress.bar.unset_length();
        progress
    }

    /// Shows progress on a full screen instead, until [`finish`](Self::finish).
    ///
    /// # Errors
    /// When stderr is no terminal.
    pub fn on_screen(mut self) -> Result<Self, Failure> {
        self.bar.hide();
        self.screen = Some(Screen::start(Arc::clone(&self.seen))?);
        Ok(self)
    }

    /// Shows an event.
    pub fn hear(&mut self, event: &Event<'_>) {
        let new_caveats = self.seen().hear(event);
        match event {
            Event::TrialBegun { position, .. } => {
                self.bar.set_position(*position as u64, &self.left());
                self.bar.set_message(&self.seen().doing());
            }
            Event::PassBegun(_) => self.bar.set_message(&self.seen().doing()),
            Event::Progress(_) => self.bar.set_message(&self.throughput()),
            Event::TrialEnded { spec, trial } => {
                let line = format!("{}: {}", label(spec), trial_figures(trial));
                if self.plain {
                    output::message(&format!("{} {line}", self.place()));
                } else if trial.state != TrialState::Done {
                    self.say(&line);
                }
                self.print_caveats(new_caveats);
            }
            Event::RunGivenUp(spec) => {
                self.say(&format!("{} failed too often: no more trials of it", label(spec)));
            }
            Event::Left(left) => output::message(&format!(
                "warning: {left} (hint: `dfsbench clean` tries to restore it)"
            )),
            Event::DirectoryBegun { .. }
            | Event::DirectoryEnded { .. }
            | Event::HostProgress { .. }
            | Event::PassEnded(_) => {}
        }
    }

    /// Returns what metrics are made of, at any time and in any thread.
    pub fn live(&self) -> impl Fn() -> Live + Send + Sync + 'static {
        let (seen, started) = (Arc::clone(&self.seen), self.started);
        // The lock is held for a copy only: the thread that reports events waits for no reader.
        move || lock_always(&seen).live(started.elapsed())
    }

    /// Removes the bar or the screen.
    pub fn finish(&mut self) {
        self.bar.finish();
        self.screen = None;
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock_always(&self.seen)
    }

    /// Describes the current pass, its rate, and its recent trend.
    fn throughput(&self) -> String {
        let seen = self.seen();
        let Some(rate) = seen.rate() else { return seen.doing() };
        let rates = seen.rates.range(seen.rates.len().saturating_sub(LATELY)..).copied();
        format!("{} {rate:>10} {}", seen.doing(), sparkline(rates, SPARK))
    }

    /// The number of the trial: `3/12`, or `3` where their number is not known.
    fn place(&self) -> String {
        let seen = self.seen();
        let of = if seen.total > 0 { format!("/{}", seen.total) } else { String::new() };
        format!("{}{of}", seen.position + 1)
    }

    /// Prints the last caveats.
    fn print_caveats(&self, count: usize) {
        let lines: Vec<String> = {
            let seen = self.seen();
            let first = seen.caveats.len() - count;
            seen.caveats[first..].iter().map(seen::CaveatSeen::line).collect()
        };
        for line in lines {
            self.say(&line);
        }
    }

    fn say(&self, line: &str) {
        if self.plain {
            output::message(line);
        } else if self.screen.is_none() {
            self.bar.print_line(line);
        }
    }

    /// Time left, as if all trials took the mean of those made.
    fn left(&self) -> String {
        let left = frame::left(&self.seen(), self.started.elapsed());
        match left {
            Some(left) => format!("~{} s", left.as_secs()),
            None => "?".to_owned(),
        }
    }
}
