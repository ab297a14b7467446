//! Reports a campaign: the table, the page next to the results file, and the exit code.
//!
//! Reports are made from stored results, so `dfsbench report` shows the same later.

use std::path::{Path, PathBuf};

use model::{Campaign, CampaignState, PassResult, TrialState, Verdict};
use report::{Format, ReportDetail};

use super::session::{Session, last_written, page_path};
use crate::commands::render;
use crate::exit::{End, Failure};
use crate::files::output_file;
use crate::terminal::output::{self, Printable};
use crate::terminal::progress::Visibility;

impl Session<'_> {
    /// Prints the table, writes the page and suggests what to do next.
    pub(crate) fn report(&self, campaign: &Campaign) -> Result<End, Failure> {
        let making = self.making;
        let page = self.place_page(campaign.id)?;
        let written = write_page(&page, &making.results, campaign);
        if making.format == Format::Table {
            output::print_colored(&report::render_screen(
                campaign,
                output::screen(ReportDetail::Main),
            ))?;
        } else {
            let text = report::render(campaign, making.format);
            output::print(&Printable::report(&text, making.format))?;
        }
        written?;
        let summary = format!(
            "results: {}\npage:    {}\nseed:    {} (--seed {} repeats the order)",
            making.results.display(),
            page.display(),
            campaign.seed,
            campaign.seed
        );
        if making.format == Format::Table {
            let next = render::next_line(campaign, &making.results);
            output::text(&format!("\n{summary}\n{next}"))?;
        } else if self.visibility() == Visibility::Shown {
            output::message(&summary);
        }
        Ok(End::of_requirements(report::requirement_outcome(campaign), is_complete(campaign)))
    }

    /// Returns the path of a campaign's page: next to the results file, or under a separate name if
    /// another process has written a page there since this one started.
    ///
    /// # Errors
    /// If there is a file with that name that is not a page.
    fn place_page(&self, campaign_id: i64) -> Result<PathBuf, Failure> {
        let results = &self.making.results;
        let usual = page_path(results);
        if last_written(&usual) == self.page_written {
            return Ok(usual);
        }
        let mut name = results.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{campaign_id}.html"));
        let own = results.with_file_name(name);
        render::check_page(&own, results)?;
        output::message(&format!(
            "note: another campaign has written {} in the meantime; the page of this one is {}",
            usual.display(),
            own.display()
        ));
        Ok(own)
    }
}

/// Returns true if every possible trial was run and no result is invalid.
fn is_complete(campaign: &Campaign) -> bool {
    if campaign.state != CampaignState::Complete {
        return false;
    }
    for run in &campaign.runs {
        if run.trials.is_empty() && run.spec.impossible().is_none() {
            return false;
        }
        for trial in &run.trials {
            let is_invalid =
                |pass: &PassResult| Verdict::from_caveats(&pass.caveats) == Verdict::Invalid;
            if trial.state != TrialState::Done || trial.passes.iter().any(is_invalid) {
                return false;
            }
        }
    }
    true
}

/// Writes the page of a campaign.
pub(crate) fn write_page(page: &Path, results: &Path, campaign: &Campaign) -> Result<(), Failure> {
    let text = report::render(campaign, Format::Html);
    output_file::write(page, text.as_bytes(), Some(results))
}
