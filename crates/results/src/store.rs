//! Opens a results file: checks its application id, its schema version and its locks.
//!
//! [`Store`] is the main type. Opening for reading never creates or changes a file, with one
//! exception: a transaction that a crash interrupted is rolled back, since SQLite can't read
//! otherwise. Nothing is written before the file is known to be ours or empty.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use model::CampaignState;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::campaign_lock::{CampaignLock, is_held, remove_abandoned};
use crate::error::{StoreError, explain, is_rollback};
use crate::tree::SCHEMA;
use crate::{tree, trusted_paths};

/// Marks an SQLite file as a results file: "dfsb" in ASCII.
///
/// **Source:** <https://www.sqlite.org/fileformat2.html>, 1.3 (application id at offset 68).
pub const APPLICATION_ID: i64 = 0x6466_7362;

/// Statements that migrate a file from each schema version to the next; the first migrates version
/// 1 to 2. `schema.sql` is the newest version.
const MIGRATIONS: [&str; (SCHEMA_VERSION - 1) as usize] = [];

/// Schema version, stored as `user_version`.
pub const SCHEMA_VERSION: i64 = 1;

/// How long to wait for another process's lock: a report reads in milliseconds, so a longer lock
/// belongs to a forgotten shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Steps of SQLite's virtual machine between two checks of the limit.
const STEPS_PER_LOOK: u16 = 1000;

/// Maximum number of steps for reading a file, and the additional number per byte. Loading a
/// campaign takes two or three per byte; a damaged or crafted file can make SQLite loop.
const STEPS_MAX: u64 = 10_000_000;
const STEPS_PER_BYTE_MAX: u64 = 200;

/// An open results file.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    /// Bytes written by transactions to the file and its journal.
    written_bytes: u64,
    /// Steps used for reading since the last [`Store::renew_budget`].
    steps: Arc<AtomicU64>,
    /// The campaigns that this process is running.
    holds: Vec<CampaignLock>,
}

/// The header of an SQLite file that identifies its application.
#[derive(Clone, Copy)]
struct FileHead {
    application_id: i64,
    schema_version: i64,
    /// Tables, indexes and views in its schema.
    tables: i64,
}

enum FileOwner {
    /// Ours, with a known schema.
    Ours,
    Empty,
}

impl Store {
    /// Opens a results file for adding to it; creates it if it does not exist. Removes lock files
    /// left by killed processes.
    ///
    /// # Errors
    /// If the file is not ours, can't be written to, is locked by another process, or was created
    /// by another user and root only trusts its own.
    pub fn open_or_create(path: &Path) -> Result<Self, StoreError> {
        check_place(path, MissingFile::IsMade)?;
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let checked = trusted_paths::check(path)?;
        if checked.is_some() {
            flags |= OpenFlags::SQLITE_OPEN_NOFOLLOW;
        }
        let mut store = Self::connect_at(checked.as_deref().unwrap_or(path), path, flags)?;
        let owner = store.owner()?;
        // Without write access, SQLite silently opens a file read-only.
        if store.explain(store.connection.is_readonly("main"))? {
            return Err(StoreError::ReadOnly(path.to_owned()));
        }
        store.prepare_to_write()?;
        match owner {
            FileOwner::Empty => store.create()?,
            FileOwner::Ours => {
                if store.explain(store.owner_raw())?.schema_version < SCHEMA_VERSION {
                    store.transact(|transaction| migrate(transaction, &MIGRATIONS))?;
                }
                store.check_schema()?;
                if store.explain(tree::lacks_later_tables(&store.connection))? {
                    store.transact(|transaction| tree::add_later_tables(transaction))?;
                }
            }
        }
        remove_abandoned(path);
        Ok(store)
    }

