//! Shows the contents of a results file: a line for each campaign, or all details of one.
//!
//! [`Listed`] is the principal type. Verdicts are computed from the trials each time, as in
//! every report; nothing of them is stored. Names, notes and tags are a user's words: they are
//! cleaned for terminals and defused for spreadsheets.

use std::fmt::Write as _;

use model::csv::quoted;
use model::units::Size;
use model::{Campaign, CampaignLine, CampaignState, Verdict};
use serde::Serialize;
use stats::judge;

use crate::Format;
use crate::grid::{Align, Grid, clean};
use crate::notes;
use crate::sheet::Sheet;
use crate::show;

/// Version of the JSON of lists.
const SCHEMA: u32 = 1;

/// Columns of a terminal.
const WIDTH_MAX: usize = 100;

/// Head of the column that counts verdicts.
const VERDICTS: &str = "rows v/d/i";

/// A campaign as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The campaign's line as stored in its file.
    #[serde(flatten)]
    pub line: CampaignLine,
    /// How many rows of its report are valid, degraded and invalid.
    pub verdicts: Verdicts,
    /// About how many bytes of the file it takes.
    pub size_bytes: u64,
}

/// How many rows of a report have each verdict; a row is a run and a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdicts {
    /// They may be used as they are.
    pub valid: u32,
    /// They have caveats.
    pub degraded: u32,
    /// They must not be used, or are missing.
    pub invalid: u32,
}

impl Verdicts {
    /// Judges a campaign.
    pub fn of(campaign: &Campaign) -> Self {
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

/// A note that stands beside a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// When it was written, in milliseconds since 1970 UTC.
    pub written_unix_ms: u64,
    /// The text of the note.
    pub text: String,
}

/// Writes a line for each campaign in one of the forms of [`Format::LIST`]; the text ends with a
/// newline.
pub fn list(campaigns: &[Listed], format: Format) -> String {
    match format {
        Format::Csv => campaign_lines(campaigns),
        Format::Json => to_json(&ListDocument { schema: SCHEMA, campaigns }),
        _ => campaign_table(campaigns),
    }
}

/// Writes what is known about one campaign for a terminal; ends with a newline.
pub fn about(listed: &Listed, remarks: &[Remark], campaign: &Campaign) -> String {
    let sheet = Sheet::of(campaign);
    let Listed { line, verdicts, .. } = listed;
    let mut lines = vec![
        ("campaign", format!("{} {}", line.id, line.name)),
        ("uuid", line.uuid.clone()),
        ("state", notes::title(campaign)),
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
        lines.push(("note", format!("{}: {}", show::utc(note.written_unix_ms), note.text)));
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
        ("command", campaign.command.clone()),
    ]);
    let mut text = String::new();
    for (name, what) in &lines {
        // A value may hold line breaks and control characters of other programs; it takes one line.
        let _ = writeln!(text, "{name:<10}{}", one_line(what));
    }
    text
}

/// The same for programs.
pub fn about_json(listed: &Listed, remarks: &[Remark], campaign: &Campaign) -> String {
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
    campaigns: &'a [Listed],
}

#[derive(Serialize)]
struct AboutDocument<'a> {
    schema: u32,
    campaign: &'a Listed,
    notes: &'a [Remark],
    tool_version: &'a str,
    command: &'a str,
    seed: String,
    plan_toml: &'a str,
}

fn to_json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("text and numbers can be written") + "\n"
}

fn campaign_table(campaigns: &[Listed]) -> String {
    if campaigns.is_empty() {
        return "no campaign\n".to_owned();
    }
    let mut grid = Grid::new(&[
        ("id", Align::Right),
        ("campaign", Align::Left),
        ("state", Align::Left),
        ("started", Align::Left),
        ("runs", Align::Right),
        ("trials", Align::Right),
        ("failed", Align::Right),
        (VERDICTS, Align::Right),
        ("size", Align::Right),
    ]);
    for listed in campaigns {
        let Listed { line, verdicts, .. } = listed;
        grid.row(&[
            line.id.to_string(),
            one_line(&line.name),
            name_state(line.state).to_owned(),
            format_minute(line.started_unix_ms),
            line.runs.to_string(),
            line.trials.to_string(),
            line.trials_failed.to_string(),
            format!("{}/{}/{}", verdicts.valid, verdicts.degraded, verdicts.invalid),
            format_size(listed.size_bytes),
        ]);
        if !line.tags.is_empty() {
            grid.text(&format!("tags: {}", line.tags.join(" ")));
        }
    }
    let reading = "rows of the report that are valid, degraded and invalid; started: UTC";
    format!("{}\n{VERDICTS}: {reading}\n", grid.render(WIDTH_MAX))
}

/// An instant without its seconds and its zone.
fn format_minute(unix_ms: u64) -> String {
    show::utc(unix_ms).chars().take("2026-11-21 19:17".len()).collect()
}

fn campaign_lines(campaigns: &[Listed]) -> String {
    let mut out = "campaign,campaign_name,uuid,state,started_unix_ms,runs,trials,trials_failed,\
                   rows_valid,rows_degraded,rows_invalid,size_bytes,tags\n"
        .to_owned();
    for listed in campaigns {
        let Listed { line, verdicts, .. } = listed;
        let cells = [
            line.id.to_string(),
            line.name.clone(),
            line.uuid.clone(),
            name_state(line.state).to_owned(),
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

const fn name_state(state: CampaignState) -> &'static str {
    match state {
        CampaignState::Running => "running",
        CampaignState::Complete => "complete",
        CampaignState::Interrupted => "interrupted",
    }
}

fn count_trials(line: &CampaignLine) -> String {
    let made = show::counted(line.trials as usize, "trial");
    if line.trials_failed == 0 {
        return made;
    }
    format!("{made}, {} failed", line.trials_failed)
}

/// A size to three digits, which says enough.
fn format_size(bytes: u64) -> String {
    let mut unit_bytes = 1_u64;
    while bytes / unit_bytes >= 10_240 {
        // Below ten units, a smaller unit shows a third digit.
        unit_bytes *= 1_024;
    }
    Size(bytes.div_ceil(unit_bytes) * unit_bytes).to_string()
}

fn one_line(text: &str) -> String {
    clean(text).replace('\n', " ")
}
