//! Copies the rows of one table from the attached file and converts their keys.
//!
//! See [`copy_table`]. Row numbers are only valid within their file: a [`Key`] describes the
//! conversion for one table, and the list of tables copied so far gives it for the tables that
//! refer to them.

use rusqlite::Connection;

use crate::row::damaged_value;
use crate::tree::{Table, may_lack};

/// How the keys of a table change when copied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key {
    /// Add this offset.
    Shifted(i64),
    /// Use the key of the run with the same index: in campaign `here` for one in campaign `from`.
    SameRun { here: i64, from: i64 },
}

impl Key {
    /// Returns the SQL expression for a column with such a key.
    fn sql_value(self, column: &str) -> String {
        match self {
            Self::Shifted(by) => format!("{column} + {by}"),
            Self::SameRun { here, from } => format!(
                "(SELECT h.id FROM main.runs h JOIN other.runs o ON o.run_index = h.run_index
                  WHERE h.campaign_id = {here} AND o.campaign_id = {from} AND o.id = {column})"
            ),
        }
    }
}

/// The key conversions of the tables copied so far, by table name.
pub(crate) type Keys<'a> = Vec<(&'a str, Key)>;

/// Copies the rows of a table that match the condition, after the existing ones; returns how many
/// there were.
pub(crate) fn copy_table<'a>(
    connection: &Connection,
    table: &'a Table,
    below: &str,
    keys: &mut Keys<'a>,
) -> rusqlite::Result<usize> {
    if may_lack(connection, "other", &table.name)? {
        return Ok(0);
    }
    if find_key(keys, &table.name).is_none() {
        keys.push((&table.name, Key::Shifted(key_shift(connection, table, below)?)));
    }
    let mut names = Vec::new();
    let mut values = Vec::new();
    for column in &table.columns {
        let key = match &column.parent {
            Some(parent) => find_key(keys, parent),
            None if column.name == "id" => find_key(keys, &table.name),
            None => None,
        };
        names.push(column.name.clone());
        values.push(match key {
            Some(key) => key.sql_value(&column.name),
            None => column.name.clone(),
        });
    }
    let names = names.join(", ");
    let values = values.join(", ");
    let name = &table.name;
    let sql = format!(
        "INSERT INTO main.{name} ({names}) SELECT {values} FROM other.{name} WHERE {below}"
    );
    connection.execute(&sql, [])
}

fn find_key(keys: &Keys<'_>, name: &str) -> Option<Key> {
    keys.iter().find(|(known, _)| *known == name).map(|(_, key)| *key)
}

/// Returns the offset for the keys of a table, so that they follow the existing ones.
fn key_shift(connection: &Connection, table: &Table, below: &str) -> rusqlite::Result<i64> {
    if table.columns.iter().all(|column| column.name != "id") {
        return Ok(0);
    }
    let name = &table.name;
    let sql = format!(
        "SELECT (SELECT coalesce(max(id), 0) FROM main.{name}),
                (SELECT coalesce(min(id), 1) FROM other.{name} WHERE {below})"
    );
    let keys: (i64, i64) = connection.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    // The smallest key of the other file becomes the one after the largest key here.
    if let Some(next) = keys.0.checked_add(1)
        && let Some(shift) = next.checked_sub(keys.1)
    {
        return Ok(shift);
    }
    Err(damaged_value(format!("the keys of {name} leave no room for more rows")))
}
