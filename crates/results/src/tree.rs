//! The tables of a campaign as a tree: each table and its parents, taken from the schema itself.
//!
//! [`Tree`] is the main type. Removing, merging and exporting walk it, so that a table added to the
//! schema is handled without further code. The schema is the one of this program, created in
//! memory; names from another file never end up in SQL.

use std::sync::LazyLock;

use rusqlite::types::Type;
use rusqlite::{Connection, ToSql};

use crate::row::rows;

/// The schema of a new file.
pub(crate) const SCHEMA: &str = include_str!("schema.sql");

/// Tables that files of earlier versions may lack. They only add data, so the schema version is the
/// same, and such a file is read as if they were empty.
const ADDED_LATER: [&str; 1] = ["interval_times"];

/// The root table, to which all others belong.
pub(crate) const ROOT: &str = "campaigns";

/// All tables that belong to a campaign, each after its parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub tables: Vec<Table>,
}

/// One table of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub name: String,
    pub columns: Vec<Column>,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: String,
    pub kind: Type,
    pub may_be_null: bool,
    /// The table it refers to.
    pub parent: Option<String>,
}

impl Column {
    /// Returns true if it refers to another row or is NULL.
    pub(crate) fn is_loose(&self) -> bool {
        self.may_be_null && self.parent.is_some()
    }
}

/// A statement that creates an object of the schema.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SchemaObject {
    pub name: String,
    pub sql: String,
    pub is_view: bool,
}

/// The objects created by this program's schema, in order of creation.
static KNOWN: LazyLock<(Tree, Vec<SchemaObject>)> =
    LazyLock::new(|| read_own_schema().expect("our own schema is valid"));

fn read_own_schema() -> rusqlite::Result<(Tree, Vec<SchemaObject>)> {
    let memory = Connection::open_in_memory()?;
    memory.execute_batch(SCHEMA)?;
    Ok((Tree::read(&memory)?, read_objects(&memory)?))
}

/// Returns all objects in a file's schema, except SQLite's internal ones.
pub(crate) fn read_objects(connection: &Connection) -> rusqlite::Result<Vec<SchemaObject>> {
    let sql = "SELECT name, sql, type FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid";
    rows(connection, sql, [], |row| {
        let is_view = row.get::<_, String>("type")? == "view";
        Ok(SchemaObject { name: row.get("name")?, sql: row.get("sql")?, is_view })
    })
}

/// Describes the first of our tables that is not an ordinary table: a view, a virtual table, or a
/// table with a computed column.
pub(crate) fn find_wrong_table(connection: &Connection) -> rusqlite::Result<Option<String>> {
    for found in read_objects(connection)? {
        // Names in SQLite are case-insensitive.
        let is_ours = |table: &&SchemaObject| table.name.eq_ignore_ascii_case(&found.name);
        let Some(table) = our_tables().find(is_ours) else { continue };
        let name = &table.name;
        if found.is_view {
            return Ok(Some(format!("`{name}` is a view instead of a table")));
        }
        if !found.sql.starts_with("CREATE TABLE") {
            return Ok(Some(format!("`{name}` is not an ordinary table")));
        }
        let sql = "SELECT count(*) FROM pragma_table_xinfo(?1) WHERE hidden <> 0";
        let computed: i64 = connection.query_row(sql, [name], |row| row.get(0))?;
        if computed > 0 {
            return Ok(Some(format!("the table `{name}` has a computed column")));
        }
    }
    Ok(None)
}

/// Describes the first of our tables that is missing, or that lacks one of our columns.
pub(crate) fn find_missing(connection: &Connection) -> rusqlite::Result<Option<String>> {
    for SchemaObject { name, .. } in our_tables() {
        if !has_table(connection, "main", name)? && !ADDED_LATER.contains(&name.as_str()) {
            return Ok(Some(format!("the table `{name}` is missing")));
        }
    }
    for table in &Tree::own_schema().tables {
        if may_lack(connection, "main", &table.name)? {
            continue;
        }
        let found = read_columns(connection, &table.name)?;
        for Column { name, .. } in &table.columns {
            if !found.iter().any(|column| column.name.eq_ignore_ascii_case(name)) {
                return Ok(Some(format!("the table `{}` has no column `{name}`", table.name)));
            }
        }
    }
    Ok(None)
}

/// Adds the tables that a file of an earlier version lacks. If it is only read, they are added to
/// this connection, which sees them as if they were in the file.
pub(crate) fn add_later_tables(connection: &Connection) -> rusqlite::Result<()> {
    let is_readonly = connection.is_readonly("main")?;
    for name in ADDED_LATER {
        if has_table(connection, "main", name)? {
            continue;
        }
        let belongs = |made: &&SchemaObject| made.name.starts_with(name) && !made.is_view;
        for SchemaObject { sql, .. } in all_made().iter().filter(belongs) {
            match sql.strip_prefix("CREATE TABLE ") {
                Some(table) if is_readonly => {
                    connection.execute_batch("PRAGMA temp_store = MEMORY")?;
                    connection.execute_batch(&format!("CREATE TEMP TABLE {table}"))?;
                }
                None if is_readonly => {}
                _ => connection.execute_batch(sql)?,
            }
        }
    }
    Ok(())
}

