//! What a server is started with, and why it may not start.
//!
//! A `ServerConfig` is plain data with defaults for every field; `Server::start` checks it.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use thiserror::Error;

use crate::clock;
use crate::fault::FaultPlan;
use crate::fs::{FileTime, FsError, StoreMode};

/// Where the portmapper program is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Portmap {
    /// Nowhere.
    #[default]
    Off,
    /// On the port of NFS and MOUNT.
    SamePort,
    /// On a port of its own; 0 lets the system choose.
    Port(u16),
}

/// Everything a server needs to know; `ServerConfig::default()` serves `/export` on loopback.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Address to listen on; loopback unless asked.
    pub listen: IpAddr,
    /// Port of NFS and MOUNT; 0 lets the system choose.
    pub port: u16,
    /// Where the portmapper program is answered.
    pub portmap: Portmap,
    /// Directories that can be mounted, each an absolute path; they are made at the start.
    pub exports: Vec<String>,
    /// What becomes of file data.
    pub store: StoreMode,
    /// Bound in bytes on data, names and inodes together.
    pub memory_limit_bytes: u64,
    /// Event loops, each a thread; 0 means one per core.
    pub threads: usize,
    /// Connections served at once; more are closed as they come. Each can hold input buffers of
    /// about twice `write_bytes_max` and 5 MiB of unsent replies, beside the memory limit.
    pub clients_max: usize,
    /// Largest READ granted, in bytes (rtmax).
    pub read_bytes_max: u32,
    /// Largest WRITE granted, in bytes (wtmax).
    pub write_bytes_max: u32,
    /// Preferred size of a READDIR reply, in bytes (dtpref).
    pub directory_bytes_preferred: u32,
    /// Congestion control asked for the sockets, such as `cubic`; what the system refuses is
    /// ignored, and `Server::congestion_control` tells what is in force.
    pub congestion_control: Option<String>,
    /// Planned faults.
    pub faults: FaultPlan,
    /// Source of file times.
    pub clock: fn() -> FileTime,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            portmap: Portmap::Off,
            exports: vec!["/export".to_owned()],
            store: StoreMode::Keep,
            memory_limit_bytes: 1 << 30,
            threads: 1,
            clients_max: 4096,
            read_bytes_max: 1 << 20,
            write_bytes_max: 1 << 20,
            directory_bytes_preferred: 1 << 20,
            congestion_control: None,
            faults: FaultPlan::default(),
            clock: clock::wall,
        }
    }
}

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
        /// What is accepted.
        expected: &'static str,
    },
    /// An export could not be made.
    #[error("can't make the export {path}: {source}")]
    Export {
        /// Its path.
        path: String,
        /// Why.
        source: FsError,
    },
    /// The address can't be listened on; choose another address or port.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The system refused something an event loop needs.
    #[error("can't {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl ServerError {
    /// Tells what was tried when the system refused.
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}
