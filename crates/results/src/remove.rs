//! Removes a campaign from a results file.
//!
//! See [`Store::remove`]. Everything is removed in one transaction or nothing is; its number is not
//! reused, so that a script that uses it never reads other results.

use rusqlite::params;

use crate::error::StoreError;
use crate::store::Store;
use crate::tree::{ROOT, Tree};

impl Store {
    /// Removes a campaign with all its rows. The file keeps its size until [`Store::compact`].
    ///
    /// # Errors
    /// If there is no such campaign, another process is running it, or the file can't be written
    /// to; then nothing is changed.
    pub fn remove(&mut self, campaign_id: i64) -> Result<(), StoreError> {
        let line = self.line(campaign_id)?;
        // A running campaign would add to rows that are gone.
        self.hold(campaign_id)?;
        let removed = self.transact(|transaction| {
            let sql = "INSERT INTO removed (id, uuid, name) VALUES (?1, ?2, ?3)";
            transaction.execute(sql, params![campaign_id, line.uuid, line.name])?;
            Tree::own_schema().delete(transaction, ROOT, "id = ?1", &[&campaign_id])
        });
        self.release(campaign_id);
        removed
    }

    /// Returns the space of removed campaigns to the file system.
    ///
    /// # Errors
    /// If there is no space for the copy that SQLite makes, or another process uses the file; then
    /// it is unchanged.
    pub fn compact(&mut self) -> Result<(), StoreError> {
        self.explain(self.connection.execute_batch("VACUUM"))
    }
}
