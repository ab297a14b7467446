//! `dfsbench compare` and `dfsbench factors`: what stored campaigns say about each other.
//!
//! Offline, as `dfsbench report` is: the results files are the only input and are not changed.

mod rules;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::report::{Compared, Governing, Selection};
use model::Campaign;
use results::Store;

use crate::args::{CompareArgs, FactorsArgs};
use crate::exit::{End, Failure};
use crate::{output, output_file, render, room};

/// Compares two campaigns, or two selections of one.
///
/// # Errors
/// When a campaign can't be found, a selection is empty, or nothing is left to compare.
pub fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let rules = rules::rules(args)?;
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
    if let Some(path) = &args.output {
        output_file::check(path, Some(&args.results))?;
    }
    let [of_before, of_after] = rules::selections(&args.only, [&before, &after])?;
    let compared = Compared::of(
        Selection { campaign: &before, only: &of_before },
        Selection { campaign: &after, only: &of_after },
        rules,
    );
    check_anything(&compared)?;
    let text = compared.render(args.format);
    match &args.output {
        _ if args.quiet => {}
        None => output::data(text.as_bytes())?,
        Some(path) => output_file::write(path, text.as_bytes(), Some(&args.results))?,
    }
    Ok(verdict(&compared).into())
}

/// Refuses what has no row on one side, or, where no bound asks for it, no pair.
fn check_anything(compared: &Compared) -> Result<(), Failure> {
    let [before, after] = &compared.sides;
    let Some(first) = compared.left_out.first() else {
        if compared.pairs.is_empty() && compared.curves.is_empty() {
            return Err(Failure::Usage(format!(
                "no row of {before} or {after} has these settings (hint: `dfsbench report` shows \
                 them)"
            )));
        }
        return Ok(());
    };
    let nothing = compared.pairs.is_empty() && compared.curves.is_empty();
    if !nothing || !compared.rules.bounds.is_empty() {
        return Ok(());
    }
    let hint = if compared.left_out.iter().any(|row| row.matched) {
        "`dfsbench report` tells what is wrong with their figures"
    } else {
        "rows are matched by all settings that --where does not name"
    };
    Err(Failure::Usage(format!(
        "{before} and {after} have no row in common that could be compared; {}: {} (hint: {hint})",
        first.name, first.why
    )))
}

/// Tells which factors govern a campaign's figures.
///
/// # Errors
/// When the campaign can't be found, or nothing in it varies.
pub fn factors(args: &FactorsArgs) -> Result<ExitCode, Failure> {
    let campaign = load(&args.campaign, &args.results)?;
    let governing = Governing::of(&campaign);
    if !governing.found_any() {
        return Err(no_factors(&campaign, &governing));
    }
    output::data(governing.render(args.format).as_bytes())?;
    Ok(End::Ok.into())
}

/// Why no kind of pass has factors, by the first of them.
fn no_factors(campaign: &Campaign, governing: &Governing) -> Failure {
    let begin = format!("campaign {} has no factor to tell anything of", campaign.id);
    let first = governing.passes.iter().find_map(|pass| Some((pass, *pass.found.as_ref().err()?)));
    Failure::Usage(match first {
        Some((pass, why)) => {
            format!("{begin}; {}: {} (hint: {})", pass.name, why.sentence(), why.hint())
        }
        None => format!("{begin}: it holds no run"),
    })
}

fn verdict(compared: &Compared) -> End {
    if compared.has_lost() {
        End::Lost
    } else if compared.is_undecided() {
        // What can't be compared has not been shown to be as fast as before.
        End::Invalid
    } else {
        End::Ok
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
    room::load(&store, render::campaign_id(&store, id)?)
}
