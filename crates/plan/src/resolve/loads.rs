//! The runs of several loads: each alone, each pair of three or more, and all together.
//!
//! Loads that run together form a group, with one run each. For each combination of target, backend
//! and levels of the factors, every load must have exactly one run, so that it is clear which ones
//! belong together. A load must end by time, or the others would be left alone.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::setting::{Setting, Value};
use model::units::Nanos;
use model::{BackendKind, Host, NamedLoad, RunSpec};

use crate::resolve::checks::{self, WrittenSettings};
use crate::resolve::placement;
use crate::resolve::product::{base_run, product};
use crate::resolve::server::ServerPlan;
use crate::resolve::surroundings::Surroundings;
use crate::syntax::error::{Fault, PlanError, PlanPosition};
use crate::syntax::limits;
use crate::syntax::raw::{RawLoad, RawPlan, RawTarget, RawWorkload};
use crate::syntax::suggestion::unknown_word;

/// Name of the host that stands for this one, which no plan can have.
pub(crate) const HERE: &str = "this host";

/// Makes the runs of all loads. `note` gets each run with the index of its workload.
pub(crate) fn runs_of_loads(
    raw: &RawPlan,
    around: &Surroundings,
    server: &ServerPlan,
    mut note: impl FnMut(usize, &RunSpec, &WrittenSettings<'_>),
) -> Result<Vec<RunSpec>, PlanError> {
    check_loads(raw)?;
    let mut runs = Vec::new();
    let mut group = 0;
    for (target, backend) in raw.places(&raw.workloads[0]) {
        let hosts = hosts_of_loads(raw, target, around)?;
        for pinned in combinations(raw, target, server)? {
            let mut loads = Vec::with_capacity(raw.workloads.len());
            for (number, workload) in raw.workloads.iter().enumerate() {
                let written = written(raw, target, workload, server);
                let place = Place { target, around, backend, hosts: &hosts[number] };
                let run = make_run(place, workload, &written, &pinned)?;
                note(number, &run, &written);
                loads.push(run);
            }
            add_groups(&loads, &mut group, &mut runs);
        }
    }
    Ok(runs)
}

/// Where a load works.
#[derive(Clone, Copy)]
struct Place<'a> {
    target: &'a RawTarget,
    around: &'a Surroundings,
    backend: BackendKind,
    hosts: &'a [Host],
}

fn written<'a>(
    raw: &'a RawPlan,
    target: &'a RawTarget,
    workload: &'a RawWorkload,
    server: &'a ServerPlan,
) -> WrittenSettings<'a> {
    let target = target.what.settings();
    WrittenSettings { workload: &workload.settings, target, factors: &raw.factors, server }
}

/// Returns the names and times of a load; every workload of the plan has them.
fn load_of(workload: &RawWorkload) -> &RawLoad {
    workload.load.as_ref().expect("a plan has only loads, or none")
}

/// Refuses loads that can't be told from each other, and settings with several levels.
fn check_loads(raw: &RawPlan) -> Result<(), PlanError> {
    let mut seen = HashSet::new();
    for workload in &raw.workloads {
        let RawLoad { name, start_ms, end_ms, .. } = load_of(workload);
        if !seen.insert(&name.value) {
            let what = format!("two loads are called `{}`", name.value);
            return Err(Fault::new(what).hint("give each its own name").at(name.place));
        }
        if let Some(end) = end_ms
            && end.value <= start_ms.map_or(0, |start| start.value)
        {
            let what = format!("load `{}` must end after it starts", name.value);
            return Err(Fault::new(what)
                .hint("end counts from the start of the window")
                .at(end.place));
        }
        if let (Some(end), Some([duration, ..])) =
            (end_ms, workload.settings.get(Setting::Duration))
        {
            let what = format!("load `{}` has both an end and a duration", name.value);
            let place =
                if duration.place == PlanPosition::Whole { end.place } else { duration.place };
            return Err(Fault::new(what).hint("leave one of them out").at(place));
        }
        for setting in Setting::ALL {
            if let Some([_, second, ..]) = workload.settings.get(setting) {
                let what = format!("load `{}` needs one value of it", name.value);
                let hint = "several values go into [factors], where they apply to all loads";
                return Err(Fault::new(what).hint(hint).of_key(setting.key(), second.place));
            }
        }
    }
    let loads = raw.workloads.len();
    let name = &load_of(&raw.workloads[loads - 1]).name;
    if loads < 2 {
        let what = format!("load `{}` has no other load to run beside", name.value);
        let hint = "add a [[load]], or write it as a [[workload]]";
        return Err(Fault::new(what).hint(hint).at(name.place));
    }
    if loads > limits::LOADS_MAX {
        let what = format!("a plan has at most {} loads, not {loads}", limits::LOADS_MAX);
        return Err(Fault::new(what).hint("each pair is measured, too").at(name.place));
    }
    Ok(())
}

