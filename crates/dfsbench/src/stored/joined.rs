//! Finds campaigns by name, in results files and bundles, and loads those of `dfsbench report` and
//! `dfsbench factors` as a single set of runs.

use std::path::{Path, PathBuf};

use model::setting::Setting;
use model::{Campaign, CampaignLine};
use report::{CampaignSource, JoinedCampaigns, UnknownProperty};
use results::Store;

use crate::exit::Failure;
use crate::stored::{bundle_file, memory_guard};

/// Loads campaigns by name: `3`, `last`, `file.db`, `file.db:3` or a bundle. `by` lists the
/// properties that distinguish them; if it is empty, they are determined automatically.
///
/// # Errors
/// If one can't be found or is named twice, or if `by` lists a property that doesn't differ.
pub(crate) fn load(
    named: &[String],
    by: &[String],
    results: &Path,
) -> Result<JoinedCampaigns, Failure> {
    let mut sources = Vec::with_capacity(named.len());
    let mut known: Vec<(String, &String)> = Vec::new();
    for name in named {
        let LoadedCampaign { campaign, line, file } = load_campaign(name, results)?;
        if let Some((_, before)) = known.iter().find(|(uuid, _)| *uuid == line.uuid) {
            return Err(Failure::Usage(format!(
                "`{before}` and `{name}` are the same campaign, {} of {file} (hint: name each \
                 campaign once; `dfsbench list` shows them)",
                line.id
            )));
        }
        known.push((line.uuid, name));
        sources.push(CampaignSource { campaign, tags: line.tags, label: name.clone() });
    }
    JoinedCampaigns::new(sources, by).map_err(|unknown| refuse_property(&unknown))
}

/// A campaign in memory.
#[derive(Debug)]
pub(crate) struct LoadedCampaign {
    pub campaign: Campaign,
    pub line: CampaignLine,
    /// Path of its results file or bundle.
    pub file: String,
}

/// Loads a campaign by name: `3`, `last`, `file.db`, `file.db:3` or a bundle.
///
/// # Errors
/// If the file can't be read or contains no campaign, or a bundle is damaged.
pub(crate) fn load_campaign(named: &str, results: &Path) -> Result<LoadedCampaign, Failure> {
    if !bundle_file::is_bundle(Path::new(named)) {
        let (store, id) = find_campaign(named, results)?;
        let file = store.path().display().to_string();
        let campaign = memory_guard::load(&store, id)?;
        return Ok(LoadedCampaign { campaign, line: store.line(id)?, file });
    }
    let opened = bundle_file::open(Path::new(named))?.map_err(|problems| {
        Failure::Usage(format!(
            "bundle `{named}` is damaged: {} (hint: get it again)",
            problems.join("; ")
        ))
    })?;
    let store = &opened.store;
    let campaign = memory_guard::load(store, bundle_file::CAMPAIGN)?;
    let line = store.line(bundle_file::CAMPAIGN)?;
    Ok(LoadedCampaign { campaign, line, file: named.to_owned() })
}

/// Finds a campaign by name: `3`, `last`, `file.db` or `file.db:3`.
///
/// # Errors
/// If the file can't be read or contains no campaign.
pub(crate) fn find_campaign(named: &str, results: &Path) -> Result<(Store, i64), Failure> {
    let (file, id) = match (named, named.parse::<i64>()) {
        ("last", _) => (results.to_owned(), None),
        (_, Ok(id)) => (results.to_owned(), Some(id)),
        _ => match named.rsplit_once(':').map(|(file, id)| (file, id.parse::<i64>())) {
            Some((file, Ok(id))) => (PathBuf::from(file), Some(id)),
            _ => (PathBuf::from(named), None),
        },
    };
    let store = Store::open_existing(&file)?;
    let id = campaign_id(&store, id)?;
    Ok((store, id))
}

/// Returns the ID that was given, or that of the latest campaign.
pub(crate) fn campaign_id(store: &Store, named: Option<i64>) -> Result<i64, Failure> {
    if let Some(id) = named {
        return Ok(id);
    }
    let Some(id) = store.latest()? else {
        let shown = store.path().display();
        return Err(Failure::Usage(format!(
            "{shown} has no campaigns yet (hint: `dfsbench run` creates one)"
        )));
    };
    Ok(id)
}

/// Builds the error for a property that doesn't distinguish the campaigns.
fn refuse_property(unknown: &UnknownProperty) -> Failure {
    let UnknownProperty { name, only_value, known } = unknown;
    let is_setting = Setting::ALL.iter().any(|setting| setting.key() == name.trim());
    let what = match only_value {
        None if is_setting => {
            format!("`{name}` is a setting, which is a factor anyway if it varies")
        }
        Some(value) => format!("`{name}` is `{value}` in all runs, so it is not a factor"),
        None => format!("no campaign has a fact or label `{name}`"),
    };
    let hint = if known.is_empty() {
        "no fact or label differs; settings don't need --by".to_owned()
    } else {
        format!("available: {}", known.join(", "))
    };
    Failure::Usage(format!("--by: {what} (hint: {hint})"))
}
