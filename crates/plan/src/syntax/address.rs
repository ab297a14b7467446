//! The address of an NFS server's export, and the user that it is used as.
//!
//! [`NfsAddress`] is what was written, before the surroundings are known: what is `None` was left
//! open. `parse::address` reads it from a URL.

use model::{Family, Sec, TlsOptions};

use crate::syntax::settings::Settings;

/// The address of an export, its user, and how it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NfsAddress {
    /// Host name or address, an IPv6 one without brackets.
    pub host: String,
    /// Port of the NFS program; `None` asks the portmapper.
    pub port: Option<u16>,
    /// Port of the MOUNT program; `None` asks the portmapper.
    pub mount_port: Option<u16>,
    /// Family of the host's addresses that are used; `None` takes any.
    pub family: Option<Family>,
    /// Absolute path on the server.
    pub path: String,
    /// User of the calls.
    pub user: User,
    /// Who is trusted and shown under TLS.
    pub tls: TlsOptions,
    /// Whether it is the server without faults, of the in-memory servers of this process.
    pub faultless: bool,
    /// How the server is spoken to, as far as the address contains it.
    pub settings: Settings,
}

/// Who the client says it is; what is left open, the caller is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// How it says so; `None` is AUTH_SYS.
    pub sec: Option<Sec>,
    /// Number of the user.
    pub uid: Option<u32>,
    /// Number of the group.
    pub gid: Option<u32>,
    /// Numbers of further groups.
    pub groups: Vec<u32>,
    /// Send from a port below 1024.
    pub resvport: bool,
}
