//! Reading while a campaign writes: detects changes, and copies the file for reading at leisure.
//!
//! A reader of a results file blocks the writer's commit, and the writer waits only two seconds.
//! Reading a large campaign takes longer, but copying the file does not.
//!
//! **Source:** <https://www.sqlite.org/backup.html>, <https://www.sqlite.org/pragma.html>
//! (`data_version`).

use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::ffi::{Error, SQLITE_BUSY};

use crate::error::StoreError;
use crate::store::Store;

impl Store {
    /// Returns a number that changes whenever other connections change the file; it is only
    /// meaningful within this store.
    ///
    /// # Errors
    /// If the file is locked by another process or damaged.
    pub fn data_version(&self) -> Result<i64, StoreError> {
        self.explain(self.connection.pragma_query_value(None, "data_version", |row| row.get(0)))
    }

    /// Copies the current state of the file, overwriting the other path.
    ///
    /// # Errors
    /// If the file is locked or damaged, or there is no space for the copy.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        self.explain(copy_database(&self.connection, path))
    }
}

fn copy_database(from: &Connection, path: &Path) -> rusqlite::Result<()> {
    /// All pages in one step: no process can write in between.
    const ALL: i32 = i32::MAX;
    let mut copy = Connection::open(path)?;
    let backup = Backup::new(from, &mut copy)?;
    match backup.step(ALL)? {
        StepResult::Done | StepResult::More => Ok(()),
        // The step does not wait for locks: the caller reports that, and tries again.
        _ => Err(rusqlite::Error::SqliteFailure(Error::new(SQLITE_BUSY), None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_contents_and_notices_changes() {
        let directory = tempfile::tempdir().unwrap();
        let [path, copy] = ["dfsbench.db", "copy.db"].map(|name| directory.path().join(name));
        let mut writer = Store::open_or_create(&path).unwrap();
        let reader = Store::open_existing(&path).unwrap();
        let before = reader.data_version().unwrap();
        assert_eq!(reader.data_version().unwrap(), before);
        reader.copy_to(&copy).unwrap();
        let sql = "INSERT INTO campaigns (id, name, started_unix_ms, tool_version, command,
                   plan_toml, seed, state) VALUES (1, 'n', 0, '', '', '', '0', 'running')";
        writer.transact(|transaction| transaction.execute(sql, [])).unwrap();
        assert_ne!(reader.data_version().unwrap(), before);
        assert_eq!(Store::open_existing(&copy).unwrap().latest().unwrap(), None);
        reader.copy_to(&copy).unwrap();
        assert_eq!(Store::open_existing(&copy).unwrap().latest().unwrap(), Some(1));
    }
}
