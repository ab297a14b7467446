//! `--dry-run`: shows the matrix, estimates of time and bytes, and what would be done to hosts.
//!
//! Nothing is measured, written or connected to, unless a probe is requested. The assumed rates are
//! printed with the estimate because they are guesses about a target that was not measured yet.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use controller::pace::{self, ProbeResult};
use lab::{commands, compose, fresh_from, redo_from, reusable_steps};
use model::units::{Nanos, Size, Wait};
use model::{Fresh, Host, InterferenceRule, Invalidation, LabSpec, LabStep, RunSpec};
use plan::{Estimate, Plan, Rates, estimate_at, estimate_by};
use report::counted;
use report::document::text::{fits, narrow, push_beside, push_table};
use report::document::{Column, Role, Table, TableRow};

use crate::args::RunArgs;
use crate::commands::contenders;
use crate::exit::Failure;
use crate::stored::{joined, memory_guard};
use crate::terminal::output;

/// Maximum number of working hosts to list.
const NAMED_MAX: usize = 10;

/// Width beyond which the names of passes are wrapped.
const PASSES_WIDTH_MAX: usize = 40;

/// Describes what a plan would do, based on assumed rates.
///
/// # Errors
/// If the rates can't be parsed, or if a probe is requested for a command that doesn't support it.
pub(crate) fn describe(plan: &Plan, args: &RunArgs) -> Result<String, Failure> {
    if args.estimate.probe {
        return Err(Failure::Usage(
            "--probe: only `dfsbench run` probes its targets (hint: --assume-rates)".to_owned(),
        ));
    }
    let rates = assumed_rates(args)?;
    if let Some(named) = &args.estimate.assume_pace {
        let (store, id) = joined::find_campaign(named, &args.making.results)?;
        let earlier = memory_guard::load(&store, id)?;
        return Ok(describe_probed(plan, &rates, &pace::from_campaign(plan, &earlier)?));
    }
    let mut estimate = estimate_at(plan, &rates);
    let steps = count_steps(plan);
    let mut basis = format!("assumed: {rates}");
    if steps > 0 {
        let setup_ms = rates.step_ms.saturating_mul(steps);
        estimate.duration_ms = estimate.duration_ms.saturating_add(setup_ms);
        let each = Nanos(rates.step_ms.saturating_mul(1_000_000));
        basis = format!("{basis}, {each} for each of {steps} setup steps");
    }
    let _ = write!(basis, "; --assume-rates changes these, --probe measures them");
    Ok(describe_estimate(plan, &estimate, &basis))
}

/// Counts the steps that set up and restore hosts between runs.
fn count_steps(plan: &Plan) -> u64 {
    let mut applied: Vec<LabStep> = Vec::new();
    let mut count = 0;
    for runs in &group_by_hosts(plan) {
        let Some(lab) = group_lab(plan, runs) else { continue };
        let Ok(steps) = compose(lab) else { continue };
        let (stay, stand) = reusable_steps(&applied, &steps);
        count += stay.into_iter().chain(stand).map(|is_kept| u64::from(!is_kept)).sum::<u64>();
        applied = steps;
    }
    count + applied.len() as u64
}

/// Describes what a plan would do, based on the results of a probe.
pub(crate) fn describe_probed(plan: &Plan, rates: &Rates, probed: &ProbeResult) -> String {
    let mut basis = probed.basis.clone();
    let assumed = probed.paces.iter().filter(|pace| pace.is_none()).count();
    if assumed > 0 {
        basis = format!("{basis}; for {} assumed: {rates}", counted(assumed, "run"));
    }
    let mut text = describe_estimate(plan, &estimate_by(plan, &probed.paces, rates), &basis);
    for line in &probed.lines {
        // Writing to a `String` never fails.
        let _ = writeln!(text, "probe:    {line}");
    }
    text
}

