//! Arguments of `dfsbench slurm` and `dfsbench k8s`, which write the input of a scheduler.
//!
//! Each command has its own type. Doc comments are help texts; both commands write to stdout and
//! start nothing.

use std::path::PathBuf;

use clap::{Parser, ValueHint};

use super::RESULTS;

/// Writes an sbatch script that runs a plan.
///
/// The script goes to stdout. The controller runs on the first node of the allocation and starts
/// the agents with srun. The plan, this program and the results file must have the same paths on
/// all nodes.
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  dfsbench slurm plan.toml --nodes 8 > job.sh && sbatch job.sh")]
pub(crate) struct SlurmArgs {
    /// A plan file
    #[arg(value_hint = ValueHint::FilePath)]
    pub plan: PathBuf,
    /// Number of nodes
    #[arg(long, value_name = "N")]
    pub nodes: u32,
    /// Agents on each node
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub agents_per_node: u32,
    /// Time limit in minutes [default: twice the estimate plus 10]
    #[arg(long, value_name = "MINUTES")]
    pub minutes: Option<u64>,
    /// Partition of the cluster
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Account to charge
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Additional sbatch option, such as exclusive or constraint=ib; may be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub sbatch: Vec<String>,
    /// Path of the results file, in a directory that outlives the job
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Path of dfsbench on the nodes [default: as on this host]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub program: Option<PathBuf>,
    /// Write to this file instead of stdout; it is left unchanged if there is an error
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Flags for `dfsbench run`, after `--`, such as -- --trials 3 --file-size 1GiB
    #[arg(last = true, value_name = "FLAG OF RUN", allow_hyphen_values = true)]
    pub run: Vec<String>,
}

/// Writes Kubernetes manifests that run a plan.
///
/// One JSON document for `kubectl apply -f -` goes to stdout: the plan, a controller that agents
/// find by name, and an Indexed Job of agents, spread evenly over the nodes. The token is a Secret
/// that you create first; no manifest contains it.
#[derive(Debug, Parser)]
#[command(after_help = K8S_EXAMPLE)]
pub(crate) struct K8sArgs {
    /// A plan file
    #[arg(value_hint = ValueHint::FilePath)]
    pub plan: PathBuf,
    /// Image with dfsbench in its PATH
    #[arg(long, default_value = IMAGE)]
    pub image: String,
    /// Number of agents
    #[arg(long, value_name = "N")]
    pub agents: u32,
    /// Name of the objects [default: dfsbench- and the plan's name]
    #[arg(long)]
    pub name: Option<String>,
    /// Namespace of the objects
    #[arg(long)]
    pub namespace: Option<String>,
    /// Volume for agents to measure: its claim and mount path; may be repeated
    #[arg(long, value_name = "CLAIM:PATH")]
    pub volume: Vec<String>,
    /// Volume claim for the results file [default: results are lost with their pod]
    #[arg(long, value_name = "CLAIM")]
    pub results_claim: Option<String>,
    /// Write to this file instead of stdout; it is left unchanged if there is an error
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Flags for `dfsbench run`, after `--`, such as -- --trials 3 --file-size 1GiB
    #[arg(last = true, value_name = "FLAG OF RUN", allow_hyphen_values = true)]
    pub run: Vec<String>,
}

/// Image of a release, tagged with this program's version.
const IMAGE: &str = concat!("ghcr.io/dfsbench/dfsbench:", env!("CARGO_PKG_VERSION"));

const K8S_EXAMPLE: &str = "\
Example:
  openssl rand -hex 32 | kubectl create secret generic dfsbench-token --from-file=token=/dev/stdin
  dfsbench k8s plan.toml --agents 8 | kubectl apply -f -";
