//! Rule: the code and its pages use the standard words of the field.
//!
//! Principal type: [`OddWord`]. The table has what was once used here and what is meant. A word is
//! looked for in identifiers (`sent_at` and `SentAt` have two) and in prose: comments, messages and
//! pages. Left alone is what quotes a stored name or another program: text in backticks, blocks of
//! code in pages, and string literals that are a single name, such as a key of a results file.
//!
//! In crates of [`CLEAN`] an odd word is an error; of other crates they are counted, and pages that
//! have some are reported.

use super::Finding;
use super::files::SourceFile;

/// A word that isn't used, and the one that is.
#[derive(Debug, PartialEq, Eq)]
struct OddWord {
    word: &'static str,
    meant: &'static str,
}

const fn odd(word: &'static str, meant: &'static str) -> OddWord {
    OddWord { word, meant }
}

/// Single words, as parts of identifiers or in prose.
static WORDS: [OddWord; 68] = [
    odd("house", "architecture"),
    odd("rooms", "modules"),
    odd("arrow", "dependency"),
    odd("crew", "agent group"),
    odd("fallen", "failed"),
    odd("bury", "drop"),
    odd("buried", "dropped"),
    odd("forgive", "retry"),
    odd("forgiven", "retried"),
    odd("beat", "heartbeat"),
    odd("beats", "heartbeats"),
    odd("pulse", "interval"),
    odd("pulses", "intervals"),
    odd("bell", "wakeup"),
    odd("voice", "writer"),
    odd("mouth", "writer"),
    odd("hall", "lobby"),
    odd("knock", "connect"),
    odd("blow", "fault"),
    odd("blows", "faults"),
    odd("upset", "fault event"),
    odd("upsets", "fault events"),
    odd("perish", "crash"),
    odd("perished", "crashed"),
    odd("calm", "quiet"),
    odd("books", "journal"),
    odd("booked", "journaled"),
    odd("census", "inventory"),
    odd("witness", "cross-check source"),
    odd("witnesses", "cross-check sources"),
    odd("truth", "cross-check"),
    odd("truths", "cross-checks"),
    odd("doubt", "caveat"),
    odd("doubts", "caveats"),
    odd("suspicion", "caveat"),
    odd("suspicions", "caveats"),
    odd("told", "reported"),
    odd("said", "reported"),
    odd("asked", "requested"),
    odd("heard", "received"),
    odd("came", "received"),
    odd("hollow", "qualified"),
    odd("yardstick", "metric"),
    odd("governs", "dominates"),
    odd("governing", "dominant"),
    odd("rung", "layer"),
    odd("rungs", "layers"),
    odd("climb", "analyze"),
    odd("climbed", "analyzed"),
    odd("climbs", "analyzes"),
    odd("due", "scheduled"),
    odd("unmet", "not started"),
    odd("anew", "again"),
    odd("kit", "fixtures"),
    odd("rope", "what it holds"),
    odd("spot", "what it holds"),
    odd("spots", "what they hold"),
    odd("shot", "what it holds"),
    odd("shots", "what they hold"),
    odd("wish", "request"),
    odd("wishes", "requests"),
    odd("fate", "outcome"),
    odd("fates", "outcomes"),
    odd("mend", "fix"),
    odd("mended", "fixed"),
    odd("nobody", "no client, no process"),
    odd("somebody", "another process"),
    odd("whoever", "the caller"),
];

/// Phrases of prose.
static PHRASES: [OddWord; 17] = [
    odd("once more", "again"),
    odd("of others", "external"),
    odd("put back", "restore"),
    odd("puts back", "restores"),
    odd("give back", "release"),
    odd("gives back", "releases"),
    odd("given back", "released"),
    odd("take back", "withdraw"),
    odd("takes back", "withdraws"),
    odd("taken back", "withdrawn"),
    odd("in force", "effective"),
    odd("in between", "between passes"),
    odd("look after", "manage"),
    odd("looks after", "manages"),
    odd("looked after", "managed"),
    odd("clock of the day", "wall clock"),
    odd("under way", "in flight"),
];

/// Plain English that has an odd word in it.
const PLAIN: [&str; 3] = ["due to", "beat frequency", "leap of"];

/// Crates without odd words, where one is an error. A crate is added once it has none.
const CLEAN: [&str; 20] = [
    "agent",
    "checks",
    "controller",
    "dfsbench",
    "engine",
    "fleet",
    "fuzz",
    "lab",
    "model",
    "nfs-client",
    "nfs-proto",
    "nfs-server",
    "plan",
    "replay",
    "report",
    "results",
    "stats",
    "trace",
    "workload",
    "xtask",
];

