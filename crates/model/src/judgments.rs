//! How far results can be trusted, and the statements about them that a plan wants judged.
//!
//! A caveat is a reservation about a result, with advice that fits its run. A conclusion is a
//! sentence that a report confirms or contradicts, a requirement is a limit that results must keep,
//! and contenders are the systems that a plan compares. Uses the groups that describe runs.

mod advice;
pub(crate) mod caveat;
pub(crate) mod conclusion;
pub mod contender;
pub(crate) mod requirement;
