//! `dfsbench compare` and `dfsbench factors`: comparisons of stored campaigns.
//!
//! Like `dfsbench report`, these work offline: results files are the only input and are not
//! changed. Arguments are first turned into rules, bounds and selections; every error names the
//! flag, the value and a valid alternative.

use std::path::Path;
use std::process::ExitCode;

use ::report::{
    CampaignComparison, ComparisonBound, ComparisonRules, FactorEffects, Format, JoinedCampaigns,
    Measure, ReportDetail, Selection, is_same, label_names, label_values, setting_names,
    setting_values,
};
use model::{Campaign, Question};
use stats::criteria::EFFECT_MIN;

use crate::args::{Adjustment, CompareArgs, FactorsArgs, Inconclusive, RESULTS};
use crate::commands::replay;
use crate::exit::{End, Failure};
use crate::files::output_file;
use crate::stored::joined;
use crate::terminal::output::{self, Printable};

/// Settings that rows must have, as (name, value).
type RowFilter = Vec<(String, String)>;

/// Upper limit of a slowdown bound, as a share: 100 times as long.
const SLOWDOWN_MAX: f64 = 99.0;

/// Maximum number of values of a setting to list when none of them matches.
const VALUES_MAX: usize = 30;

/// Measures that a bare `--max-slowdown 20%` applies to.
const USUAL_TIMES: [Measure; 2] = [Measure::ResponseP50, Measure::ResponseP99];

/// Compares two campaigns, or two selections of one.
///
/// # Errors
/// If a campaign can't be found, a selection is empty, or nothing is left to compare.
pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    if let Some(after) = &args.after
        && replay::is_document(&args.before)
        && replay::is_document(after)
    {
        return replay::compare(&args.before, after, args);
    }
    let rules = read_rules(args)?;
    let (before, before_file) = load_campaign(&args.before, &args.results)?;
    let (after, after_file) = match &args.after {
        Some(after) => load_campaign(after, &args.results)?,
        None if args.only.len() == 2 => (before.clone(), before_file.clone()),
        None => {
            return Err(Failure::Usage(
                "comparing a campaign with itself needs two selections (hint: name a second \
                 campaign, or two selections such as --where nfsvers=3 --where nfsvers=4.1)"
                    .to_owned(),
            ));
        }
    };
    if let Some(path) = &args.output {
        output_file::check(path, Some(&args.results))?;
    }
    let [of_before, of_after] = read_selections(&args.only, [&before, &after])?;
    let mut compared = CampaignComparison::new(
        Selection { campaign: &before, only: &of_before },
        Selection { campaign: &after, only: &of_after },
        rules,
    );
    compared.name_files([before_file, after_file]);
    compared.command = describe_command(args);
    check_anything(&compared, [&before, &after])?;
    if args.quiet {
        return Ok(decide_end(&compared, args.inconclusive).into());
    }
    let text = match args.format {
        Format::Table => compared.render_screen(output::screen(ReportDetail::Main)),
        format => compared.render(format),
    };
    match &args.output {
        None if args.format == Format::Table => output::print_colored(&text)?,
        None => output::print(&Printable::report(&text, args.format))?,
        Some(path) => {
            let text = Printable::report(&text, args.format);
            output_file::write(path, text.as_bytes(), Some(&args.results))?;
        }
    }
    Ok(decide_end(&compared, args.inconclusive).into())
}

/// Returns the command without its selections, so that it can be repeated with others.
fn describe_command(args: &CompareArgs) -> String {
    let mut command = format!("dfsbench compare {}", args.before);
    if let Some(after) = &args.after {
        command = format!("{command} {after}");
    }
    if args.results != Path::new(RESULTS) {
        command = format!("{command} --results {}", args.results.display());
    }
    command
}

/// Returns an error if one side has no rows or, unless a bound is given, no row has a counterpart.
fn check_anything(compared: &CampaignComparison, campaigns: [&Campaign; 2]) -> Result<(), Failure> {
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
    let hint = if let Some(hint) = curve_hint(campaigns) {
        hint
    } else if compared.left_out.iter().any(|row| row.matched) {
        "`dfsbench report` shows what is wrong with their results".to_owned()
    } else if let Some(command) = compared.pairing_commands().first() {
        format!("to compare rows that differ in this: `{command}`")
    } else {
        "rows are matched by all settings that --where does not name".to_owned()
    };
    Err(Failure::Usage(format!(
        "{before} and {after} have no row in common that could be compared; {}: {} (hint: {hint})",
        first.name, first.why
    )))
}

