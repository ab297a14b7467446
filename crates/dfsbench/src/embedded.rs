//! The in-memory servers inside this process: the embedded default target, and one without faults.
//!
//! The binary starts it, because only this crate knows both the plan and the server; the agent
//! gets its counters and thread ids, so that its work is counted and its processor time is not
//! taken for the client's.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::{Calls, LocalServer, ServerCounts};
use model::soak::FaultKind;
use model::{NfsSettings, Proto, RunSpec, XprtSec};
use nfs_server::{Server, ServerConfig, ServerCounters, TlsConfig};
use plan::{Plan, ServerPlan};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::NamedTempFile;

use crate::exit::Failure;
use crate::{output, server_config, temporary};

/// A running server, and one without faults beside it where a plan needs both.
pub struct Embedded {
    usual: Running,
    faultless: Option<Running>,
}

struct Running {
    server: Arc<Server>,
    /// The certificate, in a file of its own as long as the server runs.
    certificate: Option<NamedTempFile>,
}

/// Starts the servers that a plan needs on loopback, on ports that the system chooses; `None`
/// where it needs none.
///
/// # Errors
/// When one can't be started.
pub fn start(plan: &Plan) -> Result<Option<Embedded>, Failure> {
    let settings: Vec<NfsSettings> = plan.on_server().map(RunSpec::nfs).collect();
    let without_faults: Vec<NfsSettings> = plan.on_faultless().map(RunSpec::nfs).collect();
    let clean = ServerPlan { faults: Vec::new(), ..plan.server.clone() };
    if settings.is_empty() && without_faults.is_empty() {
        return Ok(None);
    }
    // One server does for both where no fault is planned, or no client of the other kind exists.
    if plan.server == clean || settings.is_empty() {
        let all = [settings, without_faults].concat();
        return Ok(Some(Embedded { usual: start_server(&clean, &all)?, faultless: None }));
    }
    let mut faultless = None;
    if !without_faults.is_empty() {
        faultless = Some(start_server(&clean, &without_faults)?);
    }
    Ok(Some(Embedded { usual: start_server(&plan.server, &settings)?, faultless }))
}

/// Starts one server for clients with these settings.
fn start_server(plan: &ServerPlan, settings: &[NfsSettings]) -> Result<Running, Failure> {
    // UDP and TLS cost sockets and a certificate: only where a client of this plan uses them.
    let (mut udp, mut tls) = (false, None);
    for nfs in settings {
        udp |= nfs.proto == Proto::Udp;
        if nfs.xprtsec == XprtSec::Tls {
            tls = Some(TlsConfig::default());
        }
    }
    let config = ServerConfig { udp, tls, ..server_config::config(plan)? };
    let server = match Server::start(config) {
        Ok(server) => server,
        Err(error) => {
            return Err(Failure::Lab(format!("can't start the in-memory server: {error}")));
        }
    };
    let certificate = match server.certificate_pem() {
        Some(pem) => Some(write_certificate(pem)?),
        None => None,
    };
    Ok(Running { server: Arc::new(server), certificate })
}

/// Writes the certificate where the client can read it, as it reads that of any server.
fn write_certificate(pem: &str) -> Result<NamedTempFile, Failure> {
    temporary::certificate(pem).map_err(|error| certificate_error(&error))
}

fn certificate_error(error: &io::Error) -> Failure {
    Failure::Output {
        what: "the certificate of the in-memory server to a temporary file".to_owned(),
        reason: error.to_string(),
        hint: "free space in the temporary folder, or name another one in TMPDIR",
    }
}

impl Embedded {
    /// Writes the servers' ports and certificates into the runs of a plan.
    pub fn set_addresses(&self, plan: &mut Plan) {
        let faultless = self.faultless.as_ref().unwrap_or(&self.usual);
        plan.set_embedded(self.usual.port(), self.usual.certificate());
        plan.set_faultless(faultless.port(), faultless.certificate());
    }

    /// Warns of connections that a server closed at once for want of open files, of which this
    /// process has the server's and the client's, and of what it refused for want of memory.
    pub fn warn_of_refused(&self) {
        let (mut refused, mut out_of_memory, mut put_off) = (0, 0, 0);
        for running in [Some(&self.usual), self.faultless.as_ref()].into_iter().flatten() {
            let counters = running.server.counters();
            refused += counters.connections_turned_away;
            out_of_memory += counters.connections_out_of_memory;
            put_off += counters.clients_out_of_memory;
        }
        if out_of_memory + put_off > 0 {
            output::message(&format!(
                "warning: the in-memory server ran out of memory: {out_of_memory} connections \
                 closed, {put_off} calls of v4 clients put off (hint: raise --server-memory, or \
                 use fewer workers or clients)"
            ));
        }
        if refused > 0 {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            output::message(&format!(
                "warning: the in-memory server closed connections at once ({refused}) for want of \
                 open files: each takes two of this process, which may have {limit} (hint: raise \
                 `ulimit -n`, or use fewer workers or clients)"
            ));
        }
    }

    /// Returns the servers as one, as an agent uses them.
    pub fn as_local_server(&self) -> LocalServer {
        let mut servers = vec![Arc::clone(&self.usual.server)];
        if let Some(faultless) = &self.faultless {
            servers.push(Arc::clone(&faultless.server));
        }
        let mut thread_ids = Vec::new();
        for server in &servers {
            for id in server.thread_ids() {
                thread_ids.push(id.unsigned_abs());
            }
        }
        let disturbed = Arc::clone(&self.usual.server);
        LocalServer {
            thread_ids,
            counts: Box::new(move || counts_of(&servers)),
            inject_fault: Some(Arc::new(move |fault, lasts_ms| {
                disturb_server(&disturbed, fault, lasts_ms)
            })),
        }
    }
}

impl Running {
    /// Returns the port of NFS and MOUNT.
    fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// Returns the certificate that clients must trust, where the server speaks TLS.
    fn certificate(&self) -> Option<&Path> {
        Some(self.certificate.as_ref()?.path())
    }
}

/// Disturbs the server as a soak asks for.
fn disturb_server(server: &Server, fault: FaultKind, lasts_ms: u64) -> Result<(), String> {
    let lasts = Duration::from_millis(lasts_ms);
    match fault {
        FaultKind::ServerStall => server.stall_now(lasts),
        FaultKind::ServerRestart => {
            server.restart_now();
            if !lasts.is_zero() {
                server.stall_now(lasts);
            }
        }
        other => return Err(format!("the in-memory server knows no {other}")),
    }
    Ok(())
}

/// Adds up the counts of all servers: only one is at work in a pass.
fn counts_of(servers: &[Arc<Server>]) -> ServerCounts {
    let (mut read_bytes, mut write_bytes) = (0, 0);
    let mut counters: Vec<ServerCounters> = Vec::with_capacity(servers.len());
    for server in servers {
        let counted = server.counters();
        read_bytes += counted.payload_read_bytes;
        write_bytes += counted.payload_written_bytes;
        counters.push(counted);
    }
    let calls = Calls::from_counts(|kind| {
        let mut calls = 0;
        for counted in &counters {
            calls += counted.calls_of_kind(kind);
        }
        calls
    });
    ServerCounts { read_bytes, write_bytes, calls }
}

/// Raises the soft limit of open files to the hard one; a refusal shows when files are opened.
pub fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
