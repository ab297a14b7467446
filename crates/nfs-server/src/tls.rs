//! What a server needs to offer RPC over TLS.
//!
//! **Source:** RFC 9289 sections 4 and 5.

/// Where the server's certificate comes from.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Certificate {
    /// Made at the start, for `localhost` and the address listened on; `Server::certificate_pem`
    /// gives it to those who have to trust it.
    #[default]
    SelfSigned,
    /// Given as PEM.
    Pem {
        /// The server's certificate, then those that vouch for it.
        chain: String,
        /// The private key: PKCS #8, PKCS #1 or SEC 1.
        key: String,
    },
}

/// RPC over TLS on the TCP listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// The server's certificate and key.
    pub certificate: Certificate,
    /// Calls without TLS are refused with AUTH_TOOWEAK, and UDP with them; else TLS is offered
    /// and whoever does not ask for it is served without.
    pub required: bool,
    /// Certificates (PEM) of those who vouch for clients: each client must show one then.
    pub client_authorities: Option<String>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A key has no place in a log.
        f.write_str(match self {
            Self::SelfSigned => "SelfSigned",
            Self::Pem { .. } => "Pem",
        })
    }
}
