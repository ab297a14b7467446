//! Parses the options, names and paths that a plan may pass to programs that run as root.
//!
//! Every free text of a plan that ends in an argument of such a program is parsed here, into an
//! option of a list with a value of a known form. The plan parses it when it is read, and an agent
//! parses it again before it acts, since an agent doesn't trust the text of its controller. Nothing
//! that comes out of here can be a positional argument, a second option or a path to somewhere
//! else. Each list names its manual page; options that name other files, devices or hosts, or that
//! switch off a check of the program, are refused with the reason.

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

/// Longest text that is quoted in an error, in characters.
const SHOWN_MAX: usize = 80;

/// Why a text can't be an argument of such a program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} (hint: {hint})")]
pub struct OptionError {
    /// The problem, with the value.
    pub what: String,
    /// The hint: what to write instead.
    pub hint: String,
}

impl OptionError {
    pub(crate) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

/// The form of an option's value.
///
/// None of the forms lets a `/`, a `=`, a quote, a blank or a control character pass, so that a
/// value is never a path, a further option or more than one argument.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// The option has no value.
    Flag,
    /// A number, with a decimal point, a unit of one letter or a percent sign.
    Number,
    /// A word of letters, digits and `_`, `.`, `:`, `+`, `-`, the first a letter or digit.
    Word,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Words with commas between them, each with a `^` or `!` before it where it is switched off.
    Features(&'static [Refused]),
    /// Options of their own with commas between them.
    Suboptions(&'static Table),
}

/// An option that is refused, and why.
type Refused = (&'static str, &'static str);

/// The options of one program or of one of its options.
#[derive(Debug)]
struct Table {
    /// The program whose options these are, such as `mkfs.xfs -d`.
    of: &'static str,
    /// Names with blanks between them, by the form of their values; a name may stand in several.
    rows: &'static [(Form, &'static str)],
    /// Those that a user may well write and that are refused.
    refused: &'static [Refused],
}

impl Table {
    fn forms<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Form> + 'a {
        // One option may take a number in one form and no value in another.
        self.rows
            .iter()
            .filter(move |(_, names)| names.split_ascii_whitespace().any(|known| known == name))
            .map(|(form, _)| *form)
    }

    /// Every name, for a hint.
    fn names(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for (_, row) in self.rows {
            names.extend(row.split_ascii_whitespace());
        }
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    /// Says why a name isn't in the table.
    fn unknown(&self, name: &str) -> OptionError {
        let (of, shown) = (self.of, shorten(name));
        match self.refused.iter().find(|(refused, _)| *refused == name) {
            Some((_, why)) => {
                OptionError::new(format!("{of}: `{shown}` is not allowed: {why}"), "leave it out")
            }
            None => OptionError::new(
                format!("{of} has no option `{shown}` that a plan may give"),
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
        // One fitting form is enough; where none fits, the last one explains what is wrong.
        let mut error = None;
        for form in self.forms(name) {
            match form.check(self.of, name, value) {
                Ok(()) => return Ok(()),
                Err(why) => error = Some(why),
            }
        }
        match error {
            Some(error) => Err(error),
            None => Err(self.unknown(name)),
        }
    }
}

impl Form {
    /// Checks the value of an option; `None` where it has none.
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
            (Self::Features(_), None) => "features with `,` between them",
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
            None => format!("{of}: `{name}` lacks its value"),
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
            let what = format!("{of}: `{}` is no feature", shorten(feature));
            return Err(OptionError::new(
                what,
                "names with `,` between them, such as `^has_journal`",
            ));
        }
    }
    Ok(())
}

/// Digits, one decimal point among them, one letter of a unit or `%` at the end.
fn is_number(text: &str) -> bool {
    let digits = text.strip_suffix(|c: char| "kKmMgGtTpPeEsSbB%".contains(c)).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    digits.len() <= 20 && is_digits(whole) && is_digits(fraction)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Says whether a text is made of ASCII letters, digits and these characters alone.
fn is_made_of(text: &str, others: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// Says whether a text begins with an ASCII letter, a digit or one of these characters: a `-` there
/// would make it an option of the program that gets it.
fn begins_with(text: &str, others: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || others.contains(c))
}

fn is_word(text: &str) -> bool {
    // `..` could lead out of a directory in which a program looks the word up.
    begins_with(text, "") && is_made_of(text, "_.:+-") && text.len() <= 128 && !text.contains("..")
}

/// A text as an error shows it: without control characters, and not too long.
fn shorten(text: &str) -> String {
    text.escape_debug().take(SHOWN_MAX).collect()
}
