//! `dfsbench list`, `show`, `note`, `tag`, `rm`, `import`, `export`: managing a results file.
//!
//! A single slip can't lose anything: notes and tags are added, a removal requires the ID twice,
//! and an import doesn't change the other file.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use ::report::{CampaignNote, ListedCampaign, ReportDetail, Verdicts};
use model::{Campaign, CampaignLine};
use results::{JoinedCounts, Merged, Note, Store};

use crate::args::{ExportArgs, ImportArgs, ListArgs, NoteArgs, RmArgs, ShowArgs, TagArgs};
use crate::calendar;
use crate::commands::trace_export;
use crate::exit::{End, Failure};
use crate::stored::joined;
use crate::terminal::output::{self, Printable};

/// Lists the campaigns of a results file.
pub(crate) fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&args.results)?;
    let mut campaigns = Vec::new();
    for line in store.list()? {
        if is_wanted(&line, args) {
            let campaign = store.outline(line.id)?;
            campaigns.push(list_campaign(&store, line, &campaign)?);
        }
    }
    let screen = output::screen(ReportDetail::Main);
    let text = ::report::list(&campaigns, args.format, screen);
    output::print(&Printable::report(&text, args.format))?;
    Ok(End::Ok.into())
}

/// Returns true if a campaign matches all filters in the arguments.
fn is_wanted(line: &CampaignLine, args: &ListArgs) -> bool {
    if let Some(state) = args.state
        && line.state != state.into()
    {
        return false;
    }
    if let Some(name) = &args.name
        && !line.name.contains(name)
    {
        return false;
    }
    args.tag.iter().all(|tag| line.tags.contains(tag))
}

/// Shows one campaign.
///
/// # Errors
/// If the file can't be read or doesn't contain the campaign.
pub(crate) fn show(args: &ShowArgs) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&args.results)?;
    let id = joined::campaign_id(&store, args.campaign)?;
    let campaign = store.outline(id)?;
    if args.plan {
        output::text(&campaign.plan_toml)?;
        return Ok(End::Ok.into());
    }
    let listed = list_campaign(&store, store.line(id)?, &campaign)?;
    let mut notes = Vec::new();
    for note in store.notes(id)? {
        notes.push(CampaignNote { written_unix_ms: note.written_unix_ms, text: note.text });
    }
    if args.json {
        output::print(&Printable::json(&::report::about_json(&listed, &notes, &campaign)))?;
    } else {
        let screen = output::screen(::report::ReportDetail::Whole);
        output::text(&::report::describe_campaign(&listed, &notes, &campaign, screen))?;
    }
    Ok(End::Ok.into())
}

/// Adds a note to a campaign.
///
/// # Errors
/// If there is no such campaign or the file can't be written.
pub(crate) fn note(args: &NoteArgs) -> Result<ExitCode, Failure> {
    let note = Note { written_unix_ms: calendar::now_unix_ms(), text: args.text.clone() };
    open_to_change(&args.results)?.add_note(args.campaign, &note)?;
    Ok(End::Ok.into())
}

/// Adds and removes tags.
///
/// # Errors
/// Same as [`note`]; also if a word is not a valid tag.
pub(crate) fn tag(args: &TagArgs) -> Result<ExitCode, Failure> {
    open_to_change(&args.results)?.set_tags(args.campaign, &args.tags, &args.remove)?;
    Ok(End::Ok.into())
}

/// Removes a campaign, if its ID is given twice.
///
/// # Errors
/// If the ID is not given twice, there is no such campaign, or the file can't be written.
pub(crate) fn rm(args: &RmArgs) -> Result<ExitCode, Failure> {
    let id = args.campaign;
    let line = Store::open_existing(&args.results)?.line(id)?;
    let what = format!("campaign {id} ({}), {}", line.name, count_runs(&line));
    match args.really {
        Some(again) if again == id => {}
        again => {
            let other = again.map_or_else(String::new, |again| format!(", not {again}"));
            return Err(Failure::Usage(format!(
                "{what}, would be permanently removed (hint: to confirm, repeat its number: \
                 `dfsbench rm {id} --really {id}`{other})"
            )));
        }
    }
    let mut store = open_to_change(&args.results)?;
    // The removal is complete before the file is compacted, which may fail if the disk is full.
    store.remove(id)?;
    output::message(&format!("removed {what}"));
    if let Err(error) = store.compact() {
        output::message(&format!("warning: the file could not be compacted: {error}"));
    }
    Ok(End::Ok.into())
}

/// Imports the campaigns of another file.
///
/// # Errors
/// If the other file can't be read or contains something that this release doesn't know, or if this
/// file can't be written.
pub(crate) fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    Store::open_existing(&args.from)?;
    let mut store = Store::open_or_create(&args.results)?;
    let mut text = String::new();
    for merged in store.import(&args.from)? {
        let from = &merged.from;
        let name = from.name.escape_debug();
        let became = match merged.to {
            Merged::New(id) => format!("is campaign {id}, {}", count_runs(from)),
            Merged::Known { id, gained } => {
                format!("is already here as campaign {id}{}", describe_gained(gained))
            }
        };
        // Writing to a `String` never fails.
        let _ = writeln!(text, "campaign {} ({name}) {became}", from.id);
    }
    if text.is_empty() {
        text = format!("{} has no campaigns\n", args.from.display());
    }
    output::text(&text)?;
    Ok(End::Ok.into())
}

/// Exports campaigns for other programs.
///
/// # Errors
/// If the file can't be read, doesn't contain the campaign, or the directory can't be created.
pub(crate) fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let exported = if let Some(trace) = &args.trace {
        trace_export::export(trace, &args.directory, args.format.into())?
    } else {
        let store = Store::open_existing(&args.results)?;
        store.export(&args.campaign, &args.directory, args.format.into())?
    };
    let mut rows = vec![vec!["table".to_owned(), "rows".to_owned()]];
    for table in exported {
        rows.push(vec![table.table, table.rows.to_string()]);
    }
    output::text(&report::align_columns(&rows))?;
    Ok(End::Ok.into())
}

/// Opens an existing file for writing.
fn open_to_change(path: &Path) -> Result<Store, Failure> {
    Store::open_existing(path)?;
    Ok(Store::open_or_create(path)?)
}

fn list_campaign(
    store: &Store,
    line: CampaignLine,
    campaign: &Campaign,
) -> Result<ListedCampaign, Failure> {
    let size_bytes = store.size_bytes(line.id)?;
    Ok(ListedCampaign { size_bytes, verdicts: Verdicts::from_campaign(campaign), line })
}

/// Formats a size such as `3 runs with 12 trials`.
fn count_runs(line: &CampaignLine) -> String {
    let [runs, trials] = [line.runs, line.trials].map(|count| count as usize);
    format!("{} with {}", count_noun(runs, "run"), count_noun(trials, "trial"))
}

fn count_noun(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Describes what a campaign gained from its copy, to be appended to its ID.
fn describe_gained(gained: JoinedCounts) -> String {
    let JoinedCounts { runs, trials, notes, tags, differ } = gained;
    let mut text = String::new();
    for (count, noun) in [(runs, "run"), (trials, "trial"), (notes, "note"), (tags, "tag")] {
        if count > 0 {
            text.push_str(if text.is_empty() { ", which gained " } else { ", " });
            text.push_str(&count_noun(count, noun));
        }
    }
    if differ == 0 {
        return text;
    }
    format!(
        "{text}; not imported, because measured at a different time: {}",
        count_noun(differ, "trial")
    )
}