/// Parses the rates that a dry run assumes.
pub(crate) fn assumed_rates(args: &RunArgs) -> Result<Rates, Failure> {
    let Some(text) = &args.estimate.assume_rates else { return Ok(Rates::default()) };
    Rates::parse(text).map_err(|why| Failure::Usage(format!("--assume-rates: {why}")))
}

/// Lists the op sizes that a scaled plan leaves out, if any.
pub(crate) fn describe_large_ops(plan: &Plan) -> Option<String> {
    if plan.large_ops.is_empty() {
        return None;
    }
    let sizes: Vec<String> = plan.large_ops.iter().map(|bytes| Size(*bytes).to_string()).collect();
    let sizes = sizes.join(", ");
    Some(format!(
        "--scale leaves out io_size {sizes}: the scaled files are smaller (hint: use a larger \
         --scale)"
    ))
}

/// Describes which runs a scaled plan leaves out, if any.
pub(crate) fn describe_thinned(plan: &Plan) -> Option<String> {
    if plan.thinned == 0 {
        return None;
    }
    let kept = plan.runs.len();
    let all = plan.runs.len() + plan.thinned;
    Some(format!("--scale keeps {kept} of {all} runs; every pair of levels still occurs"))
}

fn describe_estimate(plan: &Plan, estimate: &Estimate, basis: &str) -> String {
    let columns = output::screen(report::ReportDetail::Whole).columns();
    let mut text = String::new();
    push_table(&mut text, &matrix_table(plan, estimate, columns), columns);
    let made_each = u64::from(plan.trials + plan.repetition.warmup_trials);
    // Writing to a `String` never fails.
    let _ = writeln!(
        text,
        "\n{} x {} = {}, seed {}",
        counted((estimate.trials / made_each) as usize, "run"),
        counted(made_each as usize, "trial"),
        counted(estimate.trials as usize, "trial"),
        plan.seed,
    );
    if let Some(rule) = describe_repeats(plan) {
        push_beside(&mut text, "repeats:", 10, &rule, columns);
    }
    let written = Size(estimate.bytes_written);
    let read = Size(estimate.bytes_read);
    let sum = format!("{written} written, {read} read, {} in all ({basis})", estimate.duration());
    push_beside(&mut text, "estimate:", 10, &sum, columns);
    for target in &estimate.targets {
        let _ = writeln!(text, "space:    {} on {}", Size(target.peak_bytes), target.name);
    }
    text.push_str(&contenders::describe_differences(plan, columns));
    text.push_str(&describe_hosts(plan));
    text
}

/// Describes what happens to trials that are disturbed from outside; `None` if all of them count.
fn describe_repeats(plan: &Plan) -> Option<String> {
    let rule = "trials disturbed by the hypervisor or other programs are set aside and repeated";
    match plan.repeats_max() {
        _ if plan.repetition.interference == InterferenceRule::Keep => None,
        0 if plan.repetition.until_permille == 0 => None,
        0 => Some(format!(
            "{rule}, within the {} of each run",
            counted(plan.trials as usize, "trial")
        )),
        most => Some(format!("{rule}, at most {most} of each run")),
    }
}

/// Builds the matrix with a column per varying setting. If that is too wide for a terminal with
/// this many columns, the settings are printed on a line above each run instead.
fn matrix_table(plan: &Plan, estimate: &Estimate, columns: usize) -> Table {
    let varying = plan.varying();
    let mut table = runs_table(plan, estimate, &varying);
    narrow(&mut table, columns);
    if fits(&table, columns) {
        return table;
    }
    let mut table = runs_table(plan, estimate, &[]);
    for (row, run) in std::iter::zip(&mut table.rows, &plan.runs) {
        let mut settings = Vec::new();
        for (name, level) in run.settings() {
            if varying.contains(&name) {
                let level = if level.is_empty() { "-" } else { &level };
                settings.push(format!("{name} {level}"));
            }
        }
        row.title = settings.join(", ");
    }
    table
}

