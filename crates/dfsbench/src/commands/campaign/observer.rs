//! Output of a running campaign: progress for people, lines and metrics for programs.
//!
//! Events about working directories are also passed on to the code for signals and leftovers, so
//! that it can report what would be left behind.

use std::net::SocketAddr;
use std::sync::Arc;

use controller::{Event, leftovers};
use model::Campaign;

use crate::args::TrialArgs;
use crate::exit::{End, Failure};
use crate::files::output_file;
use crate::metrics::{self, Endpoint};
use crate::signals;
use crate::terminal::output;
use crate::terminal::progress::lines::{self, Lines};
use crate::terminal::progress::{Progress, Visibility};

/// Passes the events of a campaign on to people and programs.
pub(crate) struct CampaignObserver {
    pub(super) progress: Progress,
    lines: Option<Lines>,
    /// Serves metrics until the campaign has finished.
    _metrics: Option<Endpoint>,
}

impl CampaignObserver {
    /// Starts to report a campaign of this many trials; 0 if the number is unknown.
    ///
    /// # Errors
    /// If the file for `--json-progress` can't be opened.
    pub(super) fn start(
        making: &TrialArgs,
        progress: Progress,
        trials: usize,
    ) -> Result<Self, Failure> {
        let mut lines = None;
        if let Some(path) = &making.json_progress {
            if !lines::is_stderr(path) {
                output_file::check(path, Some(&making.results))?;
            }
            lines = Some(Lines::open(path, trials)?);
        }
        let metrics = making
            .metrics
            .map(|address| serve_metrics(address, &progress, visibility(making)))
            .transpose()?;
        let progress = if making.watch { progress.on_screen()? } else { progress };
        Ok(Self { progress, lines, _metrics: metrics })
    }

    /// Reports how the campaign ended.
    pub(crate) fn end(&mut self, made: &Result<(End, Campaign), Failure>) {
        let Some(lines) = &mut self.lines else { return };
        match made {
            Ok((end, campaign)) => lines.end(campaign, *end),
            Err(failure) => lines.fail(failure),
        }
    }

    pub(super) fn handle_event(&mut self, event: &Event<'_>) {
        match event {
            Event::DirectoryBegun { name, spec } => signals::note_directory(name, &spec.target),
            Event::DirectoryEnded { is_left } => {
                if *is_left {
                    leftovers::record_left_directory();
                }
                signals::forget_directory();
            }
            _ => {}
        }
        self.progress.handle_event(event);
        if let Some(lines) = &mut self.lines {
            lines.handle_event(event);
        }
    }
}

/// Serves the progress as metrics, and prints the address if progress is shown.
fn serve_metrics(
    address: SocketAddr,
    progress: &Progress,
    visibility: Visibility,
) -> Result<Endpoint, Failure> {
    let live = progress.live();
    let source: Arc<metrics::Source> = Arc::new(move || metrics::answer(live().render()));
    let endpoint = Endpoint::start(address, source)?;
    if visibility == Visibility::Shown {
        output::message(&format!("metrics: {}", endpoint.url()));
    }
    Ok(endpoint)
}

/// Returns the same arguments with all progress output turned off.
pub(crate) fn without_progress(making: &TrialArgs) -> TrialArgs {
    TrialArgs { quiet: true, json_progress: None, metrics: None, ..making.clone() }
}

/// Returns whether people see progress; `--json-progress -` reserves stderr for programs.
pub(super) fn visibility(making: &TrialArgs) -> Visibility {
    if making.quiet || making.json_progress.as_deref().is_some_and(lines::is_stderr) {
        Visibility::Hidden
    } else {
        Visibility::Shown
    }
}
