//! `dfsbench compare` and `dfsbench factors`: what stored campaigns say about each other.
//!
//! Offline, as `dfsbench report` is: the results files are the only input and are not changed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::report::{CompareFormat, Compared, FactorsFormat, Governing, Selection, setting_names};
use model::Campaign;
use results::Store;

use crate::args::{CompareArgs, FactorsArgs, PlainFormat};
use crate::exit::{End, Failure};
use crate::{output, render};

/// Settings that rows must have, as (name, value).
type Only = Vec<(String, String)>;

/// Compares two campaigns, or two selections of one.
///
/// # Errors
/// When a campaign can't be found, a selection is empty, or nothing is left to compare.
pub fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let effect = share("--effect", &args.effect)?;
    let max_loss = args.max_loss.as_deref().map(|text| share("--max-loss", text)).transpose()?;
    let before = load(&args.before, &args.results)?;
    let after = match &args.after {
        Some(after) => load(after, &args.results)?,
        None if args.only.len() == 2 => before.clone(),
        None => {
            return Err(Failure::Usage(
                "one campaign is compared with itself by two selections (hint: a second campaign, \
                 or --where nfsvers=3 --where nfsvers=4.1)"
                    .to_owned(),
            ));
        }
    };
    let [of_before, of_after] = selections(&args.only, [&before, &after])?;
    let compared = Compared::of(
        Selection { campaign: &before, only: &of_before },
        Selection { campaign: &after, only: &of_after },
        effect,
    );
    if compared.pairs.is_empty() && compared.left_out.is_empty() {
        return Err(Failure::Usage(format!(
            "no row of {} or {} has these settings (hint: `dfsbench report` shows them)",
            compared.sides[0], compared.sides[1]
        )));
    }
    if compared.pairs.is_empty() && max_loss.is_none() {
        let (name, why) = &compared.left_out[0];
        return Err(Failure::Usage(format!(
            "{} and {} have no row in common that could be compared; {name}: {why} (hint: rows are \
             matched by all settings that --where does not name)",
            compared.sides[0], compared.sides[1]
        )));
    }
    output::data(compared.render(args.format.into()).as_bytes())?;
    Ok(verdict(&compared, max_loss).into())
}

/// Tells which factors govern a campaign's figures.
///
/// # Errors
/// When the campaign can't be found, or nothing in it varies.
pub fn factors(args: &FactorsArgs) -> Result<ExitCode, Failure> {
    let campaign = load(&args.campaign, &args.results)?;
    let governing = Governing::of(&campaign);
    if !governing.found_any() {
        let pass = governing.passes.first();
        let why = pass.map(|pass| {
            let why = pass.found.as_ref().err().copied().unwrap_or_default();
            format!("; {}: {why}", pass.name)
        });
        return Err(Failure::Usage(format!(
            "campaign {} has no factor to tell anything of{} (hint: a list of levels makes a \
             factor, such as --io-size 64KiB,1MiB)",
            campaign.id,
            why.unwrap_or_default()
        )));
    }
    output::data(governing.render(args.format.into()).as_bytes())?;
    Ok(End::Ok.into())
}

fn verdict(compared: &Compared, max_loss: Option<f64>) -> End {
    match max_loss {
        Some(share) if compared.losses(share).next().is_some() => End::Lost,
        // What can't be compared has not been shown to be as fast as before.
        Some(_) if !compared.left_out.is_empty() => End::Invalid,
        None | Some(_) => End::Ok,
    }
}

/// Finds a campaign: `3`, `last`, `file.db`, `file.db:3`.
fn load(named: &str, results: &Path) -> Result<Campaign, Failure> {
    let (file, id) = match (named, named.parse::<i64>()) {
        ("last", _) => (results.to_owned(), None),
        (_, Ok(id)) => (results.to_owned(), Some(id)),
        _ => match named.rsplit_once(':').map(|(file, id)| (file, id.parse::<i64>())) {
            Some((file, Ok(id))) => (PathBuf::from(file), Some(id)),
            _ => (PathBuf::from(named), None),
        },
    };
    let store = Store::open_existing(&file)?;
    Ok(store.load(render::campaign_id(&store, id)?)?)
}

/// What each side is restricted to: one `--where` is for both, two are for one each.
fn selections(only: &[String], sides: [&Campaign; 2]) -> Result<[Only; 2], Failure> {
    let texts = match only {
        [] => return Ok([Vec::new(), Vec::new()]),
        [both] => [both, both],
        [before, after] => [before, after],
        more => {
            let what = format!("--where is given {} times, at most 2", more.len());
            return Err(Failure::Usage(format!("{what} (hint: join settings by commas)")));
        }
    };
    Ok([selection(texts[0], sides[0])?, selection(texts[1], sides[1])?])
}

fn selection(text: &str, campaign: &Campaign) -> Result<Only, Failure> {
    let known = setting_names(campaign);
    let one = |part: &str| {
        let (name, value) = part.split_once('=').ok_or_else(|| {
            Failure::Usage(format!("--where: `{part}` is no NAME=VALUE (hint: nfsvers=3)"))
        })?;
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        if known.contains(&name) {
            return Ok((name, value));
        }
        let names = known.join(", ");
        Err(Failure::Usage(format!("--where: no run has a setting `{name}` (there are: {names})")))
    };
    text.split(',').map(one).collect()
}

/// Reads a share in percent.
fn share(flag: &str, text: &str) -> Result<f64, Failure> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(Failure::Usage(format!(
            "{flag}: must be 0 % to less than 100 %, not `{text}` (hint: {flag} 5%)"
        ))),
    }
}

impl From<PlainFormat> for CompareFormat {
    fn from(format: PlainFormat) -> Self {
        match format {
            PlainFormat::Table => Self::Table,
            PlainFormat::Markdown => Self::Markdown,
            PlainFormat::Json => Self::Json,
        }
    }
}

impl From<PlainFormat> for FactorsFormat {
    fn from(format: PlainFormat) -> Self {
        match format {
            PlainFormat::Table => Self::Table,
            PlainFormat::Markdown => Self::Markdown,
            PlainFormat::Json => Self::Json,
        }
    }
}
