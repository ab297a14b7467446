//! `dfsbench run`: from the target to the table and the page.
//!
//! Checks come first, in the order in which they cost: plan, results file, target. Only when all
//! of them pass is anything written. What was measured before a later failure is kept in the file.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use agent::{Agent, LocalServer};
use controller::{ControllerError, Event, Hosts, Walk, leftovers};
use engine::SystemClock;
use fleet::{Opening, in_process};
use lab::counters::StorageWork;
use model::lab::label_facts;
use model::{Campaign, CampaignState, Host, PassResult, Question, TrialState, Verdict, panicked};
use plan::{Plan, Surroundings};
use report::{Extent, Format};
use results::{Store, StoreError};

use crate::agents::Agents;
use crate::args::defaults::{UsedDefault, used_defaults};
use crate::args::{JobArgs, MakingArgs, RunArgs};
use crate::busy::ProcessorTimes;
use crate::calendar::{now_unix_ms, token};
use crate::exit::{End, Failure};
use crate::job::Job;
use crate::metrics::{self, Endpoint};
use crate::output::Printable;
use crate::progress::lines::{self, Lines};
use crate::progress::{Progress, Visibility, check_screen};
use crate::{
    agents, contenders, dry_run, embedded, foreign_folder, job, output, output_file, plan_source,
    render, signals, user_dirs, writeback,
};

/// Makes the campaign that the arguments ask for.
///
/// # Errors
/// When it can't be begun; what was measured before a later error is in the results file.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let raw = plan_source::read(args)?;
    let mut around = plan_source::surroundings();
    around.job = job::stand_ins(&args.job)?;
    let mut plan = Plan::resolve(&raw, &around)?;
    warn_of_idle_settings(&plan);
    if args.estimate.dry_run {
        output::text(&dry_run::describe(&plan, args)?)?;
        return Ok(End::Ok.into());
    }
    plan.check_destroy(&args.making.allow_destroy)?;
    let stop = signals::stop_flag()?;
    let means = Means::of(&args.making);
    if bring(&args.job, &means, &mut around, &stop)? {
        plan = Plan::resolve(&raw, &around)?;
    }
    make(&means, &mut plan, None, &stop)
}

/// Brings the agents of a job, where one is requested, so that the names of its hosts are known;
/// says whether one is.
///
/// # Errors
/// When results can't be kept, or not all agents come.
pub fn bring(
    args: &JobArgs,
    means: &Means<'_>,
    around: &mut Surroundings,
    stop: &Arc<AtomicBool>,
) -> Result<bool, Failure> {
    if args.launcher.is_none() {
        return Ok(false);
    }
    prepare(means)?;
    if let Some(hosts) = job::read_hosts(args)? {
        around.job = Some(hosts);
        return Ok(true);
    }
    let job = Job::start(args, stop)?;
    around.job = Some(job.hosts());
    means.job.set(Some(job));
    Ok(true)
}

/// Warns of settings that were written and that no run depends on.
pub fn warn_of_idle_settings(plan: &Plan) {
    for idle in &plan.without_effect {
        output::message(&format!("warning: {idle}"));
    }
    let notes = [
        dry_run::describe_thinned(plan),
        dry_run::describe_large_ops(plan),
        contenders::note_differences(plan),
    ];
    for note in notes.into_iter().flatten() {
        output::message(&format!("note: {note}"));
    }
}

/// The outputs of a campaign: its results file and its progress.
pub struct Means<'a> {
    /// The results file.
    pub results: &'a Path,
    /// When the page beside it was last written; `None` if there is none.
    pub page_written: Option<SystemTime>,
    /// Form of the report at its end.
    pub format: Format,
    /// Print nothing while it runs.
    pub quiet: bool,
    /// Show it on a full screen.
    pub watch: bool,
    /// The path of the progress in a machine-readable format.
    pub json_progress: Option<&'a Path>,
    /// The address at which metrics are served meanwhile.
    pub metrics: Option<SocketAddr>,
    /// Leave working directories behind.
    pub keep: bool,
    /// Devices that may be formatted.
    pub allow_destroy: &'a [PathBuf],
    /// The question that the campaign is to answer.
    pub question: Question,
    /// The stored campaign that is continued.
    pub resumes: Option<i64>,
    /// The agents of a job, until a campaign takes them.
    pub job: Cell<Option<Job>>,
}

