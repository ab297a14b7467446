//! The disturbances of a soak, and the checks whether they fit into it and can be made.
//!
//! They come from flags or else from the plan. Each keeps its place, so that errors name the line
//! or flag. Restarts and stalls that are planned as faults of the in-memory server are treated as
//! disturbances as well.

use model::soak::{Disturbance, FaultKind};
use model::{Host, LabSpec, RunSpec, Target};
use plan::fault::PlannedFault;
use plan::{Located, PlanError, PlanPosition, RawPlan};

use super::format_ms;

/// The disturbances of a soak, sorted by time.
pub struct PlannedDisturbances {
    all: Vec<Located<Disturbance>>,
    source_name: String,
}

/// Length of a soak and of each of its segments.
#[derive(Clone, Copy)]
pub struct SoakLengths {
    /// Length of a segment, in milliseconds.
    pub segment_ms: u64,
    /// Length of the soak, in milliseconds.
    pub duration_ms: u64,
}

/// Why a disturbance can't be made, and a hint.
type Refusal = (String, &'static str);

/// Parses the values of `--fault` and adds them to the faults of the plan. Faults at a fixed time
/// are removed and returned as disturbances, so that the soak reports their effect.
pub fn take_timed_faults(
    texts: &[String],
    raw: &mut RawPlan,
) -> Result<Vec<Located<Disturbance>>, PlanError> {
    let mut timed = Vec::new();
    raw.server.faults.planned.retain(|fault| {
        let (fault, at_ns, lasts_ns) = match fault {
            PlannedFault::Restart { at_ns } => (FaultKind::ServerRestart, *at_ns, 0),
            PlannedFault::Stall { lasts_ns, at_ns } => (FaultKind::ServerStall, *at_ns, *lasts_ns),
            _ => return true,
        };
        let [at_ms, lasts_ms] = [at_ns, lasts_ns].map(|ns| ns / 1_000_000);
        let value = Disturbance { fault, host: None, at_ms, lasts_ms, by_ms: 0 };
        timed.push(Located { value, place: PlanPosition::Whole });
        false
    });
    for text in texts {
        if plan::names_disturbance(text) {
            timed.push(plan::parse_disturbance("--fault", text)?);
        } else {
            raw.server.faults.planned.push(plan::fault::parse_fault(text)?);
        }
    }
    Ok(timed)
}

impl PlannedDisturbances {
    /// Parses the disturbances of the flags, or else of the plan, and adds the faults at a fixed
    /// time. Uses `default` if there are none.
    ///
    /// # Errors
    /// If a disturbance is invalid, or is not over before its segment ends or the next one begins.
    pub fn read(
        texts: &[String],
        timed: Vec<Located<Disturbance>>,
        raw: &RawPlan,
        default: Vec<Located<Disturbance>>,
        lengths: SoakLengths,
    ) -> Result<Self, PlanError> {
        let mut all = match texts {
            [] if !raw.disturbances.is_empty() => raw.disturbances.clone(),
            [] if timed.is_empty() => default,
            [] => Vec::new(),
            [none] if none == "none" => Vec::new(),
            texts => texts
                .iter()
                .map(|text| plan::parse_disturbance("--disturb", text))
                .collect::<Result<Vec<_>, _>>()?,
        };
        all.extend(timed);
        all.sort_by_key(|one| one.value.at_ms);
        let planned = Self { all, source_name: raw.source_name.clone() };
        planned.refuse_by(|number, one| planned.fits(number, one, lengths))?;
        Ok(planned)
    }

    /// Returns the disturbances sorted by time.
    pub fn disturbances(&self) -> Vec<Disturbance> {
        let mut all = Vec::new();
        for one in &self.all {
            all.push(one.value.clone());
        }
        all
    }

    /// Refuses disturbances that are not possible in this run.
    pub fn check(&self, run: &RunSpec) -> Result<(), PlanError> {
        self.refuse_by(|_, one| can_be_made(run, one))
    }

    /// Refuses the first disturbance that `check` refuses.
    fn refuse_by(
        &self,
        check: impl Fn(usize, &Disturbance) -> Result<(), Refusal>,
    ) -> Result<(), PlanError> {
        for (number, Located { value, place }) in self.all.iter().enumerate() {
            let Err((what, hint)) = check(number, value) else { continue };
            let source_name = self.source_name.clone();
            let message = format!("`{value}`: {what}");
            return Err(PlanError {
                source_name,
                place: *place,
                message,
                hint: Some(hint.to_owned()),
            });
        }
        Ok(())
    }

    /// Checks that a disturbance is over before its segment ends and the next disturbance begins.
    fn fits(&self, number: usize, one: &Disturbance, lengths: SoakLengths) -> Result<(), Refusal> {
        let SoakLengths { segment_ms, duration_ms } = lengths;
        if one.at_ms >= duration_ms {
            let what = format!("the soak lasts only {}", format_ms(duration_ms));
            return Err((what, "choose an earlier time or a longer --duration"));
        }
        if (one.at_ms % segment_ms).saturating_add(one.lasts_ms) >= segment_ms {
            let what =
                format!("it lasts beyond the end of its segment of {}", format_ms(segment_ms));
            return Err((what, "choose another time or a longer --segment"));
        }
        let ends_ms = one.at_ms.saturating_add(one.lasts_ms);
        // They are sorted by time, so only the next one has to be checked.
        if self.all.get(number + 1).is_some_and(|next| next.value.at_ms <= ends_ms) {
            let what = "it overlaps with the next disturbance".to_owned();
            return Err((
                what,
                "choose times that do not overlap, so that their effects can be separated",
            ));
        }
        Ok(())
    }
}

/// Returns the default disturbances of the in-memory server: a restart after a third of the first
/// segment, and a stall after a third of the second.
pub(super) fn default_of_embedded(
    SoakLengths { segment_ms, duration_ms }: SoakLengths,
) -> Vec<Located<Disturbance>> {
    let stall_at_ms = if duration_ms >= 2 * segment_ms {
        segment_ms + segment_ms / 3
    } else {
        segment_ms / 3 * 2
    };
    let faults = [
        (FaultKind::ServerRestart, segment_ms / 3, 0),
        (FaultKind::ServerStall, stall_at_ms, segment_ms / 5),
    ];
    let mut disturbances = Vec::new();
    for (fault, at_ms, lasts_ms) in faults {
        let value = Disturbance { fault, host: None, at_ms, lasts_ms, by_ms: 0 };
        disturbances.push(Located { value, place: PlanPosition::Whole });
    }
    disturbances
}

/// Checks that the run has a suitable target for the disturbance, and a host that can make it.
fn can_be_made(run: &RunSpec, one: &Disturbance) -> Result<(), Refusal> {
    match one.fault {
        FaultKind::ServerRestart | FaultKind::ServerStall => to_embedded(&run.target, one),
        FaultKind::ClientKill => to_client(run, one),
        FaultKind::ClockStep => to_clock(run, one),
        FaultKind::NfsdStop | FaultKind::NetworkCut | FaultKind::DiskFull => {
            to_server(run.lab.as_deref(), one)
        }
    }
}

/// Checks a disturbance of the in-memory server in this process.
fn to_embedded(target: &Target, one: &Disturbance) -> Result<(), Refusal> {
    let is_embedded = target.nfs().is_some_and(|nfs| nfs.embedded);
    match &one.host {
        None if is_embedded => Ok(()),
        _ => Err((
            format!("this disturbance is not possible on {target}"),
            "only the in-memory server, `embedded`, supports it",
        )),
    }
}

/// Checks a disturbance of a server that the plan sets up.
fn to_server(lab: Option<&LabSpec>, one: &Disturbance) -> Result<(), Refusal> {
    let Some(lab) = lab else {
        let whom = one.host.as_deref().unwrap_or("the server");
        return Err((
            format!("this disturbance is not possible on {whom}"),
            "it needs a server that the plan sets up as root, with [[host]] and [target.server]",
        ));
    };
    let step = lab::disturbance(lab, one.fault)
        .map_err(|why| (why, "`dfsbench soak --help` lists the disturbances"))?;
    match &one.host {
        Some(host) if *host != step.host => Err((
            format!("{} is not possible on host {host}", one.fault),
            "it is only possible on the server",
        )),
        _ => Ok(()),
    }
}

/// Returns the named host, which must belong to the run.
fn find_named_host<'r>(
    hosts: &[&'r Host],
    one: &Disturbance,
    hint: &'static str,
) -> Result<&'r Host, Refusal> {
    let Some(name) = &one.host else {
        return Err((format!("{} needs a host", one.fault), hint));
    };
    let mut names = Vec::new();
    for host in hosts {
        if host.name == *name {
            return Ok(host);
        }
        names.push(host.name.as_str());
    }
    if names.is_empty() {
        return Err((
            format!("unknown host `{name}`: the plan has no hosts except this one"),
            hint,
        ));
    }
    Err((format!("`{name}` is not a host of this run ({})", names.join(", ")), hint))
}

