//! Pictures as inline SVG: the parts that the page and the answers to questions draw them from.
//!
//! [`Picture`] is the principal type: a drawing with a caption and notes, for a page or for a file
//! of its own. This module knows axes, charts of rows, plots and timelines, and nothing of
//! campaigns; what is drawn is decided by those who use it.

mod axis;
mod chart;
mod plot;
mod track;

pub use axis::*;
pub use chart::*;
pub use plot::*;
pub use track::Track;
