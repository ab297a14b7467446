//! Rpcbind versions 3 and 4: the addresses and transports a program listens on.
//!
//! [`Call`] covers every procedure of both versions, [`Reply`] the results of those that our
//! servers support. Addresses are text ("universal addresses"), see [`UniversalAddress`];
//! transports have names, see [`NetId`]. Version 4 has all procedures of version 3 and more.
//! **Source:** RFC 1833 section 2.

mod address;
mod call;
mod reply;

pub use address::{NetId, UniversalAddress};
pub use call::{Call, Netbuf, Registration};
pub use reply::{AddressEntry, Reply};

pub use crate::portmap::RemoteCall;

/// The program number. **Source:** RFC 1833 section 2.1.
pub const PROGRAM: u32 = crate::portmap::PROGRAM;
/// The lower version. **Source:** RFC 1833 section 2.1, RPCBVERS.
pub const VERSION_3: u32 = 3;
/// The higher version. **Source:** RFC 1833 section 2.1, RPCBVERS4.
pub const VERSION_4: u32 = 4;
