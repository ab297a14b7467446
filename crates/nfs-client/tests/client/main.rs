//! The client against our server, an independent one, and servers that misbehave.

mod common;
mod connection;
mod copies;
mod delegations;
mod memfs;
mod mounting;
mod paths;
mod probe;
mod probe_v4;
mod recovery;
mod relay;
mod sessions;
mod tls;
