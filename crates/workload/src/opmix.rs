//! NFS calls of all kinds in the shares of a field study.
//!
//! [`Profile`] holds a study's figures, [`OpMixSet`] the files, directories and links that a run
//! of it works on, and `OpMixStream` the ops of one worker. The unit of the draw is the request:
//! a READ or WRITE request may take several calls, and where a profile counts calls, requests are
//! so much rarer. Every 10,000 requests hold each kind exactly as often as its share says, in a
//! random order, so the shares are met and not only approached.
//!
//! These are loads like those of benchmarks that carry other names: figures were taken from what
//! was published of them, and results are none of theirs.

pub mod nfsstat;
mod pool;
mod profile;
mod set;
mod shares;
mod stream;

pub use profile::{PROFILES, Profile, RequestSize, SizeShare};
pub use set::OpMixSet;
pub use shares::{MixError, call_shares, check};
pub(crate) use stream::OpMixStream;

#[cfg(test)]
mod tests;
