//! Values as people, files and terminals see them.
//!
//! Units of sizes, times and rates, enums with one name per variant, cells of CSV, and text without
//! control characters. Every other group uses this one, and it uses none of them.

pub mod csv;
pub mod printable;
pub mod units;
pub(crate) mod words;
