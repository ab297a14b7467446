//! The in-memory server inside this process: the embedded default target.
//!
//! The binary starts it, because only this floor knows both the plan and the server; the agent
//! gets its counters and thread ids, so that its work is counted and its processor time is not
//! taken for the client's.

use std::sync::Arc;

use agent::{LocalServer, ServerCounts};
use nfs_proto::nfs3::Procedure;
use nfs_server::{Server, ServerConfig, ServerCounters};
use plan::ServerPlan;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::exit::Failure;

/// A running server.
pub struct Embedded {
    server: Arc<Server>,
}

/// Starts the server on loopback, on a port that the system chooses.
///
/// # Errors
/// When it can't be started.
pub fn start(plan: &ServerPlan) -> Result<Embedded, Failure> {
    let config = ServerConfig {
        memory_limit_bytes: plan.memory_bytes,
        threads: plan.threads as usize,
        // Some hosts default to bbr, which paces a loopback stream to a third of its speed.
        congestion_control: Some("cubic".to_owned()),
        ..ServerConfig::default()
    };
    let server = Server::start(config)
        .map_err(|error| Failure::Lab(format!("can't start the in-memory server: {error}")))?;
    Ok(Embedded { server: Arc::new(server) })
}

impl Embedded {
    /// Port of NFS and MOUNT.
    pub fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// The server, as an agent wants to know it.
    pub fn as_local_server(&self) -> LocalServer {
        let server = Arc::clone(&self.server);
        LocalServer {
            thread_ids: server.thread_ids().iter().map(|id| id.unsigned_abs()).collect(),
            counts: Box::new(move || counts_of(&server.counters())),
        }
    }
}

fn counts_of(counters: &ServerCounters) -> ServerCounts {
    ServerCounts {
        reads: counters.calls_of(Procedure::Read),
        read_bytes: counters.payload_read_bytes,
        writes: counters.calls_of(Procedure::Write),
        write_bytes: counters.payload_written_bytes,
        creates: counters.calls_of(Procedure::Create),
        lookups: counters.calls_of(Procedure::Lookup),
        removes: counters.calls_of(Procedure::Remove),
        commits: counters.calls_of(Procedure::Commit),
    }
}

/// Raises the soft limit of open files to the hard one; a refusal shows when files are opened.
pub fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
