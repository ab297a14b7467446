//! Merging the campaigns of another results file into this one, each whole or not at all.
//!
//! [`Store::import`] is the way in. Keys are shifted, the rest is copied by SQLite itself, so
//! nothing is rounded or left out; the other file is read first as for a report, which rules out
//! what is damaged. A campaign that is here already is known by its identity and not taken twice;
//! what its copy has gained elsewhere is joined to it (`join`).

use std::path::Path;

use model::CampaignLine;
use rusqlite::{Connection, ErrorCode, params};

use crate::copy::{Key, copy_table};
use crate::error::{StoreError, explain};
use crate::join::{self, Gained};
use crate::store::Store;
use crate::tree::{self, ROOT, Tree};
use crate::write::next_campaign;

/// The outcome for one campaign of the other file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The campaign as it stands in the other file.
    pub from: CampaignLine,
    /// How it stands here.
    pub to: Merged,
}

/// How an imported campaign stands in the file that took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// It was copied and has this number here.
    New(i64),
    /// It was here already.
    Known {
        /// Its number here.
        id: i64,
        /// The additions to a campaign that was here already.
        gained: Gained,
    },
}

impl Store {
    /// Copies the campaigns of another results file that are not here yet, and joins what is new
    /// to those that are; once more of the same changes nothing.
    ///
    /// # Errors
    /// When the other file is this one, is no results file, is damaged, or has content that this
    /// dfsbench does not know; when a campaign of both is being made here; or when this file can't
    /// be written to. What was copied before stays.
    pub fn import(&mut self, other: &Path) -> Result<Vec<Imported>, StoreError> {
        let same = [&self.path, other].map(|path| path.canonicalize().ok());
        if same[0].is_some() && same[0] == same[1] {
            return Err(StoreError::IntoItself(self.path.clone()));
        }
        let source = Self::open_existing(other)?;
        source.refuse_unknown()?;
        let lines = source.list()?;
        for line in &lines {
            source.load(line.id)?;
        }
        let attach = |store: &Self| {
            let name = other.to_str().ok_or_else(|| StoreError::PathNotText(other.to_owned()))?;
            let sql = "ATTACH DATABASE ?1 AS other";
            store.connection.execute(sql, [name]).map_err(|error| explain(other, error))
        };
        attach(self)?;
        let merged: Result<Vec<Imported>, StoreError> =
            lines.into_iter().map(|line| self.merge(line, other)).collect();
        let detached = self.connection.execute_batch("DETACH DATABASE other");
        merged.and_then(|merged| {
            detached.map_err(|error| explain(&self.path, error)).map(|()| merged)
        })
    }

    /// A table that this program does not know, with rows in it, would be lost.
    fn refuse_unknown(&self) -> Result<(), StoreError> {
        let unknown = || {
            for made in tree::made(&self.connection)? {
                let known = tree::all_made().iter().any(|known| known.name == made.name);
                if known || made.is_view || !made.sql.starts_with("CREATE TABLE") {
                    continue;
                }
                return Ok(Some(made.name));
            }
            Ok(None)
        };
        match unknown().map_err(|error| explain(&self.path, error))? {
            None => Ok(()),
            Some(table) => Err(StoreError::UnknownTable { path: self.path.clone(), table }),
        }
    }

    fn merge(&mut self, from: CampaignLine, other: &Path) -> Result<Imported, StoreError> {
        let known = self.list()?.into_iter().find(|line| line.uuid == from.uuid);
        if let Some(here) = &known {
            self.hold(here.id)?;
        }
        let spill =
            |store: &Self, on: bool| store.connection.pragma_update(None, "cache_spill", on);
        // A whole campaign may be larger than memory; a kill meanwhile is rolled back.
        spill(self, true).map_err(|error| explain(&self.path, error))?;
        let copied = self.transact(|transaction| match &known {
            None => copy_campaign(transaction, &from).map(Merged::New),
            Some(here) => join::join(transaction, here.id, from.id)
                .map(|gained| Merged::Known { id: here.id, gained }),
        });
        spill(self, false).map_err(|error| explain(&self.path, error))?;
        if let Some(here) = &known {
            self.release(here.id);
        }
        let of_other = |what| StoreError::Damaged { path: other.to_owned(), what };
        let to = copied.map_err(|error| match error {
            StoreError::Sqlite { source, .. }
                if source.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) =>
            {
                of_other(format!("rows of campaign {} lead nowhere: {source}", from.id))
            }
            StoreError::Damaged { what, .. } => of_other(what),
            error => error,
        })?;
        Ok(Imported { from, to })
    }
}

/// Copies one campaign from the attached file and returns its number here.
fn copy_campaign(connection: &Connection, from: &CampaignLine) -> rusqlite::Result<i64> {
    let tree = Tree::of(connection, "other")?;
    let id = next_campaign(connection)?;
    let mut keys = vec![(ROOT, Key::Shifted(id - from.id))];
    let is_root = format!("id = {}", from.id);
    for table in &tree.tables {
        let below = tree.below(table, ROOT, &is_root, "other.");
        let below = below.expect("every table of the tree hangs on a campaign");
        copy_table(connection, table, &below, &mut keys)?;
    }
    let sql = "INSERT INTO identities (campaign_id, uuid)
               SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM identities WHERE campaign_id = ?1)";
    connection.execute(sql, params![id, from.uuid])?;
    Ok(id)
}
