//! Every kind of op on every backend: what it did is looked at from outside, byte by byte.

mod kinds;
mod options;
mod rig;