/// Advises how to compare two curves that chose their own load points.
fn curve_hint(campaigns: [&Campaign; 2]) -> Option<String> {
    let [Question::Curve(before), Question::Curve(after)] = campaigns.map(|one| &one.question)
    else {
        return None;
    };
    if before.bound.or(after.bound).is_none() && before.loads_per_s == after.loads_per_s {
        return Some(
            "curves are matched by target and settings: --where, once for each side, \
                     picks one of each"
                .to_owned(),
        );
    }
    let per_s = before.maximum.per_s.max(after.maximum.per_s);
    Some(format!(
        "their load points differ: repeat both with the same load points, `dfsbench curve \
         --max-load {per_s}`, and without --bound"
    ))
}

/// Shows which factors affect the results of a campaign.
///
/// # Errors
/// If the campaign can't be found or nothing in it varies.
pub(crate) fn factors(args: &FactorsArgs) -> Result<ExitCode, Failure> {
    let joined = joined::load(&args.campaigns, &args.by.by, &args.results)?;
    let effects = FactorEffects::from_joined(&joined);
    if !effects.has_effects() {
        return Err(no_factors(&joined, &effects));
    }
    if args.format == Format::Table {
        output::print_colored(&effects.render_screen(output::screen(ReportDetail::Main)))?;
    } else {
        output::print(&Printable::report(&effects.render(args.format), args.format))?;
    }
    Ok(End::Ok.into())
}

/// Explains why no kind of pass has factors, using the first kind as an example.
fn no_factors(joined: &JoinedCampaigns, effects: &FactorEffects) -> Failure {
    let begin = match joined.members() {
        [one] => format!("campaign {} has no factors to compare", one.id),
        members => format!("these {} campaigns have no factors to compare", members.len()),
    };
    for pass in &effects.passes {
        if let Err(why) = &pass.found {
            return Failure::Usage(format!(
                "{begin}; {}: {} (hint: {})",
                pass.name,
                why.sentence(),
                why.hint()
            ));
        }
    }
    Failure::Usage(format!("{begin}: no runs"))
}

fn decide_end(compared: &CampaignComparison, inconclusive: Inconclusive) -> End {
    if compared.has_lost() {
        End::Lost
    } else if compared.is_undecided() && inconclusive == Inconclusive::Fail {
        // A row that can't be compared has not been shown to be as fast as before.
        End::Invalid
    } else {
        End::Ok
    }
}

/// Loads a campaign by its name, and also returns the name of its file.
pub(super) fn load_campaign(named: &str, results: &Path) -> Result<(Campaign, String), Failure> {
    let loaded = joined::load_campaign(named, results)?;
    Ok((loaded.campaign, loaded.file))
}

/// Parses what counts as a difference and what exceeds a bound.
///
/// # Errors
/// If a share is invalid, a measure is unknown, or the smallest effect would hide a bound.
fn read_rules(args: &CompareArgs) -> Result<ComparisonRules, Failure> {
    let mut bounds = Vec::new();
    if let Some(text) = &args.max_loss {
        bounds.push(ComparisonBound {
            measure: Measure::Rate,
            share: parse_share("--max-loss", text, 1.0)?,
        });
    }
    for text in &args.max_slowdown {
        for bound in parse_slowdown(text)? {
            if bounds.iter().any(|known| known.measure == bound.measure) {
                let name = bound.measure.name();
                return Err(Failure::Usage(format!("--max-slowdown: {name} is given twice")));
            }
            bounds.push(bound);
        }
    }
    let mut effect = EFFECT_MIN;
    for bound in &bounds {
        effect = effect.min(bound.share);
    }
    if let Some(text) = &args.effect {
        effect = parse_share("--effect", text, 1.0)?;
    }
    if let Some(bound) = bounds.iter().find(|bound| bound.share < effect) {
        return Err(Failure::Usage(format!(
            "--effect {}: the bound of {} ({} %) is smaller and could be exceeded unnoticed (hint: \
             omit --effect)",
            args.effect.as_deref().unwrap_or_default(),
            bound.measure.name(),
            bound.share * 100.0
        )));
    }
    Ok(ComparisonRules { effect, adjust: args.adjust == Adjustment::Holm, bounds })
}

