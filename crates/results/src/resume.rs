//! Continues a campaign that was stopped or killed.
//!
//! See [`Store::reopen`]: it removes interrupted trials, which will be repeated, and returns the
//! stored ones. Completed and failed trials are never changed.

use rusqlite::{Transaction, params};

use crate::error::StoreError;
use crate::store::Store;
use crate::tree::Tree;

/// The stored trials of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTrials {
    /// Key of the run, for [`Store::add_trial`].
    pub run_id: i64,
    /// Its trials in the order in which they were run: number within the run, and whether it
    /// failed.
    pub trials: Vec<(u32, bool)>,
}

impl Store {
    /// Marks a campaign as running, and returns the stored trials of each of its runs.
    ///
    /// # Errors
    /// If another process is running the campaign, the file can't be written to, is locked, or the
    /// disk is full; then nothing is changed.
    pub fn reopen(&mut self, campaign_id: i64) -> Result<Vec<StoredTrials>, StoreError> {
        self.hold(campaign_id)?;
        self.transact(|transaction| {
            remove_interrupted(transaction, campaign_id)?;
            let sql = "UPDATE campaigns SET state = 'running' WHERE id = ?1";
            transaction.execute(sql, [campaign_id])?;
            // After the removal: interrupted trials will be repeated.
            read_standing(transaction, campaign_id)
        })
    }
}

fn remove_interrupted(transaction: &Transaction<'_>, campaign_id: i64) -> rusqlite::Result<()> {
    let stopped = "state = 'interrupted' AND run_id IN
                       (SELECT id FROM runs WHERE campaign_id = ?1)";
    Tree::own_schema().delete(transaction, "trials", stopped, &[&campaign_id])
}

fn read_standing(
    transaction: &Transaction<'_>,
    campaign_id: i64,
) -> rusqlite::Result<Vec<StoredTrials>> {
    let sql = "SELECT id FROM runs WHERE campaign_id = ?1 ORDER BY run_index";
    let mut runs = transaction.prepare_cached(sql)?;
    let keys = runs.query_map([campaign_id], |row| row.get(0))?;
    let mut trials = transaction.prepare_cached(
        "SELECT trial_index, state = 'failed' FROM trials WHERE run_id = ?1 ORDER BY position",
    )?;
    let mut standing = Vec::new();
    for key in keys {
        let run_id: i64 = key?;
        let made = trials.query_map(params![run_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        standing.push(StoredTrials { run_id, trials: made.collect::<rusqlite::Result<_>>()? });
    }
    Ok(standing)
}
