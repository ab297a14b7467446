//! Trials behind each result, collapsed on the page.
//!
//! Every trial is listed, including those that failed or were set aside, with the reason. Collapsed
//! tables are inside a `noscript` element: with scripts enabled, the browser keeps it as plain
//! text, and the page's script turns it into a table when it is opened; without scripts, it is a
//! table right away. For a large matrix, these tables are most of what a browser would have to lay
//! out.

use maud::{Markup, html};
use model::units::{Nanos, Size};
use model::{Campaign, PassResult, Run, Trial, TrialState};
use stats::interference::disturbance;

use crate::campaign::trials;
use crate::document;
use crate::humanize::{counted, percent, utc};
use crate::table::Sheet;

/// Maximum number of lines to show trial by trial. At about 700 bytes each, they take 1 of the 5 MB
/// that a page may have.
const LINES_MAX: usize = 1_500;
/// Maximum number of runs whose list is not collapsed.
const RUNS_UNFOLDED: usize = 4;
/// Maximum number of rows with the distribution of their trials.
const SPREADS_MAX: usize = 500;

/// Renders one collapsed table per run; empty if there are no runs.
pub(super) fn part(sheet: &Sheet<'_>) -> Markup {
    html! {
        @if !sheet.campaign.runs.is_empty() {
            (render_spreads(sheet))
            @let shown = count_shown_runs(sheet.campaign);
            @if shown > RUNS_UNFOLDED {
                details {
                    summary { "Trial by trial, " (counted(shown, "run")) }
                    div.folded { (draw_legend()) (render_runs(sheet, shown)) }
                }
            } @else {
                (render_runs(sheet, shown))
                (draw_legend())
            }
            @if shown < sheet.campaign.runs.len() {
                p.legend {
                    (counted(sheet.campaign.runs.len() - shown, "more run"))
                    ": see JSON and the results file."
                }
            }
        }
    }
}

fn draw_legend() -> Markup {
    html! {
        p.legend {
            "Order: position among all trials of the campaign. Ops: completed of issued, and \
             failed, for each kind. All busy: share of the window in which all workers were busy. \
             Times are service times, from sending to completion."
        }
    }
}

fn render_runs(sheet: &Sheet<'_>, shown: usize) -> Markup {
    html! {
        @for (run, factors) in sheet.campaign.runs[..shown].iter().zip(run_factors(sheet)) {
            (render_run(run, &factors))
        }
    }
}

/// Number of runs that can be shown trial by trial.
fn count_shown_runs(campaign: &Campaign) -> usize {
    let mut lines = 0;
    for (number, run) in campaign.runs.iter().enumerate() {
        // A trial without a pass takes a line as well, and so does a run without a trial.
        let lines_of_run: usize = run.trials.iter().map(|trial| trial.passes.len().max(1)).sum();
        lines += lines_of_run.max(1);
        if lines > LINES_MAX {
            return number;
        }
    }
    campaign.runs.len()
}

/// Settings that distinguish each run, in run order.
fn run_factors<'a>(sheet: &'a Sheet<'_>) -> impl Iterator<Item = String> + 'a {
    let mut rows = sheet.rows.iter().peekable();
    sheet.campaign.runs.iter().map(move |run| {
        let mut factors = String::new();
        while let Some(row) = rows.next_if(|row| row.run.index == run.index) {
            factors = sheet.factors(row);
        }
        factors
    })
}

/// Renders the distribution of the trials of each row in one table.
fn render_spreads(sheet: &Sheet<'_>) -> Markup {
    html! {
        details {
            summary { "Means, deviation and extremes of each figure, with its trials" }
            noscript { (document::html::table(&trials::table(sheet, SPREADS_MAX))) }
            @if sheet.rows.len() > SPREADS_MAX {
                p.legend { "The first " (SPREADS_MAX) " rows; `--format trials` has all of them." }
            }
        }
    }
}

