//! Targets of a run: directories, exports of NFS servers and our own servers.
//!
//! A target has a row that lists its backends and the data that it keeps. Addresses of exports and
//! protocol options for their servers belong here, too. Only `text` is used.

pub mod nfs;
pub mod server_memory;
pub mod target;
