//! Arguments of `dfsbench run`.
//!
//! Values of settings stay text: the plan's own readers take them, so that a flag and a plan's key
//! accept the same words and refuse them with the same message.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, ValueHint};
use plan::Overrides;

use super::{EXAMPLES, Format, RESULTS};

/// Measures a directory, an NFS server, or what a plan says.
///
/// Flags that name a setting take several values, separated by commas; each such flag is a
/// factor, and every combination is a run. Flags win over the plan.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct RunArgs {
    /// A directory, nfs://host[:port]/export[/dir][?version=4.1&proto=tcp&uid=..&gid=..], a plan
    /// file, `embedded` (the in-memory server), `null`, or a preset: `quick`,
    /// `throughput-factors` [default: quick]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub target: Option<String>,
    /// Which workloads: stream, mixed, metadata
    #[arg(long, value_delimiter = ',', value_name = "KIND", help_heading = "Factors")]
    workload: Vec<String>,
    /// How ops are executed: posix or uring for a directory, nfs for a server
    #[arg(long, value_delimiter = ',', value_name = "BACKEND", help_heading = "Factors")]
    backend: Vec<String>,
    /// Bytes of one read or write, such as 64KiB
    #[arg(long, value_delimiter = ',', value_name = "SIZE", help_heading = "Factors")]
    io_size: Vec<String>,
    /// Size of each file of the stream and mixed workloads
    #[arg(long, value_delimiter = ',', value_name = "SIZE", help_heading = "Factors")]
    file_size: Vec<String>,
    /// Files in the set, all workers together [default: one per worker]
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Factors")]
    files: Vec<String>,
    /// Files that the metadata workload makes, all workers together
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Factors")]
    small_files: Vec<String>,
    /// Bytes that are written to each file as it is made; 0 makes empty files
    #[arg(long, value_delimiter = ',', value_name = "SIZE", help_heading = "Factors")]
    small_file_size: Vec<String>,
    /// Threads that work at once
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Factors")]
    workers: Vec<String>,
    /// Ops in flight per worker, over NFS per client
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Factors")]
    queue_depth: Vec<String>,
    /// Share of reads in the mixed workload, in percent
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", help_heading = "Factors")]
    read_percent: Vec<String>,
    /// How long the mixed workload runs, such as 2s
    #[arg(long, value_delimiter = ',', value_name = "TIME", help_heading = "Factors")]
    duration: Vec<String>,
    /// Bypass the page cache (O_DIRECT): true or false
    #[arg(long, value_delimiter = ',', value_name = "BOOL", help_heading = "Factors")]
    direct: Vec<String>,
    /// Wait until written data is safe (fsync, COMMIT) inside the timed window: sync or none
    #[arg(long, value_delimiter = ',', value_name = "HOW", help_heading = "Factors")]
    durability: Vec<String>,
    /// Drop the files from the page cache before they are read: true or false
    #[arg(long, value_delimiter = ',', value_name = "BOOL", help_heading = "Factors")]
    invalidate: Vec<String>,
    /// Compare every byte that is read with what was written: true or false
    #[arg(long, value_delimiter = ',', value_name = "BOOL", help_heading = "Factors")]
    verify: Vec<String>,
    /// An answer that takes longer is a failure
    #[arg(long, value_delimiter = ',', value_name = "TIME", help_heading = "Factors")]
    timeout: Vec<String>,
    /// Version of NFS: 2, 3, 4.0, 4.1 or 4.2 [default: 3]
    #[arg(long, value_delimiter = ',', value_name = "VERSION", help_heading = "Factors of NFS")]
    nfsvers: Vec<String>,
    /// What RPC runs over: tcp, or udp for versions 2 and 3 [default: tcp]
    #[arg(long, value_delimiter = ',', value_name = "PROTO", help_heading = "Factors of NFS")]
    proto: Vec<String>,
    /// Protection of the transport: none, or tls (RPC-over-TLS, RFC 9289) [default: none]
    #[arg(long, value_delimiter = ',', value_name = "HOW", help_heading = "Factors of NFS")]
    xprtsec: Vec<String>,
    /// Clients that are emulated, each with a connection and a name of its own
    /// [default: one per worker]
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Factors of NFS")]
    clients: Vec<String>,
    /// User ids that the clients have in turn, from the target's uid on [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Factors of NFS")]
    client_uids: Vec<String>,
    /// Record each client apart, and report the slowest and the fastest: true or false
    #[arg(long, value_delimiter = ',', value_name = "BOOL", help_heading = "Factors of NFS")]
    per_client: Vec<String>,
    /// Connections of one client [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Factors of NFS")]
    nconnect: Vec<String>,
    /// Largest payload of one READ or WRITE on the wire (rsize, wsize) [default: the server's]
    #[arg(long, value_delimiter = ',', value_name = "SIZE", help_heading = "Factors of NFS")]
    transfer_size: Vec<String>,
    /// Transfers in flight beyond what a sequential read asks for [default: 0]
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Factors of NFS")]
    read_ahead: Vec<String>,
    /// Transfers in flight after their sequential writes have ended [default: 0]
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Factors of NFS")]
    write_behind: Vec<String>,
    /// How safe a WRITE must be before it is answered: unstable, data_sync or file_sync
    /// [default: unstable]
    #[arg(long, value_delimiter = ',', value_name = "HOW", help_heading = "Factors of NFS")]
    stable: Vec<String>,
    /// How long an answer over UDP is waited for before the call is sent again [default: 1100ms]
    #[arg(long, value_delimiter = ',', value_name = "TIME", help_heading = "Factors of NFS")]
    timeo: Vec<String>,
    /// How often a call over UDP is sent again before the waits start over [default: 3]
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Factors of NFS")]
    retrans: Vec<String>,
    /// Certificates (PEM) that the TLS certificate of a server may be signed by
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    tls_ca: Option<PathBuf>,
    /// Repetitions of each run [default: 5]
    #[arg(long, value_name = "N")]
    trials: Option<String>,
    /// Seed of every random choice [default: drawn and printed]
    #[arg(long, value_name = "N")]
    seed: Option<String>,
    /// Memory of the in-memory server
    #[arg(long, value_name = "SIZE")]
    server_memory: Option<String>,
    /// Threads of the in-memory server
    #[arg(long, value_name = "N")]
    server_threads: Option<String>,
    /// Where results are kept; campaigns add up in one file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Form of what is printed at the end
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Print the matrix with estimates of time and bytes, and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Leave the measured files behind, in directories named .dfsbench-*
    #[arg(long)]
    pub keep: bool,
}

