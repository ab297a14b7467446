//! `dfsbench ramp TRACE` and `dfsbench curve TRACE`: reports which multiple of a load breaks a
//! target.

use replay::{Outcome, SearchResult, Verdict};

use super::document::failures_text;

pub(super) struct SearchAnswer {
    /// The answer as a sentence.
    pub text: String,
    /// False if the search was interrupted or limited by the client.
    pub is_known: bool,
}

/// Describes the result of a search.
pub(super) fn answer(found: &SearchResult) -> SearchAnswer {
    let failures = found.outcomes.first().and_then(failures_words);
    let is_known = !found.is_interrupted
        && found.client_limit.is_none()
        && !found.outcomes.is_empty()
        && failures.is_none();
    let mut text = if found.is_interrupted {
        "Interrupted before the limit was known.".to_owned()
    } else {
        words(found)
    };
    text.extend(failures);
    SearchAnswer { text, is_known }
}

/// Reports if operations failed even at the lightest load; `None` if none did.
fn failures_words(lightest: &Outcome) -> Option<String> {
    (lightest.verdict() == Verdict::Failed).then(|| {
        format!(
            " But this is not the load of the trace: even at the lowest load tried, {}.",
            failures_text(lightest).join("; ")
        )
    })
}

/// Describes the result; the trace may have been too short for faster replays.
fn words(found: &SearchResult) -> String {
    let SearchResult { held, broke, client_limit, is_too_short, .. } = *found;
    match (held, broke, client_limit) {
        (held, _, Some(late)) => {
            let sustained = match held {
                Some(held) => format!("The target sustains {held} times this load; at"),
                None => "At".to_owned(),
            };
            format!(
                "{sustained} {late} times, this client itself was too slow, so the limit of the \
                 target is unknown (hint: use a faster host)."
            )
        }
        (Some(held), Some(broke), None) => {
            format!("The target sustains {held} times this load, and breaks at {broke} times.")
        }
        (Some(held), None, None) => {
            let why = if is_too_short {
                "; any faster, this trace would take less than a second (hint: use a longer trace)"
            } else {
                ", the highest load tried"
            };
            format!("The target sustains {held} times this load{why}.")
        }
        (None, Some(broke), None) => {
            format!("The target breaks at {broke} times this load, the lowest load tried.")
        }
        (None, None, None) => "Nothing was replayed.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::stored;
    use super::*;

    #[test]
    fn states_known_and_unknown_limits() {
        let mut found = SearchResult {
            held: Some(4.0),
            broke: None,
            client_limit: None,
            is_too_short: false,
            is_interrupted: false,
            outcomes: Vec::new(),
        };
        let untried = words(&found);
        found.is_too_short = true;
        let too_short = words(&found);
        found.broke = Some(4.4);
        let broken = words(&found);
        found.client_limit = Some(4.2);
        let late = words(&found);
        insta::assert_snapshot!([untried, too_short, broken, late].join("\n"));
    }

    #[test]
    fn names_failures_at_lightest_load() {
        let mut lightest = stored(1_000_000).outcomes.remove(0);
        insta::assert_snapshot!(failures_words(&lightest).unwrap());
        lightest.kinds[0].unexpected_errors = 0;
        assert_eq!(failures_words(&lightest), None);
    }
}
