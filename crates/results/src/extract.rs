//! Copies one campaign to a results file of its own.
//!
//! See [`Store::extract`]. The file depends only on the campaign: not on its number, nor on the
//! other campaigns of the file it comes from.

use std::path::Path;

use crate::error::StoreError;
use crate::store::Store;

impl Store {
    /// Copies a campaign to a new results file, in which it is campaign 1.
    ///
    /// # Errors
    /// If there is no such campaign, it can't be read, or the new file can't be written.
    pub fn extract(&self, campaign_id: i64, path: &Path) -> Result<(), StoreError> {
        // The error of a missing campaign names the latest one.
        self.line(campaign_id)?;
        let mut extracted = Self::open_or_create(path)?;
        extracted.import_some(&self.path, |line| line.id == campaign_id)?;
        // Pages are in the order of the tables then, not in the order of writing.
        extracted.compact()
    }
}
