//! Where an NFS server is and as whom it is used, as an address says it.
//!
//! [`NfsAddress`] is what was written, before the surroundings are known: what is `None` was left
//! open. `reading::address` reads it from a URL.

use model::{Family, Sec, TlsOptions};

use crate::written::settings::Settings;

/// Where an export is, as whom it is used, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NfsAddress {
    /// Host name or address, an IPv6 one without brackets.
    pub host: String,
    /// Port of the NFS program; `None` asks the portmapper.
    pub port: Option<u16>,
    /// Port of the MOUNT program; `None` asks the portmapper.
    pub mount_port: Option<u16>,
    /// Which addresses of the host are used; `None` takes any.
    pub family: Option<Family>,
    /// Absolute path on the server.
    pub path: String,
    /// As whom.
    pub user: User,
    /// Who is trusted and shown under TLS.
    pub tls: TlsOptions,
    /// Of the in-memory servers of this process, the one without faults.
    pub faultless: bool,
    /// How the server is spoken to, as far as it is said here.
    pub settings: Settings,
}

/// Who the client says it is; what is left open, the caller is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// How it says so; `None` is AUTH_SYS.
    pub sec: Option<Sec>,
    /// User id.
    pub uid: Option<u32>,
    /// Group id.
    pub gid: Option<u32>,
    /// Further groups.
    pub groups: Vec<u32>,
    /// Send from a port below 1024.
    pub resvport: bool,
}
