//! Stores and reads the results of durability tests of a campaign's contenders.
//!
//! Such a result is added to an existing campaign: it shows what the contender's numbers are worth.

use model::durability::StoredDurability;
use rusqlite::{Connection, params};

use crate::error::StoreError;
use crate::row::{count, from_json, rows, to_json, to_sql_integer};
use crate::store::Store;

impl Store {
    /// Adds the result of a contender's durability test.
    ///
    /// # Errors
    /// If there is no such campaign, or the file can't be written to; then nothing is changed.
    pub fn add_durability(
        &mut self,
        campaign_id: i64,
        stored: &StoredDurability,
    ) -> Result<(), StoreError> {
        self.check_campaign(campaign_id)?;
        self.transact(|transaction| {
            let sql = "INSERT INTO durability
                (campaign_id, contender, measured_unix_ms, report_json) VALUES (?1, ?2, ?3, ?4)";
            let measured = to_sql_integer(stored.measured_unix_ms)?;
            let json = to_json(&stored.report)?;
            transaction.execute(sql, params![campaign_id, stored.contender, measured, json])?;
            Ok(())
        })
    }
}

/// Reads the results of a campaign, latest last.
pub(crate) fn read(
    connection: &Connection,
    campaign_id: i64,
) -> rusqlite::Result<Vec<StoredDurability>> {
    let sql = "SELECT * FROM durability WHERE campaign_id = ?1 ORDER BY measured_unix_ms, id";
    rows(connection, sql, [campaign_id], |row| {
        let json: String = row.get("report_json")?;
        Ok(StoredDurability {
            contender: row.get("contender")?,
            measured_unix_ms: count(row, "measured_unix_ms")?,
            report: from_json(&json, "the durability report")?,
        })
    })
}
