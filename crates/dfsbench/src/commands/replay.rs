//! `dfsbench replay`: replays a trace on a server, once per speed.
//!
//! The `replay` crate does the work. This command parses the arguments, starts the hosts that share
//! the replay, and prints the results.

mod answer;
mod comparison;
mod document;
mod pictures;
mod request;

use std::fmt::Display;
use std::io::{BufReader, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use controller::leftovers::WorkRecord;
use engine::SystemClock;
use model::{Host, NfsVersion, Target};
use plan::TargetArg;
use replay::{
    Fill, NamedTarget, NamedTargetError, OpenTarget, Outcome, PlanSettings, ReplayEvent,
    ReplayPlan, ReplaySession, ReplaySessionError, ReplaySettings, ShareHosts, ShareRemote,
    SharedTrace, StoredReplay, TargetKind, TreeUse,
};
use report::document::Form;

use crate::args::{DescribeFormat, ReplayArgs};
use crate::commands::capture::gaps;
use crate::exit::{End, Failure};
use crate::files::{foreign_folder, input_file, output_file, user_dirs};
use crate::hosts::agents::Agents;
use crate::plans::surroundings;
use crate::server::embedded;
use crate::terminal::output::{self, Printable};
use crate::terminal::progress::Visibility;
use crate::{calendar, signals};
use request::{check_hosts, read_request};

pub(crate) use comparison::{compare, is_document};

/// Size of the read buffer.
const BUFFER_BYTES: usize = 1 << 20;
/// Arguments that start this program as a host that shares a replay.
const SHARING_HOST: &str = "agent --stdio --replay";

/// Replays a trace.
///
/// # Errors
/// If an argument is invalid, or if the trace or the server can't be used.
pub(crate) fn run(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let request = read_request(args)?;
    output_file::check_with_inputs(args.output.as_deref(), [&args.trace])?;
    let source = input_file::open_stream(&args.trace, "trace")?;
    check_hosts(args)?;
    let named =
        NamedTarget::find(&args.target, args.nfsvers.as_deref(), &surroundings::for_process(0))?;
    let stop = signals::stop_flag()?;
    let clock = SystemClock::new();
    embedded::raise_descriptor_limit();
    let mut target = OpenTarget::connect(&named, &clock, &stop)
        .map_err(|error| session_failed(args, error.into()))?;
    let kind = target.kind();
    let [rsize, wsize] = target.transfer_bytes();
    let settings = PlanSettings {
        window: request.window,
        clients_max: args.clients,
        target: kind,
        rsize,
        wsize,
    };
    // Dropping this stops the programs on the hosts, so it must outlive them.
    let mut agents = Agents::new(Arc::clone(&stop), Visibility::Shown);
    let start = |shared: &SharedTrace<'_>| start_hosts(args, shared, &mut agents, clock, &stop);
    let PlannedReplay { mut plan, hosts } = read_plan(args, source, settings, start)?;
    // If this process is killed, the record is used to find what is left. It is removed at the end.
    let recorded = recorded_target(args, kind)?;
    if let Some(target) = &recorded {
        target.paths().iter().for_each(|path| foreign_folder::warn(path));
    }
    let record = match recorded {
        Some(target) if request.tree_use == TreeUse::Temporary => {
            let records_dir = user_dirs::records_dir();
            let now_ms = calendar::now_unix_ms();
            Some(WorkRecord::for_replay(target, &request.directory, &records_dir, now_ms)?)
        }
        _ => None,
    };
    let fill = if args.filled { Fill::Data } else { Fill::Sparse };
    let mut session = ReplaySession {
        target: &mut target,
        hosts,
        plan: &mut plan,
        settings: ReplaySettings { directory: request.directory, fill },
        rounds: request.rounds,
        tree_use: request.tree_use,
        stop: &stop,
        observe: &|event| report_event(args, &event),
    };
    let failed = |error| session_failed(args, error);
    let (answer, outcomes) = if args.ramp || args.curve {
        let points = args.curve.then_some(args.points);
        let found = session.find_limit(args.max, points).map_err(failed)?;
        (Some(answer::answer(&found)), found.outcomes)
    } else {
        (None, session.replay_all(&request.paces).map_err(failed)?)
    };
    drop(session);
    drop(record);
    target.disconnect();
    named.end();
    // A search is expected to find loads that break the target.
    let is_valid = match &answer {
        Some(answer) => answer.is_known,
        None => outcomes.iter().all(|outcome| outcome.verdict().is_valid()),
    };
    let stored = store(args, kind, plan, answer.map(|answer| answer.text), outcomes);
    print(args, &stored)?;
    let is_whole = is_valid && !stop.load(Relaxed);
    Ok(if is_whole { End::Ok } else { End::Invalid }.into())
}

/// A plan and the hosts that share it.
struct PlannedReplay {
    plan: ReplayPlan,
    hosts: Option<ShareHosts>,
}

/// Reads the plan of a trace, on all hosts that share it.
fn read_plan(
    args: &ReplayArgs,
    source: impl Read,
    settings: PlanSettings,
    start_hosts: impl FnOnce(&SharedTrace<'_>) -> Result<ShareHosts, Failure>,
) -> Result<PlannedReplay, Failure> {
    let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
    let of_trace =
        |error: &dyn Display| Failure::Usage(format!("trace `{}` {error}", args.trace.display()));
    if args.hosts.is_empty() {
        let plan = ReplayPlan::read(source, &settings).map_err(|error| of_trace(&error))?;
        return Ok(PlannedReplay { plan, hosts: None });
    }
    let mut trace = Vec::new();
    source.read_to_end(&mut trace).map_err(|error| of_trace(&error))?;
    let plan = ReplayPlan::read(&trace[..], &settings).map_err(|error| of_trace(&error))?;
    let shared = SharedTrace { target: &args.target, trace: &trace, settings, plan: &plan };
    let hosts = start_hosts(&shared)?;
    Ok(PlannedReplay { plan, hosts: Some(hosts) })
}

/// Combines everything that is stored about the replays.
fn store(
    args: &ReplayArgs,
    target: TargetKind,
    plan: ReplayPlan,
    found: Option<String>,
    outcomes: Vec<Outcome>,
) -> StoredReplay {
    StoredReplay {
        dfsbench_replay: StoredReplay::FORMAT,
        made_by: format!("dfsbench {}", env!("CARGO_PKG_VERSION")),
        made_unix_ms: calendar::now_unix_ms(),
        trace: args.trace.display().to_string(),
        target: args.target.clone(),
        version: match target {
            TargetKind::Nfs(version) => version.name().to_owned(),
            TargetKind::Directory => StoredReplay::DIRECTORY.to_owned(),
        },
        tree_objects: plan.initial.len(),
        without_counterpart: plan.without_counterpart,
        by_client: plan.by_client,
        put_off: plan.put_off,
        incomplete: plan.incomplete,
        trace_gaps: gaps::describe(&plan.counters),
        split: plan.split,
        found,
        outcomes,
    }
}

impl From<NamedTargetError> for Failure {
    fn from(error: NamedTargetError) -> Self {
        match error {
            NamedTargetError::Unusable(why) => Self::Usage(why),
            NamedTargetError::Name(error) => Self::Plan(error),
            NamedTargetError::Server(error) => Self::lab(error),
        }
    }
}

fn session_failed(args: &ReplayArgs, error: ReplaySessionError) -> Failure {
    match error {
        ReplaySessionError::Target(error) => Failure::Lab(format!("{}: {error}", args.target)),
        ReplaySessionError::Host(gone) => Failure::Lab(gone.0),
    }
}

/// Starts the hosts that share a replay.
fn start_hosts(
    args: &ReplayArgs,
    shared: &SharedTrace<'_>,
    agents: &mut Agents,
    clock: SystemClock,
    stop: &Arc<AtomicBool>,
) -> Result<ShareHosts, Failure> {
    let mut wanted = Vec::with_capacity(args.hosts.len());
    for name in &args.hosts {
        let ssh_config = args.ssh_config.clone();
        wanted.push(Host { ssh: Some(name.clone()), ssh_config, ..Host::local(name) });
    }
    let mut remotes: Vec<(String, ShareRemote)> = Vec::with_capacity(wanted.len());
    for (name, remote) in args.hosts.iter().zip(agents.launch_as(&wanted, SHARING_HOST)) {
        remotes.push((name.clone(), remote.map_err(Failure::lab)?));
    }
    let hosts = ShareHosts::prepare(remotes, shared, clock, stop).map_err(Failure::lab)?;
    let idle = hosts.idle();
    if !idle.is_empty() {
        let clients = shared.plan.batch.clients.len();
        output::message(&format!(
            "warning: no clients left for {} (hint: the trace has {clients}, so name at most as \
             many hosts)",
            idle.join(", ")
        ));
    }
    Ok(hosts)
}

/// Prints the progress of a replay.
fn report_event(args: &ReplayArgs, event: &ReplayEvent<'_>) {
    let line = match event {
        ReplayEvent::TreeLeft(error) => {
            return output::message(&format!("warning: {error}; remove it by hand"));
        }
        ReplayEvent::TreeBegun { objects, directory } => {
            format!("building a tree of {objects} objects in {directory}")
        }
        ReplayEvent::ReplayBegun { ops, pace } => {
            format!("replaying {ops} operations, {}", document::pace_text(*pace))
        }
    };
    if !args.quiet {
        output::message(&line);
    }
}

fn print(args: &ReplayArgs, stored: &StoredReplay) -> Result<(), Failure> {
    if args.prepare_only {
        return Ok(());
    }
    let output = args.output.as_deref();
    if args.format == DescribeFormat::Json {
        let json = serde_json::to_string_pretty(stored)
            .map_err(|error| Failure::Lab(error.to_string()))?;
        return output_file::write_or_print(output, &Printable::json(&(json + "\n")));
    }
    let text = render_text(document::describe_replay(stored), args.format);
    output_file::write_or_print(output, &Printable::text(&text))
}

/// Renders a document in a human-readable format.
pub(crate) fn render_text(
    mut document: report::document::Document,
    format: DescribeFormat,
) -> String {
    match format {
        DescribeFormat::Markdown => document.render(Form::Markdown),
        DescribeFormat::Html => document.page("Written by dfsbench; loads no external resources."),
        DescribeFormat::Text | DescribeFormat::Json => {
            let screen = output::screen(report::ReportDetail::Whole);
            document.narrow(screen);
            report::document::text::render(&document, screen.columns())
        }
    }
}

/// Returns the target of a replay, with the version in use; `None` for the in-memory server of this
/// process, which leaves nothing behind.
fn recorded_target(args: &ReplayArgs, kind: TargetKind) -> Result<Option<Target>, Failure> {
    Ok(match plan::parse_target(&args.target)? {
        TargetArg::Nfs(address) => {
            let mut nfs = surroundings::resolve_address(&address);
            if let TargetKind::Nfs(version) = kind
                && let Some(version) = NfsVersion::from_name(version.name())
            {
                nfs.settings.version = version;
            }
            Some(Target::Nfs(nfs))
        }
        TargetArg::Ready(target @ Target::Directory { .. }) => Some(target),
        _ => None,
    })
}
