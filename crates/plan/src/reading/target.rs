//! What is measured, as people write it: a directory, `null`, or an NFS address.
//!
//! [`TargetArg`] is a target before the surroundings are known: uid, gid and the temporary folder
//! may still be open. Addresses are read by `address`.

use std::path::PathBuf;

use model::{BackendKind, NfsTarget, Target, TcpTarget};

use crate::meaning::lab::LabArg;
use crate::meaning::surroundings::Surroundings;
use crate::reading::address::{NfsAddress, User, parse_url};
use crate::written::error::{Fault, Place, PlanError};
use crate::written::settings::Settings;

/// Where the in-memory server keeps its files.
const EMBEDDED_PATH: &str = "/export";

/// What a target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetArg {
    /// Nothing: the tool's own ceiling.
    Null,
    /// A directory of this host.
    Directory(PathBuf),
    /// Several directories of this host, used together.
    Directories(Vec<PathBuf>),
    /// A directory of our own under the temporary folder.
    Temporary,
    /// An NFS server.
    Nfs(NfsAddress),
    /// The in-memory server of this process; its address has no port yet.
    Embedded(NfsAddress),
    /// Hosts that are set up for it.
    Lab(Box<LabArg>),
    /// Memory of this host.
    Memory,
    /// A server of ours, over TCP without RPC.
    Tcp(TcpTarget),
}

impl TargetArg {
    /// The name it gets in tables where nobody names it.
    pub const fn usual_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Directory(_) | Self::Directories(_) | Self::Temporary => "dir",
            Self::Nfs(_) | Self::Embedded(_) | Self::Lab(_) => "nfs",
            Self::Memory => "memory",
            Self::Tcp(_) => "tcp",
        }
    }

    /// The backends that can execute ops on it; the first is the default.
    pub const fn backends(&self) -> &'static [BackendKind] {
        match self {
            Self::Null => &[BackendKind::Null],
            Self::Directory(_) | Self::Directories(_) | Self::Temporary => {
                &[BackendKind::Posix, BackendKind::Uring]
            }
            Self::Nfs(_) | Self::Embedded(_) => &[BackendKind::Nfs],
            Self::Lab(_) => {
                &[BackendKind::Posix, BackendKind::Uring, BackendKind::Nfs, BackendKind::Tcp]
            }
            Self::Memory => &[BackendKind::Memory],
            Self::Tcp(_) => &[BackendKind::Tcp],
        }
    }

    /// Takes the in-memory server, used as this user.
    pub fn embedded(user: User) -> Self {
        Self::Embedded(NfsAddress {
            host: "127.0.0.1".to_owned(),
            path: EMBEDDED_PATH.to_owned(),
            user,
            ..NfsAddress::default()
        })
    }

    /// Takes the in-memory server of this process that does nothing wrong, as root of nobody's
    /// files.
    pub fn faultless(user: User) -> Self {
        match Self::embedded(user) {
            Self::Embedded(address) => Self::Embedded(NfsAddress { faultless: true, ..address }),
            other => other,
        }
    }

    /// Takes the same server, over TCP without RPC.
    pub fn tcp_embedded() -> Self {
        Self::Tcp(TcpTarget { host: "127.0.0.1".to_owned(), port: None, embedded: true })
    }

    /// Where and how NFS is spoken, if it is.
    pub const fn address(&self) -> Option<&NfsAddress> {
        match self {
            Self::Nfs(address) | Self::Embedded(address) => Some(address),
            _ => None,
        }
    }

    pub(crate) const fn address_mut(&mut self) -> Option<&mut NfsAddress> {
        match self {
            Self::Nfs(address) | Self::Embedded(address) => Some(address),
            _ => None,
        }
    }

    /// The settings that were written with it.
    pub(crate) fn settings(&self) -> Option<&Settings> {
        match self {
            Self::Lab(lab) => Some(&lab.settings),
            _ => self.address().map(|address| &address.settings),
        }
    }

    pub(crate) fn settings_mut(&mut self) -> Option<&mut Settings> {
        match self {
            Self::Lab(lab) => Some(&mut lab.settings),
            _ => self.address_mut().map(|address| &mut address.settings),
        }
    }

    /// The hosts that are set up for it, if any are.
    pub(crate) const fn lab(&self) -> Option<&LabArg> {
        match self {
            Self::Lab(lab) => Some(lab),
            _ => None,
        }
    }

    /// Fills in what only the surroundings know.
    ///
    /// Of hosts that are set up, the target is what the backend works on; its place follows from
    /// the run's settings.
    pub(crate) fn resolve(&self, around: &Surroundings, backend: BackendKind) -> Target {
        match self {
            // What we make there belongs to root.
            Self::Lab(_) if backend == BackendKind::Nfs => Target::Nfs(NfsTarget::new("", "")),
            Self::Lab(_) if backend == BackendKind::Tcp => {
                Target::Tcp(TcpTarget { host: String::new(), port: None, embedded: false })
            }
            Self::Lab(_) => Target::Directory { path: PathBuf::new() },
            Self::Null => Target::Null,
            Self::Memory => Target::Memory,
            Self::Tcp(tcp) => Target::Tcp(tcp.clone()),
            Self::Directory(path) => Target::Directory { path: path.clone() },
            Self::Directories(paths) => Target::Directories { paths: paths.clone() },
            Self::Temporary => Target::Directory { path: around.temp_dir.clone() },
            Self::Nfs(address) => Target::Nfs(address.resolve(around)),
            Self::Embedded(address) => {
                Target::Nfs(NfsTarget { embedded: true, ..address.resolve(around) })
            }
        }
    }
}

