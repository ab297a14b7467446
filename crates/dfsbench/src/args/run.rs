//! Arguments of `dfsbench run`.
//!
//! Values of settings stay text until the plan's own parsers read them, so that a flag and a plan's
//! key accept the same words and refuse others with the same message.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Parser, ValueHint};
use plan::Overrides;

use super::settings::SettingArgs;
use super::{EXAMPLES, JobArgs, TrialArgs};

/// Examples below `dfsbench run -h`; `--help` has all of them.
pub(super) const FEW_EXAMPLES: &str = "\
Examples:
  dfsbench run /mnt/data --direct             a directory, bypassing the page cache
  dfsbench run nfs://server/export --quick    an NFS server, without mounting it
  dfsbench run DIR --io-size 4KiB..1MiB*4 --workers 1,4
                                              two factors: one run per combination
  dfsbench run metadata --dry-run             what a preset would do, with time and volume
--help shows all options and more examples; `dfsbench preset` lists the presets.";

/// Trials and duration of `--quick`.
const QUICK: (&str, &str) = ("3", "1s");

/// Trials and duration of `--thorough`.
const THOROUGH: (&str, &str) = ("11", "30s");

/// Measures a directory, an NFS server or the targets of a plan.
///
/// Setting flags accept several values, separated by commas. Each flag with several values is a
/// factor, and every combination is a run. Flags override the plan.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct RunArgs {
    /// Before all others, which are taken out of clap's matches one by one
    #[command(flatten)]
    defaulted: DefaultedArgs,
    /// A directory, nfs://host[:port]/export[/dir][?version=4.1&proto=tcp&uid=..&gid=..], a plan
    /// file, `-` (a plan from stdin), `embedded` (the in-memory server), `null`, `memory`, or a
    /// preset such as quick or database (`dfsbench preset` lists all)
    #[arg(value_hint = ValueHint::AnyPath)]
    pub target: Option<String>,
    /// Measure the target with the workloads and settings of this plan, instead of its own targets
    #[arg(long, value_name = "FILE", requires = "target", value_hint = ValueHint::FilePath,
        help_heading = "Factors")]
    pub plan: Option<PathBuf>,
    /// Do what each job of this file of fio does, with fio and with dfsbench in turn, and explain
    /// by how much and why they differ. TARGET is the directory to use instead of the job's
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Factors",
        conflicts_with_all = ["plan", "workload", "backend", "scale", "quick", "thorough",
            "with_loads", "launcher", "until_broken"])]
    pub like: Option<PathBuf>,
    /// With --like: only this job; may be repeated
    #[arg(long, value_name = "JOB", requires = "like", help_heading = "Factors")]
    pub section: Vec<String>,
    /// With --like: options without a counterpart that only fio uses, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "OPTION",
        requires = "like",
        help_heading = "Factors"
    )]
    pub accept: Vec<String>,
    /// Workloads to run: stream, mixed, metadata, bonnie, transactions, op_mix, data_ops,
    /// checkpoint, model_load, training, media, kv_cache, database, vm_boot, developer, listing,
    /// io500, fio, iozone, dd, bonnie++
    #[arg(long, value_delimiter = ',', value_name = "KIND", help_heading = "Factors")]
    workload: Vec<String>,
    /// How ops are executed: posix or uring for a directory, nfs for a server
    #[arg(long, value_delimiter = ',', value_name = "BACKEND", help_heading = "Factors")]
    backend: Vec<String>,
    #[command(flatten)]
    settings: SettingArgs,
    /// CA certificates (PEM) to verify the server's TLS certificate with
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Factors of NFS")]
    tls_ca: Option<PathBuf>,
    /// Multiply the plan's file sizes, durations and numbers of ops, transactions and small files
    /// by this factor, such as 0.01 or 1%; op sizes, threads, clients and flags stay the same
    #[arg(long, value_name = "FACTOR", help_heading = "Factors")]
    scale: Option<String>,
    /// 3 trials of 1 s each, for a first look [default: 5 trials]
    #[arg(long, conflicts_with = "thorough", help_heading = "Trials")]
    quick: bool,
    /// 11 trials of 30 s each, for results to publish
    #[arg(long, help_heading = "Trials")]
    thorough: bool,
    /// Repetitions of each run; with --until, the maximum [default: 5; 30 with --until]
    #[arg(long, value_name = "N", help_heading = "Trials")]
    trials: Option<String>,
    /// Trials to exclude from the results: none, extremes (highest and lowest), outliers or cached
    #[arg(long, value_name = "RULE", help_heading = "Trials")]
    discard: Option<String>,
    /// Stop repeating a run once half its 95 % interval is at most this share of the median
    #[arg(long, value_name = "SHARE", help_heading = "Trials")]
    until: Option<String>,
    /// After this time, limit each run to 5 trials, however wide its intervals are
    #[arg(long, value_name = "TIME", help_heading = "Trials")]
    budget: Option<String>,
    /// Number of initial trials of each run that don't count [default: 0]
    #[arg(long, value_name = "N", help_heading = "Trials")]
    warmup_trials: Option<String>,
    /// Order of the trials: blocks (one trial of every run, shuffled, then the next), random,
    /// sequential, or grouped (runs with the same host setup together)
    #[arg(long, value_name = "ORDER", help_heading = "Trials")]
    order: Option<String>,
    /// How to treat trials disturbed by the hypervisor or other programs: repeat (exclude and
    /// repeat them) or keep (count all) [default: repeat]
    #[arg(long, value_name = "RULE", help_heading = "Trials")]
    interference: Option<String>,
    /// Seed for all random choices [default: random, and printed]
    #[arg(long, value_name = "N", help_heading = "Trials")]
    seed: Option<String>,
    /// Memory of the in-memory server
    #[arg(long, value_name = "SIZE", help_heading = "In-memory server")]
    server_memory: Option<String>,
    /// Threads of the in-memory server
    #[arg(long, value_name = "N", help_heading = "In-memory server")]
    server_threads: Option<String>,
    /// Hosts of a job
    #[command(flatten)]
    pub job: JobArgs,
    /// Add clients until the server degrades, hangs or fails, and report how many it took: client
    /// hosts if the target has any, else emulated clients; at most MAX [default: 1000]
    #[arg(long, value_name = "MAX", num_args = 0..=1, require_equals = true,
        default_missing_value = "1000", value_parser = clap::value_parser!(u32).range(1..=20_000),
        help_heading = "Trials")]
    pub until_broken: Option<u32>,
    /// A load to run beside the workload, alone and together: `backup: mixed read_percent=0
    /// random_percent=0`. The report shows what each costs the other
    #[arg(long = "with", value_name = "NAME: WORKLOAD KEY=VALUE ...", help_heading = "Workload")]
    with_loads: Vec<String>,
    /// A limit that results must keep, in addition to those of the plan: `read.p99 < 20ms`,
    /// `write.rate >= 2GB/s`, `errors == 0`. Exit code 1 if one is missed, 4 if undecided
    #[arg(long, value_name = "LIMIT", help_heading = "Output")]
    require: Vec<String>,
    /// Name of the campaign in lists and tables [default: the plan's]
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    name: Option<String>,
    /// With --like: print the plan made from the job, and exit
    #[arg(long, requires = "like", conflicts_with = "dry_run", help_heading = "Output")]
    pub as_plan: bool,
    /// Options of dry runs
    #[command(flatten)]
    pub estimate: EstimateArgs,
    /// Results file and output
    #[command(flatten)]
    pub making: TrialArgs,
}

