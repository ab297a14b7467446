//! The request of a durability measurement, read from its arguments: target, promises and events.
//!
//! [`Request`] is the principal type. All that can be wrong with a command line is found here,
//! before anything is started.

use std::time::Duration;

use model::contender::{contender_of, contenders};
use model::durability::Access;
use model::setting::Setting;
use model::units::parse_time_ns;
use model::{Durability, LabSpec, RunSpec, Target};
use plan::fault::PlannedFault;
use plan::{Overrides, Plan, RawPlan};

use super::CrashEvent;
use super::events::{Arranged, Way};
use crate::args::DurabilityArgs;
use crate::contenders::unknown_contender;
use crate::exit::Failure;
use crate::plan_source;

/// The word for the in-memory server, as a target and as a host.
const EMBEDDED: &str = "embedded";

/// A target that is measured.
pub struct Subject {
    /// The name of the contender; `None` for a target that nothing is set up for.
    pub contender: Option<String>,
    /// A run that has the target, and says how its hosts are set up.
    pub spec: RunSpec,
}

/// The measurement that the arguments ask for.
pub struct Request {
    /// The plan, which may be that of one target alone.
    pub plan: Plan,
    /// The targets, one after the other.
    pub subjects: Vec<Subject>,
    /// The promises, each once, the weakest first.
    pub promises: Vec<Durability>,
    /// The events, in the order in which they are made.
    pub events: Vec<Arranged>,
    /// Rounds before an event.
    pub rounds: u32,
    /// Crashes before which each promise that is kept has the last write.
    pub crashes: u32,
    /// The time from the last op to the event; `None` where ops are in flight.
    pub idle: Option<Duration>,
    /// Limit of a call.
    pub timeout: Duration,
    /// Limit for the target to be back.
    pub back_within: Duration,
    /// A command to run before files are read back.
    pub before_reading: Option<String>,
    /// Whether no progress is shown.
    pub is_quiet: bool,
}

impl Request {
    /// Reads the arguments.
    ///
    /// # Errors
    /// When they can't be used.
    pub fn read(args: &DurabilityArgs) -> Result<Self, Failure> {
        let plan = read_plan(args)?;
        let subjects = subjects_of(&plan, args)?;
        let first = &subjects[0].spec;
        let target = &first.target;
        if !is_embedded(target) && !args.fault.is_empty() {
            return Err(usage("--fault", "only the in-memory server has planned faults", EMBEDDED));
        }
        let mut promises: Vec<Durability> = Vec::new();
        for name in &args.promise {
            if let Some(promise) = Durability::from_name(name)
                && !promises.contains(&promise)
            {
                promises.push(promise);
            }
        }
        // The weakest first, however they were given.
        promises.sort_unstable();
        let events = arrange(args, &subjects, &plan.server.faults)?;
        let idle = match &args.idle {
            Some(text) => Some(read_time("--idle", text)?),
            None => None,
        };
        Ok(Self {
            plan,
            subjects,
            promises,
            events,
            rounds: args.rounds,
            crashes: args.crashes,
            idle,
            timeout: read_time("--timeout", &args.timeout)?,
            back_within: read_time("--back-within", &args.back_within)?,
            before_reading: args.before_reading.clone(),
            is_quiet: args.quiet,
        })
    }

    /// Says whether the plan sets up its systems.
    pub fn sets_up(&self) -> bool {
        self.subjects[0].spec.lab.is_some()
    }

    /// Lists the promises.
    pub fn promise_names(&self) -> String {
        let mut names = Vec::new();
        for promise in &self.promises {
            names.push(promise.name());
        }
        names.join(", ")
    }

