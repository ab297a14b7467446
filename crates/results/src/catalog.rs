//! Lists the contents of a results file: campaigns with their tags, notes and sizes.
//!
//! See [`Store::list`]. Notes and tags are the only user-written content of a results file; adding
//! one never replaces another, so a typo loses nothing.

use model::CampaignLine;
use rusqlite::{Connection, params};

use crate::error::StoreError;
use crate::identity;
use crate::row::{count, header, rows, to_sql_integer};
use crate::store::Store;
use crate::tree::{ROOT, Table, Tree};

/// Maximum length of a tag in characters.
pub(crate) const TAG_LENGTH_MAX: usize = 64;

/// Maximum length of a note in characters, so that nobody stores whole files as notes.
pub(crate) const NOTE_LENGTH_MAX: usize = 10_000;

/// Minimum number of runs used for estimating the size of a campaign, if it has that many.
const SIZED_RUNS_MIN: i64 = 500;

/// A note that a user attached to a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// When, in milliseconds since 1970 UTC.
    pub written_unix_ms: u64,
    /// The text of the note.
    pub text: String,
}

impl Store {
    /// Lists the campaigns, oldest first.
    ///
    /// # Errors
    /// If the file is locked by another process or damaged.
    pub fn list(&self) -> Result<Vec<CampaignLine>, StoreError> {
        let mut lines = self.explain(read_lines(&self.connection))?;
        for line in &mut lines {
            line.state = self.state_now(line.id, line.state);
        }
        Ok(lines)
    }

    /// Returns the most recently started campaign; `None` if there is none.
    pub fn latest(&self) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT max(id) FROM campaigns";
        self.explain(self.connection.query_row(sql, [], |row| row.get(0)))
    }

    /// Estimates how many bytes of the file a campaign takes, not counting SQLite's overhead. For a
    /// campaign with thousands of runs, only a sample is measured and extrapolated.
    pub fn size_bytes(&self, campaign_id: i64) -> Result<u64, StoreError> {
        self.explain(measure_size(&self.connection, campaign_id))
    }

    /// Returns the notes of a campaign, oldest first.
    pub fn notes(&self, campaign_id: i64) -> Result<Vec<Note>, StoreError> {
        self.explain(read_notes(&self.connection, campaign_id))
    }

    /// Adds a note to a campaign, after the existing ones.
    ///
    /// # Errors
    /// If there is no such campaign, the note is empty or too long, or the file can't be written
    /// to; then nothing is changed.
    pub fn add_note(&mut self, campaign_id: i64, note: &Note) -> Result<(), StoreError> {
        self.check_campaign(campaign_id)?;
        let length = note.text.chars().count();
        if note.text.trim().is_empty() || length > NOTE_LENGTH_MAX {
            let what = format!(
                "a note must have 1 to {NOTE_LENGTH_MAX} characters, but this one has {length}"
            );
            return Err(StoreError::Remark { path: self.path.clone(), what });
        }
        self.transact(|transaction| {
            let sql = "INSERT INTO notes (campaign_id, written_unix_ms, text) VALUES (?1, ?2, ?3)";
            let written = to_sql_integer(note.written_unix_ms)?;
            transaction.execute(sql, params![campaign_id, written, note.text])?;
            Ok(())
        })
    }

    /// Adds tags to a campaign and removes others. Adding an existing tag, or removing a missing
    /// one, is not an error.
    ///
    /// # Errors
    /// If there is no such campaign, a tag is not valid, or the file can't be written to; then
    /// nothing is changed.
    pub fn set_tags(
        &mut self,
        campaign_id: i64,
        add: &[String],
        remove: &[String],
    ) -> Result<(), StoreError> {
        self.check_campaign(campaign_id)?;
        for tag in add {
            if let Err(what) = check_tag(tag) {
                return Err(StoreError::Remark { path: self.path.clone(), what });
            }
        }
        self.transact(|transaction| {
            for tag in remove {
                let sql = "DELETE FROM tags WHERE campaign_id = ?1 AND tag = ?2";
                transaction.execute(sql, params![campaign_id, tag])?;
            }
            for tag in add {
                let sql = "INSERT OR IGNORE INTO tags (campaign_id, tag) VALUES (?1, ?2)";
                transaction.execute(sql, params![campaign_id, tag])?;
            }
            Ok(())
        })
    }

    /// Returns the line of one campaign in the list.
    pub fn line(&self, campaign_id: i64) -> Result<CampaignLine, StoreError> {
        for line in self.list()? {
            if line.id == campaign_id {
                return Ok(line);
            }
        }
        Err(self.no_campaign(campaign_id))
    }

    pub(crate) fn check_campaign(&self, id: i64) -> Result<(), StoreError> {
        let sql = "SELECT count(*) FROM campaigns WHERE id = ?1";
        let count: i64 = self.explain(self.connection.query_row(sql, [id], |row| row.get(0)))?;
        if count == 0 { Err(self.no_campaign(id)) } else { Ok(()) }
    }

    /// Creates the error for a campaign that is not in the file.
    pub(crate) fn no_campaign(&self, id: i64) -> StoreError {
        // The latest campaign is only a hint, so ignore an error of that query.
        let latest = self.latest().unwrap_or(None);
        StoreError::NoCampaign { path: self.path.clone(), id, latest }
    }
}