impl<'a> Means<'a> {
    /// Reads the outputs from the arguments.
    pub fn of(args: &'a MakingArgs) -> Self {
        Self {
            results: &args.results,
            page_written: last_written(&page_path(&args.results)),
            format: args.format,
            quiet: args.quiet,
            watch: args.watch,
            json_progress: args.json_progress.as_deref(),
            metrics: args.metrics,
            keep: args.keep,
            allow_destroy: &args.allow_destroy,
            question: Question::Figures,
            resumes: None,
            job: Cell::new(None),
        }
    }
}

/// Makes a plan's campaign, or what is missing of the one that `stored` names, and reports it.
///
/// # Errors
/// As [`run`].
pub fn make(
    means: &Means<'_>,
    plan: &mut Plan,
    stored: Option<i64>,
    stop: &Arc<AtomicBool>,
) -> Result<ExitCode, Failure> {
    let trials = controller::steps(plan).len();
    prepare(means)?;
    let mut observers = Observers::new(means, Progress::new(plan, means.visibility()), trials)?;
    let made = match measure_plan(means, plan, stored, stop, &mut observers) {
        Ok(campaign) => conclude(means, &campaign).map(|end| (end, campaign)),
        Err(failure) => Err(failure),
    };
    observers.end(&made);
    Ok(made?.0.into())
}

/// The observers of a campaign: the progress for people, and the lines for programs.
pub struct Observers {
    progress: Progress,
    lines: Option<Lines>,
    /// Serves metrics until the campaign has ended.
    _metrics: Option<Endpoint>,
}

impl Observers {
    /// Begins to report so many trials; 0 where their number is not known.
    ///
    /// # Errors
    /// When the file for programs can't be opened.
    pub fn new(means: &Means<'_>, progress: Progress, trials: usize) -> Result<Self, Failure> {
        let mut lines = None;
        if let Some(path) = means.json_progress {
            if !lines::is_stderr(path) {
                output_file::check(path, Some(means.results))?;
            }
            lines = Some(Lines::open(path, trials)?);
        }
        let metrics = match means.metrics {
            Some(address) => Some(serve_metrics(address, &progress, means.visibility())?),
            None => None,
        };
        let progress = if means.watch { progress.on_screen()? } else { progress };
        Ok(Self { progress, lines, _metrics: metrics })
    }

    /// Reports how it ended.
    pub fn end(&mut self, made: &Result<(End, Campaign), Failure>) {
        let Some(lines) = &mut self.lines else { return };
        match made {
            Ok((end, campaign)) => lines.end(campaign, *end),
            Err(failure) => lines.fail(failure),
        }
    }

    fn hear(&mut self, event: &Event<'_>) {
        match event {
            Event::DirectoryBegun { name, spec } => signals::note_directory(name, &spec.target),
            Event::DirectoryEnded { is_left } => {
                if *is_left {
                    leftovers::note_left();
                }
                signals::forget_directory();
            }
            _ => {}
        }
        self.progress.hear(event);
        if let Some(lines) = &mut self.lines {
            lines.hear(event);
        }
    }
}

/// Serves what progress knows, and reports the address where progress is shown.
fn serve_metrics(
    address: SocketAddr,
    progress: &Progress,
    visibility: Visibility,
) -> Result<Endpoint, Failure> {
    let live = progress.live();
    let source: Arc<metrics::Source> = Arc::new(move || metrics::answer(live().render()));
    let endpoint = Endpoint::start(address, source)?;
    if visibility == Visibility::Shown {
        output::message(&format!("metrics: {}", endpoint.url()));
    }
    Ok(endpoint)
}

