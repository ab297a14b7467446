//! A captured setting of a host or a target, with the place it was read from.
//!
//! Facts are text on purpose: they are compared and shown, never computed with. The source tells
//! a reader where to look for himself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One setting that was effective during a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fact {
    /// The scope that the fact describes: `host`, `target` or `server`.
    pub scope: String,
    /// Its name, such as `kernel` or `file system`.
    pub name: String,
    /// Its value, as read.
    pub value: String,
    /// The source of the reading: a file, a system call or a protocol reply.
    pub source: String,
}

impl Fact {
    /// Puts a fact together.
    pub fn new(
        scope: impl Into<String>,
        name: impl Into<String>,
        value: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self { scope: scope.into(), name: name.into(), value: value.into(), source: source.into() }
    }
}