/// Returns the agents of each load. Loads that share a host have agents of their own on it.
fn hosts_of_loads(
    raw: &RawPlan,
    target: &RawTarget,
    around: &Surroundings,
) -> Result<Vec<Vec<Host>>, PlanError> {
    let mut all = target.agents(around).to_vec();
    let names: Vec<String> = all.iter().map(|host| host.name_and_slot().0.to_owned()).collect();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    if all.is_empty() {
        let client = target.what.lab().map(|lab| lab.client.as_ref().unwrap_or(&lab.server));
        all.push(client.cloned().unwrap_or_else(|| Host::local(HERE)));
    }
    // Number of agents on each host so far.
    let mut taken: HashMap<String, u32> = HashMap::new();
    let mut hosts_of_loads = Vec::with_capacity(raw.workloads.len());
    for workload in &raw.workloads {
        let mut agents = Vec::new();
        match &load_of(workload).hosts {
            None => agents.extend(all.iter()),
            Some(listed) => {
                for name in listed {
                    let before = agents.len();
                    agents.extend(all.iter().filter(|host| host.name_and_slot().0 == name.value));
                    if agents.len() == before || known.is_empty() {
                        let target = &target.name.value;
                        let mut fault = unknown_word("host", &name.value, &known);
                        fault.message = format!("{} of target `{target}`", fault.message);
                        if known.is_empty() {
                            fault = fault.hint("name its hosts under `hosts` of the [[target]]");
                        }
                        return Err(fault.of_key("hosts", name.place));
                    }
                }
            }
        }
        let mut own = Vec::with_capacity(agents.len());
        for agent in agents {
            let (name, _) = agent.name_and_slot();
            let slot = taken.entry(name.to_owned()).or_default();
            *slot += 1;
            let host = Host { name: name.to_owned(), ..agent.clone() };
            own.push(if *slot == 1 { host } else { host.for_agent(*slot) });
        }
        hosts_of_loads.push(own);
    }
    Ok(hosts_of_loads)
}

/// Returns each combination of the settings that have several levels.
fn combinations(
    raw: &RawPlan,
    target: &RawTarget,
    server: &ServerPlan,
) -> Result<Vec<BTreeMap<Setting, Value>>, PlanError> {
    let mut all = vec![BTreeMap::new()];
    for setting in Setting::ALL {
        let mut levels = Vec::new();
        let mut overriding = None;
        for workload in &raw.workloads {
            match written(raw, target, workload, server).written(setting) {
                Some(many) if many.len() > 1 => levels = many.to_vec(),
                Some([one]) if workload.settings.get(setting).is_some() => {
                    overriding = Some((workload, one.place));
                }
                _ => {}
            }
        }
        if levels.is_empty() {
            continue;
        }
        if let Some((workload, place)) = overriding {
            let name = &load_of(workload).name.value;
            let what = format!("the plan has several values of it, but load `{name}` has its own");
            let hint = "a factor must apply to all loads";
            return Err(Fault::new(what).hint(hint).of_key(setting.key(), place));
        }
        let mut longer = Vec::with_capacity(all.len() * levels.len());
        for pinned in all {
            for level in &levels {
                let mut next: BTreeMap<Setting, Value> = pinned.clone();
                next.insert(setting, level.value.clone());
                longer.push(next);
            }
        }
        all = longer;
    }
    Ok(all)
}

/// Makes the only run of a load at these levels of the factors.
fn make_run(
    place: Place<'_>,
    workload: &RawWorkload,
    written: &WrittenSettings<'_>,
    pinned: &BTreeMap<Setting, Value>,
) -> Result<RunSpec, PlanError> {
    let Place { target, around, backend, hosts } = place;
    placement::check(target, around, written)?;
    let load = load_of(workload);
    check_hosts(hosts, load, written)?;
    let whole = base_run(target, around, backend, workload);
    let lab = whole.lab.clone();
    let mut base = whole;
    base.placement.hosts = hosts.to_vec();
    placement::derive_fields(&mut base);
    let levels = |setting: Setting, run: &RunSpec| match pinned.get(&setting) {
        Some(level) => vec![level.clone()],
        None => written.levels(setting, run),
    };
    let made = product(base, levels)?;
    let mut run = made.into_iter().next().expect("a product has at least one run");
    // The setup of hosts is the same for all loads, whichever of them they use.
    if let (Some(own), Some(whole)) = (&mut run.lab, lab) {
        own.client = whole.client;
        own.more_clients = whole.more_clients;
    }
    let start_ms = load.start_ms.map_or(0, |start| start.value);
    if let Some(end) = load.end_ms {
        let lasts_ms = end.value - start_ms;
        match run.passes().first() {
            Some(pass) if pass.is_timed() => run.duration_ms = lasts_ms,
            _ => run.load.time_max_ms = lasts_ms,
        }
    }
    let name = load.name.value.clone();
    run.named_load = Some(Box::new(NamedLoad { name, start_ms, ..NamedLoad::default() }));
    check_run(&run, load, written, pinned)?;
    Ok(run)
}

