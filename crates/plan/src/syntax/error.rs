//! The error type of this crate: where, what, and how to fix it.
//!
//! A [`PlanError`] prints on one line like a compiler's: `plan.toml:7:1: unknown key ... (hint:
//! ...)`, or `--io-size: ...` for a command-line flag. Every written value has its
//! [`PlanPosition`], so that a contradiction found late can still report the line.

use std::fmt;

/// The place where something was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanPosition {
    /// In the text of the plan.
    Text {
        /// Line, from 1.
        line: u32,
        /// Column in characters, from 1.
        column: u32,
    },
    /// On the command line, under this flag or argument.
    Flag(&'static str),
    /// Nowhere: the value is a default, or the error concerns the plan as a whole.
    Whole,
}

/// A value and where it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Located<T> {
    /// The value that was written.
    pub value: T,
    /// The place where it was written.
    pub place: PlanPosition,
}

impl<T> Located<T> {
    /// Wraps a value that the plan does not contain: a default, or one implied by another value.
    pub const fn unwritten(value: T) -> Self {
        Self { value, place: PlanPosition::Whole }
    }
}

impl PlanPosition {
    /// Attaches this place to a parsed value, or to the fault.
    pub(crate) fn accept<T>(self, read: Result<T, Fault>) -> Result<Located<T>, PlanError> {
        match read {
            Ok(value) => Ok(Located { value, place: self }),
            Err(fault) => Err(fault.at(self)),
        }
    }
}

/// Returns the written value, or else the default.
pub(crate) fn value_or<T>(written: Option<Located<T>>, default: T) -> T {
    match written {
        Some(written) => written.value,
        None => default,
    }
}

/// Why a plan can't be executed as written; the user must change it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PlanError {
    /// Name of the text: a file name, or the name of a preset.
    pub source_name: String,
    /// The place of the fault.
    pub place: PlanPosition,
    /// What is wrong, including the value.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            PlanPosition::Text { line, column } => {
                write!(f, "{}:{line}:{column}", self.source_name)?;
            }
            PlanPosition::Flag(flag) => f.write_str(flag)?,
            PlanPosition::Whole => f.write_str(&self.source_name)?,
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " (hint: {hint})"),
            None => Ok(()),
        }
    }
}

/// A wrong value and how to write it, before its place is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub message: String,
    pub hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Makes it an error of `key`; a flag already names the setting, so the key is omitted there.
    pub(crate) fn of_key(mut self, key: &str, place: PlanPosition) -> PlanError {
        if !matches!(place, PlanPosition::Flag(_)) {
            self.message = format!("{key}: {}", self.message);
        }
        self.at(place)
    }

    /// Makes it an error whose message needs no key.
    pub(crate) fn at(self, place: PlanPosition) -> PlanError {
        PlanError { source_name: String::new(), place, message: self.message, hint: self.hint }
    }
}

impl From<model::options::OptionError> for Fault {
    fn from(error: model::options::OptionError) -> Self {
        Self::new(error.what).hint(error.hint)
    }
}

impl From<model::SizeDistributionError> for Fault {
    fn from(error: model::SizeDistributionError) -> Self {
        Self::new(error.what).hint(error.hint)
    }
}

impl From<model::units::UnitError> for Fault {
    fn from(error: model::units::UnitError) -> Self {
        match error {
            model::units::UnitError::Malformed { what, value, hint } => {
                Self::new(format!("`{value}` is not a {what}")).hint(hint)
            }
            other @ model::units::UnitError::TooLarge { .. } => Self::new(other.to_string()),
        }
    }
}

impl PlanError {
    /// Records the text that contains the fault; done once, on the way out of the crate.
    pub(crate) fn in_source(mut self, source_name: &str) -> Self {
        source_name.clone_into(&mut self.source_name);
        self
    }
}
