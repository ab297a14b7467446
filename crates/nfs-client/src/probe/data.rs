//! Results of a probe, as plain data.
//!
//! [`Probe`] is the whole; every part that can fail by itself is an [`Answer`], so that one
//! question without an answer never hides the others. Nothing here knows sockets or output.

use std::net::{IpAddr, SocketAddr};

use nfs_proto::mount3::MountStatus;
use nfs_proto::status::Spoken;
use nfs_proto::{DecodeError, ProtocolVersion, RpcError, Status};

use crate::options::Proto;

/// The answer to a question, or the reason why there is none.
pub type Answer<T> = Result<T, NoAnswer>;

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Nothing was received within the time a question has.
    #[error("no answer")]
    Silent,
    /// Nothing listens on the port.
    #[error("refused")]
    Refused,
    /// The server closed the connection instead of answering.
    #[error("closed without an answer")]
    Closed,
    /// The server has the program, in other versions.
    #[error("version mismatch: {low} to {high}")]
    VersionMismatch {
        /// Lowest version offered.
        low: u32,
        /// Highest version offered.
        high: u32,
    },
    /// The server has no such program there.
    #[error("no such program")]
    NoProgram,
    /// The server refused the call in another way.
    #[error("{0}")]
    Rpc(RpcError),
    /// The server answered with an NFS error.
    #[error("{0}")]
    Status(Spoken),
    /// The server answered with an error of MOUNT.
    #[error("{0}")]
    Mount(MountStatus),
    /// The reply could not be understood.
    #[error("malformed reply: {0}")]
    Malformed(DecodeError),
    /// The system refused; the text is its own.
    #[error("{0}")]
    System(String),
    /// The question was not put; the text says what was missing for it.
    #[error("not requested: {0}")]
    NotRequested(&'static str),
}

/// All that was found out about one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The server as it was named.
    pub host: String,
    /// All addresses of that name.
    pub addresses: Vec<IpAddr>,
    /// The address that was queried.
    pub address: IpAddr,
    /// Registrations of portmap version 2.
    pub portmap: Answer<Vec<Registration>>,
    /// Registrations of rpcbind version 4, or 3 where there is no 4.
    pub rpcbind: Answer<Vec<Registration>>,
    /// NFS versions 2, 3 and 4, each over TCP and UDP.
    pub nfs: Vec<Service>,
    /// Minor versions 4.0, 4.1 and 4.2, over TCP: whether each is spoken.
    pub minor_versions: Vec<(ProtocolVersion, Answer<bool>)>,
    /// Status of the compound (PUTROOTFH alone) that each of them was tried with.
    pub minor_replies: Vec<(ProtocolVersion, Answer<Status>)>,
    /// MOUNT versions 1, 2 and 3, each over TCP and UDP.
    pub mount: Vec<Service>,
    /// The exports, with what was queried about each.
    pub exports: Answer<Vec<Export>>,
    /// Exports beyond the number that was looked at closely; their `flavors` and `limits` were
    /// not requested.
    pub exports_not_examined: usize,
    /// Who has mounted what, as far as the server keeps a list.
    pub mounted: Answer<Vec<Mounted>>,
    /// Attributes of the root of NFS v4, where that is spoken.
    pub root: V4Root,
    /// Whether calls must come from a reserved port (mount option `resvport`).
    pub reserved_port: Answer<ReservedPort>,
    /// Whether the first export has extended attributes, which v4.2 alone knows (RFC 8276).
    pub xattrs: Answer<bool>,
    /// Why the server does not answer any more, where it stopped during the probe.
    pub stopped: Option<NoAnswer>,
    /// Whether the server offers RPC-over-TLS on its NFS port (RFC 9289).
    pub tls: Answer<bool>,
}

/// Whether calls must come from a port below 1024, as on exports of Linux without `insecure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedPort {
    /// An export is refused to other ports, and granted to a reserved one.
    Needed,
    /// Calls from any port are answered.
    NotNeeded,
}

/// The way in which a version was tried, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The version that was tried.
    pub version: ProtocolVersion,
    /// The call that was made, and over which transport.
    pub call: String,
    /// The answer, or why there is none.
    pub outcome: String,
    /// Whether that shows that the version is spoken.
    pub spoken: bool,
}

/// One registration of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Number of the program.
    pub program: u32,
    /// The program's usual name, such as `nfs`, where it has one.
    pub name: Option<&'static str>,
    /// Version of the program.
    pub version: u32,
    /// The transport's name, such as `tcp` or `udp6`.
    pub netid: String,
    /// The address as text: a universal address, or empty where only the port is known.
    pub address: String,
    /// The port, where the address has one.
    pub port: Option<u16>,
    /// Who registered it, where that is stated.
    pub owner: String,
}

