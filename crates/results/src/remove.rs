//! Removes a campaign from a results file.
//!
//! [`Store::remove`] is the way in. All of it goes in one transaction or nothing does; its number
//! is not given to another one, so that a script that names it never reads other figures.

use rusqlite::params;

use crate::error::StoreError;
use crate::store::Store;
use crate::tree::{ROOT, Tree};

impl Store {
    /// Removes a campaign and everything that hangs on it. The file keeps its size until
    /// [`Store::compact`].
    ///
    /// # Errors
    /// When there is no such campaign, another process makes it, or the file can't be written to;
    /// nothing is changed then.
    pub fn remove(&mut self, campaign_id: i64) -> Result<(), StoreError> {
        let line = self.line(campaign_id)?;
        // A campaign that is being made would add to rows that are gone.
        self.hold(campaign_id)?;
        let removed = self.transact(|transaction| {
            let sql = "INSERT INTO removed (id, uuid, name) VALUES (?1, ?2, ?3)";
            transaction.execute(sql, params![campaign_id, line.uuid, line.name])?;
            Tree::known().delete(transaction, ROOT, "id = ?1", &[&campaign_id])
        });
        self.release(campaign_id);
        removed
    }

    /// Gives the space of what was removed back to the file system.
    ///
    /// # Errors
    /// When the disk has no room for the copy that SQLite makes meanwhile, or another process uses
    /// the file; it is unchanged then.
    pub fn compact(&mut self) -> Result<(), StoreError> {
        self.explain(self.connection.execute_batch("VACUUM"))
    }
}
