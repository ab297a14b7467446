//! The command line, typed; help texts, completions and the man page come from here.
//!
//! [`RunArgs`], [`ProbeArgs`] and [`ServeArgs`] have files of their own.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

mod bundle;
mod compare;
mod config_file;
mod contenders;
mod curve;
pub(crate) mod defaults;
mod durability;
mod examples;
pub(crate) mod groups;
mod job;
mod ladder;
mod layout;
mod preset;
mod probe;
mod ramp;
mod replay;
mod results_file;
mod run;
mod schedule;
mod serve;
mod settings;
mod soak;
mod suggestion;
mod systems;
mod trace;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args as _, FromArgMatches as _, Parser, Subcommand, ValueHint};
use report::Format;

pub(crate) use bundle::{BundleArgs, VerifyArgs};
pub(crate) use compare::{Adjustment, ByArgs, CompareArgs, FactorsArgs, Inconclusive};
pub(crate) use contenders::ContendersArgs;
pub(crate) use curve::CurveArgs;
pub(crate) use durability::DurabilityArgs;
pub(crate) use job::JobArgs;
pub(crate) use ladder::LadderArgs;
pub(crate) use layout::{
    command, command_with_words, config_file, end_with_help, parse, parse_run,
};
pub(crate) use preset::PresetArgs;
pub(crate) use probe::ProbeArgs;
pub(crate) use ramp::{Raise, RampArgs};
pub(crate) use replay::ReplayArgs;
pub(crate) use results_file::{
    ExportArgs, ImportArgs, ListArgs, NoteArgs, RmArgs, ShowArgs, TagArgs,
};
pub(crate) use run::RunArgs;
pub(crate) use schedule::{K8sArgs, SlurmArgs};
pub(crate) use serve::ServeArgs;
pub(crate) use soak::SoakArgs;
pub(crate) use systems::{SystemsArgs, SystemsCommand, UpArgs};
pub(crate) use trace::{CaptureArgs, DescribeArgs, DescribeFormat, ImportKind};

use crate::metrics::parse_address;

/// Default path of the results file.
pub(crate) const RESULTS: &str = "dfsbench.db";

const EXAMPLES: &str = "\
Examples:
  dfsbench                                    measure this machine: NFS over loopback and the
                                              temporary directory, in about a minute
  dfsbench run /mnt/data --direct             a directory, bypassing the page cache
  dfsbench run 'nfs://server/export'          an NFS server, without mounting it
  dfsbench run DIR --io-size 4KiB,64KiB,1MiB --workers 1,4
                                              two factors: every combination is a run
  dfsbench run nfs://server/export --nfsvers 3,4.1 --xprtsec none,tls
                                              compare versions, with and without TLS
  dfsbench run seed-003.toml --scale 0.05     NFS v2 and v3, UDP and TCP, transfer sizes and
                                              read-ahead compared, on 5 % of the data;
                                              `dfsbench preset seed-003` prints the plan to adapt
                                              hosts
  dfsbench run plan.toml --dry-run            what a plan would do, with time and data volume
  dfsbench report --format markdown           print the report of the last campaign again
  dfsbench factors                            which settings have the largest effect
  dfsbench factors 3 4 7                      the same across campaigns, including hardware
  dfsbench compare 3 4 --max-loss 5%          compare two; exit code 1 if a rate fell by 5 %

Exit codes: 0 ok, 1 a comparison or limit failed, 2 wrong usage, plan or results file, 3 a server,
host or output can't be used, 4 measured, but something is invalid, failed or was interrupted.";

