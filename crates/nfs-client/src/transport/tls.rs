//! RPC over TLS: a NULL call that asks for it, the handshake, and then everything encrypted.
//!
//! [`Tls`] is the trust configuration, shared by all connections of a mount; [`TlsStream`] is one
//! stream. The handshake blocks, within a limit; nothing does after it. A receive fills the given
//! space as long as there are bytes, so a short one means that none are left.
//!
//! **Source:** RFC 9289 sections 4 and 5; the application protocol is `sunrpc`.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nfs_proto::rpc::{AUTH_TLS, CallHeader, Credential, ProcedureId, RPC_VERSION, STARTTLS};
use nfs_proto::xdr::{Reader, Writer};
use nfs_proto::{DecodeError, record};
use rustix::event::PollFlags;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::deadline::Deadline;

/// The application protocol of RPC. **Source:** RFC 9289 section 8.2.
const ALPN_SUNRPC: &[u8] = b"sunrpc";
/// Maximum amount of plaintext waiting for the socket, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;
/// The longest verifier, in bytes. **Source:** RFC 5531 section 8.2.
const VERIFIER_BYTES_MAX: u32 = 400;
/// Longest reply to a NULL call that is accepted, in bytes.
const REPLY_BYTES_MAX: usize = 1024;

/// Trusted authorities and client certificate; all files are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsOptions {
    /// Certificates of authorities that may sign a server's certificate; `None` uses those that the
    /// system trusts.
    pub ca: Option<PathBuf>,
    /// The client's own certificate followed by its issuers, in case the server asks for one.
    pub cert: Option<PathBuf>,
    /// The private key of `cert`.
    pub key: Option<PathBuf>,
    /// The name that the server's certificate must be for; `None` uses the host name.
    pub server_name: Option<String>,
}

/// The trust configuration; read from its files when the first connection needs it.
#[derive(Clone)]
pub struct Tls(Arc<Trust>);

struct Trust {
    options: TlsOptions,
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

/// Reason why TLS could not be started on a stream.
#[derive(Debug)]
pub(crate) enum TlsFailure {
    /// The server does not offer it; the stream can be used without it.
    NotOffered,
    /// The trust configuration can't be used.
    Trust(String),
    /// The server's certificate is not trusted.
    Certificate(rustls::CertificateError),
    /// Another error.
    Failed(io::Error),
}

impl From<io::Error> for TlsFailure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Tls {
    /// Creates a configuration from options.
    pub fn new(options: TlsOptions) -> Self {
        Self(Arc::new(Trust { options, config: OnceLock::new() }))
    }

    /// Trusts the authorities in a PEM file, or those that the system trusts.
    pub fn with_authorities(authorities: Option<PathBuf>) -> Self {
        Self::new(TlsOptions { ca: authorities, ..TlsOptions::default() })
    }

    fn config(&self) -> Result<Arc<ClientConfig>, TlsFailure> {
        // Read once, by the first connection that needs it; an error is kept as well.
        let config = self.0.config.get_or_init(|| client_config(&self.0.options));
        config.clone().map_err(TlsFailure::Trust)
    }

    /// The name that the certificate of a host must be for.
    fn server_name(&self, host: &str) -> Result<ServerName<'static>, TlsFailure> {
        let requested = self.0.options.server_name.as_deref().unwrap_or(host);
        let bare = requested.trim_start_matches('[').trim_end_matches(']');
        ServerName::try_from(bare.to_owned())
            .map_err(|error| TlsFailure::Trust(format!("server name `{requested}`: {error}")))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tls").field(&self.0.options).finish()
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.0.options == other.0.options
    }
}

impl Eq for Tls {}

/// A TLS stream.
#[derive(Debug)]
pub(crate) struct TlsStream {
    pub(crate) stream: TcpStream,
    tls: Box<ClientConnection>,
}