/// Builds a table with a row per run and a column for each of these settings.
fn runs_table(plan: &Plan, estimate: &Estimate, names: &[&str]) -> Table {
    let mut columns = vec![Column::new("run", Role::Words)];
    columns.extend(names.iter().map(|name| Column::new(*name, Role::Words)));
    let mut passes = Column::new("passes", Role::Words);
    passes.width_max = PASSES_WIDTH_MAX;
    columns.push(passes);
    columns.extend(Column::all(&[
        ("written", Role::Words),
        ("read", Role::Words),
        ("time", Role::Words),
    ]));
    Column::leave_in_order(&mut columns, &["read", "written"]);
    let mut rows = Vec::new();
    for (index, (run, cost)) in std::iter::zip(&plan.runs, &estimate.runs).enumerate() {
        let settings: BTreeMap<_, _> = run.settings().into_iter().collect();
        let mut row = vec![format!("{}", index + 1)];
        for name in names {
            match settings.get(name) {
                Some(level) => row.push(level.clone()),
                None => row.push("-".to_owned()),
            }
        }
        row.push(name_passes(run));
        row.push(Size(cost.bytes_written).to_string());
        row.push(Size(cost.bytes_read).to_string());
        row.push(Wait(cost.duration_ms.saturating_mul(1_000_000)).to_string());
        rows.push(row);
    }
    Table { columns, rows: TableRow::all(rows.into_iter()), ..Table::default() }
}

fn name_passes(run: &RunSpec) -> String {
    if let Some(why) = run.impossible() {
        return format!("none: {why}");
    }
    let names: Vec<_> = run.passes().iter().map(|pass| pass.name()).collect();
    names.join(", ")
}

/// Describes what is done to hosts, in order; empty for plans that don't touch them.
///
/// Every state of the hosts is shown once, together with the steps that are kept, undone and
/// applied when the previous runs end. Nothing is executed, and no host is connected to.
fn describe_hosts(plan: &Plan) -> String {
    let hosts = plan.hosts();
    if hosts.is_empty() && plan.runs.iter().all(|run| run.placement.hosts.is_empty()) {
        return String::new();
    }
    let mut text = String::from("\nhosts:\n");
    for host in hosts {
        // Writing to a `String` never fails.
        let _ = writeln!(text, "  {}: {}", host.name, host_address(host));
    }
    text.push_str(&describe_workers(plan));
    if plan.runs.iter().all(|run| run.lab.is_none()) {
        return text;
    }
    let mut seen: Vec<&LabSpec> = Vec::new();
    let mut applied: Vec<LabStep> = Vec::new();
    let changes = group_by_hosts(plan);
    for runs in &changes {
        let Some(lab) = group_lab(plan, runs) else { continue };
        if seen.contains(&lab) {
            continue;
        }
        seen.push(lab);
        let _ = writeln!(text, "\nstate {}, for {}:", seen.len(), run_numbers(runs));
        match compose(lab) {
            Ok(steps) => {
                write_transition(&mut text, &applied, &steps);
                write_invalidation(&mut text, lab, &steps);
                write_fresh(&mut text, lab, &steps);
                applied = steps;
            }
            Err(error) => {
                let _ = writeln!(text, "  can't be set up: {error}");
            }
        }
    }
    text.push_str("\nat the end, everything is undone in reverse order\n");
    let _ = writeln!(text, "{}", describe_changes(plan, changes.len()));
    for (host, device) in plan.destroys() {
        let device = device.display();
        let _ =
            writeln!(text, "lost:     all data on {device} of {host} (--allow-destroy {device})");
    }
    text
}

fn host_address(host: &Host) -> String {
    match (&host.ssh, &host.ssh_config) {
        (Some(ssh), Some(config)) => format!("ssh -F {} {ssh}", config.display()),
        (Some(ssh), None) => format!("ssh {ssh}"),
        (None, _) => "this host".to_owned(),
    }
}

/// Lists which hosts work in which runs, if there is a choice.
fn describe_workers(plan: &Plan) -> String {
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
        let first: Vec<_> = hosts.iter().take(NAMED_MAX).map(|host| host.name.as_str()).collect();
        let more = match hosts.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let runs = run_numbers(&runs);
        let _ = writeln!(text, "  clients in {runs}: {}{more}", first.join(", "));
    }
    text
}