    /// Describes how each promise is fulfilled at a target.
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

/// Says how a target is used.
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

/// Reads the target into a plan whose first run has it.
fn read_plan(args: &DurabilityArgs) -> Result<Plan, Failure> {
    let mut raw = match args.target.as_deref() {
        None | Some(EMBEDDED) => RawPlan::for_target(plan::parse_target(EMBEDDED)?),
        Some(text) => plan_source::named(text)?,
    };
    if let Some(version) = &args.nfsvers {
        raw.apply(&Overrides::default().with(Setting::NfsVers, &[version]))?;
    }
    plan_source::read_inputs(&mut raw)?;
    for text in &args.fault {
        raw.server.faults.planned.push(plan::fault::parse_fault(text)?);
    }
    plan::fault::check_faults(&raw.server.faults.planned)?;
    let plan = Plan::resolve(&raw, &plan_source::surroundings())?;
    if plan.runs.is_empty() {
        return Err(Failure::Usage("the plan has no target".to_owned()));
    }
    Ok(plan)
}

/// Returns what is measured: the one target, or each contender that the plan sets up.
fn subjects_of(plan: &Plan, args: &DurabilityArgs) -> Result<Vec<Subject>, Failure> {
    let first = &plan.runs[0];
    let is_lab = first.lab.is_some();
    let mut subjects: Vec<Subject> = Vec::new();
    for run in &plan.runs {
        if is_lab != run.lab.is_some() {
            let what = format!("{} is set up by the plan, and another target is not", run.target);
            return Err(Failure::Usage(format!("{what} (hint: measure them apart)")));
        }
        if !is_lab && run.target != first.target {
            let what =
                format!("durability is that of one target: {} or {}", first.target, run.target);
            return Err(Failure::Usage(format!("{what} (hint: a plan with one, or name it here)")));
        }
        check_target(&run.target)?;
        let name = contender_of(run);
        let contender = if is_lab { Some(name) } else { None };
        if subjects.iter().any(|known| known.contender == contender) {
            continue;
        }
        subjects.push(Subject { contender, spec: run.clone() });
    }
    if is_lab && let Some(wanted) = &args.contender {
        let known = contenders(&plan.runs);
        subjects.retain(|subject| subject.contender.as_ref() == Some(wanted));
        if subjects.is_empty() {
            return Err(unknown_contender("--contender", wanted, &known));
        }
    }
    if !is_lab && args.campaign.is_some() != args.contender.is_some() {
        let what = "--campaign and --contender belong together for a target of yours";
        return Err(Failure::Usage(format!("{what} (hint: `dfsbench contenders` has the names)")));
    }
    Ok(subjects)
}

fn check_target(target: &Target) -> Result<(), Failure> {
    if matches!(target, Target::Nfs(_) | Target::Directory { .. }) {
        return Ok(());
    }
    let what = format!("durability is that of files, and {target} keeps none");
    Err(Failure::Usage(format!("{what} (hint: a directory, nfs://..., `embedded`)")))
}

/// Says whether the target is the in-memory server of this process.
fn is_embedded(target: &Target) -> bool {
    target.nfs().is_some_and(|nfs| nfs.embedded)
}

/// Arranges the events that were named.
fn arrange(
    args: &DurabilityArgs,
    subjects: &[Subject],
    faults: &[PlannedFault],
) -> Result<Vec<Arranged>, Failure> {
    let first = &subjects[0].spec;
    if let Some(lab) = &first.lab {
        let arranged = arrange_set_up(args, lab)?;
        for Subject { spec, contender } in subjects {
            let keeper = spec.lab.as_ref().map(|lab| &lab.keeper().name);
            if let Some(host) = &args.power_cut
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
    if args.kill_client {
        events.push(Arranged { event: CrashEvent::KillClient, way: Way::KillClient });
    }
    if args.cut_network {
        events.push(Arranged { event: CrashEvent::CutNetwork, way: cut_network(args, target)? });
    }
    if args.kill_server {
        let way = kill_server(args, target, faults)?;
        events.push(Arranged { event: CrashEvent::KillServer, way });
    }
    if args.power_cut.is_some() || args.confirm_power_cut.is_some() {
        let way = power_cut(args, target, faults)?;
        events.push(Arranged { event: CrashEvent::PowerCut, way });
    }
    if args.lose_server.is_some() || args.confirm_lose_server.is_some() {
        let way = lose_server(args, target)?;
        events.push(Arranged { event: CrashEvent::LoseServer, way });
    }
    if events.is_empty() {
        let hint =
            "--kill-server, --power-cut HOST, --lose-server HOST, --kill-client or --cut-network";
        return Err(no_event(hint));
    }
    Ok(events)
}

/// Arranges the events of systems that the plan sets up: what it does by itself.
fn arrange_set_up(args: &DurabilityArgs, lab: &LabSpec) -> Result<Vec<Arranged>, Failure> {
    for (flag, is_given) in [
        ("--cut-network", args.cut_network),
        ("--lose-server", args.lose_server.is_some() || args.confirm_lose_server.is_some()),
        ("--stop-command", args.stop_command.is_some()),
        ("--start-command", args.start_command.is_some()),
        ("--before-reading", args.before_reading.is_some()),
    ] {
        if is_given {
            let what = "it can't be used with a plan that sets up its systems";
            let hint = "start a system by itself and name its address or directory";
            return Err(usage(flag, what, hint));
        }
    }
    let mut events = Vec::new();
    if args.kill_client {
        events.push(Arranged { event: CrashEvent::KillClient, way: Way::KillClient });
    }
    if args.kill_server {
        events.push(Arranged { event: CrashEvent::KillServer, way: Way::CrashSystem });
    }
    if args.power_cut.is_some() || args.confirm_power_cut.is_some() {
        events.push(Arranged { event: CrashEvent::PowerCut, way: planned_power_cut(args, lab)? });
    }
    if events.is_empty() {
        return Err(no_event("--kill-server, --power-cut HOST or --kill-client"));
    }
    Ok(events)
}

fn no_event(hint: &str) -> Failure {
    let what = "no event is named, and nothing is killed or cut without its name";
    Failure::Usage(format!("{what} (hint: {hint})"))
}

/// Arranges a restart of the in-memory server, which loses data only if a fault says so.
fn restart_embedded(faults: &[PlannedFault]) -> Way {
    use PlannedFault::{LoseCommitted, LoseLast, LoseUnstable};
    let loses = |fault: &PlannedFault| matches!(fault, LoseUnstable | LoseCommitted | LoseLast(_));
    Way::RestartEmbedded { loses_data: faults.iter().any(loses) }
}

fn kill_server(
    args: &DurabilityArgs,
    target: &Target,
    faults: &[PlannedFault],
) -> Result<Way, Failure> {
    match (&args.stop_command, &args.start_command) {
        (None, None) if is_embedded(target) => Ok(restart_embedded(faults)),
        (Some(make), Some(undo)) if !is_embedded(target) => Ok(Way::Commands {
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

fn cut_network(args: &DurabilityArgs, target: &Target) -> Result<Way, Failure> {
    let lasts = read_time("--cut-for", &args.cut_for)?;
    match (&args.cut_command, &args.restore_command) {
        (None, None) if is_embedded(target) => Ok(Way::StallEmbedded(lasts)),
        (Some(make), Some(undo)) if !is_embedded(target) => {
            Ok(Way::Commands { make: make.clone(), undo: Some(undo.clone()), lasts })
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

/// Arranges a loss of power of the plan's host that keeps the files; it has to be named twice.
fn planned_power_cut(args: &DurabilityArgs, lab: &LabSpec) -> Result<Way, Failure> {
    let host = named_twice("power-cut", args.power_cut.as_ref(), args.confirm_power_cut.as_ref())?;
    let keeper = lab.keeper();
    if host != keeper.name {
        let what = "it is not the plan's host that keeps the files";
        return Err(usage(&format!("--power-cut `{host}`"), what, &format!("`{}`", keeper.name)));
    }
    let undo = args.power_on_command.clone();
    let way = match (&args.power_cut_command, &keeper.ssh) {
        (Some(make), _) => Way::Commands { make: make.clone(), undo, lasts: Duration::ZERO },
        (None, Some(ssh)) => {
            let ssh_config = keeper.ssh_config.clone();
            Way::Sysrq { host: ssh.clone(), ssh_config, power_on: undo }
        }
        (None, None) => {
            let what = "this host keeps the files, and can't reset itself";
            return Err(usage("--power-cut", what, "a [[host]] with `ssh` in its place"));
        }
    };
    Ok(Way::SystemPower(Box::new(way)))
}

/// Arranges a loss of power; its host has to be named twice.
fn power_cut(
    args: &DurabilityArgs,
    target: &Target,
    faults: &[PlannedFault],
) -> Result<Way, Failure> {
    let host = named_twice("power-cut", args.power_cut.as_ref(), args.confirm_power_cut.as_ref())?;
    if (host == EMBEDDED) != is_embedded(target) {
        let what = "the in-memory server is the host `embedded`, and no other target is";
        return Err(usage(
            &format!("--power-cut `{host}`"),
            what,
            "the host that serves the target",
        ));
    }
    match (&args.power_cut_command, &args.power_on_command) {
        (None, None) if is_embedded(target) => Ok(restart_embedded(faults)),
        _ if is_embedded(target) => {
            Err(usage("--power-cut", "the in-memory server takes no commands", "leave them out"))
        }
        (Some(make), undo) => {
            Ok(Way::Commands { make: make.clone(), undo: undo.clone(), lasts: Duration::ZERO })
        }
        (None, power_on) => {
            Ok(Way::Sysrq { host, ssh_config: args.ssh_config.clone(), power_on: power_on.clone() })
        }
    }
}

/// Arranges the loss of one of several servers; it has to be named twice, and nothing undoes it.
fn lose_server(args: &DurabilityArgs, target: &Target) -> Result<Way, Failure> {
    let lost = args.lose_server.as_ref();
    let host = named_twice("lose-server", lost, args.confirm_lose_server.as_ref())?;
    if is_embedded(target) {
        let what = "the in-memory server is one server, and nothing is left of it";
        return Err(usage("--lose-server", what, "a directory or nfs://... of several servers"));
    }
    match &args.lose_command {
        Some(make) => Ok(Way::Commands { make: make.clone(), undo: None, lasts: Duration::ZERO }),
        None => Err(usage(
            &format!("--lose-server `{host}`"),
            "how it is lost is not known",
            "--lose-command, such as one that ends its processes by ssh and removes its data",
        )),
    }
}

/// Returns the host that an option and its confirmation both name.
fn named_twice(
    option: &str,
    host: Option<&String>,
    again: Option<&String>,
) -> Result<String, Failure> {
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

fn read_time(flag: &str, text: &str) -> Result<Duration, Failure> {
    match parse_time_ns(text) {
        Ok(ns) => Ok(Duration::from_nanos(ns)),
        Err(_) => {
            Err(usage(flag, &format!("`{text}` is not a time"), "such as 500ms, 10s or 2min"))
        }
    }
}

fn usage(flag: &str, what: &str, hint: &str) -> Failure {
    Failure::Usage(format!("{flag}: {what} (hint: {hint})"))
}
