//! The in-memory server inside this process, and its configuration.

pub(crate) mod embedded;
pub(crate) mod server_config;
