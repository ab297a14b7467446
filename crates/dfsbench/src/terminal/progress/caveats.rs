//! The caveats of a campaign so far, for display: each code and each piece of evidence once.

use model::{Caveat, CaveatCode, Severity};

/// A caveat that was reported.
#[derive(Debug)]
pub(super) struct ReportedCaveat {
    pub code: CaveatCode,
    /// Number of passes with this caveat.
    pub passes: usize,
    /// Run and pass in which it was first reported.
    pub place: String,
    /// Numbers that triggered it there.
    pub evidence: String,
}

impl ReportedCaveat {
    /// Creates the entry for the first pass with a caveat. Evidence already shown by another entry
    /// is replaced by a reference to that entry. The reason why the trial failed is left out,
    /// because it was printed with the trial.
    pub(super) fn new(caveat: &Caveat, place: String, known: &[Self], failure: &str) -> Self {
        let mut parts: Vec<String> = Vec::new();
        let evidence = without_failure(caveat.evidence.trim_end_matches('.'), failure);
        for part in split_evidence(evidence) {
            let same = known.iter().find(|other| split_evidence(&other.evidence).contains(&part));
            let part = match same {
                Some(other) => format!("see {}", other.code),
                None => part.to_owned(),
            };
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        Self { code: caveat.code, passes: 1, place, evidence: parts.join("; ") }
    }

    /// Formats the caveat as a line: `! cached: 50 % of the pages (dir posix stream read)`.
    pub(super) fn line(&self) -> String {
        let mark = match self.code.severity() {
            Severity::Invalid => "x",
            Severity::Degraded => "!",
            Severity::Note => "i",
        };
        format!("{mark} {}: {} ({})", self.code, self.evidence, self.place)
    }
}

/// Strips the end of evidence that repeats a failure: `2 ops: no space` becomes `2 ops`.
fn without_failure<'e>(evidence: &'e str, failure: &str) -> &'e str {
    let ends = evidence.match_indices(": ");
    let found = ends.map(|(at, colon)| evidence.split_at(at + colon.len()));
    for (start, end) in found {
        if failure.contains(end) {
            return start.trim_end_matches(": ");
        }
    }
    evidence
}

/// Splits evidence at semicolons outside parentheses.
fn split_evidence(evidence: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut depth = 0_i32;
    let mut start = 0;
    for (at, letter) in evidence.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ';' if depth == 0 => {
                parts.push(evidence[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(evidence[start..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITED: &str = "workers waited for 8 ms (12 %, at most 10 %; schedstat)";

    fn seen(code: CaveatCode, evidence: &str, known: &[ReportedCaveat]) -> ReportedCaveat {
        ReportedCaveat::new(&code.because(evidence.to_owned()), "dir stream".to_owned(), known, "")
    }

    #[test]
    fn gives_each_evidence_once() {
        let first = seen(CaveatCode::ProcessorContention, WAITED, &[]);
        assert_eq!(first.evidence, WAITED);
        let second =
            seen(CaveatCode::SharedHost, &format!("the server is here; {WAITED}."), &[first]);
        insta::assert_snapshot!(
            second.line(),
            @"i shared-host: the server is here; see processor-contention (dir stream)"
        );
    }

    #[test]
    fn omits_reason_of_failure() {
        let failure = "app: sh: exit code 7: no such file";
        let evidence = "1 failed ops (1 x program failed): sh: exit code 7: no such file";
        let errors = CaveatCode::Errors.because(evidence.to_owned());
        let seen = ReportedCaveat::new(&errors, "d app".to_owned(), &[], failure);
        insta::assert_snapshot!(
            seen.line(),
            @"x errors: 1 failed ops (1 x program failed) (d app)"
        );
        let other = ReportedCaveat::new(&errors, "d app".to_owned(), &[], "app: exit code 8");
        assert_eq!(other.evidence, evidence);
    }

    #[test]
    fn keeps_other_numbers() {
        let first = seen(CaveatCode::ProcessorContention, WAITED, &[]);
        let other = WAITED.replace("12 %", "13 %");
        assert_eq!(seen(CaveatCode::SharedHost, &other, &[first]).evidence, other);
    }
}
