//! The first layer: what a plan or a command line says, with nothing filled in.
//!
//! Types of what was written, each value with its place, and the small helpers that all layers
//! use. Nothing here reads a text or knows what a default is; it uses no other layer.

pub(crate) mod address;
pub(crate) mod error;
pub(crate) mod fault;
pub(crate) mod hosts;
pub(crate) mod lab;
pub(crate) mod limits;
pub(crate) mod near;
pub(crate) mod raw;
pub(crate) mod repetition;
pub(crate) mod settings;
pub(crate) mod target;
pub(crate) mod text;