/// Reads a target from the command line: `null`, `embedded`, `nfs://...` or a directory.
///
/// A directory with one of those names is written `./null`.
///
/// # Errors
/// When it is an address that can't be used; the error says what is wrong with it.
pub fn parse_target(text: &str) -> Result<TargetArg, PlanError> {
    let read = match text {
        "null" => Ok(TargetArg::Null),
        "embedded" => Ok(TargetArg::embedded(User::default())),
        _ if text.contains("://") => parse_url(text, Place::Flag("TARGET")).map(TargetArg::Nfs),
        _ => parse_directory(text).map(TargetArg::Directory),
    };
    read.map_err(|fault| fault.at(Place::Flag("TARGET")))
}

/// Reads where a server of ours is spoken to without RPC: `host:port`, or `embedded`.
pub(crate) fn parse_tcp(text: &str) -> Result<TargetArg, Fault> {
    if text == "embedded" {
        return Ok(TargetArg::tcp_embedded());
    }
    let hint = "write host:port, the port of NFS of a `dfsbench serve`, or embedded";
    let malformed = || Fault::new(format!("`{text}` is no address")).hint(hint);
    let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(malformed)?;
    if host.is_empty() || host.contains('/') {
        return Err(malformed());
    }
    Ok(TargetArg::Tcp(TcpTarget { host: host.to_owned(), port: Some(port), embedded: false }))
}

/// Reads a directory; refuses what looks like something else.
pub(crate) fn parse_directory(text: &str) -> Result<PathBuf, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::new("the path is empty").hint("write `.` for this directory"));
    }
    if text.contains("://") {
        return Err(Fault::new(format!("`{text}` is an address, not a directory"))
            .hint(format!("write `url = \"{text}\"`")));
    }
    if let Some((host, path)) = text.split_once(":/").filter(|(host, _)| !host.contains('/')) {
        return Err(Fault::new(format!("`{text}` is an address, not a directory"))
            .hint(format!("write `nfs://{host}/{path}`, or `./{text}` for a directory")));
    }
    if text == "~" || text.starts_with("~/") {
        return Err(Fault::new(format!("`{text}`: `~` is not expanded"))
            .hint("write the whole path of your home directory"));
    }
    Ok(PathBuf::from(text))
}
