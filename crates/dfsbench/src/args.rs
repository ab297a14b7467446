//! The command line, typed; help texts, completions and the man page come from here.
//!
//! [`RunArgs`], [`ProbeArgs`] and [`ServeArgs`] have files of their own.
#![allow(rustdoc::broken_intra_doc_links, reason = "help texts show brackets as users type them")]

mod compare;
mod config_file;
mod contenders;
mod curve;
pub mod defaults;
mod durability;
mod examples;
pub mod groups;
mod job;
mod keep;
mod ladder;
mod layout;
mod preset;
mod probe;
mod ramp;
mod replay;
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

pub use compare::{Adjust, ByArgs, CompareArgs, FactorsArgs, Inconclusive};
pub use contenders::ContendersArgs;
pub use curve::CurveArgs;
pub use durability::DurabilityArgs;
pub use job::{JobArgs, Launcher};
pub use keep::{ExportArgs, ImportArgs, ListArgs, NoteArgs, RmArgs, ShowArgs, TagArgs};
pub use ladder::LadderArgs;
pub use layout::{command, command_with_words, config_file, parse};
pub use preset::PresetArgs;
pub use probe::ProbeArgs;
pub use ramp::{Raise, RampArgs};
pub use replay::ReplayArgs;
pub use run::RunArgs;
pub use schedule::{K8sArgs, SlurmArgs};
pub use serve::ServeArgs;
pub use soak::SoakArgs;
pub use systems::{SystemsArgs, SystemsCommand};
pub use trace::{CaptureArgs, DescribeArgs, DescribeFormat};

use crate::metrics::parse_address;

/// Path of the results when no other is named.
pub const RESULTS: &str = "dfsbench.db";

const EXAMPLES: &str = "\
Examples:
  dfsbench                                    measure this machine: NFS over loopback and the
                                              temporary directory, in about a minute
  dfsbench run /mnt/data --direct             a directory, past the page cache
  dfsbench run 'nfs://server/export'          an NFS server, without mounting it
  dfsbench run DIR --io-size 4KiB,64KiB,1MiB --workers 1,4
                                              two factors: every combination is a run
  dfsbench run nfs://server/export --nfsvers 3,4.1 --xprtsec none,tls
                                              versions and protection as factors, too
  dfsbench run seed-003.toml --scale 0.05     NFS v2 and v3, UDP and TCP, transfer sizes and
                                              read-ahead, side by side, on a twentieth of the data;
                                              `dfsbench preset seed-003` prints the plan, for your
                                              hosts
  dfsbench run plan.toml --dry-run            what a plan would do, how long, how much
  dfsbench report --format markdown           the last campaign again, from the results file
  dfsbench factors                            which settings changed the figures most
  dfsbench factors 3 4 7                      the same over several campaigns: hardware, too
  dfsbench compare 3 4 --max-loss 5%          two campaigns; exit code 1 where a rate fell

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
    /// The command to execute
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands of dfsbench.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(about = "Measure a directory, an NFS server, or what a plan says")]
    Run(Box<RunArgs>),
    #[command(about = "Raise the load until a server breaks, and see whether it recovers")]
    Ramp(Box<RampArgs>),
    #[command(about = "Draw a load curve: response time over throughput")]
    Curve(Box<CurveArgs>),
    #[command(about = "Load a server for hours, disturb it, and see whether it survives")]
    Soak(Box<SoakArgs>),
    #[command(about = "Crash a server and see what it kept of what it acknowledged")]
    Durability(Box<DurabilityArgs>),
    #[command(about = "Write or read back for a durability measurement, as stdin says")]
    #[command(hide = true)]
    DurabilityClient,
    #[command(about = "Find the bottleneck: run the same work at each layer")]
    Ladder(Box<LadderArgs>),
    #[command(about = "List the plans that are built in, or print one to copy")]
    Preset(PresetArgs),
    #[command(about = "List the file systems that can be set up, print or check a recipe")]
    Systems(SystemsArgs),
    #[command(about = "Continue a campaign that was stopped or killed")]
    Resume(ResumeArgs),
    #[command(about = "Render a campaign from the results file")]
    Report(ReportArgs),
    #[command(about = "List the campaigns of the results file")]
    List(ListArgs),
    #[command(about = "Show a campaign: conditions, tags, notes and plan")]
    Show(ShowArgs),
    #[command(about = "Add a note to a campaign")]
    Note(NoteArgs),
    #[command(about = "Add tags to a campaign, or remove some")]
    Tag(TagArgs),
    #[command(about = "Remove a campaign from the results file")]
    Rm(RmArgs),
    #[command(about = "Copy the campaigns of another results file into this one")]
    Import(ImportArgs),
    #[command(about = "Show the results file in a browser, live while a campaign runs")]
    View(ViewArgs),
    #[command(about = "Write campaigns as Parquet, CSV or JSON, a file for each table")]
    Export(ExportArgs),
    #[command(about = "Compare two campaigns, or two selections of one")]
    Compare(CompareArgs),
    #[command(about = "Compare the systems of a campaign: promises, differences, ratios")]
    Contenders(ContendersArgs),
    #[command(about = "Show which factors change the figures of a campaign, and by how much")]
    Factors(FactorsArgs),
    #[command(
        about = "Show what an NFS server offers: versions, transports, exports, limits, round trips"
    )]
    Probe(ProbeArgs),
    #[command(about = "Make a trace of NFS traffic from packet captures")]
    Capture(CaptureArgs),
    #[command(about = "Describe the load of a trace, or make a plan of it")]
    Describe(DescribeArgs),
    #[command(about = "Replay a trace on an NFS server")]
    Replay(ReplayArgs),
    #[command(about = "Run the in-memory NFS server for other clients")]
    Serve(ServeArgs),
    #[command(about = "Write a file of an NFS server to stdout")]
    #[command(hide = true)]
    Cat(CatArgs),
    #[command(about = "Write the expected content of a measured file to stdout")]
    #[command(hide = true)]
    Pattern(PatternArgs),
    #[command(about = "Restore what a killed campaign left changed on this host and others")]
    Clean(CleanArgs),
    #[command(about = "Write a script for sbatch that runs a plan")]
    Slurm(SlurmArgs),
    #[command(about = "Write manifests for Kubernetes that run a plan")]
    K8s(K8sArgs),
    #[command(about = "Execute the requests of a controller, over stdin and stdout or over TCP")]
    #[command(hide = true)]
    Agent(AgentArgs),
    #[command(about = "Show which defaults of flags are effective, and where they are set")]
    Config(ConfigArgs),
    /// Print completions for a shell
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
    /// Returns the run that is made when no command is given.
    pub fn quick() -> Self {
        let Some(Self::Run(run)) = Args::parse_from(["dfsbench", "run"]).command else {
            unreachable!("`dfsbench run` is a run");
        };
        Self::Run(run)
    }
}

