//! Results of a probe, as plain data.
//!
//! [`Probe`] is the whole; every part that can fail by itself is an [`Answer`], so that one
//! unanswered question never hides the others. Nothing here deals with sockets or output.

use std::net::{IpAddr, SocketAddr};

use nfs_proto::mount3::MountStatus;
use nfs_proto::status::VersionedStatus;
use nfs_proto::{DecodeError, ProtocolVersion, RpcError, Status};

use crate::options::Proto;

/// The answer to a question, or the reason why there is none.
pub type Answer<T> = Result<T, NoAnswer>;

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Nothing was received within the timeout.
    #[error("no answer")]
    Silent,
    /// Nothing listens on the port.
    #[error("refused")]
    Refused,
    /// The server closed the connection instead of answering.
    #[error("closed without an answer")]
    Closed,
    /// The server has the program in other versions.
    #[error("version mismatch: {low} to {high}")]
    VersionMismatch {
        /// Lowest version offered.
        low: u32,
        /// Highest version offered.
        high: u32,
    },
    /// The server does not have the program there.
    #[error("no such program")]
    NoProgram,
    /// The server refused the call in another way.
    #[error("{0}")]
    Rpc(RpcError),
    /// The server answered with an NFS error.
    #[error("{0}")]
    Status(VersionedStatus),
    /// The server answered with an error of MOUNT.
    #[error("{0}")]
    Mount(MountStatus),
    /// The reply could not be decoded.
    #[error("malformed reply: {0}")]
    Malformed(DecodeError),
    /// The system refused; the text is from the system.
    #[error("{0}")]
    System(String),
    /// The question was not asked; the text says what was missing.
    #[error("not requested: {0}")]
    NotRequested(&'static str),
}

/// Everything found out about one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The server as named by the caller.
    pub host: String,
    /// All addresses of that name.
    pub addresses: Vec<IpAddr>,
    /// The address that was used.
    pub address: IpAddr,
    /// Registrations of portmap version 2.
    pub portmap: Answer<Vec<Registration>>,
    /// Registrations of rpcbind version 4, or of version 3 if there is no 4.
    pub rpcbind: Answer<Vec<Registration>>,
    /// NFS versions 2, 3 and 4, each over TCP and UDP.
    pub nfs: Vec<Service>,
    /// Whether each of the minor versions 4.0, 4.1 and 4.2 is supported, over TCP.
    pub minor_versions: Vec<(ProtocolVersion, Answer<bool>)>,
    /// Status of the compound (a lone PUTROOTFH) that each of them was tried with.
    pub minor_replies: Vec<(ProtocolVersion, Answer<Status>)>,
    /// MOUNT versions 1, 2 and 3, each over TCP and UDP.
    pub mount: Vec<Service>,
    /// The exports, with the details of each.
    pub exports: Answer<Vec<Export>>,
    /// Number of exports beyond the limit; their `flavors` and `limits` were not queried.
    pub exports_not_examined: usize,
    /// Who has mounted what, if the server keeps a list.
    pub mounted: Answer<Vec<MountEntry>>,
    /// Attributes of the NFS v4 root, if v4 is supported.
    pub root: V4Root,
    /// Who the server is, in v4.1 and later.
    pub identity: Answer<ServerIdentity>,
    /// The other addresses, and how connections to them can be trunked with the first.
    pub trunking: Vec<(SocketAddr, Answer<Trunking>)>,
    /// The pNFS layouts of the examined exports, in v4.1 and later.
    pub layouts: Vec<ExportLayouts>,
    /// Whether calls must come from a reserved port (mount option `resvport`).
    pub reserved_port: Answer<ReservedPort>,
    /// Whether the first export has extended attributes, which only v4.2 supports (RFC 8276).
    pub xattrs: Answer<bool>,
    /// Why the server no longer answers, if it stopped during the probe.
    pub stopped: Option<NoAnswer>,
    /// Whether the server offers RPC-over-TLS on its NFS port (RFC 9289).
    pub tls: Answer<bool>,
}

/// Whether calls must come from a port below 1024, as for Linux exports without `insecure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedPort {
    /// An export is refused to other ports, but granted to a reserved one.
    Needed,
    /// Calls from any port are answered.
    NotNeeded,
}

/// How a version was tried, and the outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedVersion {
    /// The version.
    pub version: ProtocolVersion,
    /// The call, and its transport.
    pub call: String,
    /// The answer, or why there is none.
    pub outcome: String,
    /// Whether that shows that the version is supported.
    pub spoken: bool,
}

/// One registration of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Number of the program.
    pub program: u32,
    /// The program's usual name, such as `nfs`, if it has one.
    pub name: Option<&'static str>,
    /// Version of the program.
    pub version: u32,
    /// The transport's name, such as `tcp` or `udp6`.
    pub netid: String,
    /// The address as text: a universal address, or empty if only the port is known.
    pub address: String,
    /// The port, if the address has one.
    pub port: Option<u16>,
    /// Who registered it, if known.
    pub owner: String,
}

/// One version of a program over one transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Number of the version.
    pub version: u32,
    /// Transport of the service.
    pub transport: Proto,
    /// Address where it was queried; `None` if no port is known.
    pub address: Option<SocketAddr>,
    /// Round-trip time of NULL.
    pub null: Answer<RoundTrip>,
}

/// Round-trip times of several calls, one after the other, on one warm connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Number of calls that were answered.
    pub samples: u32,
    /// Minimum, in nanoseconds.
    pub least_ns: u64,
    /// Median, in nanoseconds; for an even number, the lower of the middle two.
    pub median_ns: u64,
}

