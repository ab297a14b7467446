//! What a plan would do to hosts, in its order, as commands that people can read and try.
//!
//! Every state in which hosts are set up is shown once, with what is left as it is, undone and
//! done where the runs before it end. Nothing is executed, and no host is asked.

use std::fmt::Write as _;

use lab::{commands, compose, redo_from, stays};
use model::{Host, Invalidation, LabSpec, LabStep};
use plan::Plan;

/// So many hosts at work are named.
const NAMED_MAX: usize = 10;

/// Describes what is done to hosts; empty for plans that leave them alone.
pub fn describe(plan: &Plan) -> String {
    let hosts = plan.hosts();
    if hosts.is_empty() && plan.runs.iter().all(|run| run.placement.hosts.is_empty()) {
        return String::new();
    }
    let mut text = String::from("\nhosts:\n");
    for host in hosts {
        // Writing to a String never fails.
        let _ = writeln!(text, "  {}: {}", host.name, reached(host));
    }
    text.push_str(&who_works(plan));
    if plan.runs.iter().all(|run| run.lab.is_none()) {
        return text;
    }
    let mut seen: Vec<&LabSpec> = Vec::new();
    let mut applied: Vec<LabStep> = Vec::new();
    let changes = changes(plan);
    for (runs, lab) in changes.iter().map(|group| (group, group_lab(plan, group))) {
        let Some(lab) = lab.filter(|lab| !seen.contains(lab)) else { continue };
        seen.push(lab);
        let _ = writeln!(text, "\nstate {}, for {}:", seen.len(), numbers(runs));
        match compose(lab) {
            Ok(steps) => {
                transition(&mut text, &applied, &steps);
                invalidation(&mut text, lab, &steps);
                applied = steps;
            }
            Err(error) => {
                let _ = writeln!(text, "  can't be made: {error}");
            }
        }
    }
    text.push_str("\nat the end all of it is undone, the last first\n");
    let _ = writeln!(text, "{}", told(plan, changes.len()));
    for (host, device) in plan.destroys() {
        let device = device.display();
        let _ = writeln!(text, "lost:     all on {device} of {host} (--allow-destroy {device})");
    }
    text
}

fn reached(host: &Host) -> String {
    match (&host.ssh, &host.ssh_config) {
        (Some(ssh), Some(config)) => format!("ssh -F {} {ssh}", config.display()),
        (Some(ssh), None) => format!("ssh {ssh}"),
        (None, _) => "this host".to_owned(),
    }
}

/// Which hosts work in which runs, where that is a choice.
fn who_works(plan: &Plan) -> String {
    let mut parts: Vec<(&[Host], Vec<usize>)> = Vec::new();
    for (index, run) in plan.runs.iter().enumerate() {
        let hosts = run.placement.hosts.as_slice();
        match parts.iter_mut().find(|(known, _)| *known == hosts) {
            Some((_, runs)) => runs.push(index),
            None if hosts.is_empty() => {}
            None => parts.push((hosts, vec![index])),
        }
    }
    let mut text = String::new();
    for (hosts, runs) in parts {
        let first: Vec<&str> =
            hosts.iter().take(NAMED_MAX).map(|host| host.name.as_str()).collect();
        let more = match hosts.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let runs = numbers(&runs);
        let _ = writeln!(text, "  at work in {runs}: {}{more}", first.join(", "));
    }
    text
}

/// Runs that are made one after the other without a change of hosts between them.
fn changes(plan: &Plan) -> Vec<Vec<usize>> {
    let possible = |run: &usize| plan.runs[*run].impossible().is_none();
    let mut changes: Vec<Vec<usize>> = Vec::new();
    for run in plan.order().into_iter().map(|step| step.run).filter(possible) {
        match changes.last_mut().filter(|last| alike(plan, last[0], run)) {
            Some(last) if last.contains(&run) => {}
            Some(last) => last.push(run),
            None => changes.push(vec![run]),
        }
    }
    changes
}

fn alike(plan: &Plan, one: usize, other: usize) -> bool {
    match (&plan.runs[one].lab, &plan.runs[other].lab) {
        (Some(one), Some(other)) => one.agrees(other, LabSpec::LAYERS),
        (one, other) => one.is_none() && other.is_none(),
    }
}

fn group_lab<'a>(plan: &'a Plan, runs: &[usize]) -> Option<&'a LabSpec> {
    plan.runs[runs[0]].lab.as_deref()
}

/// Numbers of runs as the matrix above has them.
fn numbers(runs: &[usize]) -> String {
    let mut numbers: Vec<usize> = runs.iter().map(|run| run + 1).collect();
    numbers.sort_unstable();
    let shown: Vec<String> = numbers.iter().map(usize::to_string).collect();
    format!("run{} {}", if shown.len() == 1 { "" } else { "s" }, shown.join(", "))
}

/// What is left, undone and done between two states.
fn transition(text: &mut String, applied: &[LabStep], steps: &[LabStep]) {
    let (stay, stand) = stays(applied, steps);
    let others = |steps: &'_ [LabStep], left: Vec<bool>| -> Vec<LabStep> {
        let changed = steps.iter().zip(left).filter(|(_, left)| !left);
        changed.map(|(step, _)| step.clone()).collect()
    };
    match stand.iter().filter(|stands| **stands).count() {
        0 => {}
        kept => _ = writeln!(text, "  {kept} of {} steps stand already", steps.len()),
    }
    for step in others(applied, stay).iter().rev() {
        for command in commands(&step.action).iter().rev() {
            let _ = writeln!(text, "  {}: undo {command}", step.host);
        }
    }
    for step in &others(steps, stand) {
        for command in commands(&step.action) {
            let _ = writeln!(text, "  {}: {command}", step.host);
        }
    }
    if steps.is_empty() {
        text.push_str("  nothing\n");
    }
}

fn invalidation(text: &mut String, lab: &LabSpec, steps: &[LabStep]) {
    let again = steps.len() - redo_from(steps, lab.invalidation);
    let _ = match lab.invalidation {
        Invalidation::None => Ok(()),
        how => match again {
            0 => writeln!(text, "  before a pass reads: {how}"),
            1 => writeln!(text, "  before a pass reads: {how}, the last step anew"),
            _ => writeln!(text, "  before a pass reads: {how}, the last {again} steps anew"),
        },
    };
}

fn told(plan: &Plan, changes: usize) -> String {
    let order = plan.order;
    let least = plan.groups().len();
    match changes {
        1 => format!("order {order}: hosts are set up once"),
        _ if changes <= least => format!("order {order}: hosts are set up {changes} times"),
        _ => format!(
            "order {order}: hosts are set up {changes} times; order grouped would do with {least}"
        ),
    }
}
