//! `dfsbench replay`: a trace on a server, once for each speed.
//!
//! The crate `replay` does the work; this command reads the arguments, starts the in-memory server
//! where it is the target, and prints.

mod document;
mod pictures;
mod search;
mod site;

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::SystemClock;
use model::units::parse_time_ns;
use model::{NfsVersion, Target};
use plan::TargetArg;
use replay::{
    Fill, Outcome, Pace, PlanSettings, Record, ReplayPlan, ReplaySettings, TargetKind, Window,
};
use report::Format;
use report::document::Form;
use serde::{Deserialize, Serialize};

use crate::args::{CompareArgs, DescribeFormat, ReplayArgs};
use crate::exit::{End, Failure};
use crate::{calendar, embedded, input_file, leftovers, output, output_file, signals, target};
use site::{Found, Site};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// The most speeds of one command.
pub const SPEEDS_MAX: usize = 16;
/// Slowest and fastest replay.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// A replay as it is stored: with `--format json`, for `dfsbench compare`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Stored {
    /// Says that this is a replay, and in which format.
    pub dfsbench_replay: u32,
    /// Name and version of the program that made it.
    pub made_by: String,
    /// Name of the trace.
    pub trace: String,
    /// Target as it was named.
    pub target: String,
    /// Version of NFS that was spoken; `directory` where it is one.
    pub version: String,
    /// Files and directories that were made before.
    pub tree_objects: usize,
    /// Operations of the trace by version and kind that can't be replayed.
    pub without_counterpart: BTreeMap<String, u64>,
    /// Operations of the trace that the client does by itself.
    pub by_client: BTreeMap<String, u64>,
    /// Operations that the origin put off or refused for the state of its server.
    pub put_off: u64,
    /// Operations whose arguments the capture did not see.
    pub incomplete: u64,
    /// Transfers that are larger than the target's and were made in several calls.
    pub split: u64,
    /// The answer of a search, where one was made.
    #[serde(default)]
    pub found: Option<String>,
    /// A replay for each speed.
    pub outcomes: Vec<Outcome>,
}

/// The version of a directory.
pub const DIRECTORY: &str = "directory";

/// The format of [`Stored`].
const FORMAT: u32 = 1;

/// The arguments as they are used.
struct Request {
    paces: Vec<Pace>,
    rounds: Rounds,
    window: Window,
    directory: String,
    keeps_tree: bool,
}

/// How often a trace is replayed at each speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rounds {
    /// So many times.
    Count(u64),
    /// Until so much time has passed, in nanoseconds; the last round is finished.
    Time(u64),
}

impl Rounds {
    const fn has_next(self, made: u64, took_ns: u64) -> bool {
        match self {
            Self::Count(count) => made < count,
            Self::Time(time_ns) => took_ns < time_ns,
        }
    }
}

/// Replays a trace.
///
/// # Errors
/// When an argument, the trace or the server can't be used.
pub fn run(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let request = read_request(args)?;
    output_file::check_with_inputs(args.output.as_deref(), [&args.trace])?;
    let source = input_file::open_stream(&args.trace, "trace")?;
    let target_found = Found::find(&args.target, args.nfsvers.as_deref())?;
    let stop = signals::stop_flag()?;
    let clock = SystemClock::new();
    let failed = |error: &dyn std::fmt::Display| Failure::Lab(format!("{}: {error}", args.target));
    embedded::raise_descriptor_limit();
    let mut site = Site::connect(&target_found, &clock, &stop).map_err(|error| failed(&error))?;
    let target = site.kind();
    let [rsize, wsize] = site.transfer_bytes();
    let settings =
        PlanSettings { window: request.window, clients_max: args.clients, target, rsize, wsize };
    let mut plan = ReplayPlan::read(BufReader::with_capacity(BUFFER_BYTES, source), &settings)
        .map_err(|error| Failure::Usage(format!("trace `{}` {error}", args.trace.display())))?;
    // What a kill leaves is found by its record, which is removed at the end.
    let record = match recorded_target(args, target)? {
        Some(target) if !request.keeps_tree => {
            Some(leftovers::Record::of_replay(target, &request.directory)?)
        }
        _ => None,
    };
    let mut work =
        ReplayWork { args, request: &request, site: &mut site, plan: &mut plan, stop: &stop };
    let searched = if args.ramp || args.curve {
        Some(search::run(&mut work).map_err(|error| failed(&error))?)
    } else {
        None
    };
    let is_known = searched.as_ref().is_none_or(|searched| searched.is_known);
    let (found, outcomes) = if let Some(searched) = searched {
        (Some(searched.answer), searched.outcomes)
    } else {
        (None, work.replay_all().map_err(|error| failed(&error))?)
    };
    drop(record);
    site.disconnect();
    target_found.end();
    let stored = Stored {
        dfsbench_replay: FORMAT,
        made_by: format!("dfsbench {}", env!("CARGO_PKG_VERSION")),
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
        split: plan.split,
        found,
        outcomes,
    };
    print(args, &stored)?;
    // Loads that break a target were wanted by a search.
    let is_faithful = match stored.found {
        Some(_) => is_known,
        None => stored.outcomes.iter().all(Outcome::is_faithful),
    };
    let is_whole = is_faithful && !stop.load(Relaxed);
    Ok(if is_whole { End::Ok } else { End::Invalid }.into())
}