/// Refuses more client hosts than a load has.
fn check_hosts(
    hosts: &[Host],
    load: &RawLoad,
    written: &WrittenSettings<'_>,
) -> Result<(), PlanError> {
    let name = &load.name;
    let hosts = u64::from(Host::count_distinct(hosts));
    for level in written.written(Setting::ClientHosts).unwrap_or_default() {
        if let Value::Number(wanted) = level.value
            && wanted > hosts
        {
            let plural = if hosts == 1 { "" } else { "s" };
            let what = format!("load `{}` has {hosts} host{plural}, not {wanted}", name.value);
            let fault = Fault::new(what).hint("give it more under `hosts`");
            return Err(fault.of_key(Setting::ClientHosts.key(), level.place));
        }
    }
    Ok(())
}

/// Refuses a run that can't be part of a group.
fn check_run(
    run: &RunSpec,
    load: &RawLoad,
    written: &WrittenSettings<'_>,
    pinned: &BTreeMap<Setting, Value>,
) -> Result<(), PlanError> {
    let name = &load.name;
    if let Some(error) = checks::contradiction(run, written) {
        return Err(error);
    }
    checks::check(run, written)?;
    for setting in pinned.keys() {
        if !setting.applies(run) {
            let what =
                format!("it has several values, but load `{}` doesn't depend on it", name.value);
            let levels = written.written(*setting).unwrap_or_default();
            let place = levels.first().map_or(name.place, |level| level.place);
            let hint = "a factor must apply to all loads";
            return Err(Fault::new(what).hint(hint).of_key(setting.key(), place));
        }
    }
    let [pass] = run.passes() else {
        let names: Vec<_> = run.passes().iter().map(|pass| pass.name()).collect();
        let what =
            format!("load `{}` has {} passes: {}", name.value, names.len(), names.join(", "));
        let hint = format!("choose one, such as `passes = \"{}\"`", names.first().unwrap_or(&""));
        return Err(Fault::new(what).hint(hint).at(name.place));
    };
    match run.time_max_ns(*pass) {
        None => {
            let what = format!("pass {pass} of load `{}` has no duration", name.value);
            let hint = "choose mixed or op_mix, or set time_max or end";
            Err(Fault::new(what).hint(hint).at(name.place))
        }
        Some(lasts_ns) if run.load.ops_max > 0 || run.load.bytes_max > 0 => {
            let what = format!(
                "load `{}` may end before its {}, by its number of ops or bytes",
                name.value,
                Nanos(lasts_ns)
            );
            Err(Fault::new(what).hint("leave ops and bytes out").at(name.place))
        }
        Some(_) => Ok(()),
    }
}

/// Adds each load alone, each pair if there are more than two, and all of them.
fn add_groups(loads: &[RunSpec], group: &mut u32, runs: &mut Vec<RunSpec>) {
    runs.extend_from_slice(loads);
    let all: Vec<usize> = (0..loads.len()).collect();
    let mut members = Vec::new();
    if loads.len() > 2 {
        for first in 0..loads.len() {
            members.extend((first + 1..loads.len()).map(|second| vec![first, second]));
        }
    }
    members.push(all);
    for together in members {
        *group += 1;
        for &own in &together {
            let mut run = loads[own].clone();
            let mut beside = Vec::with_capacity(together.len());
            let mut shares_hosts = false;
            for &other in together.iter().filter(|other| **other != own) {
                beside.extend(loads[other].named_load.as_ref().map(|load| load.name.clone()));
                shares_hosts |= have_common_host(&run, &loads[other]);
            }
            if let Some(load) = &mut run.named_load {
                **load = NamedLoad { beside, group: *group, shares_hosts, ..(**load).clone() };
            }
            runs.push(run);
        }
    }
}

fn have_common_host(one: &RunSpec, other: &RunSpec) -> bool {
    let names = |run: &RunSpec| -> HashSet<String> {
        let hosts = run.client_hosts().iter();
        hosts.map(|host| host.name_and_slot().0.to_owned()).collect()
    };
    !names(one).is_disjoint(&names(other))
}
