//! The measured loop: workers that execute a workload on a backend and record the results.
//!
//! A [`TrialTarget`] is where a trial does its work. It prepares files, opens backends, counts what
//! is there afterwards, and removes everything. [`measure()`] runs one pass on a target with one
//! thread per worker, each with its own backend, op stream and recorder. During a pass, no worker
//! allocates, locks, formats or logs; a test counts allocations.
#![warn(unreachable_pub)]

mod accelerators;
pub mod ack_journal;
pub mod admission;
pub mod backend;
mod buffers;
mod clients;
mod clock;
mod cpus;
pub mod external;
mod file_system;
pub mod intervals;
mod limits;
mod live_times;
pub mod measure;
pub mod recorder;
pub mod residency;
pub mod settle;
pub mod sockets;
pub mod stonewall;
mod stop;
pub mod target;
#[doc(hidden)]
pub mod testing;
mod thread_io;
mod thread_wait;
mod timeline;
pub mod tree_shape;
mod watch;
pub mod worker;
pub mod working_set;

pub use backend::{Backend, LostTarget};
pub use clock::{Clock, SystemClock};
pub use cpus::Cpus;
pub use external::{External, RunReads};
pub use file_system::FileSystemType;
pub use measure::{MeasuredPass, measure};
pub use stop::Stop;
pub use target::{
    InventoryScope, Neighbors, OpenedBackend, TargetConfig, TargetError, TrialTarget,
};
pub use watch::Monitor;
