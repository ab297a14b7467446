//! Configuration of RPC over TLS on the server.
//!
//! [`TlsConfig`] is the user's configuration, [`TlsServer`] is used to set up connections. Only TLS
//! 1.3, as the RFC requires, and the application protocol `sunrpc` if the peer uses ALPN.
//!
//! **Source:** RFC 9289 sections 4 and 5.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::error::ServerError;

/// The application protocol of RPC. **Source:** RFC 9289 section 8.2.
const ALPN_SUNRPC: &[u8] = b"sunrpc";

/// The source of the server's certificate.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Certificate {
    /// Made at startup, for `localhost` and the listening address; `Server::certificate_pem`
    /// returns it for clients that need to trust it.
    #[default]
    SelfSigned,
    /// Given as PEM.
    Pem {
        /// The server's certificate, followed by its issuers.
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
    /// NFS and MOUNT calls without TLS are refused with AUTH_TOOWEAK, including all over UDP;
    /// otherwise TLS is offered and clients that do not request it are served without.
    pub required: bool,
    /// Certificates (PEM) of authorities for clients; if set, each client must present a
    /// certificate.
    pub client_authorities: Option<String>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A key must not end up in a log.
        f.write_str(match self {
            Self::SelfSigned => "SelfSigned",
            Self::Pem { .. } => "Pem",
        })
    }
}

/// The TLS configuration used to set up connections.
#[derive(Debug)]
pub(crate) struct TlsServer {
    config: Arc<ServerConfig>,
    /// The server's certificates.
    pub(crate) chain_pem: String,
    /// Whether calls without TLS are refused.
    pub(crate) required: bool,
}

impl TlsServer {
    /// Reads or creates the certificate.
    ///
    /// # Errors
    /// `ServerError::Tls` if certificate, key or authorities are not usable.
    pub(crate) fn new(config: &TlsConfig, listen: IpAddr) -> Result<Self, ServerError> {
        let (chain_pem, key_pem) = match &config.certificate {
            Certificate::SelfSigned => self_signed(listen)?,
            Certificate::Pem { chain, key } => (chain.clone(), key.clone()),
        };
        let chain = parse_certificates("the certificate", &chain_pem)?;
        let key =
            PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(tls_error("the key"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(tls_error("TLS 1.3"))?;
        let builder = match &config.client_authorities {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for certificate in parse_certificates("the client authorities", pem)? {
                    roots.add(certificate).map_err(tls_error("the client authorities"))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(tls_error("the client authorities"))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut server = builder
            .with_single_cert(chain, key)
            .map_err(tls_error("the certificate and its key"))?;
        server.alpn_protocols = vec![ALPN_SUNRPC.to_vec()];
        Ok(Self { config: Arc::new(server), chain_pem, required: config.required })
    }

    /// The configuration for one more connection.
    pub(crate) fn shared_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

fn tls_error<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> ServerError {
    move |error| ServerError::Tls(format!("{what}: {error}"))
}

fn parse_certificates(
    what: &'static str,
    pem: &str,
) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let all = all.map_err(tls_error(what))?;
    if all.is_empty() {
        return Err(ServerError::Tls(format!("{what}: no certificate in the PEM data")));
    }
    Ok(all)
}

/// Creates a certificate for this host and its key, both as PEM.
fn self_signed(listen: IpAddr) -> Result<(String, String), ServerError> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !listen.is_unspecified() && !listen.is_loopback() {
        names.push(listen.to_string());
    }
    let made = rcgen::generate_simple_self_signed(names).map_err(tls_error("self-signing"))?;
    Ok((made.cert.pem(), made.signing_key.serialize_pem()))
}
