//! The errors of a results file, each one sentence with a hint.
//!
//! [`StoreError`] is the type; [`explain`] converts SQLite's codes to it. Every message contains
//! the path, because a person may have several results files.
//!
//! **Source:** the result codes of SQLite, <https://www.sqlite.org/rescode.html>.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a results file could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file does not exist.
    #[error(
        "there is no results file `{}` (hint: measure first, or choose another file)", .0.display()
    )]
    Missing(PathBuf),
    /// The directory of the file does not exist.
    #[error(
        "the folder `{}` of the results file does not exist (hint: create it first, or choose \
         another file)", .0.parent().unwrap_or(.0).display()
    )]
    DirectoryMissing(PathBuf),
    /// The path is not a regular file.
    #[error("`{}` is not a file (hint: choose a file such as dfsbench.db)", .0.display())]
    NotAFile(PathBuf),
    /// The file is not an SQLite database.
    #[error(
        "`{}` is not a dfsbench results file: it is not an SQLite database (hint: choose another \
         file)",
        .0.display()
    )]
    NotSqlite(PathBuf),
    /// The file is empty.
    #[error(
        "`{}` is empty and holds no results (hint: measure first, or choose another file)",
        .0.display()
    )]
    Empty(PathBuf),
    /// The file is an SQLite database of another program.
    #[error(
        "`{}` is not a dfsbench results file: it is an SQLite database of another program (hint: \
         choose another file)", .0.display()
    )]
    Foreign(PathBuf),
    /// The file has a schema version that this dfsbench cannot read.
    #[error(
        "`{}` has schema version {found}, but this dfsbench only supports version {known} \
         (hint: use the dfsbench that wrote it{})",
        path.display(), if found > known { ", or a newer one" } else { "" }
    )]
    OtherVersion {
        /// The results file.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest supported schema version.
        known: i64,
    },
    /// The file has a known schema version, but another schema.
    #[error(
        "`{}` has schema version {version}, but not the tables of this dfsbench: {missing} \
         (hint: use the dfsbench that wrote it)", path.display()
    )]
    OtherSchema {
        /// The results file.
        path: PathBuf,
        /// Its schema version.
        version: i64,
        /// What the file lacks.
        missing: String,
    },
    /// The file is locked by another process.
    #[error(
        "`{}` is locked by another process, perhaps another dfsbench or an sqlite3 shell with an \
         open transaction (hint: wait, or end that process; `fuser` shows it)", .0.display()
    )]
    Locked(PathBuf),
    /// Another process is running the campaign.
    #[error(
        "campaign {campaign_id} of `{}` is being measured by {holder} (hint: wait for it or stop \
         it; other campaigns can be measured at the same time)", path.display()
    )]
    Held {
        /// The results file.
        path: PathBuf,
        /// Key of the campaign.
        campaign_id: i64,
        /// The holder of the lock: `process 4711`.
        holder: String,
    },
    /// The file or its directory can't be written to.
    #[error(
        "cannot write to `{}` (hint: check the permissions of the file and its directory)",
        .0.display()
    )]
    ReadOnly(PathBuf),
    /// The file or its directory can't be read.
    #[error(
        "cannot open `{}` or its journal (hint: check the permissions of the file and its \
         directory)", .0.display()
    )]
    Denied(PathBuf),
    /// A crash interrupted a transaction, and rolling it back requires write access.
    #[error(
        "a write to `{}` was interrupted, and the file cannot be repaired there (hint: copy it \
         together with its -journal file to a writable folder)", .0.display()
    )]
    Unrepairable(PathBuf),
    /// There is no space left for the file.
    #[error(
        "no space is left for `{}` (hint: free some space, or choose a file elsewhere)",
        .0.display()
    )]
    DiskFull(PathBuf),
    /// The system refused a write for another reason than a full disk.
    #[error(
        "cannot write to `{}`: the system refused a write (hint: check for a full or failing disk, \
         a quota, or a file size limit)", .0.display()
    )]
    Refused(PathBuf),
    /// A write failed while a campaign was running.
    #[error(
        "{cause}; the trials of campaign {campaign_id} stored so far are safe (`dfsbench report \
         {campaign_id} --results {}` shows them and how to continue)", path.display()
    )]
    WhileMeasuring {
        /// The results file.
        path: PathBuf,
        /// Key of the campaign.
        campaign_id: i64,
        /// Why the write failed.
        cause: Box<StoreError>,
    },
    /// The content was not written by this program.
    #[error("`{}` is damaged: {what} (hint: restore it from a backup)", path.display())]
    Damaged {
        /// The results file.
        path: PathBuf,
        /// The mismatch.
        what: String,
    },
    /// The file has no such campaign.
    #[error(
        "`{}` holds no campaign {id} (hint: {})", path.display(), describe_latest(*latest)
    )]
    NoCampaign {
        /// The results file.
        path: PathBuf,
        /// The requested key.
        id: i64,
        /// The key of the latest campaign in the file.
        latest: Option<i64>,
    },
    /// The file contains a table that would be lost in a merge.
    #[error(
        "`{}` has a table `{table}` that this dfsbench does not support and would lose (hint: use \
         a newer dfsbench)", path.display()
    )]
    UnknownTable {
        /// The results file.
        path: PathBuf,
        /// The name of the table.
        table: String,
    },
    /// Something that can't be stored, such as a path that is not UTF-8.
    #[error("cannot store the results in `{}`: {what}", path.display())]
    NotStorable {
        /// The results file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// Another user created the file, or a link to it, and root only trusts its own.
    #[error(
        "refusing to write to `{}`: `{}` belongs to user {owner}, not to root (hint: choose a file \
         in a folder that belongs to you)", path.display(), placed.display()
    )]
    Placed {
        /// The path given by the user.
        path: PathBuf,
        /// The link or file in question.
        placed: PathBuf,
        /// User id of its owner.
        owner: u32,
    },
    /// A tag or a note is not valid.
    #[error("{what} (`{}` is unchanged)", path.display())]
    Remark {
        /// The results file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// The file would be imported into itself.
    #[error(
        "`{}` cannot be imported into itself (hint: choose the other file)", .0.display()
    )]
    IntoItself(PathBuf),
    /// The path can't be passed to SQLite.
    #[error(
        "`{}` cannot be imported: its path is not UTF-8 (hint: rename it)", .0.display()
    )]
    PathNotText(PathBuf),
    /// The file's metadata could not be read.
    #[error("cannot open `{}`: {source}", path.display())]
    Io {
        /// The results file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Anything else that SQLite reports.
    #[error("`{}`: {source}", path.display())]
    Sqlite {
        /// The results file.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
}

impl StoreError {
    /// Returns true if the system failed to store a valid request in a valid file.
    pub const fn is_failed_write(&self) -> bool {
        matches!(self, Self::DiskFull(_) | Self::Refused(_) | Self::WhileMeasuring { .. })
    }
}

fn describe_latest(latest: Option<i64>) -> String {
    match latest {
        Some(latest) => format!("the latest one is {latest}"),
        None => "it has no campaigns; measure first".to_owned(),
    }
}

/// Converts an SQLite error to a message.
pub(crate) fn explain(path: &Path, error: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::NotSqlite(path),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(path),
        // With a hot journal, a file that can't be written to can't be read, either.
        Some(ErrorCode::ReadOnly) if is_rollback(&error) => StoreError::Unrepairable(path),
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(path),
        Some(ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => StoreError::Denied(path),
        Some(ErrorCode::SystemIoFailure) if is_write(&error) => StoreError::Refused(path),
        Some(ErrorCode::DiskFull) => StoreError::DiskFull(path),
        Some(ErrorCode::OperationInterrupted) => StoreError::Damaged {
            path,
            what: "reading it takes far too many steps for its size".to_owned(),
        },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, what: error.to_string() },
        _ => explain_data(path, error),
    }
}

/// Explains errors that do not come from SQLite itself: values that don't fit their types.
fn explain_data(path: PathBuf, error: rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::ToSqlConversionFailure(cause) => {
            StoreError::NotStorable { path, what: cause.to_string() }
        }
        rusqlite::Error::FromSqlConversionFailure(_, _, cause) => {
            StoreError::Damaged { path, what: cause.to_string() }
        }
        error @ (rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::QueryReturnedNoRows) => {
            StoreError::Damaged { path, what: error.to_string() }
        }
        source => StoreError::Sqlite { path, source },
    }
}

/// Returns true if a write, or making it durable, failed.
fn is_write(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE};
    let Some(found) = error.sqlite_error() else { return false };
    [SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE].contains(&found.extended_code)
}

/// Returns true if reading is blocked by a transaction that a crash interrupted.
pub(crate) fn is_rollback(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|e| e.extended_code == rusqlite::ffi::SQLITE_READONLY_ROLLBACK)
}
