//! A captured setting of a host or a target, with its source.
//!
//! Facts are text on purpose: they are compared and displayed, but never used in computations. The
//! source shows readers where to look for themselves.

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
    /// Creates a fact.
    pub fn new(
        scope: impl Into<String>,
        name: impl Into<String>,
        value: impl Into<String>,
        source: impl Into<String>,
    ) -> Self {
        Self { scope: scope.into(), name: name.into(), value: value.into(), source: source.into() }
    }
}
