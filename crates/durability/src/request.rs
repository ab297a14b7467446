//! The request for a durability measurement, parsed from its options: target, promises and events.
//!
//! [`DurabilityRequest`] is the main type. All errors in a command line are detected here, before
//! anything is started.

use std::path::PathBuf;
use std::time::Duration;

use model::contender::{contender_of, contenders};
use model::durability::{Access, CrashEvent};
use model::units::parse_time_ns;
use model::{Durability, LabSpec, RunSpec, Target};
use plan::Plan;
use plan::fault::PlannedFault;

use crate::DurabilityError;
use crate::events::{ArrangedEvent, EventTrigger};

/// Name of the in-memory server, as a target and as a host.
const EMBEDDED: &str = "embedded";

/// Options of a measurement, with events, times and commands as the user wrote them.
#[derive(Debug, Default)]
pub struct DurabilityOptions {
    pub kill_server: bool,
    pub stop_command: Option<String>,
    pub start_command: Option<String>,
    pub power_cut: Option<String>,
    pub confirm_power_cut: Option<String>,
    pub power_cut_command: Option<String>,
    pub power_on_command: Option<String>,
    pub lose_server: Option<String>,
    pub confirm_lose_server: Option<String>,
    pub lose_command: Option<String>,
    pub ssh_config: Option<PathBuf>,
    pub kill_client: bool,
    pub cut_network: bool,
    pub cut_command: Option<String>,
    pub restore_command: Option<String>,
    pub cut_for: String,
    pub promises: Vec<String>,
    pub rounds: u32,
    pub crashes: u32,
    pub idle: Option<String>,
    pub timeout: String,
    /// Planned faults of the in-memory server.
    pub faults: Vec<String>,
    pub back_within: String,
    pub before_reading: Option<String>,
    /// The existing campaign to store findings in, if one was named.
    pub campaign: Option<String>,
    /// The contender of that campaign to measure.
    pub contender: Option<String>,
}

/// A target to measure.
pub struct Subject {
    /// Name of the contender; `None` for a target that is not set up by the plan.
    pub contender: Option<String>,
    /// A run with this target, which determines how its hosts are set up.
    pub spec: RunSpec,
}

/// A durability measurement, as requested by the options.
pub struct DurabilityRequest {
    /// The plan; it may have been made up for a single target.
    pub plan: Plan,
    /// Targets, in the order in which they are measured.
    pub subjects: Vec<Subject>,
    /// Promises, each once, weakest first.
    pub promises: Vec<Durability>,
    /// Events, in the order in which they are triggered.
    pub events: Vec<ArrangedEvent>,
    /// Rounds to write before an event.
    pub rounds: u32,
    /// Number of crashes before which each promise gets the last write, unless it is broken
    /// earlier.
    pub crashes: u32,
    /// Time from the last op to the event; `None` if ops are in flight during the event.
    pub idle: Option<Duration>,
    /// Time limit of a call.
    pub timeout: Duration,
    /// Time limit for the target to come back.
    pub back_within: Duration,
    /// Command to run before files are read back.
    pub before_reading: Option<String>,
    /// The contender of an existing campaign to measure.
    pub contender: Option<String>,
}

impl DurabilityRequest {
    /// Parses the options for measuring the targets of a plan.
    ///
    /// # Errors
    /// If they are invalid.
    pub fn new(plan: Plan, options: &DurabilityOptions) -> Result<Self, DurabilityError> {
        if plan.runs.is_empty() {
            return Err(DurabilityError::Usage("the plan has no target".to_owned()));
        }
        let subjects = subjects_of(&plan, options)?;
        let first = &subjects[0].spec;
        let target = &first.target;
        if !is_embedded(target) && !options.faults.is_empty() {
            return Err(usage("--fault", "only the in-memory server has planned faults", EMBEDDED));
        }
        let mut promises: Vec<Durability> = Vec::new();
        for name in &options.promises {
            if let Some(promise) = Durability::from_name(name)
                && !promises.contains(&promise)
            {
                promises.push(promise);
            }
        }
        // Weakest first, in whatever order they were given.
        promises.sort_unstable();
        let events = arrange(options, &subjects, &plan.server.faults)?;
        let idle = match &options.idle {
            Some(text) => Some(read_time("--idle", text)?),
            None => None,
        };
        Ok(Self {
            plan,
            subjects,
            promises,
            events,
            rounds: options.rounds,
            crashes: options.crashes,
            idle,
            timeout: read_time("--timeout", &options.timeout)?,
            back_within: read_time("--back-within", &options.back_within)?,
            before_reading: options.before_reading.clone(),
            contender: options.contender.clone(),
        })
    }