    /// Opens a results file for reading; it must exist and is not changed.
    ///
    /// # Errors
    /// If the file is missing, empty, not ours, or locked by another process.
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        check_place(path, MissingFile::IsRefused)?;
        let mut store = Self::connect_at(path, path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        store.bound_steps()?;
        let owner = match store.owner_raw() {
            Err(error) if is_rollback(&error) => {
                roll_back(path)?;
                store.owner()?
            }
            Err(error) => return Err(explain(path, error)),
            Ok(found) => store.check_head(found)?,
        };
        match owner {
            FileOwner::Ours => {
                store.check_schema()?;
                store.explain(tree::add_later_tables(&store.connection))?;
                Ok(store)
            }
            FileOwner::Empty => Err(StoreError::Empty(path.to_owned())),
        }
    }

    /// Resets the step limit, for a process that keeps reading a file as long as it runs.
    pub fn renew_budget(&self) {
        self.steps.store(0, Relaxed);
    }

    /// Aborts reading if it takes more steps than the size of the file explains.
    fn bound_steps(&mut self) -> Result<(), StoreError> {
        let steps = Arc::clone(&self.steps);
        let path = self.path.clone();
        let look = u64::from(STEPS_PER_LOOK);
        let is_endless = move || {
            let steps = steps.fetch_add(look, Relaxed) + look;
            steps > STEPS_MAX && {
                let bytes = fs::metadata(&path).map_or(0, |found| found.len());
                steps - STEPS_MAX > bytes.saturating_mul(STEPS_PER_BYTE_MAX)
            }
        };
        let bounded = self.connection.progress_handler(STEPS_PER_LOOK.into(), Some(is_endless));
        self.explain(bounded)
    }

