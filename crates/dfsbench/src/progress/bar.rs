//! The bar of progress on stderr, with lines above it.
//!
//! [`Bar`] owns what draws, so that no text gets there before it was made printable.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::printable::{to_printable, to_printable_line};

use crate::output::{self, DrawnBar};

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
        // The cursor stays before the end of the line: the `^C` that a terminal prints would else
        // begin the next one, and the bar would be left above what is printed then.
        let template = "{bar:24} {pos}/{len} trials, {prefix} left   {wide_msg}   \u{1b}[3D";
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        bar.set_style(style.progress_chars("━╸─"));
        bar.set_prefix("?");
        if is_drawn {
            let (suspended, cleared) = (bar.clone(), bar.clone());
            output::set_bar(Some(DrawnBar {
                suspend: Box::new(move |write| suspended.suspend(write)),
                clear: Box::new(move || cleared.finish_and_clear()),
            }));
        }
        Self(bar)
    }

    /// Forgets the number of steps.
    pub fn unset_length(&self) {
        self.0.unset_length();
    }

    /// Stops drawing.
    pub fn hide(&self) {
        self.forget();
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
