//! The in-memory servers inside this process: the default target `embedded`, one for each cluster
//! that a plan compares, and one without faults.
//!
//! The binary starts them because only this crate knows both the plan and the server. The agent
//! gets their counters and thread IDs, so that it can count their work and doesn't mistake their
//! CPU time for the client's.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::{Calls, LocalServer, ServerCounts};
use model::soak::FaultKind;
use model::{NfsSettings, Proto, XprtSec};
use nfs_server::{Server, ServerConfig, ServerCounters, TlsConfig};
use plan::{Plan, ServerPlan};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::NamedTempFile;

use crate::exit::Failure;
use crate::files::temporary;
use crate::server::server_config;
use crate::terminal::output;

/// Maximum number of servers that a plan may need.
const SERVERS_MAX: usize = 32;

/// The running servers: one for each combination of the cluster's factors, with and without faults
/// as runs need it. All run during the whole campaign, idle except for the one under test.
pub(crate) struct Embedded {
    servers: Vec<Running>,
}

struct Running {
    plan: ServerPlan,
    server: Arc<Server>,
    /// The certificate, in a temporary file that exists as long as the server runs.
    certificate: Option<NamedTempFile>,
}

/// Starts the servers that a plan needs, on loopback and on ports chosen by the system; `None` if
/// it needs none.
///
/// # Errors
/// If one can't be started, or if it needs too many.
pub(crate) fn start(plan: &Plan) -> Result<Option<Embedded>, Failure> {
    let mut needed: Vec<(ServerPlan, Vec<NfsSettings>)> = Vec::new();
    for run in &plan.runs {
        let Some(server) = plan.server_of(run) else { continue };
        match needed.iter_mut().find(|(known, _)| *known == server) {
            Some((_, clients)) => clients.push(run.nfs()),
            None => needed.push((server, vec![run.nfs()])),
        }
    }
    if needed.len() > SERVERS_MAX {
        return Err(Failure::Usage(format!(
            "the plan needs {} in-memory servers, but at most {SERVERS_MAX} can run (hint: use \
             fewer levels of data_servers, stripe_unit and mirrors)",
            needed.len()
        )));
    }
    let start = |(server, clients): &(ServerPlan, Vec<_>)| start_server(server, clients);
    let servers = needed.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    Ok((!servers.is_empty()).then_some(Embedded { servers }))
}

/// Starts one server for clients with these settings.
fn start_server(plan: &ServerPlan, settings: &[NfsSettings]) -> Result<Running, Failure> {
    // UDP needs sockets and TLS a certificate, so only enable them if a client of this plan uses
    // them.
    let mut udp = false;
    let mut tls = None;
    for nfs in settings {
        udp |= nfs.proto == Proto::Udp;
        if nfs.xprtsec != XprtSec::None {
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
    let certificate = server.certificate_pem().map(write_certificate).transpose()?;
    Ok(Running { plan: plan.clone(), server: Arc::new(server), certificate })
}

/// Writes the certificate to a file, from which the client reads it like that of any other server.
fn write_certificate(pem: &str) -> Result<NamedTempFile, Failure> {
    temporary::certificate(pem).map_err(|error| certificate_error(&error))
}

fn certificate_error(error: &io::Error) -> Failure {
    Failure::Output {
        what: "the certificate of the in-memory server to a temporary file".to_owned(),
        reason: error.to_string(),
        hint: "free space in the temporary folder, or set TMPDIR to another one",
    }
}

impl Embedded {
    /// Sets the servers' ports and certificates in the runs of a plan.
    pub(crate) fn set_addresses(&self, plan: &mut Plan) {
        plan.set_embedded(|wanted| {
            let running = self.find(wanted);
            let certificate = running.certificate.as_ref();
            let path = certificate.map(|certificate| certificate.path().to_owned());
            (running.server.address().port(), path)
        });
    }

    /// Finds the server of a run. Plans that differ only in their load share servers.
    fn find(&self, wanted: &ServerPlan) -> &Running {
        let fits = |plan: &ServerPlan| {
            plan.cluster == wanted.cluster && plan.faults.is_empty() == wanted.faults.is_empty()
        };
        let found = self.servers.iter().find(|running| fits(&running.plan));
        found.expect("servers are started for all runs of a plan")
    }

    /// Warns about connections that a server closed because this process, which holds both ends of
    /// each one, ran out of file descriptors, and about everything refused for lack of memory.
    pub(crate) fn warn_of_refused(&self) {
        let mut refused = 0;
        let mut out_of_memory = 0;
        let mut put_off = 0;
        for running in &self.servers {
            let counters = running.server.counters();
            refused += counters.connections_turned_away;
            out_of_memory += counters.connections_out_of_memory;
            put_off += counters.clients_out_of_memory;
        }
        if out_of_memory + put_off > 0 {
            output::message(&format!(
                "warning: the in-memory server ran out of memory: {out_of_memory} connections \
                 closed, {put_off} calls of v4 clients delayed or refused (hint: raise \
                 --server-memory, or use fewer workers or clients)"
            ));
        }
        if refused > 0 {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            output::message(&format!(
                "warning: the in-memory server refused {refused} connections because this process \
                 ran out of file descriptors: each connection takes two, and the limit is {limit} \
                 (hint: raise `ulimit -n`, or use fewer workers or clients)"
            ));
        }
    }

    /// Combines the servers into the single one that an agent uses.
    pub(crate) fn as_local_server(&self) -> LocalServer {
        let servers: Vec<_> =
            self.servers.iter().map(|running| Arc::clone(&running.server)).collect();
        let mut thread_ids = Vec::new();
        for server in servers
            .iter()
            .flat_map(|server| std::iter::once(&**server).chain(server.data_servers()))
        {
            for id in server.thread_ids() {
                thread_ids.push(id.unsigned_abs());
            }
        }
        // The one without faults stays undisturbed, unless all runs use it.
        let has_faults = |running: &&Running| !running.plan.faults.is_empty();
        let is_faulty = self.servers.iter().any(|running| has_faults(&running));
        let disturbed: Vec<_> = self
            .servers
            .iter()
            .filter(|running| !is_faulty || has_faults(running))
            .map(|running| Arc::clone(&running.server))
            .collect();
        LocalServer {
            thread_ids,
            counts: Box::new(move || counts_of(&servers)),
            inject_fault: Some(Arc::new(move |fault, lasts_ms| {
                disturbed.iter().try_for_each(|server| disturb_server(server, fault, lasts_ms))
            })),
        }
    }
}

/// Injects a soak's fault into the server.
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
        other => return Err(format!("the in-memory server does not support {other}")),
    }
    Ok(())
}

/// Adds up the counters of all servers. Only one of them is in use during a pass.
fn counts_of(servers: &[Arc<Server>]) -> ServerCounts {
    let mut read_bytes = 0;
    let mut write_bytes = 0;
    let mut copied_bytes = 0;
    let mut counters: Vec<ServerCounters> = Vec::with_capacity(servers.len());
    for server in servers {
        let counted = server.cluster_counters();
        read_bytes += counted.payload_read_bytes;
        write_bytes += counted.payload_written_bytes;
        copied_bytes += counted.copied_bytes;
        counters.push(counted);
    }
    let calls =
        Calls::from_counts(|kind| counters.iter().map(|counted| counted.calls_of_kind(kind)).sum());
    ServerCounts { read_bytes, write_bytes, copied_bytes, calls }
}

/// Raises the soft limit of open files to the hard limit. If that fails, opening files reports it.
pub(crate) fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