/// One version of a program over one transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Number of the version.
    pub version: u32,
    /// Transport of the service.
    pub transport: Proto,
    /// Address where it was queried; `None` where no port is known for it.
    pub address: Option<SocketAddr>,
    /// How long NULL took, there and back.
    pub null: Answer<RoundTrip>,
}

/// Round trips of several calls, one after the other, on one warm connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// How many calls were answered.
    pub samples: u32,
    /// The shortest, in nanoseconds.
    pub least_ns: u64,
    /// The median, in nanoseconds; of an even number the lower of the middle two.
    pub median_ns: u64,
}

/// An export of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Path of the export.
    pub path: String,
    /// Who may mount it, as the server writes it; empty means everyone.
    pub groups: Vec<String>,
    /// The security flavours that MNT of version 3 names.
    pub flavors: Answer<Vec<Flavor>>,
    /// The security flavours that NFS v4 names for it (SECINFO).
    pub flavors_v4: Answer<Vec<Flavor>>,
    /// The limits, one for each version that was queried.
    pub limits: Vec<(ProtocolVersion, Answer<Limits>)>,
}

/// The limits of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Largest READ, in bytes (rtmax).
    pub read_bytes_max: u64,
    /// Preferred READ, in bytes (rtpref), where the version tells it.
    pub read_bytes_preferred: Option<u64>,
    /// Largest WRITE, in bytes (wtmax).
    pub write_bytes_max: u64,
    /// Preferred WRITE, in bytes (wtpref), where the version tells it.
    pub write_bytes_preferred: Option<u64>,
    /// Preferred READDIR, in bytes (dtpref), where the version tells it.
    pub directory_bytes_preferred: Option<u64>,
    /// Largest file, in bytes (maxfilesize).
    pub file_bytes_max: u64,
}

/// Attributes of the root directory of NFS v4, in the lowest minor version that is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V4Root {
    /// The limits of the root's file system.
    pub limits: Answer<Limits>,
    /// How long a lease lasts, in seconds.
    pub lease_seconds: Answer<u32>,
    /// The names in the root: where the exports begin.
    pub names: Answer<Vec<String>>,
    /// The security flavours of the root: SECINFO_NO_NAME, which v4.0 does not have.
    pub flavors: Answer<Vec<Flavor>>,
}

/// One line of MOUNT's list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mounted {
    /// Who has mounted it.
    pub host: String,
    /// Path of the export.
    pub path: String,
}

/// A security flavour by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flavor(pub u32);

impl Flavor {
    /// Returns the name as the mount option `sec` has it, where the number has one.
    ///
    /// **Source:** RFC 5531 section 8.2 (0, 1), RFC 2623 section 2.1 (Kerberos), RFC 9289 (TLS).
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "none",
            1 => "sys",
            6 => "gss",
            7 => "tls",
            390_003 => "krb5",
            390_004 => "krb5i",
            390_005 => "krb5p",
            _ => return None,
        })
    }
}

impl std::fmt::Display for Flavor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Probe {
    /// Returns what was found of one version of NFS over one transport.
    pub fn nfs_over(&self, version: u32, transport: Proto) -> Option<&Service> {
        let wanted = (version, transport);
        self.nfs.iter().find(|service| (service.version, service.transport) == wanted)
    }

    /// Returns how each version was tried, and with which outcome.
    pub fn tried(&self) -> Vec<Tried> {
        let mut tried = Vec::new();
        for service in &self.nfs {
            let version = match service.version {
                2 => ProtocolVersion::V2,
                3 => ProtocolVersion::V3,
                // Its NULL says nothing about its minor versions.
                _ => continue,
            };
            let call = format!("NULL over {}", service.transport);
            let (spoken, outcome) = match &service.null {
                Ok(_) => (true, "answered".to_owned()),
                Err(why) => (false, why.to_string()),
            };
            tried.push(Tried { version, call, outcome, spoken });
        }
        for (version, reply) in &self.minor_replies {
            let (spoken, outcome) = match reply {
                Ok(status) => {
                    let spoken = *status != Status::MinorVersMismatch;
                    (spoken, status.spoken(*version).to_string())
                }
                Err(why) => (false, why.to_string()),
            };
            let call = "COMPOUND of PUTROOTFH over tcp".to_owned();
            tried.push(Tried { version: *version, call, outcome, spoken });
        }
        tried
    }

    /// Returns the versions of NFS that answered, oldest first, minor versions included.
    pub fn versions(&self) -> Vec<ProtocolVersion> {
        let mut answered = Vec::new();
        for version in ProtocolVersion::ALL {
            let answers = match version.minor() {
                None => Proto::ALL.into_iter().any(|transport| {
                    let service = self.nfs_over(version.program_version(), transport);
                    service.is_some_and(|service| service.null.is_ok())
                }),
                Some(_) => self.minor_versions.contains(&(version, Ok(true))),
            };
            if answers {
                answered.push(version);
            }
        }
        answered
    }
}