impl RunArgs {
    /// Says whether the null backend, and no other, is asked for.
    pub fn wants_null(&self) -> bool {
        self.backend == ["null"]
    }

    /// The flags, as the plan takes them.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            trials: self.trials.clone(),
            seed: self.seed.clone(),
            server_memory: self.server_memory.clone(),
            server_threads: self.server_threads.clone(),
            workload: self.workload.clone(),
            backend: self.backend.clone(),
            tls_ca: self.tls_ca.clone(),
            workers: self.workers.clone(),
            clients: self.clients.clone(),
            client_uids: self.client_uids.clone(),
            per_client: self.per_client.clone(),
            files: self.files.clone(),
            small_files: self.small_files.clone(),
            small_file_size: self.small_file_size.clone(),
            file_size: self.file_size.clone(),
            io_size: self.io_size.clone(),
            queue_depth: self.queue_depth.clone(),
            nfsvers: self.nfsvers.clone(),
            proto: self.proto.clone(),
            xprtsec: self.xprtsec.clone(),
            nconnect: self.nconnect.clone(),
            transfer_size: self.transfer_size.clone(),
            read_ahead: self.read_ahead.clone(),
            write_behind: self.write_behind.clone(),
            stable: self.stable.clone(),
            timeo: self.timeo.clone(),
            retrans: self.retrans.clone(),
            read_percent: self.read_percent.clone(),
            duration: self.duration.clone(),
            direct: self.direct.clone(),
            durability: self.durability.clone(),
            invalidate: self.invalidate.clone(),
            verify: self.verify.clone(),
            timeout: self.timeout.clone(),
        }
    }
}