/// Returns true if the file lacks a table that was added later.
pub(crate) fn lacks_later_tables(connection: &Connection) -> rusqlite::Result<bool> {
    for name in ADDED_LATER {
        if !has_table(connection, "main", name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if a file without this table is valid and lacks it. `database` is `main` or the
/// name of an attached file.
pub(crate) fn may_lack(
    connection: &Connection,
    database: &str,
    table: &str,
) -> rusqlite::Result<bool> {
    Ok(ADDED_LATER.contains(&table) && !has_table(connection, database, table)?)
}

fn has_table(connection: &Connection, database: &str, name: &str) -> rusqlite::Result<bool> {
    let sql = format!("SELECT count(*) FROM {database}.sqlite_schema WHERE lower(name) = ?1");
    connection.query_row(&sql, [name], |row| Ok(row.get::<_, i64>(0)? > 0))
}

fn our_tables() -> impl Iterator<Item = &'static SchemaObject> {
    all_made().iter().filter(|made| made.sql.starts_with("CREATE TABLE"))
}

/// Returns the objects created by this program's schema.
pub(crate) fn all_made() -> &'static [SchemaObject] {
    &KNOWN.1
}

impl Tree {
    /// The tables of this program's schema.
    pub(crate) fn own_schema() -> &'static Self {
        &KNOWN.0
    }

    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid";
        let names: Vec<String> = rows(connection, sql, [], |row| row.get(0))?;
        let mut tree = Self { tables: Vec::new() };
        for name in names {
            let columns = read_columns(connection, &name)?;
            if name == ROOT || columns.iter().any(|column| column.parent.is_some()) {
                tree.tables.push(Table { name, columns });
            }
        }
        Ok(tree)
    }

    /// Builds a WHERE clause that selects the rows of a table that belong to the rows of `root`
    /// matching `condition`; `None` if the table does not belong to `root`. `database` is the
    /// prefix of table names: `main.` or that of an attached file.
    pub(crate) fn below(
        &self,
        table: &Table,
        root: &str,
        condition: &str,
        database: &str,
    ) -> Option<String> {
        if table.name == root {
            return Some(condition.to_owned());
        }
        // A non-null key leads to all rows; a nullable one may not.
        let mut columns: Vec<&Column> = table.columns.iter().collect();
        columns.sort_by_key(|column| column.may_be_null);
        for column in columns {
            for parent in &self.tables {
                if column.parent.as_ref() == Some(&parent.name)
                    && let Some(of_parent) = self.below(parent, root, condition, database)
                {
                    let key = &column.name;
                    let parent = &parent.name;
                    return Some(format!(
                        "{key} IN (SELECT id FROM {database}{parent} WHERE {of_parent})"
                    ));
                }
            }
        }
        None
    }

    /// Deletes the rows of `root` that match the condition, with all rows that belong to them.
    pub(crate) fn delete(
        &self,
        connection: &Connection,
        root: &str,
        condition: &str,
        params: &[&dyn ToSql],
    ) -> rusqlite::Result<()> {
        // The last table first: foreign keys prevent deleting a row that others refer to.
        for table in self.tables.iter().rev() {
            if let Some(rows) = self.below(table, root, condition, "") {
                let sql = format!("DELETE FROM {} WHERE {rows}", table.name);
                connection.execute(&sql, params)?;
            }
        }
        Ok(())
    }
}

fn read_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let sql = "SELECT c.name, c.type, c.\"notnull\" = 0 AND c.pk = 0 AS may_be_null,
                   (SELECT f.\"table\" FROM pragma_foreign_key_list(?1) f
                    WHERE f.\"from\" = c.name) AS parent
               FROM pragma_table_info(?1) c ORDER BY c.cid";
    rows(connection, sql, [table], |row| {
        let kind = match row.get::<_, String>("type")?.as_str() {
            "INTEGER" => Type::Integer,
            "REAL" => Type::Real,
            "BLOB" => Type::Blob,
            _ => Type::Text,
        };
        Ok(Column {
            name: row.get("name")?,
            kind,
            may_be_null: row.get("may_be_null")?,
            parent: row.get("parent")?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_tables_after_their_parents() {
        let tree = Tree::own_schema();
        let alone: Vec<&str> = all_made()
            .iter()
            .filter(|made| made.sql.starts_with("CREATE TABLE"))
            .map(|made| made.name.as_str())
            .filter(|name| tree.tables.iter().all(|table| table.name != *name))
            .collect();
        assert_eq!(alone, ["removed"], "this table would not be removed, merged or exported");
        for (at, table) in tree.tables.iter().enumerate() {
            assert!(tree.below(table, ROOT, "id = 1", "").is_some(), "{}", table.name);
            for parent in table.columns.iter().filter_map(|column| column.parent.as_ref()) {
                assert!(tree.tables[..at].iter().any(|t| t.name == *parent), "{}", table.name);
            }
        }
    }

    #[test]
    fn finds_rows_by_required_keys() {
        let tree = Tree::own_schema();
        let below = |name: &str, root| {
            let table = tree.tables.iter().find(|table| table.name == name).unwrap();
            tree.below(table, root, "x", "")
        };
        assert_eq!(
            below("facts", "campaigns").unwrap(),
            "campaign_id IN (SELECT id FROM campaigns WHERE x)"
        );
        assert_eq!(
            below("facts", "trials").unwrap(),
            "trial_id IN (SELECT id FROM trials WHERE x)"
        );
        assert_eq!(below("settings", "trials"), None);
    }
}