/// Benchmarks NFS and other distributed file systems, and reports how far each result can be
/// trusted.
///
/// Without a command, it runs the preset `quick`: NFSv3 over TCP to its own in-memory server, and a
/// temporary directory through POSIX calls and io_uring. This needs no root, NFS server or mount.
#[derive(Debug, Parser)]
#[command(name = "dfsbench", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Args {
    /// Command to run
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands of dfsbench.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(about = "Measure a directory, an NFS server or the targets of a plan")]
    Run(Box<RunArgs>),
    #[command(about = "Raise the load until a server breaks, and check whether it recovers")]
    Ramp(Box<RampArgs>),
    #[command(about = "Measure a load curve: response time over throughput")]
    Curve(Box<CurveArgs>),
    #[command(about = "Load a server for hours, disturb it, and verify its data")]
    Soak(Box<SoakArgs>),
    #[command(about = "Crash a server and check whether it kept the data it acknowledged")]
    Durability(Box<DurabilityArgs>),
    #[command(about = "Write or read back data for `dfsbench durability`, as requested on stdin")]
    #[command(hide = true)]
    DurabilityClient,
    #[command(about = "Find the bottleneck: run the same work at each layer")]
    Ladder(Box<LadderArgs>),
    #[command(about = "List the built-in plans, or print one to copy")]
    Preset(PresetArgs),
    #[command(about = "List the file systems that dfsbench can set up, or print or check a recipe")]
    Systems(SystemsArgs),
    #[command(about = "Continue a campaign that was stopped or killed")]
    Resume(ResumeArgs),
    #[command(about = "Render a campaign from the results file")]
    Report(ReportArgs),
    #[command(about = "List the campaigns in the results file")]
    List(ListArgs),
    #[command(about = "Show a campaign's conditions, tags, notes and plan")]
    Show(ShowArgs),
    #[command(about = "Add a note to a campaign")]
    Note(NoteArgs),
    #[command(about = "Add tags to a campaign, or remove them")]
    Tag(TagArgs),
    #[command(about = "Remove a campaign from the results file")]
    Rm(RmArgs),
    #[command(about = "Copy the campaigns of another results file into this one")]
    Import(ImportArgs),
    #[command(about = "Show the results in a browser, live during a campaign")]
    View(ViewArgs),
    #[command(about = "Export campaigns as Parquet, CSV or JSON, one file per table")]
    Export(ExportArgs),
    #[command(about = "Pack a campaign into one file that others can check")]
    Bundle(BundleArgs),
    #[command(about = "Check bundles by rules, and make one page of them")]
    Verify(VerifyArgs),
    #[command(about = "Compare two campaigns, or two selections of one")]
    Compare(CompareArgs),
    #[command(about = "Compare the file systems in a campaign: durability, differences and speed")]
    Contenders(ContendersArgs),
    #[command(about = "Show which factors affect the results of a campaign, and by how much")]
    Factors(FactorsArgs),
    #[command(
        about = "Show what an NFS server offers: versions, transports, exports, limits, round trips"
    )]
    Probe(ProbeArgs),
    #[command(about = "Convert packet captures to a trace of NFS traffic")]
    Capture(CaptureArgs),
    #[command(about = "Describe the load in a trace, or turn it into a plan")]
    Describe(DescribeArgs),
    #[command(about = "Replay a trace against an NFS server or directory")]
    Replay(ReplayArgs),
    #[command(about = "Run the in-memory NFS server for other clients")]
    Serve(ServeArgs),
    #[command(about = "Write a file from an NFS server to stdout")]
    #[command(hide = true)]
    Cat(CatArgs),
    #[command(about = "Write the expected content of a measured file to stdout")]
    #[command(hide = true)]
    Pattern(PatternArgs),
    #[command(about = "Undo changes that a killed campaign left on this host and others")]
    Clean(CleanArgs),
    #[command(about = "Write an sbatch script that runs a plan")]
    Slurm(SlurmArgs),
    #[command(about = "Write Kubernetes manifests that run a plan")]
    K8s(K8sArgs),
    #[command(about = "Execute requests from a controller over stdin and stdout, or over TCP")]
    #[command(hide = true)]
    Agent(AgentArgs),
    #[command(about = "Show the effective defaults of flags, and where they are set")]
    Config(ConfigArgs),
    /// Print shell completions
    Completions {
        /// Name of the shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one page per command to a directory
    Man {
        /// Folder to write dfsbench.1, dfsbench-run.1 ... to
        #[arg(long, value_hint = ValueHint::DirPath)]
        directory: Option<PathBuf>,
    },
}

impl Command {
    /// Returns the run for a command line without a command.
    pub(crate) fn quick() -> Self {
        let Some(Self::Run(run)) = Args::parse_from(["dfsbench", "run"]).command else {
            unreachable!("`dfsbench run` is a run");
        };
        Self::Run(run)
    }
}

/// Continues a campaign that was stopped or killed by running the missing trials.
///
/// The plan and the order of trials come from the results file. A trial that was interrupted is
/// repeated. It is an error if another process is running the campaign. Since the file may come
/// from somebody else, programs that its plan runs are only listed unless --allow-program is given.
#[derive(Debug, Parser)]
pub(crate) struct ResumeArgs {
    /// Number of the campaign [default: the last]
    pub campaign: Option<i64>,
    /// Run the programs in the stored plan; without this flag, they are only listed
    #[arg(long)]
    pub allow_program: bool,
    /// The results file and the output
    #[command(flatten)]
    pub making: TrialArgs,
    /// The job whose hosts it was measured on, and is continued on
    #[command(flatten)]
    pub job: JobArgs,
}

