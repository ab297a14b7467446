//! `dfsbench replay`: a trace on a server, once for each speed.
//!
//! The crate `replay` does the work; this command reads the arguments, starts the in-memory server
//! where it is the target, and prints.

mod comparison;
mod document;
mod hosts;
mod pictures;
mod request;
mod search;
mod share;
mod site;
mod stored;

use std::fmt::Display;
use std::io::{BufReader, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use controller::leftovers::WorkRecord;
use engine::SystemClock;
use fleet::stdio::Flags;
use model::{NfsVersion, Target};
use plan::TargetArg;
use replay::{Fill, Outcome, Pace, PlanSettings, Record, ReplayPlan, ReplaySettings, TargetKind};
use report::document::Form;

use crate::args::{DescribeFormat, ReplayArgs};
use crate::capture::gaps;
use crate::exit::{End, Failure};
use crate::output::Printable;
use crate::{
    calendar, embedded, foreign_folder, input_file, output, output_file, signals, target, user_dirs,
};
use hosts::{NamedHosts, ShareHosts, SharedTrace};
use request::{Request, check_hosts, read_request};
use site::{Found, Site, Tree};
use stored::{DIRECTORY, FORMAT, Stored};

pub use comparison::compare;
pub use stored::is_document;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// The most speeds of one command.
pub const SPEEDS_MAX: usize = 16;

/// Replays a trace.
///
/// # Errors
/// When an argument, the trace or the server can't be used.
pub fn run(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let request = read_request(args)?;
    output_file::check_with_inputs(args.output.as_deref(), [&args.trace])?;
    let source = input_file::open_stream(&args.trace, "trace")?;
    check_hosts(args)?;
    let target_found = Found::find(&args.target, args.nfsvers.as_deref())?;
    let stop = signals::stop_flag()?;
    let clock = SystemClock::new();
    embedded::raise_descriptor_limit();
    let mut site =
        Site::connect(&target_found, &clock, &stop).map_err(|error| target_failed(args, &error))?;
    let target = site.kind();
    let [rsize, wsize] = site.transfer_bytes();
    let settings =
        PlanSettings { window: request.window, clients_max: args.clients, target, rsize, wsize };
    let Planned { mut plan, hosts } = read_plan(args, source, settings, &stop)?;
    // What a kill leaves is found by its record, which is removed at the end.
    let recorded = recorded_target(args, target)?;
    if let Some(target) = &recorded {
        target.paths().iter().for_each(|path| foreign_folder::warn(path));
    }
    let record = match recorded {
        Some(target) if !request.keeps_tree => {
            let (records_dir, now_ms) = (user_dirs::records_dir(), calendar::now_unix_ms());
            Some(WorkRecord::of_replay(target, &request.directory, &records_dir, now_ms)?)
        }
        _ => None,
    };
    let mut work = ReplayWork {
        args,
        request: &request,
        site: &mut site,
        hosts,
        plan: &mut plan,
        stop: &stop,
    };
    let searched = if args.ramp || args.curve { Some(search::run(&mut work)?) } else { None };
    let is_known = searched.as_ref().is_none_or(|searched| searched.is_known);
    let (found, outcomes) = if let Some(searched) = searched {
        (Some(searched.answer), searched.outcomes)
    } else {
        (None, work.replay_all()?)
    };
    drop(work);
    drop(record);
    site.disconnect();
    target_found.end();
    let stored = store(args, target, plan, found, outcomes);
    print(args, &stored)?;
    // Loads that break a target were wanted by a search.
    let is_valid = match stored.found {
        Some(_) => is_known,
        None => stored.outcomes.iter().all(|outcome| outcome.verdict().is_valid()),
    };
    let is_whole = is_valid && !stop.load(Relaxed);
    Ok(if is_whole { End::Ok } else { End::Invalid }.into())
}

/// A plan, with the hosts that share it.
struct Planned {
    plan: ReplayPlan,
    hosts: Option<ShareHosts>,
}

/// Reads the plan of a trace, on all hosts that share it.
fn read_plan(
    args: &ReplayArgs,
    source: impl Read,
    settings: PlanSettings,
    stop: &Arc<AtomicBool>,
) -> Result<Planned, Failure> {
    let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
    let of_trace =
        |error: &dyn Display| Failure::Usage(format!("trace `{}` {error}", args.trace.display()));
    if args.hosts.is_empty() {
        let plan = ReplayPlan::read(source, &settings).map_err(|error| of_trace(&error))?;
        return Ok(Planned { plan, hosts: None });
    }
    let mut trace = Vec::new();
    source.read_to_end(&mut trace).map_err(|error| of_trace(&error))?;
    let plan = ReplayPlan::read(&trace[..], &settings).map_err(|error| of_trace(&error))?;
    let hosts = start_hosts(args, &trace, settings, &plan, stop)?;
    Ok(Planned { plan, hosts: Some(hosts) })
}

/// Puts together what is kept of all replays.
fn store(
    args: &ReplayArgs,
    target: TargetKind,
    plan: ReplayPlan,
    found: Option<String>,
    outcomes: Vec<Outcome>,
) -> Stored {
    Stored {
        dfsbench_replay: FORMAT,
        made_by: format!("dfsbench {}", env!("CARGO_PKG_VERSION")),
        made_unix_ms: Some(calendar::now_unix_ms()),
        trace: args.trace.display().to_string(),
        target: args.target.clone(),
        version: match target {
            TargetKind::Nfs(version) => version.name().to_owned(),
            TargetKind::Directory => DIRECTORY.to_owned(),
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

/// Everything that each replay of a run is made with.
struct ReplayWork<'w, 's> {
    args: &'w ReplayArgs,
    request: &'w Request,
    site: &'w mut Site<'s>,
    /// The hosts that share it; `None` where this one replays all.
    hosts: Option<ShareHosts>,
    plan: &'w mut ReplayPlan,
    stop: &'w AtomicBool,
}

impl ReplayWork<'_, '_> {
    /// Says whether the user wants to stop.
    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Replays at each speed.
    fn replay_all(&mut self) -> Result<Vec<Outcome>, Failure> {
        let mut outcomes = Vec::new();
        for pace in &self.request.paces {
            match self.replay_rounds(*pace)? {
                Some(outcome) => outcomes.push(outcome),
                None => break,
            }
        }
        Ok(outcomes)
    }

    /// Replays as often as requested, each round on a new tree; none where there is nothing to
    /// replay, or the user wants to stop.
    fn replay_rounds(&mut self, pace: Pace) -> Result<Option<Outcome>, Failure> {
        let mut all: Option<Record> = None;
        let (mut made, mut took_ns) = (0, 0);
        while made == 0 || (self.request.rounds.has_next(made, took_ns) && !self.is_stopped()) {
            let Some(record) = self.replay_once(pace)? else { break };
            took_ns += record.outcome().took_ns;
            made += 1;
            match &mut all {
                Some(all) => all.append(record),
                None => all = Some(record),
            }
        }
        Ok(all.map(|record| record.outcome()))
    }

    /// Builds the tree, replays, and removes the tree.
    fn replay_once(&mut self, pace: Pace) -> Result<Option<Record>, Failure> {
        let directory = &self.request.directory;
        let fill = if self.args.filled { Fill::Data } else { Fill::Sparse };
        let settings = ReplaySettings { directory: directory.clone(), fill };
        let objects = self.plan.initial.len();
        say(self.args, &format!("building a tree of {objects} objects in {directory}"));
        let replayed = match self.site.prepare(self.plan, &settings) {
            Ok(_) if self.args.prepare_only || self.is_stopped() => None,
            Ok(tree) => {
                let ops = self.plan.batch.steps.len();
                let how = document::pace_text(pace);
                say(self.args, &format!("replaying {ops} operations, {how}"));
                Some(self.replay_tree(tree, pace))
            }
            Err(error) => Some(Err(target_failed(self.args, &error))),
        };
        if !self.request.keeps_tree
            && let Err(error) = self.site.remove(directory)
        {
            // The result, and what went wrong before, matter more than what is left of the tree.
            output::message(&format!("warning: {error}; remove it by hand"));
        }
        replayed.transpose()
    }

    /// Replays on the tree that was built, by the hosts that share it or by this one.
    fn replay_tree(&mut self, tree: Tree, pace: Pace) -> Result<Record, Failure> {
        match (&mut self.hosts, tree) {
            (Some(hosts), Tree::Handles(files)) => {
                hosts.replay(self.plan, &files, pace, self.site.kind())
            }
            (_, tree) => {
                let replayed = self.site.replay(self.plan, tree, pace);
                replayed.map_err(|error| target_failed(self.args, &error))
            }
        }
    }
}

fn target_failed(args: &ReplayArgs, error: &replay::ReplayError) -> Failure {
    Failure::Lab(format!("{}: {error}", args.target))
}

/// Starts the hosts that share a replay.
fn start_hosts(
    args: &ReplayArgs,
    trace: &[u8],
    settings: PlanSettings,
    plan: &ReplayPlan,
    stop: &Arc<AtomicBool>,
) -> Result<ShareHosts, Failure> {
    let named = NamedHosts { names: &args.hosts, ssh_config: args.ssh_config.as_deref() };
    let shared = SharedTrace { target: &args.target, trace, settings, plan };
    let hosts = ShareHosts::start(&named, &shared, stop)?;
    let idle = hosts.idle();
    if !idle.is_empty() {
        let clients = plan.batch.clients.len();
        output::message(&format!(
            "warning: no client is left for {} (hint: the trace has {clients})",
            idle.join(", ")
        ));
    }
    Ok(hosts)
}

/// Shares a replay as one of several hosts, until its controller is gone.
pub fn serve_share(clock: SystemClock, flags: Flags) {
    share::serve(clock, flags);
}

fn say(args: &ReplayArgs, line: &str) {
    if !args.quiet {
        output::message(line);
    }
}

fn print(args: &ReplayArgs, stored: &Stored) -> Result<(), Failure> {
    if args.prepare_only {
        return Ok(());
    }
    let output = args.output.as_deref();
    if args.format == DescribeFormat::Json {
        let json = serde_json::to_string_pretty(stored)
            .map_err(|error| Failure::Lab(error.to_string()))?;
        return output_file::write_or_print(output, &Printable::json(&(json + "\n")));
    }
    let text = written(document::of_replay(stored), args.format);
    output_file::write_or_print(output, &Printable::text(&text))
}

/// Writes a document in a form for people.
pub fn written(mut document: report::document::Document, format: DescribeFormat) -> String {
    match format {
        DescribeFormat::Markdown => document.render(Form::Markdown),
        DescribeFormat::Html => document.page("Written by dfsbench; it loads nothing."),
        DescribeFormat::Text | DescribeFormat::Json => {
            let screen = output::screen(report::Extent::Whole);
            document.narrow(screen);
            report::document::text::render(&document, screen.columns())
        }
    }
}

/// Returns the target of a replay, as it is reached and with the version that it speaks; `None` for
/// the server of this process, which ends with it.
fn recorded_target(args: &ReplayArgs, kind: TargetKind) -> Result<Option<Target>, Failure> {
    Ok(match plan::parse_target(&args.target)? {
        TargetArg::Nfs(address) => {
            let mut nfs = target::named(&address);
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