/// Parses `20%` or `p99=20%`.
fn parse_slowdown(text: &str) -> Result<Vec<ComparisonBound>, Failure> {
    const FLAG: &str = "--max-slowdown";
    let Some((name, value)) = text.split_once('=') else {
        let share = parse_share(FLAG, text, SLOWDOWN_MAX)?;
        return Ok(USUAL_TIMES.map(|measure| ComparisonBound { measure, share }).to_vec());
    };
    let Some(measure) = Measure::time_named(name.trim()) else {
        // Skip the first measure, which is the rate.
        let names: Vec<_> = Measure::ALL[1..].iter().map(|measure| measure.name()).collect();
        return Err(Failure::Usage(format!(
            "{FLAG}: there is no time `{}` (available: {})",
            name.trim(),
            names.join(", ")
        )));
    };
    Ok(vec![ComparisonBound { measure, share: parse_share(FLAG, value, SLOWDOWN_MAX)? }])
}

/// Parses a share in percent, from 0 to less than `end`.
pub(super) fn parse_share(flag: &str, text: &str, end: f64) -> Result<f64, Failure> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent >= 0.0 && percent / 100.0 < end => Ok(percent / 100.0),
        _ => Err(Failure::Usage(format!(
            "{flag}: must be 0 % to less than {} %, not `{text}` (hint: {flag} 5%)",
            end * 100.0
        ))),
    }
}

/// Parses the selection of each side. A single `--where` applies to both sides, two apply to one
/// side each.
///
/// # Errors
/// If no run of the side has the setting or the value.
fn read_selections(only: &[String], sides: [&Campaign; 2]) -> Result<[RowFilter; 2], Failure> {
    let texts = match only {
        [] => return Ok([Vec::new(), Vec::new()]),
        [both] => [both, both],
        [before, after] => [before, after],
        more => {
            let what = format!("--where is given {} times; at most 2 are allowed", more.len());
            return Err(Failure::Usage(format!("{what} (hint: join settings with commas)")));
        }
    };
    Ok([parse_selection(texts[0], sides[0])?, parse_selection(texts[1], sides[1])?])
}

fn parse_selection(text: &str, campaign: &Campaign) -> Result<RowFilter, Failure> {
    let known = setting_names(campaign);
    let id = campaign.id;
    let mut only = Vec::new();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or_default();
        let name = name.trim().to_owned();
        let value = value.trim().to_owned();
        if name.is_empty() {
            return Err(Failure::Usage(format!(
                "--where: `{part}` is not NAME=VALUE (hint: nfsvers=3)"
            )));
        }
        if name.starts_with("label.") {
            // Host labels apply to all runs of a campaign, so the campaign is selected as a whole.
            check_label(campaign, &name, &value)?;
            continue;
        }
        if !known.contains(&name.as_str()) {
            let names = known.join(", ");
            return Err(Failure::Usage(format!(
                "--where: no run of campaign {id} has a setting `{name}` (available: {names})"
            )));
        }
        let values = setting_values(campaign, &name);
        if !values.iter().any(|known| is_same(known, &value)) {
            let values = name_few(&values);
            return Err(Failure::Usage(format!(
                "--where: no run of campaign {id} has {name} {value} (available: {values})"
            )));
        }
        only.push((name, value));
    }
    Ok(only)
}

/// Returns an error for a label, or a label's value, that no host of a campaign has.
fn check_label(campaign: &Campaign, name: &str, value: &str) -> Result<(), Failure> {
    let id = campaign.id;
    let values = label_values(campaign, name);
    if values.iter().any(|known| is_same(known, value)) {
        return Ok(());
    }
    let what = if values.is_empty() {
        let names = label_names(campaign);
        let known = if names.is_empty() {
            "hint: [host.labels] in its plan defines them".to_owned()
        } else {
            format!("available: {}", names.join(", "))
        };
        format!("no host of campaign {id} has a label `{name}` ({known})")
    } else {
        format!("no host of campaign {id} has {name} {value} (available: {})", name_few(&values))
    };
    Err(Failure::Usage(format!("--where: {what}")))
}

/// Lists the first values of a setting and the number of the others.
fn name_few(values: &[String]) -> String {
    match values.split_at_checked(VALUES_MAX) {
        Some((first, more)) if !more.is_empty() => {
            format!("{} and {} more", first.join(", "), more.len())
        }
        _ => values.join(", "),
    }
}
