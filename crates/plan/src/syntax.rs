//! The first layer: the contents of a plan or a command line, without defaults.
//!
//! Contains the types for values as written, each with its place, and small helpers for all layers.
//! Nothing here parses text or applies defaults, and it uses no other layer.

pub(crate) mod address;
pub(crate) mod cluster;
pub(crate) mod error;
pub(crate) mod fault;
pub(crate) mod hosts;
pub(crate) mod lab;
pub(crate) mod limits;
pub(crate) mod raw;
pub(crate) mod repetition;
pub(crate) mod settings;
pub(crate) mod suggestion;
pub(crate) mod target;
pub(crate) mod text;