impl Means<'_> {
    /// Returns the same outputs without any progress.
    pub fn without_progress(&self) -> Self {
        Self {
            quiet: true,
            json_progress: None,
            metrics: None,
            question: Question::Figures,
            job: Cell::new(None),
            ..*self
        }
    }

    /// Says whether progress is shown to people; `--json-progress -` keeps stderr for programs.
    pub fn visibility(&self) -> Visibility {
        if self.quiet || self.json_progress.is_some_and(lines::is_stderr) {
            Visibility::Hidden
        } else {
            Visibility::Shown
        }
    }
}

/// Makes a plan's campaign with everything that it needs of this host.
fn measure_plan(
    means: &Means<'_>,
    plan: &mut Plan,
    stored: Option<i64>,
    stop: &Arc<AtomicBool>,
    observers: &mut Observers,
) -> Result<Campaign, Failure> {
    let server = embedded::start(plan)?;
    if let Some(server) = &server {
        server.set_addresses(plan);
    }
    let local = server.as_ref().map(embedded::Embedded::as_local_server);
    // The server lives until the agents are gone, which use it to the end.
    let made =
        with_agents(means, plan, local, stop, observers, |walk| walk_plan(means, walk, stored));
    if let Some(server) = &server {
        server.warn_of_refused();
    }
    made
}

/// Checks that results can be kept, and raises the limit of open files.
///
/// # Errors
/// When they can't.
pub fn prepare(means: &Means<'_>) -> Result<(), Failure> {
    if means.watch {
        check_screen(means.json_progress)?;
    }
    check_outputs(means.results)?;
    foreign_folder::warn_beside(means.results);
    // Files of many workers are open at once; more than the soft limit is no surprise.
    embedded::raise_descriptor_limit();
    Ok(())
}