impl TlsStream {
    /// Asks for TLS with a NULL call of this program and version, and makes the handshake. On
    /// failure, returns the stream and the reason.
    pub(super) fn start(
        stream: TcpStream,
        null_call: ProcedureId,
        trust: &Tls,
        host: &str,
        deadline: &Deadline,
    ) -> Result<Self, (TcpStream, TlsFailure)> {
        let mut this = match begin_tls(&stream, null_call, trust, host, deadline) {
            Ok(tls) => Self { stream, tls: Box::new(tls) },
            Err(refused) => return Err((stream, refused)),
        };
        match this.shake_hands(deadline) {
            Ok(()) => Ok(this),
            Err(refused) => Err((this.stream, refused)),
        }
    }

    /// Takes plaintext, and sends as much as the socket takes; fails with `WouldBlock` if it could
    /// do neither.
    pub(crate) fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let taken = self.tls.writer().write_vectored(pieces)?;
        match self.send_encrypted() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            Err(error) if taken == 0 => Err(error),
            _ => Ok(taken),
        }
    }

    /// Receives plaintext until `space` is full or the socket has no more.
    pub(crate) fn receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < space.len() {
            match self.tls.reader().read(&mut space[filled..]) {
                Ok(0) => break,
                Ok(len) => filled += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    match self.receive_encrypted() {
                        Ok(()) => {}
                        // A stream error shows up again when there is nothing else to return.
                        Err(_) if filled > 0 => break,
                        Err(error) => return Err(error),
                    }
                }
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Returns true if encrypted bytes are waiting for the socket.
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    fn shake_hands(&mut self, deadline: &Deadline) -> Result<(), TlsFailure> {
        while self.tls.is_handshaking() || self.tls.wants_write() {
            deadline.retry_until_ready(&self.stream, PollFlags::OUT, || {
                if self.tls.wants_write() { self.tls.write_tls(&mut &self.stream) } else { Ok(0) }
            })?;
            if self.tls.wants_write() || !self.tls.is_handshaking() {
                continue;
            }
            let read = deadline.retry_until_ready(&self.stream, PollFlags::IN, || {
                self.tls.read_tls(&mut &self.stream)
            })?;
            if read == 0 {
                return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
            }
            match self.tls.process_new_packets() {
                Ok(_) => {}
                Err(rustls::Error::InvalidCertificate(reason)) => {
                    return Err(TlsFailure::Certificate(reason));
                }
                Err(error) => return Err(io::Error::other(error).into()),
            }
        }
        Ok(())
    }

    /// Sends encrypted bytes until none are left, or fails with `WouldBlock`.
    fn send_encrypted(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &self.stream) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Receives and decrypts some bytes.
    fn receive_encrypted(&mut self) -> io::Result<()> {
        if self.tls.read_tls(&mut &self.stream)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.tls.process_new_packets().map_err(io::Error::other)?;
        match self.send_encrypted() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns true if a peer closed a stream because of our certificate; in TLS 1.3 that shows up with
/// the first answer. **Source:** RFC 8446 section 6.2.
pub(crate) fn refuses_certificate(error: &io::Error) -> bool {
    use rustls::AlertDescription as Alert;
    let Some(inner) = error.get_ref() else { return false };
    let Some(rustls::Error::AlertReceived(alert)) = inner.downcast_ref() else { return false };
    matches!(
        alert,
        Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::DecryptError
            | Alert::AccessDenied
    )
}

/// Returns true if the reply to a NULL call with AUTH_TLS promises TLS, and false if it denies the
/// credential. `reply` does not include the record mark.
pub(crate) fn offers_starttls(reply: &[u8]) -> Result<bool, DecodeError> {
    let mut reader = Reader::new(reply);
    // The xid, the type (1: a reply), the state (0: accepted), then the verifier, whose body is the
    // promise. If the state is a denied credential, the server does not support AUTH_TLS.
    reader.u32()?;
    match reader.u32()? {
        1 => {}
        value => return Err(DecodeError::BadValue { what: "RPC message type", value }),
    }
    if reader.u32()? != 0 {
        return Ok(false);
    }
    reader.u32()?;
    Ok(reader.opaque(VERIFIER_BYTES_MAX)? == STARTTLS)
}

/// Prepares TLS, up to the handshake, on a stream whose server offers it.
fn begin_tls(
    stream: &TcpStream,
    null_call: ProcedureId,
    trust: &Tls,
    host: &str,
    deadline: &Deadline,
) -> Result<ClientConnection, TlsFailure> {
    // Read the files before sending anything, so that their errors are reported as such.
    let config = trust.config()?;
    let name = trust.server_name(host)?;
    if !request_tls(stream, null_call, deadline)? {
        return Err(TlsFailure::NotOffered);
    }
    let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
    tls.set_buffer_limit(Some(BUFFER_BYTES));
    Ok(tls)
}

/// Makes the NULL call that asks for TLS, and returns whether the server offers it.
fn request_tls(
    stream: &TcpStream,
    null_call: ProcedureId,
    deadline: &Deadline,
) -> io::Result<bool> {
    let mut call = Vec::new();
    let mark = record::begin(&mut call);
    let header = CallHeader {
        xid: AUTH_TLS,
        rpc_version: RPC_VERSION,
        program: null_call.program,
        version: null_call.version,
        procedure: null_call.procedure,
        credential: Ok(Credential::Other { flavor: AUTH_TLS }),
    };
    header.encode(&mut Writer::new(&mut call));
    record::end(&mut call, mark, 0);
    let mut rest = call.as_slice();
    while !rest.is_empty() {
        let sent =
            deadline.retry_until_ready(stream, PollFlags::OUT, || (&mut &*stream).write(rest))?;
        rest = &rest[sent..];
    }
    let mut inbox = record::Inbox::new(REPLY_BYTES_MAX);
    loop {
        // Never read a byte more than the reply: what follows belongs to TLS, and this buffer would
        // swallow the start of the handshake.
        let mut byte = [0];
        if deadline.retry_until_ready(stream, PollFlags::IN, || (&mut &*stream).read(&mut byte))?
            == 0
        {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        inbox.push(&byte);
        if let Some(reply) = inbox.next_record().map_err(io::Error::other)? {
            return offers_starttls(reply).map_err(io::Error::other);
        }
    }
}

fn client_config(options: &TlsOptions) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_root_certificates(read_trusted(options.ca.as_deref())?);
    let mut config = match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|e| file_fault(key, &e))?;
            builder
                .with_client_auth_cert(read_certificates(cert)?, private)
                .map_err(|error| file_fault(key, &error))?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN_SUNRPC.to_vec()];
    Ok(Arc::new(config))
}