/// Checks the files of a crate, tests included.
pub fn check(krate: &str, files: &[&SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (line, odd) in find_in_code(file) {
            let place = format!("{}:{}", file.path, line + 1);
            findings.push(Finding::error(place, format!("`{}`: say `{}`", odd.word, odd.meant)));
        }
    }
    let is_clean = CLEAN.contains(&krate);
    if is_clean {
        return findings;
    }
    if findings.is_empty() {
        let message = "has no odd words any more: add it to CLEAN in xtask/src/tidy/vocabulary.rs";
        return vec![Finding::warning(krate, message)];
    }
    Vec::new()
}

/// Counts the odd words in the files of a crate.
pub fn count(files: &[&SourceFile]) -> usize {
    let mut count = 0;
    for file in files {
        count += find_in_code(file).len();
    }
    count
}

/// Reports the odd words of a page, all in one warning; code blocks are left alone.
pub fn check_page(path: &str, text: &str) -> Option<Finding> {
    let mut odd_words = Vec::new();
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            for odd in find_in_line(line) {
                odd_words.push(format!(
                    "`{}` (line {}, say `{}`)",
                    odd.word,
                    number + 1,
                    odd.meant
                ));
            }
        }
    }
    if odd_words.is_empty() {
        return None;
    }
    let message = format!("{} odd words: {}", odd_words.len(), odd_words.join(", "));
    Some(Finding::warning(path, message))
}

/// Returns odd words with the 0-based lines that have them.
fn find_in_code(file: &SourceFile) -> Vec<(usize, &'static OddWord)> {
    let mut all = Vec::new();
    if file.path.ends_with("tidy/vocabulary.rs") {
        // It has to spell them.
        return all;
    }
    for (line, text) in file.source.lines.iter().enumerate() {
        for odd in find_in_line(&without_names_in_quotes(text)) {
            all.push((line, odd));
        }
    }
    all
}

/// Blanks string literals that are a single name: `"rungs"`, but not `"no rungs"`.
fn without_names_in_quotes(line: &str) -> String {
    let mut kept = String::new();
    for (number, part) in line.split('"').enumerate() {
        let is_inside = number % 2 == 1;
        let is_name =
            part.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter));
        if !(is_inside && is_name) {
            kept.push_str(part);
        }
        kept.push('"');
    }
    kept
}

/// Finds odd words outside of backticks.
fn find_in_line(line: &str) -> Vec<&'static OddWord> {
    let mut prose = String::new();
    for (number, part) in line.split('`').enumerate() {
        if number % 2 == 0 {
            prose.push_str(part);
        }
        prose.push(' ');
    }
    let mut found = Vec::new();
    let parts = split_words(&prose);
    let mut lowered = prose.to_lowercase();
    for plain in PLAIN {
        lowered = lowered.replace(plain, "");
    }
    for odd in &WORDS {
        let times = parts.iter().filter(|part| *part == odd.word).count();
        let is_plain = times > 0 && !lowered.contains(odd.word);
        if !is_plain {
            for _ in 0..times {
                found.push(odd);
            }
        }
    }
    for odd in &PHRASES {
        if lowered.contains(odd.word) {
            found.push(odd);
        }
    }
    found
}

/// Splits text into lower-case words; an identifier in snake case or camel case is several.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for letter in text.chars() {
        let begins = letter.is_uppercase() && !before.is_uppercase();
        if (!letter.is_alphabetic() || begins) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_alphabetic() {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&'static str> {
        let file = SourceFile::new("crates/shed/src/a.rs", text);
        find_in_code(&file).into_iter().map(|(_, odd)| odd.word).collect()
    }

    #[test]
    fn words_are_found_in_identifiers_and_prose() {
        assert_eq!(found("let sum_told = AgentCrew::new();"), ["crew", "told"]);
        assert_eq!(
            found("// Nobody puts back what is in force."),
            ["nobody", "puts back", "in force"]
        );
        assert_eq!(found("println!(\"nothing is told of it\");"), ["told"]);
    }

    #[test]
    fn names_in_quotes_backticks_and_plain_english_are_left_alone() {
        assert_eq!(found("json[\"rungs\"]; // `rungs` is how it is stored"), Vec::<&str>::new());
        assert_eq!(found("// This is due to the kernel; f64::floor, toldo"), Vec::<&str>::new());
    }

    #[test]
    fn blocks_of_code_in_pages_are_left_alone() {
        let found = check_page("docs/a.md", "told\n```\ntold\n```\nnot `told`\n").unwrap();
        assert_eq!(
            found.to_string(),
            "warning: docs/a.md: 1 odd words: `told` (line 1, say `reported`)"
        );
        assert_eq!(check_page("docs/a.md", "reported\n"), None);
    }

    #[test]
    fn a_crate_that_has_none_is_to_be_listed() {
        let file = SourceFile::new("crates/shed/src/a.rs", "fn dig() {}\n");
        assert!(check("shed", &[&file])[0].message.contains("add it to CLEAN"));
        let file = SourceFile::new("crates/shed/src/a.rs", "fn told() {}\n");
        assert_eq!(check("shed", &[&file]), Vec::new());
        assert_eq!(count(&[&file]), 1);
    }
}