/// Sums the bytes of a campaign's values over all tables.
fn measure_size(connection: &Connection, campaign_id: i64) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM runs WHERE campaign_id = ?1";
    let runs: i64 = connection.query_row(sql, [campaign_id], |row| row.get(0))?;
    // Every n-th run is measured, and the rows below it count n times.
    let every = (runs / SIZED_RUNS_MIN).max(1);
    let sampled = format!("campaign_id = ?1 AND run_index % {every} = 0");
    let tree = Tree::own_schema();
    let mut sum = 0;
    for table in &tree.tables {
        let Some(below) = tree.below(table, ROOT, "id = ?1", "") else { continue };
        let Some(of_runs) = tree.below(table, "runs", &sampled, "") else {
            sum += sum_values(connection, table, &below, campaign_id)?;
            continue;
        };
        sum += sum_values(connection, table, &of_runs, campaign_id)? * every;
        // Rows whose link to a run is NULL, such as facts about the host: count all of them.
        for key in &table.columns {
            if key.is_loose() {
                let loose = format!("{below} AND {} IS NULL", key.name);
                sum += sum_values(connection, table, &loose, campaign_id)?;
            }
        }
    }
    Ok(sum.unsigned_abs())
}

/// Sums the bytes of the values in the rows of a table that match a condition.
fn sum_values(
    connection: &Connection,
    table: &Table,
    condition: &str,
    campaign_id: i64,
) -> rusqlite::Result<i64> {
    let lengths: Vec<_> = table
        .columns
        .iter()
        .map(|column| format!("coalesce(length({}), 0)", column.name))
        .collect();
    let name = &table.name;
    let lengths = lengths.join(" + ");
    let sql = format!("SELECT coalesce(sum({lengths}), 0) FROM {name} WHERE {condition}");
    connection.query_row(&sql, [campaign_id], |row| row.get(0))
}

fn read_lines(connection: &Connection) -> rusqlite::Result<Vec<CampaignLine>> {
    let sql = "SELECT c.*, (SELECT count(*) FROM runs r WHERE r.campaign_id = c.id) AS runs,
                   (SELECT count(*) FROM trials t JOIN runs r ON r.id = t.run_id
                    WHERE r.campaign_id = c.id) AS trials,
                   (SELECT count(*) FROM trials t JOIN runs r ON r.id = t.run_id
                    WHERE r.campaign_id = c.id AND t.state = 'failed') AS trials_failed
               FROM campaigns c ORDER BY c.id";
    let mut lines = rows(connection, sql, [], |row| {
        let campaign = header(row)?;
        Ok(CampaignLine {
            uuid: identity::read_uuid(connection, campaign.id)?,
            id: campaign.id,
            name: campaign.name,
            started_unix_ms: campaign.started_unix_ms,
            state: campaign.state,
            runs: row.get("runs")?,
            trials: row.get("trials")?,
            trials_failed: row.get("trials_failed")?,
            tags: Vec::new(),
        })
    })?;
    for line in &mut lines {
        let sql = "SELECT tag FROM tags WHERE campaign_id = ?1 ORDER BY tag";
        line.tags = rows(connection, sql, [line.id], |row| row.get(0))?;
    }
    Ok(lines)
}

fn read_notes(connection: &Connection, campaign_id: i64) -> rusqlite::Result<Vec<Note>> {
    let sql = "SELECT * FROM notes WHERE campaign_id = ?1 ORDER BY id";
    rows(connection, sql, [campaign_id], |row| {
        Ok(Note { written_unix_ms: count(row, "written_unix_ms")?, text: row.get("text")? })
    })
}

/// A tag appears in lists, on command lines and in file names, so it has to be one word of harmless
/// characters.
fn check_tag(tag: &str) -> Result<(), String> {
    // A leading `-` would be an option, and a leading `=` a formula in a spreadsheet.
    let begins_well = tag.starts_with(char::is_alphanumeric);
    let is_harmless = tag.chars().all(|c| c.is_alphanumeric() || "._:+=@/-".contains(c));
    if begins_well && is_harmless && tag.chars().count() <= TAG_LENGTH_MAX {
        return Ok(());
    }
    Err(format!(
        "`{}` cannot be a tag: a tag starts with a letter or digit, contains only letters, digits \
         and `._:+=@/-`, and has at most {TAG_LENGTH_MAX} characters",
        tag.escape_debug()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_one_harmless_word() {
        for tag in ["nightly", "kernel=6.12", "a/b", "ärger", "2026-11-22"] {
            assert_eq!(check_tag(tag), Ok(()));
        }
        for tag in ["", "-v", "two words", "a,b", "<b>", "=1+1", "a\n", "x".repeat(65).as_str()] {
            assert!(check_tag(tag).is_err(), "{tag}");
        }
    }
}
