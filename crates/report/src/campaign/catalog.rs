//! Lists the campaigns of a results file, or shows the details of one.
//!
//! [`ListedCampaign`] is the main type. Verdicts are not stored but computed from the trials,
//! as in every report. Names, notes and tags are entered by users, so control characters are
//! removed for terminals and formulas are escaped for spreadsheets.

use std::fmt::Write as _;

use model::csv::quoted;
use model::units::Size;
use model::{Campaign, CampaignLine, Verdict};
use serde::Serialize;
use stats::judge;

use super::notes;
use crate::Format;
use crate::document::terminal::Screen;
use crate::document::text::{break_text, push_beside};
use crate::humanize;
use crate::table::Sheet;
use crate::text_grid::{Align, Grid, clean, width, wrap};

/// Version of the JSON of lists.
const SCHEMA: u32 = 1;

/// Heading of the column that counts verdicts.
const VERDICTS: &str = "rows v/d/i";

/// Heading of the column of names.
const NAME: &str = "campaign";

/// Columns to drop, in this order, if the terminal is too narrow. The others always stay.
const LEAVING: [&str; 7] = ["size", "failed", "runs", "trials", "started", VERDICTS, "state"];

/// Minimum width of wrapped names.
const NAME_WIDTH_MIN: usize = 12;

/// Width of the labels to the left of a campaign's details.
const NAMES_WIDTH: usize = 10;

/// A campaign in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedCampaign {
    /// The campaign's line as stored in its file.
    #[serde(flatten)]
    pub line: CampaignLine,
    /// Number of valid, degraded and invalid rows in its report.
    pub verdicts: Verdicts,
    /// Approximate size in the file.
    pub size_bytes: u64,
}

/// Number of report rows with each verdict. A row is one pass of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdicts {
    /// Usable without restriction.
    pub valid: u32,
    /// Usable, with caveats.
    pub degraded: u32,
    /// Not usable, or missing.
    pub invalid: u32,
}

impl Verdicts {
    /// Judges the rows of a campaign.
    pub fn from_campaign(campaign: &Campaign) -> Self {
        let mut counts = Self::default();
        for run in &campaign.runs {
            for judged in judge::run(run) {
                match judged.verdict {
                    Verdict::Valid => counts.valid += 1,
                    Verdict::Degraded => counts.degraded += 1,
                    Verdict::Invalid => counts.invalid += 1,
                }
            }
        }
        counts
    }
}

/// Note attached to a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CampaignNote {
    /// Time of writing, in milliseconds since 1970 UTC.
    pub written_unix_ms: u64,
    pub text: String,
}

/// Lists the campaigns in one of the formats in [`Format::LIST`]. `screen` only affects the table.
/// The text ends with a newline.
pub fn list(campaigns: &[ListedCampaign], format: Format, screen: Screen) -> String {
    match format {
        Format::Csv => campaign_lines(campaigns),
        Format::Json => to_json(&ListDocument { schema: SCHEMA, campaigns }),
        _ => campaign_table(campaigns, screen.columns()),
    }
}

/// Shows the details of one campaign for a terminal. The text ends with a newline.
pub fn describe_campaign(
    listed: &ListedCampaign,
    remarks: &[CampaignNote],
    campaign: &Campaign,
    screen: Screen,
) -> String {
    let sheet = Sheet::from_campaign(campaign);
    let ListedCampaign { line, verdicts, .. } = listed;
    let mut lines = vec![
        ("campaign", format!("{} {}", line.id, line.name)),
        ("uuid", line.uuid.clone()),
        ("state", crate::table::title::describe(campaign)),
        ("runs", format!("{} with {}", line.runs, count_trials(line))),
        (
            "verdicts",
            format!(
                "{} valid, {} degraded, {} invalid",
                verdicts.valid, verdicts.degraded, verdicts.invalid
            ),
        ),
        ("size", format!("about {}", format_size(listed.size_bytes))),
    ];
    if !line.tags.is_empty() {
        lines.push(("tags", line.tags.join(" ")));
    }
    for note in remarks {
        lines.push(("note", format!("{}: {}", humanize::utc(note.written_unix_ms), note.text)));
    }
    if !sheet.columns.is_empty() {
        lines.push(("varied", sheet.columns.join(", ")));
    }
    for (name, place) in notes::targets(campaign) {
        lines.push(("target", format!("{name}: {place}")));
    }
    if let Some(settings) = notes::settings(&sheet) {
        lines.push(("settings", settings));
    }
    if let Some(host) = notes::host(campaign, usize::MAX) {
        lines.push(("host", host));
    }
    lines.extend([
        ("seed", campaign.seed.to_string()),
        ("order", notes::order(campaign)),
        ("ceiling", notes::ceiling(campaign)),
    ]);
    let mut text = String::new();
    for (name, what) in &lines {
        // Values may contain line breaks and control characters written by other programs.
        push_beside(&mut text, name, NAMES_WIDTH, &one_line(what), screen.columns());
    }
    // Never wrap the command, so that it can be copied.
    let _ = writeln!(text, "{:<NAMES_WIDTH$}{}", "command", one_line(&campaign.command));
    text
}

/// Returns the details of [`describe_campaign`] as JSON.
pub fn about_json(
    listed: &ListedCampaign,
    remarks: &[CampaignNote],
    campaign: &Campaign,
) -> String {
    to_json(&AboutDocument {
        schema: SCHEMA,
        campaign: listed,
        notes: remarks,
        tool_version: &campaign.tool_version,
        command: &campaign.command,
        seed: campaign.seed.to_string(),
        plan_toml: &campaign.plan_toml,
    })
}

