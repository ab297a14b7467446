//! Traces made of captured packets, of logs of other programs, and in files.

mod common;
mod compounds;
mod description;
mod formats;
mod imported;
mod packets;