/// Everything that each replay of a run is made with.
struct ReplayWork<'w, 's> {
    args: &'w ReplayArgs,
    request: &'w Request,
    site: &'w mut Site<'s>,
    plan: &'w mut ReplayPlan,
    stop: &'w AtomicBool,
}

impl ReplayWork<'_, '_> {
    /// Says whether the user wants to stop.
    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Replays at each speed.
    fn replay_all(&mut self) -> Result<Vec<Outcome>, replay::ReplayError> {
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
    fn replay_rounds(&mut self, pace: Pace) -> Result<Option<Outcome>, replay::ReplayError> {
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
    fn replay_once(&mut self, pace: Pace) -> Result<Option<Record>, replay::ReplayError> {
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
                Some(self.site.replay(self.plan, tree, pace))
            }
            Err(error) => Some(Err(error)),
        };
        if !self.request.keeps_tree
            && let Err(error) = self.site.remove(directory)
        {
            // The result, and what went wrong before, matter more than what is left of the tree.
            output::message(&format!("warning: {error}; remove it by hand"));
        }
        replayed.transpose()
    }
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
    let text = match args.format {
        DescribeFormat::Json => {
            let json = serde_json::to_string_pretty(stored);
            json.map_err(|error| Failure::Lab(error.to_string()))? + "\n"
        }
        format => written(document::of_replay(stored), format),
    };
    output_file::write_or_print(args.output.as_deref(), text.as_bytes())
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

/// Tells whether an argument of `dfsbench compare` names a stored replay.
pub fn is_document(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
}

/// Compares two stored replays, kind by kind and over time.
///
/// # Errors
/// When one can't be read, they have no speed in common, or the form is not one of replays.
pub fn compare(before: &str, after: &str, args: &CompareArgs) -> Result<ExitCode, Failure> {
    refuse_rules(args)?;
    let inputs = [before, after].map(PathBuf::from);
    output_file::check_with_inputs(args.output.as_deref(), &inputs)?;
    let (before, after) = (read_document(before)?, read_document(after)?);
    let format = match args.format {
        Format::Table => DescribeFormat::Text,
        Format::Markdown => DescribeFormat::Markdown,
        Format::Html => DescribeFormat::Html,
        other => {
            return Err(Failure::Usage(format!(
                "--format: two replays are not compared as {} (hint: table, markdown or html)",
                other.name()
            )));
        }
    };
    let Some(document) = document::of_comparison(&before, &after) else {
        return Err(Failure::Usage(format!(
            "the replays on {} and {} have no speed in common (hint: replay both with the same \
             --speed)",
            before.target, after.target
        )));
    };
    if !args.quiet {
        let text = written(document, format);
        output_file::write_or_print(args.output.as_deref(), text.as_bytes())?;
    }
    Ok(End::Ok.into())
}

/// Refuses what only campaigns have: a bound that is not examined would look as if it were kept.
fn refuse_rules(args: &CompareArgs) -> Result<(), Failure> {
    for (flag, is_given) in [
        ("--where", !args.only.is_empty()),
        ("--effect", args.effect.is_some()),
        ("--max-loss", args.max_loss.is_some()),
        ("--max-slowdown", !args.max_slowdown.is_empty()),
    ] {
        if is_given {
            return Err(Failure::Usage(format!(
                "{flag}: two replays are compared as they are (hint: leave it out; it is for \
                 campaigns)"
            )));
        }
    }
    Ok(())
}

fn read_document(name: &str) -> Result<Stored, Failure> {
    let source = input_file::open_stream(Path::new(name), "replay")?;
    let stored: Stored = serde_json::from_reader(BufReader::new(source)).map_err(|error| {
        Failure::Usage(format!(
            "`{name}` is no replay: {error} (hint: `dfsbench replay ... --format json -o \
                 FILE.json` makes one)"
        ))
    })?;
    if stored.dfsbench_replay > FORMAT {
        return Err(Failure::Usage(format!(
            "`{name}` has format {}; this release reads up to {FORMAT} (hint: use a newer \
             dfsbench)",
            stored.dfsbench_replay
        )));
    }
    Ok(stored)
}

fn read_request(args: &ReplayArgs) -> Result<Request, Failure> {
    let mut paces = Vec::new();
    for text in &args.speed {
        match text.trim().parse::<f64>() {
            Ok(speed) if SPEEDS.contains(&speed) => paces.push(Pace::Open { speed }),
            _ => {
                return Err(Failure::Usage(format!(
                    "--speed: `{text}` is no factor from {} to {} (hint: such as 0.5,1,2)",
                    SPEEDS.start(),
                    SPEEDS.end()
                )));
            }
        }
    }
    if paces.len() > SPEEDS_MAX {
        return Err(Failure::Usage(format!(
            "--speed: {} factors are more than {SPEEDS_MAX} (hint: `dfsbench curve --trace` \
             chooses some)",
            paces.len()
        )));
    }
    if args.closed {
        paces = vec![Pace::Closed];
    }
    let rounds = match &args.r#loop {
        Some(text) => read_rounds(text)?,
        None => Rounds::Count(1),
    };
    if args.tree.is_some() && rounds != Rounds::Count(1) {
        return Err(Failure::Usage(
            "--tree: one tree can't serve several rounds, since each changes it (hint: leave out \
             --tree or --loop)"
                .to_owned(),
        ));
    }
    if args.prepare_only {
        paces.truncate(1);
    }
    if args.tree.is_some() && paces.len() > 1 {
        return Err(Failure::Usage(
            "--tree: one tree can't serve several speeds, since each replay changes it (hint: name \
             one --speed, or leave out --tree)"
                .to_owned(),
        ));
    }
    let window = match &args.window {
        Some(text) => read_window(text)?,
        None => Window::ALL,
    };
    let directory = match &args.tree {
        Some(name) if name.is_empty() || name.contains('/') || name == "." || name == ".." => {
            return Err(Failure::Usage(format!(
                "--tree: `{name}` is no name of a directory (hint: it is made in the export)"
            )));
        }
        Some(name) => name.clone(),
        // A server has clients on many hosts, whose processes may have one number.
        None => format!("dfsbench-replay-{:016x}", calendar::token()),
    };
    Ok(Request { paces, rounds, window, directory, keeps_tree: args.tree.is_some() })
}

