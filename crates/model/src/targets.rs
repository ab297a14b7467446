//! What a run works on: directories, exports of NFS servers and servers of our own.
//!
//! A target has a row that lists its backends and what it keeps. How an export is addressed and how
//! NFS is spoken with its server belongs here, too. Only `text` is used.

pub mod nfs;
pub mod server_memory;
pub mod target;