    /// Refuses a file in which one of our tables is missing, or replaced by something else of the
    /// same name, such as an endless view.
    fn check_schema(&self) -> Result<(), StoreError> {
        let path = self.path.clone();
        if let Some(what) = self.explain(tree::find_wrong_table(&self.connection))? {
            return Err(StoreError::Damaged { path, what });
        }
        match self.explain(tree::find_missing(&self.connection))? {
            Some(missing) => {
                Err(StoreError::OtherSchema { path, version: SCHEMA_VERSION, missing })
            }
            None => Ok(()),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of bytes written to the file and its journal since it was opened; 0 on
    /// kernels without task I/O accounting.
    pub const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Makes sure that no other process adds to a campaign until it is finished or the store is
    /// dropped; the hold ends with the process. Does nothing if this store already has it.
    pub fn hold(&mut self, campaign_id: i64) -> Result<(), StoreError> {
        if self.holds.iter().all(|hold| hold.campaign_id != campaign_id) {
            self.holds.push(CampaignLock::acquire(&self.path, campaign_id)?);
        }
        Ok(())
    }

    /// Returns true if a process is running a campaign. If it is neither finished nor running, it
    /// was killed.
    pub fn is_made(&self, campaign_id: i64) -> bool {
        is_held(&self.path, campaign_id)
    }

    /// Returns the state of a campaign: one that is stored as running, but that no process is
    /// running, was killed or could not store its end.
    pub(crate) fn state_now(&self, campaign_id: i64, stored: CampaignState) -> CampaignState {
        match stored {
            CampaignState::Running if !self.is_made(campaign_id) => CampaignState::Interrupted,
            stored => stored,
        }
    }

    /// Allows other processes to add to a campaign.
    pub(crate) fn release(&mut self, campaign_id: i64) {
        self.holds.retain(|hold| hold.campaign_id != campaign_id);
    }

    /// Runs several writes as one transaction: either all of them are stored, or none.
    pub(crate) fn transact<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let before = thread_written_bytes();
        let value = commit_work(&mut self.connection, work);
        self.written_bytes += thread_written_bytes().saturating_sub(before);
        match (self.explain(value), self.holds.last()) {
            (Err(cause), Some(hold)) if cause.is_failed_write() => {
                Err(StoreError::WhileMeasuring {
                    path: self.path.clone(),
                    campaign_id: hold.campaign_id,
                    cause: Box::new(cause),
                })
            }
            (result, _) => result,
        }
    }

    /// Converts an SQLite error to one that mentions the file.
    pub(crate) fn explain<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| explain(&self.path, error))
    }

    /// Connects to the file at `real_path`, called `path` in messages; neither is ever treated as a
    /// `file:` URI.
    fn connect_at(real_path: &Path, path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        match open_connection(real_path, flags) {
            Ok(connection) => Ok(Self {
                connection,
                path: path.to_owned(),
                written_bytes: 0,
                steps: Arc::default(),
                holds: Vec::new(),
            }),
            Err(error) => Err(explain(path, error)),
        }
    }

    fn owner(&self) -> Result<FileOwner, StoreError> {
        self.check_head(self.explain(self.owner_raw())?)
    }

    /// Reads the file's application id and schema version.
    fn owner_raw(&self) -> rusqlite::Result<FileHead> {
        let query = "SELECT (SELECT application_id FROM pragma_application_id),
                            (SELECT user_version FROM pragma_user_version),
                            (SELECT count(*) FROM sqlite_schema)";
        self.connection.query_row(query, [], |row| {
            let application_id = row.get(0)?;
            let schema_version = row.get(1)?;
            Ok(FileHead { application_id, schema_version, tables: row.get(2)? })
        })
    }

    fn check_head(&self, found: FileHead) -> Result<FileOwner, StoreError> {
        let path = self.path.clone();
        match (found.application_id, found.schema_version, found.tables) {
            (0, 0, 0) => Ok(FileOwner::Empty),
            (APPLICATION_ID, 1..=SCHEMA_VERSION, _) => Ok(FileOwner::Ours),
            (APPLICATION_ID, found, _) => {
                Err(StoreError::OtherVersion { path, found, known: SCHEMA_VERSION })
            }
            _ => Err(StoreError::Foreign(path)),
        }
    }

    /// `cache_spill = OFF` keeps every change in memory until the commit, so that a kill leaves
    /// something to roll back only during a few milliseconds per trial.
    fn prepare_to_write(&self) -> Result<(), StoreError> {
        self.explain(self.connection.pragma_update(None, "journal_mode", "DELETE"))?;
        self.explain(self.connection.pragma_update(None, "synchronous", "FULL"))?;
        self.explain(self.connection.pragma_update(None, "foreign_keys", true))?;
        self.explain(self.connection.pragma_update(None, "cache_spill", false))
    }

    /// Creates the schema and marks the file as ours, in one transaction: a kill leaves an empty
    /// file. If another process was faster, there is nothing to do.
    fn create(&mut self) -> Result<(), StoreError> {
        self.transact(|transaction| {
            let tables: i64 =
                transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
            if tables == 0 {
                transaction.execute_batch(SCHEMA)?;
                transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
                transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
            }
            Ok(())
        })?;
        // Another process may have created a file of a newer version.
        self.owner()?;
        Ok(())
    }
}

/// Migrates a file to the newest schema version.
fn migrate(transaction: &Transaction<'_>, migrations: &[&str]) -> rusqlite::Result<()> {
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (version, sql) in (1..).zip(migrations) {
        if version >= found {
            transaction.execute_batch(sql)?;
            transaction.pragma_update(None, "user_version", version + 1)?;
        }
    }
    Ok(())
}

/// Returns the number of bytes that this thread has passed to write(2); 0 if the kernel does not
/// count them.
///
/// SQLite writes in the thread that commits, and never before that.
///
/// **Source:** `proc_pid_io(5)`, `wchar`.
fn thread_written_bytes() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("wchar:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

fn open_connection(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    // A store belongs to one thread at a time, so SQLite need not lock its connection.
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Our schema has no triggers; ignore those in files from elsewhere.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    Ok(connection)
}

/// Does the work in a transaction that has the write lock from the start: one that requests it
/// later could find that another process has written since it read.
fn commit_work<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let value = work(&transaction)?;
    transaction.commit()?;
    Ok(value)
}