/// Continues a campaign that was stopped or killed: makes the missing trials.
///
/// The plan is the stored one and the order is unchanged. A trial that was stopped half way is
/// made again. A campaign that another process is running is refused. Programs that the stored plan
/// names are only listed without --allow-program: a results file may have come from somebody else.
#[derive(Debug, Parser)]
pub struct ResumeArgs {
    /// Number of the campaign [default: the last]
    pub campaign: Option<i64>,
    /// Run the programs that the stored plan names; without it they are only listed
    #[arg(long)]
    pub allow_program: bool,
    /// The results file and the output
    #[command(flatten)]
    pub making: MakingArgs,
    /// The job whose hosts it was measured on, and is continued on
    #[command(flatten)]
    pub job: JobArgs,
}

/// Options of every command that makes trials, be they the first of a campaign or its last.
#[derive(Clone, Debug, Parser)]
pub struct MakingArgs {
    /// Results file; campaigns add up in one file
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
    /// Show a full screen while it runs: rates, service times, processors, caveats; q stops it
    #[arg(long, conflicts_with = "quiet", help_heading = "Output")]
    pub watch: bool,
    /// Write each event as one JSON object a line, in a file or, with `-`, on stderr
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub json_progress: Option<PathBuf>,
    /// Serve progress, rates and caveats for Prometheus over HTTP at ADDRESS/metrics while the
    /// campaign runs: to all who reach the address; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address, help_heading = "Output")]
    pub metrics: Option<SocketAddr>,
    /// Leave the measured files behind, in directories named .dfsbench-*
    #[arg(long, help_heading = "Output")]
    pub keep: bool,
    /// A device whose content may be destroyed, as the plan names it
    #[arg(long, value_name = "DEVICE", value_delimiter = ',', help_heading = "Factors of hosts")]
    pub allow_destroy: Vec<PathBuf>,
}

/// Renders a campaign from the results file, offline; the same bytes every time.
///
/// Several campaigns are reported as one set of runs, in which what differs between them, such as
/// kernel, processor or a label, stands beside the settings.
#[derive(Debug, Parser)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    /// The number of a campaign in the results file, `last`, another results file (its last
    /// campaign), or FILE:N; several are one report
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
    /// Show all rows of a table, with evidence, explanations and conditions
    #[arg(long)]
    pub all: bool,
    /// Also write the pictures of the page as SVG files to a directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub pictures: Option<PathBuf>,
}

