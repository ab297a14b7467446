//! Values as people, files and terminals see them.
//!
//! Units of sizes, times and rates, enums that have one name each, cells of CSV, and text without
//! control characters. Every other group uses this one, and it uses none of them.

pub mod csv;
pub mod printable;
pub mod units;
pub(crate) mod words;