/// Checks that a results file could be at this path, without creating it.
///
/// # Errors
/// If its directory does not exist, or the path is something else.
pub fn check_results_path(path: &Path) -> Result<(), StoreError> {
    check_place(path, MissingFile::IsMade)
}

/// How to treat a missing or empty file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingFile {
    /// Create it.
    IsMade,
    /// Refuse it.
    IsRefused,
}

/// Rejects paths for which SQLite would report a vague error, or create something.
fn check_place(path: &Path, absent: MissingFile) -> Result<(), StoreError> {
    let may_create = absent == MissingFile::IsMade;
    let named = path.to_owned();
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(StoreError::NotAFile(named)),
        Ok(found) if found.len() == 0 && !may_create => Err(StoreError::Empty(named)),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            match path.parent() {
                // The parent of a bare name is empty, which means the current directory.
                Some(directory) if !directory.as_os_str().is_empty() && !directory.is_dir() => {
                    Err(StoreError::DirectoryMissing(named))
                }
                _ if may_create => Ok(()),
                _ => Err(StoreError::Missing(named)),
            }
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(StoreError::Denied(named)),
        Err(source) => Err(StoreError::Io { path: named, source }),
    }
}

/// Makes SQLite roll back a transaction that a crash interrupted.
fn roll_back(path: &Path) -> Result<(), StoreError> {
    let store = Store::connect_at(path, path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    store.owner()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
        SELECT count(*) FROM n";

    #[test]
    fn bounds_reading_by_file_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dfsbench.db");
        drop(Store::open_or_create(&path).unwrap());
        let store = Store::open_existing(&path).unwrap();
        let count = |sql: &str| -> Result<i64, StoreError> {
            store.explain(store.connection.query_row(sql, [], |row| row.get(0)))
        };
        for _ in 0..2 {
            let error = count(ENDLESS).unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
            let spent = store.steps.load(Relaxed);
            let bytes = fs::metadata(&path).unwrap().len();
            assert!(spent > STEPS_MAX + bytes * STEPS_PER_BYTE_MAX, "{spent}");
            store.renew_budget();
            let short = ENDLESS.replace("FROM n)", "FROM n LIMIT 10000)");
            assert_eq!(count(&short).unwrap(), 10_000);
        }
    }

    #[test]
    fn keeps_nothing_on_full_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dfsbench.db");
        let mut store = Store::open_or_create(&path).unwrap();
        // SQLite raises the limit to the size of the file: not one more page.
        store.connection.execute_batch("PRAGMA max_page_count = 1").unwrap();
        let error = store.transact(|transaction| {
            let sql = "INSERT INTO campaigns VALUES (1, 'n', 0, '', '', ?1, '0', 'running', 0, 0)";
            transaction.execute(sql, ["long ".repeat(100_000)])
        });
        assert!(matches!(error, Err(StoreError::DiskFull(_))), "{error:?}");
        assert_eq!(store.latest().unwrap(), None);
    }

    #[test]
    fn migrates_from_any_older_version() {
        let migrations = ["CREATE TABLE two (a)", "ALTER TABLE two ADD COLUMN b"];
        for (found, made) in [(1, 0), (2, 1), (3, 2)] {
            let mut connection = Connection::open_in_memory().unwrap();
            for sql in &migrations[..made] {
                connection.execute_batch(sql).unwrap();
            }
            connection.pragma_update(None, "user_version", found).unwrap();
            commit_work(&mut connection, |transaction| migrate(transaction, &migrations)).unwrap();
            let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
            assert_eq!(version, Ok(3_i64), "{found}");
            connection.prepare("SELECT a, b FROM two").unwrap();
        }
    }

    #[test]
    fn a_failed_migration_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 1).unwrap();
        let migrations = ["CREATE TABLE two (a)", "ALTER TABLE none ADD COLUMN b"];
        commit_work(&mut connection, |transaction| migrate(transaction, &migrations)).unwrap_err();
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        assert_eq!(version, Ok(1_i64));
        connection.prepare("SELECT a FROM two").unwrap_err();
    }
}
