//! Passes of real backends, most of them on our server, and the ops they consist of.

mod admission;
mod clients;
mod hostile;
mod named_files;
mod ops;
mod paths;
mod pnfs;
mod recovery;
mod residency;
mod slots;
mod stability;