/// Options of every command that makes trials, be they the first of a campaign or its last.
#[derive(Clone, Debug, Parser)]
pub(crate) struct TrialArgs {
    /// Results file; new campaigns are added to it
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath,
        help_heading = "Output")]
    pub results: PathBuf,
    /// Format of the report at the end
    #[arg(long, value_parser = one_of(&Format::REPORT), default_value = "table",
        help_heading = "Output")]
    pub format: Format,
    /// Show no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Show rates, service times, CPU use and caveats on a full screen; press q to stop
    #[arg(long, conflicts_with = "quiet", help_heading = "Output")]
    pub watch: bool,
    /// Write events as JSON, one object per line, to a file or, with `-`, to stderr
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub json_progress: Option<PathBuf>,
    /// Serve progress, rates and caveats to Prometheus at http://ADDRESS:PORT/metrics while the
    /// campaign runs, to anyone who can connect; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address, help_heading = "Output")]
    pub metrics: Option<SocketAddr>,
    /// Keep the measured files, in directories named .dfsbench-*
    #[arg(long, help_heading = "Output")]
    pub keep: bool,
    /// Device whose contents may be destroyed, as written in the plan
    #[arg(long, value_name = "DEVICE", value_delimiter = ',', help_heading = "Factors of hosts")]
    pub allow_destroy: Vec<PathBuf>,
}

/// Renders a campaign from the results file. The output is always the same, byte for byte.
///
/// Several campaigns are reported as one set of runs. Properties that differ between them, such as
/// kernel, CPU or a label, are shown next to the settings.
#[derive(Debug, Parser)]
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Number of a campaign in the results file, `last`, another results file (its last campaign),
    /// FILE:N, or a bundle; several are combined into one report
    #[arg(default_value = "last", value_name = "CAMPAIGN")]
    pub campaigns: Vec<String>,
    /// The properties that distinguish campaigns
    #[command(flatten)]
    pub by: ByArgs,
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Format of the report
    #[arg(long, value_parser = one_of(&Format::REPORT), default_value = "table")]
    pub format: Format,
    /// Write to a file instead of stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// A limit that results must keep: `read.p99 < 20ms`, `write.rate >= 2GB/s`, `errors == 0`.
    /// Exit code 1 if one is missed, 4 if undecided
    #[arg(long, value_name = "LIMIT")]
    pub require: Vec<String>,
    /// Show all rows of a table, with evidence, explanations and conditions
    #[arg(long)]
    pub all: bool,
    /// Also write the page's charts as SVG files to a directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub pictures: Option<PathBuf>,
}

/// Shows the results file in a browser: all campaigns, a page for each, and comparisons.
///
/// The pages update while a campaign runs. They are read-only and served on loopback only, at an
/// unguessable URL that is printed as the first line of stdout. Stop it with Ctrl-C.
#[derive(Debug, Parser)]
pub(crate) struct ViewArgs {
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Port to listen on; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Also serve the results of the last campaign to Prometheus at http://ADDRESS:PORT/metrics,
    /// without a token, to anyone who can connect; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    pub metrics: Option<SocketAddr>,
    /// Don't open a browser
    #[arg(long)]
    pub no_open: bool,
}