/// An export of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Path of the export.
    pub path: String,
    /// Who may mount it, as the server writes it; empty means everyone.
    pub groups: Vec<String>,
    /// The security flavors that MNT of version 3 returns.
    pub flavors: Answer<Vec<Flavor>>,
    /// The security flavors that NFS v4 returns (SECINFO).
    pub flavors_v4: Answer<Vec<Flavor>>,
    /// The limits by version.
    pub limits: Vec<(ProtocolVersion, Answer<Limits>)>,
}

/// The limits of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Largest READ, in bytes (rtmax).
    pub read_bytes_max: u64,
    /// Preferred READ, in bytes (rtpref), if the version reports it.
    pub read_bytes_preferred: Option<u64>,
    /// Largest WRITE, in bytes (wtmax).
    pub write_bytes_max: u64,
    /// Preferred WRITE, in bytes (wtpref), if the version reports it.
    pub write_bytes_preferred: Option<u64>,
    /// Preferred READDIR, in bytes (dtpref), if the version reports it.
    pub directory_bytes_preferred: Option<u64>,
    /// Largest file, in bytes (maxfilesize).
    pub file_bytes_max: u64,
}

/// Attributes of the NFS v4 root directory, in the lowest supported minor version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V4Root {
    /// The limits of the root's file system.
    pub limits: Answer<Limits>,
    /// How long a lease lasts, in seconds.
    pub lease_seconds: Answer<u32>,
    /// The names in the root, where the exports start.
    pub names: Answer<Vec<String>>,
    /// The security flavors of the root: SECINFO_NO_NAME, which v4.0 does not have.
    pub flavors: Answer<Vec<Flavor>>,
}

/// Who a server says it is. **Source:** RFC 8881 sections 2.10.4, 2.10.5 and 18.35.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    /// Part of the server owner that distinguishes servers.
    pub major_id: Vec<u8>,
    /// Part of the server owner that distinguishes instances of one server.
    pub minor_id: u64,
    /// Within it, owners and client ids are unique.
    pub scope: Vec<u8>,
    /// Its roles in pNFS.
    pub roles: Vec<&'static str>,
    /// Name of the implementation, if it tells.
    pub implementation: Option<String>,
}

/// How connections to two addresses may be used together. **Source:** RFC 8881 section 2.10.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trunking {
    /// In one session.
    Session,
    /// In sessions of one client id.
    ClientId,
    /// Not at all: it is another server.
    Nothing,
}

impl Trunking {
    /// Returns the name shown to people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session trunking",
            Self::ClientId => "client id trunking",
            Self::Nothing => "none (another server)",
        }
    }
}

/// The pNFS layouts of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportLayouts {
    /// Path of the export.
    pub path: String,
    /// Types of layouts, the preferred one first; empty without pNFS.
    pub types: Answer<Vec<u32>>,
    /// The devices in the layout of an existing file.
    pub devices: Answer<Vec<DataDevice>>,
}

/// A device of pNFS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDevice {
    /// Its id, in hexadecimal.
    pub id: String,
    /// Addresses of the data servers; empty for disks.
    pub addresses: Vec<String>,
    /// Versions of NFS to use there.
    pub versions: Vec<String>,
}

/// Returns the name of a type of layouts. **Source:** RFC 8881, RFC 8435, RFC 8154.
pub const fn layout_name(layout_type: u32) -> &'static str {
    match layout_type {
        nfs_proto::nfs4::layout_type::FILES => "files",
        nfs_proto::nfs4::layout_type::OBJECTS => "objects",
        nfs_proto::nfs4::layout_type::BLOCKS => "blocks",
        nfs_proto::nfs4::layout_type::FLEX_FILES => "flexible files",
        nfs_proto::nfs4::layout_type::SCSI => "scsi",
        _ => "unknown",
    }
}

/// One line of MOUNT's list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountEntry {
    /// The client that mounted it.
    pub host: String,
    /// Path of the export.
    pub path: String,
}

/// A security flavor by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flavor(pub u32);

impl Flavor {
    /// Returns the name used by the mount option `sec`, if the number has one.
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
    /// Returns the result for one version of NFS over one transport.
    pub fn nfs_over(&self, version: u32, transport: Proto) -> Option<&Service> {
        let wanted = (version, transport);
        self.nfs.iter().find(|service| (service.version, service.transport) == wanted)
    }

    /// Returns how each version was tried, and the outcome.
    pub fn tried_versions(&self) -> Vec<TriedVersion> {
        let mut tried = Vec::new();
        for service in &self.nfs {
            let version = match service.version {
                2 => ProtocolVersion::V2,
                3 => ProtocolVersion::V3,
                // Its NULL says nothing about minor versions.
                _ => continue,
            };
            let call = format!("NULL over {}", service.transport);
            let (spoken, outcome) = match &service.null {
                Ok(_) => (true, "answered".to_owned()),
                Err(why) => (false, why.to_string()),
            };
            tried.push(TriedVersion { version, call, outcome, spoken });
        }
        for (version, reply) in &self.minor_replies {
            let (spoken, outcome) = match reply {
                Ok(status) => {
                    let spoken = *status != Status::MinorVersMismatch;
                    (spoken, status.in_version(*version).to_string())
                }
                Err(why) => (false, why.to_string()),
            };
            let call = "COMPOUND of PUTROOTFH over tcp".to_owned();
            tried.push(TriedVersion { version: *version, call, outcome, spoken });
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
