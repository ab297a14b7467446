//! NFS v2 on the wire: golden bytes written by hand from RFC 1094, and properties.

mod golden;
mod properties;
mod samples;
