//! `dfsbench report`: renders a results file as a page or a table.
//!
//! It works offline and is repeatable: the file is the only input and is not changed.

use std::path::Path;
use std::process::ExitCode;

use ::report::document::text::push_beside;
use ::report::{Format, JoinedCampaigns, NextStep, ReportDetail};
use model::Campaign;
use plan::RawPlan;

use crate::args::{RESULTS, ReportArgs};
use crate::exit::{End, Failure};
use crate::files::output_file;
use crate::stored::joined;
use crate::terminal::output::{self, Printable};

/// Text that every page of this program contains.
const PAGE_MARK: &str = "<meta name=\"generator\" content=\"dfsbench";

/// Renders campaigns of a results file.
///
/// # Errors
/// If the file can't be read or doesn't contain the campaign, or the report can't be written.
pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.output {
        output_file::check(path, Some(&args.results))?;
    }
    let required = plan::parse_requirements(&args.require, "--require")?;
    let mut joined = joined::load(&args.campaigns, &args.by.by, &args.results)?;
    joined.require(required.into_iter().map(|limit| limit.value));
    let text = if args.format == Format::Table {
        let extent = if args.all { ReportDetail::Whole } else { ReportDetail::Main };
        let report = ::report::render_joined_screen(&joined, output::screen(extent));
        report + &next_of_joined(&joined, args)
    } else {
        ::report::render_joined(&joined, args.format)
    };
    if let Some(directory) = &args.pictures {
        write_pictures(directory, &joined, &args.results)?;
    }
    match &args.output {
        None if args.format == Format::Table => output::print_colored(&text)?,
        None => output::print(&Printable::report(&text, args.format))?,
        Some(path) => {
            let text = Printable::report(&text, args.format);
            output_file::write(path, text.as_bytes(), Some(&args.results))?;
        }
    }
    // A report of what was measured succeeds; only limits can fail.
    Ok(End::of_requirements(::report::joined_requirement_outcome(&joined), true).into())
}

/// Writes the plots of a campaign to a directory, which is created if necessary.
fn write_pictures(
    directory: &Path,
    joined: &JoinedCampaigns,
    results: &Path,
) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| Failure::Output {
        what: directory.display().to_string(),
        reason: error.to_string(),
        hint: "name a directory, or a path where one can be created",
    })?;
    for (name, svg) in ::report::pictures_joined(joined) {
        let file = directory.join(name).with_extension("svg");
        output_file::write(&file, svg.as_bytes(), Some(results))?;
    }
    Ok(())
}

/// Suggests the next step; for several campaigns, looking for the factors that differ.
fn next_of_joined(joined: &JoinedCampaigns, args: &ReportArgs) -> String {
    let [_] = joined.members() else {
        let mut file = String::new();
        if args.results != Path::new(RESULTS) {
            file = format!(" --results {}", args.results.display());
        }
        return format!("\nnext:    dfsbench factors {}{file}\n", args.campaigns.join(" "));
    };
    next_line(joined.campaign(), &args.results)
}

/// Suggests the next step for a campaign, as a line preceded by an empty one; empty if there is
/// none.
pub(crate) fn next_line(campaign: &Campaign, results: &Path) -> String {
    let mut file = String::new();
    if results != Path::new(RESULTS) {
        file = format!(" --results {}", results.display());
    }
    let Some(step) = NextStep::from_campaign(campaign) else { return String::new() };
    let step = match step {
        NextStep::Resume => {
            let consent = if runs_programs(campaign) { " --allow-program" } else { "" };
            format!("dfsbench resume {}{consent}{file}", campaign.id)
        }
        NextStep::Repeat => REPEAT.to_owned(),
        NextStep::Settle { flag, caveat, settled, having } if settled < having => {
            format!("{flag} to settle {caveat} in {settled} of {having} results")
        }
        NextStep::Settle { flag, caveat, having: 1, .. } => {
            format!("{flag} to settle {caveat} in 1 result")
        }
        NextStep::Settle { flag, caveat, having, .. } => {
            format!("{flag} to settle {caveat} in {having} results")
        }
        NextStep::View => format!("dfsbench view{file}"),
        NextStep::Explore => "dfsbench run TARGET    a directory or nfs://server/export".to_owned(),
        NextStep::Probe(address) => format!("dfsbench probe {address}"),
        NextStep::Repair(hint) => {
            let mut lines = String::from("\n");
            let columns = output::screen(ReportDetail::Whole).columns();
            push_beside(&mut lines, "next:", NEXT, &hint, columns);
            return lines;
        }
    };
    format!("\n{:NEXT$}{step}\n", "next:")
}

/// Returns true if a campaign's plan runs programs, for which `resume` requires consent.
fn runs_programs(campaign: &Campaign) -> bool {
    RawPlan::parse(&campaign.plan_toml, "the stored plan")
        .is_ok_and(|plan| !plan::chosen_programs(&plan).is_empty())
}

/// Columns before the suggestion.
const NEXT: usize = 9;

const REPEAT: &str = "repeat the command: a search can't be continued, but its results are kept";

/// Refuses to write a page over a file that is not one of our pages.
///
/// # Errors
/// If there is such a file, or the page would overwrite the results.
pub(crate) fn check_page(page: &Path, results: &Path) -> Result<(), Failure> {
    let refused = |what: &str| {
        Err(Failure::Usage(format!(
            "the page would be written to `{}`, which is {what} (hint: choose another --results, \
             such as `dfsbench.db`)",
            page.display()
        )))
    };
    if page == results {
        return refused("the results file");
    }
    // Reading a FIFO could block forever.
    if std::fs::metadata(page).is_ok_and(|found| !found.is_file()) {
        return refused("not a page of dfsbench");
    }
    match std::fs::read_to_string(page) {
        Ok(text) if text.contains(PAGE_MARK) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        _ => refused("not a page of dfsbench"),
    }
}
