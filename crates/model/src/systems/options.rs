//! Parses options, names and paths that a plan may pass to programs running as root.
//!
//! Any free text in a plan that becomes an argument of such a program is parsed here, into a known
//! option with a value of a known form. The plan is checked when it is read, and the agent checks
//! again before acting, because it doesn't trust the controller's text. The result can never be a
//! positional argument, a second option, or a path to somewhere else. Each list cites its manual
//! page. Options that name other files, devices or hosts, or that disable a safety check of the
//! program, are refused with a reason.

mod mkfs;
mod mount;
mod names;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use mkfs::{MkfsOption, parse_mkfs_options};
pub use mount::{
    check_export_options, check_mount_options, check_nfs_options, check_remote_options,
    check_remote_source, check_remote_type,
};
pub use names::{
    check_address, check_clients, check_congestion, check_crypt_cipher, check_interface,
    check_object_name, check_path, check_quotable_path, check_ssh_destination, check_sysctl,
    check_tunnel_cipher,
};

/// Maximum length of text quoted in an error, in characters.
const SHOWN_MAX: usize = 80;

/// Why a text is not allowed as an argument of such a program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} (hint: {hint})")]
pub struct OptionError {
    /// The problem, including the value.
    pub what: String,
    /// What to write instead.
    pub hint: String,
}

impl OptionError {
    pub(crate) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

/// Form of an option's value.
///
/// No form allows `/`, `=`, quotes, blanks or control characters, so a value is never a path,
/// another option, or more than one argument.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// The option has no value.
    Flag,
    /// A number, optionally with a decimal point and a one-letter unit or percent sign.
    Number,
    /// A word of letters, digits and `_`, `.`, `:`, `+`, `-`, starting with a letter or digit.
    Word,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Comma-separated words, each prefixed with `^` or `!` to disable it.
    Features(&'static [Refused]),
    /// Comma-separated options from another table.
    Suboptions(&'static Table),
}

/// A refused option and the reason.
type Refused = (&'static str, &'static str);

/// The options of a program or of one of its options.
#[derive(Debug)]
struct Table {
    /// The program that has these options, such as `mkfs.xfs -d`.
    of: &'static str,
    /// Names separated by blanks, by form of the value. A name may appear in several rows.
    rows: &'static [(Form, &'static str)],
    /// Options that users may plausibly write but that are refused.
    refused: &'static [Refused],
}

impl Table {
    fn forms<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Form> + 'a {
        // An option may take a number in one form and no value in another.
        self.rows
            .iter()
            .filter(move |(_, names)| names.split_ascii_whitespace().any(|known| known == name))
            .map(|(form, _)| *form)
    }

    /// Returns all names, for a hint.
    fn names(&self) -> String {
        let mut names: Vec<&str> =
            self.rows.iter().flat_map(|(_, row)| row.split_ascii_whitespace()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    /// Returns the error for a name that is not in the table.
    fn unknown_option(&self, name: &str) -> OptionError {
        let of = self.of;
        let shown = shorten(name);
        match self.refused.iter().find(|(refused, _)| *refused == name) {
            Some((_, why)) => {
                OptionError::new(format!("{of}: `{shown}` is not allowed: {why}"), "leave it out")
            }
            None => OptionError::new(
                format!("{of} has no option `{shown}` that is allowed in a plan"),
                format!("one of {}", self.names()),
            ),
        }
    }

    /// Checks one `name` or `name=value`.
    fn check(&self, option: &str) -> Result<(), OptionError> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        // One matching form is enough. If none matches, the error is that of the last one.
        let mut error = None;
        for form in self.forms(name) {
            match form.check(self.of, name, value) {
                Ok(()) => return Ok(()),
                Err(why) => error = Some(why),
            }
        }
        match error {
            Some(error) => Err(error),
            None => Err(self.unknown_option(name)),
        }
    }
}

impl Form {
    /// Checks the value of an option, or `None` if it has none.
    fn check(self, of: &str, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        let legal = match (self, value) {
            (Self::Flag, None) => return Ok(()),
            (Self::Flag, Some(_)) => "no value",
            (Self::Number, Some(value)) if is_number(value) => return Ok(()),
            (Self::Number, _) => "a number, such as 4096, 64k or 0.5",
            (Self::Word, Some(value)) if is_word(value) => return Ok(()),
            (Self::Word, _) => "one word of letters, digits and `_.:+-`",
            (Self::OneOf(words), Some(value)) if words.contains(&value) => return Ok(()),
            (Self::OneOf(words), _) => &words.join(" or "),
            (Self::Features(refused), Some(value)) => return check_features(of, refused, value),
            (Self::Features(_), None) => "features separated by `,`",
            (Self::Suboptions(table), Some(value)) => {
                for option in value.split(',') {
                    table.check(option)?;
                }
                return Ok(());
            }
            (Self::Suboptions(table), None) => &table.names(),
        };
        let what = match value {
            Some(value) => format!("{of}: `{}` can't be the value of `{name}`", shorten(value)),
            None => format!("{of}: `{name}` needs a value"),
        };
        Err(OptionError::new(what, format!("{name} takes {legal}")))
    }
}

fn check_features(of: &str, refused: &[Refused], value: &str) -> Result<(), OptionError> {
    for feature in value.split(',') {
        let name = feature.strip_prefix(['^', '!']).unwrap_or(feature);
        if let Some((_, why)) = refused.iter().find(|(refused, _)| *refused == name) {
            let what = format!("{of}: feature `{name}` is not allowed: {why}");
            return Err(OptionError::new(what, "leave it out"));
        }
        if !is_word(name) {
            let what = format!("{of}: `{}` is not a feature", shorten(feature));
            return Err(OptionError::new(what, "names separated by `,`, such as `^has_journal`"));
        }
    }
    Ok(())
}

/// Checks for digits with an optional decimal point and an optional unit letter or `%` at the end.
fn is_number(text: &str) -> bool {
    let digits = text.strip_suffix(|c: char| "kKmMgGtTpPeEsSbB%".contains(c)).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    digits.len() <= 20 && is_digits(whole) && is_digits(fraction)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if a text consists only of ASCII letters, digits and the given characters.
fn consists_of(text: &str, others: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// Returns true if a text begins with an ASCII letter, a digit or one of these characters. A
/// leading `-` would turn it into an option of the program that receives it.
fn begins_with(text: &str, others: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || others.contains(c))
}

fn is_word(text: &str) -> bool {
    // `..` could escape the directory in which a program looks up the word.
    begins_with(text, "") && consists_of(text, "_.:+-") && text.len() <= 128 && !text.contains("..")
}

/// Escapes control characters and limits the length, for errors.
fn shorten(text: &str) -> String {
    text.escape_debug().take(SHOWN_MAX).collect()
}
