//! Errors between this client and a server, with hints where they help.
//!
//! [`MountError`] is for people who set up a target, [`CallFailure`] for a blocking call,
//! [`ConnectionError`] for the measured path: the connection is unusable, and the error lists the
//! pending calls.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nfs_proto::client::{Kind, ProtocolVersion, StartError};
use nfs_proto::mount3::MountStatus;
use nfs_proto::{CallError, RpcError, Status, StreamError};

use crate::interrupt::Interrupted;
use crate::listing::Unlistable;
use crate::options::{Family, Proto};

mod connection;
mod trunking;

pub use connection::{ConnectionError, PendingCalls};
pub use trunking::{Difference, NotTrunked};

/// Name of the service that returns the root of an export.
pub(crate) const MOUNT: &str = "MOUNT";

/// Reason why a target could not be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The host name has no address.
    #[error(
        "cannot resolve the host name `{host}`: {reason}\n  hint: check the spelling, /etc/hosts \
         and DNS, or use an address"
    )]
    Resolve {
        /// Name of the host.
        host: String,
        /// The resolver's error.
        reason: io::Error,
    },
    /// The host has no address of the requested family.
    #[error(
        "the host `{host}` has no {} address; it has {found}\n  hint: don't set the address \
         family, or use an address",
        if matches!(family, Family::V6) { "IPv6" } else { "IPv4" }
    )]
    Family {
        /// The name or address.
        host: String,
        /// The requested family.
        family: Family,
        /// An address that it has.
        found: IpAddr,
    },
    /// This version is not available over UDP. **Source:** RFC 7530 section 3.1.
    #[error(
        "NFS version {version} is not available over UDP\n  hint: use proto tcp, or version 2 or 3"
    )]
    NoUdp {
        /// The version requested.
        version: ProtocolVersion,
    },
    /// The system gave us no reserved port.
    #[error(
        "cannot get a port below 1024 for a connection to {server}: {reason}\n  hint: `resvport` \
         needs root or CAP_NET_BIND_SERVICE"
    )]
    ReservedPort {
        /// Address of the server.
        server: SocketAddr,
        /// The system's error.
        reason: io::Error,
    },
    /// Nothing listens on the port, or the network does not reach the server.
    #[error(
        "cannot connect to {service} at {server}: {reason}\n  hint: {}",
        connect_hint(service, .reason)
    )]
    Connect {
        /// Name of the service expected there.
        service: &'static str,
        /// Address of the server.
        server: SocketAddr,
        /// The system's error.
        reason: io::Error,
    },
    /// The server did not answer.
    #[error(
        "no answer from {service} at {server} within {} s\n  hint: check that an NFS server is \
         running there, or raise `timeout`",
        timeout.as_secs_f64()
    )]
    NoAnswer {
        /// Name of the service that was queried.
        service: &'static str,
        /// Address of the server.
        server: SocketAddr,
        /// How long we waited.
        timeout: Duration,
    },
    /// The program is not registered with the portmapper.
    #[error(
        "{service} version {version} over {protocol} is not registered with the portmapper at \
         {server}\n  hint: start it on the server, or set its port if it does not register"
    )]
    NotRegistered {
        /// Name of the service that was looked for.
        service: &'static str,
        /// Its version.
        version: u32,
        /// Its transport.
        protocol: Proto,
        /// Address of the portmapper.
        server: SocketAddr,
    },
    /// The server answers, but does not offer TLS.
    #[error(
        "{service} at {server} does not offer TLS\n  hint: enable TLS on the server (Linux: tlshd \
         and xprtsec=tls), or use xprtsec none"
    )]
    NoTls {
        /// Name of the service that was queried.
        service: &'static str,
        /// Address of the server.
        server: SocketAddr,
    },
    /// The files with certificates or keys can't be used.
    #[error(
        "cannot use the TLS files: {reason}\n  hint: set tls_ca, tls_cert and tls_key to PEM files"
    )]
    Trust {
        /// The certificate or file, and the reason.
        reason: String,
    },
    /// The server's certificate is not signed by an authority that we trust.
    #[error(
        "the TLS certificate of {server} is not trusted: {reason}\n  hint: set --tls-ca (tls_ca in \
         plans and addresses) to the PEM file of the authority that signed it"
    )]
    Untrusted {
        /// Address of the server.
        server: SocketAddr,
        /// What is wrong with the certificate.
        reason: String,
    },
    /// The server requires a client certificate, or rejects ours.
    #[error(
        "{server} rejected our TLS certificate, or the lack of one: {reason}\n  hint: set tls_cert \
         and tls_key to the PEM files of a certificate that it accepts"
    )]
    ClientCertificate {
        /// Address of the server.
        server: SocketAddr,
        /// The server's reason.
        reason: String,
    },
    /// The TLS handshake failed.
    #[error(
        "the TLS handshake with {server} failed: {reason}\n  hint: the server must support TLS \
         1.3, and it may require a client certificate"
    )]
    Handshake {
        /// Address of the server.
        server: SocketAddr,
        /// The error of the handshake.
        reason: io::Error,
    },
    /// Another service listens there.
    #[error("{server} does not offer {service}\n  hint: {}", other_port_hint(service))]
    NotOffered {
        /// Name of the service that was queried.
        service: &'static str,
        /// Address of the server.
        server: SocketAddr,
    },
    /// The server does not speak RPC.
    #[error(
        "{server} is not {service}: its answer starts with `{begin}`{}\n  hint: set the port of \
         NFS, usually 2049", if begin == "HTTP" {
            ", like that of an HTTP server"
        } else {
            ""
        }
    )]
    NotRpc {
        /// Name of the service expected there.
        service: &'static str,
        /// Address of the server.
        server: SocketAddr,
        /// The first four characters of its answer.
        begin: String,
    },
    /// The server offers other versions.
    #[error(
        "{service} at {server} offers versions {low} to {high}, not version {requested}\n  hint: \
         enable version {requested} on the server, or choose a version that it offers"
    )]
    Version {
        /// Name of the service that was queried.
        service: &'static str,
        /// Address of the server.
        server: SocketAddr,
        /// The version requested.
        requested: u32,
        /// Lowest version offered.
        low: u32,
        /// Highest version offered.
        high: u32,
    },
    /// The server offers other minor versions of version 4.
    #[error(
        "NFS at {server} supports version 4, but not {requested}\n  hint: choose another minor \
         version; 4.0 and 4.1 are the most common"
    )]
    MinorVersion {
        /// Address of the server.
        server: SocketAddr,
        /// The version requested.
        requested: ProtocolVersion,
    },
    /// The server does not allow this client to mount.
    #[error(
        "the server {server} refused to mount `{export}`: {status}\n  hint: {}", hint_of(*status)
    )]
    Refused {
        /// The path requested.
        export: String,
        /// Address of the server.
        server: SocketAddr,
        /// Status of the refusal.
        status: MountStatus,
    },
    /// The server has no such export.
    #[error(
        "the server {server} has no export `{export}`\n  hint: {}",
        exports_hint(exports.as_deref())
    )]
    NoSuchExport {
        /// The path requested.
        export: String,
        /// Address of the server.
        server: SocketAddr,
        /// Paths that it does export, if it lists them.
        exports: Option<Vec<String>>,
    },
    /// A further address does not belong to the server.
    #[error(transparent)]
    NotTrunked(NotTrunked),
    /// A further address is that of another one.
    #[error(
        "the further address `{address}` is {server}, which is in use already\n  hint: list each \
         address of the server once; nconnect adds connections to one address"
    )]
    SameAddress {
        /// The address as given.
        address: String,
        /// The address that it stands for.
        server: SocketAddr,
    },
    /// A directory below the export does not exist or is not accessible.
    #[error(
        "cannot enter the directory `{name}` of the path `{path}`: {reason}\n  hint: check the \
         path; `dfsbench probe` lists the server's exports"
    )]
    Walk {
        /// The path that was walked.
        path: String,
        /// The name at which it failed.
        name: String,
        /// Reason of the failure.
        reason: Box<CallFailure>,
    },
    /// The system refuses the congestion control.
    #[error(
        "cannot set the congestion control `{name}`: {reason}\n  hint: \
         /proc/sys/net/ipv4/tcp_allowed_congestion_control lists those that are allowed"
    )]
    CongestionControl {
        /// The requested one.
        name: String,
        /// The system's error.
        reason: io::Error,
    },
    /// An option of the socket could not be set or read.
    #[error("cannot set up a socket to {server}: {reason}")]
    Socket {
        /// Address of the server.
        server: SocketAddr,
        /// The system's error.
        reason: io::Error,
    },
    /// The caller wants to stop waiting.
    #[error("{service} at {server}: {why}")]
    Interrupted {
        /// Name of the service that was waited for.
        service: &'static str,
        /// Address of the server.
        server: SocketAddr,
        /// Reason for the interruption.
        why: Interrupted,
    },
    /// A call failed in another way.
    #[error("{service}: {failure}")]
    Call {
        /// Name of the service that was queried.
        service: &'static str,
        /// How it failed.
        failure: Box<CallFailure>,
    },
}

