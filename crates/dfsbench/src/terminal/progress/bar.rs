//! The progress bar on stderr, with lines above it.
//!
//! [`Bar`] owns the drawing library's bar, so that all text is made printable before it is drawn.
//! [`Status`] is the text next to the bar.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::printable::{to_printable, to_printable_line};
use unicode_width::UnicodeWidthStr as _;

use super::campaign_progress::sparkline;
use crate::terminal::output::{self, DrawnBar};
use crate::terminal::wrap::cut_line;

/// Redraws of the bar per second.
const DRAWS_HZ: u8 = 10;
/// Width of the bar, and of the space after it.
const BAR: usize = 12;
/// Minimum width of a rate, so that the text after it doesn't move.
const RATE: usize = 10;
/// Minimum and maximum width of the recent rates.
const SPARK_MIN: usize = 4;
const SPARK_MAX: usize = 20;
/// Columns to assume if the width of the terminal is unknown.
const COLUMNS_USUAL: usize = 80;

/// A progress bar with a message next to it and lines above it.
pub(super) struct Bar(ProgressBar);

/// The state of a campaign that is shown next to the bar.
#[derive(Debug)]
pub(super) struct Status {
    /// Finished trials.
    pub made: usize,
    /// Maximum number of trials; `None` if unknown.
    pub most: Option<usize>,
    /// Number of the current trial, as text.
    pub place: String,
    /// The current run and pass.
    pub doing: String,
    /// The current rate; empty if there is none.
    pub rate: String,
    /// Recent rates.
    pub lately: Vec<f64>,
    /// The time left.
    pub left: String,
}

impl Bar {
    /// Creates a bar that is only visible if `is_drawn` is set.
    pub(super) fn new(is_drawn: bool) -> Self {
        let target = if is_drawn {
            ProgressDrawTarget::stderr_with_hz(DRAWS_HZ)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        // Keep the cursor before the end of the line. Otherwise the `^C` that a terminal prints
        // would wrap to the next line, and the bar would be left above the output that follows.
        let template = format!("{{bar:{BAR}}} {{wide_msg}}   \u{1b}[3D");
        let style = ProgressStyle::with_template(&template).expect("the template is well-formed");
        bar.set_style(style.progress_chars("━╸─"));
        if is_drawn {
            let suspended = bar.clone();
            let cleared = bar.clone();
            output::set_bar(Some(DrawnBar {
                suspend: Box::new(move |write| suspended.suspend(write)),
                clear: Box::new(move || cleared.finish_and_clear()),
            }));
        }
        Self(bar)
    }

    /// Stops drawing.
    pub(super) fn hide(&self) {
        self.forget();
        self.0.set_draw_target(ProgressDrawTarget::hidden());
    }

    pub(super) fn is_hidden(&self) -> bool {
        self.0.is_hidden()
    }

    /// Draws the bar with a status next to it.
    pub(super) fn draw(&self, status: &Status) {
        if let Some(most) = status.most {
            self.0.set_length(most as u64);
            self.0.set_position(status.made as u64);
        }
        let columns = output::message_columns().unwrap_or(COLUMNS_USUAL);
        let message = status.line(columns.saturating_sub(BAR + 1));
        self.0.set_message(to_printable_line(&message).into_owned());
    }

    pub(super) fn print_line(&self, line: &str) {
        self.0.println(output::fit_terminal(&to_printable(line)));
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.forget();
        self.0.finish_and_clear();
    }

    fn forget(&self) {
        if !self.0.is_hidden() {
            output::set_bar(None);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Status {
    /// Formats the status to fit this many columns. If space is short, it first omits the recent
    /// rates and then shortens the name of the run.
    fn line(&self, columns: usize) -> String {
        let Self { place, doing, rate, lately, left, .. } = self;
        let rate = if rate.is_empty() { String::new() } else { format!(" {rate:>RATE$}") };
        let taken = place.width() + 1 + rate.width() + 2 + left.width();
        let room = columns.saturating_sub(taken);
        let mut spark = String::new();
        let spare = room.saturating_sub(doing.width() + 1).min(SPARK_MAX);
        if spare >= SPARK_MIN && !lately.is_empty() {
            let first = lately.len().saturating_sub(spare);
            spark = format!(" {}", sparkline(lately[first..].iter().copied(), spare));
        }
        let doing = cut_line(doing, room);
        format!("{place} {doing}{rate}{spark}  {left}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        Status {
            made: 2,
            most: Some(128),
            place: "3/128".to_owned(),
            doing: "nfs stream write v4.1 128 KiB qd 4".to_owned(),
            rate: "512 MB/s".to_owned(),
            lately: vec![1.0; 20],
            left: "~41 s left".to_owned(),
        }
    }

    #[test]
    fn names_the_levels_on_80_columns() {
        let line = status().line(80 - BAR - 1);
        insta::assert_snapshot!(
            line,
            @"3/128 nfs stream write v4.1 128 KiB qd 4   512 MB/s  ~41 s left"
        );
        let line = status().line(100 - BAR - 1);
        assert!(line.contains(" ████████████████████  ~41 s left"), "{line}");
    }

    #[test]
    fn fits_narrow_terminals() {
        let line = status().line(50);
        assert!(line.starts_with("3/128 nfs stream ") && line.width() <= 50, "{line}");
        assert!(line.contains("…   512 MB/s  ~41 s left"), "{line}");
        for columns in 0..120 {
            let line = status().line(columns);
            assert!(line.width() <= columns.max(32), "{columns}: {line}");
        }
    }
}
