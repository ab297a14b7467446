//! The measured loop: workers that execute a workload on a backend and record it.
//!
//! A [`Site`] is the place where one trial works: it prepares files, opens backends, counts what
//! is there afterwards and removes all of it. [`measure()`] runs one pass on a site: one thread per
//! worker, each with its own backend, op stream and recorder. Between the start of a pass and its
//! end no worker allocates, locks, formats or logs; a test counts allocations.

pub mod backend;
pub mod books;
pub mod buffers;
pub mod clients;
pub mod clock;
mod course;
pub mod external;
pub mod intervals;
pub mod limits;
pub mod measure;
pub mod pace;
pub mod recorder;
pub mod site;
pub mod stop;
pub mod thread_io;
pub mod thread_wait;
pub mod touched;
mod watch;
pub mod worker;

pub use backend::{Backend, Lost};
pub use clock::{Clock, SystemClock};
pub use external::External;
pub use measure::{Measured, measure};
pub use site::{Opened, Site, SiteConfig, SiteError, Whose};
pub use stop::Stop;
pub use watch::Monitor;
