//! The command line, typed; help texts, completions and the man page come from here.
//!
//! Values of settings stay text: the plan's own readers take them, so that a flag and a plan's key
//! accept the same words and refuse them with the same message.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum, ValueHint};
use plan::Overrides;

/// Where results are kept when nobody says.
const RESULTS: &str = "dfsbench.db";

const EXAMPLES: &str = "\
Examples:
  dfsbench                                    measure this machine: NFS over loopback and the
                                              temporary directory, within 90 seconds
  dfsbench run /mnt/data --direct true        a directory, past the page cache
  dfsbench run 'nfs://server/export'          an NFS server, without mounting it
  dfsbench run DIR --io-size 4KiB,64KiB,1MiB --workers 1,4
                                              two factors: every combination is a run
  dfsbench run plan.toml --dry-run            what a plan would do, how long, how much
  dfsbench report --format markdown           the last campaign again, from the results file

Exit codes: 0 ok, 1 a comparison failed, 2 usage or plan, 3 a server or host can't be used,
4 measured, but something is invalid, failed or was interrupted.";

/// Measures NFS and other distributed file systems, and says how far its own numbers can be
/// trusted.
///
/// Without a command it runs the campaign `quick`: NFS v3 over TCP to an in-memory server of its
/// own, and a directory under the temporary folder through posix and io_uring. No root, no NFS
/// server and no mount are needed.
#[derive(Debug, Parser)]
#[command(name = "dfsbench", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Args {
    /// What to do
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What dfsbench can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure a directory, an NFS server, or what a plan says
    Run(Box<RunArgs>),
    /// Render a campaign from the results file
    Report(ReportArgs),
    /// Run the in-memory NFS server for other clients
    Serve(ServeArgs),
    /// Write a file of an NFS server to stdout
    #[command(hide = true)]
    Cat(CatArgs),
    /// Write the content of a measured file to stdout, as it should be
    #[command(hide = true)]
    Pattern(PatternArgs),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page per command to a directory
    Man {
        /// Where to write dfsbench.1, dfsbench-run.1 ...
        #[arg(long, value_hint = ValueHint::DirPath)]
        directory: Option<PathBuf>,
    },
}

impl Command {
    /// What happens when no command is given.
    pub fn quick() -> Self {
        let Some(Self::Run(run)) = Args::parse_from(["dfsbench", "run"]).command else {
            unreachable!("`dfsbench run` is a run");
        };
        Self::Run(run)
    }
}

/// Measures a directory, an NFS server, or what a plan says.
///
/// Flags that name a setting take several values, separated by commas; each such flag is a
/// factor, and every combination is a run. Flags win over the plan.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct RunArgs {
    /// A directory, nfs://host[:port]/export[/dir][?version=3&uid=..&gid=..&mountport=..], a plan
    /// file, `embedded` (the in-memory server), `null`, or `quick` [default: quick]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub target: Option<String>,
    /// Which workloads: stream, random, metadata
    #[arg(long, value_delimiter = ',', value_name = "KIND", help_heading = "Factors")]
    workload: Vec<String>,
    /// How ops are executed: posix or uring for a directory, nfs for a server
    #[arg(long, value_delimiter = ',', value_name = "BACKEND", help_heading = "Factors")]
    backend: Vec<String>,
    /// Bytes of one read or write, such as 64KiB
    #[arg(long, value_delimiter = ',', value_name = "SIZE", help_heading = "Factors")]
    io_size: Vec<String>,
    /// Size of each file of the stream and random workloads
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
    /// Ops in flight per worker
    #[arg(long, value_delimiter = ',', value_name = "N", help_heading = "Factors")]
    queue_depth: Vec<String>,
    /// Share of reads in the random workload, in percent
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", help_heading = "Factors")]
    read_percent: Vec<String>,
    /// How long the random workload runs, such as 2s
    #[arg(long, value_delimiter = ',', value_name = "TIME", help_heading = "Factors")]
    duration: Vec<String>,
    /// Largest payload of one READ or WRITE on the wire (rsize, wsize)
    #[arg(long, value_delimiter = ',', value_name = "SIZE", help_heading = "Factors")]
    transfer_size: Vec<String>,
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
            workers: self.workers.clone(),
            files: self.files.clone(),
            small_files: self.small_files.clone(),
            small_file_size: self.small_file_size.clone(),
            file_size: self.file_size.clone(),
            io_size: self.io_size.clone(),
            queue_depth: self.queue_depth.clone(),
            transfer_size: self.transfer_size.clone(),
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

/// Renders a campaign from the results file, offline; the same bytes every time.
#[derive(Debug, Parser)]
pub struct ReportArgs {
    /// Where results are kept
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Number of the campaign [default: the last]
    #[arg(long, value_name = "N")]
    pub campaign: Option<i64>,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Runs the in-memory NFS server until it is stopped, on loopback.
#[derive(Debug, Parser)]
pub struct ServeArgs {
    /// Port of NFS and MOUNT; 0 lets the system choose
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Memory for files, such as 1GiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub memory: String,
    /// Threads; 0 is one per core
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Throw written data away and read zeros: limits of client and wire
    #[arg(long)]
    pub discard: bool,
    /// Answer each call this much later: a planned fault
    #[arg(long, value_name = "TIME")]
    pub service_time: Option<String>,
    /// Answer no call after this many: a planned fault
    #[arg(long, value_name = "N")]
    pub hang_after: Option<u64>,
    /// Close the connection after this many calls: a planned fault
    #[arg(long, value_name = "N")]
    pub close_after: Option<u64>,
    /// Refuse every mount: a planned fault
    #[arg(long)]
    pub refuse_mount: bool,
}

/// Writes a file of an NFS server to stdout.
#[derive(Debug, Parser)]
pub struct CatArgs {
    /// nfs://host[:port]/export/path/to/file
    pub url: String,
}

/// Writes the content of a measured file to stdout, as it should be.
#[derive(Debug, Parser)]
pub struct PatternArgs {
    /// Seed of the campaign
    #[arg(long)]
    pub seed: u64,
    /// Number of the file in its set
    #[arg(long)]
    pub file: u32,
    /// Its size
    #[arg(long)]
    pub size: String,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for a terminal
    Table,
    /// A table for a wiki or an issue
    Markdown,
    /// One line per run and pass
    Csv,
    /// Everything, for programs
    Json,
    /// A page with pictures
    Html,
}

impl From<Format> for report::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Table => Self::Table,
            Format::Markdown => Self::Markdown,
            Format::Csv => Self::Csv,
            Format::Json => Self::Json,
            Format::Html => Self::Html,
        }
    }
}
