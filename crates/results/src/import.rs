//! Merges the campaigns of another results file into this one, each completely or not at all.
//!
//! See [`Store::import`]. Keys are shifted, and SQLite itself copies the rest, so nothing is
//! rounded or left out; the other file is first read as for a report, which rules out damage. A
//! campaign that already exists here is recognized by its UUID and not copied twice; anything its
//! copy has gained elsewhere is added to it (`join`).

use std::path::Path;

use model::CampaignLine;
use rusqlite::{Connection, ErrorCode};

use crate::copy::{Key, copy_table};
use crate::error::{StoreError, explain};
use crate::join::{self, JoinedCounts};
use crate::store::Store;
use crate::tree::{self, ROOT, Tree};
use crate::write::next_campaign;

/// The outcome for one campaign of the other file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The campaign in the other file.
    pub from: CampaignLine,
    /// The campaign in this file.
    pub to: Merged,
}

/// The result of importing a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// It was copied and has this number here.
    New(i64),
    /// It already existed.
    Known {
        /// Its number here.
        id: i64,
        /// What was added to a campaign that already existed.
        gained: JoinedCounts,
    },
}

impl Store {
    /// Copies the campaigns of another results file that do not exist here, and adds new content to
    /// those that do; importing the same file again changes nothing.
    ///
    /// # Errors
    /// If the other file is this one, is not a results file, is damaged, or has content unknown to
    /// this version; if a campaign in both files is being run here; or if this file can't be
    /// written to. Campaigns copied before that are kept.
    pub fn import(&mut self, other: &Path) -> Result<Vec<Imported>, StoreError> {
        self.import_some(other, |_| true)
    }

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

    /// The same with only the campaigns that are wanted.
    pub(crate) fn import_some(
        &mut self,
        other: &Path,
        is_wanted: impl Fn(&CampaignLine) -> bool,
    ) -> Result<Vec<Imported>, StoreError> {
        if let (Ok(ours), Ok(theirs)) = (self.path.canonicalize(), other.canonicalize())
            && ours == theirs
        {
            return Err(StoreError::IntoItself(self.path.clone()));
        }
        let source = Self::open_existing(other)?;
        source.refuse_unknown()?;
        let mut lines = source.list()?;
        lines.retain(is_wanted);
        // Each campaign is first read as for a report, which finds damage before anything is
        // copied.
        for line in &lines {
            source.load(line.id)?;
        }
        let Some(name) = other.to_str() else {
            return Err(StoreError::PathNotText(other.to_owned()));
        };
        if let Err(error) = self.connection.execute("ATTACH DATABASE ?1 AS other", [name]) {
            return Err(explain(other, error));
        }
        let merged = self.merge_all(lines, other);
        // Detach even after an error, but report that error.
        let detached = self.connection.execute_batch("DETACH DATABASE other");
        let merged = merged?;
        self.explain(detached)?;
        Ok(merged)
    }

    /// Merges campaigns of the attached file.
    fn merge_all(
        &mut self,
        lines: Vec<CampaignLine>,
        other: &Path,
    ) -> Result<Vec<Imported>, StoreError> {
        lines.into_iter().map(|line| self.merge_campaign(line, other)).collect()
    }

    /// Refuses a file with an unknown table, whose rows would be lost.
    fn refuse_unknown(&self) -> Result<(), StoreError> {
        for made in self.explain(tree::read_objects(&self.connection))? {
            let is_known = tree::all_made().iter().any(|known| known.name == made.name);
            // Indexes and views contain no data of their own.
            if !is_known && !made.is_view && made.sql.starts_with("CREATE TABLE") {
                let path = self.path.clone();
                return Err(StoreError::UnknownTable { path, table: made.name });
            }
        }
        Ok(())
    }

    fn merge_campaign(&mut self, from: CampaignLine, other: &Path) -> Result<Imported, StoreError> {
        let known = self.list()?.into_iter().find(|line| line.uuid == from.uuid);
        if let Some(here) = &known {
            self.hold(here.id)?;
        }
        // A whole campaign may be larger than memory; if we are killed, it is rolled back.
        self.explain(self.connection.pragma_update(None, "cache_spill", true))?;
        let copied = self.transact(|transaction| match &known {
            None => Ok(Merged::New(copy_campaign(transaction, &from)?)),
            Some(here) => {
                let gained = join::join(transaction, here.id, from.id)?;
                Ok(Merged::Known { id: here.id, gained })
            }
        });
        self.explain(self.connection.pragma_update(None, "cache_spill", false))?;
        if let Some(here) = &known {
            self.release(here.id);
        }
        // Invalid rows come from the other file, so the error mentions that one.
        let what = match copied {
            Ok(to) => return Ok(Imported { from, to }),
            Err(StoreError::Sqlite { source, .. })
                if source.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) =>
            {
                format!("rows of campaign {} refer to rows that do not exist: {source}", from.id)
            }
            Err(StoreError::Damaged { what, .. }) => what,
            Err(error) => return Err(error),
        };
        Err(StoreError::Damaged { path: other.to_owned(), what })
    }
}

/// Copies one campaign from the attached file and returns its number here.
fn copy_campaign(connection: &Connection, from: &CampaignLine) -> rusqlite::Result<i64> {
    let tree = Tree::own_schema();
    let id = next_campaign(connection)?;
    let mut keys = vec![(ROOT, Key::Shifted(id - from.id))];
    let is_root = format!("id = {}", from.id);
    for table in &tree.tables {
        let below = tree.below(table, ROOT, &is_root, "other.");
        let below = below.expect("every table refers to a campaign");
        copy_table(connection, table, &below, &mut keys)?;
    }
    Ok(id)
}
