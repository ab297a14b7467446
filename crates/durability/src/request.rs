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
pub(crate) struct Subject {
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
    pub(crate) subjects: Vec<Subject>,
    /// Promises, each once, weakest first.
    pub(crate) promises: Vec<Durability>,
    /// Events, in the order in which they are triggered.
    pub(crate) events: Vec<ArrangedEvent>,
    /// Rounds to write before an event.
    pub(crate) rounds: u32,
    /// Number of crashes before which each promise gets the last write, unless it is broken
    /// earlier.
    pub(crate) crashes: u32,
    /// Time from the last op to the event; `None` if ops are in flight during the event.
    pub(crate) idle: Option<Duration>,
    /// Time limit of a call.
    pub(crate) timeout: Duration,
    /// Time limit for the target to come back.
    pub(crate) back_within: Duration,
    /// Command to run before files are read back.
    pub(crate) before_reading: Option<String>,
    /// The contender of an existing campaign to measure.
    pub(crate) contender: Option<String>,
}

impl DurabilityRequest {
    /// Parses the options for measuring the targets of a plan.
    pub fn new(plan: Plan, options: &DurabilityOptions) -> Result<Self, DurabilityError> {
        if plan.runs.is_empty() {
            return Err(DurabilityError::Usage("the plan has no targets".to_owned()));
        }
        let subjects = subjects_of(&plan, options)?;
        let first = &subjects[0].spec;
        let target = &first.target;
        if !is_embedded(target) && !options.faults.is_empty() {
            return Err(usage(
                "--fault",
                "faults can only be planned for the in-memory server",
                EMBEDDED,
            ));
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
        let idle = options.idle.as_ref().map(|text| read_time("--idle", text)).transpose()?;
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
    pub(crate) fn sets_up(&self) -> bool {
        self.subjects[0].spec.lab.is_some()
    }

    pub(crate) fn promise_names(&self) -> String {
        let names: Vec<_> = self.promises.iter().map(|promise| promise.name()).collect();
        names.join(", ")
    }

    /// Describes how each promise is fulfilled on a target.
    pub(crate) fn describe_promises(&self, target: &Target) -> Vec<String> {
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

pub(crate) fn access_to(target: &Target) -> Access {
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
        Durability::Sync => "fsync(2) returned; for new names, also fsync(2) of the directory",
        Durability::Dsync => {
            "write(2) to a file with O_DSYNC returned; for new names, also fsync(2) of the \
             directory"
        }
        Durability::Osync => {
            "write(2) to a file with O_SYNC returned; for new names, also fsync(2) of the directory"
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
            let what = format!("the plan sets up {}, but not its other targets", run.target);
            return Err(DurabilityError::Usage(format!("{what} (hint: measure them separately)")));
        }
        if !is_lab && run.target != first.target {
            let what = format!(
                "only one target can be measured, not both {} and {}",
                first.target, run.target
            );
            return Err(DurabilityError::Usage(format!(
                "{what} (hint: use a plan with one target, or name the target on the command line)"
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
        let what = "--campaign and --contender can only be used together, unless the plan sets up \
                    the target";
        return Err(DurabilityError::Usage(format!(
            "{what} (hint: `dfsbench contenders` lists the names)"
        )));
    }
    Ok(subjects)
}

/// Builds the error for a contender that doesn't exist.
pub(crate) fn unknown_contender(name: &str, known: &[String]) -> DurabilityError {
    let known = known.join("`, `");
    DurabilityError::Usage(format!(
        "--contender: there is no contender `{name}` (hint: available: `{known}`)"
    ))
}

fn check_target(target: &Target) -> Result<(), DurabilityError> {
    if matches!(target, Target::Nfs(_) | Target::Directory { .. }) {
        return Ok(());
    }
    let what = format!("durability is measured with files, but {target} stores none");
    Err(DurabilityError::Usage(format!("{what} (hint: use a directory, nfs://... or `embedded`)")))
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
                let what = format!("this host does not store the files of {name}");
                let hint = "use --contender NAME to measure one of them";
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
        let hint = "choose --kill-server, --power-cut HOST, --lose-server HOST, --kill-client or \
                    --cut-network";
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
            let what = "not available with a plan that sets up its systems";
            let hint = "start the system yourself and use its address or directory as the target";
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
        return Err(no_event("choose --kill-server, --power-cut HOST or --kill-client"));
    }
    Ok(events)
}

fn no_event(hint: &str) -> DurabilityError {
    let what = "no event was requested";
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
        _ if is_embedded(target) => Err(usage(
            "--kill-server",
            "the in-memory server does not need commands",
            "leave them out",
        )),
        _ => Err(usage(
            "--kill-server",
            "dfsbench did not start this server",
            "add --stop-command and --start-command, such as `pkill -9 ganesha.nfsd`",
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
        _ if is_embedded(target) => Err(usage(
            "--cut-network",
            "the in-memory server does not need commands",
            "leave them out",
        )),
        _ => Err(usage(
            "--cut-network",
            "dfsbench does not know how to cut and restore the network",
            "add --cut-command and --restore-command, such as ssh commands that set a link down \
             and up",
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
        let what = "this host does not store the files";
        return Err(usage(
            &format!("--power-cut `{host}`"),
            what,
            &format!("use `{}`", keeper.name),
        ));
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
            let what = "the files are on this host, which cannot reset itself";
            return Err(usage("--power-cut", what, "use a [[host]] with `ssh` instead"));
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
        let what = "the host `embedded` is for the in-memory server, and only for it";
        return Err(usage(
            &format!("--power-cut `{host}`"),
            what,
            "use the host that serves the target",
        ));
    }
    match (&options.power_cut_command, &options.power_on_command) {
        (None, None) if is_embedded(target) => Ok(restart_embedded(faults)),
        _ if is_embedded(target) => Err(usage(
            "--power-cut",
            "the in-memory server does not need commands",
            "leave them out",
        )),
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
        let what = "the in-memory server is a single server, so nothing would remain";
        return Err(usage(
            "--lose-server",
            what,
            "use a directory or nfs://... with several servers",
        ));
    }
    match &options.lose_command {
        Some(make) => {
            Ok(EventTrigger::Commands { make: make.clone(), undo: None, lasts: Duration::ZERO })
        }
        None => Err(usage(
            &format!("--lose-server `{host}`"),
            "dfsbench does not know how to destroy this server",
            "add --lose-command, for example an ssh command that kills its processes and removes \
             its data",
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
        let what = format!("--{option} is missing");
        return Err(usage(&format!("--confirm-{option}"), &what, &format!("add --{option} HOST")));
    };
    if again != Some(host) {
        let again = match again {
            Some(other) => format!("--confirm-{option} names `{other}`"),
            None => "the host must be confirmed".to_owned(),
        };
        let hint = format!("add --confirm-{option} {host}");
        return Err(usage(&format!("--{option} `{host}`"), &again, &hint));
    }
    if host.is_empty() || host.starts_with('-') {
        return Err(usage(
            &format!("--{option} `{host}`"),
            "this is not a host name",
            "use a name that ssh accepts",
        ));
    }
    Ok(host.clone())
}

fn read_time(flag: &str, text: &str) -> Result<Duration, DurabilityError> {
    match parse_time_ns(text) {
        Ok(ns) => Ok(Duration::from_nanos(ns)),
        Err(_) => Err(usage(
            flag,
            &format!("`{text}` is not a time"),
            "write, for example, 500ms, 10s or 2min",
        )),
    }
}

fn usage(flag: &str, what: &str, hint: &str) -> DurabilityError {
    DurabilityError::Usage(format!("{flag}: {what} (hint: {hint})"))
}
