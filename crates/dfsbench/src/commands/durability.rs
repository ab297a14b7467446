//! `dfsbench durability`: measures how much acknowledged data a server or file system keeps.
//!
//! The findings go to stdout and into the results file.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use controller::{Hosts, leftovers};
use durability::{
    ClientProgram, DurabilityContext, DurabilityEvent, DurabilityRequest, Findings, FindingsKeeper,
};
use engine::SystemClock;
use fleet::HostPermissions;
use model::durability::DurabilityReport;
use model::setting::Setting;
use model::{Campaign, CampaignState, Host};
use plan::{Overrides, Plan, RawPlan};
use report::Format;

use crate::args::DurabilityArgs;
use crate::calendar::{now_unix_ms, token};
use crate::commands::{campaign, render};
use crate::exit::{self, End, Failure};
use crate::files::{foreign_folder, user_dirs};
use crate::hosts::agents::{self, Agents};
use crate::plans::{plan_source, secrets, surroundings};
use crate::server::embedded;
use crate::signals;
use crate::stored::{joined, memory_guard};
use crate::terminal::output::{self, Printable};
use crate::terminal::progress::Visibility;

/// Measures the target or plan that the arguments name.
pub(crate) fn run(args: &DurabilityArgs) -> Result<ExitCode, Failure> {
    let mut request = DurabilityRequest::new(read_plan(args)?, &args.options())?;
    request.plan.check_destroy(&args.allow_destroy)?;
    let mut keeper = find_keeper(args, &request)?;
    let stop = signals::stop_flag()?;
    let embedded = embedded::start(&request.plan)?;
    if let Some(embedded) = &embedded {
        request.set_addresses(|plan| embedded.set_addresses(plan));
    }
    let server = embedded.as_ref().map(embedded::Embedded::as_local_server);
    let inject_fault = server.and_then(|server| server.inject_fault);
    let token = token();
    let campaign = controller::campaign_name(token);
    let runs = &request.plan.runs;
    foreign_folder::warn_beside(&args.results);
    foreign_folder::warn_of_targets(runs);
    for warning in leftovers::warnings(&args.results, runs) {
        output::message(&format!("warning: {warning}"));
    }
    let _record =
        leftovers::WorkRecord::begin(&args.results, &campaign, runs, None, now_unix_ms())?
            .map(|record| record.with_index(&args.results, &user_dirs::records_dir()));
    let mut agents = Agents::new(Arc::clone(&stop), Visibility::Shown);
    let mut launch = |hosts: &[&Host]| agents.launch(hosts);
    let clock = SystemClock::new();
    let read_clocks = || agent::read(&clock);
    let opening = HostPermissions {
        campaign: campaign.clone(),
        allow_destroy: args.allow_destroy.clone(),
        secrets: secrets::read(runs)?,
        ..HostPermissions::default()
    };
    let context = DurabilityContext {
        token,
        campaign,
        stop: &stop,
        program_on: &|host| {
            let mut programs = Agents::new(Arc::clone(&stop), Visibility::Hidden);
            let program = programs.program_on(host).map_err(|gone| gone.0)?;
            let is_remote = program.is_remote();
            Ok(ClientProgram { command: Box::new(move |word| program.command(word)), is_remote })
        },
        inject_fault: inject_fault
            .as_deref()
            .map(|inject| inject as &controller::FaultInjector<'_>),
        observe: &|event| report_event(&event, args),
    };
    let hosts = Hosts::new(&mut launch, &read_clocks, opening);
    let measured = durability::measure(&request, &context, hosts, &mut keeper);
    agents::record_no_agents();
    let Findings { reports, is_clean } = measured?;
    let is_stopped = stop.load(Relaxed);
    let state = if is_stopped { CampaignState::Interrupted } else { CampaignState::Complete };
    // An existing campaign is only loaded if its page is requested.
    let stored = match keeper.finish(state)? {
        Some((store, id)) if args.campaign.is_none() || args.format == Format::Html => {
            Some(memory_guard::load(&store, id)?)
        }
        _ => None,
    };
    print_findings(args, &reports, stored.as_ref())?;
    if is_stopped {
        output::message("interrupted: the table contains only what was measured");
    }
    Ok(if is_clean { End::Ok } else { End::Invalid }.into())
}

/// Runs a client process, which is started by `dfsbench durability`.
///
/// # Errors
/// If stdin contains no job.
pub(crate) fn run_client() -> Result<ExitCode, Failure> {
    durability::run_client()?;
    Ok(End::Ok.into())
}

/// Reads the target as a plan; its first run has that target.
fn read_plan(args: &DurabilityArgs) -> Result<Plan, Failure> {
    let mut raw = match args.target.as_deref() {
        None | Some("embedded") => RawPlan::for_target(plan::parse_target("embedded")?),
        Some(text) => plan_source::load_named(text)?,
    };
    if let Some(version) = &args.nfsvers {
        raw.apply(&Overrides::default().with(Setting::NfsVers, &[version]))?;
    }
    plan_source::refuse_loads(&raw)?;
    plan_source::read_inputs(&mut raw)?;
    for text in &args.fault {
        raw.server.faults.planned.push(plan::fault::parse_fault(text)?);
    }
    plan::fault::check_faults(&raw.server.faults.planned)?;
    Ok(Plan::resolve(&raw, &surroundings::for_campaign())?)
}

/// Checks that findings can be stored, before anything is started.
fn find_keeper(
    args: &DurabilityArgs,
    request: &DurabilityRequest,
) -> Result<FindingsKeeper, Failure> {
    let results: &Path = &args.results;
    let Some(named) = &args.campaign else {
        campaign::check_outputs(results)?;
        let command = campaign::command_line();
        return Ok(FindingsKeeper::new(results.to_owned(), request, command, now_unix_ms));
    };
    let (store, id) = joined::find_campaign(named, results)?;
    Ok(FindingsKeeper::with_campaign(&store, id, request, now_unix_ms)?)
}

fn report_event(event: &DurabilityEvent<'_>, args: &DurabilityArgs) {
    match event {
        DurabilityEvent::Progress(_) if args.quiet => {}
        DurabilityEvent::Progress(line) => output::message(line),
        DurabilityEvent::Warning(line) => output::message(&format!("warning: {line}")),
        DurabilityEvent::Left(line) => {
            exit::note_not_restored();
            output::message(&format!("warning: {line}"));
        }
        DurabilityEvent::DirectoryBegun { name, target } => signals::note_directory(name, target),
        DurabilityEvent::DirectoryRemoved => signals::forget_directory(),
    }
}

/// Prints the findings and where they are stored.
fn print_findings(
    args: &DurabilityArgs,
    reports: &[DurabilityReport],
    stored: Option<&Campaign>,
) -> Result<(), Failure> {
    let text = match stored {
        Some(campaign) if args.format == Format::Html => report::render(campaign, Format::Html),
        _ => {
            let screen = output::screen(report::ReportDetail::Whole);
            report::render_durability(reports, args.format, screen)
        }
    };
    output::print(&Printable::report(&text, args.format))?;
    // An existing campaign already has its page.
    let Some(campaign) = stored.filter(|_| args.campaign.is_none()) else { return Ok(()) };
    let results = &args.results;
    let page = campaign::page_path(&args.results);
    campaign::write_page(&page, results, campaign)?;
    let summary = format!("results: {}\npage:    {}", results.display(), page.display());
    if args.format == Format::Table {
        let next = render::next_line(campaign, results);
        output::text(&format!("\n{summary}\n{next}"))?;
    } else if !args.quiet {
        output::message(&summary);
    }
    Ok(())
}