    /// Sets the address of the in-memory server in the plan and its target.
    pub fn set_addresses(&mut self, set: impl FnOnce(&mut Plan)) {
        set(&mut self.plan);
        self.subjects[0].spec = self.plan.runs[0].clone();
    }

    /// Returns true if the plan sets up the systems to measure.
    pub fn sets_up(&self) -> bool {
        self.subjects[0].spec.lab.is_some()
    }

    pub fn promise_names(&self) -> String {
        let mut names = Vec::new();
        for promise in &self.promises {
            names.push(promise.name());
        }
        names.join(", ")
    }

    /// Describes how each promise is fulfilled on a target.
    pub fn describe_promises(&self, target: &Target) -> Vec<String> {
        let mut lines = Vec::new();
        for promise in &self.promises {
            let how = match access_to(target) {
                Access::Nfs => over_nfs(*promise),
                Access::FileSystem => in_directory(*promise),
            };
            lines.push(format!("{promise}: {how}."));
        }
        lines
    }
}

pub fn access_to(target: &Target) -> Access {
    if target.nfs().is_some() { Access::Nfs } else { Access::FileSystem }
}

const fn over_nfs(promise: Durability) -> &'static str {
    match promise {
        Durability::None => "WRITE with UNSTABLE was answered, and no COMMIT follows",
        Durability::Close => {
            "WRITE with UNSTABLE and CLOSE were answered; a kernel's client also commits at close, \
             see sync"
        }
        Durability::Sync => "WRITE with UNSTABLE, then COMMIT was answered",
        Durability::Dsync => "WRITE with DATA_SYNC was answered",
        Durability::Osync => "WRITE with FILE_SYNC was answered",
    }
}

const fn in_directory(promise: Durability) -> &'static str {
    match promise {
        Durability::None => "write(2) returned",
        Durability::Close => "close(2) returned",
        Durability::Sync => "fsync(2) returned, for new names that of the directory, too",
        Durability::Dsync => {
            "write(2) to a file with O_DSYNC returned, and for new names fsync(2) of the directory"
        }
        Durability::Osync => {
            "write(2) to a file with O_SYNC returned, and for new names fsync(2) of the directory"
        }
    }
}

/// Returns the targets to measure: a single one, or each contender that the plan sets up.
fn subjects_of(plan: &Plan, options: &DurabilityOptions) -> Result<Vec<Subject>, DurabilityError> {
    let first = &plan.runs[0];
    let is_lab = first.lab.is_some();
    let mut subjects: Vec<Subject> = Vec::new();
    for run in &plan.runs {
        if is_lab != run.lab.is_some() {
            let what = format!("{} is set up by the plan, and another target is not", run.target);
            return Err(DurabilityError::Usage(format!("{what} (hint: measure them apart)")));
        }
        if !is_lab && run.target != first.target {
            let what =
                format!("durability is that of one target: {} or {}", first.target, run.target);
            return Err(DurabilityError::Usage(format!(
                "{what} (hint: a plan with one, or name it here)"
            )));
        }
        check_target(&run.target)?;
        let name = contender_of(run);
        let contender = if is_lab { Some(name) } else { None };
        if subjects.iter().any(|known| known.contender == contender) {
            continue;
        }
        subjects.push(Subject { contender, spec: run.clone() });
    }
    if is_lab && let Some(wanted) = &options.contender {
        let known = contenders(&plan.runs);
        subjects.retain(|subject| subject.contender.as_ref() == Some(wanted));
        if subjects.is_empty() {
            return Err(unknown_contender(wanted, &known));
        }
    }
    if !is_lab && options.campaign.is_some() != options.contender.is_some() {
        let what = "--campaign and --contender belong together for a target of yours";
        return Err(DurabilityError::Usage(format!(
            "{what} (hint: `dfsbench contenders` has the names)"
        )));
    }
    Ok(subjects)
}