/// Checks that a results file and its page can be written.
///
/// # Errors
/// When they can't.
pub fn check_outputs(results: &Path) -> Result<(), Failure> {
    results::check_results_path(results)?;
    if results.exists() {
        match Store::open_existing(results) {
            // Such a file is left by a process that was killed before its first transaction ended.
            Ok(_) | Err(StoreError::Empty(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    render::check_page(&page_path(results), results)
}

/// How long agents are waited for before the stop flag and silent agents are checked.
const TICK: Duration = Duration::from_millis(100);

/// Runs the agent in a thread and the controller here; the agent ends with its transport.
///
/// # Errors
/// Those of `work`.
pub fn with_agents<T>(
    means: &Means<'_>,
    plan: &Plan,
    local_server: Option<LocalServer>,
    stop: &Arc<AtomicBool>,
    observers: &mut Observers,
    work: impl FnOnce(&mut Walk<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let inject_fault = local_server.as_ref().and_then(|server| server.inject_fault.clone());
    let (mut transport, agent_end) = in_process::pair();
    let clock = Arc::new(SystemClock::new());
    let agent = Agent {
        clock: clock.clone(),
        stop: Arc::clone(stop),
        state_dir: user_dirs::state_dir(),
        local_server,
        give_up: None,
    };
    let thread = std::thread::spawn(move || panicked::catch(|| agent::serve(&agent, &agent_end)));
    let result = {
        let mut observe = |event: Event<'_>| observers.hear(&event);
        let mut agents =
            Agents::new(Arc::clone(stop), means.visibility()).with_job(means.job.take());
        let mut launch = |hosts: &[&Host]| agents.launch(hosts);
        let token = token();
        let campaign = controller::campaign_name(token);
        foreign_folder::warn_of_targets(&plan.runs);
        for warning in leftovers::warnings(means.results, &plan.runs) {
            output::message(&format!("warning: {warning}"));
        }
        let _record = if means.keep {
            None
        } else {
            let (results, now_ms) = (means.results, now_unix_ms());
            leftovers::WorkRecord::begin(results, &campaign, &plan.runs, means.resumes, now_ms)?
                .map(|record| record.with_index(results, &user_dirs::records_dir()))
        };
        let read_clocks = || agent::read(&*clock);
        let opening = Opening {
            campaign,
            allow_destroy: means.allow_destroy.to_vec(),
            keep: means.keep,
            after_power_loss: false,
        };
        let mut walk = Walk {
            plan,
            agent: &mut transport,
            hosts: Hosts::new(&mut launch, &read_clocks, opening),
            stop,
            wait: &|wakeup| wakeup.wait(TICK),
            observe: &mut observe,
            now_unix_ms: &now_unix_ms,
            token,
            keep: means.keep,
            inject_fault: inject_fault
                .as_deref()
                .map(|inject| inject as &controller::FaultInjector<'_>),
        };
        // Hosts are restored and left, also after an error or a panic of the work; an error of the
        // work goes before one of leaving, which it may have caused.
        let result = panicked::catch(|| work(&mut walk));
        let left = panicked::catch(|| controller::leave(&mut walk));
        agents::note_left();
        result.and_then(|result| left.map(|()| result))
    };
    // The agent's thread ends when its transport is closed, so that this comes before the join.
    drop(transport);
    let left = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    observers.progress.finish();
    match &left {
        Ok(left) => {
            for left in left {
                output::message(&format!("warning: {left}"));
            }
        }
        Err(panicked) => output::message(&format!("warning: the agent of this host {panicked}")),
    }
    result.unwrap_or_else(|panicked| Err(panicked.into()))
}

fn walk_plan(
    means: &Means<'_>,
    walk: &mut Walk<'_>,
    stored: Option<i64>,
) -> Result<Campaign, Failure> {
    if let Some(id) = stored {
        let mut store = Store::open_or_create(means.results)?;
        store.hold(id)?;
        controller::preflight(walk)?;
        controller::resume(walk, &mut store, id)?;
        return Ok(store.load(id)?);
    }
    // A ladder without the layer that it leads to says nothing of it.
    let is_ladder = matches!(means.question, Question::Ladder(_));
    let preflight = if is_ladder { controller::preflight_all } else { controller::preflight };
    preflight(walk)?;
    settle_storage(means, walk);
    let before = ProcessorTimes::read();
    let header = header(walk, &means.question)?;
    warn_of_busy_host(means, before);
    let mut store = Store::open_or_create(means.results)?;
    let (id, _) = controller::walk(walk, &mut store, &header)?;
    Ok(store.load(id)?)
}

/// Waits, within the plan's budget, until storage has written what is left from before.
fn settle_storage(means: &Means<'_>, walk: &Walk<'_>) {
    let Some((wait_ns_max, directories)) = writeback::need_of(walk.plan) else { return };
    let is_visible = means.visibility() != Visibility::Hidden;
    writeback::settle(
        wait_ns_max,
        &mut writeback::Effects {
            clock: &SystemClock::new(),
            stop: walk.stop,
            read: &mut StorageWork::read,
            begin_sync: &mut || writeback::begin_sync(directories.clone()),
            report: &mut |message| {
                if is_visible {
                    output::message(message);
                }
            },
        },
    );
}

/// Warns of what else the host has had to do since a moment.
fn warn_of_busy_host(means: &Means<'_>, before: Option<ProcessorTimes>) {
    if means.visibility() == Visibility::Hidden {
        return;
    }
    if let (Some(before), Some(after)) = (before, ProcessorTimes::read())
        && let Some(busy) = before.describe_others(after)
    {
        output::message(&format!("warning: {busy}"));
    }
}

/// A campaign without runs, with the tool's own ceiling.
///
/// # Errors
/// When the agent is gone.
pub fn header(walk: &mut Walk<'_>, question: &Question) -> Result<Campaign, ControllerError> {
    let mut facts = lab::facts::host();
    facts.extend(label_facts("host", &walk.plan.labels));
    Ok(Campaign {
        id: 0,
        name: walk.plan.name.clone(),
        started_unix_ms: now_unix_ms(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
        question: question.clone(),
        plan_toml: walk.plan.to_toml(),
        seed: walk.plan.seed,
        state: CampaignState::Running,
        facts,
        ceiling: controller::ceiling(walk)?,
        durability: Vec::new(),
        runs: Vec::new(),
    })
}

/// Prints the table, writes the page, and says what to try next.
pub fn conclude(means: &Means<'_>, campaign: &Campaign) -> Result<End, Failure> {
    let page = place_page(means, campaign.id)?;
    let written = write_page(&page, means.results, campaign);
    if means.format == Format::Table {
        output::painted(&report::render_screen(campaign, output::screen(Extent::Main)))?;
    } else {
        let text = report::render(campaign, means.format);
        output::print(&Printable::report(&text, means.format))?;
    }
    written?;
    let summary = format!(
        "results: {}\npage:    {}\nseed:    {} (--seed {} repeats the order)",
        means.results.display(),
        page.display(),
        campaign.seed,
        campaign.seed
    );
    if means.format == Format::Table {
        let next = render::next_line(campaign, means.results);
        output::text(&format!("\n{summary}\n{next}"))?;
    } else if means.visibility() == Visibility::Shown {
        output::message(&summary);
    }
    Ok(if is_complete(campaign) { End::Ok } else { End::Invalid })
}

/// Returns whether every possible trial was made, and no figure is invalid.
fn is_complete(campaign: &Campaign) -> bool {
    if campaign.state != CampaignState::Complete {
        return false;
    }
    for run in &campaign.runs {
        if run.trials.is_empty() && run.spec.impossible().is_none() {
            return false;
        }
        for trial in &run.trials {
            let is_invalid = |pass: &PassResult| Verdict::of(&pass.caveats) == Verdict::Invalid;
            if trial.state != TrialState::Done || trial.passes.iter().any(is_invalid) {
                return false;
            }
        }
    }
    true
}

/// Writes the page of a campaign.
///
/// # Errors
/// When it can't be written.
pub fn write_page(page: &Path, results: &Path, campaign: &Campaign) -> Result<(), Failure> {
    let text = report::render(campaign, Format::Html);
    output_file::write(page, text.as_bytes(), Some(results))
}

/// Returns the path of the page that belongs to a results file.
pub fn page_path(results: &Path) -> PathBuf {
    results.with_extension("html")
}

fn last_written(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|found| found.modified()).ok()
}

/// Returns where the page of a campaign is written: beside the results file, and under a name of
/// its own if another process has written a page there since this one started.
///
/// # Errors
/// When the file of that name is no page.
fn place_page(means: &Means<'_>, campaign_id: i64) -> Result<PathBuf, Failure> {
    let usual = page_path(means.results);
    if last_written(&usual) == means.page_written {
        return Ok(usual);
    }
    let mut name = means.results.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{campaign_id}.html"));
    let own = means.results.with_file_name(name);
    render::check_page(&own, means.results)?;
    output::message(&format!(
        "note: another run has written {} meanwhile; the page of this one is {}",
        usual.display(),
        own.display()
    ));
    Ok(own)
}

/// Returns the command line, with the user's defaults written out.
pub fn command_line() -> String {
    let mut words = Vec::new();
    for arg in std::env::args_os() {
        words.push(arg.to_string_lossy().into_owned());
    }
    // The path of the program differs between hosts; its name says enough.
    if let Some(name) = Path::new(&words[0]).file_name() {
        words[0] = name.to_string_lossy().into_owned();
    }
    // The user's defaults count like flags, so that the stored command does the same elsewhere.
    for UsedDefault { flag, values, .. } in used_defaults() {
        for value in values {
            words.push(format!("{flag}={value}"));
        }
    }
    words.join(" ")
}
