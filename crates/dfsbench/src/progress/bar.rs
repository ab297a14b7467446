//! The bar of progress on stderr, with lines above it.
//!
//! [`Bar`] owns what draws, so that no text gets there before it was made printable.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::printable::{to_printable, to_printable_line};

/// How often the bar is drawn, per second.
const DRAWS_HZ: u8 = 10;

/// A bar, a message beside it, and lines above it.
pub struct Bar(ProgressBar);

impl Bar {
    /// Makes a bar of so many steps; `is_drawn` says whether it is ever seen.
    pub fn new(steps: u64, is_drawn: bool) -> Self {
        let target = if is_drawn {
            ProgressDrawTarget::stderr_with_hz(DRAWS_HZ)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let template = "{bar:24} {pos}/{len} trials, {prefix} left   {wide_msg}";
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        bar.set_style(style.progress_chars("━╸─"));
        bar.set_prefix("?");
        Self(bar)
    }

    /// Forgets the number of steps.
    pub fn unset_length(&self) {
        self.0.unset_length();
    }

    /// Stops drawing.
    pub fn hide(&self) {
        self.0.set_draw_target(ProgressDrawTarget::hidden());
    }

    /// Shows how many steps were made, and the time left.
    pub fn set_position(&self, position: u64, left: &str) {
        self.0.set_position(position);
        self.0.set_prefix(to_printable_line(left).into_owned());
    }

    /// Shows a message beside the bar.
    pub fn set_message(&self, message: &str) {
        self.0.set_message(to_printable_line(message).into_owned());
    }

    /// Prints a line above the bar.
    pub fn print_line(&self, line: &str) {
        self.0.println(to_printable(line));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