/// Builds the error for a contender that doesn't exist.
pub fn unknown_contender(name: &str, known: &[String]) -> DurabilityError {
    let known = known.join("`, `");
    DurabilityError::Usage(format!(
        "--contender: there is no contender `{name}` (hint: there are `{known}`)"
    ))
}

fn check_target(target: &Target) -> Result<(), DurabilityError> {
    if matches!(target, Target::Nfs(_) | Target::Directory { .. }) {
        return Ok(());
    }
    let what = format!("durability is that of files, and {target} keeps none");
    Err(DurabilityError::Usage(format!("{what} (hint: a directory, nfs://..., `embedded`)")))
}

/// Returns true if the target is the in-memory server of this process.
fn is_embedded(target: &Target) -> bool {
    target.nfs().is_some_and(|nfs| nfs.embedded)
}

/// Builds the requested events.
fn arrange(
    options: &DurabilityOptions,
    subjects: &[Subject],
    faults: &[PlannedFault],
) -> Result<Vec<ArrangedEvent>, DurabilityError> {
    let first = &subjects[0].spec;
    if let Some(lab) = &first.lab {
        let arranged = arrange_set_up(options, lab)?;
        for Subject { spec, contender } in subjects {
            let keeper = spec.lab.as_ref().map(|lab| &lab.keeper().name);
            if let Some(host) = &options.power_cut
                && keeper != Some(host)
            {
                let name = contender.as_deref().unwrap_or_default();
                let what = format!("it is not the host that keeps the files of {name}");
                let hint = "--contender NAME measures one of them";
                return Err(usage(&format!("--power-cut `{host}`"), &what, hint));
            }
        }
        return Ok(arranged);
    }
    let target = &first.target;
    let mut events = Vec::new();
    if options.kill_client {
        events.push(ArrangedEvent { event: CrashEvent::KillClient, way: EventTrigger::KillClient });
    }
    if options.cut_network {
        events.push(ArrangedEvent {
            event: CrashEvent::CutNetwork,
            way: cut_network(options, target)?,
        });
    }
    if options.kill_server {
        let way = kill_server(options, target, faults)?;
        events.push(ArrangedEvent { event: CrashEvent::KillServer, way });
    }
    if options.power_cut.is_some() || options.confirm_power_cut.is_some() {
        let way = power_cut(options, target, faults)?;
        events.push(ArrangedEvent { event: CrashEvent::PowerCut, way });
    }
    if options.lose_server.is_some() || options.confirm_lose_server.is_some() {
        let way = lose_server(options, target)?;
        events.push(ArrangedEvent { event: CrashEvent::LoseServer, way });
    }
    if events.is_empty() {
        let hint =
            "--kill-server, --power-cut HOST, --lose-server HOST, --kill-client or --cut-network";
        return Err(no_event(hint));
    }
    Ok(events)
}

