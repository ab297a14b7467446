//! The user's configuration file as written: keys, values and their lines.
//!
//! [`ConfigFile`] is the main type. The file is TOML: a key outside of tables applies to every
//! command that has the flag, a key in a table to the command that the table is named after. This
//! module doesn't check whether a flag exists or accepts the value.

use std::fmt;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::exit::Failure;

/// Environment variable with the path of the results file.
pub(super) const RESULTS_VARIABLE: &str = "DFSBENCH_RESULTS";

/// Maximum size of the file: ten times the size of a file with a default for every flag.
const BYTES_MAX: u64 = 1 << 20;

/// A default of a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Command whose table contains it; `None` applies to every command.
    pub table: Option<String>,
    /// Long name of the flag, without dashes.
    pub flag: String,
    /// Values as on the command line; at least one.
    pub values: Vec<String>,
    /// Where it is set.
    pub origin: Origin,
}

/// Where a default is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An environment variable of this name.
    Variable(&'static str),
    /// A line of the configuration file.
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::Line { path, line } => write!(f, "{}:{line}", path.display()),
        }
    }
}

impl Entry {
    /// Creates the entry of an environment variable.
    pub(crate) fn from_variable(flag: &str, value: String) -> Self {
        let origin = Origin::Variable(RESULTS_VARIABLE);
        Self { table: None, flag: flag.to_owned(), values: vec![value], origin }
    }

    /// Orders entries by precedence: the environment over tables, tables over the rest of the file.
    pub(crate) const fn rank(&self) -> u8 {
        match (&self.origin, &self.table) {
            (Origin::Variable(_), _) => 2,
            (Origin::Line { .. }, Some(_)) => 1,
            (Origin::Line { .. }, None) => 0,
        }
    }

    /// Line in the file, from 1; 0 for the environment.
    pub(crate) const fn line(&self) -> usize {
        match self.origin {
            Origin::Variable(_) => 0,
            Origin::Line { line, .. } => line,
        }
    }

    /// Creates an error about this entry.
    pub(crate) fn refused(&self, what: &str, hint: &str) -> Failure {
        Failure::Usage(format!("{}: {what} (hint: {hint})", self.origin))
    }
}

/// A configuration file that may not exist.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: Option<PathBuf>,
}

impl ConfigFile {
    /// Locates the file; `None` if the user has no home.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path }
    }

    /// Path of the file, if there may be one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the entries in the order of their lines; empty if there is no file.
    ///
    /// # Errors
    /// If the file can't be read, or isn't TOML that consists of keys, values and tables of them.
    pub(crate) fn read(&self) -> Result<Vec<Entry>, Failure> {
        let Some(path) = &self.path else { return Ok(Vec::new()) };
        match read_text(path) {
            Ok(Some(text)) => parse(path, &text),
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(Failure::Usage(format!(
                "can't read the configuration `{}`: {error} (hint: make it a readable file, or set \
                 XDG_CONFIG_HOME to a directory without one)",
                path.display()
            ))),
        }
    }
}

/// Reads the file; `None` if this user has none. A home that may not be entered is another user's,
/// as after `setpriv` or `su` without a login, and a service may have no home.
fn read_text(path: &Path) -> std::io::Result<Option<String>> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) => {
            return match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => {
                    Ok(None)
                }
                _ => Err(error),
            };
        }
    };
    if !found.is_file() {
        return Err(std::io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    if found.len() > BYTES_MAX {
        return Err(std::io::Error::new(ErrorKind::FileTooLarge, "larger than 1 MiB"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Parses the text of a file.
///
/// # Errors
/// See [`ConfigFile::read`].
fn parse(path: &Path, text: &str) -> Result<Vec<Entry>, Failure> {
    let place = FilePlace { path, text };
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            let start = error.span().map_or(0, |span| span.start);
            let what = format!("not TOML: {}", error.message().trim().replace('\n', "; "));
            return Err(place.refuse(start, &what, "write KEY = VALUE, and [COMMAND] before keys"));
        }
    };
    let mut entries = Vec::new();
    for (key, value) in root.get_ref() {
        match value.get_ref() {
            DeValue::Table(table) => {
                for (flag, value) in table {
                    entries.push(place.entry(Some(key.get_ref()), flag, value)?);
                }
            }
            _ => entries.push(place.entry(None, key, value)?),
        }
    }
    entries.sort_by_key(Entry::line);
    Ok(entries)
}

/// Text of a file, to find the lines of its keys.
struct FilePlace<'a> {
    path: &'a Path,
    text: &'a str,
}

impl FilePlace<'_> {
    fn origin(&self, offset: usize) -> Origin {
        // Spans are in bytes, and a span at the end of the text may lie beyond it.
        let before = self.text.get(..offset).unwrap_or(self.text);
        Origin::Line { path: self.path.to_owned(), line: 1 + before.matches('\n').count() }
    }

    fn refuse(&self, offset: usize, what: &str, hint: &str) -> Failure {
        Failure::Usage(format!("{}: {what} (hint: {hint})", self.origin(offset)))
    }

    /// Creates the entry of a key; as in plans, `_` and `-` are the same.
    fn entry(
        &self,
        table: Option<&str>,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Entry, Failure> {
        let mut values = Vec::new();
        match value.get_ref() {
            DeValue::Array(levels) => {
                values.extend(levels.into_iter().filter_map(|level| scalar(level.get_ref())));
                if values.len() != levels.len() {
                    values.clear();
                }
            }
            one => values.extend(scalar(one)),
        }
        if values.is_empty() {
            let what = format!("`{}` has no value that a flag can take", key.get_ref());
            let hint = "write a string, a number, true or false, or several in brackets";
            return Err(self.refuse(key.span().start, &what, hint));
        }
        Ok(Entry {
            table: table.map(str::to_owned),
            flag: key.get_ref().replace('_', "-"),
            values,
            origin: self.origin(key.span().start),
        })
    }
}

/// Formats a value as a word of the command line.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) => {
            Some(i128::from_str_radix(number.as_str(), number.radix()).ok()?.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Entry>, String> {
        parse(Path::new("c.toml"), text).map_err(|failure| failure.to_string())
    }

    #[test]
    fn locates_keys_in_tables() {
        let text = "results = 'a.db'\n\n[run]\nio_size = ['4KiB', 65_536]\nquick = true\n";
        let entries = read(text).unwrap();
        let found: Vec<_> = entries
            .iter()
            .map(|it| (it.table.as_deref(), it.flag.as_str(), it.values.join(" "), it.line()))
            .collect();
        assert_eq!(
            found,
            [
                (None, "results", "a.db".to_owned(), 1),
                (Some("run"), "io-size", "4KiB 65536".to_owned(), 4),
                (Some("run"), "quick", "true".to_owned(), 5),
            ]
        );
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn ignores_invalid_home() {
        for path in ["/nowhere/config.toml", "/dev/null/.config/config.toml"] {
            let file = ConfigFile::new(Some(PathBuf::from(path)));
            assert_eq!(file.read().unwrap_or_else(|failure| panic!("{failure}")), []);
        }
        let file = ConfigFile::new(Some(PathBuf::from("/dev/null")));
        assert!(file.read().is_err(), "a device is no file");
    }

    #[test]
    fn rejects_invalid_value_with_line() {
        let errors = [
            "a = 1\nb =",
            "\nwhen = 2026-01-01",
            "a = [1, {b = 2}]",
            "a = []",
            "[run.deep]\na = 1",
        ]
        .map(|text| read(text).unwrap_err());
        insta::assert_snapshot!(errors.join("\n"));
    }
}