/// Checks a disturbance of a client's agent, which needs another agent to replace it.
fn to_client(run: &RunSpec, one: &Disturbance) -> Result<(), Refusal> {
    let hint = "use `on HOST` with a client host, one of `hosts` of the [[target]]";
    if run.lab.is_some() {
        let what = "a killed client could not undo what the plan set up on it".to_owned();
        return Err((what, "use a target with `url` or `path`, and `hosts`"));
    }
    find_named_host(&Vec::from_iter(run.client_hosts()), one, hint)?;
    if run.client_hosts().len() < 2 {
        let what = "there is only one client host, so none would continue".to_owned();
        return Err((what, "use two client hosts, or `slots = 2` in its [[host]]"));
    }
    Ok(())
}

/// Checks a disturbance of a host's wall clock, which must not be the local host.
fn to_clock(run: &RunSpec, one: &Disturbance) -> Result<(), Refusal> {
    let mut hosts = Vec::new();
    if let Some(lab) = &run.lab {
        hosts.extend(lab.hosts());
    }
    hosts.extend(run.client_hosts());
    let hint = "use `on HOST` with a host that has `ssh`, as root";
    let host = find_named_host(&hosts, one, hint)?;
    if host.ssh.is_none() {
        let what = format!("host {} shares its clock with this host", host.name);
        return Err((what, hint));
    }
    Ok(())
}