#[derive(Serialize)]
struct ListDocument<'a> {
    schema: u32,
    campaigns: &'a [ListedCampaign],
}

#[derive(Serialize)]
struct AboutDocument<'a> {
    schema: u32,
    campaign: &'a ListedCampaign,
    notes: &'a [CampaignNote],
    tool_version: &'a str,
    command: &'a str,
    seed: String,
    plan_toml: &'a str,
}

fn to_json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("text and numbers can be written") + "\n"
}

fn campaign_table(campaigns: &[ListedCampaign], width_max: usize) -> String {
    if campaigns.is_empty() {
        return "no campaigns\n".to_owned();
    }
    let mut grid = campaign_grid(campaigns, &[], usize::MAX);
    let mut left = 0;
    while grid.width() > width_max && left < LEAVING.len() {
        left += 1;
        grid = campaign_grid(campaigns, &LEAVING[..left], usize::MAX);
    }
    // If the table is still too wide, wrap the names.
    if grid.width() > width_max {
        let excess = grid.width() - width_max;
        let mut name_width = width(NAME);
        for listed in campaigns {
            name_width = name_width.max(width(&one_line(&listed.line.name)));
        }
        let name_width_max = name_width.saturating_sub(excess).max(NAME_WIDTH_MIN);
        grid = campaign_grid(campaigns, &LEAVING[..left], name_width_max);
    }
    let mut text = grid.render(width_max);
    let mut reading = Vec::new();
    if !LEAVING[..left].contains(&VERDICTS) {
        reading
            .push(format!("{VERDICTS}: number of valid, degraded and invalid rows in the report"));
    }
    if !LEAVING[..left].contains(&"started") {
        reading.push("started: UTC".to_owned());
    }
    if left > 0 {
        reading.push("a wider terminal or --format csv shows more columns".to_owned());
    }
    text.push('\n');
    for line in wrap(&reading.join("; "), width_max) {
        text.extend([line.as_str(), "\n"]);
    }
    text
}

/// Builds the table without the given columns, wrapping the names.
fn campaign_grid(campaigns: &[ListedCampaign], without: &[&str], name_width_max: usize) -> Grid {
    let all = [
        ("id", Align::Right),
        (NAME, Align::Left),
        ("state", Align::Left),
        ("started", Align::Left),
        ("runs", Align::Right),
        ("trials", Align::Right),
        ("failed", Align::Right),
        (VERDICTS, Align::Right),
        ("size", Align::Right),
    ];
    let shown: Vec<_> = all.into_iter().filter(|column| !without.contains(&column.0)).collect();
    let mut grid = Grid::new(&shown);
    for listed in campaigns {
        let ListedCampaign { line, verdicts, .. } = listed;
        let cells = [
            line.id.to_string(),
            break_text(&one_line(&line.name), name_width_max),
            line.state.name().to_owned(),
            format_minute(line.started_unix_ms),
            line.runs.to_string(),
            line.trials.to_string(),
            line.trials_failed.to_string(),
            format!("{}/{}/{}", verdicts.valid, verdicts.degraded, verdicts.invalid),
            format_size(listed.size_bytes),
        ];
        let row: Vec<_> = std::iter::zip(all, cells)
            .filter(|(column, _)| !without.contains(&column.0))
            .map(|(_, cell)| cell)
            .collect();
        grid.row(&row);
        if !line.tags.is_empty() {
            grid.text(&format!("tags: {}", line.tags.join(" ")));
        }
    }
    grid
}

/// Formats a time without seconds and time zone.
fn format_minute(unix_ms: u64) -> String {
    humanize::utc(unix_ms).chars().take("2026-11-21 19:17".len()).collect()
}

fn campaign_lines(campaigns: &[ListedCampaign]) -> String {
    let mut out = "campaign,campaign_name,uuid,state,started_unix_ms,runs,trials,trials_failed,\
                   rows_valid,rows_degraded,rows_invalid,size_bytes,tags\n"
        .to_owned();
    for listed in campaigns {
        let ListedCampaign { line, verdicts, .. } = listed;
        let cells = [
            line.id.to_string(),
            line.name.clone(),
            line.uuid.clone(),
            line.state.name().to_owned(),
            line.started_unix_ms.to_string(),
            line.runs.to_string(),
            line.trials.to_string(),
            line.trials_failed.to_string(),
            verdicts.valid.to_string(),
            verdicts.degraded.to_string(),
            verdicts.invalid.to_string(),
            listed.size_bytes.to_string(),
            line.tags.join(" "),
        ];
        out.push_str(&cells.map(|cell| quoted(&cell)).join(","));
        out.push('\n');
    }
    out
}

fn count_trials(line: &CampaignLine) -> String {
    let made = humanize::counted(line.trials as usize, "trial");
    if line.trials_failed == 0 {
        return made;
    }
    format!("{made}, {} failed", line.trials_failed)
}

/// Formats a size with about three digits.
fn format_size(bytes: u64) -> String {
    let mut unit_bytes = 1_u64;
    while bytes / unit_bytes >= 10_240 {
        // Below ten units, the smaller unit shows a third digit.
        unit_bytes *= 1_024;
    }
    Size(bytes.div_ceil(unit_bytes) * unit_bytes).to_string()
}

fn one_line(text: &str) -> String {
    clean(text).replace('\n', " ")
}
