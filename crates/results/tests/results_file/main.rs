//! Everything that is stored in a results file, through the public interface.

mod bundle;
mod catalog;
mod documented;
mod export;
mod joining;
mod material;
mod merge;
mod store;
mod survival;