fn render_run(run: &Run, factors: &str) -> Markup {
    let name = format!("run {}", run.index + 1);
    html! {
        details {
            summary {
                (name) ": " (run.spec.target_name) " " (run.spec.workload.name())
                @if !factors.is_empty() { ", " (factors) }
                " (" (counted(run.trials.len(), "trial")) ")"
            }
            noscript {
                div.scroll role="region" aria-label=(name) tabindex="0" {
                    table.trials {
                        caption { "Every trial of " (name) "." }
                        thead { (render_head()) }
                        tbody { @for trial in &run.trials { (render_trial(trial)) } }
                    }
                }
            }
        }
    }
}

fn render_head() -> Markup {
    let left = ["trial", "order", "started (UTC)", "pass"];
    let numbers = ["rate", "window", "all busy", "start skew", "ops", "moved", "p50", "p99", "max"];
    html! {
        tr {
            @for name in left { th scope="col" { (name) } }
            @for name in numbers { th.number scope="col" { (name) } }
            @for name in ["found at the target", "caveats"] { th scope="col" { (name) } }
        }
    }
}

fn render_trial(trial: &Trial) -> Markup {
    let state = match &trial.state {
        TrialState::Done => None,
        TrialState::Failed(reason) => Some(format!("failed: {reason}")),
        TrialState::Interrupted => Some("interrupted".to_owned()),
    };
    html! {
        @for (number, pass) in trial.passes.iter().enumerate() {
            tr.first[number == 0] {
                (render_begin(trial))
                td { (pass.pass.name()) }
                (render_pass(pass))
                td { (render_cross_checks(pass)) }
                td.evidence {
                    @if let Some(disturbance) = disturbance(&pass.scope.interference) {
                        p { "disturbed: " (disturbance.describe()) }
                    }
                    @for caveat in &pass.caveats {
                        p {
                            code { (caveat.code) } " " (caveat.evidence)
                            @if let Some(data) = &caveat.data { " [" (data) "]" }
                        }
                    }
                }
            }
        }
        @if let Some(state) = state {
            tr.first[trial.passes.is_empty()] {
                (render_begin(trial)) td.reason colspan="12" { (state) }
            }
        }
    }
}

fn render_begin(trial: &Trial) -> Markup {
    html! {
        th scope="row" { (trial.index + 1) }
        td { (trial.position + 1) }
        td { (utc(trial.started_unix_ms).trim_end_matches(" UTC")) }
    }
}

fn render_pass(pass: &PassResult) -> Markup {
    // The window of a trial ends when its last worker is done (last_done), as in the table.
    let busy = pass.common_window_ns as f64 / pass.window_ns.max(1) as f64;
    let mut times = model::Histogram::sparse();
    for kind in pass.kinds.iter().filter(|kind| kind.kind != model::OpKind::Sync) {
        // A sync waits for all earlier writes, so its time would be the maximum of every pass.
        times.merge(&kind.service_time);
    }
    html! {
        td.number.rate { (stats::judge::trial_rate(pass)) }
        td.number { (Nanos(pass.window_ns)) }
        td.number { (percent(busy)) }
        td.number { (Nanos(pass.start_skew_ns)) }
        td.number { @for kind in &pass.kinds { (render_kind(kind)) br; } }
        td.number { @if pass.bytes() > 0 { (Size(pass.bytes())) } @else { "–" } }
        (super::time_cells(&times))
    }
}

fn render_kind(kind: &model::KindResult) -> Markup {
    html! {
        (kind.kind) " " (kind.done)
        @if kind.issued != kind.done { " of " (kind.issued) }
        @for (error, count) in &kind.errors { ", " (count) " × " (error) }
    }
}

fn render_cross_checks(pass: &PassResult) -> Markup {
    html! {
        @for cross_check in &pass.cross_checks {
            p {
                @if cross_check.expected == cross_check.found { "✓ " (cross_check.found) }
                @else { "✕ " (cross_check.found) " instead of " (cross_check.expected) }
                " " small { (cross_check.source) }
            }
        }
    }
}
