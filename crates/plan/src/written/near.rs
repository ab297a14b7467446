//! The known word that a wrong one was most likely meant to be.
//!
//! Every list of known words is refused alike: with the nearest of them as the hint, or with all
//! of them where none is near.

use crate::written::error::Fault;
use crate::written::text;

/// Finds the word that `given` was most likely meant to be: at most a third of it is wrong.
pub fn nearest_word<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let given = given.to_lowercase().replace('-', "_");
    let distance =
        |word: &str| strsim::damerau_levenshtein(&given, &word.to_lowercase().replace('-', "_"));
    let best = known.iter().copied().min_by_key(|word| distance(word))?;
    let allowed = best.chars().count().max(given.chars().count()) / 3;
    (distance(best) <= allowed).then_some(best)
}

/// Refuses a word that isn't one of `known`, with the nearest or all of them.
pub(crate) fn unknown_word(what: &str, given: &str, known: &[&str]) -> Fault {
    let hint = match nearest_word(given, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "there is none".to_owned(),
        None => format!("write {}", text::either(known)),
    };
    Fault::new(format!("unknown {what} `{given}`")).hint(hint)
}
