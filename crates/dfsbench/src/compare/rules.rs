//! What `dfsbench compare` was asked: which rows of each side, by which rules, within which bounds.
//!
//! Text comes in, types go out; every refusal names the flag, the value and what would do.

use ::report::{Bound, Measure, Rules, is_same, setting_names, setting_values};
use model::Campaign;
use stats::criteria::EFFECT_MIN;

use crate::args::{Adjust, CompareArgs};
use crate::exit::Failure;

/// Settings that rows must have, as (name, value).
pub type Only = Vec<(String, String)>;

/// The largest slowdown that can be a bound, as a share: a hundred times as long.
const SLOWDOWN_MAX: f64 = 99.0;

/// So many values of a setting are named where none of them was meant.
const VALUES_MAX: usize = 30;

/// What a bare `--max-slowdown 20%` is about.
const USUAL_TIMES: [Measure; 2] = [Measure::ResponseP50, Measure::ResponseP99];

/// Reads what counts as a difference and what as too much of one.
///
/// # Errors
/// When a share is none, a measure is unknown, or the smallest effect would hide a bound.
pub fn rules(args: &CompareArgs) -> Result<Rules, Failure> {
    let mut bounds = Vec::new();
    if let Some(text) = &args.max_loss {
        bounds.push(Bound { measure: Measure::Rate, share: share("--max-loss", text, 1.0)? });
    }
    for text in &args.max_slowdown {
        for bound in slowdown(text)? {
            if bounds.iter().any(|known| known.measure == bound.measure) {
                let name = bound.measure.name();
                return Err(Failure::Usage(format!("--max-slowdown: {name} is given twice")));
            }
            bounds.push(bound);
        }
    }
    let smallest = bounds.iter().map(|bound| bound.share).fold(EFFECT_MIN, f64::min);
    let effect = match &args.effect {
        None => smallest,
        Some(text) => share("--effect", text, 1.0)?,
    };
    if let Some(bound) = bounds.iter().find(|bound| bound.share < effect) {
        return Err(Failure::Usage(format!(
            "--effect {}: the bound of {} is smaller, {} %, and would be overstepped unnoticed \
             (hint: leave --effect out)",
            args.effect.as_deref().unwrap_or_default(),
            bound.measure.name(),
            bound.share * 100.0
        )));
    }
    Ok(Rules { effect, adjust: args.adjust == Adjust::Holm, bounds })
}

/// Reads `20%` or `p99=20%`.
fn slowdown(text: &str) -> Result<Vec<Bound>, Failure> {
    const FLAG: &str = "--max-slowdown";
    let Some((name, value)) = text.split_once('=') else {
        let share = share(FLAG, text, SLOWDOWN_MAX)?;
        return Ok(USUAL_TIMES.map(|measure| Bound { measure, share }).to_vec());
    };
    let Some(measure) = Measure::time_named(name.trim()) else {
        let names: Vec<&str> = Measure::ALL[1..].iter().map(|measure| measure.name()).collect();
        return Err(Failure::Usage(format!(
            "{FLAG}: there is no time `{}` (there are: {})",
            name.trim(),
            names.join(", ")
        )));
    };
    Ok(vec![Bound { measure, share: share(FLAG, value, SLOWDOWN_MAX)? }])
}

/// Reads a share in percent, from 0 to less than `end`.
fn share(flag: &str, text: &str, end: f64) -> Result<f64, Failure> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent >= 0.0 && percent / 100.0 < end => Ok(percent / 100.0),
        _ => Err(Failure::Usage(format!(
            "{flag}: must be 0 % to less than {} %, not `{text}` (hint: {flag} 5%)",
            end * 100.0
        ))),
    }
}

/// What each side is restricted to: one `--where` is for both, two are for one each.
///
/// # Errors
/// When a setting or a value is none that a run of the side has.
pub fn selections(only: &[String], sides: [&Campaign; 2]) -> Result<[Only; 2], Failure> {
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
        let (name, value) =
            part.split_once('=').filter(|(name, _)| !name.trim().is_empty()).ok_or_else(|| {
                Failure::Usage(format!("--where: `{part}` is no NAME=VALUE (hint: nfsvers=3)"))
            })?;
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        let id = campaign.id;
        if !known.contains(&name.as_str()) {
            let names = known.join(", ");
            return Err(Failure::Usage(format!(
                "--where: no run of campaign {id} has a setting `{name}` (there are: {names})"
            )));
        }
        let values = setting_values(campaign, &name);
        if values.iter().any(|known| is_same(known, &value)) {
            return Ok((name, value));
        }
        let values = few(&values);
        Err(Failure::Usage(format!(
            "--where: no run of campaign {id} has {name} {value} (there are: {values})"
        )))
    };
    text.split(',').map(one).collect()
}

/// Names the first values of a setting, and how many more there are.
fn few(values: &[String]) -> String {
    match values.split_at_checked(VALUES_MAX) {
        Some((first, more)) if !more.is_empty() => {
            format!("{} and {} more", first.join(", "), more.len())
        }
        _ => values.join(", "),
    }
}