/// Groups consecutive runs that need no change of hosts between them.
fn group_by_hosts(plan: &Plan) -> Vec<Vec<usize>> {
    let mut changes: Vec<Vec<usize>> = Vec::new();
    for step in plan.order() {
        let run = step.run;
        if plan.runs[run].impossible().is_some() {
            continue;
        }
        match changes.last_mut() {
            Some(last) if same_hosts(plan, last[0], run) => {
                if !last.contains(&run) {
                    last.push(run);
                }
            }
            _ => changes.push(vec![run]),
        }
    }
    changes
}

fn same_hosts(plan: &Plan, one: usize, other: usize) -> bool {
    match (&plan.runs[one].lab, &plan.runs[other].lab) {
        (Some(one), Some(other)) => one.agrees(other, LabSpec::LAYERS),
        (one, other) => one.is_none() && other.is_none(),
    }
}

fn group_lab<'a>(plan: &'a Plan, runs: &[usize]) -> Option<&'a LabSpec> {
    plan.runs[runs[0]].lab.as_deref()
}

/// Lists run numbers as they appear in the matrix above.
fn run_numbers(runs: &[usize]) -> String {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable();
    let mut shown = Vec::new();
    for run in sorted {
        // The matrix counts from 1.
        shown.push((run + 1).to_string());
    }
    format!("run{} {}", if shown.len() == 1 { "" } else { "s" }, shown.join(", "))
}

/// Describes the steps kept, reverted and applied between two states.
fn write_transition(text: &mut String, applied: &[LabStep], steps: &[LabStep]) {
    let (stay, stand) = reusable_steps(applied, steps);
    match stand.iter().filter(|stands| **stands).count() {
        0 => {}
        kept => _ = writeln!(text, "  {kept} of {} steps are already applied", steps.len()),
    }
    // Undo in reverse order: a later step may depend on an earlier one.
    for (step, is_kept) in std::iter::zip(applied, stay).rev() {
        if is_kept {
            continue;
        }
        for command in commands(&step.action).iter().rev() {
            let _ = writeln!(text, "  {}: undo {command}", step.host);
        }
    }
    for (step, is_kept) in std::iter::zip(steps, stand) {
        if is_kept {
            continue;
        }
        for command in commands(&step.action) {
            let _ = writeln!(text, "  {}: {command}", step.host);
        }
    }
    if steps.is_empty() {
        text.push_str("  nothing\n");
    }
}

fn write_invalidation(text: &mut String, lab: &LabSpec, steps: &[LabStep]) {
    let again = steps.len() - redo_from(steps, lab.invalidation);
    let _ = match lab.invalidation {
        Invalidation::None => Ok(()),
        how => match again {
            0 => writeln!(text, "  before a pass reads: {how}"),
            1 => writeln!(text, "  before a pass reads: {how}, repeating the last step"),
            _ => writeln!(text, "  before a pass reads: {how}, repeating the last {again} steps"),
        },
    };
}

/// Describes which steps are redone even though the next trial needs the same state.
fn write_fresh(text: &mut String, lab: &LabSpec, steps: &[LabStep]) {
    let again = steps.len() - fresh_from(steps);
    let when = match lab.fresh {
        Fresh::Campaign => return,
        Fresh::Run => "before a different run",
        Fresh::Trial => "before each trial",
        Fresh::Pass => "before each trial, exports and mounts also before each further pass",
    };
    let _ = writeln!(text, "  repeated {when}: the last {again} steps");
}

fn describe_changes(plan: &Plan, changes: usize) -> String {
    let order = plan.order;
    let least = plan.groups().len();
    match changes {
        1 => format!("order {order}: hosts are set up once"),
        _ if changes <= least => format!("order {order}: hosts are set up {changes} times"),
        _ => {
            format!("order {order}: hosts are set up {changes} times; order grouped needs {least}")
        }
    }
}