/// Arguments that are not set on the command line: built-in defaults and the user's.
#[derive(Clone, Debug, Default)]
struct DefaultedArgs {
    ids: BTreeSet<String>,
}

impl Args for DefaultedArgs {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for DefaultedArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut defaulted = Self::default();
        defaulted.update_from_arg_matches(matches)?;
        Ok(defaulted)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for id in matches.ids() {
            if matches.value_source(id.as_str()) == Some(ValueSource::DefaultValue) {
                self.ids.insert(id.to_string());
            }
        }
        Ok(())
    }
}

/// Arguments of a dry run.
#[derive(Debug, Args)]
pub(crate) struct EstimateArgs {
    /// Print the runs with estimates of time and bytes, and exit
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    /// Rates that --dry-run assumes, such as bytes=500MiB,random=20000,metadata=8000,trial=2s; step
    /// is the time of one host setup step
    #[arg(long, value_name = "RATES", requires = "dry_run", help_heading = "Output")]
    pub assume_rates: Option<String>,
    /// With --dry-run: base the estimate on an earlier campaign, including its host setup: last, a
    /// number, or a results file
    #[arg(
        long,
        value_name = "CAMPAIGN",
        requires = "dry_run",
        conflicts_with = "probe",
        help_heading = "Output"
    )]
    pub assume_pace: Option<String>,
    /// With --dry-run: base the estimate on a measurement of about ten seconds in a temporary
    /// working directory; not available for hosts that would be set up first
    #[arg(long, requires = "dry_run", help_heading = "Output")]
    pub probe: bool,
}

impl RunArgs {
    /// Returns true if only the null backend is requested.
    pub(crate) fn wants_null(&self) -> bool {
        self.backend == ["null"]
    }

    /// Returns the number of trials and the duration of `--quick` or `--thorough`, unless a flag
    /// sets them.
    pub(crate) fn effort(&self) -> Option<(&'static str, &'static str)> {
        if self.quick && !self.is_default("quick") {
            Some(QUICK)
        } else if self.thorough && !self.is_default("thorough") {
            Some(THOROUGH)
        } else {
            None
        }
    }

    /// Returns the same if only the user's configuration, and no flag, sets `quick` or `thorough`.
    pub(crate) fn default_effort(&self) -> Option<(&'static str, &'static str)> {
        match (self.effort(), self.quick, self.thorough) {
            (Some(_), ..) | (None, false, false) => None,
            (None, true, _) => Some(QUICK),
            (None, false, true) => Some(THOROUGH),
        }
    }

    fn is_default(&self, id: &str) -> bool {
        self.defaulted.ids.contains(id)
    }

    /// The given flags, as the plan takes them.
    pub(crate) fn overrides(&self) -> Overrides {
        let mut given = self.all_overrides();
        given.retain(|key| !self.is_default(key));
        given
    }

    /// The user's defaults, for settings that neither a flag nor the plan sets.
    pub(crate) fn defaults(&self) -> Overrides {
        let mut defaults = self.all_overrides();
        defaults.retain(|key| self.is_default(key));
        defaults
    }

    fn all_overrides(&self) -> Overrides {
        Overrides {
            name: self.name.clone(),
            scale: self.scale.clone(),
            trials: self.trials.clone(),
            discard: self.discard.clone(),
            until: self.until.clone(),
            budget: self.budget.clone(),
            warmup_trials: self.warmup_trials.clone(),
            order: self.order.clone(),
            interference: self.interference.clone(),
            seed: self.seed.clone(),
            require: self.require.clone(),
            with_loads: self.with_loads.clone(),
            server_memory: self.server_memory.clone(),
            server_threads: self.server_threads.clone(),
            workload: self.workload.clone(),
            backend: self.backend.clone(),
            tls_ca: self.tls_ca.clone(),
            settings: self.settings.levels.clone(),
        }
    }
}
