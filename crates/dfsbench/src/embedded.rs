//! The in-memory server inside this process: the embedded default target.
//!
//! The binary starts it, because only this floor knows both the plan and the server; the agent
//! gets its counters and thread ids, so that its work is counted and its processor time is not
//! taken for the client's.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::{Calls, LocalServer, ServerCounts};
use model::soak::Blow;
use model::{NfsSettings, Proto, RunSpec, XprtSec};
use nfs_server::{Server, ServerConfig, ServerCounters, TlsConfig};
use plan::Plan;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::NamedTempFile;

use crate::exit::Failure;
use crate::offer;

/// A running server.
pub struct Embedded {
    server: Arc<Server>,
    /// The certificate, in a file of its own as long as the server runs.
    certificate: Option<NamedTempFile>,
}

/// Starts the server that a plan needs on loopback, on a port that the system chooses; `None`
/// where it needs none.
///
/// # Errors
/// When it can't be started.
pub fn start(plan: &Plan) -> Result<Option<Embedded>, Failure> {
    let settings: Vec<NfsSettings> = plan.on_server().map(RunSpec::nfs).collect();
    if settings.is_empty() {
        return Ok(None);
    }
    let config = ServerConfig {
        udp: settings.iter().any(|nfs| nfs.proto == Proto::Udp),
        tls: settings.iter().any(|nfs| nfs.xprtsec == XprtSec::Tls).then(TlsConfig::default),
        ..offer::config(&plan.server)?
    };
    let server = Server::start(config)
        .map_err(|error| Failure::Lab(format!("can't start the in-memory server: {error}")))?;
    let certificate = server.certificate_pem().map(write_certificate).transpose()?;
    Ok(Some(Embedded { server: Arc::new(server), certificate }))
}

/// Writes the certificate where the client can read it, as it reads that of any server.
fn write_certificate(pem: &str) -> Result<NamedTempFile, Failure> {
    let write = || {
        let mut file = NamedTempFile::with_prefix("dfsbench-ca-")?;
        file.write_all(pem.as_bytes())?;
        Ok(file)
    };
    write().map_err(|error: io::Error| Failure::Output {
        what: "the certificate of the in-memory server to a temporary file".to_owned(),
        reason: error.to_string(),
        hint: "see that the temporary folder has room",
    })
}

impl Embedded {
    /// Port of NFS and MOUNT.
    pub fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// The certificate that clients must trust, where it speaks TLS.
    pub fn certificate(&self) -> Option<&Path> {
        self.certificate.as_ref().map(NamedTempFile::path)
    }

    /// The server, as an agent wants to know it.
    pub fn as_local_server(&self) -> LocalServer {
        let (server, disturbed) = (Arc::clone(&self.server), Arc::clone(&self.server));
        LocalServer {
            thread_ids: server.thread_ids().iter().map(|id| id.unsigned_abs()).collect(),
            counts: Box::new(move || counts_of(&server.counters())),
            blow: Some(Arc::new(move |blow, lasts_ms| disturb(&disturbed, blow, lasts_ms))),
        }
    }
}

/// Disturbs the server as a soak asks for.
fn disturb(server: &Server, blow: Blow, lasts_ms: u64) -> Result<(), String> {
    let lasts = Duration::from_millis(lasts_ms);
    match blow {
        Blow::ServerStall => server.stall_now(lasts),
        Blow::ServerRestart => {
            server.restart_now();
            if !lasts.is_zero() {
                server.stall_now(lasts);
            }
        }
        other => return Err(format!("the in-memory server knows no {other}")),
    }
    Ok(())
}

fn counts_of(counters: &ServerCounters) -> ServerCounts {
    ServerCounts {
        read_bytes: counters.payload_read_bytes,
        write_bytes: counters.payload_written_bytes,
        calls: Calls::from_counts(|kind| counters.served(kind)),
    }
}

/// Raises the soft limit of open files to the hard one; a refusal shows when files are opened.
pub fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
