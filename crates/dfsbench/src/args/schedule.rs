//! Arguments of `dfsbench slurm` and `dfsbench k8s`, which write what a scheduler is given.
//!
//! One type for each command. Doc comments are the help texts; both commands write to stdout and
//! start nothing.

use std::path::PathBuf;

use clap::{Parser, ValueHint};

use super::RESULTS;

/// Writes a script for sbatch that makes the campaign of a plan.
///
/// The script goes to stdout. The controller runs on the first node of the allocation and starts
/// the agents by srun. The plan, this program and the results file must be found under the same
/// paths on the nodes.
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  dfsbench slurm plan.toml --nodes 8 > job.sh && sbatch job.sh")]
pub struct SlurmArgs {
    /// A plan file
    #[arg(value_hint = ValueHint::FilePath)]
    pub plan: PathBuf,
    /// How many nodes
    #[arg(long, value_name = "N")]
    pub nodes: u32,
    /// Agents on each node
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub agents_per_node: u32,
    /// Time limit in minutes [default: twice the estimate, and 10]
    #[arg(long, value_name = "MINUTES")]
    pub minutes: Option<u64>,
    /// Partition of the cluster
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Account that pays
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// A further option of sbatch, such as exclusive or constraint=ib; may be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub sbatch: Vec<String>,
    /// Path of the results file, on a folder that outlives the job
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Path at which the nodes find dfsbench [default: where it is here]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub program: Option<PathBuf>,
    /// Write it to this file, which stays as it is where something is wrong, and not to stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Flags of `dfsbench run`, behind `--`, such as -- --trials 3 --file-size 1GiB
    #[arg(last = true, value_name = "FLAG OF RUN", allow_hyphen_values = true)]
    pub run: Vec<String>,
}

/// Writes manifests for Kubernetes that make the campaign of a plan.
///
/// One JSON document goes to stdout, for `kubectl apply -f -`: the plan, a controller with a name
/// that the agents find, and an Indexed Job of agents, spread evenly over the nodes. The token is
/// a Secret that you make first; it is in no manifest.
#[derive(Debug, Parser)]
#[command(after_help = K8S_EXAMPLE)]
pub struct K8sArgs {
    /// A plan file
    #[arg(value_hint = ValueHint::FilePath)]
    pub plan: PathBuf,
    /// Image with dfsbench on its path
    #[arg(long, default_value = IMAGE)]
    pub image: String,
    /// How many agents
    #[arg(long, value_name = "N")]
    pub agents: u32,
    /// Name of its objects [default: dfsbench- and the plan's name]
    #[arg(long)]
    pub name: Option<String>,
    /// Namespace of its objects
    #[arg(long)]
    pub namespace: Option<String>,
    /// A volume that agents measure: its claim, and where they find it; may be repeated
    #[arg(long, value_name = "CLAIM:PATH")]
    pub volume: Vec<String>,
    /// Claim of a volume for the results file [default: results live as long as their pod]
    #[arg(long, value_name = "CLAIM")]
    pub results_claim: Option<String>,
    /// Write it to this file, which stays as it is where something is wrong, and not to stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Flags of `dfsbench run`, behind `--`, such as -- --trials 3 --file-size 1GiB
    #[arg(last = true, value_name = "FLAG OF RUN", allow_hyphen_values = true)]
    pub run: Vec<String>,
}

/// The image of a release, which has the program's version.
const IMAGE: &str = concat!("ghcr.io/dfsbench/dfsbench:", env!("CARGO_PKG_VERSION"));

const K8S_EXAMPLE: &str = "\
Example:
  openssl rand -hex 32 | kubectl create secret generic dfsbench-token --from-file=token=/dev/stdin
  dfsbench k8s plan.toml --agents 8 | kubectl apply -f -";
