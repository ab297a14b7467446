//! Going on with a campaign that was stopped or killed.
//!
//! [`Store::reopen`] is the way in: it removes the trials that somebody stopped, since they are to
//! be made again, and says what is there already. Done and failed trials are never touched.

use rusqlite::{Transaction, params};

use crate::error::StoreError;
use crate::store::Store;
use crate::tree::Tree;

/// The stored trials of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Key of the run, for [`Store::add_trial`].
    pub run_id: i64,
    /// Its trials, in the order in which they were made: number within the run, and whether it
    /// failed.
    pub trials: Vec<(u32, bool)>,
}

impl Store {
    /// Makes a campaign one that runs again, and says what is stored of each of its runs.
    ///
    /// # Errors
    /// When another process makes the campaign, the file can't be written to, is locked, or the
    /// disk is full; nothing is changed then.
    pub fn reopen(&mut self, campaign_id: i64) -> Result<Vec<Standing>, StoreError> {
        self.hold(campaign_id)?;
        self.transact(|transaction| {
            remove_stopped(transaction, campaign_id)?;
            let sql = "UPDATE campaigns SET state = 'running' WHERE id = ?1";
            transaction.execute(sql, [campaign_id])?;
            read_standing(transaction, campaign_id)
        })
    }
}

fn remove_stopped(transaction: &Transaction<'_>, campaign_id: i64) -> rusqlite::Result<()> {
    let stopped = "state = 'interrupted' AND run_id IN
                       (SELECT id FROM runs WHERE campaign_id = ?1)";
    Tree::known().delete(transaction, "trials", stopped, &[&campaign_id])
}

fn read_standing(
    transaction: &Transaction<'_>,
    campaign_id: i64,
) -> rusqlite::Result<Vec<Standing>> {
    let sql = "SELECT id FROM runs WHERE campaign_id = ?1 ORDER BY run_index";
    let mut runs = transaction.prepare_cached(sql)?;
    let keys = runs.query_map([campaign_id], |row| row.get(0))?;
    let mut trials = transaction.prepare_cached(
        "SELECT trial_index, state = 'failed' FROM trials WHERE run_id = ?1 ORDER BY position",
    )?;
    keys.map(|key| {
        let run_id: i64 = key?;
        let made = trials.query_map(params![run_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Standing { run_id, trials: made.collect::<rusqlite::Result<_>>()? })
    })
    .collect()
}
