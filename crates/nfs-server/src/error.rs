//! Reasons why a server may not start.
//!
//! [`ServerError`] names the setting, export, address or system call; nothing is left running.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::fs::FsError;

/// Why a server did not start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A setting is out of its range.
    #[error("{setting} is {value}; it must be {expected}")]
    Setting {
        /// Name of the field of `ServerConfig`.
        setting: &'static str,
        /// The value found.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// An export could not be created.
    #[error("cannot create the export {path}: {source}")]
    Export {
        /// Path of the export.
        path: String,
        /// The file system's reason.
        source: FsError,
    },
    /// The address can't be listened on; choose another address or port.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A data server can't be used.
    #[error("cannot use the data server {address}: {source}")]
    DataServer {
        /// Its address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// The certificate or key can't be used.
    #[error("cannot use TLS: {0}")]
    Tls(String),
    /// The system refused something an event loop needs.
    #[error("cannot {action}: {source}")]
    System {
        /// The action that failed.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl ServerError {
    /// Returns a function that converts a system error and adds the action that failed.
    pub(crate) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { action, source: source.into() }
    }
}
