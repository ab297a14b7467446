//! Disturbances of a soak: which ones, whether they fit into it, and whether they can be made.
//!
//! They come from flags, which win, or from the plan; each keeps its place, so that whatever is
//! wrong with it is reported with the line or the flag. Restarts and stalls that are planned as
//! faults of the in-memory server are disturbances like any other.

use model::soak::{Disturbance, FaultKind};
use model::{Host, LabSpec, RunSpec, Target};
use plan::fault::PlannedFault;
use plan::{Located, Place, PlanError, RawPlan};

use super::format_ms;

/// The disturbances of a soak, in the order of time.
pub struct PlannedDisturbances {
    all: Vec<Located<Disturbance>>,
    /// The name of the plan's text in messages.
    source_name: String,
}

/// How long a soak is, and each of its segments.
#[derive(Clone, Copy)]
pub struct Lengths {
    /// Length of a segment, in milliseconds.
    pub segment_ms: u64,
    /// Length of the soak, in milliseconds.
    pub duration_ms: u64,
}

/// Why a disturbance can't be made, and what could be done.
type Refusal = (String, &'static str);

/// Reads what `--fault` asks for: a fault joins those of the plan, and all that have an instant are
/// taken out and returned as disturbances, so that the soak reports what they did.
///
/// # Errors
/// When one can't be read.
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
        timed.push(Located { value, place: Place::Whole });
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
    /// Reads what flags ask for, or else the plan, beside the faults that have an instant; if none
    /// of them says anything, they are `default`.
    ///
    /// # Errors
    /// When one can't be read, is not over within its segment, or before the next one begins.
    pub fn read(
        texts: &[String],
        timed: Vec<Located<Disturbance>>,
        raw: &RawPlan,
        default: Vec<Located<Disturbance>>,
        lengths: Lengths,
    ) -> Result<Self, PlanError> {
        let mut all = match texts {
            [] if !raw.disturbances.is_empty() => raw.disturbances.clone(),
            [] if timed.is_empty() => default,
            [] => Vec::new(),
            [none] if none == "none" => Vec::new(),
            texts => {
                let mut read = Vec::new();
                for text in texts {
                    read.push(plan::parse_disturbance("--disturb", text)?);
                }
                read
            }
        };
        all.extend(timed);
        all.sort_by_key(|one| one.value.at_ms);
        let planned = Self { all, source_name: raw.source_name.clone() };
        planned.refuse_by(|number, one| planned.fits(number, one, lengths))?;
        Ok(planned)
    }

    /// Returns the disturbances in the order of time.
    pub fn disturbances(&self) -> Vec<Disturbance> {
        let mut all = Vec::new();
        for one in &self.all {
            all.push(one.value.clone());
        }
        all
    }

    /// Refuses disturbances that can't be made here.
    ///
    /// # Errors
    /// When there is one.
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
            let (place, hint) = (*place, Some(hint.to_owned()));
            return Err(PlanError { source_name, place, message, hint });
        }
        Ok(())
    }

    /// Says whether one is over within its segment, and before the next one begins.
    fn fits(&self, number: usize, one: &Disturbance, lengths: Lengths) -> Result<(), Refusal> {
        let Lengths { segment_ms, duration_ms } = lengths;
        if one.at_ms >= duration_ms {
            let what = format!("the soak measures for {} only", format_ms(duration_ms));
            return Err((what, "choose an earlier instant, or a longer --duration"));
        }
        if (one.at_ms % segment_ms).saturating_add(one.lasts_ms) >= segment_ms {
            let what =
                format!("it does not end before its segment of {} ends", format_ms(segment_ms));
            return Err((what, "choose another instant, or a longer --segment"));
        }
        let ends_ms = one.at_ms.saturating_add(one.lasts_ms);
        // They are in the order of time, so that the next one begins first of all later ones.
        if self.all.get(number + 1).is_some_and(|next| next.value.at_ms <= ends_ms) {
            let what = "it does not end before the next one begins".to_owned();
            return Err((
                what,
                "let them follow each other: effects that overlap can't be separated",
            ));
        }
        Ok(())
    }
}

/// The disturbances of the in-memory server by default: a third into the first segment
/// it restarts, a third into the second it stalls.
pub fn default_of_embedded(
    Lengths { segment_ms, duration_ms }: Lengths,
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
        disturbances.push(Located { value, place: Place::Whole });
    }
    disturbances
}

/// Says whether a run has whom it can be done to, and who may do it.
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

/// Checks a disturbance that only the in-memory server of this process can make.
fn to_embedded(target: &Target, one: &Disturbance) -> Result<(), Refusal> {
    let is_embedded = target.nfs().is_some_and(|nfs| nfs.embedded);
    match &one.host {
        None if is_embedded => Ok(()),
        _ => Err((
            format!("this process can't disturb {target} so"),
            "only the in-memory server, `embedded`, has this disturbance",
        )),
    }
}

/// Checks a disturbance of the server that the plan sets up.
fn to_server(lab: Option<&LabSpec>, one: &Disturbance) -> Result<(), Refusal> {
    let Some(lab) = lab else {
        let whom = one.host.as_deref().unwrap_or("the server");
        return Err((
            format!("this process can't disturb {whom} so"),
            "it needs a host that the plan sets up, as root: [[host]] and [target.server]",
        ));
    };
    let step = lab::disturbance(lab, one.fault).map_err(|why| (why, "`dfsbench soak --help`"))?;
    match &one.host {
        Some(host) if *host != step.host => Err((
            format!("{} can't disturb host {host}", one.fault),
            "this one disturbs the host that serves",
        )),
        _ => Ok(()),
    }
}

/// The host that is named, which has to be one of the run's.
fn find_named_host<'r>(
    hosts: &[&'r Host],
    one: &Disturbance,
    hint: &'static str,
) -> Result<&'r Host, Refusal> {
    let Some(name) = &one.host else {
        return Err((format!("it names no host for {}", one.fault), hint));
    };
    let mut names = Vec::new();
    for host in hosts {
        if host.name == *name {
            return Ok(host);
        }
        names.push(host.name.as_str());
    }
    if names.is_empty() {
        return Err((format!("there is no host `{name}`: only this process is used"), hint));
    }
    Err((format!("`{name}` is none of its hosts ({})", names.join(", ")), hint))
}

/// Checks a disturbance of the agent of a client host, which another agent has to replace.
fn to_client(run: &RunSpec, one: &Disturbance) -> Result<(), Refusal> {
    let hint = "`on` one of the client hosts: `hosts` of the [[target]]";
    if run.lab.is_some() {
        let what = "a client that is killed would leave what the plan set up there".to_owned();
        return Err((what, "a target with `url` or `path`, and `hosts`"));
    }
    find_named_host(&Vec::from_iter(run.client_hosts()), one, hint)?;
    if run.client_hosts().len() < 2 {
        let what = "there is one client host, and no other to go on working".to_owned();
        return Err((what, "two client hosts, or `slots = 2` in its [[host]]"));
    }
    Ok(())
}

/// Checks a disturbance of the wall clock of a host, which must not be this one's.
fn to_clock(run: &RunSpec, one: &Disturbance) -> Result<(), Refusal> {
    let mut hosts = Vec::new();
    if let Some(lab) = &run.lab {
        hosts.extend(lab.hosts());
    }
    hosts.extend(run.client_hosts());
    let hint = "`on` a host with `ssh`, as root";
    let host = find_named_host(&hosts, one, hint)?;
    if host.ssh.is_none() {
        let what = format!("host {} shares the clock of this host", host.name);
        return Err((what, hint));
    }
    Ok(())
}
