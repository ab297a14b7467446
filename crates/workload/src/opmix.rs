//! NFS calls of all kinds in the proportions of a field study.
//!
//! A [`Profile`] contains the numbers of a study, an [`OpMixSet`] the files, directories and links
//! used by a run, and an `OpMixStream` the ops of one worker. The unit of the draw is a request. A
//! READ or WRITE request may take several calls; if a profile counts calls, such requests are drawn
//! less often accordingly. Every 10,000 requests contain each kind exactly as often as its share
//! requires, in random order, so the shares are met exactly and not just approached.
//!
//! These loads resemble benchmarks with other names. They are based on published numbers, but the
//! results are not results of those benchmarks.

pub mod nfsstat;
mod pool;
mod profile;
mod set;
mod shares;
mod stream;

pub use profile::SizeShare;
pub use profile::{PROFILES, Profile, RequestSize};
pub use set::OpMixSet;
pub use shares::MixError;
pub use shares::{call_shares, check};
pub(crate) use stream::OpMixStream;

#[cfg(test)]
mod tests;