/// Reads how often a trace is replayed: `5`, or `10m`.
fn read_rounds(text: &str) -> Result<Rounds, Failure> {
    if let Ok(count) = text.parse::<u64>()
        && count > 0
    {
        return Ok(Rounds::Count(count));
    }
    match parse_time_ns(text) {
        Ok(time_ns) if time_ns > 0 && text.parse::<u64>().is_err() => Ok(Rounds::Time(time_ns)),
        _ => Err(Failure::Usage(format!(
            "--loop: `{text}` is neither a number of rounds nor a time (hint: such as 5 or 10m)"
        ))),
    }
}

/// Reads a part of a trace: `10s..40s`, `10s..` or `..40s`.
fn read_window(text: &str) -> Result<Window, Failure> {
    let bad = |why: &str| {
        Failure::Usage(format!("--window: `{text}` {why} (hint: such as 10s..40s or 5m..)"))
    };
    let Some((from, to)) = text.split_once("..") else { return Err(bad("has no `..`")) };
    let instant = |text: &str, otherwise: u64| {
        if text.is_empty() { Ok(otherwise) } else { parse_time_ns(text) }
    };
    let from_ns = instant(from, 0).map_err(|_| bad("does not begin with a time"))?;
    let to_ns = instant(to, u64::MAX).map_err(|_| bad("does not end with a time"))?;
    if from_ns >= to_ns {
        return Err(bad("is empty"));
    }
    Ok(Window { from_ns, to_ns })
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
        TargetArg::Ready(Target::Directory { path }) => {
            // It is cleaned from any folder.
            let path = std::path::absolute(&path).unwrap_or(path);
            Some(Target::Directory { path })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_a_number_or_a_time() {
        assert_eq!(read_rounds("5").unwrap(), Rounds::Count(5));
        assert_eq!(read_rounds("10m").unwrap(), Rounds::Time(600_000_000_000));
        for text in ["", "0", "0s", "x", "-1"] {
            let error = read_rounds(text).unwrap_err().to_string();
            assert!(error.contains("--loop") && error.contains("hint"), "{text}: {error}");
        }
        assert!(Rounds::Count(2).has_next(1, 0) && !Rounds::Count(2).has_next(2, 0));
        assert!(Rounds::Time(10).has_next(7, 9) && !Rounds::Time(10).has_next(1, 10));
    }

    #[test]
    fn a_window_has_two_ends_of_which_each_may_be_left_out() {
        let window = |text: &str| read_window(text).unwrap();
        let second = 1_000_000_000;
        assert_eq!(window("10s..40s"), Window { from_ns: 10 * second, to_ns: 40 * second });
        assert_eq!(window("1m.."), Window { from_ns: 60 * second, to_ns: u64::MAX });
        assert_eq!(window("..500ms"), Window { from_ns: 0, to_ns: second / 2 });
        assert_eq!(window(".."), Window::ALL);
        for text in ["", "10s", "40s..10s", "5s..5s", "x..2s", "1s..y"] {
            let error = read_window(text).unwrap_err().to_string();
            assert!(error.contains("--window") && error.contains("hint"), "{text}: {error}");
        }
    }
}