/// Shows the results file in a browser: all campaigns, each one's page, and two compared.
///
/// The pages follow a campaign while it runs. They are served on loopback alone, under an address
/// that can't be guessed and that is the first line of stdout; nothing can be changed there. It
/// ends with ctrl-C.
#[derive(Debug, Parser)]
pub struct ViewArgs {
    /// Path of the results file
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Serve the figures of the last campaign for Prometheus at ADDRESS/metrics, too, without a
    /// token: to all who reach the address; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address)]
    pub metrics: Option<SocketAddr>,
    /// Don't open a browser
    #[arg(long)]
    pub no_open: bool,
}

/// Shows which defaults of flags are effective, and where each is set.
///
/// $XDG_CONFIG_HOME/dfsbench/config.toml, else ~/.config/dfsbench/config.toml, sets defaults. A key
/// is the long name of a flag: outside of tables for every command that has it, in a table such as
/// [run] for that command. The command line wins, then the environment (DFSBENCH_RESULTS), then a
/// plan, then the file.
#[derive(Debug, Parser)]
#[command(after_help = CONFIG_EXAMPLES)]
pub struct ConfigArgs {
    /// Command whose flags are listed, all of them [default: what is set, for all commands]
    pub command: Option<String>,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  dfsbench report                            the last campaign again, as the run printed it
  dfsbench report 3 --all                    campaign 3, with all rows, evidence and conditions
  dfsbench report --format markdown          for a document; --format csv for a spreadsheet
  dfsbench report --format html -o page.html
                                             the page; --pictures DIR writes its pictures alone
  dfsbench report old.db new.db --by fact.kernel
                                             two files as one report, the kernel as a factor";

const CONFIG_EXAMPLES: &str = "\
Examples:
  dfsbench config                             what the environment and the file set
  dfsbench config run                         every flag of `dfsbench run` with its default
  DFSBENCH_RESULTS=/srv/all.db dfsbench config";

/// Writes a file of an NFS server to stdout.
#[derive(Debug, Parser)]
pub struct CatArgs {
    /// Address of the file: nfs://host[:port]/export/path/to/file
    pub url: String,
}

/// Writes the expected content of a measured file to stdout.
#[derive(Debug, Parser)]
pub struct PatternArgs {
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

/// Restores what killed campaigns left changed: mounts, exports, servers, settings.
///
/// Every change is written to an undo log on its host before it is made. This replays what is left
/// of the log on this host, and on the named hosts. Working directories, trees of replays, lock
/// files and temporary files of killed processes are removed, too, and so are the compressed agent
/// programs in this user's cache: docs/leftovers.md has all paths. It is safe to repeat.
///
/// What can't be restored or removed stays on record, and the exit code is 3. With --forget it is
/// dropped from the record instead, and what stays is printed.
#[derive(Debug, Parser)]
pub struct CleanArgs {
    /// Results file beside which a killed run recorded its targets; those that this user's runs
    /// recorded are found without it
    #[arg(long, value_name = "FILE", default_value = RESULTS, value_hint = ValueHint::FilePath)]
    pub results: PathBuf,
    /// Drop from the record what can't be restored or removed, and print what stays
    #[arg(long)]
    pub forget: bool,
    /// A plan, whose hosts are cleaned, too
    #[arg(value_hint = ValueHint::FilePath)]
    pub plan: Option<PathBuf>,
    /// Another host, as ssh finds it
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub host: Vec<String>,
    /// Configuration file for ssh -F
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub ssh_config: Option<PathBuf>,
}

/// Executes the requests of a controller on its host.
#[derive(Debug, Parser)]
pub struct AgentArgs {
    /// Communicate over stdin and stdout
    #[arg(long, required_unless_present = "meet", conflicts_with = "meet")]
    pub stdio: bool,
    /// Connect to the controller at DFSBENCH_MEET with the secret DFSBENCH_TOKEN
    #[arg(long)]
    pub meet: bool,
    /// Share a replay with other hosts
    #[arg(long, requires = "stdio")]
    pub replay: bool,
    /// Time limit for connecting to the controller
    #[arg(long, value_name = "TIME", default_value = "2m")]
    pub meet_within: String,
    /// Remove this program at the end, unless its modification time is another: it was copied here
    #[arg(long, value_name = "SECONDS")]
    pub pushed: Option<String>,
}

impl AgentArgs {
    /// Reads the words of a command line where they start an agent; none where they don't, or
    /// where the words need a message.
    ///
    /// To know all other commands, too, would take a third of the memory of an agent that waits,
    /// and there may be a thousand on one host.
    pub fn alone(words: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut words = words.into_iter().skip(1).peekable();
        words.next_if(|word| word == "agent")?;
        let only = Self::augment_args(clap::Command::new("agent").no_binary_name(true));
        Self::from_arg_matches(&only.try_get_matches_from(words).ok()?).ok()
    }
}

/// Takes the name of one of some forms of output.
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