/// Error of one blocking call.
#[derive(Debug, thiserror::Error)]
pub enum CallFailure {
    /// The call can't be made, for example because the version has no such operation.
    #[error("{call} at {server}: {reason}")]
    NotStarted {
        /// The call that was made.
        call: Kind,
        /// Address of the server.
        server: SocketAddr,
        /// Reason of the failure.
        reason: StartError,
    },
    /// The server answered with an error, or with a reply that can't be decoded.
    #[error("{call} at {server}: {error}")]
    Answered {
        /// The call that was made.
        call: Kind,
        /// Address of the server.
        server: SocketAddr,
        /// How it ended.
        error: CallError,
    },
    /// No reply arrived in time.
    #[error("{call} at {server}: {silence} within {} s", timeout.as_secs_f64())]
    TimedOut {
        /// The call that was made.
        call: Kind,
        /// Address of the server.
        server: SocketAddr,
        /// How long we waited.
        timeout: Duration,
        /// The traffic that was received instead.
        silence: MissingAnswer,
    },
    /// The caller wants to stop waiting.
    #[error("{call} at {server}: {why}")]
    Interrupted {
        /// The call that was made.
        call: Kind,
        /// Address of the server.
        server: SocketAddr,
        /// Reason for the interruption.
        why: Interrupted,
    },
    /// A directory listing does not end.
    #[error("READDIR at {server}: {why}")]
    Unlistable {
        /// Address of the server.
        server: SocketAddr,
        /// How that was noticed.
        why: Unlistable,
    },
    /// The connection broke.
    #[error("{call} at {server}: connection lost: {reason}")]
    Lost {
        /// The call that was made.
        call: Kind,
        /// Address of the server.
        server: SocketAddr,
        /// The system's error.
        reason: io::Error,
    },
    /// The received bytes are not RPC.
    #[error("{call} at {server}: {error}")]
    Garbage {
        /// The call that was made.
        call: Kind,
        /// Address of the server.
        server: SocketAddr,
        /// The error in the stream.
        error: StreamError,
    },
}

