//! Suggests the known word that a wrong one was most likely meant to be.
//!
//! All lists of known words share this code: the hint is the nearest word, or the whole list if
//! none is near.

use crate::syntax::error::Fault;
use crate::syntax::text;

/// Finds the word that `given` was most likely meant to be; at most a third of it may differ.
pub fn nearest_word<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    // To users, `io-size`, `IO_SIZE` and `io_size` are the same word.
    let given = given.to_lowercase().replace('-', "_");
    let mut nearest: Option<(usize, &str)> = None;
    for word in known {
        let plain = word.to_lowercase().replace('-', "_");
        // Damerau-Levenshtein counts a swap of two adjacent letters, the most common typo, as one
        // error.
        let distance = strsim::damerau_levenshtein(&given, &plain);
        if nearest.is_none_or(|(least, _)| distance < least) {
            nearest = Some((distance, word));
        }
    }
    let (distance, word) = nearest?;
    let allowed = word.chars().count().max(given.chars().count()) / 3;
    if distance <= allowed { Some(word) } else { None }
}

/// Refuses a word that is not one of `known`; the hint has the nearest one or all of them.
pub(crate) fn unknown_word(what: &str, given: &str, known: &[&str]) -> Fault {
    let hint = match nearest_word(given, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "there is none".to_owned(),
        None => format!("write {}", text::join_with_or(known)),
    };
    Fault::new(format!("unknown {what} `{given}`")).hint(hint)
}

/// Returns the value found for a word, or refuses the word.
pub(crate) fn known_word<T>(
    found: Option<T>,
    what: &str,
    given: &str,
    known: &[&str],
) -> Result<T, Fault> {
    found.ok_or_else(|| unknown_word(what, given, known))
}