/// Shows the effective defaults of flags, and where each is set.
///
/// $XDG_CONFIG_HOME/dfsbench/config.toml, else ~/.config/dfsbench/config.toml, sets defaults. Each
/// key is the long name of a flag. At the top level it applies to every command with that flag; in
/// a table such as [run], to that command. The command line takes precedence, then the environment
/// (DFSBENCH_RESULTS), then a plan, then the file.
#[derive(Debug, Parser)]
#[command(after_help = CONFIG_EXAMPLES)]
pub(crate) struct ConfigArgs {
    /// Command whose flags to list [default: only the flags that are set, for all commands]
    pub command: Option<String>,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  dfsbench report                            the last campaign, as printed after the run
  dfsbench report 3 --all                    campaign 3 with all rows, evidence and conditions
  dfsbench report --format markdown          for a document; --format csv for a spreadsheet
  dfsbench report --format html -o page.html
                                             the page; --pictures DIR writes its charts only
  dfsbench report old.db new.db --by fact.kernel
                                             two files in one report, with the kernel as a factor";

const CONFIG_EXAMPLES: &str = "\
Examples:
  dfsbench config                             defaults set by the environment and the file
  dfsbench config run                         every flag of `dfsbench run` with its default
  DFSBENCH_RESULTS=/srv/all.db dfsbench config";

/// Writes a file from an NFS server to stdout.
#[derive(Debug, Parser)]
pub(crate) struct CatArgs {
    /// Address of the file: nfs://host[:port]/export/path/to/file
    pub url: String,
}

/// Writes the expected content of a measured file to stdout.
#[derive(Debug, Parser)]
pub(crate) struct PatternArgs {
    /// Seed of the campaign
    #[arg(long)]
    pub seed: u64,
    /// Number of the file in its set
    #[arg(long)]
    pub file: u32,
    /// Size of the file
    #[arg(long)]
    pub size: String,
}

/// Undoes changes left by killed campaigns: mounts, exports, servers and settings.
///
/// Every change is recorded in an undo log on its host before it is made. This command undoes the
/// remaining changes on this host and the hosts given. It also removes working directories, replay
/// trees, lock files and temporary files of killed processes, and the compressed agents in your
/// cache. docs/leftovers.md lists all paths. It is safe to repeat.
///
/// Changes that can't be undone stay recorded, and the exit code is 3. With --forget, they are
/// printed and dropped from the record.
#[derive(Debug, Parser)]
pub(crate) struct CleanArgs {
    /// Results file of the killed run, which recorded its targets next to it; not needed for runs
    /// by the same user
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Print changes that can't be undone, and drop them from the record
    #[arg(long)]
    pub forget: bool,
    /// Plan whose hosts are cleaned too
    #[arg(value_hint = ValueHint::FilePath)]
    pub plan: Option<PathBuf>,
    /// Another host to clean, as named for ssh
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub host: Vec<String>,
    /// Configuration file for ssh -F
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ssh_config: Option<PathBuf>,
}

/// Executes the requests of a controller on its host.
#[derive(Debug, Parser)]
pub(crate) struct AgentArgs {
    /// Communicate over stdin and stdout
    #[arg(long, required_unless_present = "meet", conflicts_with = "meet")]
    pub stdio: bool,
    /// Connect to the controller at DFSBENCH_MEET with the secret DFSBENCH_TOKEN
    #[arg(long)]
    pub meet: bool,
    /// Run one host's share of a replay
    #[arg(long, requires = "stdio")]
    pub replay: bool,
    /// Time limit for connecting to the controller
    #[arg(long, value_name = "TIME", default_value = "2m")]
    pub meet_within: String,
    /// Remove this program, which was copied here, at the end if it still has this modification
    /// time
    #[arg(long, value_name = "SECONDS")]
    pub pushed: Option<String>,
}

impl AgentArgs {
    /// Parses a command line if it starts an agent. Returns `None` if it doesn't, or if it needs an
    /// error message.
    ///
    /// Parsing all other commands, too, would take a third of the memory of an idle agent, and
    /// there may be a thousand on one host.
    pub(crate) fn alone(words: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut words = words.into_iter().skip(1).peekable();
        words.next_if(|word| word == "agent")?;
        let only = Self::augment_args(clap::Command::new("agent").no_binary_name(true));
        Self::from_arg_matches(&only.try_get_matches_from(words).ok()?).ok()
    }
}

/// Parses the name of an output format.
fn one_of(formats: &'static [Format]) -> impl TypedValueParser<Value = Format> {
    let named = formats.iter().map(|format| PossibleValue::new(format.name()).help(format.help()));
    let parse = PossibleValuesParser::new(named);
    parse.try_map(|name| Format::from_name(&name).ok_or("no form of output"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_agent_command_early() {
        for words in [
            "dfsbench agent --stdio",
            "dfsbench agent --stdio --pushed 1764060000.000000001",
            "dfsbench agent --meet --meet-within 3s",
        ] {
            let alone = AgentArgs::alone(words.split(' ').map(OsString::from)).unwrap();
            let all = Args::try_parse_from(words.split(' ')).unwrap();
            let Some(Command::Agent(all)) = all.command else { panic!("{words}") };
            assert_eq!(format!("{alone:?}"), format!("{all:?}"));
        }
        // The parser of all commands prints the message.
        for words in ["dfsbench", "dfsbench run agent", "dfsbench agent", "dfsbench agent --help"] {
            assert!(AgentArgs::alone(words.split(' ').map(OsString::from)).is_none(), "{words}");
        }
    }
}
