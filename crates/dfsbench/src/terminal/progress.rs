//! Live progress on stderr: a bar with the current rate, its recent history and the time left.
//!
//! If stderr is not a terminal, there is one plain line per trial; with `--quiet`, nothing; with
//! `--watch`, a full screen. Caveats are printed as they appear, once per code.

mod bar;
mod campaign_progress;
mod caveats;
mod frame;
mod label;
pub(crate) mod lines;
mod screen;
mod stream;

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use controller::Event;
use model::TrialState;
use plan::Plan;
use report::live::Live;

use crate::exit::Failure;
use crate::terminal::output::{self, lock_always};
use bar::{Bar, Status};
use campaign_progress::CampaignProgress;
use screen::Screen;

pub(crate) use campaign_progress::trial_figures;
pub(crate) use label::work_label;
pub(crate) use screen::check as check_screen;

/// Number of rates next to the bar: those of the last two seconds.
const LATELY: usize = 20;

/// Shows the progress of a campaign.
pub(crate) struct Progress {
    seen: Arc<Mutex<CampaignProgress>>,
    bar: Bar,
    plain: bool,
    screen: Option<Screen>,
    started: Instant,
}

/// Whether progress is shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    Shown,
    /// Hidden because of `--quiet`, or because stderr is for programs.
    Hidden,
}

impl Progress {
    pub(crate) fn new(plan: &Plan, visibility: Visibility) -> Self {
        let quiet = visibility == Visibility::Hidden;
        let terminal = std::io::stderr().is_terminal();
        Self {
            seen: Arc::new(Mutex::new(CampaignProgress::new(plan))),
            bar: Bar::new(terminal && !quiet),
            plain: !quiet && !terminal,
            screen: None,
            started: Instant::now(),
        }
    }

    /// Creates a display for a campaign whose number of trials is unknown.
    pub(crate) fn open_ended(plan: &Plan, visibility: Visibility) -> Self {
        let progress = Self::new(plan, visibility);
        progress.lock_state().total = 0;
        progress
    }

    /// Switches to a full screen, until [`finish`](Self::finish).
    ///
    /// # Errors
    /// If stderr is not a terminal.
    pub(crate) fn on_screen(mut self) -> Result<Self, Failure> {
        self.bar.hide();
        self.screen = Some(Screen::start(Arc::clone(&self.seen))?);
        Ok(self)
    }

    /// Handles an event.
    pub(crate) fn handle_event(&mut self, event: &Event<'_>) {
        // After `handle_event`, a finished trial already counts, so get its number before.
        let place = self.lock_state().place();
        let new_caveats = self.lock_state().handle_event(event);
        match event {
            Event::TrialBegun { .. } | Event::PassBegun(_) | Event::Progress(_) => self.draw_bar(),
            Event::TrialEnded { trial, .. } => {
                if self.plain || trial.state != TrialState::Done {
                    self.print_line(&self.describe_trial(&place));
                }
                self.print_caveats(new_caveats);
            }
            Event::RunGivenUp(spec) => {
                let run = self.lock_state().labels.label(spec);
                let failures = controller::FAILURES_MAX;
                self.print_line(&format!("giving up on {run} after {failures} failed trials"));
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

    /// Returns a function that provides the data for metrics, at any time and in any thread.
    pub(crate) fn live(&self) -> impl Fn() -> Live + Send + Sync + 'static {
        let seen = Arc::clone(&self.seen);
        let started = self.started;
        // The lock is only held for a copy, so the thread that reports events never waits for a
        // reader.
        move || lock_always(&seen).live(started.elapsed())
    }

    /// Removes the bar or the screen.
    pub(crate) fn finish(&mut self) {
        self.bar.finish();
        self.screen = None;
    }

    fn lock_state(&self) -> MutexGuard<'_, CampaignProgress> {
        lock_always(&self.seen)
    }

    /// Shows the current trial and pass, the rate and its recent history.
    fn draw_bar(&self) {
        if self.bar.is_hidden() {
            return;
        }
        let status = {
            let seen = self.lock_state();
            let latest = seen.rates.len().saturating_sub(LATELY);
            Status {
                made: seen.made,
                most: seen.most_trials(),
                place: seen.short_place(),
                doing: seen.describe_work(),
                rate: seen.rate().map(|rate| rate.to_string()).unwrap_or_default(),
                lately: seen.rates.range(latest..).copied().collect(),
                left: frame::time_left(&seen, self.started.elapsed()),
            }
        };
        self.bar.draw(&status);
    }

    /// Describes the last finished trial, whose number is given: `3/12 nfs stream: write 1 GB/s`.
    fn describe_trial(&self, place: &str) -> String {
        let seen = self.lock_state();
        let comma = if seen.may_end_early { "," } else { "" };
        let ended = seen.ended.back().map_or("", String::as_str);
        format!("{place}{comma} {ended}")
    }

    /// Prints the latest `count` caveats.
    fn print_caveats(&self, count: usize) {
        let lines: Vec<String> = {
            let seen = self.lock_state();
            let first = seen.caveats.len() - count;
            seen.caveats[first..].iter().map(caveats::ReportedCaveat::line).collect()
        };
        for line in lines {
            self.print_line(&line);
        }
    }

    fn print_line(&self, line: &str) {
        if self.plain {
            output::message(line);
        } else if self.screen.is_none() {
            self.bar.print_line(line);
        }
    }
}
