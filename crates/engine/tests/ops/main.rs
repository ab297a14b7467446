//! Every kind of op on every backend: what it did is looked at from outside, byte by byte.

mod backend_fixture;
mod kinds;
mod options;
