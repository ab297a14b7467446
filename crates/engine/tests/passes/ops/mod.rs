//! Every kind of op on every backend; the effects are checked from outside, byte by byte.

mod backend_fixture;
mod kinds;
mod listing;
mod options;
mod ranges;