/// Builds the events for systems that the plan sets up, which need no commands from the user.
fn arrange_set_up(
    options: &DurabilityOptions,
    lab: &LabSpec,
) -> Result<Vec<ArrangedEvent>, DurabilityError> {
    for (flag, is_given) in [
        ("--cut-network", options.cut_network),
        ("--lose-server", options.lose_server.is_some() || options.confirm_lose_server.is_some()),
        ("--stop-command", options.stop_command.is_some()),
        ("--start-command", options.start_command.is_some()),
        ("--before-reading", options.before_reading.is_some()),
    ] {
        if is_given {
            let what = "it can't be used with a plan that sets up its systems";
            let hint = "start a system by itself and name its address or directory";
            return Err(usage(flag, what, hint));
        }
    }
    let mut events = Vec::new();
    if options.kill_client {
        events.push(ArrangedEvent { event: CrashEvent::KillClient, way: EventTrigger::KillClient });
    }
    if options.kill_server {
        events
            .push(ArrangedEvent { event: CrashEvent::KillServer, way: EventTrigger::CrashSystem });
    }
    if options.power_cut.is_some() || options.confirm_power_cut.is_some() {
        events.push(ArrangedEvent {
            event: CrashEvent::PowerCut,
            way: planned_power_cut(options, lab)?,
        });
    }
    if events.is_empty() {
        return Err(no_event("--kill-server, --power-cut HOST or --kill-client"));
    }
    Ok(events)
}

fn no_event(hint: &str) -> DurabilityError {
    let what = "no event is named, and nothing is killed or cut without its name";
    DurabilityError::Usage(format!("{what} (hint: {hint})"))
}

/// Restarts the in-memory server, which only loses data if a planned fault makes it do so.
fn restart_embedded(faults: &[PlannedFault]) -> EventTrigger {
    use PlannedFault::{LoseCommitted, LoseLast, LoseUnstable};
    let loses = |fault: &PlannedFault| matches!(fault, LoseUnstable | LoseCommitted | LoseLast(_));
    EventTrigger::RestartEmbedded { loses_data: faults.iter().any(loses) }
}

fn kill_server(
    options: &DurabilityOptions,
    target: &Target,
    faults: &[PlannedFault],
) -> Result<EventTrigger, DurabilityError> {
    match (&options.stop_command, &options.start_command) {
        (None, None) if is_embedded(target) => Ok(restart_embedded(faults)),
        (Some(make), Some(undo)) if !is_embedded(target) => Ok(EventTrigger::Commands {
            make: make.clone(),
            undo: Some(undo.clone()),
            lasts: Duration::ZERO,
        }),
        _ if is_embedded(target) => {
            Err(usage("--kill-server", "the in-memory server takes no commands", "leave them out"))
        }
        _ => Err(usage(
            "--kill-server",
            "dfsbench did not start this server",
            "--stop-command and --start-command, such as `pkill -9 ganesha.nfsd`",
        )),
    }
}

fn cut_network(
    options: &DurabilityOptions,
    target: &Target,
) -> Result<EventTrigger, DurabilityError> {
    let lasts = read_time("--cut-for", &options.cut_for)?;
    match (&options.cut_command, &options.restore_command) {
        (None, None) if is_embedded(target) => Ok(EventTrigger::StallEmbedded(lasts)),
        (Some(make), Some(undo)) if !is_embedded(target) => {
            Ok(EventTrigger::Commands { make: make.clone(), undo: Some(undo.clone()), lasts })
        }
        _ if is_embedded(target) => {
            Err(usage("--cut-network", "the in-memory server takes no commands", "leave them out"))
        }
        _ => Err(usage(
            "--cut-network",
            "how the network is cut and restored is not known",
            "--cut-command and --restore-command, such as an ssh that sets a link down and up",
        )),
    }
}

/// Cuts the power of the plan's host that stores the files. The user must name the host twice.
fn planned_power_cut(
    options: &DurabilityOptions,
    lab: &LabSpec,
) -> Result<EventTrigger, DurabilityError> {
    let host =
        named_twice("power-cut", options.power_cut.as_ref(), options.confirm_power_cut.as_ref())?;
    let keeper = lab.keeper();
    if host != keeper.name {
        let what = "it is not the plan's host that keeps the files";
        return Err(usage(&format!("--power-cut `{host}`"), what, &format!("`{}`", keeper.name)));
    }
    let undo = options.power_on_command.clone();
    let way = match (&options.power_cut_command, &keeper.ssh) {
        (Some(make), _) => {
            EventTrigger::Commands { make: make.clone(), undo, lasts: Duration::ZERO }
        }
        (None, Some(ssh)) => {
            let ssh_config = keeper.ssh_config.clone();
            EventTrigger::Sysrq { host: ssh.clone(), ssh_config, power_on: undo }
        }
        (None, None) => {
            let what = "this host keeps the files, and can't reset itself";
            return Err(usage("--power-cut", what, "a [[host]] with `ssh` in its place"));
        }
    };
    Ok(EventTrigger::SystemPower(Box::new(way)))
}

