//! The address of an NFS export, and the credentials to use.
//!
//! An [`NfsAddress`] is an address as written; fields that are `None` are filled in later from the
//! surroundings. `parse::address` parses it from a URL.

use model::{Family, Sec, TlsOptions};

use crate::syntax::settings::Settings;

/// The address of an export, the credentials, and the settings in its query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NfsAddress {
    /// Host name or address, an IPv6 one without brackets.
    pub host: String,
    /// Port of the NFS program; `None` asks the portmapper.
    pub port: Option<u16>,
    /// Further addresses of the server: hosts, or hosts with the port of NFS there.
    pub more_addresses: Vec<String>,
    /// Port of the MOUNT program; `None` asks the portmapper.
    pub mount_port: Option<u16>,
    /// Address family to use; `None` allows any.
    pub family: Option<Family>,
    /// Absolute path on the server.
    pub path: String,
    /// Credentials of the calls.
    pub user: User,
    /// Certificates and names for TLS.
    pub tls: TlsOptions,
    /// Whether to use the in-memory server without faults.
    pub faultless: bool,
    /// Settings that are part of the address.
    pub settings: Settings,
}

/// Credentials of the client; parts left open are those of the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Security flavor; `None` means AUTH_SYS.
    pub sec: Option<Sec>,
    /// User ID.
    pub uid: Option<u32>,
    /// Group ID.
    pub gid: Option<u32>,
    /// Supplementary group IDs.
    pub groups: Vec<u32>,
    /// Whether to send from a port below 1024.
    pub resvport: bool,
}