/// Reads the trusted certificates from a file, or from the system.
fn read_trusted(authorities: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(path) = authorities else {
        // On a system without certificates no server is trusted, and the handshake fails with that
        // reason.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    for certificate in read_certificates(path)? {
        roots.add(certificate).map_err(|error| file_fault(path, &error))?;
    }
    Ok(roots)
}

/// Reads the certificates of a PEM file, at least one.
fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(|e| file_fault(path, &e))?
        .map(|certificate| certificate.map_err(|error| file_fault(path, &error)))
        .collect::<Result<Vec<_>, _>>()?;
    if certificates.is_empty() {
        return Err(file_fault(path, &"it contains no certificate"));
    }
    Ok(certificates)
}

fn file_fault(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(words: &[u32], tail: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend(tail);
        bytes
    }

    #[test]
    fn only_the_verifier_offers_tls() {
        let yes = reply(&[9, 1, 0, 0, 8], b"STARTTLS\0\0\0\0");
        assert_eq!(offers_starttls(&yes), Ok(true));
        assert_eq!(offers_starttls(&reply(&[9, 1, 0, 0, 0, 0], b"")), Ok(false));
        let other = reply(&[9, 1, 0, 0, 8], b"STARTSSL\0\0\0\0");
        assert_eq!(offers_starttls(&other), Ok(false));
        // Denied: AUTH_ERROR, AUTH_REJECTEDCRED.
        assert_eq!(offers_starttls(&reply(&[9, 1, 1, 1, 2], b"")), Ok(false));
        assert!(offers_starttls(&yes[..20]).is_err());
        assert!(offers_starttls(&reply(&[9, 0, 0], b"")).is_err());
    }
}