/// Cuts the power of a host. The user must name it twice.
fn power_cut(
    options: &DurabilityOptions,
    target: &Target,
    faults: &[PlannedFault],
) -> Result<EventTrigger, DurabilityError> {
    let host =
        named_twice("power-cut", options.power_cut.as_ref(), options.confirm_power_cut.as_ref())?;
    if (host == EMBEDDED) != is_embedded(target) {
        let what = "the in-memory server is the host `embedded`, and no other target is";
        return Err(usage(
            &format!("--power-cut `{host}`"),
            what,
            "the host that serves the target",
        ));
    }
    match (&options.power_cut_command, &options.power_on_command) {
        (None, None) if is_embedded(target) => Ok(restart_embedded(faults)),
        _ if is_embedded(target) => {
            Err(usage("--power-cut", "the in-memory server takes no commands", "leave them out"))
        }
        (Some(make), undo) => Ok(EventTrigger::Commands {
            make: make.clone(),
            undo: undo.clone(),
            lasts: Duration::ZERO,
        }),
        (None, power_on) => Ok(EventTrigger::Sysrq {
            host,
            ssh_config: options.ssh_config.clone(),
            power_on: power_on.clone(),
        }),
    }
}

/// Destroys one of several servers for good. The user must name it twice.
fn lose_server(
    options: &DurabilityOptions,
    target: &Target,
) -> Result<EventTrigger, DurabilityError> {
    let lost = options.lose_server.as_ref();
    let host = named_twice("lose-server", lost, options.confirm_lose_server.as_ref())?;
    if is_embedded(target) {
        let what = "the in-memory server is one server, and nothing is left of it";
        return Err(usage("--lose-server", what, "a directory or nfs://... of several servers"));
    }
    match &options.lose_command {
        Some(make) => {
            Ok(EventTrigger::Commands { make: make.clone(), undo: None, lasts: Duration::ZERO })
        }
        None => Err(usage(
            &format!("--lose-server `{host}`"),
            "how it is lost is not known",
            "--lose-command, such as one that ends its processes by ssh and removes its data",
        )),
    }
}

/// Returns the host named by both an option and its confirmation.
fn named_twice(
    option: &str,
    host: Option<&String>,
    again: Option<&String>,
) -> Result<String, DurabilityError> {
    let Some(host) = host else {
        let what = format!("no --{option} names a host");
        return Err(usage(&format!("--confirm-{option}"), &what, &format!("--{option} HOST")));
    };
    if again != Some(host) {
        let again = match again {
            Some(other) => format!("--confirm-{option} names `{other}`"),
            None => "its name is not repeated".to_owned(),
        };
        let hint = format!("--confirm-{option} {host}");
        return Err(usage(&format!("--{option} `{host}`"), &again, &hint));
    }
    if host.is_empty() || host.starts_with('-') {
        return Err(usage(
            &format!("--{option} `{host}`"),
            "that is not a host",
            "as ssh finds it",
        ));
    }
    Ok(host.clone())
}

fn read_time(flag: &str, text: &str) -> Result<Duration, DurabilityError> {
    match parse_time_ns(text) {
        Ok(ns) => Ok(Duration::from_nanos(ns)),
        Err(_) => {
            Err(usage(flag, &format!("`{text}` is not a time"), "such as 500ms, 10s or 2min"))
        }
    }
}

fn usage(flag: &str, what: &str, hint: &str) -> DurabilityError {
    DurabilityError::Usage(format!("{flag}: {what} (hint: {hint})"))
}
