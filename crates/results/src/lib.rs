//! The results file: one SQLite database with everything that campaigns measured.
//!
//! [`Store`] is the main type: it opens or creates the file, writes one trial per transaction, and
//! loads whole campaigns exactly as they were stored. The schema is in `schema.sql`; explicit
//! columns and two views (`figures`, `failures`) are for people with an `sqlite3` shell.
//!
//! Journal: rollback (`DELETE`) with `synchronous = FULL`. At rest there is one file, which can be
//! copied and mailed; write-ahead logging would leave two more after a kill, needs shared memory,
//! which network file systems lack, and gains nothing with one small write per trial. After `kill
//! -9` the file is complete except for the trial being written, which is rolled back when the file
//! is next opened. **Source:** <https://www.sqlite.org/lockingv3.html>,
//! <https://www.sqlite.org/wal.html>.

#![warn(unreachable_pub)]

pub mod bundle;
mod campaign_lock;
mod catalog;
mod copy;
mod durability;
mod error;
mod export;
mod host_results;
mod identity;
mod import;
mod join;
mod read;
mod remove;
mod resume;
mod row;
mod snapshot;
mod soak;
mod store;
mod telemetry;
mod tree;
mod trusted_paths;
mod write;

pub use campaign_lock::remove_abandoned;
pub use catalog::Note;
pub use error::StoreError;
pub use export::{ExportCell, ExportColumn, ExportError, ExportFormat, Exported, TableFiles};
pub use import::{Imported, Merged};
pub use join::JoinedCounts;
pub use resume::StoredTrials;
pub use store::{APPLICATION_ID, SCHEMA_VERSION, Store, check_results_path};