/// What a server sent instead of the expected answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingAnswer {
    /// Nothing at all.
    Nothing,
    /// This many "try later" answers.
    PutOff(u64),
    /// This many replies that match no call in flight.
    Strays(u64),
    /// This many bytes, which are not a complete reply.
    Part(u64),
}

impl fmt::Display for MissingAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no answer"),
            Self::PutOff(times) => write!(
                f,
                "the server only answered to try again later (JUKEBOX, DELAY or GRACE), {times} \
                 times"
            ),
            Self::Strays(count) => {
                write!(f, "no answer (replies with an unknown xid: {count})")
            }
            Self::Part(bytes) => write!(f, "no complete answer (bytes received: {bytes})"),
        }
    }
}

impl CallFailure {
    /// Returns true if the connection is unusable, but another one may work.
    pub const fn is_connection_lost(&self) -> bool {
        matches!(self, Self::TimedOut { .. } | Self::Lost { .. } | Self::Garbage { .. })
    }

    /// Returns the error the server answered with, if it did answer.
    pub fn answered(&self) -> Option<CallError> {
        if let Self::Answered { error, .. } = self { Some(*error) } else { None }
    }

    /// Returns the status the server answered with, if it did.
    pub fn status(&self) -> Option<Status> {
        self.answered()?.status()
    }

    /// Returns true if the server answered that it has no such procedure or operation.
    pub fn lacks_call(&self) -> bool {
        matches!(self.status(), Some(Status::NotSupp))
            || matches!(self.answered(), Some(CallError::Rpc(RpcError::ProcedureUnavailable)))
    }
}

fn hint_of(status: MountStatus) -> &'static str {
    match status {
        MountStatus::Access | MountStatus::Perm => {
            "the export must allow this client; it also needs the option `insecure`, or the mount \
             needs `resvport`, since this client uses a port above 1023"
        }
        MountStatus::NotDir => "the path is a file; mount its directory",
        MountStatus::ServerFault | MountStatus::Io => "see the server's log",
        _ => "see `showmount -e` and the server's log",
    }
}

fn exports_hint(exports: Option<&[String]>) -> String {
    match exports {
        None => "the server does not list its exports; check its configuration".into(),
        Some([]) => "the server has no exports".into(),
        // Names from a server must not start a new line.
        Some(exports) => format!("it exports: {}", exports.join(", ").replace('\n', "\u{fffd}")),
    }
}

/// Returns a hint for a port that belongs to another service.
fn other_port_hint(service: &str) -> &'static str {
    if service == MOUNT {
        "MOUNT may use another port: set it with `?mountport=` at the end of the address (`rpcinfo \
         -p` lists a server's ports), or use version 4, which does not need MOUNT"
    } else {
        "it listens on another port; `rpcinfo -p` lists a server's ports"
    }
}

/// Returns a hint for a connection that could not be made.
fn connect_hint(service: &str, reason: &io::Error) -> &'static str {
    // ENFILE and EMFILE: the network is fine, but this process can't open a socket. Source:
    // errno(3); the numbers are the same on Linux and macOS.
    match reason.raw_os_error() {
        Some(23 | 24) => "each connection is an open file: raise `ulimit -n`, or use fewer clients",
        _ if service == MOUNT => other_port_hint(service),
        _ => "is the server running, and does a firewall block this port?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_file_limit_from_firewall() {
        let hint = |code| connect_hint("NFS", &io::Error::from_raw_os_error(code));
        assert!(hint(24).contains("ulimit -n"));
        assert!(hint(111).contains("firewall"));
    }
}
